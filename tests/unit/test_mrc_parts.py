"""The small parts of the transport: PSNs, timers, windows, memory."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosts.errors import UsageError
from hosts.mrc.config import EndpointConfig, NicPort
from hosts.mrc.memory import MemoryTable
from hosts.mrc.outstanding import Outstanding, Snapshot
from hosts.mrc.port import Port
from hosts.mrc.psn import PSN_MASK, psn_add, psn_diff, serial_diff, unwrap
from hosts.mrc.reorder import ReorderWindow
from hosts.mrc.timers import Timer, TimerKind, Timers
from hosts.mrc.units import derived_timeout, ticks, timeout_exponent, timeout_ns
from hosts.wire.aeth import NakCode

psns = st.integers(0, PSN_MASK)


@given(psns, st.integers(-(1 << 23), (1 << 23) - 1))
def test_psn_distance_is_what_was_added(psn: int, count: int) -> None:
    assert psn_diff(psn_add(psn, count), psn) == count


@given(st.integers(0, 1 << 40), st.integers(-(1 << 23), (1 << 23) - 1))
def test_unwrap_finds_the_nearest_seq(near: int, offset: int) -> None:
    assert unwrap((near + offset) & PSN_MASK, near) == near + offset


def test_serial_diff_of_other_widths() -> None:
    assert serial_diff(0, 0xFFFF, 16) == 1
    assert serial_diff(0xFFFF, 0, 16) == -1
    assert serial_diff(3, 1, 24) == 2


def test_timeouts_are_1024_ns_times_powers_of_two() -> None:
    assert timeout_ns(0) == 1024
    assert timeout_ns(8) == 262_144
    assert timeout_exponent(1024) == 0
    assert timeout_exponent(1025) == 1
    assert timeout_exponent(1 << 60) == 24
    assert timeout_ns(derived_timeout(16_000_000, 60_000_000)) >= 95_000_000
    assert timeout_ns(derived_timeout(16_000_000, 60_000_000) - 1) < 95_000_000
    assert ticks(128 * 0x10001, 128) == 1


def test_timers_come_out_in_order_and_moved_ones_only_once() -> None:
    timers = Timers()
    a, b, c = (Timer(TimerKind.EV, name) for name in "abc")
    timers.set(a, 10)
    timers.set(b, 5)
    timers.set(c, 7)
    timers.set(b, 20)  # later: the entry at 5 must not fire
    timers.stop(c)
    assert timers.next_due() == 10
    timers.set(a, 3)  # earlier
    assert timers.next_due() == 3
    assert timers.pop_due(2) is None
    assert timers.pop_due(3) is a
    assert timers.pop_due(15) is None
    timers.set(c, 16)
    fired = []
    while (timer := timers.pop_due(30)) is not None:
        fired.append(timer.owner)
    assert fired == ["c", "b"]
    assert timers.next_due() is None


@given(st.lists(st.tuples(st.integers(0, 4), st.one_of(st.none(), st.integers(0, 50)))))
def test_timers_equal_a_plain_table(moves: list[tuple[int, int | None]]) -> None:
    timers, table = Timers(), dict[int, int]()
    made = [Timer(TimerKind.EV, i) for i in range(5)]
    now = 0
    for index, at in moves:
        if at is None:
            timers.stop(made[index])
            table.pop(index, None)
        else:
            timers.set(made[index], now + at)
            table[index] = now + at
        assert timers.next_due() == min(table.values(), default=None)
        now += 7
        fired = set()
        while (timer := timers.pop_due(now)) is not None:
            fired.add(timer.owner)
        assert fired == {i for i, t in table.items() if t <= now}
        table = {i: t for i, t in table.items() if t > now}


@given(st.permutations(range(100)), st.integers(0, 1 << 25))
def test_reorder_window_equals_a_set(order: list[int], first: int) -> None:
    window, received = ReorderWindow(first), set[int]()
    for offset in order:
        seq = first + offset
        assert not window.has(seq)
        window.accept(seq)
        received.add(seq)
        cack = first - 1
        while cack + 1 in received:
            cack += 1
        assert window.cack == cack
        assert window.highest == max(received)
        assert window.ooo_count == sum(1 for s in received if s > cack)
        base = window.sack_base(seq)
        assert base == max(cack + 1, seq - 63)
        bitmap = window.bitmap(base)
        assert bitmap == sum(1 << i for i in range(64) if base + i in received)
        assert all(window.has(s) for s in received)


def test_a_snapshot_is_silent_about_what_it_does_not_cover() -> None:
    snapshot = Snapshot(cack=100, base=200, bitmap=0b101, order=102)
    assert snapshot.lacks(101)  # or cack would be higher
    assert not snapshot.lacks(102)  # not covered: unknown
    assert not snapshot.lacks(200)
    assert snapshot.lacks(201)
    assert not snapshot.lacks(202)
    assert snapshot.lacks(263)
    assert not snapshot.lacks(264)
    assert not snapshot.lacks(100)


@given(st.data())
def test_missing_is_only_what_some_bitmap_covered_with_0(data: st.DataObject) -> None:
    out = Outstanding(0)
    received, covered = set[int](), set[int]()
    window = ReorderWindow(0)
    for _ in range(data.draw(st.integers(1, 20))):
        seq = data.draw(st.integers(0, 300).filter(lambda s: not window.has(s)))
        window.accept(seq)
        if data.draw(st.booleans()):
            continue  # this SACK is lost
        base = window.sack_base(seq)
        bitmap = window.bitmap(base)
        out.acknowledge(Snapshot(window.cack, base, bitmap, window.cack + window.ooo_count))
        received |= {base + i for i in range(64) if bitmap >> i & 1}
        received |= set(range(window.cack + 1))
        covered |= set(range(base, base + 64))
        for s in range(400):
            assert out.was_missing(s) == (s in covered and s not in received), s


def test_memory_is_written_only_where_the_key_leads() -> None:
    table = MemoryTable(Random(1))
    region, other = table.register(100, pd=1), table.register(100, pd=2)
    payload = memoryview(b"x" * 10)
    assert table.place(region.rkey, region.va + 90, payload, 1) is None
    assert region.buffer == bytes(90) + b"x" * 10
    for rkey, va, pd in (
        (region.rkey ^ 1, region.va, 1),  # wrong key
        (region.rkey, region.va + 91, 1),  # one past the end
        (region.rkey, region.va - 1, 1),  # one before
        (region.rkey, other.va, 1),  # another region's address
        (region.rkey, region.va, 2),  # another protection domain
    ):
        assert table.place(rkey, va, payload, pd) is NakCode.REMOTE_ACCESS_ERROR
    assert other.buffer == bytes(100)
    assert region.buffer == bytes(90) + b"x" * 10
    table.deregister(region)
    assert table.place(region.rkey, region.va, payload, 1) is NakCode.REMOTE_ACCESS_ERROR
    with pytest.raises(UsageError):
        table.deregister(region)


def test_a_port_keeps_its_rate_exactly_and_forgives_two_frames() -> None:
    port = Port(0, 10_000_000)
    now = 0
    for _ in range(1000):
        now = max(now, port.next_free_ns)
        port.charge(4238, now)
    assert port.next_free_ns == 1000 * 4238 * 800
    frame = 4238 * 800
    late = port.next_free_ns + 2 * frame
    port.charge(4238, late)
    assert port.next_free_ns <= late  # two frames late: the next may follow at once
    much_later = late + 100 * frame
    port.charge(4238, much_later)
    assert port.next_free_ns == pytest.approx(much_later - frame, abs=1)


@pytest.mark.parametrize(
    ("key", "value"),
    [("gid", b""), ("ports", ()), ("timeout", 25), ("pmtu", 1500), ("linear_cnt", 8),
     ("exp_cnt", 26), ("mpr_units", 0), ("max_wimm", 0), ("base_rtt_ns", 0)],
)  # fmt: skip
def test_a_configuration_that_cannot_be_is_refused(key: str, value: object) -> None:
    good = {
        "gid": bytes(16), "ports": (NicPort(mac=bytes(6), gateway_mac=bytes(6), rate_bps=1),),
        "base_rtt_ns": 1000, "timeout": 5,
    }  # fmt: skip
    EndpointConfig(**good)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="endpoint configuration"):
        EndpointConfig(**{**good, key: value})  # type: ignore[arg-type]
