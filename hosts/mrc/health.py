"""The health of a QP's EVs: doubts and how they are settled, probes, and the way back.

A loss that is certain, and silence that may have other reasons, both take an EV out of the
rotation at once: it *rests*, in its state.  What follows differs.  After ORDER the EV is retired
when the time in which the NACK of a trim could still come has passed.  After TIMEOUT it is
probed: an answer clears it, none within the RTO retires it.  So a plane that loses SACKs on the
way back, or a host that was not scheduled for a while, retires nothing.

A retired EV is probed at intervals while its plane is up at both ends, and comes back after
`probe_successes` answers in a row.
"""

from typing import TYPE_CHECKING

from hosts.mrc import choices
from hosts.mrc.ev import IN_USE, Cause, Doubt, Ev, EvEvent, EvState
from hosts.mrc.services import Services
from hosts.mrc.units import Ns
from hosts.wire.sack import EvHint

if TYPE_CHECKING:
    from hosts.mrc.outstanding import Sent
    from hosts.mrc.requester import Requester

PROBES_MAX = 1024
"""Unanswered probes remembered by a QP; the oldest are forgotten first."""

PROBE_IDS = 1 << 16


class Health:
    __slots__ = (
        "_config", "_counters", "_last_hop_ns", "_next_probe_id", "_probes", "_requester", "_rng",
        "_timers",
    )  # fmt: skip

    def __init__(self, requester: "Requester", services: Services) -> None:
        self._requester = requester
        self._config = services.config
        self._counters = services.counters
        self._timers = services.timers
        self._rng = services.rng
        self._last_hop_ns: list[Ns | None] = [None] * requester.evs.plane_count
        self._probes: dict[int, tuple[Ev, int, Ns]] = {}
        """By probe id: the EV, the number of the probe among what was sent on it, and when."""
        self._next_probe_id = 0

    # -- doubt -----------------------------------------------------------------------------------

    def last_hop_trim(self, plane: int, now: Ns) -> None:
        self._last_hop_ns[plane] = now

    def _is_spared(self, ev: Ev, sent_ns: Ns) -> bool:
        """The last hop of its plane was trimming when the packet passed or since, and may have
        dropped what it had trimmed."""
        at = self._last_hop_ns[ev.plane]
        return at is not None and at >= sent_ns - self._config.rto_ns

    def _is_policys(self, ev: Ev, now: Ns) -> bool:
        """Another path policy draws its own conclusions from losses."""
        policy = self._requester.evs.policy
        if policy is not None:
            policy.lost(ev, now)
        return policy is not None

    def _has_ended(self, sent: "Sent") -> bool:
        """The QP failed over this packet, and nothing is in flight any more."""
        return sent.seq not in self._requester.outstanding.by_seq

    def doubt_order(self, ev: Ev, sent: "Sent", now: Ns) -> None:
        """A packet was lost on this EV, unless the NACK of a trim is still under way."""
        doubt = ev.doubt
        if self._has_ended(sent) or self._is_policys(ev, now):
            return
        if ev.state not in IN_USE or self._is_spared(ev, sent.sent_ns):
            return
        if doubt is not None and doubt.cause is Cause.ORDER:
            return
        self._doubt(ev, Doubt(Cause.ORDER, sent.seq, 0, sent.sent_ns))
        self._timers.set(ev.care.timer, now + self._config.rto_ns)

    def doubt_silence(self, ev: Ev, sent: "Sent", now: Ns) -> None:
        """Nothing was heard of a packet on this EV for too long."""
        if self._has_ended(sent) or self._is_policys(ev, now):
            return
        if ev.state not in IN_USE or ev.doubt is not None or self._is_spared(ev, sent.sent_ns):
            return
        if choices.TIMEOUT_RETIRES_AT_ONCE:
            self.retire(ev, EvEvent.LOST, Cause.TIMEOUT, now)
            return
        self._doubt(ev, Doubt(Cause.TIMEOUT, sent.seq, choices.DOUBT_PROBES, sent.sent_ns))
        self._try(ev, now)

    def _doubt(self, ev: Ev, doubt: Doubt) -> None:
        self._counters.ev_doubts += 1
        ev.care.doubt = doubt
        self._requester.evs.rest(ev)

    def _try(self, ev: Ev, now: Ns) -> None:
        """One of the probes of a doubt; after the last, time for its answer."""
        assert ev.doubt is not None
        ev.doubt.probes_left -= 1
        self.send_probe(ev, now)
        rto = self._config.rto_ns
        wait = rto // 4 if ev.doubt.probes_left else rto * 3 // 4
        self._timers.set(ev.care.timer, now + wait)

    def _calm(self, ev: Ev) -> None:
        """No doubt and no timer any more."""
        if ev.has_care:
            ev.care.doubt = None
            self._timers.stop(ev.care.timer)

    def _clear(self, ev: Ev) -> None:
        self._calm(ev)
        self._requester.evs.resume(ev)

    def path_works(self, ev: Ev, seq: int) -> None:
        """A NACK proves that this packet reached the peer on this EV."""
        doubt = ev.doubt
        if doubt is not None and (doubt.cause is not Cause.ORDER or doubt.seq == seq):
            self._clear(ev)

    def retire(self, ev: Ev, event: EvEvent, cause: Cause, now: Ns) -> None:
        self._calm(ev)
        if self._requester.evs.retire(ev, event, cause, now):
            self._counters.ev_retired += 1
            if event is not EvEvent.PORT_DOWN:
                self._timers.set(ev.care.timer, now + self._config.probe_every_ns)
        elif ev.state in IN_USE:
            self._counters.ev_floor_kept += 1
            self._requester.evs.resume(ev)

    # -- probes ----------------------------------------------------------------------------------

    def send_probe(self, ev: Ev, now: Ns) -> int:
        """A reliability probe on this EV; its id.  It queues with data, so order holds for it
        too."""
        probe_id = self._next_probe_id
        self._next_probe_id = (probe_id + 1) % PROBE_IDS
        ev.serial += 1
        ev.care.probes += 1
        if len(self._probes) >= PROBES_MAX:
            del self._probes[next(iter(self._probes))]
        self._probes[probe_id] = ev, ev.serial, now
        self._requester.qp.send_probe(ev, probe_id, now)
        return probe_id

    def probe_answered(self, probe_id: int, hint: int, now: Ns) -> Ns | None:
        """When that probe was sent, or None if its answer was seen before.

        To be called after the bitmap was taken in and before suspects are judged.
        """
        probe = self._probes.pop(probe_id, None)
        if probe is None:
            return None
        ev, serial, sent_ns = probe
        self._requester.loss.overtaken(ev, serial)
        if ev.doubt is not None:
            if ev.doubt.cause is not Cause.ORDER:
                self._clear(ev)
        elif ev.state is EvState.ASSUMED_BAD and ev.care.probe_id == probe_id:
            self._one_success(ev, hint, now)
        return sent_ns

    def _one_success(self, ev: Ev, hint: int, now: Ns) -> None:
        ev.care.probe_id = None
        ev.care.probe_successes += 1
        if ev.care.probe_successes < self._config.probe_successes:
            return
        marked = hint == EvHint.SKIP_ONCE and choices.PROBE_REPLY_MARKED_TO_SKIP
        self._timers.stop(ev.care.timer)
        event = EvEvent.PROBED_MARKED if marked else EvEvent.PROBED
        self._requester.evs.bring_back(ev, event, Cause.PROBE, now)
        self._counters.ev_restored += 1

    def on_ev_timer(self, ev: Ev, now: Ns) -> None:
        doubt = ev.doubt
        if doubt is not None:
            if doubt.probes_left:
                self._try(ev, now)
            elif self._is_spared(ev, doubt.sent_ns):
                self._clear(ev)  # trims of the last hop became known only after the loss
            else:
                self.retire(ev, EvEvent.LOST, doubt.cause, now)
        elif ev.state is EvState.ASSUMED_BAD and self._requester.qp.live_mask >> ev.plane & 1:
            if ev.care.probe_id is not None:
                ev.care.probe_successes = 0  # the last one was not answered
            ev.care.probe_id = self.send_probe(ev, now)
            self._timers.set(ev.care.timer, now + self._config.probe_every_ns)

    # -- planes ----------------------------------------------------------------------------------

    def plane_down(self, plane: int, cause: Cause, now: Ns) -> None:
        for ev in self._requester.evs.evs:
            if ev.plane == plane:
                self.retire(ev, EvEvent.PORT_DOWN, cause, now)
                ev.care.probe_id = None
                ev.care.probe_successes = 0

    def plane_up(self, plane: int, now: Ns) -> None:
        """Begin to probe its EVs, spread over an interval."""
        every = self._config.probe_every_ns
        for ev in self._requester.evs.evs:
            if ev.plane == plane and ev.state is EvState.ASSUMED_BAD:
                self._timers.set(ev.care.timer, now + int(self._rng.random() * every))

    def deny(self, ev: Ev, now: Ns) -> None:
        """The controller takes an EV out of use."""
        self._calm(ev)
        self._requester.evs.deny(ev, now)

    def allow(self, ev: Ev, now: Ns) -> None:
        """The controller's denial ends; an EV of a plane that is down is retired like the
        others."""
        if ev.state is not EvState.DENIED:
            return
        self._requester.evs.bring_back(ev, EvEvent.ALLOW, Cause.CONTROLLER, now)
        if not self._requester.qp.live_mask >> ev.plane & 1:
            self.retire(ev, EvEvent.PORT_DOWN, Cause.PORT, now)

    def stop(self) -> None:
        for ev in self._requester.evs.evs:
            self._calm(ev)
        self._probes.clear()
