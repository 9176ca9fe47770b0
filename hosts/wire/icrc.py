"""Invariant CRC, 4 bytes at the end of every packet (facts 2.10: as RoCEv2 computes it).

CRC-32 of: 8 bytes of ones in place of a dummy LRH; the IPv6 header of the NICs (in SRv6 mode the
inner one) with traffic class, flow label and hop limit ones; UDP with the checksum ones; BTH with
byte 4 ones; everything after that as it is.  Sent low byte first.

The UDP source port is covered and the flow label is not, so the CRC follows the choice of the EV.
"""

from functools import lru_cache
from zlib import crc32

LENGTH = 4

_STATES_MAX = 4096
"""States kept: a path has one or two for each size of packet, so few packets need a new one."""

_LRH_AND_FIRST_WORD = b"\xff" * 8 + b"\x6f\xff\xff\xff"
_ONE = b"\xff"
_TWO = b"\xff\xff"

STATE_LENGTH = 40 + 8 + 5
"""Bytes of packet, from the IPv6 header on, that `state` has taken in."""


def state(frame: bytes, ip_offset: int) -> int:
    """CRC over everything up to BTH byte 4; go on with `crc32(rest, state)` from there.

    `ip_offset` is where the innermost IPv6 header begins.
    """
    return _state(frame[ip_offset : ip_offset + STATE_LENGTH])


@lru_cache(_STATES_MAX)
def _state(head: bytes) -> int:
    return crc32(
        b"".join(
            (
                _LRH_AND_FIRST_WORD,
                head[4:7],  # payload length, next header
                _ONE,  # hop limit
                head[8:46],  # addresses, ports, UDP length
                _TWO,  # UDP checksum
                head[48:52],  # BTH opcode to P_Key
                _ONE,  # BTH byte 4
            )
        )
    )


def icrc(frame: bytes, ip_offset: int, end: int) -> int:
    """The CRC of a whole packet whose iCRC field would begin at `end`."""
    return crc32(memoryview(frame)[ip_offset + STATE_LENGTH : end], state(frame, ip_offset))
