"""Every complaint about a scenario is one sentence with file, line and key."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios import load
from scenarios.load import load_text
from tests.support.scenario_text import TEXT, changed
from topologies.strict_yaml import InputError

MSG = [
    ("rate: 10mbit", "rate: 10", "f:3: topology.rate: expected a rate such as 10mbit"),
    ("rate: 10mbit", "rte: 10mbit", "f:3: topology.rte: unknown key: did you mean rate?"),
    ("name: small", "nam: small", "f:1: nam: unknown key: did you mean name? (and 1 more problem)"),
    ("expect:", "expct:", "f:8: expct: unknown key: did you mean expect? (and 1 more problem)"),
    ("name: small\n", "", "f:1: name: this key is missing"),
    ("flaps: 2", "flap: 2", "f:7: timeline.0.flap: unknown key: did you mean flaps?"),
    ("fault: optic", "fault: optik", "f:7: timeline.0: there is no fault 'optik': there are"),
    ("fault: optic, ", "", "f:7: timeline.0: the key 'fault' is missing"),
    ("down: 300ms", "down: 300", "f:7: timeline.0.down: expected a duration such as"),
    ("at: 2s", "at: 1:20", "f:7: timeline.0.at: expected a duration such as"),
    ("planes: 2", "planes: no", "f:3: topology.planes: expected a whole number, got 'no'"),
    ("planes: 2", "planes: 02", "f:3: topology.planes: the number 02 has a leading zero"),
    ("planes: 2", "planes: 9", "f:3: topology: planes is 9, and must be from 1 to 8"),
    ("t1: 2", "t1: 509", "f:3: topology: a T0 switch would have 511 ports, and 510 is the most"),
    ("pmtu: 4096", "pmtu: 4097", "f:3: topology: pmtu is 4097, and must be a multiple of 4"),
    ("pmtu: 4096", "pmtu: 20000", "f:3: topology: pmtu is 20000, and must be from 256 to"),
    ("ranks: [h0, h1, h2]", "ranks: [h0, h9]", "f:5: workload.ranks.1: no host 'h9' in this"),
    ("ranks: [h0, h1, h2]", "ranks: [h0, h0]", "f:5: workload.ranks.1: h0 is in this list"),
    ("ranks: [h0, h1, h2]", "ranks: [h0]", "f:5: workload.ranks: expected 2 or more items"),
    ("switch: p0t0n0", "switch: p9t0n0", "f:7: timeline.0.switch: no switch 'p9t0n0' in this"),
    ("links: [h0, h1]", "links: [h0, h2]", "f:7: timeline.0.links.1: p0t0n0 has no link to 'h2'"),
    ("job.completed", "job.complete", "f:9: expect.0: unknown name 'job.complete': there are"),
    ("0.3 * goodput.before(optic)", "3", "f:10: expect.1: a rate cannot be compared with a number"),
    ("before(optic)", "before(optik)", "f:10: expect.1: unknown name 'goodput.before(optik)'"),
    ("routing: srv6", "routing: bgp", "f:4: transport.routing: expected 'srv6', 'structured' or"),
    (
        "switch: p0t0n0, links: [h0, h1], flaps: 2, down: 300ms, stagger: 50ms",
        "label: x, host: h0, ev: 17",
        "f:7: timeline.0",
    ),
    ("kind: mrc", "rto: 1ms", "f:4: transport.rto: expected at least"),
    ("kind: mrc", "window: 64KiB", "f:4: transport.window: NSCC moves the window: leave this out,"),
    ("kind: mrc", "cc: fixed, window: 0B", "f:4: transport.window: expected 1"),
    ("kind: mrc", "cc: dcqcn", "f:4: transport.cc: expected 'nscc' or 'fixed', got 'dcqcn'"),
    ("kind: mrc", "path_policy: ecmp", "f:4: transport.path_policy: expected 'mrc', 'oblivious',"),
    ("claim: nothing in particular", "claim: ''", "f:2: claim: expected text of 1 or more"),
]


@pytest.mark.parametrize(("old", "new", "message"), MSG, ids=[m[1] or m[0] for m in MSG])
def test_a_mistake_is_named_where_it_stands(old: str, new: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load_text(changed(old, new), "f")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", load.catalog_names())
def test_every_catalog_scenario_loads(name: str) -> None:
    loaded = load.load(name)
    assert loaded.scenario.name == name
    assert len(loaded.scenario.claim) > 40


def test_a_topology_may_be_a_catalog_name() -> None:
    text = "\n".join("topology: tiny" if x.startswith("topo") else x for x in TEXT.splitlines())
    assert len(load_text(text, "f").fabric.hosts) == 4
    with pytest.raises(InputError, match=r"f:3: topology: no topology 'tin' in the catalog"):
        load_text(text.replace("tiny", "tin"), "f")


def test_a_file_that_is_not_there_or_not_readable(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no scenario 'nope': the catalog has"):
        load.load("nope")
    with pytest.raises(InputError, match=r"gone\.yaml: cannot read the file: no such file"):
        load.load(str(tmp_path / "gone.yaml"))
    with pytest.raises(InputError, match="cannot read the file: is a directory"):
        load.load(str(tmp_path))
    (tmp_path / "latin.yaml").write_bytes(b"name: \xff")
    with pytest.raises(InputError, match="the file is not UTF-8 text"):
        load.load(str(tmp_path / "latin.yaml"))


def test_overrides_are_validated_like_the_file() -> None:
    loaded = load_text(TEXT, "f", ["topology.rate=20mbit", "timeline.0.flaps=3", "seed=9"])
    assert loaded.fabric.spec.rate_bps == 20_000_000
    assert loaded.scenario.timeline[0].flaps == 3  # type: ignore[union-attr]
    assert loaded.scenario.seed == 9


def test_an_override_reaches_into_a_catalog_topology() -> None:
    assert load.load("p2p", ["topology.rate=20mbit"]).fabric.spec.rate_bps == 20_000_000
    assert load.load("p2p", ["topology=tiny", "workload.dst=h2"]).fabric.spec.planes == 2


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("topology.rate=5", "--set topology.rate: expected a rate"),
        ("topology.rat=5mbit", "--set topology.rat: unknown key: did you mean rate?"),
        ("nonsense", "--set: expected key=value"),
        ("timeline.7.at=1s", "--set timeline.7.at: the scenario has no timeline.7"),
        ("name.x=1", "--set name.x: there is nothing below this key"),
        ("seed=no", "--set seed: expected a whole number, got 'no'"),
        ("seed=[", "--set seed:1: not valid YAML"),
    ],
)
def test_a_bad_override_is_named(override: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load_text(TEXT, "f", [override])
    assert str(caught.value).startswith(message)


@given(st.integers(0, len(TEXT)), st.integers(0, 5), st.text(max_size=5))
def test_a_damaged_file_is_a_scenario_or_our_own_error(at: int, cut: int, new: str) -> None:
    try:
        load_text(TEXT[:at] + new + TEXT[at + cut :], "f")
    except InputError as error:
        complaint = str(error)
    else:
        complaint = ""
    assert "\n" not in complaint
