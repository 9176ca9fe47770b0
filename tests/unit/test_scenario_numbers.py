"""Numbers that follow from a scenario: time-outs, windows, load, twin; and two runs compared."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosts.mrc import policy
from scenarios import compare, derive, flows, plan, twin
from scenarios.load import load, load_text
from tests.support.scenario_text import TEXT
from topologies.load import load as load_fabric
from topologies.model import FabricSpec

LAB = load_fabric("lab").spec


def test_the_rto_is_a_round_trip_behind_full_queues_and_a_quarter() -> None:
    """lab: base RTT 15.65 ms, 16 + 16 + 24 packets of 3.39 ms: 257 ms, so t = 18 (268 ms)."""
    assert derive.rto_needed_ns(LAB) == 256_896_000
    assert derive.rto_exponent(derive.rto_needed_ns(LAB)) == 18
    assert derive.rto_ns(18) == 268_435_456


@given(st.integers(1, 10**13))
def test_the_exponent_is_the_smallest_that_is_enough(needed_ns: int) -> None:
    exponent = derive.rto_exponent(needed_ns)
    assert derive.rto_ns(exponent) >= needed_ns
    assert exponent == 0 or derive.rto_ns(exponent - 1) < needed_ns


def test_a_longer_rto_may_be_asked_for() -> None:
    loaded = load("p2p", ["transport.rto=1s"])
    assert derive.numbers(loaded.fabric, loaded.scenario).rto_exponent == 20


def test_the_window_covers_the_bdp_of_all_planes() -> None:
    spec = FabricSpec(planes=8, t0=2, t1=4, hosts_per_t0=4, rate_bps=10**11, delay_ns=1000)
    bdp = 8 * 10**11 * 9406 // (8 * 10**9)
    assert derive.window_bytes(spec) >= 1.5 * bdp


@given(st.integers(1, 10**12))
def test_a_nice_step_is_1_2_or_5_times_a_power_of_ten(least: int) -> None:
    step = derive.nice_step(least)
    assert step >= least
    assert str(step).rstrip("0") in ("1", "2", "5")
    assert step <= 2.5 * least


def test_payload_and_pace_of_each_kind_of_job() -> None:
    ring = load_text(TEXT, "f")
    assert flows.payload_bytes(ring.scenario.workload) == 4 * 4 * (3 << 20)
    assert derive.busiest_host_bytes(ring.scenario.workload) == 4 * 4 * (1 << 20)
    incast = load("incast-trim").scenario.workload
    assert derive.busiest_host_bytes(incast) == flows.payload_bytes(incast)
    assert flows.job_hosts(incast) == ["h1", "h0", "h2", "h3", "h4", "h5", "h6", "h7"]


def test_a_host_is_configured_from_the_fabric() -> None:
    loaded = load("p2p")
    numbers = derive.numbers(loaded.fabric, loaded.scenario)
    config = derive.host_config(
        loaded.fabric, loaded.scenario, loaded.fabric.host("h5"), numbers, 7
    )
    assert config["gid"] == "fd6d7263000100000000000000000002"
    assert config["ports"][3] == {
        "mac": "020300050003",
        "gateway_mac": "020130000101",
        "rate_bps": 10_000_000,
    }
    assert (config["timeout"], config["ev_min_active"], config["seed"]) == (18, 2, 7)


def test_window_and_path_policy_reach_the_hosts() -> None:
    loaded = load("p2p", ["transport.cc=fixed", "transport.window=64KiB"])
    numbers = derive.numbers(loaded.fabric, loaded.scenario)
    host = loaded.fabric.host("h0")
    config = derive.host_config(loaded.fabric, loaded.scenario, host, numbers, 1)
    assert (config["cc"], config["window_bytes"]) == ("fixed", 65536)
    assert config["path_policy"] == "mrc"


def test_every_path_policy_can_be_asked_for() -> None:
    for name in policy.NAMES:
        assert load("p2p", [f"transport.path_policy={name}"]).scenario.transport.path_policy == name


@pytest.mark.parametrize(
    ("load_share", "level"),
    [(0.5, None), (0.51, "warn"), (0.9, "warn"), (0.91, "refuse")],
)
def test_plan_warns_at_half_and_refuses_at_nine_tenths(
    load_share: float, level: str | None
) -> None:
    advice = plan.advice(load_share)
    assert (advice and advice[0]) == level


def test_a_plan_says_what_it_builds() -> None:
    lines = "\n".join(plan.lines(plan.summary(load("p2p"), 12_000)))
    for words in ("24 switches", "8 hosts", "RTO 268.4 ms (t = 18)", "base RTT 16 ms is 1.6 us"):
        assert words in lines


def test_the_twin_of_lab_is_the_designs() -> None:
    assert twin.sentence(LAB) == (
        "10 Mb/s, 4096 B is 100 Gb/s, 4096 B at 1/10 000 of the speed; base RTT 16 ms is 1.6 us"
    )
    assert twin.dilation(LAB) == Fraction(10_000)
    assert "100 ms is 10 us" in twin.sentence(load_fabric("lab-twin").spec)
    assert "the hardware's own speed" in twin.sentence(load_fabric("hall").spec)


def test_two_runs_side_by_side() -> None:
    before = {
        "scenario": "p2p", "verdict": "pass", "world": "virtual", "switch": "engine", "seed": 1,
        "expectations": [{"expr": "job.completed", "measured": "yes", "ok": True}],
        "metrics": {"goodput": 100.0, "ev.retired": ["h0>h1:0xc000"], "job.duration": None},
    }  # fmt: skip
    after = {
        **before,
        "verdict": "fail",
        "expectations": [{"expr": "job.completed", "measured": "no", "ok": False}],
        "metrics": {"goodput": 90.0, "ev.retired": ["h0>h1:0xc000"], "job.duration": 5},
    }
    rows = {row.what: row for row in compare.rows(before, after)}
    assert rows["verdict"].change == "differs"
    assert rows["seed"].change == ""
    assert rows["job.completed"].change == "no longer holds"
    assert rows["goodput"].change == "-10.0 %"
    assert rows["ev.retired"].after == "1 EVs"
    assert rows["job.duration"].before == "-"
    assert "before" in compare.text(list(rows.values())).splitlines()[0]
