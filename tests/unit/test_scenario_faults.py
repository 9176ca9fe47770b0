"""Each verb becomes timed primitives, and says which EVs it takes away."""

from typing import Any

import pytest

from scenarios import faults, flows, schema
from scenarios.faults import (
    AddLoss,
    KillSwitch,
    RemoveLoss,
    RestartSwitch,
    SetCorruption,
    SetDenied,
    SetLink,
    Step,
)
from scenarios.load import load, load_text
from tests.support.scenario_text import changed
from topologies.load import load as load_fabric
from topologies.model import PortRef
from worlds import rng

LAB = load_fabric("lab")
MS = 10**6


def fault(verb: str, **keys: Any) -> schema.AnyFault:
    text = {"at": "1s", "fault": verb, **keys}
    scenario = schema.Scenario.model_validate(
        {
            "name": "x",
            "claim": "x",
            "topology": {"planes": 4, "t0": 2, "t1": 4, "hosts_per_t0": 4},
            "workload": {"kind": "write", "src": "h0", "dst": "h4", "bytes": "1MiB"},
            "timeline": [text],
            "expect": ["job.completed"],
        }
    )
    return scenario.timeline[0]


def steps(verb: str, **keys: Any) -> list[tuple[int, object]]:
    return [(s.t_ns // MS, s.what) for s in faults.expand(LAB, (fault(verb, **keys),))]


def test_an_optic_flaps_its_links_one_after_the_other() -> None:
    found = steps(
        "optic", switch="p0t0n0", links=["h0", "h1"], flaps=2, down="300ms", stagger="50ms"
    )
    h0, h1 = PortRef("p0t0n0", 0), PortRef("p0t0n0", 1)
    assert found == [
        (1000, SetLink(h0, False)),
        (1050, SetLink(h1, False)),
        (1300, SetLink(h0, True)),
        (1350, SetLink(h1, True)),
        (1600, SetLink(h0, False)),
        (1650, SetLink(h1, False)),
        (1900, SetLink(h0, True)),
        (1950, SetLink(h1, True)),
    ]


def test_a_link_that_stays_down_is_never_taken_up() -> None:
    assert steps("link_down", switch="p0t0n0", links=["p0t1n3"]) == [
        (1000, SetLink(PortRef("p0t0n0", 7), False))
    ]
    assert faults.window(LAB, fault("link_down", switch="p0t0n0", links=["h0"])) == (10**9, None)


def test_a_reboot_kills_and_restarts_after_a_dark_time() -> None:
    found = steps("t1_reboot", switch="p1t1n2", dark="500ms", down="2s")
    assert [(t, type(what)) for t, what in found] == [
        (1000, AddLoss),
        (1500, KillSwitch),
        (3500, RestartSwitch),
    ]
    assert faults.window(LAB, fault("t0_reboot", switch="p0t0n1", down="2s")) == (10**9, 3 * 10**9)


def test_losses_are_rows_of_the_fault_table_and_are_taken_out_again() -> None:
    (_, put), (_, taken) = steps(
        "gray_loss", switch="p0t0n0", link="p0t1n0", ev=0xC000, probability="20%", **{"for": "1s"}
    )
    assert isinstance(put, AddLoss)
    assert isinstance(taken, RemoveLoss)
    assert put.entry == taken.entry
    assert put.entry.action.params == {"per_million": 200_000}
    assert set(put.entry.match) == {"egress_port", "ev"}
    blackhole = steps("blackhole", switch="p0t1n0")
    assert isinstance(blackhole[0][1], AddLoss)
    assert len(blackhole) == 1
    one_way = steps("one_way_loss", switch="p0t0n0", links=["h0", "h1"])
    assert [type(what) for _, what in one_way] == [AddLoss, AddLoss]


def test_the_other_verbs() -> None:
    assert steps("nic_port_down", host="h3", plane=2, **{"for": "1s"}) == [
        (1000, SetLink(PortRef("h3", 2), False)),
        (2000, SetLink(PortRef("h3", 2), True)),
    ]
    assert len(steps("plane_down", plane=1)) == 8
    assert steps("link_flap", switch="p0t0n0", links=["h0"], down="10ms", flaps=3)[-1][0] == 1630
    assert steps("corrupt", switch="p0t0n0", links=["h0"], probability=0.1) == [
        (1000, SetCorruption(PortRef("p0t0n0", 0), 0.1))
    ]
    assert steps("deny_ev", host="h0", ev=0xC000) == [(1000, SetDenied("h0", 0xC000, True))]


def test_every_verb_has_a_model_a_window_and_hits() -> None:
    """The verbs of design section 10."""
    verbs = [
        "link_down", "link_flap", "optic", "t1_reboot", "t0_reboot", "blackhole", "gray_loss",
        "one_way_loss", "corrupt", "nic_port_down", "plane_down", "deny_ev",
    ]  # fmt: skip
    keys: dict[str, Any] = {"switch": "p0t0n0", "links": ["h0"], "down": "1s", "host": "h0"}
    keys |= {"plane": 0, "ev": 0xC000, "probability": 0.5}
    for verb in verbs:
        model = next(m for m in schema.AnyFault.__args__ if _verb(m) == verb)
        needed = {k: v for k, v in keys.items() if k in model.model_fields}
        made = fault(verb, **needed)
        assert faults.window(LAB, made)[0] == 10**9
        assert isinstance(faults.hits(LAB, made), list)


def _verb(model: Any) -> str:
    return str(model.model_fields["fault"].annotation.__args__[0])


class OnlyLinks:
    name = "small"

    def set_link(self) -> None: ...


def test_a_world_without_the_means_refuses_by_name() -> None:
    plan = faults.expand(LAB, (fault("corrupt", switch="p0t0n0", links=["h0"], probability=0.1),))
    assert faults.refused(OnlyLinks(), plan) == (
        "the small world cannot do 'corrupt': it has no set_corruption"
    )
    links: list[Step] = faults.expand(LAB, (fault("plane_down", plane=0),))
    assert faults.refused(OnlyLinks(), links) is None


def affected(name: str, *overrides: str) -> frozenset[str]:
    loaded = load(name, overrides)
    ends = flows.qp_ends(loaded.fabric, loaded.scenario, lambda n: rng.stream(1, n))
    hits = [h for f in loaded.scenario.timeline for h in faults.hits(loaded.fabric, f)]
    return flows.affected(loaded.fabric, ends, hits)


def test_a_host_facing_link_takes_its_plane_from_both_ends_of_every_qp_of_that_host() -> None:
    """h0, h1, h2 flap; h3 too, but it has no QP: 2 QPs in the rack, 2 across of 4 EVs a plane."""
    found = affected("t0-optic")
    assert len(found) == 2 * (1 + 1 + 4 + 4)
    assert all(int(name.split(":")[1], 0) & 7 == 0 for name in found)
    assert {name.split(":")[0] for name in found} == {
        "h0>h1", "h1>h0", "h1>h2", "h2>h1", "h2>h4", "h4>h2", "h7>h0", "h0>h7",
    }  # fmt: skip


def test_inside_the_fabric_only_senders_on_paths_over_the_element_notice() -> None:
    found = affected("p2p", "timeline=[{at: 1s, fault: t1_reboot, switch: p1t1n2, down: 1s}]")
    assert found == {"h0>h4:0xc011"}
    one_way = "timeline=[{at: 1s, fault: one_way_loss, switch: p0t0n1, links: [p0t1n0]}]"
    assert affected("p2p", one_way) == frozenset()
    towards = "timeline=[{at: 1s, fault: one_way_loss, switch: p0t1n0, links: [p0t0n1]}]"
    assert affected("p2p", towards) == {"h0>h4:0xc000"}


def test_active_evs_are_equally_many_in_each_plane_and_the_rest_is_backup() -> None:
    loaded = load("p2p", ["transport.evs_per_plane=3"])
    ends = flows.qp_ends(loaded.fabric, loaded.scenario, lambda n: rng.stream(1, n))
    for end in ends:
        assert [way.plane for way in end.active] == [0, 1, 2, 3] * 3
        assert len(end.backup) == 4
        assert len({way.ev for way in end.paths}) == 16
    assert [end.sends for end in ends] == [True, False]
    again = flows.qp_ends(loaded.fabric, loaded.scenario, lambda n: rng.stream(1, n))
    other = flows.qp_ends(loaded.fabric, loaded.scenario, lambda n: rng.stream(2, n))
    assert ends == again
    assert ends != other


def test_two_faults_of_one_verb_need_labels() -> None:
    twice = "timeline:\n  - {at: 1s, fault: optic, switch: p0t0n0, links: [h0], down: 1ms}"
    with pytest.raises(ValueError, match="the timeline has 'optic' twice"):
        load_text(changed("timeline:", twice), "f")
