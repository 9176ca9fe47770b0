"""The control messages of the engine as Python values: the counterpart of runtime/control.h.

Numbers are little-endian; keys and parameters are big-endian and padded to whole bytes.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Protocol, TypeVar

from switches.api import SwitchError, SwitchErrorCode

PROTOCOL = 1
NO_ACTION = 0xFFFF

Item = TypeVar("Item")


class Channel(Protocol):
    """One request, one reply, in order."""

    def request(self, message: bytes) -> bytes:
        """Raises SwitchError(UNAVAILABLE) when the switch is gone or does not answer."""


class Op(IntEnum):
    HELLO = 1
    INFO = 2
    INSERT = 3
    MODIFY = 4
    DELETE = 5
    SET_DEFAULT = 6
    RESET_DEFAULT = 7
    READ_ROWS = 8
    READ_DEFAULT = 9
    READ_DIRECT = 10
    WRITE_DIRECT = 11
    READ_COUNTER = 12
    WRITE_COUNTER = 13
    READ_REGISTER = 14
    WRITE_REGISTER = 15
    CONFIGURE_PORT = 16
    PAUSE_QUEUE = 17
    SET_PORT = 18
    READ_PORTS = 19
    READ_SWITCH = 20
    RELOAD = 21
    SET_MULTICAST = 22
    SET_SESSION = 23
    READ_LATENESS = 24


STATUS = tuple(SwitchErrorCode)
"""Status 1 is the first of these: enum control_status has their order."""


class Reader:
    """The body of a reply.  Raises SwitchError(INTERNAL) where it is shorter than it should be."""

    __slots__ = ("_at", "_buf")

    def __init__(self, buf: bytes, at: int = 0) -> None:
        self._buf = buf
        self._at = at

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        try:
            values = layout.unpack_from(self._buf, self._at)
        except struct.error as error:
            raise SwitchError(SwitchErrorCode.INTERNAL, f"short reply: {error}") from None
        self._at += layout.size
        return values

    def number(self, size: int) -> int:
        return int.from_bytes(self.bytes(size), "little")

    def bytes(self, size: int) -> bytes:
        if self._at + size > len(self._buf):
            raise SwitchError(SwitchErrorCode.INTERNAL, "short reply")
        self._at += size
        return self._buf[self._at - size : self._at]

    def string(self) -> str:
        return self.bytes(self.number(2)).decode()

    @property
    def more(self) -> bool:
        return self._at < len(self._buf)


def ask(channel: Channel, op: Op, body: bytes = b"") -> Reader:
    """One request.  Raises SwitchError with the code and the message of a refusal."""
    reply = channel.request(bytes([op]) + body)
    if not reply or reply[0] > len(STATUS):
        raise SwitchError(SwitchErrorCode.INTERNAL, f"{op.name}: no reply of this protocol")
    if reply[0]:
        message = reply[1:].decode(errors="replace")
        raise SwitchError(STATUS[reply[0] - 1], f"{op.name.lower()}: {message}")
    return Reader(reply, 1)


def ask_list(
    channel: Channel, op: Op, prefix: bytes, item: Callable[[Reader], Item], *, first_size: int = 4
) -> Iterator[Item]:
    """All items of a list that may take several replies."""
    first = 0
    while True:
        reply = ask(channel, op, prefix + first.to_bytes(first_size, "little"))
        first = reply.number(4)
        if first and not reply.more:
            raise SwitchError(SwitchErrorCode.INTERNAL, f"{op.name}: an item fits no reply")
        while reply.more:
            yield item(reply)
        if not first:
            return


class MatchKind(IntEnum):
    EXACT = 0
    LPM = 1
    TERNARY = 2
    RANGE = 3
    OPTIONAL = 4


@dataclass(frozen=True, slots=True)
class Field:
    """A match field, or a parameter of an action (kind EXACT)."""

    name: str
    bits: int
    kind: MatchKind = MatchKind.EXACT

    @property
    def size(self) -> int:
        """Bytes in a key or parameter list."""
        return (self.bits + 7) // 8


@dataclass(frozen=True, slots=True)
class Action:
    index: int
    name: str
    params: tuple[Field, ...]

    @property
    def param_bytes(self) -> int:
        return sum(param.size for param in self.params)


@dataclass(frozen=True, slots=True)
class Table:
    index: int
    name: str
    size: int
    fields: tuple[Field, ...]
    actions: tuple[int, ...]
    const_entries: bool
    const_default: bool
    direct_counter: bool

    @property
    def key_bytes(self) -> int:
        return sum(field.size for field in self.fields)

    @property
    def has_priority(self) -> bool:
        return any(field.kind >= MatchKind.TERNARY for field in self.fields)


@dataclass(frozen=True, slots=True)
class Array:
    """A counter (bits 0) or a register."""

    index: int
    name: str
    size: int
    bits: int = 0
    direct: bool = False


@dataclass(frozen=True)
class ProgramInfo:
    """What the program in a switch calls things, and their numbers there."""

    name: str
    ports: int
    tables: tuple[Table, ...]
    actions: tuple[Action, ...]
    counters: tuple[Array, ...]
    registers: tuple[Array, ...]

    @cached_property
    def table_by_name(self) -> dict[str, Table]:
        return {table.name: table for table in self.tables}

    @cached_property
    def counter_by_name(self) -> dict[str, Array]:
        return {counter.name: counter for counter in self.counters if not counter.direct}

    @cached_property
    def register_by_name(self) -> dict[str, Array]:
        return {register.name: register for register in self.registers}


def read_program(channel: Channel) -> ProgramInfo:
    """Asks a switch what it runs.  Raises SwitchError where it speaks another protocol."""
    hello = ask(channel, Op.HELLO)
    protocol, ports, _seed = hello.unpack(struct.Struct("<HIQ"))
    if protocol != PROTOCOL:
        raise SwitchError(
            SwitchErrorCode.FAILED_PRECONDITION, f"control protocol {protocol}, wanted {PROTOCOL}"
        )
    name = hello.string()

    def items(kind: int, item: Callable[[Reader], Item]) -> list[Item]:
        return list(ask_list(channel, Op.INFO, bytes([kind]), item))

    return ProgramInfo(
        name=name,
        ports=ports,
        tables=tuple(make(i) for i, make in enumerate(items(0, _table))),
        actions=tuple(make(i) for i, make in enumerate(items(1, _action))),
        counters=tuple(make(i) for i, make in enumerate(items(2, _counter))),
        registers=tuple(make(i) for i, make in enumerate(items(3, _register))),
    )


def _table(r: Reader) -> Callable[[int], Table]:
    name, size, flags = r.string(), r.number(4), r.number(1)
    fields = tuple(_match_field(r) for _ in range(r.number(2)))
    actions = tuple(r.number(2) for _ in range(r.number(2)))
    return lambda index: Table(
        index, name, size, fields, actions, bool(flags & 1), bool(flags & 2), bool(flags & 4)
    )


def _match_field(r: Reader) -> Field:
    name, kind, bits = r.string(), MatchKind(r.number(1)), r.number(2)
    return Field(name, bits, kind)


def _action(r: Reader) -> Callable[[int], Action]:
    name = r.string()
    params = tuple(Field(r.string(), r.number(2)) for _ in range(r.number(2)))
    return lambda index: Action(index, name, params)


def _counter(r: Reader) -> Callable[[int], Array]:
    name, size, direct, _table = r.string(), r.number(4), bool(r.number(1)), r.number(2)
    return lambda index: Array(index, name, size, direct=direct)


def _register(r: Reader) -> Callable[[int], Array]:
    name, size, bits = r.string(), r.number(4), r.number(2)
    return lambda index: Array(index, name, size, bits)
