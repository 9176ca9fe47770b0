"""Queues: limits to the packet and the byte, strict priority packet by packet, pause, depths."""

import pytest

from switches.api import (
    CONTROL_PRIORITY,
    DATA_PRIORITY,
    PortConfig,
    QueueLimit,
    QueueStats,
    SwitchError,
)
from switches.engine.library import EngineSwitch
from tests.engine.conftest import MakeSwitch
from tests.engine.drive import collect, run_until, send
from tests.engine.tiny import frame, tag_of

OUT = 1
ROOMY = QueueLimit(1 << 20, 1 << 30)


def queue(switch: EngineSwitch, priority: int) -> QueueStats:
    return switch.device.port_stats()[OUT].queues[priority]


def paused_switch(make_switch: MakeSwitch, priority: int, limit: QueueLimit) -> EngineSwitch:
    switch = make_switch()
    queues = tuple(limit if i == priority else ROOMY for i in (DATA_PRIORITY, CONTROL_PRIORITY))
    switch.device.configure_port(OUT, PortConfig(rate_bps=0, queues=queues))
    switch.device.pause_queue(OUT, priority, True)
    return switch


@pytest.mark.parametrize(("limit", "offered"), [(1, 1), (1, 2), (16, 40), (100, 1000)])
def test_a_paused_data_queue_holds_its_limit_and_refuses_the_rest(
    make_switch: MakeSwitch, limit: int, offered: int
) -> None:
    switch = paused_switch(make_switch, DATA_PRIORITY, QueueLimit(limit, 1 << 30))
    for tag in range(offered):
        assert send(switch, 0, frame(OUT, tag=tag), 1000 + tag) == []
    stats = queue(switch, DATA_PRIORITY)
    kept = min(limit, offered)
    assert (stats.depth_packets, stats.enqueued, stats.dropped) == (kept, kept, offered - kept)
    assert stats.depth_bytes == 64 * kept
    assert stats.depth_packets_max == kept

    switch.device.pause_queue(OUT, DATA_PRIORITY, False)
    left = collect(switch, 9999)
    assert [tag_of(sent.frame) for sent in left] == list(range(kept))


def test_a_paused_control_queue_refuses_exactly_the_trims_beyond_its_limit(
    make_switch: MakeSwitch,
) -> None:
    switch = paused_switch(make_switch, CONTROL_PRIORITY, QueueLimit(16, 1 << 30))
    for tag in range(50):
        trimmed = frame(OUT, priority=CONTROL_PRIORITY, keep=144, tag=tag, size=4238)
        assert send(switch, 0, trimmed, tag) == []
    stats = queue(switch, CONTROL_PRIORITY)
    assert (stats.depth_packets, stats.depth_bytes) == (16, 16 * 144)
    assert (stats.trim, stats.trim_sent, stats.trim_drop, stats.dropped) == (50, 0, 34, 0)

    switch.device.pause_queue(OUT, CONTROL_PRIORITY, False)
    left = collect(switch, 100)
    assert [len(sent.frame) for sent in left] == [144] * 16
    stats = queue(switch, CONTROL_PRIORITY)
    assert (stats.trim, stats.trim_sent, stats.trim_drop) == (50, 16, 34)


def test_control_may_use_a_quarter_more_than_trims(make_switch: MakeSwitch) -> None:
    switch = paused_switch(make_switch, CONTROL_PRIORITY, QueueLimit(16, 1 << 30))
    for tag in range(30):
        send(switch, 0, frame(OUT, priority=CONTROL_PRIORITY, tag=tag), tag)
    send(switch, 0, frame(OUT, priority=CONTROL_PRIORITY, keep=60), 30)
    stats = queue(switch, CONTROL_PRIORITY)
    assert (stats.depth_packets, stats.dropped, stats.trim_drop) == (20, 10, 1)


def test_a_packet_not_longer_than_its_cut_is_no_trim(make_switch: MakeSwitch) -> None:
    switch = paused_switch(make_switch, CONTROL_PRIORITY, QueueLimit(4, 1 << 30))
    for _ in range(6):
        send(switch, 0, frame(OUT, priority=CONTROL_PRIORITY, keep=64, size=64), 0)
    stats = queue(switch, CONTROL_PRIORITY)
    assert (stats.depth_packets, stats.trim, stats.dropped) == (5, 0, 1)


def test_a_byte_limit_counts_what_will_leave(make_switch: MakeSwitch) -> None:
    switch = paused_switch(make_switch, DATA_PRIORITY, QueueLimit(1 << 20, 1000))
    for size in (400, 400, 201, 200, 1):
        send(switch, 0, frame(OUT, size=size), 0)
    stats = queue(switch, DATA_PRIORITY)
    # One byte too many is refused, the frame that fits after it is not.
    assert (stats.depth_packets, stats.depth_bytes, stats.dropped) == (3, 1000, 2)


def test_two_full_queues_leave_control_first_packet_by_packet(make_switch: MakeSwitch) -> None:
    switch = make_switch()
    config = PortConfig(
        rate_bps=1_000_000, queues=(QueueLimit(50, 1 << 30), QueueLimit(40, 1 << 30))
    )
    switch.device.configure_port(OUT, config)
    for priority in (DATA_PRIORITY, CONTROL_PRIORITY):
        switch.device.pause_queue(OUT, priority, True)
    for tag in range(200):
        send(switch, 0, frame(OUT, priority=tag % 2, tag=tag), 0)
    for priority in (DATA_PRIORITY, CONTROL_PRIORITY):
        switch.device.pause_queue(OUT, priority, False)
    left = [tag_of(sent.frame) for sent in run_until(switch, 10**9)]
    control, data = [2 * i + 1 for i in range(50)], [2 * i for i in range(50)]
    # Unpausing data first let one data packet take the idle line before control could.
    assert left == [data[0], *control, *data[1:]]


def test_a_late_control_packet_overtakes_the_data_that_waits(make_switch: MakeSwitch) -> None:
    switch = make_switch()
    switch.device.configure_port(OUT, PortConfig(rate_bps=8_000_000))  # a byte a microsecond
    for tag in range(5):
        send(switch, 0, frame(OUT, tag=tag, size=1000), 0)
    run_until(switch, 1_500_000)  # 0 has left, 1 is being sent
    send(switch, 0, frame(OUT, priority=CONTROL_PRIORITY, tag=99, size=100), 1_500_000)
    left = run_until(switch, 10**9)
    assert [tag_of(sent.frame) for sent in left] == [1, 99, 2, 3, 4]
    assert [sent.t_ns for sent in left[:3]] == [2_000_000, 2_100_000, 3_100_000]


def test_depths_are_those_before_enqueue_and_after_dequeue_of_that_priority(
    make_switch: MakeSwitch,
) -> None:
    switch = make_switch()
    switch.device.configure_port(OUT, PortConfig(rate_bps=8_000_000))
    for tag in range(4):
        send(switch, 0, frame(OUT, tag=tag), 0)
    for tag in range(3):
        send(switch, 0, frame(OUT, priority=CONTROL_PRIORITY, tag=10 + tag), 1)
    left = run_until(switch, 10**9)
    # (tag, enq_qdepth, deq_qdepth): packet 0 never waited, so 1 found the queue empty.
    assert [(tag_of(s.frame), s.frame[6], s.frame[7]) for s in left] == [
        (0, 0, 0),
        (10, 0, 2),
        (11, 1, 1),
        (12, 2, 0),
        (1, 0, 2),
        (2, 1, 1),
        (3, 2, 0),
    ]


def test_what_has_no_queue_or_port_is_counted_by_reason(make_switch: MakeSwitch) -> None:
    switch = make_switch(2)
    send(switch, 0, frame(7), 0)
    send(switch, 0, frame(OUT, priority=5), 0)
    send(switch, 0, bytes([OUT]) + bytes(9728), 0)
    drops = switch.device.switch_stats().drops
    assert {name: count for name, count in drops.items() if count} == {
        "no_port": 1,
        "no_queue": 1,
        "too_long": 1,
    }


def test_a_queue_with_packets_cannot_be_configured_away(make_switch: MakeSwitch) -> None:
    switch = paused_switch(make_switch, CONTROL_PRIORITY, ROOMY)
    send(switch, 0, frame(OUT, priority=CONTROL_PRIORITY), 0)
    one = PortConfig(rate_bps=0, queues=(ROOMY,))
    with pytest.raises(SwitchError):
        switch.device.configure_port(OUT, one)
    switch.device.pause_queue(OUT, CONTROL_PRIORITY, False)
    switch.device.configure_port(OUT, one)
    assert len(switch.device.port_stats()[OUT].queues) == 1
