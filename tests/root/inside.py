"""Runs a test inside a private namespace, in a process of its own.

pytest itself must stay outside: it has threads, and it has to see what is left when a runner died.
`python -m tests.root.inside MODULE FUNCTION` is the inner half.
"""

import functools
import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from worlds.live import private_namespace

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 120.0
INVALID = 3
JUDGED_TRIES = 4


def inside(check: Callable[[], None]) -> Callable[[], None]:
    """Decorates a test without arguments."""

    @functools.wraps(check)
    def outside() -> None:
        words = [sys.executable, "-m", "tests.root.inside", check.__module__, check.__name__]
        done = run(words)
        assert done.returncode == 0, done.stdout + done.stderr

    return outside


def run(words: list[str], *, limit_s: float = LIMIT_S) -> "subprocess.CompletedProcess[str]":
    """The command, ended with all it started if it takes longer than it may."""
    process = subprocess.Popen(
        words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        out, err = process.communicate(timeout=limit_s)
    except BaseException:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def run_judged(words: list[str], *, limit_s: float = LIMIT_S) -> "subprocess.CompletedProcess[str]":
    """The same, again where the machine could not keep time (exit 3): that is no verdict."""
    for _ in range(JUDGED_TRIES - 1):
        done = run(words, limit_s=limit_s)
        if done.returncode != INVALID:
            return done
    return run(words, limit_s=limit_s)


def main() -> int:
    module, name = sys.argv[1:]
    check = getattr(importlib.import_module(module), name).__wrapped__

    def check_inside() -> int:
        check()
        return 0

    return private_namespace.run(check_inside)


if __name__ == "__main__":
    sys.exit(main())
