"""The event loop of the virtual world: runs nodes, never sleeps.

The heap is keyed (time, node index, sequence), so that the order of simultaneous events is a
property of the scenario and not of the machine.  A node is run at most once for each moment: all
frames due to it are delivered first, then its timeout, then it transmits.
"""

import heapq
import random
from collections.abc import Callable, Iterable
from functools import partial

from worlds.node import Node
from worlds.virtual.link import Impairment, VirtualLink

TIMER = 0
FRAME = 1

See = Callable[[int, int, int, bytes], None]
"""(time in ns, node index, port, frame)."""

MOMENT_EVENTS_MAX = 1_000_000
"""Events at one instant after which a loop without progress of time is called a defect."""


class StuckError(RuntimeError):
    """Time did not advance: two nodes keep answering each other at one instant."""


class VirtualLoop:
    """Nodes by index, links between their ports, and the time.

    Call order: add_node, connect, then run_until.  `call_at` runs a function of the harness at a
    time, before any node of that instant.
    """

    def __init__(self, make_rng: Callable[[str], random.Random]) -> None:
        self.now_ns = 0
        self.nodes: list[Node] = []
        self.names: list[str] = []
        self.links: dict[tuple[int, int], VirtualLink] = {}
        self.events = 0
        self._make_rng = make_rng
        self._heap: list[tuple[int, int, int, int, int, bytes]] = []
        self._sequence = 0
        self._timer_at: list[int | None] = []
        self._calls: list[tuple[int, int, Callable[[], None]]] = []
        self._tap: See | None = None
        self._tap_ports: frozenset[tuple[int, int]] | None = None

    def add_node(self, name: str, node: Node) -> int:
        """Returns the node's index, which is also its rank among simultaneous events."""
        self.nodes.append(node)
        self.names.append(name)
        self._timer_at.append(None)
        return len(self.nodes) - 1

    def connect(self, a: int, a_port: int, b: int, b_port: int) -> tuple[VirtualLink, VirtualLink]:
        """Wire two ports; returns the two directions, a to b first."""
        out = []
        for src, src_port, dst, dst_port in ((a, a_port, b, b_port), (b, b_port, a, a_port)):
            assert (src, src_port) not in self.links, f"{self.names[src]} port {src_port} is wired"
            rng = self._make_rng(f"link/{self.names[src]}/{src_port}")
            link = self.links[src, src_port] = VirtualLink(dst, dst_port, rng)
            out.append(link)
        return out[0], out[1]

    def tap(self, see: See | None, ports: Iterable[tuple[int, int]] | None = None) -> None:
        """Call `see(time_ns, node index, port, frame)` for every frame a node puts on a wire.

        `ports`: only for frames sent from these (node index, port).
        """
        self._tap = see
        self._tap_ports = None if ports is None else frozenset(ports)

    def impair(self, node: int, port: int, how: Impairment) -> None:
        """Let frames that node sends from that port suffer so."""
        self.links[node, port].impairment = how

    def set_link(self, node: int, port: int, up: bool) -> None:
        """Take both directions of the wire at that port down or up and tell both ends."""
        here = self.links[node, port]
        there = self.links[here.dst, here.dst_port]
        if here.up == up:
            return
        here.up = there.up = up
        for index, its_port in ((node, port), (here.dst, here.dst_port)):
            self.nodes[index].port_changed(its_port, up, self.now_ns)
            self.wake(index)

    def call_at(self, t_ns: int, what: Callable[[], None]) -> None:
        heapq.heappush(self._calls, (t_ns, self._next_sequence(), what))

    def close(self) -> None:
        """Frees what is not Python's to free; nothing may be called after."""

    def wake(self, index: int) -> None:
        """Let a node transmit and state its next timeout now (after the harness touched it)."""
        self._drain(index)

    def run_until(self, t_ns: int) -> None:
        """Run all events up to and including t_ns; the time is t_ns afterwards."""
        moment, count = -1, 0
        while True:
            at = self._next_event()
            if at is None or at > t_ns:
                break
            assert at >= self.now_ns, "an event in the past"
            count = count + 1 if at == moment else 0
            moment = self.now_ns = at
            if count > MOMENT_EVENTS_MAX:
                raise StuckError(f"time stands still at {at} ns")
            if not self._call_due(at):
                self._run_node_of_this_moment()
        self.now_ns = t_ns

    @property
    def event_count(self) -> int:
        """Frames and timers handled so far."""
        return self.events

    def run_while(self, condition: Callable[[], bool], t_max_ns: int) -> bool:
        """Run event by event while the condition holds; False if t_max_ns came first."""
        while condition():
            at = self._next_event()
            if at is None or at > t_max_ns:
                return False
            self.run_until(at)
        return True

    def _next_event(self) -> int | None:
        at = self._heap[0][0] if self._heap else None
        if self._calls and (at is None or self._calls[0][0] < at):
            at = self._calls[0][0]
        return None if at is None else max(at, self.now_ns)

    def _call_due(self, at: int) -> bool:
        """Run one function of the harness, if one is due."""
        if not self._calls or self._calls[0][0] > at:
            return False
        heapq.heappop(self._calls)[2]()
        return True

    def _run_node_of_this_moment(self) -> None:
        heap, now = self._heap, self.now_ns
        index = heap[0][1]
        node = self.nodes[index]
        while heap and heap[0][0] <= now and heap[0][1] == index:
            _, _, _, kind, port, frame = heapq.heappop(heap)
            self.events += 1
            if kind == FRAME:
                node.receive_frame(port, frame, now)
            else:
                self._timer_at[index] = None
        self._finish_moment(index, node, now)

    def _finish_moment(self, index: int, node: Node, now: int) -> None:
        """After its frames: what is due, and what it wants to send."""
        due = node.next_timeout()
        if due is not None and due <= now:
            node.handle_timeout(now)
        self._drain(index)

    def _drain(self, index: int) -> None:
        node, now = self.nodes[index], self.now_ns
        while (sent := node.poll_transmit(now)) is not None:
            self._carry(index, *sent)
        self._arm(index)

    def _carry(self, index: int, port: int, frame: bytes) -> None:
        now = self.now_ns
        if self._tap is not None and self._is_tapped(index, port):
            self._tap(now, index, port, frame)
        link = self.links.get((index, port))
        if link is not None:
            for at, arrived in link.carry(frame, now):
                if at > now:
                    self.call_at(at, partial(self._arrive_late, link, arrived))
                else:
                    self._push_frame(at, link, arrived)

    def _arrive_late(self, link: VirtualLink, frame: bytes) -> None:
        """The end of a wire that has delay; what was on it when it was cut is lost."""
        if link.up:
            self._push_frame(self.now_ns, link, frame)
        else:
            link.lost_down += 1

    def _is_tapped(self, index: int, port: int) -> bool:
        if self._tap is None:
            return False
        return self._tap_ports is None or (index, port) in self._tap_ports

    def _push_frame(self, at: int, link: VirtualLink, frame: bytes) -> None:
        event = (at, link.dst, self._next_sequence(), FRAME, link.dst_port, frame)
        heapq.heappush(self._heap, event)

    def _arm(self, index: int) -> None:
        """At most one timer event a node matters: the earliest; later ones find nothing due."""
        due = self.nodes[index].next_timeout()
        armed = self._timer_at[index]
        if due is None or (armed is not None and armed <= due):
            return
        at = max(due, self.now_ns)
        self._timer_at[index] = at
        heapq.heappush(self._heap, (at, index, self._next_sequence(), TIMER, 0, b""))

    def _next_sequence(self) -> int:
        self._sequence += 1
        return self._sequence
