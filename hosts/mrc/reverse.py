"""The way back: on which EVs a QP's control packets go (PAPER 2.4).

One EV per plane, and control packets take the planes in turn.  While data flows out, the EV of a
plane is the one that was last acknowledged.  While data only comes in, an EV probe a round trip,
on an EV drawn at random, keeps it current; a plane whose probes stay unanswered carries no
control packets until one is answered again, so that a dead way back loses few SACKs.  When the
peer asks, or repeats what had arrived, it has not heard us: no EV counts as known then, and every
control packet takes another.
"""

from random import Random
from typing import TYPE_CHECKING

from hosts.mrc import choices
from hosts.mrc.ev import Ev
from hosts.mrc.services import Services
from hosts.mrc.units import Ns

if TYPE_CHECKING:
    from hosts.mrc.qp import QueuePair


class ReverseSet:
    __slots__ = (
        "_evs", "_interval_ns", "_misses", "_next_ns", "_pending", "_plane_count", "_qp", "_rng",
        "_services", "_silent_mask", "_turn", "inbound",
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
        self._pending: tuple[Ev, Ns] | None = None
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

    # -- keeping it current ----------------------------------------------------------------------

    def probe(self, now: Ns) -> None:
        """Enough data has come in since the last time: see whether the way back still works."""
        self.inbound = 0
        if now < self._next_ns or self._qp.requester.has_work:
            return  # outbound data shows the way
        self._next_ns = now + self._interval_ns
        pending = self._pending
        if pending is not None:
            if now - pending[1] <= self._services.config.rto_ns:
                return
            self._missed(pending[0])
        ev = self._draw()
        self._pending = None if ev is None else (ev, now)
        if ev is not None:
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
        if self._pending is not None and self._pending[0] is ev:
            self._pending = None
        self._misses[ev.plane] = 0
        self._silent_mask &= ~(1 << ev.plane)
        self._evs.reverse[ev.plane] = ev

    def unheard(self) -> None:
        """What we said was perhaps lost on its way."""
        reverse = self._evs.reverse
        for plane in range(self._plane_count):
            reverse[plane] = None

    def _missed(self, ev: Ev) -> None:
        plane = ev.plane
        self._misses[plane] += 1
        if self._evs.reverse[plane] is ev:
            self._evs.reverse[plane] = None
        if self._misses[plane] >= choices.REVERSE_PLANE_MISSES_MAX:
            self._silent_mask |= 1 << plane
