"""What this machine lacks, each thing with its remedy, and how many packets a second it carries."""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from scenarios import derive, run_folder, worlds_choice
from worlds.api import WorldUnavailable

CEILING_FILE = Path(".cache") / "ceiling.json"
REFERENCE_CORES = 2


@dataclass(frozen=True, slots=True)
class Check:
    """`needed`: nothing at all runs without it."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    needed: bool = False

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def checks() -> list[Check]:
    return [_python(), _compiler(), _namespaces(), *map(_command, _COMMANDS), _program()]


_COMMANDS = tuple({**worlds_choice.LIVE_COMMANDS, "tcpdump": "tcpdump"}.items())


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0))


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    return Check(
        "python", sys.version_info >= (3, 11), version, "install Python 3.11 or newer", True
    )


def _compiler() -> Check:
    found = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if found is None:
        return Check("C compiler", False, "none", "apt-get install gcc libc6-dev", True)
    tried = subprocess.run(
        [found, "-xc", "-fsyntax-only", "-"],
        input="#include <stdio.h>\n",
        text=True,
        capture_output=True,
        check=False,
    )
    return Check("C compiler", tried.returncode == 0, found, "apt-get install libc6-dev", True)


def _namespaces() -> Check:
    try:
        from worlds.live import private_namespace

        why_not = private_namespace.why_not()
    except (ImportError, WorldUnavailable) as error:
        why_not = str(error)
    remedy = "run as root, or in a container with SYS_ADMIN, NET_ADMIN and NET_RAW"
    how = "root" if os.geteuid() == 0 else "user namespaces"
    return Check("namespaces", why_not is None, why_not or how, remedy)


def _command(command: tuple[str, str]) -> Check:
    name, package = command
    found = shutil.which(name)
    return Check(name, found is not None, found or "missing", f"apt-get install {package}")


def _program() -> Check:
    built = run_folder.CHECKOUT / "p4" / "build" / "mrc.json"
    return Check("P4 program", built.is_file(), "p4/build/mrc.json", "git checkout p4/build", True)


def ceiling_pps() -> float:
    """As `doctor` measured it last, else by the number of cores."""
    try:
        return float(json.loads((run_folder.CHECKOUT / CEILING_FILE).read_text())["pps"])
    except (OSError, ValueError, KeyError, TypeError):
        cores = len(os.sched_getaffinity(0))
        return derive.LIVE_PACKETS_PER_SECOND * min(cores / REFERENCE_CORES, 4)


def measure_ceiling_pps() -> int:
    """From the processor time a packet costs live; kept for `plan`.  Raises CannotMeasure.

    Two runs that differ in length only, so that building the fabric does not count.
    """
    packets = []
    seconds = []
    for steps in TRIAL_STEPS:
        count, used = _trial(steps)
        packets.append(count)
        seconds.append(used)
    cost_s = (seconds[1] - seconds[0]) / (packets[1] - packets[0])
    if cost_s <= 0:
        raise CannotMeasure("the machine is too busy: the longer trial took no more time")
    pps = round(len(os.sched_getaffinity(0)) / cost_s)
    kept = run_folder.CHECKOUT / CEILING_FILE
    kept.parent.mkdir(exist_ok=True)
    kept.write_text(json.dumps({"pps": pps, "cost_us": round(cost_s * 1e6, 1)}) + "\n")
    return pps


class CannotMeasure(Exception):
    """One sentence."""


TRIAL_STEPS = (1, 9)
_TRIAL = (
    *("run", "t0-optic", "--world", "live", "--force"),
    *("--set", "topology=lab", "--set", "workload.bytes=1MiB", "--set", "timeline=[]"),
    *("--set", "expect=[job.completed]"),
)


def _trial(steps: int) -> tuple[int, float]:
    """Data packets sent, and seconds of processor time of all processes together."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "scenarios", *_TRIAL, "--out", folder]
        done = subprocess.run(
            [*command, "--set", f"workload.steps={steps}"],
            cwd=run_folder.CHECKOUT,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in (0, 3):
            last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
            raise CannotMeasure(f"a trial run failed: {last}")
        result = json.loads((Path(folder) / "result.json").read_text())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return int(result["metrics"]["ledger.sent"]), used
