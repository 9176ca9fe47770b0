"""The few words of Thrift that BMv2's own control interface speaks, over a stream handed in.

BMv2 offers queue rates, queue depths and registers on Thrift only (`thrift_src/standard.thrift`,
`targets/simple_switch/thrift/simple_switch.thrift` of p4lang/behavioral-model), in the strict
binary protocol with multiplexed services.  Structs arrive as dicts of field number to value.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

STRICT_VERSION = 0x8001_0000
REPLY_BYTES_MAX = 16 << 20
"""Longest string or list taken from the other side; a register of 512 cells is 5 kB."""


class Type(IntEnum):
    STOP = 0
    BOOL = 2
    BYTE = 3
    DOUBLE = 4
    I16 = 6
    I32 = 8
    I64 = 10
    STRING = 11
    STRUCT = 12
    MAP = 13
    SET = 14
    LIST = 15


class MessageType(IntEnum):
    CALL = 1
    REPLY = 2
    EXCEPTION = 3


_FIXED = {
    Type.BOOL: struct.Struct(">?"),
    Type.BYTE: struct.Struct(">b"),
    Type.DOUBLE: struct.Struct(">d"),
    Type.I16: struct.Struct(">h"),
    Type.I32: struct.Struct(">i"),
    Type.I64: struct.Struct(">q"),
}


class Stream(Protocol):
    """A connected byte stream, as a socket is one."""

    def sendall(self, data: bytes, /) -> None: ...

    def recv(self, size: int, /) -> bytes: ...

    def close(self) -> None: ...


class ThriftError(Exception):
    """The other side raised, or what it sent is not Thrift."""


@dataclass(frozen=True, slots=True)
class Argument:
    type: Type
    value: int | str


def i32(value: int) -> Argument:
    return Argument(Type.I32, value)


def i64(value: int) -> Argument:
    return Argument(Type.I64, value)


def text(value: str) -> Argument:
    return Argument(Type.STRING, value)


class ThriftClient:
    """Synchronous calls, one at a time."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._sequence = 0

    def call(self, service: str, method: str, *arguments: Argument) -> Any:
        """Gives the result, None for void.  Raises ThriftError, OSError."""
        self._sequence += 1
        self._stream.sendall(encode_call(f"{service}:{method}", self._sequence, arguments))
        kind, name, sequence = self._message_begin()
        if name != method or sequence != self._sequence:
            raise ThriftError(f"{method}: the answer is that of {name} ({sequence})")
        result = self._value(Type.STRUCT)
        if kind is MessageType.EXCEPTION:
            raise ThriftError(f"{method}: {result.get(1, 'exception without a text')}")
        declared = {number: value for number, value in result.items() if number != 0}
        if declared:
            raise ThriftError(f"{method}: refused with {declared}")
        return result.get(0)

    def close(self) -> None:
        self._stream.close()

    def _message_begin(self) -> tuple[MessageType, str, int]:
        version: int = self._value(Type.I32) & 0xFFFF_FFFF
        if version & 0xFFFF_0000 != STRICT_VERSION:
            raise ThriftError(f"not the strict binary protocol: {version:#x}")
        return MessageType(version & 0xFF), self._value(Type.STRING), self._value(Type.I32)

    def _value(self, kind: Type) -> Any:
        match kind:
            case Type.STRING:
                return self._read(self._size()).decode(errors="replace")
            case Type.STRUCT:
                return self._struct()
            case Type.LIST | Type.SET:
                item = Type(self._value(Type.BYTE))
                return [self._value(item) for _ in range(self._size())]
            case Type.MAP:
                key, value = Type(self._value(Type.BYTE)), Type(self._value(Type.BYTE))
                return {self._value(key): self._value(value) for _ in range(self._size())}
            case Type.STOP:
                raise ThriftError("a value of no type")
            case _:
                layout = _FIXED[kind]
                return layout.unpack(self._read(layout.size))[0]

    def _struct(self) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        while (kind := Type(self._value(Type.BYTE))) is not Type.STOP:
            number = self._value(Type.I16)
            fields[number] = self._value(kind)
        return fields

    def _size(self) -> int:
        size: int = self._value(Type.I32)
        if not 0 <= size <= REPLY_BYTES_MAX:
            raise ThriftError(f"a length of {size}")
        return size

    def _read(self, size: int) -> bytes:
        read = b""
        while len(read) < size:
            chunk = self._stream.recv(size - len(read))
            if not chunk:
                raise ThriftError("the connection ended within an answer")
            read += chunk
        return read


def encode_call(name: str, sequence: int, arguments: tuple[Argument, ...]) -> bytes:
    """One CALL message; arguments are fields 1, 2, ..."""
    out = struct.pack(">I", STRICT_VERSION | MessageType.CALL) + _string(name)
    out += struct.pack(">i", sequence)
    for number, argument in enumerate(arguments, start=1):
        out += struct.pack(">bh", argument.type, number) + _argument(argument)
    return out + bytes((Type.STOP,))


def _argument(argument: Argument) -> bytes:
    if isinstance(argument.value, str):
        return _string(argument.value)
    return _FIXED[argument.type].pack(argument.value)


def _string(value: str) -> bytes:
    data = value.encode()
    return struct.pack(">i", len(data)) + data
