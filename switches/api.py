"""What every switch back end promises, in P4's terms and nobody else's.

Names of tables, actions, match fields and parameters are those of the p4info file.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Exact:
    value: int


@dataclass(frozen=True, slots=True)
class Lpm:
    value: int
    prefix_len: int


@dataclass(frozen=True, slots=True)
class Ternary:
    value: int
    mask: int


@dataclass(frozen=True, slots=True)
class Range:
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class OptionalMatch:
    """Exact value; a field left out of the match is the wildcard."""

    value: int


Match = Exact | Lpm | Ternary | Range | OptionalMatch


@dataclass(frozen=True, slots=True)
class ActionCall:
    name: str
    params: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TableEntry:
    """One row.  `match` leaves out wildcards.  Empty match with is_default: the default action.

    Larger priority wins; it must be non-zero where a key is ternary, range or optional, else zero.
    """

    table: str
    match: Mapping[str, Match]
    action: ActionCall
    priority: int = 0
    is_default: bool = False


class UpdateType(Enum):
    INSERT = "insert"
    MODIFY = "modify"
    DELETE = "delete"


class SwitchErrorCode(Enum):
    """Named after the gRPC codes the P4Runtime specification asks for."""

    INVALID_ARGUMENT = "invalid_argument"
    NOT_FOUND = "not_found"
    ALREADY_EXISTS = "already_exists"
    PERMISSION_DENIED = "permission_denied"
    RESOURCE_EXHAUSTED = "resource_exhausted"
    FAILED_PRECONDITION = "failed_precondition"
    UNIMPLEMENTED = "unimplemented"
    OUT_OF_RANGE = "out_of_range"
    INTERNAL = "internal"
    UNAVAILABLE = "unavailable"


class SwitchError(Exception):
    """A request the switch refused; nothing of it was applied."""

    def __init__(self, code: SwitchErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class CounterValue:
    packets: int
    bytes: int


@dataclass(frozen=True, slots=True)
class QueueLimit:
    """A queue is full when either limit would be passed."""

    packets: int
    bytes: int


DATA_PRIORITY = 0
CONTROL_PRIORITY = 1
"""Queue numbers of a port; the larger is served strictly first (as BMv2's --priority-queues)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortConfig:
    """Around the pipeline, per port.

    rate_bps: bits of frame (no FCS, no gap) per second at egress, 0 = unlimited.
    egress_delay_ns: from the last bit of a frame leaving the queue to its arrival on the wire.
    ingress_delay_ns: between wire and parser; non-zero on host-facing ports only.
    queues: limits by priority, index = queue number.  A truncated (trimmed) packet is refused by a
    control queue at its limit; any other packet may use a quarter more.
    """

    rate_bps: int
    egress_delay_ns: int = 0
    ingress_delay_ns: int = 0
    queues: tuple[QueueLimit, ...] = (
        QueueLimit(1024, 8 << 20),
        QueueLimit(4096, 16 << 20),
    )


@dataclass(frozen=True, slots=True)
class QueueStats:
    """Monotonic counts and the present depth.  trim = trim_sent + trim_drop + trims queued now.

    dropped: refused at the limit; refused trims are in trim_drop alone.
    """

    enqueued: int
    dequeued: int
    dropped: int
    trim: int
    trim_sent: int
    trim_drop: int
    depth_packets: int
    depth_bytes: int
    depth_packets_max: int


@dataclass(frozen=True, slots=True)
class PortStats:
    """rx: frames taken from the wire; tx: given to it; link_down: dropped at a dead wire."""

    port: int
    up: bool
    rx_packets: int
    rx_bytes: int
    tx_packets: int
    tx_bytes: int
    link_down: int
    ring_drops: int
    queues: tuple[QueueStats, ...]


class Switch(Protocol):
    """The control side of one switch.  Every method raises SwitchError and then changes nothing."""

    def write(self, kind: UpdateType, entry: TableEntry) -> None: ...

    def read_entries(self, table: str | None = None) -> list[TableEntry]:
        """Rows of one table or of all, without default actions that the program set."""

    def read_counter(self, name: str) -> list[CounterValue]:
        """All cells of an indexed counter."""

    def read_direct_counter(self, table: str, entry: TableEntry) -> CounterValue: ...

    def read_register(self, name: str) -> list[int]: ...

    def write_register(self, name: str, index: int, value: int) -> None: ...

    def configure_port(self, port: int, config: PortConfig) -> None: ...

    def pause_queue(self, port: int, priority: int, paused: bool) -> None: ...

    def port_stats(self) -> list[PortStats]: ...


@runtime_checkable
class Resettable(Protocol):
    """A switch that can go back to how its program left it when it was loaded."""

    def reset(self) -> None:
        """Const entries, default actions, registers and counters as at load; ports, queues and
        packets on their way are left alone."""


@runtime_checkable
class CounterWriter(Protocol):
    """A switch whose counters can be set."""

    def write_counter(self, name: str, index: int, value: CounterValue) -> None: ...

    def write_direct_counter(self, table: str, entry: TableEntry, value: CounterValue) -> None: ...


def write_all(switch: Switch, kind: UpdateType, entries: Iterable[TableEntry]) -> None:
    for entry in entries:
        switch.write(kind, entry)
