"""Timestamp header, 4 bytes (facts 2.5): there if and only if BTH.ts is set.

The same word of (tsr, reserved, ftype) ends the probe and endpoint request headers.
"""

import struct
from dataclasses import dataclass
from typing import ClassVar, Self

from hosts.wire.layout import Buffer, unpack

_LAYOUT = struct.Struct(">HH")

TSR_BIT = 1 << 15
"""Timestamp resolution: 0 = ticks of 128 ns, 1 = implementation defined."""

FTYPE_TIMESTAMP = 1
TICK_NS = 128


@dataclass(frozen=True, slots=True)
class Tseth:
    """`tx_ticks` is the send time modulo 2^16 ticks."""

    tx_ticks: int
    tsr: int = 0
    ftype: int = FTYPE_TIMESTAMP

    LENGTH: ClassVar[int] = 4

    @classmethod
    def parse(cls, buffer: Buffer, offset: int = 0) -> Self:
        tx_ticks, word = unpack(_LAYOUT, buffer, offset)
        return cls(tx_ticks, word >> 15, word & 0xF)

    def emit(self) -> bytes:
        return _LAYOUT.pack(self.tx_ticks, self.tsr << 15 | self.ftype)
