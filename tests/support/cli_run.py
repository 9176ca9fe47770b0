"""Runs the command line in a process of its own, as a user does."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Done:
    code: int
    out: str
    err: str
    folder: Path

    @property
    def result(self) -> dict[str, Any]:
        made: dict[str, Any] = json.loads((self.folder / "result.json").read_text())
        return made

    @property
    def events(self) -> list[dict[str, Any]]:
        lines = (self.folder / "events.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]


INVALID = 3
TRIES = 4


def run(
    scenario: str, folder: Path, *arguments: str, hash_seed: int = 0, world: str = "virtual"
) -> Done:
    """A live run is tried again where the machine could not keep time: that is no verdict."""
    done = _run(scenario, folder, arguments, hash_seed, world)
    for again in range(1, TRIES):
        if done.code != INVALID:
            break
        fresh = folder.with_name(f"{folder.name}-{again}")
        done = _run(scenario, fresh, arguments, hash_seed, world)
    return done


def _run(
    scenario: str, folder: Path, arguments: tuple[str, ...], hash_seed: int, world: str
) -> Done:
    command = [
        *(sys.executable, "-m", "scenarios", "run", scenario),
        *("--world", world, "--out", str(folder), *arguments),
    ]
    env = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    done = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=300
    )
    return Done(done.returncode, done.stdout, done.stderr, folder)
