"""The line: exact long-run rates, delays, and what lateness may and may not do to them."""

import itertools
from fractions import Fraction

import pytest

from switches.api import PortConfig, QueueLimit
from switches.engine.library import EngineSwitch
from tests.engine.conftest import MakeSwitch
from tests.engine.drive import Sent, collect, run_until, send
from tests.engine.tiny import frame, tag_of

OUT = 1
ROOMY = (QueueLimit(1 << 20, 1 << 40), QueueLimit(1 << 20, 1 << 40))
BYTE_PER_US = 8_000_000

RATES_BPS = (
    1_000_000,
    10_000_000,
    33_333_333,
    1_000_000_007,
    10_000_000_000,
    40_000_000_000,
    100_000_000_000,
)


def switch_at(make_switch: MakeSwitch, rate_bps: int, **config: int) -> EngineSwitch:
    switch = make_switch()
    switch.device.configure_port(OUT, PortConfig(rate_bps=rate_bps, queues=ROOMY, **config))
    return switch


@pytest.mark.parametrize("size", [154, 1100, 4238])
@pytest.mark.parametrize("rate_bps", RATES_BPS)
def test_the_long_run_rate_is_exact(make_switch: MakeSwitch, rate_bps: int, size: int) -> None:
    switch = switch_at(make_switch, rate_bps)
    count = 500
    for _ in range(count):
        send(switch, 0, frame(OUT, size=size), 0)
    left = run_until(switch, 1 << 62)
    assert len(left) == count
    exact_ns = Fraction(count * size * 8 * 10**9, rate_bps)
    # Never early by a nanosecond or more, never late: far inside the 0.01 % that are allowed.
    assert 0 <= exact_ns - left[-1].t_ns < 1
    assert abs(exact_ns / left[-1].t_ns - 1) < Fraction(1, 10_000)


def test_every_single_frame_is_on_its_time(make_switch: MakeSwitch) -> None:
    switch = switch_at(make_switch, 100_000_000_000)
    sizes = [154, 4238, 1100, 64, 999] * 40
    for size in sizes:
        send(switch, 0, frame(OUT, size=size), 0)
    left = run_until(switch, 1 << 62)
    ends = itertools.accumulate(size * 8 * 10**9 for size in sizes)
    assert [sent.t_ns for sent in left] == [end // 100_000_000_000 for end in ends]


def test_an_idle_line_starts_at_once_and_saves_nothing_up(make_switch: MakeSwitch) -> None:
    switch = switch_at(make_switch, BYTE_PER_US)
    left: list[Sent] = []
    for start in (0, 5_000_000, 50_000_000):
        left += run_until(switch, start)
        for _ in range(3):
            left += send(switch, 0, frame(OUT, size=1000), start)
    left += run_until(switch, 10**9)
    expected = [base + i * 1_000_000 for base in (0, 5_000_000, 50_000_000) for i in (1, 2, 3)]
    assert [sent.t_ns for sent in left] == expected


def test_a_frame_arrives_after_its_last_bit_and_the_delay(make_switch: MakeSwitch) -> None:
    switch = switch_at(make_switch, BYTE_PER_US, egress_delay_ns=7_000_000)
    for tag in range(3):
        send(switch, 0, frame(OUT, tag=tag, size=100), 0)
    left = run_until(switch, 10**9)
    assert [(tag_of(s.frame), s.t_ns) for s in left] == [
        (0, 7_100_000),
        (1, 7_200_000),
        (2, 7_300_000),
    ]


def test_ingress_delay_is_before_the_parser_and_keeps_order(make_switch: MakeSwitch) -> None:
    switch = make_switch()
    switch.device.configure_port(0, PortConfig(rate_bps=0, ingress_delay_ns=500))
    for tag in range(3):
        assert send(switch, 0, frame(OUT, tag=tag), 10 * tag) == []
    assert switch.device.read_counter("Tiny.seen")[0].packets == 0
    left = run_until(switch, 10**6)
    assert [(tag_of(s.frame), s.t_ns) for s in left] == [(0, 500), (1, 510), (2, 520)]


def test_a_shorter_delay_lets_nothing_overtake(make_switch: MakeSwitch) -> None:
    switch = switch_at(make_switch, 0, egress_delay_ns=1000)
    send(switch, 0, frame(OUT, tag=1), 0)
    switch.device.configure_port(OUT, PortConfig(rate_bps=0, queues=ROOMY))
    left = send(switch, 0, frame(OUT, tag=2), 10) + run_until(switch, 10**6)
    assert [(tag_of(s.frame), s.t_ns) for s in left] == [(1, 1000), (2, 1000)]


def test_rate_counts_the_frame_that_leaves_not_the_one_that_came(make_switch: MakeSwitch) -> None:
    switch = switch_at(make_switch, BYTE_PER_US)
    for _ in range(4):
        send(switch, 0, frame(OUT, priority=1, keep=144, size=4238), 0)
    assert [s.t_ns for s in run_until(switch, 10**9)] == [144_000 * i for i in (1, 2, 3, 4)]


def serve_late(switch: EngineSwitch, period_ns: int, end_ns: int) -> list[Sent]:
    """A driver that comes by only now and then, as a busy machine does."""
    found: list[Sent] = []
    for now_ns in range(0, end_ns, period_ns):
        switch.handle_timeout(now_ns)
        found += collect(switch, now_ns)
    return found


def test_lateness_up_to_two_frames_costs_no_rate(make_switch: MakeSwitch) -> None:
    switch = switch_at(make_switch, BYTE_PER_US)
    for _ in range(1000):
        send(switch, 0, frame(OUT, size=1000), 0)
    left = serve_late(switch, 1_900_000, 800_000_000)
    assert 795 <= len(left) <= 800
    assert switch.device.pacing()[OUT].lost_ns == 0


def test_lateness_beyond_two_frames_is_lost_and_counted(make_switch: MakeSwitch) -> None:
    switch = switch_at(make_switch, BYTE_PER_US)
    for _ in range(1000):
        send(switch, 0, frame(OUT, size=1000), 0)
    left = serve_late(switch, 10_000_000, 100_000_000)
    pacing = switch.device.pacing()[OUT]
    # Of every ten frame times three can be used: the one that is due and two to catch up.
    assert 25 <= len(left) <= 30
    assert pacing.lost_ns / (pacing.lost_ns + pacing.busy_ns) == pytest.approx(0.7, abs=0.05)


def test_a_pause_is_no_lateness(make_switch: MakeSwitch) -> None:
    switch = switch_at(make_switch, BYTE_PER_US)
    switch.device.pause_queue(OUT, 0, True)
    for _ in range(5):
        send(switch, 0, frame(OUT, size=1000), 0)
    assert run_until(switch, 20_000_000) == []
    switch.handle_timeout(20_000_000)
    switch.device.pause_queue(OUT, 0, False)
    left = run_until(switch, 10**9)
    assert [s.t_ns for s in left] == [20_000_000 + i * 1_000_000 for i in (1, 2, 3, 4, 5)]
    assert switch.device.pacing()[OUT].lost_ns == 0
