"""From a scenario to a verdict, in a world without packets."""

import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from scenarios import execute, run_folder, verdict, worlds_choice
from scenarios.execute import Options
from scenarios.load import Loaded, load_text
from scenarios.observe import Observed, Progress
from scenarios.runner import Hook, Refused, Runner
from scenarios.verdict import Judgement, Verdict
from scenarios.worlds_choice import Choice
from tests.support.fake_world import FakeWorld
from tests.support.scenario_text import TEXT, changed
from topologies import thresholds
from topologies.model import PortRef
from worlds.api import World

S = 10**9


def ran(text: str = TEXT, **how: object) -> tuple[Judgement, Observed, FakeWorld]:
    loaded = load_text(text, "f")
    world = FakeWorld(loaded.fabric, **how)  # type: ignore[arg-type]
    runner = Runner(loaded, world, 1, lambda progress: None)
    observed = runner.run()
    return verdict.judge(loaded, runner.derived, runner.ends, observed), observed, world


def test_a_run_that_meets_its_expectations_passes() -> None:
    judgement, observed, world = ran()
    assert [f.ok for f in judgement.findings] == [True, True, True]
    assert judgement.verdict is Verdict.PASS
    kinds = [event.kind for event in observed.in_order()]
    assert kinds.count("link_down") == kinds.count("link_up") == 4
    first = next(call for call in world.calls if call[0] == "set_link")
    assert first[2:] == (PortRef("p0t0n0", 0), False)
    assert judgement.metrics["job.bytes_delivered"] == judgement.metrics["job.bytes_expected"]


def test_faults_happen_at_their_times_after_the_start_of_the_job() -> None:
    _, observed, _ = ran()
    downs = [event.t_ns for event in observed.events if event.kind == "link_down"]
    assert downs == [2_000_000_000, 2_050_000_000, 2_600_000_000, 2_650_000_000]


def test_an_expectation_that_cannot_hold_fails() -> None:
    judgement, _, _ = ran(changed("- job.completed", "- goodput >= 2 * goodput.ceiling"))
    assert judgement.verdict is Verdict.FAIL
    assert not judgement.findings[0].ok
    assert judgement.findings[1].ok


def test_a_flipped_byte_fails() -> None:
    loaded = load_text(changed("- job.completed", "- job.bytes_corrupt == 0"), "f")
    runner = Runner(loaded, FakeWorld(loaded.fabric), 1, lambda progress: None, Hook({"h1": 5}))
    judgement = verdict.judge(loaded, runner.derived, runner.ends, runner.run())
    assert judgement.verdict is Verdict.FAIL
    assert judgement.findings[0].measured == "1"


def test_a_switch_that_dies_unasked_fails_the_run_and_is_named() -> None:
    judgement, observed, _ = ran(die=(3 * S, "p1t1n0"))
    assert judgement.verdict is Verdict.FAIL
    assert judgement.problems == ("p1t1n0 died: killed by signal 9",)
    death = observed.in_order()[-1]
    assert (death.node, death.kind) == ("p1t1n0", "switch_died")
    assert all(not f.ok for f in judgement.findings)


def test_a_host_that_dies_is_named_too() -> None:
    _, observed, _ = ran(die=(3 * S, "h1"))
    assert (observed.events[-1].node, observed.events[-1].kind) == ("h1", "host_died")


def test_a_job_that_ends_before_its_fault_fails() -> None:
    judgement, _, _ = ran(changed("at: 2s", "at: 60s"))
    assert judgement.verdict is Verdict.FAIL
    assert "before optic at 60 s" in judgement.problems[0]


def test_a_job_that_takes_too_long_is_ended_and_fails() -> None:
    judgement, observed, _ = ran(TEXT + "max_duration: 1s\n")
    assert judgement.verdict is Verdict.FAIL
    assert "the job did not end within 1 s" in judgement.problems
    assert [e.kind for e in observed.events].count("timeout") == 1


def test_a_fault_that_is_on_when_the_job_ends_is_seen_through() -> None:
    text = changed("flaps: 2, down: 300ms", "flaps: 1, down: 60s")
    _, observed, world = ran(text)
    ups = [call for call in world.calls if call[0] == "set_link" and call[3]]
    assert len(ups) == 2
    assert observed.problems == []


def late(text: str = TEXT, **numbers: float) -> Verdict:
    loaded = load_text(text, "f")
    world = FakeWorld(loaded.fabric)
    world.late |= numbers
    runner = Runner(loaded, world, 1, lambda progress: None)
    return verdict.judge(loaded, runner.derived, runner.ends, runner.run()).verdict


def test_invalid_if_and_only_if_the_machine_was_late() -> None:
    """RTO/8 is 33.6 ms here, two packet times 6.8 ms."""
    assert late(timer_p999_ns=33_000_000) is Verdict.PASS
    assert late(timer_p999_ns=34_000_000) is Verdict.INVALID
    assert late(send_p999_ns=34_000_000) is Verdict.INVALID
    assert late(slots_lost=0.02) is Verdict.PASS
    assert late(slots_lost=0.021) is Verdict.INVALID


HALF_A_BASE_RTT_NS = thresholds.base_rtt_ns(load_text(TEXT, "f").fabric.spec) // 2


def test_a_speed_that_falls_short_on_a_late_machine_is_invalid() -> None:
    """A window has room for half a base RTT of lateness, not for more."""
    text = changed("- job.completed", "- 1 <= goodput / goodput.ceiling")
    assert late(text, timer_p999_ns=HALF_A_BASE_RTT_NS) is Verdict.FAIL
    assert late(text, timer_p999_ns=HALF_A_BASE_RTT_NS + 1) is Verdict.INVALID
    assert late(text, send_p999_ns=HALF_A_BASE_RTT_NS + 1) is Verdict.INVALID
    assert late(send_p999_ns=HALF_A_BASE_RTT_NS + 1) is Verdict.PASS, "nothing fell short"


@pytest.mark.parametrize(
    "other", ["qp.errors > 0", "not job.completed", "ev.retired != ev.retired"]
)
def test_what_is_not_speed_fails_on_a_late_machine_too(other: str) -> None:
    text = changed("- job.completed", f"- job.duration < 1us\n  - {other}")
    assert late(text, send_p999_ns=HALF_A_BASE_RTT_NS + 1) is Verdict.FAIL


@pytest.mark.parametrize(
    ("place", "word"),
    [("host_ring:h0-eth0", "invalid"), ("kernel:h0", "invalid"), ("link_down:h0-eth0", "pass")],
)
def test_invalid_if_the_machine_lost_frames(place: str, word: str) -> None:
    loaded = load_text(TEXT, "f")
    world = FakeWorld(loaded.fabric)
    world.lost = {place: 3}
    runner = Runner(loaded, world, 1, lambda progress: None)
    judgement = verdict.judge(loaded, runner.derived, runner.ends, runner.run())
    if word == "pass":
        assert not judgement.invalid
    else:
        assert judgement.invalid == (f"3 frames lost in this machine at {place}",)


def test_invalid_if_a_ring_of_a_switch_was_full() -> None:
    loaded = load_text(TEXT, "f")
    world = FakeWorld(loaded.fabric)
    world.ring_drops = {"p1t0n0": 2}
    runner = Runner(loaded, world, 1, lambda progress: None)
    judgement = verdict.judge(loaded, runner.derived, runner.ends, runner.run())
    assert judgement.verdict is Verdict.INVALID
    assert judgement.invalid == ("2 frames lost in this machine at host_ring:p1t0n0-eth0",)
    assert judgement.fidelity["interface_losses"] == {"host_ring:p1t0n0-eth0": 2}


def test_a_verb_the_world_cannot_do_is_refused_before_anything_starts() -> None:
    optic = "fault: optic, switch: p0t0n0, links: [h0, h1], flaps: 2, down: 300ms, stagger: 50ms"
    corrupt = "fault: corrupt, label: optic, switch: p0t0n0, links: [h0], probability: 1%"
    loaded = load_text(changed(optic, corrupt), "f")
    world = FakeWorld(loaded.fabric)
    with pytest.raises(Refused, match="cannot do 'optic': it has no set_corruption"):
        Runner(loaded, world, 1, lambda progress: None).run()


def test_progress_knows_the_total_from_the_start() -> None:
    loaded = load_text(TEXT, "f")
    seen: list[Progress] = []
    Runner(loaded, FakeWorld(loaded.fabric), 1, seen.append).run()
    assert seen[0].total_bytes == seen[-1].done_bytes == 4 * 4 * (3 << 20)
    assert [p.t_ns for p in seen] == sorted(p.t_ns for p in seen)
    assert seen[0].evs["good"] == 2 * (2 + 4 + 4)


def test_bytes_that_are_there_at_the_first_look_are_no_rate() -> None:
    """A named bug: the first line of a live run said 32.77 Tb/s."""
    loaded = load_text(TEXT, "f")
    seen: list[Progress] = []
    runner = Runner(loaded, FakeWorld(loaded.fabric), 1, seen.append)
    runner._done_bytes = -4096
    runner.run()
    assert seen[0].t_ns == 0
    assert seen[0].goodput_bps == 0


def executed(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    text: str = TEXT,
    junit: Path | None = None,
    **how: object,
) -> int:
    def fake(choice: Choice, fabric: object, settings: object) -> World:
        return FakeWorld(loaded.fabric, **how)  # type: ignore[arg-type]

    loaded: Loaded = load_text(text, "f")
    monkeypatch.setattr(worlds_choice, "make", fake)
    made = run_folder.create("small", folder)
    options = Options(seed=1, folder=made, junit=junit)
    with (folder / "screen.txt").open("w") as screen:
        return execute.execute(
            loaded, Choice("virtual", "asked for"), options, Console(file=screen, width=200)
        )


def test_a_run_folder_holds_what_the_design_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert executed(monkeypatch, tmp_path / "a") == 0
    names = {path.name for path in (tmp_path / "a").iterdir()} - {"screen.txt"}
    assert names == {
        "scenario.yaml", "result.json", "machine.json", "junit.xml", "events.jsonl",
        "goodput.csv", "ev.csv", "ledger.csv", "report.html", "logs",
    }  # fmt: skip
    result = json.loads((tmp_path / "a" / "result.json").read_text())
    assert result["verdict"] == "pass"
    assert {"world", "switch", "seed", "ledger", "fidelity", "twin"} <= set(result)
    assert set(result["expectations"][0]) == {"expr", "wanted", "measured", "ok"}
    lines = (tmp_path / "a" / "events.jsonl").read_text().splitlines()
    assert all({"t_ns", "node", "kind"} <= set(json.loads(line)) for line in lines)
    page = (tmp_path / "a" / "report.html").read_text()
    assert "http" not in page.replace("http-equiv", "")
    assert "nothing in particular" in page
    assert "timer_p999_ns 0" in page
    assert "<svg" in page
    assert load_text((tmp_path / "a" / "scenario.yaml").read_text(), "g").scenario.name == "small"


def test_a_folder_used_again_holds_nothing_of_the_run_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    executed(monkeypatch, tmp_path / "a")
    run_folder.create("small", tmp_path / "a")
    assert {path.name for path in (tmp_path / "a").iterdir()} == {"logs", "screen.txt"}


def test_events_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scenarios.observe.EVENTS_MAX", 3)
    _, observed, _ = ran()
    last = observed.in_order()[-1]
    assert last.kind == "events_left_out"
    assert last.fields["count"] > 3


def test_the_same_seed_gives_the_same_bytes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    executed(monkeypatch, tmp_path / "a")
    executed(monkeypatch, tmp_path / "b")
    for name in ("result.json", "events.jsonl", "goodput.csv", "ev.csv", "scenario.yaml"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_death_is_exit_1_and_stands_in_every_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert executed(monkeypatch, tmp_path / "a", die=(3 * S, "p1t1n0")) == 1
    for name in ("result.json", "junit.xml", "events.jsonl", "report.html", "screen.txt"):
        assert "p1t1n0 died" in (tmp_path / "a" / name).read_text()


def test_a_defect_of_ours_is_exit_4_and_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(self: FakeWorld, t_ns: int) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(FakeWorld, "run_until", broken)
    assert executed(monkeypatch, tmp_path / "a") == 4
    result = json.loads((tmp_path / "a" / "result.json").read_text())
    assert result["error"] == "internal error: ZeroDivisionError: oops"
    assert "Traceback" not in (tmp_path / "a" / "screen.txt").read_text()
    assert "Traceback" in (tmp_path / "a" / "logs" / "error.txt").read_text()


def test_an_interrupted_run_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(self: FakeWorld, t_ns: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(FakeWorld, "run_until", interrupted)
    assert executed(monkeypatch, tmp_path / "a") == execute.INTERRUPTED
    assert json.loads((tmp_path / "a" / "result.json").read_text())["verdict"] == "error"


def test_every_element_of_a_chart_is_closed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An attribute without quotes takes the slash of `/>` with it."""
    executed(monkeypatch, tmp_path / "a")
    page = (tmp_path / "a" / "report.html").read_text()
    assert page.count("<svg") == page.count("</svg>") == 2
    assert re.findall(r"<(?:rect|line)[^>]*=[^'\"\s>]*/>", page) == []


def test_under_sudo_everything_new_is_the_users(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Folders on the way, the run folder, what was compiled, and the JUnit file elsewhere."""
    given: list[tuple[Path, int, int]] = []
    monkeypatch.setattr(
        "os.chown", lambda path, uid, gid, follow_symlinks: given.append((path, uid, gid))
    )
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(run_folder, "CACHE", tmp_path / "cache")
    (tmp_path / "cache").mkdir()
    (tmp_path / "runs").mkdir()
    run_folder.create("small", tmp_path / "runs" / "a")
    assert given == []
    monkeypatch.setenv("SUDO_UID", "1000")
    monkeypatch.setenv("SUDO_GID", "1001")
    folder = run_folder.create("small", tmp_path / "new" / "b")
    paths = {path for path, *_ in given}
    assert paths >= {tmp_path / "new", folder, folder / "logs"}
    assert {(uid, gid) for _, uid, gid in given} == {(1000, 1001)}
    assert not paths & {tmp_path, tmp_path / "runs"}
    assert executed(monkeypatch, tmp_path / "new" / "c", junit=tmp_path / "junit.xml") == 0
    paths = {path for path, *_ in given}
    assert paths >= {tmp_path / "new" / "c" / "result.json", tmp_path / "junit.xml"}
    assert (tmp_path / "cache" in paths) == ((tmp_path / "cache").lstat().st_uid == 0)
