"""What a requester has sent and not yet heard of, and what SACKs said about it.

Of every PSN above cack the requester knows one of three things: nothing yet, that it was
received, or that a bitmap covered it with 0 (`was_missing`).  Only the last is evidence of loss;
what no bitmap ever covered is left to the timeout or a probe (design section 7).
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hosts.mrc.units import Ns
from hosts.wire.sack import BITMAP_BITS

if TYPE_CHECKING:
    from hosts.mrc.ev import Ev
    from hosts.mrc.message import Message

_MASK_64 = (1 << BITMAP_BITS) - 1


# States of a transmission; plain integers, since every packet is compared with them.

OUTSTANDING = 0
LOST = 1
"""Declared lost (or trimmed, or its port went down); waits to be sent again."""
SUPERSEDED = 2
"""Sent again: another transmission of the same PSN counts now."""
ACKED = 3


class Sent:
    """One transmission of one PSN."""

    __slots__ = (
        "deadline_ns", "ev", "excused", "follower", "index", "length", "message", "past", "retries",
        "sent_ns", "seq", "serial", "size", "state", "timeouts", "transmissions",
    )  # fmt: skip

    def __init__(
        self, seq: int, message: "Message", index: int, length: int, size: int, ev: "Ev", now: Ns
    ) -> None:
        self.seq = seq
        self.message = message
        self.index = index
        self.length = length
        self.size = size
        self.ev = ev
        self.sent_ns = now
        self.state = OUTSTANDING
        self.excused = False
        """Known not to tell anything about its EV: trimmed, refused, or caught by a port event."""
        self.follower: Sent | None = None
        """The next transmission on the same EV."""
        self.past: Sent | None = None
        """The transmission that this one repeats."""
        self.transmissions = 1
        self.retries = 0
        self.timeouts = 0

    deadline_ns: Ns
    serial: int

    def again(self, ev: "Ev", now: Ns) -> "Sent":
        """The next transmission of the same packet; this one is superseded."""
        sent = Sent(self.seq, self.message, self.index, self.length, self.size, ev, now)
        sent.past = self
        sent.transmissions = self.transmissions + 1
        sent.retries = self.retries
        sent.timeouts = self.timeouts
        self.state = SUPERSEDED
        return sent


class Snapshot:
    """The receiver's state at one moment, as one SACK told it; seqs are unwrapped.

    `order` grows by one with every packet that the receiver accepts (cack + packets above it), so
    it tells which of two snapshots is the later, whatever way the SACKs took.
    """

    __slots__ = ("base", "bitmap", "cack", "order")

    def __init__(self, cack: int, base: int, bitmap: int, order: int) -> None:
        self.cack = cack
        self.base = base
        self.bitmap = bitmap
        self.order = order

    def lacks(self, seq: int) -> bool:
        """Whether it says that this packet had not arrived.  Silence is not a no."""
        if seq == self.cack + 1:
            return True  # or cack would be higher
        bit = seq - self.base
        return seq > self.cack and 0 <= bit < BITMAP_BITS and not self.bitmap >> bit & 1


class Outstanding:
    """Packets by seq, and the received and missing bits above cack."""

    __slots__ = ("_covered", "_received", "by_seq", "cack", "highest_received", "newest_order")

    def __init__(self, first_seq: int) -> None:
        self.by_seq: dict[int, Sent] = {}
        self.cack = first_seq - 1
        self.highest_received = first_seq - 1
        self.newest_order = first_seq - 1
        self._received = 0
        self._covered = 0
        """Bit i is seq cack + 1 + i."""

    def __len__(self) -> int:
        return len(self.by_seq)

    def acknowledge(self, snapshot: Snapshot) -> list[Sent]:
        """Take in a snapshot; returns what it acknowledged for the first time, oldest first.

        The caller has checked that it acknowledges nothing that was not sent.
        """
        done: list[Sent] = []
        by_seq = self.by_seq
        ahead = snapshot.cack - self.cack
        if ahead > 0:
            for seq in range(self.cack + 1, snapshot.cack + 1):
                sent = by_seq.pop(seq, None)
                if sent is not None:
                    done.append(sent)
            self._received >>= ahead
            self._covered >>= ahead
            self.cack = snapshot.cack
            if snapshot.cack > self.highest_received:
                self.highest_received = snapshot.cack
        self._take_bitmap(snapshot, done)
        while self._received & 1:  # a snapshot overtaken on its way joins what came before it
            self._received >>= 1
            self._covered >>= 1
            self.cack += 1
        return done

    def _take_bitmap(self, snapshot: Snapshot, done: list[Sent]) -> None:
        shift = snapshot.base - self.cack - 1
        if shift >= 0:
            bits, covered = snapshot.bitmap << shift, _MASK_64 << shift
        else:
            bits, covered = snapshot.bitmap >> -shift, _MASK_64 >> -shift
        self._covered |= covered
        new = bits & ~self._received
        if not new:
            return
        self._received |= new
        first = self.cack + 1
        top = first + new.bit_length() - 1
        if top > self.highest_received:
            self.highest_received = top
        pop = self.by_seq.pop
        while new:
            low = new & -new
            sent = pop(first + low.bit_length() - 1, None)
            if sent is not None:
                done.append(sent)
            new ^= low

    def was_missing(self, seq: int) -> bool:
        """Whether some bitmap covered it with 0 and none with 1."""
        bit = seq - self.cack - 1
        return bit >= 0 and bool(self._covered >> bit & 1) and not self._received >> bit & 1

    def oldest(self) -> Sent | None:
        """The transmission of the lowest seq, whether outstanding or lost."""
        return next(iter(self.by_seq.values()), None)  # a retransmission keeps its place

    def newest(self) -> Sent | None:
        return next(reversed(self.by_seq.values()), None)

    def all(self) -> Iterable[Sent]:
        return list(self.by_seq.values())
