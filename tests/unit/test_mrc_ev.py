"""The EV machine and the EV set, without packets."""

from collections import Counter
from random import Random
from typing import Any

import pytest

from hosts.errors import UsageError
from hosts.mrc.ev import TRANSITIONS, Cause, Ev, EvEvent, EvSpec, EvState
from hosts.mrc.ev_set import EvSet

GOOD, SKIP, BAD, DENIED = EvState.GOOD, EvState.SKIP, EvState.ASSUMED_BAD, EvState.DENIED


def make(planes: int = 2, per_plane: int = 4, backup: int = 0, **how: Any) -> EvSet:
    def specs(first: int, count: int) -> list[EvSpec]:
        return [EvSpec(i << 3 | p, p, bytes(16)) for i in range(first, first + count)
                for p in range(planes)]  # fmt: skip

    how = {"min_active": 1, "rng": Random(1), "changed": lambda *_: None, **how}
    return EvSet(specs(0, per_plane), specs(per_plane, backup), plane_count=planes, **how)


def picks(evs: EvSet, count: int, free: int = 0xFF) -> list[Ev]:
    out = [evs.select(free) for _ in range(count)]
    assert all(ev is not None for ev in out)
    return [ev for ev in out if ev is not None]


def test_only_the_controller_takes_denied_back() -> None:
    assert {event for (state, event) in TRANSITIONS if state is DENIED} == {EvEvent.ALLOW}


def test_only_probes_or_the_controller_lead_out_of_assumed_bad() -> None:
    events = {event for (state, event) in TRANSITIONS if state is BAD}
    assert events == {EvEvent.PROBED, EvEvent.PROBED_MARKED, EvEvent.DENY}


def test_congestion_never_retires() -> None:
    for event in (EvEvent.MARKED, EvEvent.TRIMMED):
        assert {after for (_, e), after in TRANSITIONS.items() if e is event} == {SKIP}


def test_every_ev_once_a_rotation_and_planes_in_turn() -> None:
    evs = make(planes=4, per_plane=4)
    for _ in range(5):
        rotation = picks(evs, 16)
        assert len({ev.value for ev in rotation}) == 16
        for i in range(0, 16, 4):
            assert {ev.plane for ev in rotation[i : i + 4]} == {0, 1, 2, 3}


def test_only_planes_with_a_free_port_are_used() -> None:
    evs = make(planes=4)
    assert {ev.plane for ev in picks(evs, 20, free=0b0101)} == {0, 2}
    assert evs.select(0) is None


def test_a_skipped_ev_gives_up_one_turn_and_is_good_again() -> None:
    evs = make(planes=1, per_plane=4)
    marked = evs.evs[2]
    evs.congested(marked, EvEvent.MARKED)
    evs.congested(marked, EvEvent.MARKED)  # marks do not stack
    first = picks(evs, 3)
    assert marked not in first
    assert marked.state is GOOD
    counts = Counter(ev.value for ev in picks(evs, 40))
    assert set(counts.values()) == {10}


def test_at_most_one_ev_is_restored_for_each_packet() -> None:
    evs = make(planes=1, per_plane=8)
    for ev in evs.evs[:7]:
        evs.congested(ev, EvEvent.MARKED)
    before = sum(ev.state is SKIP for ev in evs.evs)
    picks(evs, 1)
    assert before - sum(ev.state is SKIP for ev in evs.evs) <= 1


def test_when_every_ev_is_marked_the_one_just_restored_is_used() -> None:
    evs = make(planes=1, per_plane=4)
    for ev in evs.evs:
        evs.congested(ev, EvEvent.TRIMMED)
    chosen = evs.select(1)
    assert chosen is not None
    assert chosen.state is GOOD
    assert sum(ev.state is SKIP for ev in evs.evs) == 3


def test_a_marked_ev_waits_where_other_planes_are_only_busy() -> None:
    """Else a loaded plane would get every packet for which its port alone is free."""
    evs = make(planes=2, per_plane=1)
    marked = evs.evs[0]
    evs.congested(marked, EvEvent.MARKED)
    assert evs.select(0b01, live=0b11) is None
    assert marked.state is GOOD
    assert evs.skips == 1
    assert evs.select(0b01, live=0b11) is marked, "it gave up one turn"
    evs.congested(marked, EvEvent.MARKED)
    assert evs.select(0b01, live=0b01) is marked, "there is no other plane to wait for"


def test_a_loaded_plane_gives_its_turn_to_the_others() -> None:
    evs = make(planes=4, per_plane=4)
    counts: Counter[int] = Counter()
    for _ in range(1000):
        ev = evs.select(0xF)
        assert ev is not None
        counts[ev.plane] += 1
        if ev.plane == 0:
            evs.congested(ev, EvEvent.MARKED)
    assert counts[0] < 0.7 * counts[1]


def test_a_retired_ev_is_replaced_from_the_backup_set_of_its_plane() -> None:
    evs = make(backup=1)
    victim = evs.evs[0]
    assert evs.retire(victim, EvEvent.LOST, Cause.ORDER, 0)
    assert victim.state is BAD
    assert not victim.is_active
    spare = next(ev for ev in evs.evs[8:] if ev.plane == victim.plane)
    assert spare.is_active
    assert sum(ev.is_active and ev.plane == victim.plane for ev in evs.evs) == 4
    chosen = {ev.value for ev in picks(evs, 24)}
    assert victim.value not in chosen
    assert spare.value in chosen
    evs.bring_back(victim, EvEvent.PROBED, Cause.PROBE, 0)
    assert victim.state is GOOD
    assert not victim.is_active
    assert evs.retire(spare, EvEvent.LOST, Cause.ORDER, 0)
    assert victim.is_active


def test_ev_min_active_is_a_floor_for_losses_and_not_for_ports() -> None:
    evs = make(planes=2, per_plane=1, min_active=2)
    assert not evs.retire(evs.evs[0], EvEvent.LOST, Cause.ORDER, 0)
    assert evs.evs[0].state is GOOD
    assert evs.retire(evs.evs[0], EvEvent.PORT_DOWN, Cause.PORT, 0)
    assert evs.plane_mask == 0b10


def test_a_resting_ev_is_not_selected_and_keeps_its_state() -> None:
    evs = make(planes=1, per_plane=3)
    resting = evs.evs[1]
    assert evs.rest(resting)
    assert not evs.rest(resting)
    assert resting not in picks(evs, 9)
    assert resting.state is GOOD
    assert resting.is_active
    evs.resume(resting)
    assert resting in picks(evs, 6)


def test_a_retransmission_avoids_its_ev_while_there_is_another() -> None:
    evs = make(planes=1, per_plane=2)
    avoid = evs.evs[0]
    assert all(evs.select(1, avoid) is evs.evs[1] for _ in range(10))
    evs.retire(evs.evs[1], EvEvent.LOST, Cause.ORDER, 0)
    assert evs.select(1, avoid) is avoid


def test_denied_stays_denied_until_allowed() -> None:
    seen: list[tuple[str, str, str]] = []
    evs = make(changed=lambda ev, a, b, cause, now: seen.append((a.value, b.value, cause.value)))
    ev = evs.evs[0]
    evs.deny(ev, 0)
    evs.retire(ev, EvEvent.PORT_DOWN, Cause.PORT, 0)
    evs.bring_back(ev, EvEvent.PROBED, Cause.PROBE, 0)
    assert ev.state is DENIED
    assert ev not in picks(evs, 20)
    evs.bring_back(ev, EvEvent.ALLOW, Cause.CONTROLLER, 0)
    assert ev in picks(evs, 20)
    assert seen == [("good", "denied", "controller"), ("denied", "good", "controller")]
    assert evs.counts() == {"good": 8, "skip": 0, "assumed_bad": 0, "denied": 0}


def test_two_equal_evs_and_unknown_planes_are_refused() -> None:
    spec = EvSpec(1, 1, None)
    for specs in ([spec, spec], [EvSpec(1, 2, None)]):
        with pytest.raises(UsageError):
            EvSet(specs, [], plane_count=2, min_active=1, rng=Random(1), changed=lambda *_: None)
