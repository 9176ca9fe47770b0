"""Random fabrics, jobs and faults: 100 fixed seeds, and what the fuzzer found before, by name."""

from random import Random

import pytest

from hosts.mrc.requester import Requester
from scenarios import fuzz, fuzz_case, fuzz_check
from scenarios.faults import Impair, Step
from scenarios.fuzz_case import Case
from topologies.model import PortRef

SEEDS = 100


def test_a_hundred_seeds_hold(capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz.main(SEEDS, 1) == 0, capsys.readouterr().out


def test_a_seed_is_always_the_same_case() -> None:
    assert [fuzz.case_of(seed) for seed in range(20)] == [fuzz.case_of(seed) for seed in range(20)]


def test_every_case_is_a_scenario_and_ends_its_faults() -> None:
    for seed in range(300):
        loaded = fuzz.case_of(seed).load()
        for fault in loaded.scenario.timeline:
            assert getattr(fault, "for_", 0) is not None


def test_a_failure_is_shrunk_to_what_matters() -> None:
    """Here: any case whose fabric has more than one plane fails."""
    start = next(
        case
        for case in (fuzz_case.make(n, Random(n)) for n in range(100))
        if case.load().scenario.topology.planes == 4 and case.load().scenario.timeline
    )
    smallest = fuzz.shrink(start, lambda case: case.load().scenario.topology.planes > 1)
    assert smallest.load().scenario.topology.planes == 2
    assert smallest.load().scenario.timeline == ()
    assert smallest.extra == ()


def test_a_broken_invariant_is_found_and_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fuzz_check, "run", lambda *_: ["3 bytes are not what was sent"])
    assert fuzz.main(1, 5, jobs=1) == 1
    out = capsys.readouterr().out
    assert "seed 5 FAILED: 3 bytes are not what was sent" in out
    assert "repeat: mrc-testbed fuzz --seeds 1 --seed 5" in out
    assert "the smallest case that still fails:" in out


SMALL = """
name: fuzz
claim: found by the fuzzer
topology: {planes: PLANES, t0: 3, t1: 2, hosts_per_t0: 2, rate: 1gbit, delay: 200us, pmtu: 1024}
transport: {routing: structured, evs_per_plane: 1, hold_down: 4194304ns}
workload: WORKLOAD
expect: [job.bytes_corrupt == 0]
timeline: TIMELINE
max_duration: 7s
"""


def case(planes: int, workload: str, timeline: str, *extra: Step) -> Case:
    text = SMALL.replace("PLANES", str(planes)).replace("WORKLOAD", workload)
    return Case(118, text.replace("TIMELINE", timeline), extra)


def test_an_answer_that_finds_no_port_is_in_the_books() -> None:
    """Seeds 96 and 118: a response given up for want of a port was counted as dropped, never as
    sent."""
    found = fuzz.check(
        case(
            1,
            "{kind: permutation, hosts: [h4, h0, h5], bytes: 560B}",
            "[{at: 974109ns, fault: t0_reboot, switch: p0t0n2, down: 14472866ns}, "
            "{at: 437870ns, fault: link_down, switch: p0t0n0, links: [h1, h0, p0t1n0], "
            "for: 33476833ns}]",
        )
    )
    assert found == ()


def test_two_faults_on_one_switch_end_apart() -> None:
    """Seeds 20, 84, 130: a row of the fault table goes with the switch that reboots."""
    found = fuzz.check(
        case(
            2,
            "{kind: write, src: h0, dst: h4, bytes: 400000B}",
            "[{at: 500us, fault: blackhole, switch: p0t1n0, for: 3ms}, "
            "{at: 1ms, fault: t1_reboot, switch: p0t1n0, down: 1ms}]",
        )
    )
    assert found == ()


def test_a_frame_garbled_on_the_way_is_in_the_books() -> None:
    """Seed 119: a frame that fails its iCRC may have been control as well as data."""
    end = PortRef("p0t0n0", 0)
    steps = [Step(0, "garble", Impair(end, corrupt=0.2)), Step(10**8, "garble", Impair(end))]
    workload = "{kind: write, src: h2, dst: h0, bytes: 400000B}"
    assert fuzz.check(case(2, workload, "[]", *steps)) == ()


def test_frames_held_by_a_wire_when_the_power_goes_are_in_the_books() -> None:
    """Seed 45: they come to a switch that is not there."""
    end = PortRef("p0t1n0", 0)
    slow = Impair(end, reorder=0.9, reorder_delay_ns=200_000)
    steps = [Step(500_000, "slow wire", slow), Step(10**8, "slow wire", Impair(end))]
    workload = "{kind: write, src: h4, dst: h0, bytes: 400000B}"
    reboot = "[{at: 1500us, fault: t0_reboot, switch: p0t0n0, down: 1ms}]"
    assert fuzz.check(case(2, workload, reboot, *steps)) == ()


def test_short_packets_behind_a_lost_one_are_forgotten_when_they_arrived(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seed 3: they are no evidence of loss, so nothing took them, and their messages, off the list
    of what was sent on their EV."""
    incast = "{kind: incast, sources: [h2, h0, h5, h3, h1], dst: h4, bytes: 20kB}"
    text = case(1, incast, "[]").text.replace("1gbit", "100mbit").replace("1024", "256")
    text = text.replace("hold_down", "path_policy: bitmap, hold_down")
    assert fuzz.check(Case(3, text)) == ()
    monkeypatch.setattr(Requester, "_forget", lambda *_: None)
    assert any("more items held" in finding for finding in fuzz.check(Case(3, text)))
