"""The shape of the repository: what can be imported, and what must stay a plain folder."""

import importlib.metadata
import importlib.util
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("hosts", "switches", "topologies", "worlds", "scenarios")
BUILT_OUTSIDE = {".git", ".venv", ".cache", "runs"}


def python(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def modules_within(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def test_the_folder_of_p4_sources_holds_no_python() -> None:
    """The import name `p4` is the p4runtime package's; one __init__.py here would take it."""
    assert modules_within(ROOT / "p4") == []
    assert not (ROOT / "p4.py").exists()


@pytest.mark.parametrize("folder", [".", "p4", "tests"])
def test_the_message_classes_are_found_from_anywhere(folder: str) -> None:
    code = f"import sys; sys.path.append({str(ROOT)!r}); from switches.p4rt import protos; "
    done = python("-c", code + "print(*protos.STUB_FILES, sep='\\n')", cwd=ROOT / folder)
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        assert ROOT / "p4" not in Path(line).parents


def test_importing_p4runtime_ourselves_would_find_the_package_too() -> None:
    """What a user's own script does from the root of the checkout."""
    code = "import p4, pathlib; print(pathlib.Path(p4.__file__).parent)"
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()) != ROOT / "p4"


def test_our_package_names_are_nobody_elses() -> None:
    owners = importlib.metadata.packages_distributions()
    for name in PACKAGES:
        assert set(owners.get(name, ())) <= {"mrc-testbed"}, owners[name]
        assert name not in sys.stdlib_module_names


def test_every_package_lies_at_the_root() -> None:
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin == str(ROOT / name / "__init__.py")


def test_the_wheel_takes_these_packages_and_no_other() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert set(settings["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) == set(PACKAGES)


def folders_without_init(root: Path) -> list[str]:
    """Folders below that hold modules and are no package."""
    return sorted(
        {
            str(path.parent.relative_to(ROOT))
            for path in modules_within(root)
            if not (path.parent / "__init__.py").exists()
        }
    )


@pytest.mark.parametrize("name", [*PACKAGES, "tests"])
def test_every_folder_of_modules_is_a_package(name: str) -> None:
    """Else pytest and mypy take two files of one name for one module."""
    assert folders_without_init(ROOT / name) == []


@pytest.mark.parametrize("name", PACKAGES)
def test_no_module_has_a_name_of_the_standard_library_below_a_package(name: str) -> None:
    """`from hosts import random` works, but a reader of `random.x` should not have to look up."""
    risky = {"random", "socket", "select", "time", "logging", "struct", "mininet", "grpc", "scapy"}
    assert [path for path in modules_within(ROOT / name) if path.stem in risky] == []


def test_test_files_have_names_of_their_own() -> None:
    names = [path.name for path in modules_within(ROOT / "tests") if path.stem != "__init__"]
    twice = {name for name in names if names.count(name) > 1 and name.startswith("test_")}
    assert twice == set()


def test_every_module_says_what_it_is() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for name in PACKAGES
        for path in modules_within(ROOT / name)
        if (text := path.read_text(encoding="utf-8").lstrip()) and not text.startswith('"""')
    ]
    assert silent == []


def tracked() -> list[str]:
    done = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    return [name for name in done.stdout.split("\0") if name]


def test_what_is_built_is_not_committed() -> None:
    """Except p4c's output, which belongs to the sources: it is in no package registry."""
    built = (".so", ".o", ".pyc", ".egg-info", ".pcap", ".pcapng")
    assert [name for name in tracked() if name.endswith(built)] == []
    assert [name for name in tracked() if name.split("/")[0] in BUILT_OUTSIDE] == []


def test_a_planted_module_is_found(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "__init__.py").touch()
    assert modules_within(tmp_path) == [tmp_path / "sub" / "__init__.py"]
