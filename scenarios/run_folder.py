"""The folder a run leaves behind (design section 11): written here, read here."""

import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scenarios import books, junit, report
from scenarios.ledger import Book
from scenarios.metrics import csv
from scenarios.observe import EV_STATES, Observed
from topologies.load import read_text
from topologies.strict_yaml import InputError, dump, parse
from worlds.api import Event

CHECKOUT = Path(__file__).resolve().parents[1]
RUNS = CHECKOUT / "runs"
CACHE = CHECKOUT / ".cache"

FILES = (
    "scenario.yaml",
    "result.json",
    "machine.json",
    "junit.xml",
    "events.jsonl",
    "goodput.csv",
    "ev.csv",
    "ledger.csv",
    "report.html",
)
"""What a run writes, besides logs and captures."""


def create(name: str, out: Path | None) -> Path:
    """`out` exactly, or a new folder named after time and scenario.  Raises InputError.

    What an earlier run wrote into `out` is removed: a run that breaks must not leave its verdict.
    """
    folder = out if out is not None else _unused(f"{time.strftime('%Y%m%d-%H%M%S')}-{name}")
    new = [path for path in folder.parents if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "logs").mkdir(exist_ok=True)
        for name in (*FILES, "logs/error.txt"):
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot make the run folder {folder}: {reason}") from None
    _give(new)
    hand_back(folder)
    return folder


def _unused(name: str) -> Path:
    count = 1
    folder = RUNS / name
    while folder.exists():
        count += 1
        folder = RUNS / f"{name}-{count}"
    return folder


@dataclass(frozen=True, slots=True)
class Written:
    """What there is to write; `observed` None if nothing ran."""

    scenario: Mapping[str, Any]
    result: dict[str, Any]
    observed: Observed | None
    machine: Mapping[str, Any]
    seconds: float
    books: Sequence[Book] = ()


def write(folder: Path, run: Written) -> None:
    events = [event_line(event) for event in run.observed.in_order()] if run.observed else []
    _put(folder / "scenario.yaml", dump(dict(run.scenario)))
    _put(folder / "result.json", result_text(run.result))
    _put(folder / "machine.json", json.dumps({**run.machine, "wall_s": run.seconds}, indent=2))
    _put(folder / "events.jsonl", "".join(f"{line}\n" for line in events))
    _put(folder / "junit.xml", junit.xml(run.result, events, run.seconds))
    if run.observed:
        _put(folder / "goodput.csv", csv(run.observed.series.columns()))
        _put(folder / "ev.csv", csv(_ev_columns(run.observed.ev_rows)))
        _put(folder / "ledger.csv", books.csv(run.books))
    _put(folder / "report.html", report.html(read(folder)))


def result_text(result: Mapping[str, Any]) -> str:
    return json.dumps(result, indent=2, ensure_ascii=False) + "\n"


def event_line(event: Event) -> str:
    fields = {"t_ns": event.t_ns, "node": event.node, "kind": event.kind, **event.fields}
    return json.dumps(fields, ensure_ascii=False)


def _ev_columns(rows: Sequence[tuple[int, ...]]) -> dict[str, list[int]]:
    names = ("t_ns", *EV_STATES)
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def _put(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def read(folder: Path) -> report.Run:
    """A finished run.  Raises InputError if this is no run folder."""
    if not (folder / "result.json").is_file():
        raise InputError(f"{folder} is not a run folder: it holds no result.json")
    try:
        result = json.loads(read_text(folder / "result.json", str(folder / "result.json")))
        events = [
            json.loads(line) for line in _lines(folder / "events.jsonl") if line.startswith("{")
        ]
        scenario = _text(folder / "scenario.yaml")
        claim = parse(scenario, "scenario.yaml").data.get("claim", "") if scenario else ""
        return report.Run(
            result=result,
            claim=str(claim),
            scenario_text=scenario,
            goodput=_columns(folder / "goodput.csv"),
            evs=_columns(folder / "ev.csv"),
            events=events,
        )
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{folder} holds a file that was not written by a run: {error}") from None


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _lines(path: Path) -> list[str]:
    return _text(path).splitlines()


def _columns(path: Path) -> dict[str, list[int]]:
    head, *rows = _lines(path) or [""]
    if not head:
        return {}
    cells = [[int(cell) for cell in row.split(",")] for row in rows]
    return {name: [row[i] for row in cells] for i, name in enumerate(head.split(","))}


def machine(command: Sequence[str], world_reason: str) -> dict[str, Any]:
    """What result.json must not hold: where, when and on what this ran."""
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "host": platform.node(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "cpus": len(os.sched_getaffinity(0)),
        "compiler": shutil.which("cc") or shutil.which("gcc"),
        "command": list(command),
        "world_reason": world_reason,
        "executable": sys.executable,
    }


def hand_back(*made: Path) -> None:
    """Under sudo: these, all below them and what was compiled are the user's who asked, not root's.

    Of the cache only what is root's: it may hold what other users of the checkout compiled.
    """
    below = [path for top in made if top.exists() for path in (top, *top.rglob("*"))]
    _give(below)
    if _asker() is not None and CACHE.exists():
        _give(p for p in (CACHE, *CACHE.rglob("*")) if p.lstat().st_uid == 0)


def _asker() -> tuple[int, int] | None:
    """(user, group) that called sudo; None if nobody did."""
    uid, gid = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    if os.geteuid() != 0 or not (uid.isdecimal() and gid.isdecimal()):
        return None
    return int(uid), int(gid)


def _give(paths: Iterable[Path]) -> None:
    asker = _asker()
    if asker is None:
        return
    for path in paths:
        os.chown(path, *asker, follow_symlinks=False)
