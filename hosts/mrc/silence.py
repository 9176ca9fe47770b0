"""What a requester does when nothing is heard, or nothing can be sent.

*Tail*: packets are in flight (or messages unacknowledged), nothing may be sent that would bring
  news, and none has come for longer than a round trip: a reliability probe asks.  The
  retransmission timeout is much longer, being derived from full queues everywhere.

*Stall*: there is something to send and no plane to send it on.  The retry budget runs all the
  same, so that a NIC without ports does not wait for ever.
"""

from typing import TYPE_CHECKING

from hosts.mrc.ev import IN_USE
from hosts.mrc.message import Status
from hosts.mrc.outstanding import OUTSTANDING, Snapshot
from hosts.mrc.services import Services
from hosts.mrc.timers import Timer, TimerKind
from hosts.mrc.units import Ns

if TYPE_CHECKING:
    from hosts.mrc.requester import Requester


class Silence:
    """`heard` and `last_sent_ns` are kept up by the requester; `rtt_ns` is its last sample."""

    __slots__ = (
        "_config", "_counters", "_heard_ns", "_requester", "_timers", "_tries", "last_sent_ns",
        "rtt_ns", "stall_timer", "stalls", "tail_timer",
    )  # fmt: skip

    def __init__(self, requester: "Requester", services: Services) -> None:
        self._requester = requester
        self._config = services.config
        self._counters = services.counters
        self._timers = services.timers
        self._heard_ns = 0
        self._tries = 0
        """Probes since anything was heard."""
        self.last_sent_ns = 0
        self.rtt_ns = services.config.base_rtt_ns
        self.stalls = 0
        """Timeouts since anything was sent."""
        self.tail_timer = Timer(TimerKind.TAIL, self)
        self.stall_timer = Timer(TimerKind.STALL, self)

    @property
    def round_trip_ns(self) -> Ns:
        """The last one, and no less than the base RTT."""
        return max(self._config.base_rtt_ns, self.rtt_ns)

    def heard(self, now: Ns) -> None:
        """The peer said something about this QP's packets or messages."""
        self._heard_ns = now
        self._tries = 0

    def watch(self, now: Ns) -> None:
        """A packet was sent and the tail timer is stopped: start it."""
        self._timers.set(self.tail_timer, now + self._wait())

    def stop(self) -> None:
        self._timers.stop(self.tail_timer)
        self._timers.stop(self.stall_timer)

    # -- tail ------------------------------------------------------------------------------------

    def _wait(self) -> Ns:
        """How long to wait for a word before asking (htsim: base RTT + target; 3 base RTT if
        busy)."""
        requester = self._requester
        rtt = self.round_trip_ns
        rto = self._config.rto_ns
        wait = rtt + rtt * 3 // 4
        if requester.is_sending and requester.ready():
            wait = max(3 * rtt, rto // 2)  # SACKs for what is sent meanwhile will tell
        return min(wait << min(self._tries, 16), max(wait, rto))

    def on_tail_timer(self, now: Ns) -> None:
        """Ask, if there is still something to ask about and nothing was heard."""
        requester = self._requester
        if not requester.is_waiting:
            return
        quiet_since = self._heard_ns
        if self._tries == 0 and self.last_sent_ns > quiet_since:
            quiet_since = self.last_sent_ns
        due = quiet_since + self._wait()
        if due > now:
            self._timers.set(self.tail_timer, due)
        elif self._ask(now):
            self._tries += 1
            self._timers.set(self.tail_timer, now + self._wait())

    def _ask(self, now: Ns) -> bool:
        """Send a probe; False if the QP has failed instead.

        First on the path of the newest packet, which asked for an ACK: it or its SACK was lost.
        """
        requester = self._requester
        newest = requester.outstanding.newest()
        budget = self._config.retry_budget
        if newest is None and budget is not None and self._tries > budget:
            # All was received, and yet its acknowledgement never comes.
            requester.fail(Status.RETRY_EXCEEDED, "no_transport_ack", now)
            return False
        ev = None
        if newest is not None and newest.ev.state in IN_USE:
            ev = newest.ev
        live_mask = requester.qp.live_mask
        if ev is None or self._tries:
            ev = requester.evs.select(live_mask, None, now) or ev
        if ev is not None and live_mask >> ev.plane & 1:
            self._counters.tail_probes += 1
            requester.health.send_probe(ev, now)
        return True

    def answered(self, snapshot: Snapshot, asked_ns: Ns, now: Ns) -> None:
        """A probe sent at `asked_ns` was answered and nothing goes out: packets of other paths that
        are lacking are overdue, or else the oldest's own path is asked."""
        requester = self._requester
        requester.loss.overdue(snapshot, asked_ns, now)
        oldest = requester.outstanding.oldest()
        if (
            oldest is not None
            and oldest.state == OUTSTANDING
            and oldest.sent_ns < asked_ns
            and snapshot.lacks(oldest.seq)
            and oldest.ev.doubt is None
        ):
            self._counters.tail_probes += 1
            requester.health.send_probe(oldest.ev, now)

    # -- stall -----------------------------------------------------------------------------------

    def stalled(self, now: Ns) -> None:
        """There is something to send and no plane to send it on."""
        if self.stall_timer.at is None:
            self._timers.set(self.stall_timer, now + self._config.retry_timeout_ns(self.stalls))

    def on_stall_timer(self, now: Ns) -> None:
        requester = self._requester
        if requester.evs.plane_mask & requester.qp.live_mask or not requester.has_work:
            self.stalls = 0
            return
        self.stalls += 1
        budget = self._config.retry_budget
        if budget is not None and self.stalls > budget:
            requester.fail(Status.RETRY_EXCEEDED, "no_plane", now)
        else:
            self.stalled(now)
