"""Invariant CRC, 4 bytes at the end of every packet (facts 2.10: as RoCEv2 computes it).

CRC-32 of: 8 bytes of ones in place of a dummy LRH; the IPv6 header of the NICs (in SRv6 mode the
inner one) with traffic class, flow label and hop limit ones; UDP with the checksum ones; BTH with
byte 4 ones; everything after that as it is.  Sent low byte first.

The UDP source port is covered and the flow label is not, so the CRC follows the choice of the EV.
"""

from functools import lru_cache

from zlib_ng.zlib_ng import crc32

LENGTH = 4

_STATES_MAX = 4096
"""States kept: a path has one or two for each size of packet, so few packets need a new one."""

_LRH_AND_FIRST_WORD = b"\xff" * 8 + b"\x6f\xff\xff\xff"
_ONE = b"\xff"
_TWO = b"\xff\xff"

STATE_LENGTH = 40 + 8 + 5
"""Bytes of packet, from the innermost IPv6 header on, that `state` takes in."""


@lru_cache(_STATES_MAX)
def state(head: bytes) -> int:
    """CRC over those first bytes, BTH byte 4 being the last; `crc32(rest, state)` goes on from
    there."""
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
    at = ip_offset + STATE_LENGTH
    return crc32(memoryview(frame)[at:end], state(frame[ip_offset:at]))
