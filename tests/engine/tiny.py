"""The engine's runtime around tiny_program.c: frames that say what shall become of them."""

import shutil
import subprocess
from enum import IntEnum
from pathlib import Path

RUNTIME = Path(__file__).resolve().parents[2] / "switches/engine/runtime"
PROGRAM = Path(__file__).with_name("tiny_program.c")
CORE = ("pool", "switch", "traffic", "groups", "control", "tables", "externs")
FLAGS = ("-std=c11", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-ffp-contract=off")
COMPILER = shutil.which("cc") or shutil.which("gcc")


class Request(IntEnum):
    """enum request of tiny_program.c."""

    NONE = 0
    DROP_IN = 1
    DROP_OUT = 2
    MULTICAST = 3
    CLONE_IN = 4
    CLONE_OUT = 5
    RESUBMIT = 6
    RECIRCULATE = 7
    LOOP = 8


def compile_tiny(target: Path, *extra: str, also: tuple[Path, ...] = ()) -> Path:
    """The runtime, the tiny program and `also` as `target`."""
    return compile_with(PROGRAM, target, *extra, also=also)


def compile_with(program: Path, target: Path, *extra: str, also: tuple[Path, ...] = ()) -> Path:
    """The runtime, a program in C and `also` as `target`; warnings are errors."""
    assert COMPILER is not None
    sources = [RUNTIME / f"{name}.c" for name in CORE]
    files = map(str, [target, *sources, program, *also])
    command = [COMPILER, *FLAGS, *extra, f"-I{RUNTIME}", "-o", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target


def frame(
    port: int,
    *,
    priority: int = 0,
    keep: int = 0,
    request: Request = Request.NONE,
    key: int = 0,
    tag: int = 0,
    size: int = 64,
) -> bytes:
    """A frame that asks for `port`; `keep` is truncate_to, `tag` is carried along."""
    head = bytes([port, priority, keep >> 8, keep & 0xFF, request, key, 0, 0, 0, 0])
    return (head + tag.to_bytes(4, "big")).ljust(size, b"\x5a")


def tag_of(received: bytes) -> int:
    return int.from_bytes(received[10:14], "big")


def why_no_sanitizers() -> str | None:
    """None where the compiler can link them."""
    assert COMPILER is not None
    done = subprocess.run(
        [COMPILER, "-fsanitize=address,undefined", "-x", "c", "-", "-o", "/dev/null"],
        input="int main(void) { return 0; }",
        capture_output=True,
        text=True,
        check=False,
    )
    return None if done.returncode == 0 else done.stderr.strip().splitlines()[-1]
