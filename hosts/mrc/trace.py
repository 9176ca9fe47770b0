"""What the endpoint tells about itself: transitions with their cause, never single packets."""

from dataclasses import dataclass, field
from typing import Any

from hosts.mrc.units import Ns


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """Kinds: `ev_state`, `port`, `port_status`, `qp_state`, `ev_probe_lost`."""

    t_ns: Ns
    kind: str
    fields: dict[str, Any] = field(default_factory=dict)


class Trace:
    """Events since the last `take`, oldest first."""

    __slots__ = ("_events",)

    def __init__(self) -> None:
        self._events: list[TraceEvent] = []

    def add(self, t_ns: Ns, kind: str, /, **fields: Any) -> None:
        self._events.append(TraceEvent(t_ns, kind, fields))

    def take(self) -> list[TraceEvent]:
        events, self._events = self._events, []
        return events
