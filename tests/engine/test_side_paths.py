"""Clone, multicast, resubmit and recirculate, as simple_switch orders them; and their bounds."""

from switches.api import PortConfig, QueueLimit
from tests.engine.conftest import MakeSwitch
from tests.engine.drive import collect, run_until, send
from tests.engine.tiny import Request, frame, tag_of

NORMAL, INGRESS_CLONE, EGRESS_CLONE, RECIRCULATED, REPLICATION = 0, 1, 2, 4, 5


def seen(sent: list) -> list[tuple[int, int, int, int]]:  # type: ignore[type-arg]
    """(port, tag, instance_type, egress_rid) of each frame."""
    return [(s.port, tag_of(s.frame), s.frame[8] - 16, s.frame[9]) for s in sent]


def test_a_multicast_group_gets_one_copy_a_replica(make_switch: MakeSwitch) -> None:
    switch = make_switch()
    switch.device.set_multicast_group(9, [(1, 7), (2, 8), (2, 9)])
    left = send(switch, 0, frame(3, request=Request.MULTICAST, key=9, tag=5), 0)
    assert sorted(seen(left)) == [
        (1, 5, REPLICATION, 7),
        (2, 5, REPLICATION, 8),
        (2, 5, REPLICATION, 9),
    ]


def test_an_unknown_group_is_a_counted_drop(make_switch: MakeSwitch) -> None:
    switch = make_switch()
    switch.device.set_multicast_group(9, [(1, 0)])
    switch.device.set_multicast_group(9, [])
    assert send(switch, 0, frame(3, request=Request.MULTICAST, key=9), 0) == []
    assert switch.device.switch_stats().drops["no_group"] == 1


def test_an_ingress_clone_leaves_besides_the_packet(make_switch: MakeSwitch) -> None:
    switch = make_switch()
    switch.device.set_clone_session(4, [(2, 6)], truncate_to=30)
    left = send(switch, 0, frame(1, request=Request.CLONE_IN, key=4, tag=5), 0)
    assert seen(left) == [(1, 5, NORMAL, 0), (2, 5, INGRESS_CLONE, 6)]
    assert [len(s.frame) for s in left] == [64, 30]


def test_an_egress_clone_leaves_besides_the_packet(make_switch: MakeSwitch) -> None:
    switch = make_switch()
    switch.device.set_clone_session(4, [(2, 0), (3, 1)])
    left = send(switch, 0, frame(1, request=Request.CLONE_OUT, key=4, tag=5), 0)
    assert sorted(seen(left)) == [
        (1, 5, NORMAL, 0),
        (2, 5, EGRESS_CLONE, 0),
        (3, 5, EGRESS_CLONE, 1),
    ]


def test_without_its_session_there_is_no_clone(make_switch: MakeSwitch) -> None:
    switch = make_switch()
    left = send(switch, 0, frame(1, request=Request.CLONE_IN, key=4), 0)
    left += send(switch, 0, frame(1, request=Request.CLONE_OUT, key=4), 1)
    assert len(left) == 2


def test_a_resubmitted_packet_goes_through_ingress_twice(make_switch: MakeSwitch) -> None:
    switch = make_switch()
    left = send(switch, 0, frame(1, request=Request.RESUBMIT, key=3), 0)
    assert [s.port for s in left] == [1]
    assert switch.device.read_counter("Tiny.seen")[3].packets == 2


def test_a_recirculated_packet_goes_through_all_twice(make_switch: MakeSwitch) -> None:
    switch = make_switch()
    left = send(switch, 0, frame(1, request=Request.RECIRCULATE, key=3, keep=40), 0)
    assert [(s.port, len(s.frame)) for s in left] == [(1, 40)]
    assert switch.device.read_counter("Tiny.seen")[3].packets == 2
    assert switch.device.port_stats()[1].queues[0].dequeued == 2


def test_a_program_that_loops_is_stopped_and_counted(make_switch: MakeSwitch) -> None:
    switch = make_switch()
    assert send(switch, 0, frame(1, request=Request.LOOP), 0) == []
    assert switch.device.switch_stats().drops["loop"] == 1
    assert switch.device.switch_stats().buffers == 0


def test_the_program_drops_are_counted_apart(make_switch: MakeSwitch) -> None:
    switch = make_switch()
    send(switch, 0, frame(1, request=Request.DROP_IN), 0)
    send(switch, 0, frame(1, request=Request.DROP_OUT), 1)
    drops = switch.device.switch_stats().drops
    assert (drops["ingress"], drops["egress"]) == (1, 1)


def test_what_egress_drops_takes_no_time_on_the_line(make_switch: MakeSwitch) -> None:
    switch = make_switch()
    limits = (QueueLimit(100, 1 << 20), QueueLimit(100, 1 << 20))
    switch.device.configure_port(1, PortConfig(rate_bps=8_000_000, queues=limits))
    for request in (Request.NONE, Request.DROP_OUT, Request.DROP_OUT, Request.NONE):
        send(switch, 0, frame(1, request=request, size=1000), 0)
    assert [s.t_ns for s in run_until(switch, 10**9)] == [1_000_000, 2_000_000]
    assert collect(switch, 10**9) == []
