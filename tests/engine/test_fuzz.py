"""Random frames, control messages and times under the sanitizers: no report, one digest a seed."""

import subprocess
from pathlib import Path

import pytest

from switches import compile_p4
from switches.engine.build import build
from tests.engine import tiny
from tests.engine.contract import up_list
from tests.engine.frames import encapsulated

FUZZ = Path(__file__).with_name("fuzz.c")
SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
STEPS = 50_000


def run(program: Path, seed: int, *more: str) -> str:
    command = [str(program), str(seed), str(STEPS), *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"seed {seed}: {done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if tiny.COMPILER is None:
        pytest.skip("no C compiler on the PATH")
    return tiny.compile_tiny(tmp_path_factory.mktemp("fuzz") / "plain", "-O2", also=(FUZZ,))


@pytest.fixture(scope="module")
def mrc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if tiny.COMPILER is None or tiny.why_no_sanitizers():
        pytest.skip("no C compiler with sanitizers on the PATH")
    source = build(compile_p4.ROOT / compile_p4.BUILD / compile_p4.JSON).source
    target = tmp_path_factory.mktemp("fuzz") / "mrc"
    return tiny.compile_with(source, target, "-O1", "-g", *SANITIZE, also=(FUZZ,))


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if tiny.COMPILER is None:
        pytest.skip("no C compiler on the PATH")
    target = tmp_path_factory.mktemp("fuzz") / "sanitized"
    if why := tiny.why_no_sanitizers():
        pytest.skip(f"the compiler has no sanitizers: {why}")
    return tiny.compile_tiny(target, "-O1", "-g", *SANITIZE, also=(FUZZ,))


@pytest.mark.parametrize("seed", range(8))
def test_nothing_that_comes_in_is_an_error_of_ours(sanitized: Path, plain: Path, seed: int) -> None:
    assert run(sanitized, seed) == run(plain, seed), "same seed, same frames out, at -O1 and -O2"


@pytest.mark.parametrize("seed", range(4))
def test_nor_with_the_program_of_the_fabric(mrc: Path, seed: int) -> None:
    frame = encapsulated(up_list(), ev=3).emit().hex()
    run(mrc, seed, frame)


def test_seeds_differ(plain: Path) -> None:
    assert run(plain, 1) != run(plain, 2)
