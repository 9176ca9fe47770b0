"""Compiles p4/mrc.p4 with p4c's BMv2 back end, and says from what the outputs were made.

`python -m switches.compile_p4` writes p4/build; `--check` compiles elsewhere and compares.  The
outputs are committed, because p4c is in no package registry and running the testbed needs none.
"""

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = Path("p4/mrc.p4")
BUILD = Path("p4/build")
JSON = "mrc.json"
P4INFO = "mrc.p4info.txtpb"
PROVENANCE = "provenance.json"

COMPILER = "p4c-bm2-ss"
HOW_TO_GET = (
    f"{COMPILER} is not on the PATH: it comes with the p4lang-p4c package of the P4 language "
    "consortium or its p4lang/p4c container image (the testbed runs without it, from p4/build)"
)


class CompileError(Exception):
    """p4c is missing or refused the program."""


def sources() -> list[Path]:
    """Every P4 source, relative to the root of the repository."""
    found = (ROOT / "p4").rglob("*.p4")
    return sorted(path.relative_to(ROOT) for path in found)


def command(output: Path) -> list[str]:
    """Run from the root with relative names, so that the outputs name no place on this machine."""
    out = [
        "-o",
        str(output / JSON),
        "--p4runtime-files",
        str(output / P4INFO),
    ]
    return [COMPILER, "--std", "p4-16", *out, str(PROGRAM)]


def compile_to(output: Path) -> str:
    """Write JSON and p4info to that folder; gives what the compiler warned of."""
    done = _run(command(output))
    if done.returncode != 0:
        raise CompileError(f"{COMPILER} refused {PROGRAM}:\n{done.stderr}")
    return done.stderr


def provenance() -> dict[str, Any]:
    """Compiler, command and hashes of the sources and of the outputs in p4/build."""
    return {
        "compiler": compiler_version(),
        "command": " ".join(command(BUILD)),
        "sources": {str(path): sha256(ROOT / path) for path in sources()},
        "outputs": {str(BUILD / name): sha256(ROOT / BUILD / name) for name in (JSON, P4INFO)},
    }


def compiler_version() -> dict[str, str]:
    """Version and commit that the compiler on the PATH reports."""
    done = _run([COMPILER, "--version"])
    text = done.stdout + done.stderr
    found = re.search(r"Version (\S+)(?: \(SHA: (\w+))?", text)
    if found is None:
        raise CompileError(f"{COMPILER} --version says {text!r}")
    return {"name": COMPILER, "version": found[1], "commit": found[2] or ""}


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def differences() -> list[str]:
    """Names of the committed outputs that a fresh compilation does not reproduce."""
    with tempfile.TemporaryDirectory() as folder:
        compile_to(Path(folder))
        return [
            str(BUILD / name)
            for name in (JSON, P4INFO)
            if (Path(folder) / name).read_bytes() != (ROOT / BUILD / name).read_bytes()
        ]


def _run(argv: list[str]) -> subprocess.CompletedProcess[str]:
    if shutil.which(argv[0]) is None:
        raise CompileError(HOW_TO_GET)
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)


def _build() -> None:
    (ROOT / BUILD).mkdir(exist_ok=True)
    sys.stderr.write(compile_to(BUILD))
    text = json.dumps(provenance(), indent=2) + "\n"
    (ROOT / BUILD / PROVENANCE).write_text(text)
    print(f"{PROGRAM} compiled into {BUILD}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m switches.compile_p4", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    try:
        if not parser.parse_args().check:
            _build()
            return 0
        stale = differences()
    except CompileError as error:
        print(error, file=sys.stderr)
        return 2
    for name in stale:
        print(f"{name} is not what {PROGRAM} compiles to", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
