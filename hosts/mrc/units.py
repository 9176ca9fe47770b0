"""Units of the transport and the arithmetic between them.  Times are integer nanoseconds."""

from typing import TypeAlias

Ns: TypeAlias = int
"""A time or a duration in nanoseconds."""

NS_PER_S = 1_000_000_000

MPR_UNIT_PSNS = 128
"""One unit of MPR on the wire and in the API (mrc.h)."""

TIMEOUT_UNIT_NS = 1024
"""The local ACK timeout is 1.024 us x 2^t."""

TIMEOUT_EXPONENT_MAX = 24
EXP_CNT_INFINITE = 25
LINEAR_CNT_MAX = 7


def timeout_ns(exponent: int) -> Ns:
    """The local ACK timeout for exponent t, 0 to 24 (17.17 s)."""
    assert 0 <= exponent <= TIMEOUT_EXPONENT_MAX
    return TIMEOUT_UNIT_NS << exponent


def timeout_exponent(needed_ns: Ns) -> int:
    """The smallest t whose timeout is at least `needed_ns` (24 if none is)."""
    for exponent in range(TIMEOUT_EXPONENT_MAX):
        if timeout_ns(exponent) >= needed_ns:
            return exponent
    return TIMEOUT_EXPONENT_MAX


def derived_timeout(base_rtt_ns: Ns, queue_ns: Ns) -> int:
    """The RTO exponent of design section 7.

    `queue_ns` is the sum over the path of trim threshold x packet time: the longest that a
    packet which is not lost can wait.  A timeout below 1.25 x (base RTT + that) would take
    waiting for loss.
    """
    return timeout_exponent((5 * (base_rtt_ns + queue_ns) + 3) // 4)


def ticks(now_ns: Ns, tick_ns: int) -> int:
    """The 16-bit wire timestamp for a time."""
    return now_ns // tick_ns & 0xFFFF
