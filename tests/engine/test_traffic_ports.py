"""Ports that go down and come back: no queue is flushed, every frame is accounted for."""

import random

from switches.api import CONTROL_PRIORITY, DATA_PRIORITY, PortConfig, PortStats, QueueLimit
from switches.engine.library import EngineSwitch
from tests.engine.conftest import MakeSwitch
from tests.engine.drive import collect, run_until, send
from tests.engine.tiny import frame, tag_of

OUT = 1
BYTE_PER_US = 8_000_000


def test_a_down_port_drains_at_line_rate_and_loses_at_the_wire(make_switch: MakeSwitch) -> None:
    switch = make_switch()
    switch.device.configure_port(OUT, PortConfig(rate_bps=BYTE_PER_US))
    for tag in range(10):
        send(switch, 0, frame(OUT, tag=tag, size=1000), 0)
    switch.port_changed(OUT, False, 0)
    assert run_until(switch, 4_500_000) == []
    stats = switch.device.port_stats()[OUT]
    assert (stats.up, stats.link_down, stats.tx_packets) == (False, 4, 0)
    assert stats.queues[DATA_PRIORITY].depth_packets == 5  # the sixth is on the line

    switch.port_changed(OUT, True, 4_500_000)
    left = run_until(switch, 10**9)
    assert [tag_of(s.frame) for s in left] == [4, 5, 6, 7, 8, 9]


def test_after_a_full_queue_went_down_the_next_data_packet_leaves_whole(
    make_switch: MakeSwitch,
) -> None:
    switch = make_switch()
    queues = (QueueLimit(16, 1 << 30), QueueLimit(32, 1 << 30))
    switch.device.configure_port(OUT, PortConfig(rate_bps=BYTE_PER_US, queues=queues))
    for tag in range(40):
        send(switch, 0, frame(OUT, tag=tag, size=1000), 0)
    switch.port_changed(OUT, False, 0)
    assert run_until(switch, 10**9) == []
    stats = switch.device.port_stats()[OUT]
    assert (stats.link_down, stats.queues[DATA_PRIORITY].depth_packets) == (17, 0)
    switch.port_changed(OUT, True, 10**9)
    send(switch, 0, frame(OUT, tag=77, size=1000), 10**9)
    (left,) = run_until(switch, 2 * 10**9)
    assert (tag_of(left.frame), len(left.frame), left.t_ns) == (77, 1000, 10**9 + 1_000_000)


def test_other_ports_do_not_notice(make_switch: MakeSwitch) -> None:
    switch = make_switch()
    switch.port_changed(OUT, False, 0)
    assert send(switch, 0, frame(OUT), 0) == []
    (left,) = send(switch, OUT, frame(2, tag=5), 0)
    assert (left.port, tag_of(left.frame)) == (2, 5)


def flat(stats: list[PortStats]) -> list[int]:
    """Every count that must never fall."""
    found = []
    for port in stats:
        found += [port.rx_packets, port.rx_bytes, port.tx_packets, port.tx_bytes, port.link_down]
        for q in port.queues:
            found += [q.enqueued, q.dequeued, q.dropped, q.trim, q.trim_sent, q.trim_drop]
            found += [q.depth_packets_max]
    return found


def assert_balanced(switch: EngineSwitch, in_flight: int) -> None:
    stats = switch.device.port_stats()
    queues = [q for port in stats for q in port.queues]
    received = sum(port.rx_packets for port in stats)
    lost = sum(port.link_down for port in stats) + sum(q.dropped + q.trim_drop for q in queues)
    dropped = sum(switch.device.switch_stats().drops.values())
    sent = sum(port.tx_packets for port in stats)
    queued = sum(q.depth_packets for q in queues)
    assert received == sent + lost + dropped + queued + in_flight
    for q in queues:
        assert q.enqueued == q.dequeued + q.depth_packets
        assert q.trim_sent + q.trim_drop <= q.trim


def test_counts_never_fall_and_always_balance(make_switch: MakeSwitch) -> None:
    rng = random.Random(7)
    switch = make_switch()
    queues = (QueueLimit(8, 9000), QueueLimit(6, 2000))
    for port in range(3):
        switch.device.configure_port(port, PortConfig(rate_bps=BYTE_PER_US, queues=queues))
    now, before = 0, flat(switch.device.port_stats())
    for step in range(3000):
        now += rng.randrange(200_000)
        run_until(switch, now)
        size = rng.choice([40, 300, 1500])
        keep = rng.choice([0, 0, 144])
        priority = CONTROL_PRIORITY if keep else rng.randrange(2)
        send(
            switch,
            rng.randrange(4),
            frame(rng.randrange(5), priority=priority, keep=keep, size=size),
            now,
        )
        if step % 50 == 0:
            switch.port_changed(rng.randrange(4), rng.random() < 0.5, now)
            after = flat(switch.device.port_stats())
            assert all(a >= b for a, b in zip(after, before, strict=True))
            before = after
    for port in range(4):
        switch.port_changed(port, True, now)
    run_until(switch, now + 10**9)
    assert collect(switch, now + 10**9) == []
    assert switch.device.switch_stats().buffers == 0
    assert_balanced(switch, 0)
    trims = [q for port in switch.device.port_stats() for q in port.queues]
    assert all(q.trim == q.trim_sent + q.trim_drop for q in trims)
    assert sum(q.trim_drop for q in trims) > 0, "the test reached the trim limit"
