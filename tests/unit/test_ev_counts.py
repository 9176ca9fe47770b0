"""Frames by EV: exact for what a QP may have, bounded for what a peer may make up."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from hosts.mrc.ev_counts import EVS_MAX, NOTES, OTHER_EVS, EvCounts


@given(st.lists(st.integers(0, 5) | st.integers(0, 2**32 - 1), max_size=50), st.integers(1, 60))
def test_every_frame_is_counted_once(evs: list[int], times: int) -> None:
    counts = EvCounts()
    seen = Counter[int]()
    for _ in range(times):
        for ev in evs:
            counts.count(ev)
        seen.update(evs)
    assert counts.by_ev() == seen
    assert counts.by_ev() == seen, "asking changes nothing"


def test_made_up_evs_do_not_fill_the_memory() -> None:
    counts = EvCounts()
    frames = 10 * EVS_MAX
    for ev in range(frames):
        counts.count(ev)
    known = counts.by_ev()
    assert len(known) <= EVS_MAX + NOTES + 1
    assert sum(known.values()) == frames
    assert known[OTHER_EVS] == frames - (len(known) - 1)
    counts.count(0)
    assert counts.by_ev()[0] == 2, "those that were known stay so"
