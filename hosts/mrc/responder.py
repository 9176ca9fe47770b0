"""The receiving half of a QP: places what arrives, in any order, and says what arrived.

Two kinds of answer, kept apart: the SACK is about packets (reliability, path and congestion
state), the transport ACK about messages (RDMA semantics).  Completions of immediates come in the
order of messages: a message is complete when cack has reached its last PSN, since by then
everything before it was placed as well.
"""

import heapq
from collections.abc import Callable
from typing import TYPE_CHECKING

from hosts.errors import UsageError
from hosts.mrc import choices
from hosts.mrc.config import RemoteQp
from hosts.mrc.ev_counts import EvCounts
from hosts.mrc.message import Completion, CompletionKind, Status
from hosts.mrc.psn import PSN_MASK, unwrap
from hosts.mrc.reorder import ReorderWindow
from hosts.mrc.services import Services
from hosts.mrc.units import Ns
from hosts.wire.aeth import Aeth, NakCode
from hosts.wire.dscp import Ecn
from hosts.wire.nack import Nack, NackReason
from hosts.wire.opcode import ENDS_MESSAGE
from hosts.wire.packet import Packet
from hosts.wire.sack import BITMAP_BITS, RCVD_UNIT_BYTES, RCVD_UNITS_MODULO, EvHint, Sack
from hosts.wire.size import NOMINAL_OVERHEAD_BYTES

if TYPE_CHECKING:
    from hosts.mrc.qp import QueuePair

_CE = int(Ecn.CE)
_SKIP_ONCE = int(EvHint.SKIP_ONCE)
_ENDS = frozenset(int(opcode) for opcode in ENDS_MESSAGE)
_CREDIT_MIN = choices.SACK_CREDIT_MIN_BYTES


class Responder:
    __slots__ = (
        "_ack_due_seq", "_acked_count", "_config", "_counters", "_credit", "_dynamic_mpr", "_ends",
        "_fail", "_imm_count", "_memory", "_mpr", "_nak", "_pmtu", "_qp", "_rcvd_bytes",
        "_services", "_stashed_imms", "_the_sack", "_trigger", "_trimmed_seq", "completed_count",
        "delivered", "duplicate", "mpr_units", "rejected", "trimmed", "window",
    )  # fmt: skip

    def __init__(
        self, qp: "QueuePair", services: Services, fail: Callable[[Status, str, Ns], None]
    ) -> None:
        config = services.config
        self._qp = qp
        self._services = services
        self._config = config
        self._counters = services.counters
        self._memory = services.memory
        self._fail = fail
        self._mpr = config.mpr_psns
        self._dynamic_mpr = False
        self.mpr_units = config.mpr_units
        self._trigger = config.sack_trigger_bytes
        self._pmtu = config.pmtu
        self.window = ReorderWindow(0)
        self._rcvd_bytes = 0
        self._credit = 0
        """Bytes accepted since the last SACK."""
        self._ack_due_seq: int | None = None
        """An out-of-order packet asked for an ACK: due when cack gets there."""
        self._ends: list[tuple[int, int, int | None]] = []
        """Heap of (seq, message length, immediate) of last packets above cack."""
        self._stashed_imms = 0
        self._imm_count = 0
        self.completed_count = 0
        self._acked_count = 0
        self._trimmed_seq = -1
        """The newest that came trimmed.  Until it and all before it are here, every packet is
        answered: the packet that should have called forth a SACK may be the one that was cut, and
        the sender's window may have closed on what no SACK has told it of."""
        self._the_sack = Sack(cack_psn=0, entropy=0)
        self._nak: tuple[NakCode, int] | None = None
        self.delivered = EvCounts()
        """Data packets by EV and by what became of them; each is in one of the four."""
        self.duplicate = EvCounts()
        self.trimmed = EvCounts()
        self.rejected = EvCounts()

    def connect(self, remote: RemoteQp) -> None:
        self.window = ReorderWindow(remote.psn)
        self._dynamic_mpr = self._config.dynamic_mpr and remote.dynamic_mpr
        self._the_sack.spdcid = self._qp.qpn & 0xFFFF
        self._the_sack.dpdcid = remote.qpn & 0xFFFF

    def set_mpr(self, units: int) -> None:
        """Announce a smaller (or again larger) window with the next SACK: Dynamic MPR.

        What is under way may still fill the window of before, so that is what is accepted.  Raises
        UsageError if the two ends did not agree on Dynamic MPR, or beyond the window at set-up.
        """
        if not self._dynamic_mpr or not 1 <= units <= self._config.mpr_units:
            raise UsageError(f"MPR of {units} units cannot be announced")
        self.mpr_units = units

    # -- data ------------------------------------------------------------------------------------

    def receive_write(self, p: Packet, now: Ns) -> None:
        window = self.window
        seq = unwrap(p.psn, window.cack)
        if p.trimmed:
            self._trimmed(p, seq)
            return
        ahead = seq - window.cack
        if ahead <= 0 or (ahead > 1 and window.has(seq)):
            self._duplicate(p, seq)
            return
        if ahead > self._mpr:
            self._counters.rx_data_window += 1
            self.rejected.count(p.ev)
            if choices.ABOVE_WINDOW_NACK:
                self._send_nack(p, seq, NackReason.PSN_OOR_WINDOW)
            return
        length = len(p.payload)
        refusal = None
        if (
            length > self._pmtu
            or length > p.dma_length
            or (p.imm is not None and ahead > 1 and self._stashed_imms >= self._config.max_wimm)
        ):
            refusal = NakCode.INVALID_REQUEST
        elif length:
            refusal = self._memory.place(p.rkey, p.va, p.payload, self._qp.pd)
        if refusal is not None:
            self._counters.rx_data_naked += 1
            self.rejected.count(p.ev)
            self._refuse(refusal, seq, now)
            return
        counters = self._counters
        counters.rx_data_new += 1
        self.delivered.count(p.ev)
        counters.rx_payload_bytes += length
        self._rcvd_bytes += p.udp_payload_length + NOMINAL_OVERHEAD_BYTES
        self._credit += length if length > _CREDIT_MIN else _CREDIT_MIN
        window.accept(seq)
        ends = self._ends
        if p.opcode in _ENDS:
            heapq.heappush(ends, (seq, p.dma_length, p.imm))
            if p.imm is not None:
                self._stashed_imms += 1
        cack = window.cack
        if ends and ends[0][0] <= cack:
            self._complete(now)
        marked = p.outer_ecn == _CE
        if marked:
            counters.rx_data_marked += 1
        due = self._ack_due_seq
        if p.ack_req and cack < seq and (due is None or due < seq):
            self._ack_due_seq = seq
        elif due is not None and cack >= due:
            self._ack_due_seq = None
            self._send_sack(p, seq, marked)
            return
        if (
            marked
            or p.ack_req
            or p.rtx
            or self._credit >= self._trigger
            or cack < self._trimmed_seq
            or window.highest - seq >= BITMAP_BITS
        ):
            self._send_sack(p, seq, marked)

    def _duplicate(self, p: Packet, seq: int) -> None:
        marked = p.outer_ecn == _CE
        if marked:
            self._counters.rx_data_marked += 1
        self._counters.rx_data_duplicate += 1
        self._qp.reverse.unheard()
        self.duplicate.count(p.ev)
        self._send_sack(p, seq, marked)

    def _trimmed(self, p: Packet, seq: int) -> None:
        """Nothing of it is believed but who sent it and what it was."""
        self.trimmed.count(p.ev)
        if p.trimmed_last_hop:
            self._counters.rx_data_trimmed_lasthop += 1
            reason = NackReason.TRIMMED_LASTHOP
        else:
            self._counters.rx_data_trimmed += 1
            reason = NackReason.TRIMMED
        if self.window.has(seq):
            self._send_sack(p, seq, p.outer_ecn == _CE)
        elif self._config.trim_nack and self._nak is None:
            self._send_nack(p, seq, reason)
            if self._trimmed_seq < seq <= self.window.cack + self._mpr:
                self._trimmed_seq = seq
            if self._credit:
                self._send_waiting(p)

    def _send_waiting(self, p: Packet) -> None:
        """A SACK about what came before a trimmed packet; no round trip is measured by it."""
        self._credit = 0
        sack = self._sack(self.window.sack_base(self.window.highest), p.ev, p.tx_ticks, False)
        sack.ack_psn_offset = 0
        self._qp.send_control(sack, sack.cack_psn)
        self._counters.tx_sack += 1

    def _complete(self, now: Ns) -> None:
        """Messages whose last packet cack has reached."""
        ends, cack = self._ends, self.window.cack
        while ends and ends[0][0] <= cack:
            _, length, imm = heapq.heappop(ends)
            self.completed_count += 1
            self._counters.messages_completed += 1
            if imm is None:
                continue
            self._stashed_imms -= 1
            self._services.completions.append(
                Completion(
                    self._qp.qpn, self._imm_count, CompletionKind.RECV_IMM, Status.SUCCESS, imm,
                    length, now,
                )
            )  # fmt: skip
            self._imm_count += 1

    # -- answers ---------------------------------------------------------------------------------

    def _send_sack(self, p: Packet, seq: int, marked: bool) -> None:
        self._credit = 0
        sack = self._sack(self.window.sack_base(seq), p.ev, p.tx_ticks, marked)
        sack.ack_psn_offset = seq - self.window.cack
        if not -0x8000 <= sack.ack_psn_offset <= 0x7FFF:
            sack.ack_psn_offset = 0  # an ancient duplicate: only its arrival is worth telling
        self._qp.send_control(sack, sack.cack_psn)
        self._counters.tx_sack += 1
        if self.completed_count > self._acked_count:
            self._send_ack()

    def _sack(self, base: int, ev: int, tx_ticks: int, marked: bool) -> Sack:
        """The one SACK object of this QP, filled in anew: it is on the wire before the next."""
        window = self.window
        sack = self._the_sack
        cack = window.cack
        sack.cack_psn = cack & PSN_MASK
        sack.entropy = ev
        sack.m = _SKIP_ONCE if marked else 0
        sack.pr = False
        sack.sack_offset = base - cack
        sack.bitmap = window.bitmap(base) if window.ooo_count else 0
        sack.tx_ticks = tx_ticks
        sack.ooo_count = window.ooo_count & 0x7FFF
        sack.rcvd_units = -(-self._rcvd_bytes // RCVD_UNIT_BYTES) % RCVD_UNITS_MODULO
        if self._dynamic_mpr:
            sack.mpr = self.mpr_units
        return sack

    def _send_ack(self) -> None:
        self._acked_count = self.completed_count
        self._qp.send_control(Aeth.ack(self._aeth_msn()), self.window.cack & PSN_MASK)
        self._counters.tx_ack += 1

    def _aeth_msn(self) -> int:
        return (self.completed_count + choices.AETH_MSN_OFFSET) & 0xFFFFFF

    def _send_nack(self, p: Packet, seq: int, reason: NackReason) -> None:
        nack = Nack(
            reason=reason,
            nack_psn=seq & PSN_MASK,
            entropy=p.ev,
            tx_ticks=p.tx_ticks,
            spdcid=self._qp.qpn & 0xFFFF,
            dpdcid=self._qp.remote_qpn & 0xFFFF,
        )
        self._qp.send_control(nack, nack.nack_psn, only_one=True)
        self._counters.tx_nack += 1

    def receive_probe(self, p: Packet) -> None:
        """Answer with the lowest part of the window, which is where holes are, on several
        paths."""
        assert p.peth is not None
        self._qp.reverse.unheard()
        marked = p.outer_ecn == _CE
        sack = self._sack(self.window.cack + 1, p.ev, p.peth.tx_ticks, marked)
        sack.pr = True
        sack.ack_psn_offset = p.peth.probe_id
        for ev in self._qp.reverse.apart(choices.PROBE_REPLY_PATHS):
            self._qp.send_control_on(ev, sack, sack.cack_psn)
            self._counters.tx_sack += 1
        if self.completed_count:
            self._send_ack()  # the one before may have been lost

    # -- refusal ---------------------------------------------------------------------------------

    def invalid_opcode(self, psn: int, now: Ns) -> None:
        """An intact packet of a kind that is none of MRC's (a READ, say)."""
        self._refuse(NakCode.INVALID_REQUEST, psn, now)

    def _refuse(self, code: NakCode, seq: int, now: Ns) -> None:
        self._nak = code, seq & PSN_MASK
        self._send_nak()
        self._fail(Status.FLUSHED, f"nak_sent_{code.name.lower()}", now)

    def _send_nak(self) -> None:
        assert self._nak is not None
        code, psn = self._nak
        self._qp.send_control(Aeth.nak(code, self._aeth_msn()), psn)
        self._counters.tx_nak += 1

    def receive_in_error(self, p: Packet) -> None:
        """Data for a QP in ERROR: the NAK again where the peer waits for a word."""
        self._counters.rx_data_naked += 1
        self.rejected.count(p.ev)
        if self._nak is not None and (p.ack_req or p.rtx):
            self._send_nak()
