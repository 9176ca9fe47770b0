"""The sending half of a QP: writes into packets, packets onto EVs, and what is heard of them.

It decides what to send next.  What must be sent again, is for `loss` to say; which EV, is the
EvSet's choice; how much may be in flight, congestion control's; which port is free, the endpoint's.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from hosts.mrc import choices
from hosts.mrc.cc.base import CongestionControl
from hosts.mrc.config import RemoteQp
from hosts.mrc.ev import Cause, Ev, EvEvent
from hosts.mrc.ev_set import EvSet
from hosts.mrc.health import Health
from hosts.mrc.loss import Loss
from hosts.mrc.message import Completion, CompletionKind, Message, Status, WriteRequest
from hosts.mrc.outstanding import ACKED, LOST, OUTSTANDING, Outstanding, Sent, Snapshot
from hosts.mrc.psn import PSN_MASK, serial_diff, unwrap
from hosts.mrc.services import Services
from hosts.mrc.silence import Silence
from hosts.mrc.timeline import Timeline
from hosts.mrc.timers import Timer, TimerKind
from hosts.mrc.units import MPR_UNIT_PSNS, NS_PER_S, Ns
from hosts.wire.aeth import Aeth, NakCode
from hosts.wire.nack import Nack, NackReason
from hosts.wire.opcode import Opcode
from hosts.wire.path import DATA_TRAFFIC_CLASS, RETX_TRAFFIC_CLASS
from hosts.wire.sack import BITMAP_BITS, RCVD_UNIT_BYTES, RCVD_UNITS_MODULO, EvHint, Sack
from hosts.wire.size import nominal_size

if TYPE_CHECKING:
    from hosts.mrc.qp import QueuePair

_FIRST, _MIDDLE, _LAST = int(Opcode.WRITE_FIRST), int(Opcode.WRITE_MIDDLE), int(Opcode.WRITE_LAST)
_ONLY, _IMM = int(Opcode.WRITE_ONLY), 1
"""An opcode with immediate is the one without, plus one."""

_EVIDENCE_MIN = choices.EVIDENCE_MIN_PAYLOAD_BYTES
_UNITS_HALF = RCVD_UNITS_MODULO // 2

NAK_STATUS = {
    NakCode.INVALID_REQUEST: Status.REMOTE_INVALID_REQUEST,
    NakCode.REMOTE_ACCESS_ERROR: Status.REMOTE_ACCESS_ERROR,
    NakCode.REMOTE_OPERATIONAL_ERROR: Status.REMOTE_OPERATION_ERROR,
}


class Requester:
    """Call order: post; while `ready()`, `transmit`; feed `receive_*` and `on_*_timer`."""

    __slots__ = (
        "_config", "_counters", "_dynamic_mpr", "_full_size", "_message",
        "_mpr", "_mpr_limit", "_msn", "_next_seq", "_pmtu", "_posted", "_rcvd_units", "_remote",
        "_rqmsn", "_services", "_tick_ns", "_timeline", "_tsr",
        "_unacked_messages", "_wimm_in_flight", "_wimm_max", "_wire_ns", "cc", "evs", "fail",
        "health", "loss", "outstanding", "qp", "silence",
    )  # fmt: skip

    def __init__(
        self,
        qp: "QueuePair",
        services: Services,
        evs: EvSet,
        cc: CongestionControl,
        first_seq: int,
        fail: Callable[[Status, str, Ns], None],
    ) -> None:
        config = services.config
        self.qp = qp
        self.evs = evs
        self.cc = cc
        self.outstanding = Outstanding(first_seq)
        self.health = Health(self, services)
        self.loss = Loss(self, services, first_seq)
        self._services = services
        self._config = config
        self._counters = services.counters
        self.fail = fail
        self._pmtu = config.pmtu
        self._full_size = nominal_size(config.pmtu)
        self._wire_ns = [8 * NS_PER_S / port.rate_bps for port in config.ports]
        """Per byte, by plane."""
        self._tick_ns = config.tick_ns
        self._tsr = int(config.tick_ns != 128)
        self._remote: RemoteQp | None = None
        self._mpr = self._mpr_limit = 0
        self._dynamic_mpr = False
        self._wimm_max = 0
        self._wimm_in_flight = 0
        self._posted: deque[Message] = deque()
        self._message: Message | None = None
        """The one being sent."""
        self._unacked_messages: deque[Message] = deque()
        self._msn = 0
        self._rqmsn = 0
        self._next_seq = first_seq
        self._timeline = Timeline(services, Timer(TimerKind.RETRANSMIT, self))
        self._rcvd_units = 0
        self.silence = Silence(self, services)
        for ev in evs.evs:
            ev.requester = self

    def connect(self, remote: RemoteQp) -> None:
        self._remote = remote
        self._mpr = self._mpr_limit = remote.mpr_units * MPR_UNIT_PSNS
        self._dynamic_mpr = self._config.dynamic_mpr and remote.dynamic_mpr
        self._wimm_max = remote.max_wimm

    def post(self, request: WriteRequest) -> None:
        if request.imm is not None:
            self._rqmsn += 1
        message = Message(request, self._msn, self._rqmsn, self._pmtu)
        self._msn += 1
        self._posted.append(message)
        if self._message is None:
            self._start_message()

    @property
    def has_work(self) -> bool:
        """Anything posted, in flight, or not yet acknowledged as done."""
        return bool(self._unacked_messages or self._posted)

    @property
    def is_sending(self) -> bool:
        """A message is in hand that has packets left to send."""
        return self._message is not None

    @property
    def is_waiting(self) -> bool:
        """For an acknowledgement of packets or of messages."""
        return bool(self._unacked_messages or self.outstanding.by_seq)

    # -- sending -----------------------------------------------------------------------------

    def ready(self) -> bool:
        """Whether windows let a packet go now; a port and an EV are the caller's business."""
        cc = self.cc
        inflight = cc.inflight_bytes
        if inflight + self._full_size > cc.cwnd_bytes and inflight > 0 and self.outstanding.by_seq:
            return False
        if self.loss.waiting and self._next_lost() is not None:
            return True
        return self._message is not None and self._next_seq - self.outstanding.cack <= self._mpr

    def transmit(self, free: int, now: Ns) -> tuple[int, bytes] | None:
        """The next packet as (plane, frame), on an EV of the planes in `free`; None if it had
        better wait for another plane's port.

        To be called only when `ready()`, with a plane in `free` that has EVs.
        """
        lost = self._next_lost() if self.loss.waiting else None
        if lost is not None:
            return self._retransmit(lost, free, now)
        message = self._message
        assert message is not None
        ev = self.evs.select(free, None, now, self.qp.live_mask)
        if ev is None:
            return None
        seq = self._next_seq
        self._next_seq = seq + 1
        index = message.next_index
        if index == 0:
            message.first_seq = seq
            self._unacked_messages.append(message)
            if message.imm is not None:
                self._wimm_in_flight += 1
        message.next_index = index + 1
        if index + 1 < message.packet_count:
            sent = Sent(seq, message, index, self._pmtu, self._full_size, ev, now)
        else:
            length = message.length - index * self._pmtu
            size = nominal_size(length, imm=message.imm is not None)
            sent = Sent(seq, message, index, length, size, ev, now)
            self._start_message()
        self._counters.tx_data_first += 1
        return self._put_out(sent, False, now)

    def _retransmit(self, lost: Sent, free: int, now: Ns) -> tuple[int, bytes] | None:
        ev = self.evs.select(free, lost.ev, now, self.qp.live_mask)
        if ev is None:
            return None
        self.loss.take_first()
        self._counters.tx_data_again += 1
        return self._put_out(lost.again(ev, now), True, now)

    def _put_out(self, sent: Sent, rtx: bool, now: Ns) -> tuple[int, bytes]:
        """Record a transmission and make its frame: one long function, being the hot path."""
        ev, seq, length = sent.ev, sent.seq, sent.length
        outstanding = self.outstanding
        outstanding.by_seq[seq] = sent
        ev.serial = sent.serial = ev.serial + 1
        newest = ev.newest
        if newest is None:
            ev.oldest = sent
        else:
            newest.follower = sent
        ev.newest = sent
        cc = self.cc
        cc.inflight_bytes = inflight = cc.inflight_bytes + sent.size
        self._timeline.add(sent)
        silence = self.silence
        silence.last_sent_ns = now
        silence.stalls = 0
        if silence.tail_timer.at is None or self._message is None:
            silence.watch(now)  # sooner, where nothing follows that would bring news
        message, index = sent.message, sent.index
        imm = None
        if index < message.packet_count - 1:
            opcode = _MIDDLE if index else _FIRST
        else:
            opcode = _LAST if index else _ONLY
            imm = message.imm
            if imm is not None:
                opcode += _IMM
        offset = index * self._pmtu
        self._counters.tx_data_payload_bytes += length
        ack_req = (
            rtx
            or inflight + self._full_size > cc.cwnd_bytes
            or self._message is None
            or seq - outstanding.cack >= self._mpr
        )
        # By place: names would cost a call with so many arguments a third of its time.
        frame = (ev.path or self.qp.path(ev)).emit_write(
            self.qp.remote_qpn, opcode, seq & PSN_MASK, message.view[offset : offset + length],
            message.rqmsn & 0xFFFF, message.msn & 0xFFFF, message.remote_va + offset, message.rkey,
            message.length, imm, now // self._tick_ns & 0xFFFF, self._tsr, ack_req, rtx,
            RETX_TRAFFIC_CLASS if rtx else DATA_TRAFFIC_CLASS,
        )  # fmt: skip
        return ev.plane, frame

    def _start_message(self) -> None:
        """Take the next posted message in hand, if there is one and MAX_WIMM lets it go."""
        self._message = None
        if self._posted:
            message = self._posted[0]
            if message.imm is None or self._wimm_in_flight < self._wimm_max:
                self._message = self._posted.popleft()

    def _next_lost(self) -> Sent | None:
        return self.loss.first(self.outstanding.cack + self._mpr)

    # -- what the peer says --------------------------------------------------------------------

    def receive_sack(self, sack: Sack, now: Ns) -> None:
        out = self.outstanding
        cack = unwrap(sack.cack_psn, out.cack)
        base = cack + sack.sack_offset
        room = self._next_seq - base  # PSNs from base on that were ever sent
        bitmap = sack.bitmap
        if cack >= self._next_seq or (room < BITMAP_BITS and bitmap >> max(room, 0)):
            self._counters.rx_control_invalid += 1
            return
        snapshot = Snapshot(cack, base, bitmap, cack + sack.ooo_count)
        fresh = snapshot.order >= out.newest_order
        if fresh:
            out.newest_order = snapshot.order
        trigger = None if sack.pr else out.by_seq.get(cack + sack.ack_psn_offset)
        if trigger is not None and trigger.ev.value == sack.entropy:
            ev: Ev | None = trigger.ev
            rtt_ns, clean = self._rtt_sample(trigger, now)
        else:
            trigger = None
            ev = self.evs.by_value.get(sack.entropy)
            rtt_ns, clean = None, False
        done = out.acknowledge(snapshot)
        self.silence.heard(now)
        if done:
            self._settle(done)
        if ev is not None:
            if sack.m:
                self._hint(ev, sack.m, now)
            elif self.evs.policy is not None:
                self.evs.policy.arrived(ev, now)
        self._account(sack, rtt_ns, clean, now)
        asked_ns = None
        if sack.pr:
            asked_ns = self.health.probe_answered(sack.probe_id, sack.m, now)
        if fresh:
            triggered_ns = trigger.sent_ns if trigger is not None else asked_ns or 0
            self.loss.judge(snapshot, triggered_ns, now)
            if asked_ns is not None and not self.ready():
                self.silence.answered(snapshot, asked_ns, now)
            if sack.mpr and self._dynamic_mpr:
                self._mpr = min(sack.mpr * MPR_UNIT_PSNS, self._mpr_limit)

    def _rtt_sample(self, sent: Sent, now: Ns) -> tuple[Ns | None, bool]:
        """(round trip of the packet that triggered a SACK, whether it may lower base RTT).

        The stored send time is the measure; that the EV is the same, tells that this transmission
        arrived.  Frames go out whole, when their last bit would, so the time on our own wire is
        added.  A packet sent again may not, nor a short one: it is serialised faster than those
        that the window is for, and base RTT never rises again.
        """
        if sent.state != OUTSTANDING:
            return None, False
        on_our_wire_ns = int(sent.size * self._wire_ns[sent.ev.plane])
        self.silence.rtt_ns = rtt_ns = now - sent.sent_ns + on_our_wire_ns
        return rtt_ns, sent.transmissions == 1 and sent.size == self._full_size

    def _settle(self, done: list[Sent]) -> None:
        """Packets acknowledged for the first time, oldest first."""
        evs = self.evs
        reverse = evs.reverse
        by_seq = self.outstanding.by_seq
        for sent in done:
            if sent.state == LOST:
                self.cc.inflight_bytes += sent.size  # it was written off, and rcvd_bytes counts it
                self._counters.late_arrivals += 1
            sent.state = ACKED
            ev = sent.ev
            first = sent.transmissions == 1
            if first:
                reverse[ev.plane] = evs.proven = ev
            if ev.oldest is sent:  # Ev.drop_oldest, without the call
                ev.oldest = follower = sent.follower
                if follower is None:
                    ev.newest = None
                else:
                    sent.follower = None
            elif first and sent.length >= _EVIDENCE_MIN:
                self.loss.overtaken(ev, sent.serial)
            oldest = ev.oldest
            if not first or (oldest is not None and oldest.seq not in by_seq):
                self._forget(sent)

    def _forget(self, sent: Sent | None) -> None:
        """What has arrived by whatever way is no evidence any more: not of its EV either."""
        by_seq = self.outstanding.by_seq
        while sent is not None:
            ev = sent.ev
            while (oldest := ev.oldest) is not None and oldest.seq not in by_seq:
                ev.drop_oldest()
            sent = sent.past

    def _hint(self, ev: Ev, hint: int, now: Ns) -> None:
        self._counters.ev_marks += 1
        if hint == EvHint.SKIP_ONCE:
            self.evs.congested(ev, EvEvent.MARKED)
        elif hint == EvHint.ALWAYS_SKIP:
            self.health.retire(ev, EvEvent.ALWAYS_SKIP, Cause.ALWAYS_SKIP, now)

    def _account(self, sack: Sack, rtt_ns: Ns | None, clean: bool, now: Ns) -> None:
        """Congestion control's share: bytes that arrived since the newest SACK, mark, delay."""
        units = (sack.rcvd_units - self._rcvd_units) % RCVD_UNITS_MODULO
        if units >= _UNITS_HALF:
            units = 0  # an older SACK
        elif units:
            self._rcvd_units = sack.rcvd_units
        self.cc.on_ack(
            units * RCVD_UNIT_BYTES,
            marked=sack.m != 0,
            rtt_ns=rtt_ns,
            rtt_is_clean=clean,
            penalty=sack.rcv_cwnd_pen,
            restore=sack.restore_cwnd,
            now=now,
        )

    def receive_nack(self, nack: Nack, now: Ns) -> None:
        reason = nack.reason
        if reason == NackReason.UNEXP_EVENT:
            self.fail(Status.REMOTE_OPERATION_ERROR, "nack_unexpected_event", now)
            return
        trimmed = reason == NackReason.TRIMMED or reason == NackReason.TRIMMED_LASTHOP
        last_hop = reason == NackReason.TRIMMED_LASTHOP
        seq = unwrap(nack.nack_psn, self.outstanding.cack)
        ev = self.evs.by_value.get(nack.entropy)
        self.silence.heard(now)
        if ev is not None:
            if trimmed:
                self._counters.ev_trims += 1
                if last_hop:
                    self.health.last_hop_trim(ev.plane, now)
                else:
                    self.evs.congested(ev, EvEvent.TRIMMED)
            self.health.path_works(ev, seq)
        sent = self.outstanding.by_seq.get(seq)
        if sent is None:
            return
        if sent.ev is not ev or sent.state != OUTSTANDING:
            self._excuse_older(ev, seq)
            return
        self.loss.refused(sent, trimmed=trimmed, last_hop=last_hop, now=now)

    def _excuse_older(self, ev: Ev | None, seq: int) -> None:
        """The NACK of a transmission that was given up before: its EV is cleared of it."""
        sent = ev.oldest if ev is not None else None
        while sent is not None:
            if sent.seq == seq:
                sent.excused = True
            sent = sent.follower

    def receive_ack(self, aeth: Aeth, now: Ns) -> None:
        """A transport ACK completes messages; a NAK ends the QP."""
        if aeth.is_nak:
            code = aeth.nak_code
            status = NAK_STATUS.get(NakCode(code)) if code <= 3 else None
            self.fail(status or Status.REMOTE_OPERATION_ERROR, f"nak_{code}", now)
            return
        messages = self._unacked_messages
        completed = aeth.msn - choices.AETH_MSN_OFFSET
        while messages and serial_diff(completed, messages[0].msn, 24) > 0:
            message = messages[0]
            if message.next_index < message.packet_count:
                self._counters.rx_control_invalid += 1
                return
            messages.popleft()
            self._complete(message, Status.SUCCESS, now)
            if message.imm is not None:
                self._wimm_in_flight -= 1
                if self._message is None:
                    self._start_message()
        self.silence.heard(now)

    def _complete(self, message: Message, status: Status, now: Ns) -> None:
        if status is Status.SUCCESS:
            self._counters.messages_sent += 1
        self._services.completions.append(
            Completion(
                self.qp.qpn, message.wr_id, CompletionKind.SEND, status, message.imm,
                message.length, now,
            )
        )  # fmt: skip

    def on_retransmit_timer(self, now: Ns) -> None:
        for sent in self._timeline.expired(now):
            if sent.seq in self.outstanding.by_seq:  # or the QP has failed over the one before
                self.loss.timed_out(sent, now)

    # -- the end -------------------------------------------------------------------------------

    def flush(self, status: Status, now: Ns) -> None:
        """Complete everything: the oldest message with the reason, the rest as flushed."""
        messages = list(self._unacked_messages)
        if self._message is not None and self._message.next_index == 0:
            messages.append(self._message)
        messages += self._posted
        for message in messages:
            self._complete(message, status, now)
            status = Status.FLUSHED
        self._unacked_messages.clear()
        self._posted.clear()
        self._message = None
        self.outstanding.by_seq.clear()
        self._timeline.clear()
        self.loss.forget()
        self.silence.stop()
        self.health.stop()
