"""From a P4 program to the library and the executable of a switch, through the system's C compiler.

The result lies in the checkout's cache under a name made of everything it depends on, and is moved
there in one step: two processes may build at once, and a build that was broken off leaves nothing.
"""

import contextlib
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from switches.engine.lower import lower
from switches.program import load_program

RUNTIME = Path(__file__).parent / "runtime"
CACHE = Path(__file__).parents[2] / ".cache" / "engine"
COMPILERS = ("cc", "gcc", "clang")
KEEP_S = 7 * 24 * 3600

_FLAGS = ("-std=c11", "-fPIC", "-ffp-contract=off", "-Wall", "-Wextra", "-g1")
_SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
_LOWERING = ("program", "engine/build.py", "engine/lower")


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


@functools.cache
def _version(compiler: tuple[str, ...]) -> str:
    done = subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=False)
    return done.stdout


def _files(parts: Iterable[Path]) -> list[Path]:
    """Files as they are; of a folder its sources."""
    found: list[Path] = []
    for part in parts:
        if part.is_dir():
            found += (p for p in sorted(part.iterdir()) if p.suffix in (".c", ".h", ".py"))
        else:
            found.append(part)
    return found


def _digest(parts: Iterable[Path], compiler: list[str], flags: list[str]) -> str:
    """A name for the contents of files, the compiler and its flags."""
    hashed = hashlib.sha256()
    for text in (*compiler, _version(tuple(compiler)), *flags):
        hashed.update(text.encode() + b"\0")
    for path in _files(parts):
        hashed.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return hashed.hexdigest()[:32]


def _run(command: list[str], what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"{command[0]} could not build {what}:\n{done.stderr.strip()}")


def _cached(name: str, fill: Callable[[Path], None]) -> Path:
    """The folder of that name in the cache, filled first where it is missing."""
    final = CACHE / name
    if final.is_dir():
        with contextlib.suppress(OSError):  # a cache that is not ours to write is good to read
            os.utime(final)
        return final
    _make_cache()
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="building-") as temporary:
        folder = Path(temporary) / "built"
        folder.mkdir()
        fill(folder)
        try:
            folder.rename(final)
        except OSError:
            if not final.is_dir():  # else another process was faster
                raise
    _forget(final.stat().st_mtime)
    return final


def _make_cache() -> None:
    """Raises BuildError where this user may not write."""
    try:
        CACHE.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryDirectory(dir=CACHE).cleanup()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise BuildError(f"cannot compile the switch into {CACHE}: {reason}") from error


def _forget(now: float) -> None:
    """Removes what nobody has asked for in KEEP_S: programs, compilers and sources change."""
    for entry in CACHE.iterdir():
        try:
            if entry.stat().st_mtime < now - KEEP_S:
                shutil.rmtree(entry, ignore_errors=True)
        except OSError:  # gone already, by another process
            continue


def _runtime_objects(compiler: list[str], flags: list[str]) -> Path:
    """A folder with an object file for each source of the runtime, the same for all programs."""

    def fill(folder: Path) -> None:
        for source in sorted(RUNTIME.glob("*.c")):
            output = folder / f"{source.stem}.o"
            _run([*compiler, *flags, "-c", str(source), "-o", str(output)], source.name)

    return _cached(f"runtime-{_digest([RUNTIME], compiler, flags)}", fill)


def _link(folder: Path, runtime: Path, compiler: list[str], flags: list[str]) -> None:
    """The library is everything but process*.c, the executable everything but library.c."""
    objects = sorted(runtime.glob("*.o"))
    process = [path for path in objects if path.stem.startswith("process")]
    library = [path for path in objects if path.stem == "library"]
    common = [path for path in objects if path not in (*process, *library)]
    source = str(folder / "program.c")
    object_ = str(folder / "program.o")
    _run([*compiler, *flags, f"-I{RUNTIME}", "-c", source, "-o", object_], "program.c")
    for name, more, own in (("switch.so", ["-shared"], library), ("switch", [], process)):
        output = ["-o", str(folder / name), object_]
        _run([*compiler, *flags, *more, *output, *map(str, [*common, *own])], name)
    Path(object_).unlink()


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

    def fill(folder: Path) -> None:
        text = lower(load_program(program_json))
        (folder / "program.c").write_text(text, encoding="utf-8")
        _link(folder, _runtime_objects(compiler, flags), compiler, flags)

    base = Path(__file__).parents[1]
    parts = [program_json, *(base / part for part in _LOWERING), RUNTIME]
    folder = _cached(_digest(parts, compiler, flags), fill)
    return Built(folder / "switch.so", folder / "switch", folder / "program.c")
