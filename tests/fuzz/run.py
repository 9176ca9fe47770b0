"""Coverage-guided fuzzing of the parsers: `python -m tests.fuzz.run [TARGET ...] [--seconds N]`.

Without a target all of them, one after the other.  The Python ones run under atheris (`pip install
atheris`), the engine under libFuzzer (clang and its runtime) with the address and
undefined-behaviour sanitizers; `engine_random` is tests/engine/fuzz.c, seed after seed: entries,
frames and messages that fit the program, under the same sanitizers.  Inputs that reach new code,
and what was found, go to .cache/fuzz/TARGET; what is worth keeping is copied to tests/fuzz/corpus
by hand.  Where a fuzzer is missing, seeded changes of the corpus are tried for as long, without
guidance, and it says so.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz import mutate

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(__file__).with_name("corpus")
ENGINE, ENGINE_RANDOM = "engine", "engine_random"
TARGETS = ("frames", "scenario_yaml", "control_messages", "ev_profiles", "p4_json", ENGINE)
"""Those with a corpus."""

ALL = (*TARGETS, ENGINE_RANDOM)
SECONDS = 300
INPUT_BYTES_MAX = 8192
HANG_S = 10
RANDOM_STEPS = 50_000
MEMORY_MB_MAX = 2048
INSTRUMENTED = ["hosts", "scenarios", "switches", "topologies"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", choices=[*ALL, []])
    parser.add_argument("--seconds", type=int, default=SECONDS, help="for each")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    targets = options.targets or ALL
    if options.here:
        return _python(targets[0], options.seconds)
    failed = [name for name in targets if not _one(name, options.seconds)]
    print(f"fuzz: {len(targets) - len(failed)} of {len(targets)} targets without a finding")
    for name in failed:
        print(f"fuzz: {name} FAILED, see {_found(name)}")
    return 1 if failed else 0


def _one(name: str, seconds: int) -> bool:
    """Whether it held."""
    print(f"fuzz: {name}, {seconds} s", flush=True)
    if name == ENGINE:
        return _engine(seconds)
    if name == ENGINE_RANDOM:
        return _engine_random(seconds)
    command = [sys.executable, "-m", "tests.fuzz.run", name, "--here", "--seconds", str(seconds)]
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def _found(name: str) -> Path:
    folder = ROOT / ".cache" / "fuzz" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _flags(name: str, seconds: int) -> list[str]:
    return [
        f"-max_total_time={seconds}",
        f"-max_len={INPUT_BYTES_MAX}",
        f"-timeout={HANG_S}",
        f"-rss_limit_mb={MEMORY_MB_MAX}",
        f"-artifact_prefix={_found(name)}/",
        "-verbosity=0",
        "-print_final_stats=1",
        str(_found(name)),
        str(CORPUS / name),
    ]


def _python(name: str, seconds: int) -> int:
    """In a process of its own, since atheris never returns."""
    try:
        import atheris  # type: ignore[import-untyped]
    except ImportError:
        return _unguided(name, seconds)
    with atheris.instrument_imports(include=INSTRUMENTED, enable_loader_override=False):
        from tests.fuzz.targets import TARGETS as functions
    atheris.Setup([sys.argv[0], *_flags(name, seconds)], functions[name])
    atheris.Fuzz()
    return 0


def _engine(seconds: int) -> bool:
    from tests.fuzz import engine

    with tempfile.TemporaryDirectory() as folder:
        program = engine.guided(Path(folder) / "engine")
        if program is None:
            print(
                "no clang with libFuzzer: only the corpus is tried, see tests/fuzz/test_corpus.py"
            )
            return True
        done = subprocess.run([str(program), *_flags(ENGINE, seconds)], check=False)
        return done.returncode == 0


def _engine_random(seconds: int) -> bool:
    from tests.engine.contract import up_list
    from tests.engine.frames import encapsulated
    from tests.fuzz import engine

    frame = encapsulated(up_list(), ev=3).emit().hex()
    with tempfile.TemporaryDirectory() as folder:
        program = engine.random(Path(folder) / "random")
        end, seed = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            command = [str(program), str(seed), str(RANDOM_STEPS), frame]
            done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
            if done.returncode != 0:
                print(f"seed {seed} of {ENGINE_RANDOM}: exit {done.returncode}", file=sys.stderr)
                return False
            seed += 1
    print(f"{ENGINE_RANDOM}: {seed} seeds of {RANDOM_STEPS} steps, no report", file=sys.stderr)
    return True


def _unguided(name: str, seconds: int) -> int:
    from tests.fuzz.targets import TARGETS as functions

    print("atheris is not installed: changes of the corpus, without guidance", file=sys.stderr)
    end, seed = time.monotonic() + seconds, 0
    seeds = mutate.corpus(CORPUS / name)
    while time.monotonic() < end:
        data = mutate.changed(seeds, seed)
        try:
            functions[name](data)
        except BaseException:
            print(f"seed {seed} of {name}: {data!r}", file=sys.stderr)
            raise
        seed += 1
    print(f"{name}: {seed} inputs, no finding", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
