"""What a responder has received of one QP's packets: cack and the bits above it.

Data itself is never buffered: every packet says where it goes and is placed when it comes.
"""

from hosts.wire.sack import BITMAP_BITS

_MASK_64 = (1 << BITMAP_BITS) - 1


class ReorderWindow:
    """Seqs are unwrapped PSNs (hosts.mrc.psn).

    `cack`: everything up to and including it was received.  `highest`: the newest received.
    `ooo_count`: packets received above cack; cack + ooo_count grows by one per accepted packet,
    which is how a requester puts snapshots in order.
    """

    __slots__ = ("_bits", "cack", "highest", "ooo_count")

    def __init__(self, first_seq: int) -> None:
        self.cack = first_seq - 1
        self.highest = first_seq - 1
        self.ooo_count = 0
        self._bits = 0
        """Bit i is seq cack + 1 + i."""

    def has(self, seq: int) -> bool:
        ahead = seq - self.cack
        return ahead <= 0 or bool(self._bits >> (ahead - 1) & 1)

    def accept(self, seq: int) -> None:
        """Record a packet that `has` denies."""
        if seq > self.highest:
            self.highest = seq
        bits = self._bits
        if seq != self.cack + 1:
            self._bits = bits | 1 << (seq - self.cack - 1)
            self.ooo_count += 1
            return
        bits >>= 1
        self.cack = seq
        if bits & 1:
            run = (~bits & (bits + 1)).bit_length() - 1  # ones at the low end
            bits >>= run
            self.cack += run
            self.ooo_count -= run
        self._bits = bits

    def bitmap(self, base: int) -> int:
        """64 bits from `base` (> cack) on, LSB first."""
        return self._bits >> (base - self.cack - 1) & _MASK_64

    def sack_base(self, trigger_seq: int) -> int:
        """Where the bitmap of a SACK begins (design section 7)."""
        first = self.cack + 1
        wanted = trigger_seq - BITMAP_BITS + 1
        return wanted if wanted > first else first
