"""The bench measures something; how much is for `make bench` to say."""

import pytest

from switches.engine import bench


@pytest.mark.root
def test_the_engine_is_compared_with_c() -> None:
    found = bench.engine_vs_c(0.05)
    assert [comparison.frame_bytes for comparison in found] == [1100, 4200]
    for comparison in found:
        assert comparison.engine > 10_000
        assert comparison.reference > 10_000
        assert comparison.ratio > 0.1
