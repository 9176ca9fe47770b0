"""The build: cached by what it depends on, safe for two at once, clear when it cannot."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from switches.engine import build as build_module
from switches.engine.build import BuildError, build, find_compiler
from tests.engine import p4json
from tests.engine.p4json import assign, const, field

ROOT = Path(__file__).parents[2]
IN = [("a", 8, False)]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setattr(build_module, "CACHE", folder)
    return folder


def program(folder: Path, value: int = 1) -> Path:
    body = [*p4json.bounce(), assign(field("out", "a"), const(value))]
    actions = [p4json.action(0, "work", body)]
    document = p4json.program(IN, IN, actions, [p4json.call(0, "work", None)])
    return p4json.write(document, folder, f"program{value}")


def needs_compiler() -> None:
    try:
        find_compiler()
    except BuildError as error:
        pytest.skip(str(error))


def test_the_same_program_is_compiled_once(cache: Path, tmp_path: Path) -> None:
    needs_compiler()
    first = build(program(tmp_path), opt="-O0")
    made = first.library.stat().st_mtime_ns
    assert build(program(tmp_path), opt="-O0") == first
    assert first.library.stat().st_mtime_ns == made
    assert build(program(tmp_path, value=2), opt="-O0").library != first.library
    assert build(program(tmp_path), opt="-O1").library != first.library
    assert not list(cache.glob("building-*"))


def test_what_was_not_used_for_long_is_forgotten(cache: Path, tmp_path: Path) -> None:
    needs_compiler()
    first = build(program(tmp_path), opt="-O0").library.parent
    second = build(program(tmp_path, value=2), opt="-O0").library.parent
    for folder in (first, second):
        os.utime(folder, (1e9, 1e9))
    build(program(tmp_path, value=2), opt="-O0")  # used again
    build(program(tmp_path, value=3), opt="-O0")
    assert not first.exists()
    assert second.is_dir()


def test_two_processes_may_build_at_once(tmp_path: Path) -> None:
    needs_compiler()
    code = (
        "import sys; from pathlib import Path; from switches.engine import build as b;"
        "b.CACHE = Path(sys.argv[1]); print(b.build(Path(sys.argv[2]), opt='-O0').library)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "cache"), str(program(tmp_path))]
    running = [
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    said = {process.communicate()[0] for process in running}
    assert all(process.returncode == 0 for process in running)
    assert len(said) == 1
    assert Path(said.pop().strip()).is_file()


def test_the_program_of_the_fabric_compiles_without_a_warning(cache: Path) -> None:
    needs_compiler()
    build(ROOT / "p4" / "build" / "mrc.json", werror=True)


def test_no_compiler_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match=r"^No C compiler found: install .*\.$"):
        build(program(tmp_path))
    monkeypatch.setenv("CC", "no-such-cc -m64")
    with pytest.raises(BuildError, match=r"named by CC, 'no-such-cc', is not on the PATH\.$"):
        build(program(tmp_path))


def test_a_compiler_that_fails_is_quoted_and_leaves_nothing(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho it hurts >&2\nexit 1\n", encoding="utf-8")
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    with pytest.raises(BuildError, match="it hurts"):
        build(program(tmp_path))
    assert list(cache.iterdir()) == []


def test_a_cache_that_is_not_ours_to_write_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(build_module, "CACHE", tmp_path / "file" / "engine")
    with pytest.raises(BuildError, match=r"^cannot compile the switch into .*: not a directory$"):
        build(program(tmp_path))
