import pytest

from topologies import units


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (units.rate_bps, "10mbit", 10**7),
        (units.rate_bps, "1.5 gbit", 1_500_000_000),
        (units.duration_ns, "200us", 200_000),
        (units.duration_ns, "0s", 0),
        (units.duration_ns, "2min", 120 * 10**9),
        (units.duration_ns, "10.7ms", 10_700_000),
        (units.size_bytes, "4MiB", 4 << 20),
        (units.size_bytes, "2kB", 2000),
        (units.fraction, "20%", 0.2),
        (units.fraction, 0.2, 0.2),
        (units.fraction, 1, 1.0),
    ],
)
def test_quantities(parse: object, text: object, value: object) -> None:
    assert parse(text) == value  # type: ignore[operator]


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (units.rate_bps, 10),
        (units.rate_bps, "10"),
        (units.rate_bps, "10Mbit"),
        (units.rate_bps, "-1mbit"),
        (units.duration_ns, "1:20"),
        (units.duration_ns, "5"),
        (units.duration_ns, "0.5ns"),
        (units.duration_ns, "\u0665s"),
        (units.size_bytes, "4 mib"),
        (units.size_bytes, True),
        (units.size_bytes, "9" * 30 + "B"),
        (units.fraction, "120%"),
        (units.fraction, -0.1),
        (units.fraction, True),
        (units.fraction, "half"),
    ],
)
def test_what_is_no_quantity_says_what_was_expected(parse: object, text: object) -> None:
    with pytest.raises(ValueError, match=r"^expected "):
        parse(text)  # type: ignore[operator]


def test_shown_in_the_unit_that_reads_best() -> None:
    assert units.show_rate(38_600_000) == "38.6 Mb/s"
    assert units.show_rate(0) == "0 b/s"
    assert units.show_duration(15_654_400) == "15.65 ms"
    assert units.show_size(4 << 20) == "4 MiB"
