"""How many frames came in on each EV.

EVs are read from frames, so that a peer, or a wire that garbles, could name any of 2^32: beyond a
number that no QP has, all others are counted as one.

Frames are noted one behind the other and counted by the hundred: a table of hundreds of EVs for
each of hundreds of QPs is in no cache when one frame comes in, and a note is next to the last one.
"""

from array import array
from collections import Counter

EVS_MAX = 4096
OTHER_EVS = -1
NOTES = 256


class EvCounts:
    """Frames by EV."""

    __slots__ = ("_counts", "_notes")

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._notes = array("I")

    def count(self, ev: int) -> None:
        notes = self._notes
        notes.append(ev)
        if len(notes) >= NOTES:
            self._count_notes()

    def by_ev(self) -> dict[int, int]:
        self._count_notes()
        return dict(self._counts)

    def _count_notes(self) -> None:
        counts = self._counts
        if len(counts) < EVS_MAX:
            counts.update(self._notes)
        else:
            counts.update(ev if ev in counts else OTHER_EVS for ev in self._notes)
        del self._notes[:]
