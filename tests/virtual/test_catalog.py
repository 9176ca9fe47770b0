"""Every scenario of the catalog passes in the virtual world (`test_bar` has the bar's)."""

from pathlib import Path

import pytest

from scenarios import load
from tests.support.cli_run import run

NAMES = [name for name in load.catalog_names() if not name.startswith("bar-")]


@pytest.mark.parametrize("name", NAMES)
def test_a_scenario_of_the_catalog_passes(name: str, tmp_path: Path) -> None:
    done = run(name, tmp_path / "out")
    assert done.code == 0, done.out


@pytest.mark.parametrize("seed", [2, 3, 10])
def test_a_t1_that_goes_dark_under_trims_retires_its_evs_only(seed: int, tmp_path: Path) -> None:
    """NACKs went back through the dark switch, and the trims they told of were taken for losses."""
    done = run("t1-reboot", tmp_path / "out", "--seed", str(seed))
    assert done.code == 0, done.out


def test_a_sixteenth_of_the_fabric_costs_about_a_sixteenth(tmp_path: Path) -> None:
    """One of four T1s of one of four planes: each NIC has 3.75 of 4 ports' worth left.

    It was 0.80: a plane whose port alone was free got the packet, however loaded it was.
    """
    metrics = run("t1-reboot", tmp_path / "out").result["metrics"]
    before, during = (metrics[f"goodput.{when}(t1_reboot)"] for when in ("before", "during"))
    assert 0.90 * before < during < 0.95 * before
