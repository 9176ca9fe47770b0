"""The bar of the field: what is compared, and the one scenario of it that takes seconds."""

from pathlib import Path

import pytest

from scenarios import bar, load
from scenarios.load import Loaded
from tests.support.cli_run import run


def test_the_incast_of_eight_passes_and_repeats_itself(tmp_path: Path) -> None:
    runs = [run("bar-incast-8", tmp_path / str(seed), hash_seed=seed) for seed in (0, 4242)]
    assert runs[0].code == 0, runs[0].out + runs[0].err
    assert runs[0].result["metrics"]["ledger.trimmed"] > 0
    for name in ("result.json", "events.jsonl"):
        assert len({(done.folder / name).read_bytes() for done in runs}) == 1, name


@pytest.mark.parametrize(
    ("name", "theirs", "ours"),
    [("bar-permutation", 162.74, 165.56), ("bar-incast-8", 1301.91, 1324.44)],
)
def test_ideal_times_count_each_sides_own_frames(name: str, theirs: float, ours: float) -> None:
    loaded = load.load(name)
    assert bar.ideal_us(loaded, bar.SIMULATOR_FRAME_BYTES) == pytest.approx(theirs, abs=0.01)
    assert bar.ideal_us(loaded, None) == pytest.approx(ours, abs=0.01)


def test_the_comparison_takes_the_run_in_the_middle() -> None:
    slowest = {"bar-permutation": 180.0, "bar-dead-uplink": 234.0}

    def measured(loaded: Loaded, seed: int) -> bar.Flows:
        us = slowest.get(loaded.scenario.name, 1324.44) + (500 if seed == bar.SEED else 0)
        return bar.Flows(seed, 1.0, 2.0, us, 0, 0, 0, 0, 0.0, 0.0)

    lines = {line.name: line for line in bar.compare(3, measured, lambda text: None)}
    assert list(lines) == list(bar.TO_REACH)
    assert lines["bar-permutation"].ratio == pytest.approx(180 / 165.555 / (193.7 / 162.739), 1e-4)
    assert lines["bar-dead-uplink"].ratio == pytest.approx(1.3)
    assert not lines["bar-dead-uplink"].ok
    assert lines["bar-incast-8"].ok


def test_the_scenarios_ask_for_what_is_compared() -> None:
    """Their bounds are the ratios to reach, in microseconds."""
    for name, theirs in bar.SIMULATOR_US.items():
        loaded = load.load(name)
        scale = bar.ideal_us(loaded, None) / bar.ideal_us(loaded, bar.SIMULATOR_FRAME_BYTES)
        wanted = int(bar.TO_REACH[name] * theirs * scale)
        assert f"flow.slowest <= {wanted}us" in loaded.scenario.expect
        assert loaded.scenario.seed == bar.SEED
