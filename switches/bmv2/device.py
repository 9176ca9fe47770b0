"""The control side of one BMv2: tables and counters by P4Runtime, the rest by Thrift."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol

from switches import entries as rows
from switches.api import (
    CONTROL_PRIORITY,
    DATA_PRIORITY,
    CounterValue,
    PortConfig,
    PortStats,
    QueueStats,
    SwitchError,
    SwitchErrorCode,
    TableEntry,
    UpdateType,
)
from switches.bmv2.interfaces import InterfaceState
from switches.bmv2.thrift import ThriftClient, ThriftError, i32, i64, text

STANDARD = "standard"
SIMPLE_SWITCH = "simple_switch"
CONTEXT = 0

CONTROL_FRAME_BYTES = 154
"""A SACK, IPv6 in IPv6: what BMv2's packets per second are made from on the control queue."""


class Tables(Protocol):
    """What P4Runtime gives: the client of switches/p4rt has it."""

    def write(self, kind: UpdateType, entries: list[TableEntry]) -> None: ...

    def read_entries(self, table: str | None = None) -> list[TableEntry]: ...

    def read_counter(self, name: str) -> list[CounterValue]: ...

    def read_direct_counter(self, table: str, entry: TableEntry) -> CounterValue: ...


class Bmv2Switch:
    """A switches.api.Switch.

    data_frame_bytes: bytes of a full data frame, because BMv2's rates are packets per second.
    interfaces: their state and counters by switch port, because BMv2 has none of its ports.
    """

    def __init__(
        self,
        tables: Tables,
        thrift: ThriftClient,
        *,
        data_frame_bytes: int,
        interfaces: Callable[[], Mapping[int, InterfaceState]],
    ) -> None:
        self._tables = tables
        self._thrift = thrift
        self._frame_bytes = {
            DATA_PRIORITY: data_frame_bytes,
            CONTROL_PRIORITY: CONTROL_FRAME_BYTES,
        }
        self._interfaces = interfaces

    def write(self, kind: UpdateType, entry: TableEntry) -> None:
        self._tables.write(kind, [entry])

    def read_entries(self, table: str | None = None) -> list[TableEntry]:
        return self._tables.read_entries(table)

    def read_counter(self, name: str) -> list[CounterValue]:
        return self._tables.read_counter(name)

    def read_direct_counter(self, table: str, entry: TableEntry) -> CounterValue:
        return self._tables.read_direct_counter(table, entry)

    def read_register(self, name: str) -> list[int]:
        with _as_switch_error():
            cells = self._thrift.call(STANDARD, "bm_register_read_all", i32(CONTEXT), text(name))
        return [int(cell) for cell in cells]

    def write_register(self, name: str, index: int, value: int) -> None:
        where = (i32(CONTEXT), text(name), i32(index))
        with _as_switch_error():
            self._thrift.call(STANDARD, "bm_register_write", *where, i64(value))

    def configure_port(self, port: int, config: PortConfig) -> None:
        """Rate and depth of both queues; limits in bytes are not known to BMv2."""
        if config.egress_delay_ns or config.ingress_delay_ns:
            _refuse("BMv2 has no delay: set the delay of the topology to 0")
        with _as_switch_error():
            for priority, limit in enumerate(config.queues):
                queue = (i32(port), i32(priority))
                pps = packets_per_second(config.rate_bps, self._frame_bytes[priority])
                depth = i32(limit.packets)
                self._call("set_egress_priority_queue_depth", *queue, depth)
                self._call("set_egress_priority_queue_rate", *queue, i64(pps))

    def pause_queue(self, port: int, priority: int, paused: bool) -> None:
        _refuse("BMv2 cannot pause a queue")

    def port_stats(self) -> list[PortStats]:
        """What the program counted beside what the kernel did.

        Of the queues only the trims and the depth of data are known.  What BMv2's receive ring had
        no room for nobody counts: it is what the interface received and the program did not.
        """
        received = self.read_counter(rows.RECEIVED_COUNTER)
        sent = self.read_counter(rows.SENT_COUNTER)
        trim = self.read_counter(rows.TRIM_COUNTER)
        trim_sent = self.read_counter(rows.TRIM_SENT_COUNTER)
        depth = self.read_register(rows.DATA_DEPTH_REGISTER)
        with _as_switch_error():
            interfaces = self._interfaces()
        return [
            _port_stats(
                port,
                state,
                received=received[port].packets,
                sent=sent[port].packets,
                data=_queue_stats(depth=depth[port]),
                control=_queue_stats(trim=trim[port].packets, trim_sent=trim_sent[port].packets),
            )
            for port, state in sorted(interfaces.items())
        ]

    def _call(self, method: str, *arguments: Any) -> None:
        status = self._thrift.call(SIMPLE_SWITCH, method, *arguments)
        if status != 0:
            raise ThriftError(f"{method}: status {status}")


def packets_per_second(rate_bps: int, frame_bytes: int) -> int:
    """The nearest rate BMv2 can keep: whole packets a second, at least one; 0 = unlimited."""
    if rate_bps == 0:
        return 0
    return max(1, round(rate_bps / (8 * frame_bytes)))


def _queue_stats(*, trim: int = 0, trim_sent: int = 0, depth: int = 0) -> QueueStats:
    return QueueStats(
        enqueued=0,
        dequeued=0,
        dropped=0,
        trim=trim,
        trim_sent=trim_sent,
        trim_drop=trim - trim_sent,
        depth_packets=depth,
        depth_bytes=0,
        depth_packets_max=0,
    )


def _port_stats(
    port: int,
    state: InterfaceState,
    *,
    received: int,
    sent: int,
    data: QueueStats,
    control: QueueStats,
) -> PortStats:
    """A frame that the interface took and then dropped (its peer is down) is the wire's loss."""
    counted = state.counters
    taken = counted.tx_packets + counted.tx_dropped
    return PortStats(
        port=port,
        up=state.up,
        rx_packets=received,
        rx_bytes=counted.rx_bytes,
        tx_packets=taken,
        tx_bytes=counted.tx_bytes,
        link_down=max(sent - taken, 0),
        ring_drops=0,
        queues=(data, control),
    )


def _refuse(message: str) -> NoReturn:
    raise SwitchError(SwitchErrorCode.UNIMPLEMENTED, message)


@contextmanager
def _as_switch_error() -> Iterator[None]:
    try:
        yield
    except ThriftError as error:
        raise SwitchError(SwitchErrorCode.INVALID_ARGUMENT, str(error)) from error
    except OSError as error:
        raise SwitchError(SwitchErrorCode.UNAVAILABLE, f"BMv2 does not answer: {error}") from error
