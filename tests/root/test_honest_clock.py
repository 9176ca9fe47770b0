"""A machine that cannot keep time says so: the run is INVALID, and never FAIL for that reason."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.cli_run import ROOT, Done

pytestmark = pytest.mark.root

PASS, INVALID = 0, 3
HOGS_PER_CORE = (4, 8, 16, 32)
"""More, if the machine stands the first: how much it stands is the kernel's affair.  A machine that
is late for a round trip and not for a timeout is between them."""

BUSY_S = 1.5
"""In the middle of the run.  The processes end by themselves, whatever becomes of this test."""

HOG = """
import os, sys, time
os.nice(-5)
end = time.monotonic() + float(sys.argv[2])
for _ in range(int(sys.argv[1]) - 1):
    if os.fork() == 0:
        break
while time.monotonic() < end:
    pass
os._exit(0)
"""
LIMIT_S = 90.0


def run_among_hogs(folder: Path, processes: int) -> Done:
    """A run of p2p; so many processes compute without end while its job goes on."""
    command = [
        *(sys.executable, "-m", "scenarios", "run", "p2p", "--world", "live", "--force"),
        *("--out", str(folder), "--set", "workload.bytes=16MiB"),
    ]
    run = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert run.stdout is not None
    seen = []
    try:
        for line in run.stdout:
            seen.append(line)
            if "goodput" in line:  # the first line of progress: the job has begun
                break
        hogs = subprocess.Popen([sys.executable, "-c", HOG, str(processes), str(BUSY_S)])
        rest, _ = run.communicate(timeout=LIMIT_S)
        hogs.wait()
    finally:
        run.kill()
        run.communicate()
    return Done(run.returncode, "".join(seen) + rest, "", folder)


def test_a_busy_machine_makes_a_run_invalid_and_not_failed(tmp_path: Path) -> None:
    for per_core in HOGS_PER_CORE:
        started = time.monotonic()
        done = run_among_hogs(tmp_path / str(per_core), per_core * len(os.sched_getaffinity(0)))
        assert time.monotonic() - started < LIMIT_S
        assert done.code in (PASS, INVALID), done.out
        assert "clock: timers" in done.out, "the numbers are there on every live run"
        lateness = done.result["fidelity"]["lateness"]
        assert {"timer_p999_ns", "send_p999_ns", "slots_lost"} <= set(lateness)
        if done.code == INVALID:
            assert done.result["verdict"] == "invalid"
            assert done.result["fidelity"]["kept_time"] is False
            assert done.result["fidelity"]["reasons"]
            assert "INVALID" in done.out
            assert "FAIL" not in done.out
            return
    pytest.fail(f"the machine kept time with {HOGS_PER_CORE[-1]} busy processes a core")
