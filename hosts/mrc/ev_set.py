"""The EVs of one QP: which may be used, in what order, and what becomes of them.

Every plane has its own rotation, walked in an order drawn anew on each pass, and planes take
turns, so that all of them carry the same load while their paths are equally good.  An EV in SKIP
gives its turn to the next EV, which is of the next plane whose port is free: a loaded plane so
loses share to the others.  The backup set holds EVs of the same planes in reserve.
"""

from collections.abc import Callable, Sequence
from random import Random

from hosts.errors import UsageError
from hosts.mrc.ev import IN_USE, TRANSITIONS, Cause, Ev, EvEvent, EvSpec, EvState
from hosts.mrc.policy import PathPolicy
from hosts.mrc.units import Ns

SKIP_SCAN_MAX = 16
"""EVs looked at for one packet.  With more than this many marked in a row, congestion is everywhere
and skipping helps nobody; it also bounds the cost of a packet."""

_GOOD = EvState.GOOD

StateChanged = Callable[[Ev, EvState, EvState, Cause, Ns], None]


class EvSet:
    """Active set, backup set and retired EVs of one QP.

    `plane_mask`: planes with an EV that may be selected.  `changed` is told every transition
    that the API shows (SKIP counts as GOOD there).
    """

    __slots__ = (
        "_backup", "_cursors", "_min_active", "_orders", "_random", "_turn", "active_target",
        "by_value", "changed", "evs", "plane_count", "plane_mask", "policy", "proven", "reverse",
        "skips",
    )  # fmt: skip

    def __init__(
        self,
        active: Sequence[EvSpec],
        backup: Sequence[EvSpec],
        *,
        plane_count: int,
        min_active: int,
        rng: Random,
        changed: StateChanged,
        policy: PathPolicy | None = None,
    ) -> None:
        self.plane_count = plane_count
        self._random = rng.random
        self._min_active = min_active
        self.changed = changed
        self.policy = policy
        """In place of SKIP and retirement; None: MRC's own rule."""
        self._orders: list[list[Ev]] = [[] for _ in range(plane_count)]
        self._cursors = [0] * plane_count
        self._backup: list[list[Ev]] = [[] for _ in range(plane_count)]
        self._turn = rng.randrange(plane_count)
        self.plane_mask = 0
        self.skips = 0
        self.evs = [Ev(spec) for spec in (*active, *backup)]
        self.by_value = {ev.value: ev for ev in self.evs}
        if len(self.by_value) != len(self.evs):
            raise UsageError("two EVs of one QP have the same value")
        if any(not 0 <= ev.plane < plane_count for ev in self.evs):
            raise UsageError(f"an EV of a plane that is not one of 0..{plane_count - 1}")
        for ev in self.evs[: len(active)]:
            self._activate(ev)
        for ev in self.evs[len(active) :]:
            self._backup[ev.plane].append(ev)
        self.active_target = [len(order) for order in self._orders]
        self.reverse: list[Ev | None] = [None] * plane_count
        """By plane, the EV that was last known to arrive: the path of control packets."""
        self.proven: Ev | None = None
        """The last of them."""

    # -- selection: the hot path -------------------------------------------------------------

    def select(self, free: int, avoid: Ev | None = None, now: Ns = 0, live: int = 0) -> Ev | None:
        """The EV for the next packet, among planes in the mask `free`; None if there is none.

        The rule of spec 11.2.2: an EV in SKIP becomes GOOD as the rotation passes it, but this
        packet takes another; at most one is restored so.  Where only the ports of other planes of
        `live` are busy it waits for one of these (None), or a loaded plane would lose no load to
        them.  `avoid` (the EV a packet was lost on) is used only where nothing else is left.
        """
        usable = free & self.plane_mask
        if not usable:
            return None
        if self.policy is not None:
            return self.policy.select(self._orders, usable, now)
        planes = self.plane_count
        turn = self._turn
        while not usable >> turn & 1:
            turn = turn + 1 if turn + 1 < planes else 0
        ev = self._next_of(turn)
        if ev.state is _GOOD and ev is not avoid:
            self._turn = turn + 1 if turn + 1 < planes else 0
            return ev
        if ev.state is not _GOOD and usable == 1 << turn and live & self.plane_mask & ~usable:
            ev.state = _GOOD
            self.skips += 1
            self._turn = turn + 1 if turn + 1 < planes else 0
            return None
        return self._select_past(ev, usable, avoid, turn)

    def _select_past(self, ev: Ev, usable: int, avoid: Ev | None, turn: int) -> Ev:
        """The first choice, `ev` of plane `turn`, is in SKIP or to be avoided: look further."""
        last_resort: Ev | None = None
        restored = False
        planes = self.plane_count
        for _ in range(SKIP_SCAN_MAX):
            turn = turn + 1 if turn + 1 < planes else 0
            if ev.state is _GOOD:
                if ev is not avoid:
                    self._turn = turn
                    return ev
                if last_resort is None:
                    last_resort = ev
            elif not restored:
                ev.state = _GOOD
                restored = True
                self.skips += 1
                if last_resort is None or last_resort is avoid:
                    last_resort = ev
            elif last_resort is None:
                last_resort = ev
            while not usable >> turn & 1:
                turn = turn + 1 if turn + 1 < planes else 0
            ev = self._next_of(turn)
        self._turn = turn
        return last_resort or ev

    def _next_of(self, plane: int) -> Ev:
        """The next EV in this plane's rotation, whose order is drawn as it goes (Fisher-Yates)."""
        order = self._orders[plane]
        count = len(order)
        i = self._cursors[plane]
        if i >= count:
            i = 0
        j = i + int(self._random() * (count - i))
        ev = order[j]
        order[j] = order[i]
        order[i] = ev
        self._cursors[plane] = i + 1
        return ev

    def reverse_of(self, plane: int) -> Ev | None:
        """An EV of that plane for control packets: the proven one, else one in use or any at all,
        drawn for each."""
        proven = self.reverse[plane]
        if proven is not None and proven.state in IN_USE:
            return proven
        if self._orders[plane]:
            return self.draw(plane)
        fallback = [ev for ev in self.evs if ev.plane == plane and ev.state is not EvState.DENIED]
        return fallback[int(self._random() * len(fallback))] if fallback else None

    def draw(self, plane: int) -> Ev:
        """An EV in use of that plane, at random, without touching the rotation."""
        order = self._orders[plane]
        return order[int(self._random() * len(order))]

    # -- what was heard of an EV -------------------------------------------------------------

    def congested(self, ev: Ev, event: EvEvent) -> None:
        """MARKED or TRIMMED: GOOD becomes SKIP, and stays in the rotation to be passed over."""
        if self.policy is not None:
            self.policy.congested(ev, event)
        elif ev.state is EvState.GOOD:
            ev.state = EvState.SKIP

    def may_retire(self, ev: Ev) -> bool:
        """Whether enough EVs stay active without it (`ev_min_active`), a replacement counted."""
        if not ev.is_active or self._replacement(ev.plane) is not None:
            return True
        return self.active_count() - 1 >= self._min_active

    def retire(self, ev: Ev, event: EvEvent, cause: Cause, now: Ns) -> bool:
        """To ASSUMED_BAD, and a backup EV of the same plane in its place; False if not allowed."""
        if (ev.state, event) not in TRANSITIONS:
            return False
        if event is not EvEvent.PORT_DOWN and not self.may_retire(ev):
            return False
        was_active = ev.is_active
        self._leave(ev)
        ev.care.probe_successes = 0
        self._move(ev, event, cause, now)
        if was_active and event is not EvEvent.PORT_DOWN:
            self._replace(ev.plane)
        return True

    def deny(self, ev: Ev, now: Ns) -> None:
        if ev.state is EvState.DENIED:
            return
        was_active = ev.is_active
        self._leave(ev)
        self._move(ev, EvEvent.DENY, Cause.CONTROLLER, now)
        if was_active:
            self._replace(ev.plane)

    def bring_back(self, ev: Ev, event: EvEvent, cause: Cause, now: Ns) -> None:
        """From ASSUMED_BAD or DENIED to use, or to the backup set if its plane is full again."""
        if (ev.state, event) not in TRANSITIONS:
            return
        self._move(ev, event, cause, now)
        if self._in_use(ev.plane) < self.active_target[ev.plane]:
            self._activate(ev)
        else:
            self._backup[ev.plane].append(ev)

    def rest(self, ev: Ev) -> bool:
        """Out of the rotation, in the same state, while a doubt is settled; False if not
        allowed."""
        if not ev.is_active or ev.resting or self._rotating() - 1 < self._min_active:
            return False
        ev.resting = True
        self._take_out(ev)
        return True

    def resume(self, ev: Ev) -> None:
        if ev.resting:
            ev.resting = False
            self._put_in(ev)

    def keep_active(self, count: int) -> None:
        """Retire no EV below so many active ones (an EV profile's `ev_min_active`)."""
        self._min_active = count

    # -- numbers -------------------------------------------------------------------------------

    def counts(self) -> dict[str, int]:
        """EVs by state."""
        out = {state.value: 0 for state in EvState}
        for ev in self.evs:
            out[ev.state.value] += 1
        return out

    def active_count(self) -> int:
        """EVs in the active set, resting ones included."""
        return sum(1 for ev in self.evs if ev.is_active)

    def _rotating(self) -> int:
        return sum(map(len, self._orders))

    def _in_use(self, plane: int) -> int:
        return sum(1 for ev in self.evs if ev.plane == plane and ev.is_active)

    # -- membership ----------------------------------------------------------------------------

    def _replacement(self, plane: int) -> Ev | None:
        for ev in self._backup[plane]:
            if ev.state in IN_USE:
                return ev
        return None

    def _replace(self, plane: int) -> None:
        ev = self._replacement(plane)
        if ev is not None:
            self._backup[plane].remove(ev)
            self._activate(ev)

    def _move(self, ev: Ev, event: EvEvent, cause: Cause, now: Ns) -> None:
        before = ev.state
        ev.state = TRANSITIONS[before, event]
        self.changed(ev, before, ev.state, cause, now)

    def _activate(self, ev: Ev) -> None:
        ev.is_active = True
        self._put_in(ev)

    def _leave(self, ev: Ev) -> None:
        """Out of whichever set it is in."""
        if ev.is_active and not ev.resting:
            self._take_out(ev)
        elif ev in self._backup[ev.plane]:
            self._backup[ev.plane].remove(ev)
        ev.is_active = False
        ev.resting = False

    def _put_in(self, ev: Ev) -> None:
        self._orders[ev.plane].append(ev)
        self.plane_mask |= 1 << ev.plane

    def _take_out(self, ev: Ev) -> None:
        order = self._orders[ev.plane]
        at = order.index(ev)
        del order[at]
        if at < self._cursors[ev.plane]:
            self._cursors[ev.plane] -= 1
        if not order:
            self.plane_mask &= ~(1 << ev.plane)
