"""How many frames came in on each EV.

EVs are read from frames, so that a peer, or a wire that garbles, could name any of 2^32: beyond a
number that no QP has, all others are counted as one.
"""

EVS_MAX = 4096
OTHER_EVS = -1


class EvCounts(dict[int, int]):
    """Frames by EV."""

    __slots__ = ()

    def count(self, ev: int) -> None:
        if ev not in self and len(self) >= EVS_MAX:
            ev = OTHER_EVS
        self[ev] = self.get(ev, 0) + 1
