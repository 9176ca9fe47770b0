"""The way back: on which EVs a QP's control packets go (PAPER 2.4).

One EV per plane, and control packets take the planes in turn.  While data flows out, the EV of a
plane is the one that was last acknowledged.  While data only comes in, an EV probe a round trip,
on an EV drawn at random, keeps it current; a plane whose probes stay unanswered carries no
control packets until one is answered again, so that a dead way back loses few SACKs.  A NACK takes
the EV that was proven last, whatever its plane: SACKs repeat one another, and a NACK that is lost
makes a trim look like a loss.  When the peer asks, or repeats what had arrived, it has not heard
us: no EV counts as known then, and every control packet takes another.
"""

from collections import deque
from random import Random
from typing import TYPE_CHECKING

from hosts.mrc import choices
from hosts.mrc.ev import IN_USE, Ev
from hosts.mrc.services import Services
from hosts.mrc.units import Ns

if TYPE_CHECKING:
    from hosts.mrc.qp import QueuePair


APART_TRIES = 4
"""Draws for each of several EVs that should differ."""


class ReverseSet:
    __slots__ = (
        "_evs", "_interval_ns", "_misses", "_next_ns", "_patience_ns", "_pending", "_plane_count",
        "_qp", "_rng", "_services", "_silent_mask", "_turn", "inbound",
    )  # fmt: skip

    def __init__(self, qp: "QueuePair", services: Services, rng: Random) -> None:
        self._qp = qp
        self._evs = qp.evs
        self._services = services
        self._rng = rng
        self._plane_count = len(services.config.ports)
        self._interval_ns = services.config.base_rtt_ns
        self._turn = 0
        self._misses = [0] * self._plane_count
        self._silent_mask = 0
        self._pending: deque[tuple[Ev, Ns]] = deque()
        """Unanswered probes, oldest first, that do not count as missed yet."""
        self._patience_ns = choices.REVERSE_PROBE_WAIT_RTTS * self._interval_ns
        self._next_ns = 0
        self.inbound = 0
        """Data packets since the last `probe`, which is due at choices.REVERSE_PROBE_PACKETS."""

    def next(self) -> Ev | None:
        """The EV for the next control packet; None if no plane is left."""
        live = self._qp.live_mask
        usable = live & ~self._silent_mask or live
        if not usable:
            return None
        turn = self._turn
        planes = self._plane_count
        ev = None
        for _ in range(planes):
            if usable >> turn & 1:
                ev = self._evs.reverse_of(turn)
            turn = turn + 1 if turn + 1 < planes else 0
            if ev is not None:
                break
        self._turn = turn
        return ev

    def surest(self) -> Ev | None:
        """The EV for a control packet that no other repeats; None if no plane is left."""
        ev = self._evs.proven
        if ev is not None and ev.state in IN_USE and self._qp.live_mask >> ev.plane & 1:
            return ev
        return self.next()

    def apart(self, count: int) -> list[Ev]:
        """EVs for copies of one control packet: different ones, as far as some are found."""
        evs: list[Ev] = []
        for _ in range(APART_TRIES * count):
            ev = self.next()
            if ev is not None and ev not in evs:
                evs.append(ev)
            if ev is None or len(evs) == count:
                break
        return evs + evs[:1] * (count - len(evs))

    # -- keeping it current ----------------------------------------------------------------------

    def probe(self, now: Ns) -> None:
        """Enough data has come in since the last time: see whether the way back still works."""
        self.inbound = 0
        if now < self._next_ns or self._qp.requester.has_work:
            return  # outbound data shows the way
        self._next_ns = now + self._interval_ns
        pending = self._pending
        while pending and now - pending[0][1] > self._patience_ns:
            self._missed(pending.popleft()[0])
        ev = self._draw()
        if ev is not None:
            pending.append((ev, now))
            self._services.probe_ev(ev, now)

    def _draw(self) -> Ev | None:
        """An EV at random; of a plane that has just missed one, so that it is soon certain."""
        live = self._qp.live_mask & self._evs.plane_mask
        planes = [plane for plane in range(self._plane_count) if live >> plane & 1]
        if not planes:
            return None
        limit = choices.REVERSE_PLANE_MISSES_MAX
        unsure = [plane for plane in planes if 0 < self._misses[plane] < limit]
        return self._evs.draw((unsure or planes)[int(self._rng.random() * len(unsure or planes))])

    def answered(self, ev: Ev) -> None:
        for probe in self._pending:
            if probe[0] is ev:
                self._pending.remove(probe)
                break
        self._misses[ev.plane] = 0
        self._silent_mask &= ~(1 << ev.plane)
        self._evs.reverse[ev.plane] = self._evs.proven = ev

    def unheard(self) -> None:
        """What we said was perhaps lost on its way."""
        self._evs.proven = None
        reverse = self._evs.reverse
        for plane in range(self._plane_count):
            reverse[plane] = None

    def _missed(self, ev: Ev) -> None:
        plane = ev.plane
        self._misses[plane] += 1
        if self._evs.reverse[plane] is ev:
            self._evs.reverse[plane] = None
        if self._evs.proven is ev:
            self._evs.proven = None
        if self._misses[plane] >= choices.REVERSE_PLANE_MISSES_MAX:
            self._silent_mask |= 1 << plane
