"""The control side of one engine, library or process: switches.api.Switch over messages.

A `Device` learns the names of the program from the switch itself, at first use.
"""

import struct
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from switches.api import (
    CounterValue,
    PortConfig,
    PortStats,
    QueueStats,
    SwitchError,
    SwitchErrorCode,
    TableEntry,
    UpdateType,
)
from switches.engine import rows
from switches.engine.messages import (
    Array,
    Channel,
    Op,
    ProgramInfo,
    Reader,
    Table,
    ask,
    ask_list,
    read_program,
)

Named = TypeVar("Named", Table, Array)

DROP_REASONS = (
    "ingress",
    "egress",
    "no_port",
    "no_queue",
    "no_group",
    "no_buffer",
    "too_long",
    "loop",
)
"""Losses that belong to no queue and no wire, in the order of enum drop_reason (switch.h).

`ingress` and `egress`: dropped by the program, whose own counters say why.
"""

_COUNT = struct.Struct("<QQ")
_PORT_HEAD = struct.Struct("<HI")
_PORT = struct.Struct("<HB8QB")
_QUEUE = struct.Struct("<6QIQIB")
_SWITCH = struct.Struct("<QIIIB")
_LATENESS = struct.Struct("<9Q")

_ROW_OPS = {
    UpdateType.INSERT: Op.INSERT,
    UpdateType.MODIFY: Op.MODIFY,
    UpdateType.DELETE: Op.DELETE,
}


@dataclass(frozen=True, slots=True)
class Pacing:
    """How a line kept its rate: time in use, and time lost because the switch was served late."""

    port: int
    busy_ns: int
    lost_ns: int


@dataclass(frozen=True, slots=True)
class SwitchStats:
    """`drops` by reason (DROP_REASONS); packet buffers in use now, at most, and made.

    A buffer in use is a frame inside: frames taken = frames given + drops + buffers.
    """

    now_ns: int
    drops: dict[str, int]
    buffers: int
    buffers_max: int
    buffers_made: int


@dataclass(frozen=True, slots=True)
class Lateness:
    """How late the process served its deadlines, in ns: timers, and frames given to the wire."""

    timers: int
    timer_p999_ns: int
    timer_max_ns: int
    sends: int
    send_p999_ns: int
    send_max_ns: int
    loops: int
    receive_calls: int
    send_calls: int


class Device:
    """See switches.api.Switch; besides, what only the engine can do."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._optional: dict[str, set[str]] = {}
        """By table, the ternary fields that were written as optional: they are read back so."""

    @cached_property
    def program(self) -> ProgramInfo:
        return read_program(self._channel)

    # --- tables

    def write(self, kind: UpdateType, entry: TableEntry) -> None:
        """INSERT and MODIFY of a default entry set it; DELETE gives it back to the program."""
        table = self._table(entry.table)
        if entry.is_default:
            self._write_default(kind, table, entry)
            return
        body = _u16(table.index) + rows.encode_match(table, entry)
        if kind is not UpdateType.DELETE:
            body += rows.encode_call(self.program, table, entry.action)
        ask(self._channel, _ROW_OPS[kind], body)
        fields = {field.name: field for field in table.fields}
        optional = {n for n, match in entry.match.items() if rows.is_optional(fields[n], match)}
        self._optional.setdefault(table.name, set()).update(optional)

    def _write_default(self, kind: UpdateType, table: Table, entry: TableEntry) -> None:
        if entry.match or entry.priority:
            raise rows.invalid(f"{table.name}: a default entry has no match and no priority")
        if kind is UpdateType.DELETE:
            ask(self._channel, Op.RESET_DEFAULT, _u16(table.index))
        else:
            call = rows.encode_call(self.program, table, entry.action)
            ask(self._channel, Op.SET_DEFAULT, _u16(table.index) + call)

    def read_entries(self, table: str | None = None) -> list[TableEntry]:
        tables = self.program.tables if table is None else (self._table(table),)
        return [entry for each in tables for entry in self._entries(each)]

    def _entries(self, table: Table) -> list[TableEntry]:
        entries = self._rows(table)
        found = [entry for entry, _count in entries]
        default = self._changed_default(table)
        return found if default is None else [*found, default]

    def _rows(self, table: Table) -> list[tuple[TableEntry, CounterValue]]:
        if not table.fields:
            return []
        optional = self._optional.get(table.name, set())

        def row(r: Reader) -> tuple[TableEntry, CounterValue]:
            entry = rows.decode_row(self.program, table, r, optional)
            return entry, CounterValue(*r.unpack(_COUNT))

        return list(ask_list(self._channel, Op.READ_ROWS, _u16(table.index), row))

    def _changed_default(self, table: Table) -> TableEntry | None:
        reply = ask(self._channel, Op.READ_DEFAULT, _u16(table.index))
        changed = reply.number(1)
        call = rows.decode_call(self.program, reply)
        return TableEntry(table.name, {}, call, is_default=True) if changed and call else None

    # --- counters and registers

    def read_counter(self, name: str) -> list[CounterValue]:
        counter = _find(self.program.counter_by_name, name, "counter")
        return list(
            ask_list(
                self._channel,
                Op.READ_COUNTER,
                _u16(counter.index),
                lambda r: CounterValue(*r.unpack(_COUNT)),
            )
        )

    def write_counter(self, name: str, index: int, value: CounterValue) -> None:
        counter = _find(self.program.counter_by_name, name, "counter")
        _check_index(counter, index)
        body = _pack("<HI", counter.index, index) + _count_bytes(value)
        ask(self._channel, Op.WRITE_COUNTER, body)

    def read_direct_counter(self, table: str, entry: TableEntry) -> CounterValue:
        found = self._table(table)
        if entry.is_default:
            reply = ask(self._channel, Op.READ_DEFAULT, _u16(found.index))
            reply.number(1)
            rows.decode_call(self.program, reply)
        else:
            body = _u16(found.index) + rows.encode_match(found, entry)
            reply = ask(self._channel, Op.READ_DIRECT, body)
        return CounterValue(*reply.unpack(_COUNT))

    def write_direct_counter(self, table: str, entry: TableEntry, value: CounterValue) -> None:
        found = self._table(table)
        body = _u16(found.index) + rows.encode_match(found, entry) + _count_bytes(value)
        ask(self._channel, Op.WRITE_DIRECT, body)

    def read_register(self, name: str) -> list[int]:
        register = _find(self.program.register_by_name, name, "register")
        prefix = _u16(register.index)
        return list(ask_list(self._channel, Op.READ_REGISTER, prefix, lambda r: r.number(16)))

    def write_register(self, name: str, index: int, value: int) -> None:
        register = _find(self.program.register_by_name, name, "register")
        _check_index(register, index)
        if value < 0 or value >> register.bits:
            raise rows.invalid(f"{name}: {value:#x} does not fit {register.bits} bits")
        body = _pack("<HI", register.index, index) + value.to_bytes(16, "little")
        ask(self._channel, Op.WRITE_REGISTER, body)

    # --- ports and queues

    def configure_port(self, port: int, config: PortConfig) -> None:
        queues = [_pack("<IQ", limit.packets, limit.bytes) for limit in config.queues]
        delays = config.egress_delay_ns, config.ingress_delay_ns
        body = _pack("<HQQQB", port, config.rate_bps, *delays, len(queues))
        ask(self._channel, Op.CONFIGURE_PORT, body + b"".join(queues))

    def pause_queue(self, port: int, priority: int, paused: bool) -> None:
        ask(self._channel, Op.PAUSE_QUEUE, _pack("<HBB", port, priority, paused))

    def set_port(self, port: int, up: bool) -> None:
        """As if the carrier of the port had come or gone."""
        ask(self._channel, Op.SET_PORT, _pack("<HB", port, up))

    def port_stats(self) -> list[PortStats]:
        return [stats for stats, _pacing in self._ports()]

    def pacing(self) -> list[Pacing]:
        return [pacing for _stats, pacing in self._ports()]

    def _ports(self) -> list[tuple[PortStats, Pacing]]:
        return list(ask_list(self._channel, Op.READ_PORTS, b"", _port, first_size=2))

    # --- the switch as a whole

    def switch_stats(self) -> SwitchStats:
        reply = ask(self._channel, Op.READ_SWITCH)
        now_ns, buffers, buffers_max, made, count = reply.unpack(_SWITCH)
        drops = {name: reply.number(8) for name in DROP_REASONS[:count]}
        return SwitchStats(now_ns, drops, buffers, buffers_max, made)

    def lateness(self, *, clear: bool = False) -> Lateness:
        """Of a switch process; `clear` starts a new measurement.  The library is never late."""
        reply = ask(self._channel, Op.READ_LATENESS, bytes([clear]))
        return Lateness(*reply.unpack(_LATENESS))

    def reset(self) -> None:
        """See switches.api.Resettable; multicast groups and clone sessions go too."""
        ask(self._channel, Op.RELOAD)

    def set_multicast_group(self, group: int, replicas: list[tuple[int, int]]) -> None:
        """`replicas`: (port, rid).  An empty list deletes the group."""
        ask(self._channel, Op.SET_MULTICAST, _group(_pack("<I", group), replicas))

    def set_clone_session(
        self, session: int, replicas: list[tuple[int, int]], truncate_to: int = 0
    ) -> None:
        """`truncate_to`: bytes of the clone to keep, 0 = all.  No replicas: deletes the session."""
        head = _pack("<II", session, truncate_to)
        ask(self._channel, Op.SET_SESSION, _group(head, replicas))

    def _table(self, name: str) -> Table:
        return _find(self.program.table_by_name, name, "table")


def _pack(layout: str, *values: int) -> bytes:
    """Raises SwitchError where a number is too large for its place in the message."""
    try:
        return struct.pack(layout, *values)
    except struct.error as error:
        raise rows.invalid(f"{values}: {error}") from None


def _u16(value: int) -> bytes:
    return value.to_bytes(2, "little")


def _count_bytes(value: CounterValue) -> bytes:
    return _pack("<QQ", value.packets, value.bytes)


def _check_index(array: Array, index: int) -> None:
    if not 0 <= index < array.size:
        raise SwitchError(
            SwitchErrorCode.OUT_OF_RANGE, f"{array.name} has no cell {index}: it has {array.size}"
        )


def _find(by_name: dict[str, Named], name: str, kind: str) -> Named:
    found = by_name.get(name)
    if found is None:
        raise SwitchError(SwitchErrorCode.NOT_FOUND, f"the program has no {kind} {name!r}")
    return found


def _group(head: bytes, replicas: list[tuple[int, int]]) -> bytes:
    body = b"".join(_pack("<HH", port, rid) for port, rid in replicas)
    return head + _u16(len(replicas)) + body


def _port(r: Reader) -> tuple[PortStats, Pacing]:
    port, up, rxp, rxb, txp, txb, link_down, ring_drops, busy, lost, count = r.unpack(_PORT)
    queues = tuple(_queue(r) for _ in range(count))
    stats = PortStats(port, bool(up), rxp, rxb, txp, txb, link_down, ring_drops, queues)
    return stats, Pacing(port, busy, lost)


def _queue(r: Reader) -> QueueStats:
    enqueued, dequeued, dropped, trim, sent, drop, depth, octets, deepest, _ = r.unpack(_QUEUE)
    return QueueStats(enqueued, dequeued, dropped, trim, sent, drop, depth, octets, deepest)
