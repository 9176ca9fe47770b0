"""Double-entry book-keeping of frames: what was sent is somewhere, or the run fails.

Two books.  *Frames* follows every frame of any kind over the wires: put on a wire by a host = taken
off a wire by a host + dropped on the way, by reason and place + in flight.  *Data* follows payload
packets between transports: sent, retransmissions included = delivered + duplicate + trimmed +
rejected + lost on the way + in flight.  Pure.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from switches.api import PortStats

SWITCH_REASONS = ("queue_full", "trim_drop", "link_down", "host_ring")


@dataclass(frozen=True, slots=True)
class Row:
    """One name of the table below: where it is counted and by whom."""

    name: str
    place: str
    owner: str
    meaning: str


ROWS = (
    Row("tx_frames", "host", "endpoint", "frames put on the wire"),
    Row("rx_frames", "host", "endpoint", "frames taken from the wire"),
    Row("data_sent", "host", "endpoint", "payload packets sent, retransmissions included"),
    Row("data_retransmitted", "host", "endpoint", "payload packets sent again"),
    Row("data_delivered", "host", "endpoint", "payload packets placed in memory, each once"),
    Row("data_duplicate", "host", "endpoint", "payload packets that had been placed before"),
    Row("data_trimmed", "host", "endpoint", "payload packets that arrived cut"),
    Row("data_rejected", "host", "endpoint", "payload packets refused, by reason"),
    Row("p4:*", "switch", "program", "dropped by the program, by its reasons"),
    Row("queue_full", "switch port", "engine", "no room in the queue"),
    Row("trim_drop", "switch port", "engine", "cut, and no room in the control queue either"),
    Row("link_down", "switch port", "engine", "left for a wire without carrier"),
    Row("host_ring", "switch port, host", "kernel", "a receive ring was full"),
    Row("reboot", "switch", "runner", "inside a switch when it was killed"),
    Row("in_flight", "everywhere", "runner", "in queues and on wires at the end"),
)
"""Every counter of the books.  `docs/scenarios.md` shows this table."""


@dataclass(frozen=True, slots=True)
class Book:
    """`sent` against everything that explains it."""

    name: str
    sent: int
    explained: Mapping[str, int]

    @property
    def unexplained(self) -> int:
        return self.sent - sum(self.explained.values())

    def as_json(self) -> dict[str, Any]:
        parts = {name: count for name, count in self.explained.items() if count}
        return {"sent": self.sent, "explained": parts, "unexplained": self.unexplained}


def drops_by_place(switch_stats: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str, int]]:
    """(place, reason, frames) of every loss the switches counted, zeros left out."""
    for switch, stats in switch_stats.items():
        for reason, count in stats["drops"].items():
            if count and reason != "none":
                yield switch, f"p4:{reason}", count
        for port in stats["ports"]:
            for reason, count in _port_drops(port):
                if count:
                    yield f"{switch}-eth{port.port}", reason, count


def _port_drops(port: PortStats) -> Iterator[tuple[str, int]]:
    yield "queue_full", sum(queue.dropped for queue in port.queues)
    yield "trim_drop", sum(queue.trim_drop for queue in port.queues)
    yield "link_down", port.link_down
    yield "host_ring", port.ring_drops


def balance(
    stopped: Mapping[str, Mapping[str, Any]],
    switch_stats: Mapping[str, Mapping[str, Any]],
    losses: Mapping[str, int],
    rebooted: set[str],
) -> tuple[Book, ...]:
    """Both books of a finished run; none if it broke before its end."""
    if not stopped:
        return ()
    counts = {host: stop["ledger"] for host, stop in stopped.items()}
    return (_frames(counts, switch_stats, losses, rebooted),)


def _frames(
    counts: Mapping[str, Mapping[str, int]],
    switch_stats: Mapping[str, Mapping[str, Any]],
    losses: Mapping[str, int],
    rebooted: set[str],
) -> Book:
    """Of every kind, over the whole fabric."""
    explained: dict[str, int] = {"received": _sum(counts, "rx_frames")}
    for place, reason, count in drops_by_place(switch_stats):
        explained[f"{reason} at {place}"] = count
    for place, count in losses.items():
        if count:
            explained[place] = explained.get(place, 0) + count
    explained["in queues"] = sum(
        queue.depth_packets
        for stats in switch_stats.values()
        for port in stats["ports"]
        for queue in port.queues
    )
    sent = _sum(counts, "tx_frames")
    if rebooted:
        missing = sent - sum(explained.values())
        explained[f"reboot of {', '.join(sorted(rebooted))}"] = max(missing, 0)
    return Book("frames", sent, explained)


def _sum(counts: Mapping[str, Mapping[str, int]], name: str) -> int:
    return sum(count.get(name, 0) for count in counts.values())


def total(
    what: str,
    stopped: Mapping[str, Mapping[str, Any]],
    switch_stats: Mapping[str, Mapping[str, Any]],
) -> int:
    """A sum over the whole fabric, for expectations."""
    counts = {host: stop["ledger"] for host, stop in stopped.items()}
    match what:
        case "sent":
            return _sum(counts, "data_sent")
        case "retransmitted":
            return _sum(counts, "data_retransmitted")
        case "trimmed":
            return sum(
                queue.trim
                for stats in switch_stats.values()
                for port in stats["ports"]
                for queue in port.queues
            )
        case "dropped":
            return sum(count for _, _, count in drops_by_place(switch_stats))
    return _sum(counts, what)
