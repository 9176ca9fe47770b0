"""Two endpoints and a wire that loses packets, SACKs, or a whole direction of a plane."""

import pytest

from hosts.mrc.ev import EvState
from hosts.mrc.message import CompletionKind, Status
from hosts.wire.opcode import Opcode
from hosts.wire.packet import Packet
from tests.virtual.pair import BASE_RTT_NS, MS, US, Pair, gid


def is_data(packet: Packet) -> bool:
    return 0xC6 <= packet.opcode <= 0xCB


def test_a_packet_lost_in_the_middle_is_sent_again_once_on_another_ev() -> None:
    pair = Pair()
    pair.drop_once(lambda p: is_data(p) and p.psn == (pair.qa.psn + 30) & 0xFFFFFF)
    source, target = pair.write(1 << 20)
    pair.run_to_end()
    assert target.buffer == source.buffer
    first, again = [p for _, _, p in pair.data() if p.psn == (pair.qa.psn + 30) & 0xFFFFFF]
    assert not first.rtx
    assert again.rtx
    assert again.ack_req
    assert first.ev != again.ev
    assert pair.a.count("tx_data_again") == 1
    assert pair.a.count("rtx_order") == 1
    assert pair.a.count("rtx_timeout") == 0


def test_a_loss_retires_its_ev_and_no_other_and_probes_bring_it_back() -> None:
    pair = Pair()
    pair.drop_once(lambda p: is_data(p) and p.psn == (pair.qa.psn + 30) & 0xFFFFFF)
    pair.write(2 << 20)
    pair.run_to_end()
    lost_on = next(p.ev for _, _, p in pair.data() if p.psn == (pair.qa.psn + 30) & 0xFFFFFF)
    pair.run(100 * BASE_RTT_NS)
    changes = pair.a.of("ev_state")
    assert [(e["ev"], e["from"], e["to"], e["cause"]) for e in changes] == [
        (lost_on, "good", "assumed_bad", "loss"),
        (lost_on, "assumed_bad", "good", "probe"),
    ]
    assert not pair.b.retired()


def test_a_backup_ev_of_the_same_plane_takes_the_place_of_a_retired_one() -> None:
    pair = Pair(evs_per_plane=2, backup_per_plane=1, probe_interval_ns=10 * MS)
    spare = {ev.value for ev in pair.qa.evs.evs[4:]}
    pair.drop_once(lambda p: is_data(p) and p.psn == (pair.qa.psn + 30) & 0xFFFFFF)
    pair.write(4 << 20)
    pair.run_to_end()
    lost = next(p for _, _, p in pair.data() if p.psn == (pair.qa.psn + 30) & 0xFFFFFF)
    used_at_the_end = {p.ev for _, _, p in pair.data()[-40:]}
    assert lost.ev not in used_at_the_end
    assert used_at_the_end & spare == {ev for ev in spare if ev & 7 == lost.ev & 7}
    assert len(used_at_the_end) == 4


def test_a_lost_last_packet_is_found_by_a_probe_and_not_by_the_timeout() -> None:
    pair = Pair()
    last = 99
    pair.drop_once(lambda p: is_data(p) and p.psn == (pair.qa.psn + last) & 0xFFFFFF)
    source, target = pair.write((last + 1) * 4096, imm=3)
    pair.run_to_end()
    assert target.buffer == source.buffer
    assert pair.a.count("tail_probes") >= 1
    assert pair.a.count("rtx_timeout") == 0
    probe = pair.control(Opcode.PROBE, host=0)[0][2]
    lost_on = next(p.ev for _, _, p in pair.data() if p.psn == (pair.qa.psn + last) & 0xFFFFFF)
    assert probe.ev == lost_on
    assert pair.a.retired() == {(pair.qa.qpn, lost_on)} or not pair.a.retired()


@pytest.mark.parametrize("seed", range(6))
def test_the_end_of_a_message_on_a_dead_path_takes_round_trips_and_no_timeout(seed: int) -> None:
    """Nothing follows that would count as far behind, and probes of the path are lost as well."""
    reference = Pair(planes=2, seed=seed)
    reference.write(16 * 4096)
    reference.run_to_end()
    pair = Pair(planes=2, seed=seed, timeout=8)
    assert pair.a.endpoint.config.rto_ns > 40 * BASE_RTT_NS
    dead = pair.qa.evs.evs[seed].value
    pair.drop(lambda p: p.ev == dead and (is_data(p) or p.opcode == Opcode.PROBE))
    source, target = pair.write(16 * 4096)
    pair.run_to_end()
    assert target.buffer == source.buffer
    assert pair.loop.now_ns < reference.loop.now_ns + 12 * BASE_RTT_NS
    assert pair.a.count("rtx_timeout") == 0
    pair.run(200 * BASE_RTT_NS)
    assert pair.a.retired() == {(pair.qa.qpn, dead)}


def test_a_lost_packet_of_a_slow_stream_is_sent_again_when_those_of_later_have_come() -> None:
    """A window that is never full: by their number they would be far behind only much later."""
    pair = Pair(planes=2, timeout=8)
    pair.drop_once(lambda p: is_data(p) and p.psn == (pair.qa.psn + 3) & 0xFFFFFF)
    for i in range(12):
        pair.write(1, wr_id=i)
        pair.run(2 * US)
    pair.run_to_end(12)
    assert pair.a.count("rtx_timeout") == 0
    sent = [t for t, _, p in pair.data() if p.psn == (pair.qa.psn + 3) & 0xFFFFFF]
    assert len(sent) == 2
    assert sent[1] - sent[0] < 5 * BASE_RTT_NS


def test_a_lost_only_packet() -> None:
    pair = Pair()
    pair.drop_once(is_data)
    source, target = pair.write(5)
    pair.run_to_end()
    assert target.buffer == source.buffer


def test_when_probes_are_lost_too_the_timeout_repairs() -> None:
    pair = Pair()
    pair.drop(lambda p: p.opcode == Opcode.PROBE)
    pair.drop_once(lambda p: is_data(p) and p.opcode == Opcode.WRITE_LAST)
    source, target = pair.write(100 * 4096)
    pair.run_to_end()
    assert target.buffer == source.buffer
    assert 1 <= pair.a.count("rtx_timeout") <= 4  # the three before it were never SACKed either


def test_a_window_wider_than_one_bitmap_with_losses_all_over_it() -> None:
    pair = Pair(planes=2, evs_per_plane=16, window_bytes=400 * 4176, delay_ns=40 * US, timeout=9)
    lost = {(pair.qa.psn + i) & 0xFFFFFF for i in (3, 50, 120, 121, 250, 333)}
    seen: set[int] = set()

    def once(packet: Packet) -> bool:
        if is_data(packet) and packet.psn in lost and packet.psn not in seen:
            seen.add(packet.psn)
            return True
        return False

    pair.drop(once)
    source, target = pair.write(1500 * 4096)
    pair.run_to_end()
    assert target.buffer == source.buffer
    sent_again = {p.psn for _, _, p in pair.data() if p.rtx}
    assert lost <= sent_again
    assert pair.a.count("tx_data_again") <= len(lost) + 2


@pytest.mark.parametrize("planes", [2, 4])
@pytest.mark.parametrize("size", [64 * 1024, 4 << 20])
def test_sacks_lost_on_a_dead_reverse_plane_stall_nothing_and_retire_no_ev(
    planes: int, size: int
) -> None:
    reference = Pair(planes=planes)
    for i in range(8):
        reference.write(size, imm=i, wr_id=i)
    reference.run_to_end(8)
    pair = Pair(planes=planes)
    pair.impair(1, 0, loss=1.0)
    for i in range(8):
        pair.write(size, imm=i, wr_id=i)
    pair.run_to_end(8)
    assert pair.loop.now_ns < 1.5 * reference.loop.now_ns + 8 * BASE_RTT_NS
    pair.run(100 * BASE_RTT_NS)
    assert not pair.a.retired()
    assert pair.a.count("rtx_order") == pair.a.count("rtx_timeout") == 0


def test_short_messages_over_a_dead_reverse_plane_retire_no_ev() -> None:
    pair = Pair(planes=2)
    pair.impair(1, 1, loss=1.0)
    for i in range(60):
        pair.write(3000, wr_id=i)
        pair.run_to_end(i + 1)
        pair.run(3 * US)
    pair.run(100 * BASE_RTT_NS)
    assert not pair.a.retired()


@pytest.mark.parametrize("seed", range(6))
def test_a_dead_way_back_of_the_only_plane_costs_a_few_round_trips(seed: int) -> None:
    """Without SACKs the window closes, then the sender asks, and the answer goes another way."""
    reference = Pair(planes=1, seed=seed)
    reference.write(2 << 20)
    reference.run_to_end()
    pair = Pair(planes=1, seed=seed)
    pair.write(2 << 20)
    pair.run(40 * US)
    way_back = pair.qb.evs.reverse[0]
    assert way_back is not None
    pair.drop(lambda p: p.ev == way_back.value and p.inner_src == gid(1))
    pair.run_to_end()
    assert pair.loop.now_ns < reference.loop.now_ns + 10 * BASE_RTT_NS
    assert pair.a.count("rtx_timeout") == 0
    assert not pair.a.retired()


@pytest.mark.parametrize("seed", range(8))
def test_a_probe_is_answered_on_paths_that_differ(seed: int) -> None:
    """Of two answers on one path a dead one takes both: once in 64 with 8 paths."""
    pair = Pair(planes=1, evs_per_plane=4, seed=seed)
    pair.drop_once(lambda p: is_data(p) and p.opcode == Opcode.WRITE_LAST)
    pair.write(30 * 4096)
    pair.run_to_end()
    answers = [p.ev for _, _, p in pair.control(Opcode.SACK) if p.sack is not None and p.sack.pr]
    assert len(answers) >= 2
    assert all(a != b for a, b in zip(answers[::2], answers[1::2], strict=True))


def test_a_dead_forward_path_retires_exactly_its_ev() -> None:
    pair = Pair(planes=2, evs_per_plane=4)
    dead = pair.qa.evs.evs[3].value
    pair.drop(lambda p: p.ev == dead and (is_data(p) or p.opcode == Opcode.PROBE))
    for i in range(10):
        pair.write(1 << 20, wr_id=i)
    pair.run_to_end(10)
    assert pair.a.retired() == {(pair.qa.qpn, dead)}
    late = [p for t, _, p in pair.data() if t > pair.loop.now_ns // 2]
    assert all(p.ev != dead for p in late)


def test_a_dead_forward_plane_retires_exactly_its_evs() -> None:
    pair = Pair(planes=4, evs_per_plane=4)
    pair.impair(0, 2, loss=1.0)
    source, target = pair.write(16 << 20)
    pair.run_to_end()
    assert target.buffer == source.buffer
    pair.run(20 * BASE_RTT_NS)
    expected = {(pair.qa.qpn, ev.value) for ev in pair.qa.evs.evs if ev.plane == 2}
    assert pair.a.retired() == expected


def test_a_path_that_loses_a_fifth_is_left_at_once() -> None:
    pair = Pair(planes=2, evs_per_plane=4, backup_per_plane=2)
    bad = pair.qa.evs.evs[0].value
    count = 0

    def fifth(packet: Packet) -> bool:
        nonlocal count
        if packet.ev == bad and is_data(packet):
            count += 1
            return count % 5 == 3
        return False

    pair.drop(fifth)
    source, target = pair.write(8 << 20)
    pair.run_to_end()
    assert target.buffer == source.buffer
    assert pair.a.retired() == {(pair.qa.qpn, bad)}
    assert pair.a.count("tx_data_again") < 10


def test_ev_min_active_keeps_the_last_paths_in_use() -> None:
    pair = Pair(planes=2, evs_per_plane=1, ev_min_active=2, seed=3)
    pair.impair(0, 0, loss=0.1)
    pair.impair(0, 1, loss=0.1)
    source, target = pair.write(1 << 20)
    pair.run_to_end()
    assert target.buffer == source.buffer
    assert not pair.a.retired()
    assert pair.a.count("ev_floor_kept") > 0


def test_a_lost_transport_ack_is_asked_for() -> None:
    pair = Pair()
    pair.drop_once(lambda p: p.opcode == Opcode.ACKNOWLEDGE)
    pair.write(10_000)
    pair.run_to_end()
    assert pair.a.count("tx_data_again") == 0


def test_when_nothing_comes_back_the_qp_fails_after_its_retries() -> None:
    pair = Pair(linear_cnt=3, exp_cnt=2)
    pair.drop(lambda p: p.opcode in (Opcode.SACK, Opcode.ACKNOWLEDGE))
    for i in range(3):
        pair.write(10_000, wr_id=i)
    assert pair.loop.run_while(lambda: len(pair.a.done()) < 3, 500 * MS)
    assert [c.status for c in pair.a.done()] == [
        Status.RETRY_EXCEEDED, Status.FLUSHED, Status.FLUSHED
    ]  # fmt: skip
    (error,) = [e for e in pair.a.of("qp_state") if e["to"] == "error"]
    assert error["reason"] == "retry_exceeded"
    rto = pair.a.endpoint.config.rto_ns
    assert pair.loop.now_ns >= (3 + 1 + 2 + 4) * rto - BASE_RTT_NS
    pair.run(MS)
    assert pair.a.endpoint.next_timeout() is None


def test_a_qp_that_has_failed_asks_nothing_any_more() -> None:
    pair = Pair(planes=2, linear_cnt=1, exp_cnt=1)
    pair.drop(lambda p: True)
    pair.write(20 * 4096)
    pair.run(200 * MS)
    assert pair.qa.reason == "retry_exceeded"
    pair.a.collect()
    end = next(e.t_ns for e in pair.a.trace if e.fields.get("to") == "error")
    assert not [t for t, _, _ in pair.control(Opcode.PROBE, host=0) if t >= end]
    assert pair.a.endpoint.next_timeout() is None


def test_with_infinite_retries_it_waits_for_the_path_to_come_back() -> None:
    pair = Pair(linear_cnt=1, exp_cnt=25, planes=1)
    pair.drop(lambda p: True)
    source, target = pair.write(10_000)
    pair.run(3 * MS)
    assert not pair.a.done()
    pair.heal()
    pair.run_to_end(within_ns=100 * MS)
    assert target.buffer == source.buffer


@pytest.mark.parametrize("seed", range(6))
def test_loss_duplication_and_reordering_together(seed: int) -> None:
    print("seed", seed)
    pair = Pair(planes=2, evs_per_plane=4, seed=seed)
    for host in range(2):
        for plane in range(2):
            pair.impair(host, plane, loss=0.03, duplicate=0.03, reorder=0.1,
                        reorder_delay_ns=5 * US, corrupt=0.01)  # fmt: skip
    pairs = [pair.write(150_000, imm=i, wr_id=i) for i in range(10)]
    pair.run_to_end(10, within_ns=500 * MS)
    for source, target in pairs:
        assert target.buffer == source.buffer
    assert [c.imm for c in pair.b.done(CompletionKind.RECV_IMM)] == list(range(10))
    assert pair.b.endpoint.delivered_bytes == 1_500_000
    assert pair.qa.state.value == "rts"


@pytest.mark.parametrize("seed", range(4))
def test_bytes_in_flight_come_back_to_nothing(seed: int) -> None:
    """The window must not leak, in whatever way packets were lost and found."""
    pair = Pair(planes=2, seed=seed)
    for plane in range(2):
        pair.impair(0, plane, loss=0.05, reorder=0.1, reorder_delay_ns=30 * US)
        pair.impair(1, plane, loss=0.05)
    for i in range(20):
        pair.write(100_000, wr_id=i)
    pair.run_to_end(20, within_ns=500 * MS)
    pair.heal()
    for host in range(2):
        for plane in range(2):
            pair.impair(host, plane, loss=0.0, reorder=0.0)
    pair.write(10, wr_id=99)
    pair.run_to_end(21)
    pair.run(10 * BASE_RTT_NS)
    assert -512 <= pair.qa.requester.cc.inflight_bytes <= 512


def test_evs_come_back_after_a_while_of_heavy_loss() -> None:
    pair = Pair(planes=2, evs_per_plane=4, seed=2)
    pair.impair(0, 0, loss=0.2)
    pair.write(1 << 20)
    pair.run_to_end(within_ns=200 * MS)
    pair.impair(0, 0, loss=0.0)
    pair.run(300 * BASE_RTT_NS)
    assert pair.a.retired()
    assert all(ev.state is EvState.GOOD for ev in pair.qa.evs.evs)
    pair.seen.clear()
    pair.write(1 << 20, wr_id=1)
    pair.run_to_end(2)
    assert len({p.ev for _, _, p in pair.data()}) == 8


def test_a_dead_ev_on_the_way_back_does_not_keep_carrying_sacks() -> None:
    pair = Pair(planes=2, evs_per_plane=4)
    dead = {ev.value for ev in pair.qb.evs.evs[:2]}  # one of each plane
    control = (Opcode.SACK, Opcode.ACKNOWLEDGE, Opcode.ENDPOINT_REQUEST)
    pair.drop(lambda p: p.opcode in control and p.ev in dead)
    for i in range(20):
        pair.write(1 << 20, wr_id=i)
    pair.run_to_end(20)
    late = [p for t, _, p in pair.control(Opcode.SACK) if t > pair.loop.now_ns // 2]
    assert sum(p.ev in dead for p in late) < 0.3 * len(late)
    assert not pair.a.retired()
    assert pair.a.count("rtx_timeout") == 0
