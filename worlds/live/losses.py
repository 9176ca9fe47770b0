"""Frames that the machine under the live world lost, from what its interfaces and sockets counted.

What was sent into an interface was either passed on to its peer or counted there as `tx_dropped`;
what came out of the peer was either read by the node, found its receive buffer full, or was dropped
by the kernel between the two.  So each loss has one place.  (`rx_dropped` of a veth is not one: the
kernel counts the same frame at the sending end.)
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wire:
    """One end of a link.  `dead`: that end or its peer has been down at some time."""

    name: str
    dead: bool


@dataclass(frozen=True, slots=True)
class Counted:
    """Frames at one interface: by the kernel, and by the node behind it.

    `taken`: read by the node, None where that is not known.
    """

    rx_packets: int
    tx_dropped: int
    taken: int | None
    ring_drops: int
    sent_down: int = 0
    sent_refused: int = 0

    @property
    def vanished(self) -> int:
        """Came in and was never seen by the node: lost, or just on its way."""
        if self.taken is None:
            return 0
        return max(self.rx_packets - self.taken - self.ring_drops, 0)


def places(wires: Iterable[Wire], counted: Mapping[str, Counted]) -> dict[str, int]:
    """Frames by place: `kernel` always, and `link_down:NAME` where there are any."""
    out = {"kernel": 0}
    for wire in wires:
        count = counted[wire.name]
        out["kernel"] += count.sent_refused
        dead_wire = f"link_down:{wire.name}"
        add(out, dead_wire, count.sent_down)
        add(out, dead_wire if wire.dead else "kernel", count.tx_dropped + count.vanished)
    return out


def add(out: dict[str, int], place: str, count: int) -> None:
    if count:
        out[place] = out.get(place, 0) + count
