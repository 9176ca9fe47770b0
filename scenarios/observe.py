"""What a run saw, collected while it goes on.  Times are since the start of the job."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scenarios import flows
from scenarios.metrics import FaultWindow, Series
from worlds.api import Event

EV_STATES = ("good", "skip", "assumed_bad", "denied")
EVENTS_MAX = 1_000_000
"""A run with more transitions than this is not worth reading line by line; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Progress:
    """One line of progress.  total_bytes is known before the job starts."""

    t_ns: int
    done_bytes: int
    total_bytes: int
    goodput_bps: int
    evs: Mapping[str, int]
    note: str = ""


@dataclass(slots=True)
class Observed:
    """Everything the verdict and the report are made from."""

    series: Series
    total_bytes: int
    events: list[Event] = field(default_factory=list)
    events_left_out: int = 0
    ev_rows: list[tuple[int, ...]] = field(default_factory=list)
    """(t_ns, then a count for each of EV_STATES), one row a poll."""
    retired: set[str] = field(default_factory=set)
    windows: dict[str, FaultWindow] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    """What makes the run fail whatever was expected."""
    host_errors: dict[str, str] = field(default_factory=dict)
    stopped: dict[str, dict[str, Any]] = field(default_factory=dict)
    switch_stats: dict[str, dict[str, Any]] = field(default_factory=dict)
    rebooted: set[str] = field(default_factory=set)
    garbled: bool = False
    """Frames were damaged on the way, by order."""
    losses: dict[str, int] = field(default_factory=dict)
    lateness: dict[str, Any] = field(default_factory=dict)

    def add_event(self, event: Event) -> None:
        if len(self.events) < EVENTS_MAX:
            self.events.append(event)
        else:
            self.events_left_out += 1

    def take(
        self, host: str, answer: Mapping[str, Any], t0_ns: int, peers: Mapping[int, str]
    ) -> None:
        """The answer to a poll or to stop.  `peers`: who each QP of that host leads to."""
        for start, count in answer["samples"]:
            self.series.add(host, start - t0_ns, count)
        for raw in answer["events"]:
            fields = {key: raw[key] for key in raw if key not in ("t_ns", "kind")}
            if "qpn" in fields and fields["qpn"] in peers:
                fields["peer"] = peers[fields["qpn"]]
            self.add_event(Event(raw["t_ns"] - t0_ns, host, raw["kind"], fields))
            if raw["kind"] == "ev_state" and str(raw["to"]).lower() == "assumed_bad":
                self.retired.add(flows.ev_name(host, str(fields.get("peer")), raw["ev"]))
        if answer.get("error"):
            self.host_errors.setdefault(host, str(answer["error"]))

    def in_order(self) -> list[Event]:
        """Events by time; simultaneous ones in the order they were collected."""
        events = sorted(self.events, key=lambda event: event.t_ns)
        if self.events_left_out:
            fields = {"count": self.events_left_out}
            events.append(Event(events[-1].t_ns, "runner", "events_left_out", fields))
        return events
