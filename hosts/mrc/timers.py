"""Deadlines of everything in one endpoint: one heap, lazy deletion.

The core never sleeps and never reads a clock: it says when it next wants to be woken (`next_due`)
and the driver comes back.  A `Timer` has one deadline; moving it later or stopping it costs nothing
(the heap entry is corrected when it surfaces), so a timer that is pushed back by every packet is
cheap.
"""

import heapq
from enum import IntEnum, auto

from hosts.mrc.units import Ns


class TimerKind(IntEnum):
    """What a timer is for; the endpoint dispatches on it."""

    RETRANSMIT = 0
    """A QP's oldest outstanding packet times out."""
    TAIL = auto()
    """A QP heard nothing for long with packets outstanding: probe."""
    STALL = auto()
    """A QP has something to send and no plane to send it on."""
    EV = auto()
    """An EV's next probe, or the verdict on it."""
    HOLD_DOWN = auto()
    """A port whose carrier returned has been quiet for long enough."""
    PORT_STATUS = auto()
    """A peer has not answered our port status."""


class Timer:
    """One deadline.  `owner` is whatever the endpoint hands the expiry to."""

    __slots__ = ("at", "kind", "owner", "queued_at")

    def __init__(self, kind: TimerKind, owner: object) -> None:
        self.kind = kind
        self.owner = owner
        self.at: Ns | None = None
        self.queued_at: Ns | None = None


class Timers:
    __slots__ = ("_heap", "_sequence")

    def __init__(self) -> None:
        self._heap: list[tuple[Ns, int, Timer]] = []
        self._sequence = 0

    def set(self, timer: Timer, at: Ns) -> None:
        timer.at = at
        queued = timer.queued_at
        if queued is None or at < queued:
            self._push(timer, at)

    def stop(self, timer: Timer) -> None:
        timer.at = None

    def next_due(self) -> Ns | None:
        """The earliest live deadline."""
        heap = self._heap
        while heap:
            queued_at, _, timer = heap[0]
            at = timer.at
            if at == queued_at:
                return at
            heapq.heappop(heap)
            self._surfaced(timer, queued_at)
        return None

    def pop_due(self, now: Ns) -> Timer | None:
        """A timer whose deadline has come, stopped; None when there is none (call until then)."""
        heap = self._heap
        if not heap or heap[0][0] > now:
            return None
        due = self.next_due()
        if due is None or due > now:
            return None
        timer = heapq.heappop(heap)[2]
        timer.at = timer.queued_at = None
        return timer

    def _surfaced(self, timer: Timer, queued_at: Ns) -> None:
        """An outdated entry came up: forget it, and queue the timer again if it is still wanted."""
        if timer.queued_at != queued_at:
            return  # an earlier entry of a timer that was moved forward since
        timer.queued_at = None
        if timer.at is not None:
            self._push(timer, timer.at)

    def _push(self, timer: Timer, at: Ns) -> None:
        timer.queued_at = at
        self._sequence += 1
        heapq.heappush(self._heap, (at, self._sequence, timer))
