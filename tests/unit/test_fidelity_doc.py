"""docs/fidelity.md names tests, and they are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "fidelity.md").read_text()
NAMED = sorted(set(re.findall(r"`(test_\w+)`", PAGE)))
FILES = sorted(set(re.findall(r"`(tests/[\w/*.]+)`", PAGE)))


def test_the_page_names_tests() -> None:
    assert len(NAMED) > 15


@pytest.mark.parametrize("name", NAMED)
def test_a_test_that_the_page_names_exists(name: str) -> None:
    sources = (path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    assert any(f"def {name}(" in source for source in sources)


@pytest.mark.parametrize("pattern", FILES)
def test_a_file_that_the_page_names_exists(pattern: str) -> None:
    assert list(ROOT.glob(pattern))
