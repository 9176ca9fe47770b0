"""Builds the C side's fuzzer: tests/fuzz/engine.c around the compiled P4 program."""

import shutil
import subprocess
from pathlib import Path

from switches import compile_p4
from switches.engine.build import BuildError, build
from tests.engine.tiny import CORE, RUNTIME

HERE = Path(__file__).parent
RANDOM = HERE.parent / "engine" / "fuzz.c"
GUIDED = "-fsanitize=fuzzer,address,undefined"
REPLAYED = "-fsanitize=address,undefined"
COMPILERS = ("clang", "clang-19", "clang-18", "clang-17", "clang-16", "clang-15", "clang-14")


def guided(target: Path) -> Path | None:
    """libFuzzer's program; None where no clang with its runtime is installed."""
    for name in COMPILERS:
        if shutil.which(name) and not _compile(name, target, GUIDED, HERE / "engine.c"):
            return target
    return None


def replayed(compiler: str, target: Path) -> Path:
    """A program that takes inputs as files, with the sanitizers of any compiler."""
    complaint = _compile(compiler, target, REPLAYED, HERE / "engine.c", HERE / "engine_main.c")
    assert not complaint, complaint
    return target


def random(target: Path) -> Path:
    """tests/engine/fuzz.c around the program of the fabric."""
    for name in ("cc", "gcc", *COMPILERS):
        if shutil.which(name) and not _compile(name, target, REPLAYED, RANDOM):
            return target
    raise BuildError("no C compiler with sanitizers on the PATH")


def _compile(compiler: str, target: Path, sanitizers: str, *own: Path) -> str:
    """What the compiler had to complain of, empty if it is content."""
    program = build(compile_p4.ROOT / compile_p4.BUILD / compile_p4.JSON).source
    sources = [RUNTIME / f"{name}.c" for name in CORE]
    flags = ["-std=c11", "-O1", "-g", "-ffp-contract=off", sanitizers, "-fno-sanitize-recover=all"]
    files = [str(path) for path in (*sources, program, *own)]
    command = [compiler, *flags, f"-I{RUNTIME}", "-o", str(target), *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr or "failed"
