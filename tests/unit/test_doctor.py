"""What `doctor` says, and the ceiling `plan` reckons with."""

import json
from pathlib import Path

import pytest

from scenarios import derive, doctor, run_folder


def test_every_check_that_fails_has_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    bad = [check for check in doctor.checks() if not check.ok]
    assert {"C compiler", "mnexec"} <= {check.name for check in bad}
    assert all(check.remedy for check in bad)


def test_the_ceiling_is_the_measured_one_or_the_designs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(run_folder, "CHECKOUT", tmp_path)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1})
    assert doctor.ceiling_pps() == derive.LIVE_PACKETS_PER_SECOND
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "ceiling.json").write_text(json.dumps({"pps": 9000}))
    assert doctor.ceiling_pps() == 9000
    (tmp_path / ".cache" / "ceiling.json").write_text("broken")
    assert doctor.ceiling_pps() == derive.LIVE_PACKETS_PER_SECOND


def test_a_measurement_takes_what_two_runs_differ_by(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """10 000 packets more for 2 s more of two processors: 200 us each, 10 000 a second."""
    monkeypatch.setattr(run_folder, "CHECKOUT", tmp_path)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1})
    trials = iter([(1000, 3.0), (11_000, 5.0), (1000, 3.0), (11_000, 2.0)])
    monkeypatch.setattr(doctor, "_trial", lambda steps: next(trials))
    assert doctor.measure_ceiling_pps() == 10_000
    assert doctor.ceiling_pps() == 10_000
    with pytest.raises(doctor.CannotMeasure):
        doctor.measure_ceiling_pps()
