"""Two endpoints without faults: what arrives, on which paths, and what is said about it."""

from collections import Counter

import pytest

from hosts.errors import UsageError
from hosts.mrc.message import CompletionKind, WriteRequest
from hosts.wire.opcode import Opcode
from tests.virtual.pair import BASE_RTT_NS, MS, RATE_BPS, US, Pair


@pytest.mark.parametrize("size", [0, 1, 3, 4095, 4096, 4097, 8192, 1 << 20])
@pytest.mark.parametrize("imm", [None, 0xDEADBEEF])
def test_bytes_arrive_whatever_the_size(size: int, imm: int | None) -> None:
    pair = Pair()
    source, target = pair.write(size, imm=imm)
    pair.run_to_end()
    assert target.buffer == source.buffer
    (sent,) = pair.a.done()
    assert (sent.byte_len, sent.wr_id, sent.qpn) == (size, 0, pair.qa.qpn)
    received = pair.b.done(CompletionKind.RECV_IMM)
    assert [c.imm for c in received] == ([] if imm is None else [imm])
    assert pair.b.endpoint.delivered_bytes == size


def test_opcodes_follow_the_place_in_the_message() -> None:
    pair = Pair(planes=1, evs_per_plane=1)
    pair.write(3 * 4096)
    pair.write(2 * 4096, imm=5, wr_id=1)
    pair.write(100, wr_id=2)
    pair.write(100, imm=6, wr_id=3)
    pair.run_to_end(4)
    assert [packet.opcode for _, _, packet in pair.data()] == [
        Opcode.WRITE_FIRST, Opcode.WRITE_MIDDLE, Opcode.WRITE_LAST, Opcode.WRITE_FIRST,
        Opcode.WRITE_LAST_IMM, Opcode.WRITE_ONLY, Opcode.WRITE_ONLY_IMM,
    ]  # fmt: skip


def test_every_packet_says_where_it_goes_and_when_it_left() -> None:
    pair = Pair()
    _, target = pair.write(10_000)
    pair.run_to_end()
    for t, _, packet in pair.data():
        assert packet.ts_present
        assert packet.tx_ticks == t // 128 & 0xFFFF
        assert packet.rkey == target.rkey
        assert packet.dma_length == 10_000
    vas = [packet.va - target.va for _, _, packet in pair.data()]
    assert vas == [0, 4096, 8192]


def test_planes_carry_the_same_load_and_all_evs_take_part() -> None:
    pair = Pair(planes=4, evs_per_plane=8)
    pair.write(2 << 20)
    pair.run_to_end()
    planes = Counter(plane for _, plane, _ in pair.data())
    assert max(planes.values()) - min(planes.values()) <= 4
    evs = Counter(packet.ev for _, _, packet in pair.data())
    assert len(evs) == 32
    assert max(evs.values()) - min(evs.values()) <= 2
    assert all(packet.ev & 7 == plane for _, plane, packet in pair.data())


def test_the_order_of_evs_differs_from_rotation_to_rotation() -> None:
    pair = Pair(planes=1, evs_per_plane=8)
    pair.write(64 * 4096)
    pair.run_to_end()
    evs = [packet.ev for _, _, packet in pair.data()]
    rotations = {tuple(evs[i : i + 8]) for i in range(0, 64, 8)}
    assert all(len(set(rotation)) == 8 for rotation in rotations)
    assert len(rotations) > 4


def test_immediates_complete_in_order_behind_earlier_writes() -> None:
    pair = Pair(planes=4)
    pair.impair(0, 0, delay_ns=9 * US)
    targets = []
    for i in range(12):
        targets.append(pair.write(30_000, imm=i if i % 3 == 2 else None, wr_id=i))
    pair.run_to_end(12)
    assert [c.imm for c in pair.b.done(CompletionKind.RECV_IMM)] == [2, 5, 8, 11]
    assert [c.wr_id for c in pair.a.done()] == list(range(12))
    assert all(source.buffer == target.buffer for source, target in targets)


def test_an_immediate_is_not_told_before_the_bytes_ahead_of_it() -> None:
    pair = Pair(planes=1)
    pair.drop_once(lambda p: p.opcode == Opcode.WRITE_MIDDLE)
    pair.write(5 * 4096)
    source, target = pair.write(10, imm=1, wr_id=1)
    pair.loop.run_while(lambda: target.buffer != source.buffer, 1 * MS)
    assert not pair.b.done(CompletionKind.RECV_IMM)
    pair.run_to_end(2)
    assert len(pair.b.done(CompletionKind.RECV_IMM)) == 1


def test_max_wimm_bounds_the_immediates_in_flight() -> None:
    pair = Pair(max_wimm=4)
    for i in range(40):
        pair.write(64, imm=i, wr_id=i)
    flying: list[int] = []
    in_flight = pair.qa.requester

    def sample() -> bool:
        flying.append(in_flight._wimm_in_flight)
        return len(pair.a.done()) < 40

    assert pair.loop.run_while(sample, 50 * MS)
    assert max(flying) == 4
    assert [c.imm for c in pair.b.done(CompletionKind.RECV_IMM)] == list(range(40))


def test_no_psn_is_sent_beyond_the_window() -> None:
    pair = Pair(planes=2, mpr_units=1, cc="fixed", window_bytes=1 << 30, delay_ns=30 * US,
                timeout=8)  # fmt: skip
    source, target = pair.write(2 << 20)
    cack = pair.qb.responder.window

    worst = 0

    def sample() -> bool:
        nonlocal worst
        worst = max(worst, pair.qa.requester._next_seq - 1 - cack.cack)
        return not pair.a.done()

    assert pair.loop.run_while(sample, 50 * MS)
    assert 64 < worst <= 128
    assert target.buffer == source.buffer
    assert pair.a.count("tx_data_again") == 0


def test_psns_wrap_from_ffffff_to_0() -> None:
    pair = Pair(psn=(0xFFFFFF - 20, 5))
    source, target = pair.write(64 * 4096, imm=1)
    pair.run_to_end()
    assert target.buffer == source.buffer
    psns = [packet.psn for _, _, packet in pair.data()]
    assert psns[:22] == [*range(0xFFFFFF - 20, 0x1000000), 0]
    assert pair.a.count("tx_data_again") == 0


def test_psns_wrap_while_packets_are_lost() -> None:
    pair = Pair(psn=(0xFFFFF0, 5), evs_per_plane=8)
    for plane in range(2):
        pair.impair(0, plane, loss=0.05)
    source, target = pair.write(256 * 4096)
    pair.run_to_end()
    assert target.buffer == source.buffer


def test_a_first_packet_that_arrives_out_of_order() -> None:
    pair = Pair(planes=2)
    pair.impair(0, 0, delay_ns=10 * US)
    pair.impair(0, 1, delay_ns=1 * US)
    source, target = pair.write(40 * 4096, imm=9)
    pair.run_to_end()
    arrived_first = next(packet.psn for _, plane, packet in pair.data() if plane == 1)
    assert arrived_first == pair.qa.psn or pair.data()[0][1] == 0
    assert target.buffer == source.buffer
    assert not pair.a.retired()
    assert not pair.b.retired()


def test_both_directions_at_once() -> None:
    pair = Pair(planes=4)
    there, here = pair.write(1 << 20), pair.write(1 << 20, reverse=True, wr_id=1)
    pair.run_to_end(2)
    assert there[0].buffer == there[1].buffer
    assert here[0].buffer == here[1].buffer


def test_the_line_is_full_and_never_overfull() -> None:
    pair = Pair(planes=2, window_bytes=1 << 20)
    pair.write(4 << 20)
    pair.run_to_end()
    by_plane: dict[int, list[int]] = {0: [], 1: []}
    for t, plane, _ in pair.data():
        by_plane[plane].append(t)
    for times in by_plane.values():
        rate = (len(times) - 4) * 4238 * 8 * 1e9 / (times[-1] - times[3])
        assert 0.99 * RATE_BPS <= rate <= 1.001 * RATE_BPS
        # Never more than two frames ahead of the rate, over any stretch.
        frame = 4238 * 8 * 1e9 / RATE_BPS
        for i in range(0, len(times) - 50, 17):
            assert times[i + 50] - times[i] >= 47 * frame


def test_an_idle_pair_is_silent() -> None:
    pair = Pair(planes=4)
    pair.write(100_000)
    pair.run_to_end()
    pair.run(20 * BASE_RTT_NS)
    before = len(pair.seen)
    pair.run(100 * MS)
    assert len(pair.seen) == before
    assert all(host.endpoint.next_timeout() is None for host in pair.hosts)


def test_without_faults_nothing_is_sent_twice_and_no_ev_is_doubted() -> None:
    pair = Pair(planes=4, evs_per_plane=4)
    for plane, delay in enumerate((2, 4, 7, 12)):  # queueing skew between planes is not loss
        pair.impair(0, plane, delay_ns=delay * US)
    for i in range(20):
        pair.write(200_000, imm=i, wr_id=i)
    pair.run_to_end(20)
    assert pair.a.count("rtx_order") == pair.a.count("rtx_timeout") == 0
    assert not pair.a.retired()
    assert not pair.b.retired()


def test_usage_errors_are_raised_at_once() -> None:
    pair = Pair()
    region = pair.a.endpoint.register_memory(10)
    for bad in (
        WriteRequest(0, region, 0, 11, 0, 0),
        WriteRequest(0, region, -1, 1, 0, 0),
        WriteRequest(0, region, 0, -1, 0, 0),
        WriteRequest(0, region, 0, 1, 0, 0, imm=1 << 32),
    ):
        with pytest.raises(UsageError):
            pair.a.endpoint.post_write(pair.qa.qpn, bad)
    with pytest.raises(UsageError, match="no QP"):
        pair.a.endpoint.post_write(99, WriteRequest(0, region, 0, 1, 0, 0))
    with pytest.raises(UsageError, match="without EVs"):
        pair.a.endpoint.create_qp([])
