"""BTH opcodes of MRC (facts 2.3) and what kind of packet each is."""

from enum import IntEnum


class Opcode(IntEnum):
    WRITE_FIRST = 0xC6
    WRITE_MIDDLE = 0xC7
    WRITE_LAST = 0xC8
    WRITE_LAST_IMM = 0xC9
    WRITE_ONLY = 0xCA
    WRITE_ONLY_IMM = 0xCB
    ACKNOWLEDGE = 0xD1
    ENDPOINT_REQUEST = 0xD8
    ENDPOINT_RESPONSE = 0xD9
    SACK = 0xDC
    NACK = 0xDD
    PROBE = 0xDE


WRITES = frozenset(
    {
        Opcode.WRITE_FIRST,
        Opcode.WRITE_MIDDLE,
        Opcode.WRITE_LAST,
        Opcode.WRITE_LAST_IMM,
        Opcode.WRITE_ONLY,
        Opcode.WRITE_ONLY_IMM,
    }
)
WITH_IMMEDIATE = frozenset({Opcode.WRITE_LAST_IMM, Opcode.WRITE_ONLY_IMM})
ENDS_MESSAGE = frozenset(
    {Opcode.WRITE_LAST, Opcode.WRITE_LAST_IMM, Opcode.WRITE_ONLY, Opcode.WRITE_ONLY_IMM}
)
STARTS_MESSAGE = frozenset({Opcode.WRITE_FIRST, Opcode.WRITE_ONLY, Opcode.WRITE_ONLY_IMM})

ENDPOINT_QPN = 2
"""Destination QPN of endpoint operations, which belong to no QP.  QPNs 0 to 2 are reserved."""
