"""How late deadlines were served: a histogram that costs a few hundred nanoseconds an entry."""

from collections.abc import Sequence

_BUCKETS = 64 * 16
_SUB_BITS = 4
"""Sixteen buckets an octave: quantiles are right to 6 %."""


class Histogram:
    """Of non-negative times in ns."""

    __slots__ = ("buckets", "count", "max_ns")

    def __init__(self) -> None:
        self.count = 0
        self.max_ns = 0
        self.buckets = [0] * _BUCKETS

    def add(self, late_ns: int) -> None:
        self.count += 1
        if late_ns > self.max_ns:
            self.max_ns = late_ns
        if late_ns < 16:
            self.buckets[max(late_ns, 0)] += 1
            return
        shift = late_ns.bit_length() - 1 - _SUB_BITS
        self.buckets[(shift + 1 << _SUB_BITS) + (late_ns >> shift) - 16] += 1

    def quantile(self, per_mille: int) -> int:
        """The smallest bound, in ns, that `per_mille` thousandths of all entries do not pass."""
        wanted = -(-self.count * per_mille // 1000)
        seen = 0
        for bucket, count in enumerate(self.buckets):
            seen += count
            if count and seen >= wanted:
                return min(_upper_bound(bucket), self.max_ns)
        return 0


def quantile_of_all(quantiles: Sequence[int]) -> int:
    """A bound for a fabric: the worst of its nodes, since one late node makes a late fabric."""
    return max(quantiles, default=0)


def _upper_bound(bucket: int) -> int:
    octave, sub = divmod(bucket, 16)
    if octave == 0:
        return sub
    return (16 + sub + 1 << octave - 1) - 1
