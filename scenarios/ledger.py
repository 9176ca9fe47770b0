"""Double-entry book-keeping of frames: what was sent is somewhere, or the run fails.

Books, each closed for the whole fabric at the end of every run:

*frames*      every frame a host put on a wire = taken off a wire by a host + dropped, by reason and
              place + still in a queue;
*data*        every payload packet sent, retransmissions included = delivered + duplicate + trimmed
              + refused + lost or garbled, where no more can be lost than was dropped;
*sent*, *received*  frames counted at the hosts' ports = the endpoints' own counts by kind;
*a switch's*  frames taken off its wires = put on its wires + dropped + still in a queue.

Pure.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from switches.api import PortStats

RING = "host_ring"
"""The reason of frames that found a receive ring full."""


@dataclass(frozen=True, slots=True)
class Row:
    """One name of the table below: where it is counted and by whom."""

    name: str
    place: str
    owner: str
    meaning: str


ROWS = (
    Row("tx_frames", "host", "host", "frames put on the wire"),
    Row("rx_frames", "host", "host", "frames taken from the wire"),
    Row("tx_*", "host", "endpoint", "frames handed over, by kind; `control_dropped` never left"),
    Row("rx_*", "host", "endpoint", "frames understood, by kind; `rx_drop_*` refused, by reason"),
    Row("data_sent", "host", "endpoint", "payload packets sent, retransmissions included"),
    Row("data_retransmitted", "host", "endpoint", "payload packets sent again"),
    Row("data_delivered", "host", "endpoint", "payload packets placed in memory, each once"),
    Row("data_duplicate", "host", "endpoint", "payload packets that had been placed before"),
    Row("data_trimmed", "host", "endpoint", "payload packets that arrived cut"),
    Row("data_rejected", "host", "endpoint", "payload packets refused"),
    Row("p4:*", "switch", "program", "dropped by the program, by its reasons"),
    Row("queue_full", "switch port", "engine", "no room in the queue"),
    Row("trim_drop", "switch port", "engine", "cut, and no room in the control queue either"),
    Row("link_down", "switch port, interface", "engine, kernel", "sent into a dead wire"),
    Row(RING, "switch port, host", "kernel", "a receive ring was full"),
    Row("power_cut", "switch", "world", "inside a switch when it was killed"),
    Row("in queues", "switch port", "engine", "still there at the end"),
)
"""Every counter of the books; docs/scenarios.md shows this table."""

SENT_KINDS = (
    "tx_data_first",
    "tx_data_again",
    "tx_sack",
    "tx_nack",
    "tx_ack",
    "tx_nak",
    "tx_probe",
    "tx_ep_request",
    "tx_ep_response",
)
RECEIVED_KINDS = (
    "rx_data_new",
    "rx_data_duplicate",
    "rx_data_trimmed",
    "rx_data_trimmed_lasthop",
    "rx_data_window",
    "rx_data_naked",
    "rx_data_no_qp",
    "rx_sack",
    "rx_nack",
    "rx_ack",
    "rx_nak",
    "rx_probe",
    "rx_ep_request",
    "rx_ep_response",
    "rx_control_no_qp",
    "rx_misdelivered",
)
"""Disjoint; besides these only `rx_drop_*`."""


WHOLE = ("frames", "data", "sent", "received")
"""Books of the whole fabric."""


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
    yield RING, port.ring_drops


def balance(
    stopped: Mapping[str, Mapping[str, Any]],
    switch_stats: Mapping[str, Mapping[str, Any]],
    losses: Mapping[str, int],
    rebooted: set[str],
) -> tuple[Book, ...]:
    """All books of a finished run; none if it broke before its end.

    `losses`: World.interface_losses.  `rebooted`: switches a scenario killed.
    """
    if not stopped:
        return ()
    counts = {host: stop["ledger"] for host, stop in stopped.items()}
    frames = _frames(counts, switch_stats, losses)
    switches = [_switch(name, stats, rebooted) for name, stats in switch_stats.items()]
    return (
        frames,
        _data(counts, sum(frames.explained.values()) - frames.explained["received"]),
        _by_kind("sent", counts, "tx_frames", SENT_KINDS),
        _by_kind("received", counts, "rx_frames", RECEIVED_KINDS),
        *(book for book in switches if book.unexplained),
    )


def _frames(
    counts: Mapping[str, Mapping[str, int]],
    switch_stats: Mapping[str, Mapping[str, Any]],
    losses: Mapping[str, int],
) -> Book:
    explained: dict[str, int] = {"received": _sum(counts, "rx_frames")}
    for place, reason, count in drops_by_place(switch_stats):
        explained[f"{reason}:{place}"] = explained.get(f"{reason}:{place}", 0) + count
    for place, count in losses.items():
        explained[place] = explained.get(place, 0) + count
    explained["in queues"] = sum(_queued(stats) for stats in switch_stats.values())
    sent = _sum(counts, "tx_frames")
    return Book("frames", sent, explained)


def _data(counts: Mapping[str, Mapping[str, int]], dropped: int) -> Book:
    names = ("delivered", "duplicate", "trimmed", "rejected")
    explained = {name: _sum(counts, f"data_{name}") for name in names}
    sent = _sum(counts, "data_sent")
    missing = sent - sum(explained.values())
    garbled = sum(_sum(counts, kind) for kind in _dropped_kinds(counts))
    explained["lost or garbled on the way"] = min(max(missing, 0), dropped + garbled)
    return Book("data", sent, explained)


def _by_kind(
    name: str, counts: Mapping[str, Mapping[str, int]], ports: str, kinds: tuple[str, ...]
) -> Book:
    explained = {kind: _sum(counts, kind) for kind in kinds}
    if name == "sent":
        explained["control_dropped"] = -_sum(counts, "control_dropped")
    else:
        explained |= {key: _sum(counts, key) for key in _dropped_kinds(counts)}
    return Book(name, _sum(counts, ports), explained)


def _dropped_kinds(counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """`rx_drop_*`: what an endpoint refused, by reason."""
    return sorted({key for count in counts.values() for key in count if "rx_drop_" in key})


def _switch(name: str, stats: Mapping[str, Any], rebooted: set[str]) -> Book:
    """A switch that was killed has no closed book of its own: what it held is in *frames*."""
    ports: list[PortStats] = stats["ports"]
    arrived = sum(port.rx_packets for port in ports)
    explained = {"sent": sum(port.tx_packets for port in ports), "in queues": _queued(stats)}
    for _, reason, count in drops_by_place({name: stats}):
        if reason != "host_ring":
            explained[reason] = explained.get(reason, 0) + count
    if name in rebooted:
        explained["power_cut"] = arrived - sum(explained.values())
    return Book(f"at {name}", arrived, explained)


def _queued(stats: Mapping[str, Any]) -> int:
    return sum(queue.depth_packets for port in stats["ports"] for queue in port.queues)


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
        case "trimmed_last_hop":
            return _sum(counts, "rx_data_trimmed_lasthop")
        case "timeouts":
            return _sum(counts, "rtx_timeout")
        case "dropped":
            return sum(count for _, _, count in drops_by_place(switch_stats))
        case "ecn_marked":
            return _sum(counts, "rx_data_marked")
        case "skips":
            return _sum(counts, "ev_marks") + _sum(counts, "ev_trims")
    raise LookupError(what)
