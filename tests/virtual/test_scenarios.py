"""The catalog in the virtual world, by the command line: verdicts, files, and the same bytes."""

import json
from pathlib import Path

import pytest

from tests.support.cli_run import ROOT, run

EXACT = ("result.json", "events.jsonl", "goodput.csv", "ev.csv", "scenario.yaml")
SHORT = ("--set", "workload.bytes=8MiB")


def test_t0_optic_passes(tmp_path: Path) -> None:
    done = run("t0-optic", tmp_path / "a")
    assert done.code == 0, done.out + done.err
    result = done.result
    assert result["verdict"] == "pass"
    assert result["world"] == "virtual"
    assert result["ledger"]["unexplained"] == 0
    assert all(e["ok"] for e in result["expectations"])
    assert len(result["metrics"]["ev.retired"]) == 20
    downs = [e for e in done.events if e["kind"] == "link_down"]
    assert len(downs) == 16
    assert "PASS" in done.out
    assert " % " in done.out


def test_p2p_passes_and_fills_the_planes(tmp_path: Path) -> None:
    done = run("p2p", tmp_path / "a", "--json", "--junit", str(tmp_path / "junit.xml"))
    assert done.code == 0, done.err
    assert json.loads(done.out) == done.result
    assert done.result["metrics"]["goodput"] >= 0.99 * done.result["metrics"]["goodput.ceiling"]
    assert 'failures="0"' in (tmp_path / "junit.xml").read_text()


OPTIC = (
    *("--set", "workload.bytes=1MiB"),
    *("--set", "timeline.0.at=1s", "--set", "timeline.0.flaps=1"),
    *("--set", "windows.warm_up=100ms", "--set", "transport.hold_down=200ms"),
)


def test_one_seed_gives_the_same_bytes_whatever_the_hash_seed(tmp_path: Path) -> None:
    runs = [run("t0-optic", tmp_path / str(seed), *OPTIC, hash_seed=seed) for seed in (0, 1, 4242)]
    for name in EXACT:
        assert len({(done.folder / name).read_bytes() for done in runs}) == 1, name
    for word in (str(tmp_path), "virtual world ("):
        assert word not in (runs[0].folder / "result.json").read_text()


def test_t0_optic_at_the_hardwares_own_speed_passes(tmp_path: Path) -> None:
    """The same incident on eight planes of 100 Gb/s."""
    done = run("t0-optic-100g", tmp_path / "a")
    assert done.code == 0, done.out + done.err


def test_another_seed_gives_another_run(tmp_path: Path) -> None:
    """What is random here is which packets a switch loses."""
    gray = "timeline=[{at: 200ms, fault: gray_loss, switch: p0t0n0, probability: 5%, for: 500ms}]"
    arguments = (*SHORT, "--set", gray, "--set", "expect=[job.completed, job.bytes_corrupt == 0]")
    a = run("p2p", tmp_path / "a", *arguments, "--seed", "1")
    b = run("p2p", tmp_path / "b", *arguments, "--seed", "2")
    assert a.code == b.code == 0
    assert a.result["seed"] != b.result["seed"]
    assert (a.folder / "events.jsonl").read_text() != (b.folder / "events.jsonl").read_text()


def test_a_fixed_window_holds_goodput_down(tmp_path: Path) -> None:
    """Half of what a base RTT of 15.65 ms takes at this rate."""
    window = ("--set", "transport.cc=fixed", "--set", "transport.window=32KiB")
    half = "expect=[job.completed, goodput <= 0.6 * goodput.ceiling, goodput > 10mbit]"
    expect = ("--set", half)
    done = run("p2p", tmp_path / "a", "--set", "workload.bytes=1MiB", *window, *expect)
    assert done.code == 0, done.out + done.err


def test_only_mrcs_own_path_policy_retires_evs(tmp_path: Path) -> None:
    dark = "timeline=[{at: 100ms, fault: blackhole, switch: p0t1n0, for: 300ms}]"
    expect = "expect=[job.completed, job.bytes_corrupt == 0, ledger.unexplained == 0]"
    how = ("--set", "workload.bytes=2MiB", "--set", dark, "--set", expect)
    for name in ("mrc", "oblivious", "bitmap", "reps"):
        done = run("p2p", tmp_path / name, *how, "--set", f"transport.path_policy={name}")
        assert done.code == 0, done.out + done.err
        assert bool(done.result["metrics"]["ev.retired"]) == (name == "mrc")


def test_an_impossible_expectation_is_exit_1(tmp_path: Path) -> None:
    impossible = "expect=[job.completed, goodput >= 2 * goodput.ceiling]"
    done = run("p2p", tmp_path / "a", *SHORT, "--set", impossible)
    assert done.code == 1, done.err
    assert [e["ok"] for e in done.result["expectations"]] == [True, False]
    assert "FAIL" in done.out
    assert "<failure" in (done.folder / "junit.xml").read_text()


def test_a_byte_flipped_at_the_receiver_is_exit_1(tmp_path: Path) -> None:
    done = run("p2p", tmp_path / "a", *SHORT, "--corrupt-byte", "h4:4097")
    assert done.code == 1, done.out + done.err
    corrupt = done.result["expectations"][1]
    assert corrupt["expr"] == "job.bytes_corrupt == 0"
    assert (corrupt["measured"], corrupt["ok"]) == ("1", False)


def without_the_shift(tmp_path: Path) -> Path:
    """The compiled program with the uSID shift of 16 bits changed to 0."""
    text = (ROOT / "p4" / "build" / "mrc.json").read_text()
    program = json.loads(text)
    changed = _change_shifts(program)
    assert changed > 0
    path = tmp_path / "mrc.json"
    path.write_text(json.dumps(program))
    return path


def _change_shifts(node: object) -> int:
    """Every `<< 16` of the program becomes `<< 0`; how many there were."""
    count = 0
    if isinstance(node, dict):
        if node.get("op") == "<<" and node["right"]["value"] == "0x10":
            node["right"]["value"] = "0x00"
            count += 1
        for child in node.values():
            count += _change_shifts(child)
    elif isinstance(node, list):
        for child in node:
            count += _change_shifts(child)
    return count


def test_a_program_that_does_not_shift_delivers_no_byte(tmp_path: Path) -> None:
    program = without_the_shift(tmp_path)
    arguments = (*SHORT, "--set", "max_duration=3s", "--program", str(program))
    done = run("p2p", tmp_path / "a", *arguments)
    assert done.code == 1, done.out + done.err
    assert done.result["metrics"]["job.bytes_delivered"] == 0
    assert "the job did not end within 3 s" in done.result["problems"]


def test_the_run_folder_runs_again(tmp_path: Path) -> None:
    first = run("p2p", tmp_path / "a", *SHORT)
    again = run(str(first.folder / "scenario.yaml"), tmp_path / "b")
    assert again.result == first.result


def test_an_ev_the_operator_denies_carries_nothing_until_it_is_allowed(tmp_path: Path) -> None:
    deny = "timeline=[{at: 200ms, fault: deny_ev, host: h0, ev: 0xc008, for: 500ms}]"
    expect = "expect=[job.completed, job.bytes_corrupt == 0, ev.all_good]"
    done = run("p2p", tmp_path / "a", *SHORT, "--set", deny, "--set", expect)
    assert done.code == 0, done.out + done.err
    states = [(e["to"], e["cause"]) for e in done.events if e["kind"] == "ev_state"]
    assert states == [("denied", "controller"), ("good", "controller")]


@pytest.mark.root
def test_a_verb_the_live_world_cannot_do_is_refused_by_name(tmp_path: Path) -> None:
    corrupt = "{at: 1s, fault: corrupt, switch: p0t0n0, links: [h0], probability: 1%}"
    arguments = ("--set", f"timeline=[{corrupt}]", "--set", "expect=[job.completed]")
    done = run("p2p", tmp_path / "a", *arguments, world="live")
    assert done.code == 2
    assert done.err == (
        "mrc-testbed: the live world cannot do 'corrupt': it has no set_corruption\n"
    )
