"""What all QPs of one endpoint share, and the two ways in which a QP asks the endpoint for
something."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from hosts.mrc.config import EndpointConfig
from hosts.mrc.counters import Counters
from hosts.mrc.memory import MemoryTable
from hosts.mrc.message import Completion
from hosts.mrc.timers import Timers
from hosts.mrc.trace import Trace
from hosts.wire.path import Path

if TYPE_CHECKING:
    from hosts.mrc.ev import Ev


@dataclass(slots=True)
class Services:
    """`send_control(plane, frame)` queues a frame on a port; `probe_ev(ev, now)` sends a
    connectionless EV probe whose fate comes back to the QP's `reverse` half."""

    config: EndpointConfig
    rng: Random
    memory: MemoryTable
    send_control: Callable[[int, bytes], None]
    probe_ev: "Callable[[Ev, int], None]"
    timers: Timers = field(default_factory=Timers)
    counters: Counters = field(default_factory=Counters)
    trace: Trace = field(default_factory=Trace)
    completions: list[Completion] = field(default_factory=list)
    _paths: dict[tuple[bytes, int, bytes | None, int], Path] = field(default_factory=dict)

    def path(self, ev: "Ev", gid: bytes) -> Path:
        """The path of that EV to that peer: one object for all QPs that use it."""
        key = gid, ev.plane, ev.outer_dst, ev.value
        path = self._paths.get(key)
        if path is None:
            config = self.config
            port = config.ports[ev.plane]
            path = self._paths[key] = Path(
                src_mac=port.mac, dst_mac=port.gateway_mac, src_gid=config.gid, dst_gid=gid,
                outer_dst=ev.outer_dst, ev=ev.value, udp_dport=config.udp_dport,
            )  # fmt: skip
        return path
