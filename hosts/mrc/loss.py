"""What a requester takes for lost and sends again.

How loss is told from delay:

* a NACK says so (trimmed, refused);
* ORDER: one EV is one first-in-first-out path, so when a later packet on the same EV was
  received and a snapshot no older than that lacks this one, it is lost;
* TOLERANCE: packets far behind it, on other paths, were received, or a probe sent long after it:
  send it again, but other paths prove nothing about this one;
* TIMEOUT: the derived RTO passed;
* the port it left by lost its carrier, or the peer's did.

Only ORDER and TIMEOUT can retire an EV (see `health`), and neither does while trims are coming
from the last hop of that plane, where a trimmed packet that found no room leaves no trace.
"""

import heapq
from typing import TYPE_CHECKING

from hosts.mrc import choices
from hosts.mrc.ev import Ev
from hosts.mrc.message import Status
from hosts.mrc.outstanding import LOST, OUTSTANDING, Sent, Snapshot
from hosts.mrc.services import Services
from hosts.mrc.units import Ns
from hosts.wire.size import nominal_size

if TYPE_CHECKING:
    from hosts.mrc.requester import Requester


class Loss:
    """`waiting`: a heap of seqs to be sent again; entries that are no longer LOST are skipped."""

    __slots__ = (
        "_budget", "_counters", "_full_size", "_requester", "_suspects", "scanned_seq", "waiting",
    )  # fmt: skip

    def __init__(self, requester: "Requester", services: Services, first_seq: int) -> None:
        self._requester = requester
        self._counters = services.counters
        self._budget = services.config.retry_budget
        self._full_size = nominal_size(services.config.pmtu)
        self.waiting: list[int] = []
        self._suspects: list[Sent] = []
        """Overtaken on their own path; lost as soon as a snapshot that covers them lacks them."""
        self.scanned_seq = first_seq
        """Up to here TOLERANCE has been applied."""

    # -- to be sent again ------------------------------------------------------------------------

    def first(self, highest_seq: int) -> Sent | None:
        """The lowest packet to be sent again, if it is not above `highest_seq` (Dynamic MPR)."""
        waiting, by_seq = self.waiting, self._requester.outstanding.by_seq
        while waiting:
            sent = by_seq.get(waiting[0])
            if sent is not None and sent.state == LOST:
                return sent if waiting[0] <= highest_seq else None
            heapq.heappop(waiting)
        return None

    def take_first(self) -> None:
        """What `first` told is being sent."""
        heapq.heappop(self.waiting)

    # -- evidence --------------------------------------------------------------------------------

    def overtaken(self, ev: Ev, serial: int) -> None:
        """Something sent on this EV as number `serial` arrived: what was sent before it should
        have."""
        by_seq = self._requester.outstanding.by_seq
        while (sent := ev.oldest) is not None and sent.serial <= serial:
            ev.drop_oldest()
            if sent.serial != serial and not sent.excused and sent.seq in by_seq:
                self._suspects.append(sent)

    def judge(self, snapshot: Snapshot, asked_ns: Ns, now: Ns) -> None:
        """The newest snapshot was taken in: what does it prove lost?

        `asked_ns`: when the packet that it answers was sent; 0 if that is not known.
        """
        if self._suspects:
            self._judge_suspects(snapshot, now)
        out = self._requester.outstanding
        if out.highest_received != out.cack:  # or there are no holes
            self._scan(asked_ns - self._patience_ns(), now)

    def _patience_ns(self) -> Ns:
        return int(choices.REORDER_TOLERANCE_RTTS * self._requester.silence.round_trip_ns)

    def _judge_suspects(self, snapshot: Snapshot, now: Ns) -> None:
        """Turn suspects into losses where this snapshot covers them with 0."""
        requester = self._requester
        by_seq = requester.outstanding.by_seq
        undecided = []
        for sent in self._suspects:
            if sent.seq not in by_seq or sent.excused:
                continue
            if not snapshot.lacks(sent.seq):
                undecided.append(sent)
                continue
            if sent.state == OUTSTANDING:
                self._counters.rtx_order += 1
                self._lose(sent, now)
            requester.health.doubt_order(sent.ev, sent, now)
        self._suspects = undecided

    def _scan(self, sent_until_ns: Ns, now: Ns) -> None:
        """Send again what packets far behind have overtaken on other paths; once for each.

        Far behind is by so many packets, or sent so long after it.
        """
        requester = self._requester
        out = requester.outstanding
        windows = choices.REORDER_TOLERANCE_WINDOWS * requester.cc.cwnd_bytes / self._full_size
        limit = out.highest_received - max(int(windows), choices.REORDER_TOLERANCE_MIN_PACKETS)
        seq, top = self.scanned_seq, out.highest_received
        by_seq = out.by_seq
        while seq <= top:
            sent = by_seq.get(seq)
            if seq > limit and sent is not None:
                missing = sent.state == OUTSTANDING and out.was_missing(seq)
                if sent.sent_ns > sent_until_ns or not missing:
                    break
            if (
                sent is not None
                and sent.state == OUTSTANDING
                and sent.transmissions == 1
                and out.was_missing(seq)
            ):
                self._counters.rtx_tolerance += 1
                self._lose(sent, now)
                requester.health.doubt_silence(sent.ev, sent, now)
            seq += 1
        self.scanned_seq = seq

    def overdue(self, snapshot: Snapshot, asked_ns: Ns, now: Ns) -> None:
        """A probe sent at `asked_ns` has arrived: so should have what was sent long before it."""
        sent_until_ns = asked_ns - self._patience_ns()
        out = self._requester.outstanding
        for sent in out.all():
            if sent.sent_ns > sent_until_ns or sent.state != OUTSTANDING:
                continue
            if sent.seq in out.by_seq and snapshot.lacks(sent.seq):
                self._counters.rtx_tolerance += 1
                self._lose(sent, now)
                self._requester.health.doubt_silence(sent.ev, sent, now)

    def refused(self, sent: Sent, *, trimmed: bool, last_hop: bool, now: Ns) -> None:
        """A NACK names it: its path works, and it has to be sent again."""
        sent.excused = True
        if trimmed:
            self._counters.rtx_trim += 1
        else:
            self._counters.rtx_refused += 1
        self._requeue(sent)
        if not trimmed or choices.TRIM_CONSUMES_RETRIES:
            self._consume_retry(sent, now)
        self._requester.cc.on_trim(sent.size, last_hop=last_hop, now=now)

    def timed_out(self, sent: Sent, now: Ns) -> None:
        sent.timeouts += 1
        self._counters.rtx_timeout += 1
        self._lose(sent, now)
        self._requester.health.doubt_silence(sent.ev, sent, now)

    def plane_gone(self, plane: int) -> None:
        """The port of that plane is gone, ours or the peer's: all that left by it goes again."""
        requester = self._requester
        for sent in requester.outstanding.all():
            if sent.ev.plane == plane and sent.state == OUTSTANDING:
                sent.excused = True
                self._counters.rtx_port += 1
                self._requeue(sent)
                requester.cc.on_requeue(sent.size)

    # -- what follows ----------------------------------------------------------------------------

    def _lose(self, sent: Sent, now: Ns) -> None:
        self._requeue(sent)
        self._requester.cc.on_loss(sent.size)
        self._consume_retry(sent, now)

    def _requeue(self, sent: Sent) -> None:
        sent.state = LOST
        heapq.heappush(self.waiting, sent.seq)

    def _consume_retry(self, sent: Sent, now: Ns) -> None:
        sent.retries += 1
        if self._budget is not None and sent.retries > self._budget:
            self._requester.fail(Status.RETRY_EXCEEDED, "retry_exceeded", now)

    def forget(self) -> None:
        self.waiting.clear()
        self._suspects.clear()
