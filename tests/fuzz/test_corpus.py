"""Every parser on the corpus and on seeded changes of it: a value or an error of our own types.

The guided search that the corpus comes from is `make fuzz-inputs`.
"""

import resource
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from switches.engine.build import BuildError
from tests.engine import tiny
from tests.fuzz import engine, mutate
from tests.fuzz.run import CORPUS, HANG_S, TARGETS
from tests.fuzz.targets import TARGETS as FUNCTIONS

CHANGED = 400
GROWTH_KB_MAX = 256 << 10
"""Of the process over all inputs of a target."""

ENGINE_CHANGED = 300


@contextmanager
def no_hang(what: str) -> Iterator[None]:
    def late(_signal: int, _frame: FrameType | None) -> None:
        pytest.fail(f"{what}: no answer within {HANG_S} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(HANG_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def peak_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_nothing_a_parser_is_given_is_an_error_of_another_type(name: str) -> None:
    seeds = mutate.corpus(CORPUS / name)
    FUNCTIONS[name](seeds[0])
    before = peak_kb()
    for data in seeds:
        with no_hang(repr(data)):
            FUNCTIONS[name](data)
    for seed in range(CHANGED):
        data = mutate.changed(seeds, seed)
        with no_hang(f"seed {seed}"):
            FUNCTIONS[name](data)
    assert peak_kb() - before < GROWTH_KB_MAX


def test_the_engine_takes_the_corpus_under_the_sanitizers(tmp_path: Path) -> None:
    if tiny.COMPILER is None or tiny.why_no_sanitizers():
        pytest.skip("no C compiler with sanitizers on the PATH")
    try:
        program = engine.replayed(tiny.COMPILER, tmp_path / "engine")
    except BuildError as error:
        pytest.skip(str(error))
    seeds = mutate.corpus(CORPUS / "engine")
    inputs = [*seeds, *(mutate.changed(seeds, seed) for seed in range(ENGINE_CHANGED))]
    paths = [tmp_path / f"{number:04}" for number in range(len(inputs))]
    for path, data in zip(paths, inputs, strict=True):
        path.write_bytes(data)
    command = [str(program), *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


def test_every_target_has_a_small_corpus() -> None:
    for name in TARGETS:
        files = list((CORPUS / name).iterdir())
        assert files, name
        assert sum(path.stat().st_size for path in files) < 64 << 10, name
