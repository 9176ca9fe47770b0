"""24-bit packet sequence numbers.

On the wire a PSN has 24 bits and wraps.  Inside the transport it is unwrapped once, on arrival,
into a plain integer called `seq` that only grows and whose low 24 bits are the PSN; so nothing
but this file knows about wrapping.
"""

PSN_BITS = 24
PSN_MASK = (1 << PSN_BITS) - 1
PSN_HALF = 1 << (PSN_BITS - 1)


def psn_add(psn: int, count: int) -> int:
    return (psn + count) & PSN_MASK


def psn_diff(a: int, b: int) -> int:
    """Signed serial distance a - b, from -2^23 to 2^23 - 1."""
    return ((a - b + PSN_HALF) & PSN_MASK) - PSN_HALF


def unwrap(psn: int, near_seq: int) -> int:
    """The seq with that PSN that lies nearest to `near_seq` (may be below it)."""
    return near_seq + ((psn - near_seq + PSN_HALF) & PSN_MASK) - PSN_HALF


def serial_diff(a: int, b: int, bits: int) -> int:
    """The same distance for counters of other widths (MSN 16 or 24, timestamps 16)."""
    half = 1 << (bits - 1)
    return ((a - b + half) & ((1 << bits) - 1)) - half
