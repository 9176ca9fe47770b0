"""What a scenario may ask of a world.  Both worlds answer; a runner cannot tell them apart.

All calls are synchronous.  Times are nanoseconds of the world's own clock, which starts at 0 when
`start` returns.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from switches.api import CounterValue, PortStats, TableEntry, UpdateType
from topologies.model import PortRef

BackEnd = Literal["engine", "bmv2"]
"""What a switch is; in a virtual world always the engine."""


@dataclass(frozen=True, slots=True)
class Event:
    """One line of events.jsonl: something changed, where, and why."""

    t_ns: int
    node: str
    kind: str
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSettings:
    """What a world needs besides the fabric and the scenario's messages.

    seed: of every random stream in the run.  program_json, p4info: p4c's output for the switches.
    switch: settings handed to `switches.entries` (routing mode, trimming, ...).  pcap_ports:
    interface names to capture.  run_dir: where logs and captures go; None keeps all in memory.
    """

    seed: int
    program_json: Path
    p4info: Path
    run_dir: Path | None = None
    switch: Mapping[str, Any] = field(default_factory=dict)
    pcap_ports: tuple[str, ...] = ()
    back_end: BackEnd = "engine"


class WorldError(Exception):
    """The world broke while running (a node died, did not answer in 5 s, ...): exit code 4."""


class NodeDied(WorldError):
    """A node process ended without the scenario asking for it: the run fails, the node is named."""

    def __init__(self, node: str, how: str) -> None:
        super().__init__(f"{node} died: {how}")
        self.node = node


class WorldUnavailable(Exception):
    """This machine cannot have that world; the message says what is missing and how to get it."""


class World(Protocol):
    name: str
    """`live` or `virtual`."""

    def start(self) -> None:
        """Build nodes and links, program the switches, and let time run from 0."""

    def now_ns(self) -> int: ...

    def run_until(self, t_ns: int) -> None:
        """Let the world go on until then.  Raises WorldError, NodeDied."""

    def control(self, host: str, message: Mapping[str, Any]) -> dict[str, Any]:
        """One control message to a host and its answer (design section 9)."""

    def set_link(self, end: PortRef, up: bool) -> None:
        """Take the interface at `end` down or up; the other end sees its carrier go or come."""

    def write_switch(self, switch: str, kind: UpdateType, entries: Iterable[TableEntry]) -> None:
        """Write table entries, in order."""

    def read_counter(self, switch: str, name: str) -> list[CounterValue]:
        """All cells of an indexed counter of the P4 program."""

    def port_stats(self, switch: str) -> list[PortStats]:
        """What the traffic manager of that switch counted, by port."""

    def kill_switch(self, switch: str) -> None:
        """End the switch as a power cut does; its ports lose carrier, its tables are gone."""

    def restart_switch(self, switch: str) -> None:
        """Start it again as at first and write its tables from the same entries."""

    def interface_losses(self) -> dict[str, int]:
        """Frames the machine under us lost, by place: `host_ring`, `kernel`, `link_down:NAME`."""

    def lateness(self) -> dict[str, Any]:
        """How well time was kept: p99.9 of timers and sends in ns, slots lost, samples."""

    def close(self) -> None:
        """End everything this world started.  Idempotent."""
