"""Ports that lose their carrier and get it back, and what the two ends tell each other."""

import pytest

from hosts.errors import UsageError
from hosts.mrc.ev import EvState
from hosts.mrc.message import Status
from hosts.wire.erth import EndpointOp
from hosts.wire.opcode import Opcode
from tests.virtual.pair import BASE_RTT_NS, MS, US, Host, Pair

HOLD_DOWN_NS = 50 * US


def evs_of_plane(pair: Pair, plane: int) -> set[tuple[int, int]]:
    return {(pair.qa.qpn, ev.value) for ev in pair.qa.evs.evs if ev.plane == plane}


def causes(host: Host) -> set[str]:
    return {e["cause"] for e in host.of("ev_state") if e["to"] == "assumed_bad"}


def one_sided(pair: Pair, host: int, port: int, up: bool) -> None:
    """Only one end sees the carrier, as behind a switch."""
    for end in ((host, port), (1 - host, port)):
        pair.loop.links[end].up = up
    pair.hosts[host].endpoint.port_changed(port, up, pair.loop.now_ns)
    pair.loop.wake(host)


@pytest.mark.parametrize("loser", [0, 1], ids=["sender", "receiver"])
def test_carrier_loss_retires_that_plane_at_both_ends_and_nothing_else(loser: int) -> None:
    pair = Pair(planes=4)
    source, target = pair.write(8 << 20)
    pair.run(20 * US)
    one_sided(pair, loser, 2, up=False)
    pair.run_to_end()
    assert target.buffer == source.buffer
    for index, host in enumerate(pair.hosts):
        assert host.retired() == evs_of_plane(pair, 2)
        assert causes(host) == {"port" if index == loser else "peer_port"}
    assert pair.hosts[loser].of("port") == [{"plane": 2, "up": False}]
    assert pair.hosts[1 - loser].of("port_status") == [
        {"plane_mask": 0b1011, "peer": pair.hosts[loser].endpoint.config.gid.hex()}
    ]
    assert pair.a.count("rtx_timeout") == pair.a.count("rtx_order") == 0


def test_the_port_status_goes_out_on_every_live_plane() -> None:
    pair = Pair(planes=4)
    pair.write(1 << 20)
    pair.run(20 * US)
    one_sided(pair, 0, 1, up=False)
    pair.run(5 * US)
    told = [
        (plane, packet.erth.port_status_mask)
        for _, plane, packet in pair.control(Opcode.ENDPOINT_REQUEST, host=0)
        if packet.erth is not None and packet.erth.op == EndpointOp.PORT_STATUS_UPDATE
    ]
    assert sorted(told) == [(0, 0b1101), (2, 0b1101), (3, 0b1101)]


def test_the_port_status_is_repeated_until_it_is_answered() -> None:
    pair = Pair(planes=2)
    pair.write(1000)
    pair.run_to_end()
    pair.drop(lambda p: p.opcode == Opcode.ENDPOINT_RESPONSE)
    one_sided(pair, 0, 1, up=False)
    pair.run(400 * US)
    sent = len(pair.control(Opcode.ENDPOINT_REQUEST, host=0))
    assert 3 <= sent <= 12
    pair.heal()
    pair.run(2 * MS)
    pair.seen.clear()
    pair.run(5 * MS)
    assert not pair.seen


def test_data_stops_on_the_plane_at_once_and_comes_back_after_hold_down() -> None:
    pair = Pair(planes=4)
    for i in range(40):
        pair.write(1 << 20, wr_id=i)
    pair.run(20 * US)
    one_sided(pair, 1, 3, up=False)
    down = pair.loop.now_ns
    pair.run(60 * US)
    one_sided(pair, 1, 3, up=True)
    up = pair.loop.now_ns
    pair.run_to_end(40)
    on_plane = [t for t, plane, _ in pair.data() if plane == 3]
    told = down + 2 * US  # one way
    assert not [t for t in on_plane if told + US < t < up + HOLD_DOWN_NS]
    assert [t for t in on_plane if t > up + HOLD_DOWN_NS + 10 * BASE_RTT_NS]
    pair.run(20 * BASE_RTT_NS)
    for host, qp in zip(pair.hosts, (pair.qa, pair.qb), strict=True):
        assert host.retired() == evs_of_plane(pair, 3)
        assert all(ev.state is EvState.GOOD for ev in qp.evs.evs)


def test_a_flapping_port_stays_out_until_it_is_quiet() -> None:
    pair = Pair(planes=4)
    for i in range(60):
        pair.write(1 << 20, wr_id=i)
    pair.run(20 * US)
    for _ in range(6):
        one_sided(pair, 0, 0, up=False)
        pair.run(20 * US)
        one_sided(pair, 0, 0, up=True)
        pair.run(30 * US)
    last_up = pair.loop.now_ns - 30 * US
    pair.run_to_end(60)
    assert pair.a.of("port") == [{"plane": 0, "up": False}, {"plane": 0, "up": True}]
    first = pair.data()[0][0]
    between = [t for t, plane, _ in pair.data() if plane == 0 and first + 20 * US < t]
    assert min(between) >= last_up + HOLD_DOWN_NS


def test_losing_every_port_for_a_while_only_delays() -> None:
    pair = Pair(planes=2, linear_cnt=7, exp_cnt=10)
    source, target = pair.write(4 << 20)
    pair.run(20 * US)
    for port in range(2):
        one_sided(pair, 0, port, up=False)
    pair.run(100 * US)
    for port in range(2):
        one_sided(pair, 0, port, up=True)
    pair.run_to_end(within_ns=300 * MS)
    assert target.buffer == source.buffer


@pytest.mark.parametrize("loser", [0, 1], ids=["sender", "receiver"])
def test_losing_every_port_for_good_ends_in_qp_error_after_the_retry_budget(loser: int) -> None:
    pair = Pair(planes=2, linear_cnt=3, exp_cnt=2)
    pair.write(4 << 20)
    pair.run(20 * US)
    for port in range(2):
        one_sided(pair, loser, port, up=False)
    rto = pair.a.endpoint.config.rto_ns
    pair.run(4 * rto)
    assert not pair.a.done()
    assert pair.loop.run_while(lambda: not pair.a.done(), 2000 * MS)
    assert pair.a.done()[0].status is Status.RETRY_EXCEEDED
    assert pair.qa.reason in ("no_plane", "retry_exceeded")


def test_a_qp_made_while_a_port_is_down_learns_of_it_when_it_returns() -> None:
    pair = Pair(planes=2)
    one_sided(pair, 0, 1, up=False)
    pair.run(MS)
    qps = pair._connect(4, 0, None)
    source, target = pair.write(1 << 20, qp=qps[0])
    pair.run_to_end()
    assert {plane for _, plane, _ in pair.data()} == {0}
    one_sided(pair, 0, 1, up=True)
    pair.run(MS)
    pair.seen.clear()
    source, target = pair.write(1 << 20, qp=qps[0], wr_id=1)
    pair.run_to_end(2)
    assert target.buffer == source.buffer
    assert {plane for _, plane, _ in pair.data()} == {0, 1}


def test_the_administrator_can_close_a_port() -> None:
    pair = Pair(planes=2)
    pair.a.endpoint.set_port_admin(0, False, pair.loop.now_ns)
    pair.write(1 << 20)
    pair.run_to_end()
    assert {plane for _, plane, _ in pair.data()} == {1}
    pair.a.endpoint.set_port_admin(0, True, pair.loop.now_ns)
    pair.loop.wake(0)
    pair.run(MS)
    pair.seen.clear()
    pair.write(1 << 20, wr_id=1)
    pair.run_to_end(2)
    assert {plane for _, plane, _ in pair.data()} == {0, 1}


def test_denied_evs_carry_nothing_and_an_allowed_one_of_a_dead_plane_waits_for_it() -> None:
    pair = Pair(planes=2, evs_per_plane=2)
    endpoint = pair.a.endpoint
    denied = [ev.value for ev in pair.qa.evs.evs if ev.plane == 0]
    for value in denied:
        endpoint.deny_ev(pair.qa.qpn, value, True, pair.loop.now_ns)
    pair.write(1 << 20)
    pair.run_to_end()
    assert {plane for _, plane, _ in pair.data()} == {1}
    one_sided(pair, 0, 0, up=False)
    for value in denied:
        endpoint.deny_ev(pair.qa.qpn, value, False, pair.loop.now_ns)
    assert {ev.state for ev in pair.qa.evs.evs if ev.plane == 0} == {EvState.ASSUMED_BAD}
    one_sided(pair, 0, 0, up=True)
    pair.run(MS)
    assert {ev.state for ev in pair.qa.evs.evs} == {EvState.GOOD}
    with pytest.raises(UsageError):
        endpoint.deny_ev(pair.qa.qpn, 12345, True, pair.loop.now_ns)
