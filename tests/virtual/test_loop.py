"""The event loop itself: order, time, faults on wires."""

import random
from collections import deque

import pytest

from worlds.rng import stream
from worlds.virtual.link import Impairment
from worlds.virtual.loop import StuckError, VirtualLoop


class Echo:
    """Keeps what arrives; sends what the test queues, at the times the test gives."""

    def __init__(self) -> None:
        self.got: list[tuple[int, int, bytes]] = []
        self.due: deque[tuple[int, int, bytes]] = deque()
        self.ready: deque[tuple[int, bytes]] = deque()
        self.carrier: list[tuple[int, bool, int]] = []
        self.reply = False

    def receive_frame(self, port: int, frame: bytes, now_ns: int) -> None:
        self.got.append((now_ns, port, frame))
        if self.reply:
            self.ready.append((port, frame))

    def handle_timeout(self, now_ns: int) -> None:
        while self.due and self.due[0][0] <= now_ns:
            _, port, frame = self.due.popleft()
            self.ready.append((port, frame))

    def poll_transmit(self, now_ns: int) -> tuple[int, bytes] | None:
        return self.ready.popleft() if self.ready else None

    def next_timeout(self) -> int | None:
        return self.due[0][0] if self.due else None

    def port_changed(self, port: int, up: bool, now_ns: int) -> None:
        self.carrier.append((port, up, now_ns))


def pair(seed: int = 1) -> tuple[VirtualLoop, Echo, Echo]:
    loop = VirtualLoop(lambda name: stream(seed, name))
    a, b = Echo(), Echo()
    loop.connect(loop.add_node("a", a), 0, loop.add_node("b", b), 0)
    return loop, a, b


def test_a_frame_arrives_after_the_delay_and_time_ends_where_asked() -> None:
    loop, a, b = pair()
    loop.links[0, 0].impairment = Impairment(delay_ns=700)
    a.due.append((1000, 0, b"x"))
    loop.wake(0)
    loop.run_until(5000)
    assert b.got == [(1700, 0, b"x")]
    assert loop.now_ns == 5000


def test_simultaneous_frames_keep_the_order_of_sending() -> None:
    loop, a, b = pair()
    a.due.extend((1000, 0, bytes([i])) for i in range(100))
    loop.wake(0)
    loop.run_until(1000)
    assert [frame[0] for _, _, frame in b.got] == list(range(100))


def test_a_dead_wire_counts_what_it_loses_and_tells_both_ends() -> None:
    loop, a, b = pair()
    a.due.extend([(1000, 0, b"lost"), (3000, 0, b"kept")])
    loop.wake(0)
    loop.call_at(500, lambda: loop.set_link(1, 0, False))
    loop.call_at(2000, lambda: loop.set_link(1, 0, True))
    loop.run_until(4000)
    assert [frame for _, _, frame in b.got] == [b"kept"]
    assert loop.links[0, 0].lost_down == 1
    assert a.carrier == b.carrier == [(0, False, 500), (0, True, 2000)]


def test_what_is_on_a_wire_when_it_is_cut_is_lost_and_counted() -> None:
    loop, a, b = pair()
    loop.impair(0, 0, Impairment(delay_ns=700))
    a.due.extend([(1000, 0, b"lost"), (2000, 0, b"kept")])
    loop.wake(0)
    loop.call_at(1500, lambda: loop.set_link(0, 0, False))
    loop.call_at(1900, lambda: loop.set_link(0, 0, True))
    loop.run_until(4000)
    assert b.got == [(2700, 0, b"kept")]
    assert loop.links[0, 0].lost_down == 1


def test_impairments_account_for_every_frame_and_repeat_by_seed() -> None:
    def run(seed: int) -> list[tuple[int, int, bytes]]:
        loop, a, b = pair(seed)
        link = loop.links[0, 0]
        link.impairment = Impairment(
            delay_ns=10, loss=0.2, duplicate=0.1, reorder=0.3, reorder_delay_ns=500, corrupt=0.1
        )
        a.due.extend((i * 100, 0, i.to_bytes(4)) for i in range(1000))
        loop.wake(0)
        loop.run_until(10**6)
        assert len(b.got) == 1000 - link.lost + link.duplicated
        assert 0 < link.corrupted < 200
        return b.got

    assert run(7) == run(7)
    assert run(7) != run(8)


def test_the_global_random_stream_is_not_touched() -> None:
    before = random.getstate()
    loop, a, _ = pair()
    loop.links[0, 0].impairment = Impairment(loss=0.5)
    a.due.extend((i, 0, b"x") for i in range(10))
    loop.wake(0)
    loop.run_until(100)
    assert random.getstate() == before


def test_two_nodes_that_answer_each_other_at_one_instant_are_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("worlds.virtual.loop.MOMENT_EVENTS_MAX", 1000)
    loop, a, b = pair()
    a.reply = b.reply = True
    a.due.append((5, 0, b"ping"))
    loop.wake(0)
    with pytest.raises(StuckError, match="stands still at 5 ns"):
        loop.run_until(10)
