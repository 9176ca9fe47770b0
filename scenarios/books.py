"""The books of a run that are about one flow, one EV or one link; with scenarios/ledger.py's all.

*a link's*   frames put on it at its two ports = taken off it there + lost on it;
*a flow's*   data packets sent from one host to another = what became of them there + lost, and no
             more can be lost than was lost at the ports the flow's EVs pass;
*an EV's*    the same for one EV of one flow, whose path is known;
*by EV*      a host's counts by EV add up to its counts by kind.

Where wires garble frames nobody knows which flow or EV a frame was of: then a flow's or an EV's
losses are bounded by all losses there were.  Pure.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hosts.messages import ARRIVALS
from scenarios import ledger
from scenarios.flows import QpEnd
from scenarios.ledger import Book
from scenarios.observe import Observed
from switches.api import PortStats
from topologies import addressing, routing
from topologies.model import Fabric, PortRef

LOST = "lost on the way"
COMPLAINTS_MAX = 8
EXPLAINED_BY = {
    "delivered": ("rx_data_new",),
    "duplicate": ("rx_data_duplicate",),
    "trimmed": ("rx_data_trimmed", "rx_data_trimmed_lasthop"),
    "rejected": ("rx_data_window", "rx_data_naked"),
}
"""A host's counts by EV, and the counts by kind that they add up to."""

ANYWHERE = ("host_ring", "kernel")
"""Losses of which the machine does not say on which link they were."""


def close(fabric: Fabric, ends: Iterable[QpEnd], observed: Observed) -> tuple[Book, ...]:
    """All books of a finished run; none if it broke before its end."""
    if not observed.stopped:
        return ()
    o = observed
    places = _Places(fabric, o)
    return (
        *ledger.balance(o.stopped, o.switch_stats, o.losses, o.rebooted),
        *_by_ev(o.stopped),
        *_links(fabric, o, places),
        *_flows(fabric, ends, o, places),
    )


def complaints(books: Iterable[Book]) -> list[str]:
    """Of every book that does not balance, the first few."""
    red = [book for book in books if book.unexplained]
    told = [f"the ledger has {book.unexplained} unexplained {book.name}" for book in red]
    more = len(told) - COMPLAINTS_MAX
    return told if more <= 0 else [*told[:COMPLAINTS_MAX], f"and {more} more books do not balance"]


def csv(books: Iterable[Book]) -> str:
    """One line a book, each part of what explains it as `name=count`."""
    lines = ["book,sent,unexplained,explained"]
    for book in books:
        parts = " ".join(f"{name}={count}" for name, count in book.explained.items() if count)
        lines.append(f"{book.name},{book.sent},{book.unexplained},{parts}")
    return "".join(f"{line}\n" for line in lines)


@dataclass(slots=True)
class _Places:
    """How many frames could have been lost at each place."""

    fabric: Fabric
    observed: Observed
    ports: dict[PortRef, PortStats] = field(init=False)
    duplicated: int = field(init=False)
    anywhere: int = field(init=False)

    def __post_init__(self) -> None:
        o = self.observed
        self.ports = {
            PortRef(switch, port.port): port
            for switch, stats in o.switch_stats.items()
            for port in stats["ports"]
        }
        self.duplicated = -sum(n for place, n in o.losses.items() if n < 0)
        self.anywhere = sum(o.losses.get(place, 0) for place in ANYWHERE)

    def on_link(self, end: PortRef, kinds: Iterable[str]) -> int:
        """On the link at that port, in either direction, by what its two ends say."""
        lost = 0
        for port in (end, self.fabric.peer(end)):
            name = addressing.interface_name(port.node, port.port)
            lost += sum(self.observed.losses.get(f"{kind}:{name}", 0) for kind in kinds)
            stats = self.ports.get(port)
            if stats is not None:
                lost += stats.ring_drops
        return lost

    def power_cut(self, nodes: Iterable[str]) -> int:
        return sum(self.observed.losses.get(f"power_cut:{node}", 0) for node in nodes)

    def at_port(self, end: PortRef) -> int:
        """On the way out of a switch at that port, or waiting there."""
        stats = self.ports.get(end)
        if stats is None:
            return 0
        queues = sum(q.dropped + q.trim_drop + q.depth_packets for q in stats.queues)
        return stats.link_down + queues

    def at_switch(self, switch: str) -> int:
        """By the program, which does not say at which port."""
        drops: dict[str, int] = self.observed.switch_stats.get(switch, {}).get("drops", {})
        return sum(count for reason, count in drops.items() if reason != "none")

    def on_the_way(self, hops: Iterable[PortRef]) -> int:
        """Of everything that left by these ports and was held by their nodes."""
        ports = set(hops)
        nodes = {port.node for port in ports if port.node in self.observed.switch_stats}
        links = sum(self.on_link(port, _LOST_ON_A_LINK) + self.at_port(port) for port in ports)
        switches = sum(self.at_switch(node) for node in nodes)
        return links + switches + self.power_cut(nodes) + self.anywhere

    def everywhere(self) -> int:
        switches = sum(n for _, _, n in ledger.drops_by_place(self.observed.switch_stats))
        queues = sum(q.depth_packets for port in self.ports.values() for q in port.queues)
        return switches + queues + sum(n for n in self.observed.losses.values() if n > 0)


_LOST_ON_A_LINK = ("link_down", "impaired")


def _links(fabric: Fabric, observed: Observed, places: _Places) -> Iterator[Book]:
    for link in fabric.links:
        counts = [_at_end(observed, places, end) for end in (link.lower, link.upper)]
        sent, received = (sum(pair) for pair in zip(*counts, strict=True))
        lost = places.on_link(link.lower, (*_LOST_ON_A_LINK, "duplicated"))
        # what a machine lost, or a dead switch never read, is only known for all links together
        unsure = places.anywhere + places.power_cut((link.lower.node, link.upper.node))
        missing = min(max(sent - received - lost, 0), unsure)
        name = f"link {_name(link.lower)} {_name(link.upper)}"
        yield Book(name, sent, {"received": received, "lost": lost, "machine": missing})


def _at_end(observed: Observed, places: _Places, end: PortRef) -> tuple[int, int]:
    """Frames (sent, received) at one end of a link."""
    stats = places.ports.get(end)
    if stats is not None:
        return stats.tx_packets, stats.rx_packets
    ports = observed.stopped.get(end.node, {}).get("ports", [])
    return tuple(ports[end.port]) if end.port < len(ports) else (0, 0)


def _name(end: PortRef) -> str:
    return addressing.interface_name(end.node, end.port)


def _by_ev(stopped: Mapping[str, Mapping[str, Any]]) -> Iterator[Book]:
    for host, stop in stopped.items():
        counts = stop["ledger"]
        sent = sum(n for qp in stop["qps"] for _, n in qp["sent"])
        yield Book(f"data sent by EV of {host}", counts.get("data_sent", 0), {"by EV": sent})
        for name in ARRIVALS:
            total = sum(counts.get(kind, 0) for kind in EXPLAINED_BY[name])
            by_ev = sum(n for qp in stop["qps"] for _, n in qp["received"][name])
            yield Book(f"data {name} by EV of {host}", total, {"by EV": by_ev})


@dataclass(slots=True)
class _Flow:
    """Data packets of one flow or EV: sent at one end, and seen at the other by what they were."""

    sent: int = 0
    seen: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ARRIVALS, 0))
    hops: set[PortRef] = field(default_factory=set)


def _flows(
    fabric: Fabric, ends: Iterable[QpEnd], observed: Observed, places: _Places
) -> Iterator[Book]:
    flows: dict[tuple[str, str], _Flow] = {}
    by_ev: dict[tuple[str, str, int], _Flow] = {}
    for end in ends:
        flow = flows.setdefault((end.host, end.peer), _Flow())
        for way in end.paths:
            hops = set(routing.hops(fabric, fabric.host(end.host), way))
            flow.hops |= hops
            by_ev[end.host, end.peer, way.ev] = _Flow(hops=hops)
    for host, stop in observed.stopped.items():
        for qp in stop["qps"]:
            for ev, count in qp["sent"]:
                by_ev.setdefault((host, qp["peer"], ev), _Flow()).sent += count
            for name in ARRIVALS:
                for ev, count in qp["received"][name]:
                    by_ev.setdefault((qp["peer"], host, ev), _Flow()).seen[name] += count
    for (src, dst, _), one in by_ev.items():
        whole = flows.setdefault((src, dst), _Flow())
        whole.sent += one.sent
        for name, count in one.seen.items():
            whole.seen[name] += count
    slack = _garbled(observed, places)
    for (src, dst), whole in flows.items():
        yield _flow_book(f"flow {src}>{dst}", whole, places, slack)
    for (src, dst, ev), one in by_ev.items():
        yield _flow_book(f"EV {src}>{dst}:{ev:#x}", one, places, slack)


def _garbled(observed: Observed, places: _Places) -> int:
    """How far one flow's or EV's book may be off because frames were taken for another's."""
    if not observed.garbled:
        return 0
    counts: list[dict[str, int]] = [stop["ledger"] for stop in observed.stopped.values()]
    refused = sum(n for count in counts for name, n in count.items() if name in _GARBLED)
    return places.everywhere() + refused + sum(count.get("data_trimmed", 0) for count in counts)


_GARBLED = (
    "rx_misdelivered", "rx_data_no_qp", "rx_control_no_qp", "rx_drop_short", "rx_drop_ethertype",
    "rx_drop_version", "rx_drop_next_header", "rx_drop_udp_port", "rx_drop_bth_version",
    "rx_drop_opcode", "rx_drop_length", "rx_drop_icrc", "rx_data_window", "rx_data_new",
)  # fmt: skip


def _flow_book(name: str, flow: _Flow, places: _Places, slack: int) -> Book:
    missing = flow.sent - sum(flow.seen.values())
    most = places.on_the_way(flow.hops) + slack
    least = -places.duplicated - slack
    return Book(name, flow.sent, {**flow.seen, LOST: min(max(missing, least), most)})
