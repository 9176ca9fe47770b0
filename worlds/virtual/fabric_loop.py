"""The event loop with its switches in compiled code: the same events in the same order.

Nodes of Python (hosts) come first and have the lower indices; switches live in an EngineFabric,
which keeps their part of the heap.  Frames from switch to switch stay there, unless somebody
watches that wire (a tap, an impairment).  `tests/virtual/test_fabric_loop.py` holds this loop to
the plain one.
"""

import random
from collections.abc import Callable, Iterable
from pathlib import Path

from switches.engine.fabric import EngineFabric, FabricError, FabricSwitch
from worlds.node import Node
from worlds.virtual.link import PERFECT, Impairment, VirtualLink
from worlds.virtual.loop import MOMENT_EVENTS_MAX, See, StuckError, VirtualLoop


class FabricLoop(VirtualLoop):
    """Call order: add_node for all hosts, then for all switches of `fabric`, connect, run_until."""

    def __init__(
        self, make_rng: Callable[[str], random.Random], library: Path, switch_count: int
    ) -> None:
        super().__init__(make_rng)
        self.fabric = EngineFabric(library, switch_count)
        self._first = 1 << 62
        """Index of the first switch."""

    def add_node(self, name: str, node: Node) -> int:
        index = super().add_node(name, node)
        if isinstance(node, FabricSwitch):
            self._first = min(self._first, index)
            assert index - self._first == node.node, "switches in the order of the fabric"
        else:
            assert index < self._first, "hosts come first"
        return index

    def connect(self, a: int, a_port: int, b: int, b_port: int) -> tuple[VirtualLink, VirtualLink]:
        links = super().connect(a, a_port, b, b_port)
        if a >= self._first and b >= self._first:
            self.fabric.connect(a - self._first, a_port, b - self._first, b_port)
            self.fabric.connect(b - self._first, b_port, a - self._first, a_port)
        return links

    def tap(self, see: See | None, ports: Iterable[tuple[int, int]] | None = None) -> None:
        super().tap(see, ports)
        for node, port in self.links:
            self._watch(node, port)

    def impair(self, node: int, port: int, how: Impairment) -> None:
        super().impair(node, port, how)
        self._watch(node, port)

    @property
    def event_count(self) -> int:
        return self.events + self.fabric.events

    def run_until(self, t_ns: int) -> None:
        """Run all events up to and including t_ns; the time is t_ns afterwards."""
        fabric = self.fabric
        moment, count = -1, 0
        while True:
            at = self._next_event()
            limit = t_ns + 1 if at is None or at > t_ns else at
            if fabric.next_ns < limit:
                self._run_fabric(limit)
                continue
            if at is None or at > t_ns:
                break
            count = count + 1 if at == moment else 0
            moment = self.now_ns = fabric.now_ns = at
            if count > MOMENT_EVENTS_MAX:
                raise StuckError(f"time stands still at {at} ns")
            if not self._call_due(at):
                self._run_node_of_this_moment()
        self.now_ns = fabric.now_ns = t_ns

    def close(self) -> None:
        self.fabric.close()

    def _run_fabric(self, limit_ns: int) -> None:
        """Events of switches before that time, up to the first moment with frames for us."""
        try:
            arrivals = self.fabric.run(limit_ns)
        except FabricError as error:
            raise StuckError(f"at {self.fabric.last_ns} ns: {error}") from error
        self.now_ns = self.fabric.now_ns = self.fabric.last_ns
        self._carry_all(arrivals)

    def _carry_all(self, arrivals: list[tuple[int, int, bytes]]) -> None:
        first = self._first
        for node, port, frame in arrivals:
            self._carry(first + node, port, frame)

    def _drain(self, index: int) -> None:
        if index < self._first:
            super()._drain(index)
        else:
            self._carry_all(self.fabric.wake(index - self._first, self.now_ns))

    def _push_frame(self, at: int, link: VirtualLink, frame: bytes) -> None:
        if link.dst < self._first:
            super()._push_frame(at, link, frame)
        else:
            self.fabric.send(link.dst - self._first, link.dst_port, frame, at)

    def _watch(self, node: int, port: int) -> None:
        link = self.links[node, port]
        if node >= self._first and link.dst >= self._first:
            watched = link.impairment is not PERFECT or self._is_tapped(node, port)
            self.fabric.watch(node - self._first, port, watched)
