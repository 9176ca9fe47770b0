"""Other ways to choose paths, to compare MRC's EV machine with (facts/nscc.md 7).

A policy replaces SKIP and the retirement of EVs after losses; ports that are down still take
their EVs out of reach, since no policy can send there.  It learns from what the requester hears
and chooses among the EVs that an `EvSet` holds.
"""

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

from hosts.errors import UsageError
from hosts.mrc.ev import Ev, EvEvent
from hosts.mrc.units import Ns

RING_SIZE = 8
"""REPS: EVs remembered as good, and those that are cycled while it is frozen."""

EXPLORE_AFTER_FREEZE = 16
PENALTY_MARK, PENALTY_TRIM, PENALTY_LOSS, PENALTY_MAX = 1, 4, 15, 15
"""Bitmap: htsim's weights."""


class PathPolicy(Protocol):
    def select(self, orders: Sequence[Sequence[Ev]], usable: int, now: Ns) -> Ev:
        """An EV for the next packet: `orders[p]` are those of plane p; bit p of `usable` is set
        for the planes that may be used, which have at least one EV each."""

    def arrived(self, ev: Ev, now: Ns) -> None:
        """A SACK without a mark named this EV."""

    def congested(self, ev: Ev, event: EvEvent) -> None:
        """MARKED or TRIMMED."""

    def lost(self, ev: Ev, now: Ns) -> None:
        """A packet on this EV was lost or timed out."""


class Walk:
    """Planes in turn, and in each plane its EVs in an order drawn anew on each pass."""

    __slots__ = ("_cursors", "_random", "_shuffled", "_turn")

    def __init__(self, rng: Random) -> None:
        self._random = rng.random
        self._turn = 0
        self._cursors: dict[int, int] = {}
        self._shuffled: dict[int, list[Ev]] = {}

    def next(self, orders: Sequence[Sequence[Ev]], usable: int) -> Ev:
        planes = len(orders)
        turn = self._turn
        while not usable >> turn & 1:
            turn = (turn + 1) % planes
        self._turn = (turn + 1) % planes
        order, shuffled = orders[turn], self._shuffled.get(turn)
        i = self._cursors.get(turn, 0)
        if shuffled is None or i >= len(shuffled) or len(shuffled) != len(order):
            shuffled, i = self._shuffled.setdefault(turn, []), 0
            shuffled[:] = order
        j = i + int(self._random() * (len(shuffled) - i))
        shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
        self._cursors[turn] = i + 1
        return shuffled[i]


class Oblivious:
    """Sprays over all EVs, whatever is heard of them."""

    __slots__ = ("_walk",)

    def __init__(self, rng: Random, freeze_ns: Ns) -> None:
        self._walk = Walk(rng)

    def select(self, orders: Sequence[Sequence[Ev]], usable: int, now: Ns) -> Ev:
        return self._walk.next(orders, usable)

    def arrived(self, ev: Ev, now: Ns) -> None:
        pass

    def congested(self, ev: Ev, event: EvEvent) -> None:
        pass

    def lost(self, ev: Ev, now: Ns) -> None:
        pass


class Bitmap:
    """A penalty a EV, from 0 to 15; the first penalised EV on the walk pays one off, at most one a
    packet; the first without penalty is taken."""

    __slots__ = ("_penalty", "_walk")

    def __init__(self, rng: Random, freeze_ns: Ns) -> None:
        self._walk = Walk(rng)
        self._penalty: dict[Ev, int] = {}

    def select(self, orders: Sequence[Sequence[Ev]], usable: int, now: Ns) -> Ev:
        penalty = self._penalty
        paid = False
        ev = self._walk.next(orders, usable)
        for _ in range(sum(map(len, orders))):
            if not penalty.get(ev, 0):
                break
            if not paid:
                penalty[ev] -= 1
                paid = True
            ev = self._walk.next(orders, usable)
        return ev

    def arrived(self, ev: Ev, now: Ns) -> None:
        pass

    def congested(self, ev: Ev, event: EvEvent) -> None:
        self._add(ev, PENALTY_MARK if event is EvEvent.MARKED else PENALTY_TRIM)

    def lost(self, ev: Ev, now: Ns) -> None:
        self._add(ev, PENALTY_LOSS)

    def _add(self, ev: Ev, penalty: int) -> None:
        self._penalty[ev] = min(PENALTY_MAX, self._penalty.get(ev, 0) + penalty)


class Reps:
    """Recycles EVs that came back unmarked; explores at random when it has none.

    After a loss it keeps to the last good ones for `freeze_ns`, fresh or not.  Planes take turns
    and have a ring each, since the port that is free decides the plane.
    """

    __slots__ = ("_explore", "_freeze_ns", "_fresh", "_frozen_until", "_last", "_random", "_turn")

    def __init__(self, rng: Random, freeze_ns: Ns) -> None:
        self._random = rng.random
        self._freeze_ns = freeze_ns
        self._frozen_until = 0
        self._explore = 0
        self._turn = 0
        self._fresh: dict[int, deque[Ev]] = {}
        self._last: dict[int, deque[Ev]] = {}

    def select(self, orders: Sequence[Sequence[Ev]], usable: int, now: Ns) -> Ev:
        plane = self._turn
        while not usable >> plane & 1:
            plane = (plane + 1) % len(orders)
        self._turn = (plane + 1) % len(orders)
        known = self._recycled(plane, now)
        if known is not None:
            return known
        order = orders[plane]
        return order[int(self._random() * len(order))]

    def _recycled(self, plane: int, now: Ns) -> Ev | None:
        if self._frozen_until:
            if now < self._frozen_until:
                return self._cycled(self._last.get(plane))
            self._frozen_until = 0
            self._fresh.clear()
            self._explore = EXPLORE_AFTER_FREEZE
        if self._explore:
            self._explore -= 1
            return None
        fresh = self._fresh.get(plane)
        while fresh:
            ev = fresh.popleft()  # the oldest, and each only once
            if ev.is_active:
                return ev
        return None

    @staticmethod
    def _cycled(ring: deque[Ev] | None) -> Ev | None:
        for _ in range(len(ring or ())):
            assert ring is not None
            ring.rotate(-1)
            if ring[-1].is_active:
                return ring[-1]
        return None

    def arrived(self, ev: Ev, now: Ns) -> None:
        for rings in (self._fresh, self._last):
            if rings is self._last and self._frozen_until:
                continue
            ring = rings.get(ev.plane)
            if ring is None:
                ring = rings[ev.plane] = deque(maxlen=RING_SIZE)
            ring.append(ev)

    def congested(self, ev: Ev, event: EvEvent) -> None:
        pass  # it is simply not remembered

    def lost(self, ev: Ev, now: Ns) -> None:
        if not self._frozen_until:
            self._frozen_until = now + self._freeze_ns


_POLICIES: dict[str, Callable[[Random, Ns], PathPolicy]] = {
    "oblivious": Oblivious, "bitmap": Bitmap, "reps": Reps,
}  # fmt: skip
NAMES = ("mrc", *_POLICIES)

FREEZE_RTTS = 1000
"""REPS' 10 ms at a base RTT of 10 us, in base RTTs."""


def make(name: str, rng: Random, base_rtt_ns: Ns) -> PathPolicy | None:
    """None for `mrc`, whose rule is the EvSet's own.  Raises UsageError for an unknown name."""
    if name == "mrc":
        return None
    if name not in _POLICIES:
        raise UsageError(f"no path policy named {name!r} ({', '.join(NAMES)})")
    return _POLICIES[name](rng, FREEZE_RTTS * base_rtt_ns)
