"""From a P4 program to the library and the executable of a switch, through the system's C compiler.

The result lies in the checkout's cache under a name made of everything it depends on, and is moved
there in one step: two processes may build at once, and a build that was broken off leaves nothing.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from switches.engine.lower import lower
from switches.program import load_program

RUNTIME = Path(__file__).parent / "runtime"
CACHE = Path(__file__).parents[2] / ".cache" / "engine"
COMPILERS = ("cc", "gcc", "clang")

_FLAGS = ("-std=c11", "-fPIC", "-ffp-contract=off", "-Wall", "-Wextra", "-g1")
_SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
_LOWERING = ("program.py", "engine/build.py", "engine/lower")


class BuildError(Exception):
    """There is no C compiler, or it failed; the message is one sentence and its output."""


@dataclass(frozen=True, slots=True)
class Built:
    """A program, compiled.  source: the generated C, to read."""

    library: Path
    executable: Path
    source: Path


def find_compiler() -> list[str]:
    """The C compiler: $CC, else the first of COMPILERS on the PATH.  Raises BuildError."""
    chosen = os.environ.get("CC", "").split()
    if chosen:
        if shutil.which(chosen[0]) is None:
            raise BuildError(f"The C compiler named by CC, {chosen[0]!r}, is not on the PATH.")
        return chosen
    for name in COMPILERS:
        if shutil.which(name) is not None:
            return [name]
    raise BuildError("No C compiler found: install gcc and libc6-dev, or set CC.")


def _version(compiler: list[str]) -> str:
    done = subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=False)
    return done.stdout


def _files(parts: Iterable[Path]) -> list[Path]:
    found: list[Path] = []
    for part in parts:
        found += sorted(part.glob("*.[chp]*")) if part.is_dir() else [part]
    return [path for path in found if path.suffix in (".c", ".h", ".py")]


def _digest(program_json: Path, compiler: list[str], flags: list[str]) -> str:
    """A name for everything the result depends on."""
    base = Path(__file__).parents[1]
    hashed = hashlib.sha256()
    for text in (*compiler, _version(compiler), *flags):
        hashed.update(text.encode() + b"\0")
    for path in (program_json, *_files([*(base / part for part in _LOWERING), RUNTIME])):
        hashed.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return hashed.hexdigest()[:32]


def _compile(compiler: list[str], flags: list[str], sources: list[Path], output: Path) -> None:
    command = [*compiler, *flags, f"-I{RUNTIME}", "-o", str(output), *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"{compiler[0]} could not build {output.name}:\n{done.stderr.strip()}")


def _object(compiler: list[str], flags: list[str], source: Path, folder: Path) -> Path:
    output = folder / f"{source.stem}.o"
    _compile(compiler, [*flags, "-c"], [source], output)
    return output


def _build_into(folder: Path, program_json: Path, compiler: list[str], flags: list[str]) -> None:
    source = folder / "program.c"
    source.write_text(lower(load_program(program_json)), encoding="utf-8")
    objects = {
        path.stem: _object(compiler, flags, path, folder)
        for path in [source, *sorted(RUNTIME.glob("*.c"))]
    }
    process = [path for name, path in objects.items() if name.startswith("process")]
    library = [objects["library"]]
    common = [path for path in objects.values() if path not in process + library]
    _compile(compiler, [*flags, "-shared"], [*common, *library], folder / "switch.so")
    _compile(compiler, flags, [*common, *process], folder / "switch")
    for path in objects.values():
        path.unlink()


def _built(folder: Path) -> Built:
    return Built(folder / "switch.so", folder / "switch", folder / "program.c")


def build(
    program_json: Path, *, sanitize: bool = False, opt: str = "-O2", werror: bool = False
) -> Built:
    """The program's switch, from the cache or newly compiled.

    sanitize: with the address and undefined-behaviour sanitizers (the library then needs
    libasan preloaded).  werror: warnings of the compiler are errors.
    Raises BuildError, switches.program.UnsupportedProgram, OSError.
    """
    compiler = find_compiler()
    flags = [opt, *_FLAGS, *(_SANITIZE if sanitize else ()), *(("-Werror",) if werror else ())]
    final = CACHE / _digest(program_json, compiler, flags)
    if final.is_dir():
        return _built(final)
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="building-") as temporary:
        folder = Path(temporary) / "built"
        folder.mkdir()
        _build_into(folder, program_json, compiler, flags)
        try:
            folder.rename(final)
        except OSError:
            if not final.is_dir():  # another process was faster, or the disk is in trouble
                raise
    return _built(final)
