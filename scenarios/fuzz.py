"""`mrc-testbed fuzz`: random cases in the virtual world, invariants checked, failures shrunk.

A failing seed is printed with the command that repeats it, and with the smallest case found that
still fails.
"""

import contextlib
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

from scenarios import fuzz_case, fuzz_check
from scenarios.execute import P4_BUILD
from scenarios.fuzz_case import Case
from topologies.strict_yaml import InputError, dump, parse
from worlds import rng
from worlds.api import WorldSettings

CASE_SECONDS_MAX = 60
"""Of real time; a case that takes longer hangs."""

SHRINK_TRIES_MAX = 60
SHRINK_SECONDS_MAX = 120
"""Of real time; cases that hang are shrunk a little only."""


@dataclass(frozen=True, slots=True)
class Failure:
    seed: int
    findings: tuple[str, ...]


def main(count: int, first: int, jobs: int | None = None) -> int:
    """Exit code: 0 if every seed holds, else 1."""
    started = time.monotonic()
    failures = []
    workers = jobs or len(os.sched_getaffinity(0))
    _say(f"{count} seeds from {first} on {workers} processes")
    for done, failure in enumerate(_results(range(first, first + count), workers), 1):
        if failure is not None:
            failures.append(failure)
            _tell(failure)
        if done % 50 == 0 or done == count:
            rate = 60 * done / (time.monotonic() - started)
            _say(f"{done} of {count} seeds, {len(failures)} failed, {rate:.0f} a minute")
    for failure in failures[:1]:
        _show_smallest(failure)
    return 1 if failures else 0


def check(case: Case) -> tuple[str, ...]:
    """Broken invariants of that case.  Whatever it raises is a finding too."""
    settings = WorldSettings(
        seed=case.seed,
        program_json=P4_BUILD / "mrc.json",
        p4info=P4_BUILD / "mrc.p4info.txtpb",
    )
    try:
        loaded = case.load()
        scenario = loaded.scenario
        switch = {"routing": scenario.transport.routing, **scenario.switches.model_dump()}
        with _time_limit():
            found = fuzz_check.run(loaded, list(case.extra), replace(settings, switch=switch))
        return tuple(found)
    except InputError as error:
        return (f"the case itself is wrong: {error}",)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error}"
        return (f"{text} at {os.path.basename(where.filename)}:{where.lineno}",)


def case_of(seed: int) -> Case:
    return fuzz_case.make(seed, rng.stream(seed, "fuzz"))


def shrink(case: Case, fails: Callable[[Case], bool]) -> Case:
    """The smallest case found that still fails: fewer faults, fewer bytes, a smaller fabric."""
    tries = 0
    shrunk = True
    while shrunk and tries < SHRINK_TRIES_MAX:
        shrunk = False
        for smaller in _smaller(case):
            tries += 1
            if fails(smaller):
                case, shrunk = smaller, True
                break
            if tries >= SHRINK_TRIES_MAX:
                break
    return case


def _results(seeds: range, workers: int) -> Iterator[Failure | None]:
    if workers == 1 or len(seeds) == 1:
        yield from map(_check_seed, seeds)
        return
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        yield from pool.imap_unordered(_check_seed, seeds, chunksize=4)


def _check_seed(seed: int) -> Failure | None:
    findings = check(case_of(seed))
    return Failure(seed, findings) if findings else None


def _smaller(case: Case) -> Iterator[Case]:
    data = parse(case.text, "case").data
    for index in range(len(data["timeline"])):
        rest = [fault for i, fault in enumerate(data["timeline"]) if i != index]
        yield replace(case, text=dump({**data, "timeline": rest}))
    for name in dict.fromkeys(step.fault for step in case.extra):
        yield replace(case, extra=tuple(step for step in case.extra if step.fault != name))
    workload = data["workload"]
    size = int(workload["bytes"].removesuffix("B"))
    if size > 1024:
        half = f"{size // 16 * 8}B"
        yield replace(case, text=dump({**data, "workload": {**workload, "bytes": half}}))
    for key in ("planes", "t1"):
        if data["topology"][key] > 1:
            less = {**data["topology"], key: data["topology"][key] - 1}
            yield replace(case, text=dump({**data, "topology": less}))


def _show_smallest(failure: Failure) -> None:
    _say(f"shrinking seed {failure.seed} ...")
    kinds = {_kind(finding) for finding in failure.findings}
    deadline = time.monotonic() + SHRINK_SECONDS_MAX

    def fails(case: Case) -> bool:
        if time.monotonic() > deadline:
            return False
        return any(_kind(finding) in kinds for finding in check(case))

    smallest = shrink(case_of(failure.seed), fails)
    _say("the smallest case that still fails:")
    _say(smallest.text.rstrip())
    for step in smallest.extra:
        _say(f"# {step.t_ns} ns: {step.what}")
    for finding in check(smallest):
        _say(f"  {finding}")


def _kind(finding: str) -> str:
    """A finding without its numbers and names."""
    return " ".join(word for word in finding.split() if word.isalpha())


def _tell(failure: Failure) -> None:
    _say(f"seed {failure.seed} FAILED: {failure.findings[0]}")
    for finding in failure.findings[1:4]:
        _say(f"    {finding}")
    _say(f"    repeat: mrc-testbed fuzz --seeds 1 --seed {failure.seed}")


def _say(text: str) -> None:
    print(text, flush=True, file=sys.stdout)


class _Hang(Exception):
    """A case took longer than any should."""


@contextlib.contextmanager
def _time_limit() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> Any:
        raise _Hang(f"no end after {CASE_SECONDS_MAX} s of real time")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(CASE_SECONDS_MAX)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
