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
