"""One port of the NIC: carrier, hold-down, pacing, and the control packets that wait for it."""

from collections import deque
from math import gcd

from hosts.mrc.timers import Timer, TimerKind
from hosts.mrc.units import NS_PER_S, Ns

LATE_FRAMES = 2
"""A driver that comes late by up to so many frames loses no goodput: the port catches up
(design section 8)."""


class Port:
    """`in_service`: carrier is there and hold-down is over and the administrator lets it.

    A frame may leave when `next_free_ns` has come.  Serialisation carries its remainder, so the
    long-run rate is exact.
    """

    __slots__ = (
        "_ns_per_byte", "_remainder", "admin_up", "carrier", "control", "hold_timer",
        "in_service", "index", "next_free_ns", "rate_bps",
    )  # fmt: skip

    def __init__(self, index: int, rate_bps: int) -> None:
        self.index = index
        self.rate_bps = rate_bps
        self.carrier = True
        self.admin_up = True
        self.in_service = True
        self.next_free_ns: Ns = 0
        common = gcd(8 * NS_PER_S, rate_bps)
        self._ns_per_byte = 8 * NS_PER_S // common, rate_bps // common
        """As a fraction in its lowest terms."""
        self._remainder = 0
        self.control: deque[bytes] = deque()
        self.hold_timer = Timer(TimerKind.HOLD_DOWN, self)

    def charge(self, frame_bytes: int, now: Ns) -> None:
        """A frame leaves now: when may the next?"""
        numerator, denominator = self._ns_per_byte
        time, self._remainder = divmod(frame_bytes * numerator + self._remainder, denominator)
        earliest = now - LATE_FRAMES * time
        free = self.next_free_ns
        self.next_free_ns = (free if free > earliest else earliest) + time

    def pass_by(self, frame_bytes: int, now: Ns) -> None:
        """The time of such a frame goes by unused."""
        numerator, denominator = self._ns_per_byte
        self.next_free_ns = max(self.next_free_ns, now) + frame_bytes * numerator // denominator
