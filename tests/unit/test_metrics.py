"""Goodput windows of design section 10."""

import pytest

from scenarios import metrics, schema
from scenarios.metrics import FaultWindow, Series, Undefined

S = 10**9
MS = 10**6


def series(seconds: int = 20) -> Series:
    """1 MB in each bin of 100 ms, nothing between 5 s and 7 s."""
    made = Series(100 * MS)
    for index in range(seconds * 10):
        if not 50 <= index < 70:
            made.add("h0", index * 100 * MS, 500_000)
            made.add("h1", index * 100 * MS, 500_000)
    return made


FAULT = FaultWindow("optic", 5 * S, 7 * S)
WINDOWS = schema.Windows()
FULL_BPS = 80_000_000


def test_before_is_three_seconds_without_the_jobs_first() -> None:
    assert metrics.before(series(), FAULT, WINDOWS) == FULL_BPS
    early = series()
    early.bytes_by_host["h0"][5] = 10**9
    assert metrics.before(early, FaultWindow("optic", 2 * S, 3 * S), WINDOWS) == FULL_BPS


def test_during_is_first_down_to_last_up() -> None:
    assert metrics.during(series(), FAULT, 20 * S) == 0
    assert metrics.during(series(), FaultWindow("x", 4 * S, 8 * S), 20 * S) == FULL_BPS / 2


def test_after_begins_two_seconds_past_the_end() -> None:
    assert metrics.after(series(), FAULT, WINDOWS, 20 * S) == FULL_BPS


def test_a_window_the_job_did_not_reach_has_no_data() -> None:
    with pytest.raises(Undefined, match="the job ended before optic was over and settled"):
        metrics.after(series(), FAULT, WINDOWS, 9 * S)
    with pytest.raises(Undefined, match="the job ended before optic"):
        metrics.during(series(), FAULT, 4 * S)
    with pytest.raises(Undefined, match="optic never ends"):
        metrics.after(series(), FaultWindow("optic", 5 * S, None), WINDOWS, 20 * S)
    with pytest.raises(Undefined, match="holds no whole bin"):
        metrics.before(series(), FaultWindow("optic", 1 * S, 2 * S), WINDOWS)


def test_columns_are_one_row_a_bin() -> None:
    table = series(1).columns()
    assert list(table) == ["t_ns", "total_bps", "h0_bps", "h1_bps"]
    assert table["total_bps"] == [FULL_BPS] * 10
    assert metrics.csv(table).splitlines()[:2] == [
        "t_ns,total_bps,h0_bps,h1_bps",
        "0,80000000,40000000,40000000",
    ]
