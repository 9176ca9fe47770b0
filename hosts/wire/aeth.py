"""ACK Extended Transport Header, 4 bytes (IBTA layout): the RDMA-level result (facts 3.2)."""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Self

from hosts.wire.layout import Buffer, unpack

_LAYOUT = struct.Struct(">I")

ACK_NO_CREDIT = 0x1F
"""Syndrome of a positive acknowledgement without end-to-end credit."""

_NAK = 0x60
"""Bits 6:5 of the syndrome: 00 = ACK, 11 = NAK; the code is in bits 4:0."""


class NakCode(IntEnum):
    """IBTA's codes; PSN_ERROR is not used by MRC."""

    PSN_ERROR = 0
    INVALID_REQUEST = 1
    REMOTE_ACCESS_ERROR = 2
    REMOTE_OPERATIONAL_ERROR = 3


@dataclass(frozen=True, slots=True)
class Aeth:
    syndrome: int
    msn: int

    LENGTH: ClassVar[int] = 4

    @classmethod
    def ack(cls, msn: int) -> Self:
        return cls(ACK_NO_CREDIT, msn)

    @classmethod
    def nak(cls, code: NakCode, msn: int) -> Self:
        return cls(_NAK | code, msn)

    @property
    def is_nak(self) -> bool:
        return self.syndrome & _NAK == _NAK

    @property
    def nak_code(self) -> int:
        """The code of a NAK, a NakCode if it is one that we know."""
        return self.syndrome & 0x1F

    @classmethod
    def parse(cls, buffer: Buffer, offset: int = 0) -> Self:
        (word,) = unpack(_LAYOUT, buffer, offset)
        return cls(word >> 24, word & 0xFFFFFF)

    def emit(self) -> bytes:
        return _LAYOUT.pack(self.syndrome << 24 | self.msn)
