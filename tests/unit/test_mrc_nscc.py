"""NSCC: the simulator's traces to the bit, and the consequences of the specification's rules."""

import csv
from pathlib import Path

import pytest

from hosts.mrc.cc.nscc import Nscc, NsccParams, scaled_params

VECTORS = Path(__file__).parents[1] / "vectors" / "nscc"
PS = 1e12

FAST_NETWORK = NsccParams(
    mtu=4160, rate=100e9 / 8 / PS, base_rtt=9_351_680, bdp=116_895.0, ref_bdp=150_000,
    ref_rtt=12e6, near_zero=1e6, target=0.75 * 9_351_680, gain_unit=4096,
    qa_threshold=4 * 0.75 * 9_351_680, simulator=True,
)  # fmt: skip
SLOW_NETWORK = NsccParams(
    mtu=1024, rate=20e6 / 8 / PS, base_rtt=20e9, ref_bdp=36_923, ref_rtt=14_769_230e3,
    near_zero=1_230_770e3, target=15e9, gain_unit=960, qa_threshold=60e9, simulator=True,
)  # fmt: skip
"""As vectors/nscc was made: times in picoseconds (facts/nscc.md 1.5)."""


@pytest.mark.parametrize(
    ("trace", "params"),
    [
        ("trace_i8_1", FAST_NETWORK),
        ("trace_i32_3", FAST_NETWORK),
        ("trace_perm_10", FAST_NETWORK),
        ("trace_low32_3", SLOW_NETWORK),
    ],
)
def test_the_simulators_traces_replay_to_the_bit(trace: str, params: NsccParams) -> None:
    nscc = Nscc(params)
    lines = (VECTORS / f"{trace}.csv").read_text().splitlines()
    for number, row in enumerate(csv.reader(lines), 1):
        kind = row[0]
        now, flag, rtt, _, size, inflight, before, after, base_rtt, max_cwnd, average = map(
            int, row[1:]
        )
        where = f"{trace} line {number}"
        assert nscc.cwnd_bytes == before, where
        if kind == "A":  # bytes in flight as they are after this ACK
            nscc.inflight_bytes = inflight + size
            nscc.on_ack(size, marked=bool(flag), rtt_ns=rtt or None, now=now)
        elif kind == "N":  # as they are before this NACK
            nscc.inflight_bytes = inflight
            nscc.on_trim(size, last_hop=bool(flag), rtt_ns=rtt or None, now=now)
        else:
            nscc.on_loss(size)
        got = (nscc.cwnd_bytes, nscc.base_rtt, nscc.max_cwnd, nscc.avg_delay)
        assert got == (after, base_rtt, max_cwnd, average), where


RATE = 100_000_000_000
RTT = 10_000.0
MTU = 4176


def fresh() -> Nscc:
    return Nscc(scaled_params(rate_bps=RATE, base_rtt_ns=RTT, mtu=MTU))


def feed(nscc: Nscc, delay: float, *, marked: bool, rtts: float = 1.0, start: float = 1e6) -> float:
    """ACKs of four packets, as many windows as asked; the time after them."""
    now, batch = start, 4 * MTU
    acked = 0.0
    while acked < rtts * nscc.cwnd_bytes:
        nscc.inflight_bytes = int(nscc.cwnd_bytes)
        nscc.on_ack(batch, marked=marked, rtt_ns=RTT + delay, now=now)
        acked += batch
        now += batch * 8e9 / RATE
    return now


def test_the_first_window_is_one_and_a_half_bdp() -> None:
    assert fresh().cwnd_bytes == pytest.approx(1.5 * RATE / 8e9 * RTT)


def test_delay_alone_never_shrinks_the_window() -> None:
    nscc = fresh()
    nscc.cwnd_bytes = before = 20 * MTU
    feed(nscc, delay=5 * RTT, marked=False)
    assert nscc.cwnd_bytes > before


def test_a_mark_with_little_delay_changes_nothing_but_the_path() -> None:
    nscc = fresh()
    nscc.cwnd_bytes = before = 20 * MTU
    nscc._adjusted_at = 1e6
    nscc.on_ack(4 * MTU, marked=True, rtt_ns=RTT + 100, now=1e6)
    assert nscc.cwnd_bytes == before


def test_marks_and_delay_shrink_it_at_most_once_a_base_rtt_and_by_half() -> None:
    nscc = fresh()
    before = nscc.cwnd_bytes
    nscc._averaged_at = 0
    nscc.on_ack(MTU, marked=True, rtt_ns=RTT + 1e9, now=1e6)
    assert nscc.cwnd_bytes == pytest.approx(before / 2, rel=0.01)
    once = nscc.cwnd_bytes
    nscc.on_ack(MTU, marked=True, rtt_ns=RTT + 1e9, now=1e6 + RTT / 2)
    assert nscc.cwnd_bytes == pytest.approx(once, rel=0.01)
    nscc.on_ack(MTU, marked=True, rtt_ns=RTT + 1e9, now=1e6 + 1.1 * RTT)
    assert nscc.cwnd_bytes < 0.6 * once


def test_one_window_of_acks_adds_the_fair_increase() -> None:
    nscc = fresh()
    nscc.cwnd_bytes = before = 24 * MTU
    fair = 5 * MTU * (RATE / 8e9 * RTT) / (150_000 * MTU / 4096)
    nscc._adjusted_at = 1e6
    feed(nscc, delay=RTT, marked=False)
    assert nscc.cwnd_bytes - before == pytest.approx(fair, rel=0.4)


def test_without_any_delay_it_opens_fast() -> None:
    slow, fast = fresh(), fresh()
    for nscc in (slow, fast):
        nscc.cwnd_bytes = 8 * MTU
    feed(slow, delay=0.9 * 0.75 * RTT, marked=False, rtts=3)
    feed(fast, delay=0.0, marked=False, rtts=3)
    assert fast.cwnd_bytes > 1.5 * slow.cwnd_bytes
    feed(fast, delay=0.0, marked=False, rtts=20, start=2e6)
    assert fast.cwnd_bytes == fast.max_cwnd


def test_a_trimmed_packet_costs_its_own_size() -> None:
    nscc = fresh()
    before = nscc.cwnd_bytes
    nscc.inflight_bytes = 10 * MTU
    nscc.on_trim(MTU, last_hop=True, now=1e6)
    assert nscc.cwnd_bytes == before - MTU
    assert nscc.inflight_bytes == 9 * MTU


def test_a_lost_packet_costs_its_own_size_and_never_more_than_all() -> None:
    nscc = fresh()
    for _ in range(100):
        nscc.on_loss(MTU)
    assert nscc.cwnd_bytes == MTU


def test_quick_adapt_cuts_to_what_got_through() -> None:
    nscc = fresh()
    nscc.inflight_bytes = 40 * MTU
    nscc.on_ack(MTU, marked=False, rtt_ns=RTT, now=1e6)  # opens the window of measurement
    nscc.on_ack(2 * MTU, marked=False, rtt_ns=RTT, now=1e6 + RTT)
    nscc.on_trim(MTU, last_hop=False, now=1e6 + 2 * RTT)
    assert nscc.cwnd_bytes == 2 * MTU
    # What was in flight at the cut drains without a further reaction to its marks.
    nscc.on_ack(MTU, marked=True, rtt_ns=50 * RTT, now=1e6 + 2.1 * RTT)
    assert nscc.cwnd_bytes == 2 * MTU


def test_base_rtt_falls_only_by_clean_samples() -> None:
    nscc = fresh()
    nscc.on_ack(MTU, marked=False, rtt_ns=RTT / 2, rtt_is_clean=False, now=1e6)
    assert nscc.base_rtt == RTT
    nscc.on_ack(MTU, marked=False, rtt_ns=RTT / 2, rtt_is_clean=True, now=1e6)
    assert nscc.base_rtt == RTT / 2
    assert nscc.max_cwnd == pytest.approx(1.5 * RATE / 8e9 * RTT / 2)


def test_an_ack_without_a_sample_only_counts_bytes() -> None:
    nscc = fresh()
    nscc.inflight_bytes = 5 * MTU
    before = nscc.cwnd_bytes
    nscc.on_ack(4 * MTU, marked=True, rtt_ns=None, now=1e6)
    assert (nscc.cwnd_bytes, nscc.inflight_bytes) == (before, MTU)


@pytest.mark.parametrize(("penalty", "share"), [(64, 0.5), (32, 0.75)])
def test_the_receivers_penalty_for_one_round_trip(penalty: int, share: float) -> None:
    nscc = fresh()
    before = nscc.cwnd_bytes
    left = before
    while left > 0:
        nscc.inflight_bytes = int(before)
        nscc.on_ack(MTU, marked=False, rtt_ns=RTT, penalty=penalty, now=1e6)
        left -= MTU
    assert nscc.cwnd_bytes == pytest.approx(share * before, rel=0.05)


@pytest.mark.parametrize("restore", [True, False])
def test_restore_cwnd_says_whether_the_saved_window_comes_back(restore: bool) -> None:
    nscc = fresh()
    before = nscc.cwnd_bytes
    nscc.inflight_bytes = int(before)
    for _ in range(10):
        nscc.on_ack(MTU, marked=False, rtt_ns=RTT, penalty=127, now=1e6)
    reduced = nscc.cwnd_bytes
    nscc.on_ack(MTU, marked=False, rtt_ns=None, restore=restore, now=1e6)
    assert nscc.cwnd_bytes == (before if restore else reduced)


def test_fewer_planes_mean_a_smaller_largest_window() -> None:
    nscc = fresh()
    nscc.set_rate(RATE * 7 / 8)
    assert nscc.cwnd_bytes == nscc.max_cwnd == pytest.approx(7 / 8 * 1.5 * RATE / 8e9 * RTT)


def test_time_and_rate_can_be_dilated_together() -> None:
    """10 Mb/s with a base RTT of 100 ms behaves as 100 Gb/s with 10 us."""
    k = 10_000
    fast, slow = fresh(), Nscc(scaled_params(rate_bps=RATE / k, base_rtt_ns=RTT * k, mtu=MTU))
    assert fast.cwnd_bytes == pytest.approx(slow.cwnd_bytes)
    for i in range(300):
        delay, marked = (i * 37 % 200) / 10 * 1000, i % 7 == 0
        now = 1e6 + i * 700
        for nscc, unit in ((fast, 1), (slow, k)):
            nscc.inflight_bytes = int(nscc.cwnd_bytes)
            nscc.on_ack(MTU, marked=marked, rtt_ns=(RTT + delay) * unit, now=now * unit)
            if i % 50 == 49:
                nscc.on_trim(MTU, last_hop=False, now=(now + 1) * unit)
        assert fast.cwnd_bytes == pytest.approx(slow.cwnd_bytes, rel=1e-9)
