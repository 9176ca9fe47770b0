"""The event loop with its switches in compiled code: the same events in the same order.

Nodes of Python (hosts) come first and have the lower indices; switches live in an EngineNetwork,
which keeps their part of the heap.  Frames from switch to switch stay there, unless somebody
watches that wire (a tap, an impairment).  `tests/virtual/test_fabric_loop.py` holds this loop to
the plain one.
"""

import random
from collections.abc import Callable, Iterable
from pathlib import Path

from switches.engine.network import EngineNetwork, NetworkError, NetworkSwitch
from worlds.node import Node
from worlds.virtual.link import PERFECT, Impairment, VirtualLink
from worlds.virtual.loop import MOMENT_EVENTS_MAX, See, StuckError, VirtualLoop


class FabricLoop(VirtualLoop):
    """Call order: add_node for all hosts, then for all switches of `network`, connect, run."""

    def __init__(
        self, make_rng: Callable[[str], random.Random], library: Path, switch_count: int
    ) -> None:
        super().__init__(make_rng)
        self.network = EngineNetwork(library, switch_count)
        self._first = 1 << 62
        """Index of the first switch."""

    def add_node(self, name: str, node: Node) -> int:
        index = super().add_node(name, node)
        if isinstance(node, NetworkSwitch):
            self._first = min(self._first, index)
            assert index - self._first == node.node, "switches in the order of their places"
        else:
            assert index < self._first, "hosts come first"
        return index

    def connect(self, a: int, a_port: int, b: int, b_port: int) -> tuple[VirtualLink, VirtualLink]:
        links = super().connect(a, a_port, b, b_port)
        if a >= self._first and b >= self._first:
            self.network.connect(a - self._first, a_port, b - self._first, b_port)
            self.network.connect(b - self._first, b_port, a - self._first, a_port)
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
        return self.events + self.network.events

    def run_until(self, t_ns: int) -> None:
        """Run all events up to and including t_ns; the time is t_ns afterwards."""
        network, view = self.network, self.network.view
        moment, count = -1, 0
        while True:
            at = self._next_event()
            limit = t_ns + 1 if at is None or at > t_ns else at
            if view.next_ns < limit:
                self._run_network(limit)
                continue
            if at is None or at > t_ns:
                break
            count = count + 1 if at == moment else 0
            moment = self.now_ns = network.now_ns = at
            if count > MOMENT_EVENTS_MAX:
                raise StuckError(f"time stands still at {at} ns")
            if not self._call_due(at):
                self._run_node_of_this_moment()
        self.now_ns = network.now_ns = t_ns

    def close(self) -> None:
        self.network.close()

    def _run_network(self, limit_ns: int) -> None:
        """Events of switches before that time, up to the first moment with frames for us.

        Nothing else is due before those frames: one alone is delivered without a detour over the
        heap.
        """
        try:
            arrivals = self.network.run(limit_ns)
        except NetworkError as error:
            raise StuckError(f"at {self.network.last_ns} ns: {error}") from error
        self.now_ns = now = self.network.now_ns = self.network.view.now_ns
        if len(arrivals) == 1 and self._tap is None:
            node, port, frame = arrivals[0]
            link = self.links[self._first + node, port]
            if link.impairment is PERFECT and link.up and link.dst < self._first:
                self.events += 1
                host = self.nodes[link.dst]
                host.receive_frame(link.dst_port, frame, now)
                self._finish_moment(link.dst, host, now)
                return
        self._carry_all(arrivals)

    def _carry_all(self, arrivals: list[tuple[int, int, bytes]]) -> None:
        first = self._first
        for node, port, frame in arrivals:
            self._carry(first + node, port, frame)

    def _drain(self, index: int) -> None:
        if index >= self._first:
            self._carry_all(self.network.wake(index - self._first, self.now_ns))
            return
        node, now, links, first = self.nodes[index], self.now_ns, self.links, self._first
        untapped = self._tap is None
        while (sent := node.poll_transmit(now)) is not None:
            port, frame = sent
            link = links[index, port]
            if untapped and link.impairment is PERFECT and link.up and link.dst >= first:
                self.network.send(link.dst - first, link.dst_port, frame, now)
            else:
                self._carry(index, port, frame)
        self._arm(index)

    def _push_frame(self, at: int, link: VirtualLink, frame: bytes) -> None:
        if link.dst < self._first:
            super()._push_frame(at, link, frame)
        else:
            self.network.send(link.dst - self._first, link.dst_port, frame, at)

    def _watch(self, node: int, port: int) -> None:
        link = self.links[node, port]
        if node >= self._first and link.dst >= self._first:
            watched = link.impairment is not PERFECT or self._is_tapped(node, port)
            self.network.watch(node - self._first, port, watched)
