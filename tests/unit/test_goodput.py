"""The goodput series: nothing lost, nothing told twice, bins aligned to the start of the job."""

from hypothesis import given
from hypothesis import strategies as st

from hosts.goodput import Goodput


@given(
    st.integers(1, 50),
    st.integers(0, 100),
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9000), st.booleans()), max_size=60),
)
def test_every_byte_is_told_once_in_its_bin(
    bin_ns: int, t0: int, steps: list[tuple[int, int, bool]]
) -> None:
    series = Goodput(bin_ns)
    wanted: dict[int, int] = {}
    told: dict[int, int] = {}
    series.begin(t0)
    now = t0
    for pause, count, poll in steps:
        now += pause
        series.add(count, now)
        start = t0 + (now - t0) // bin_ns * bin_ns
        wanted[start] = wanted.get(start, 0) + count
        if poll:
            for start, total in series.take(now):
                assert start + bin_ns <= now
                assert start not in told
                told[start] = total
    for start, total in series.take(now, last=True):
        assert start not in told
        told[start] = total
    assert told == wanted
