"""UDP header, 8 bytes.  The source port carries the low half of the EV (facts 2.2)."""

import struct
from dataclasses import dataclass
from typing import ClassVar, Self

from hosts.wire.layout import Buffer, unpack

_LAYOUT = struct.Struct(">HHHH")

MRC_PORT = 4971
"""Destination port as the specification prints it."""

ROCE_PORT = 4791
"""IANA's port of RoCEv2, which others give for MRC too: accepted, and sent when configured."""

UDP_PORTS = frozenset({MRC_PORT, ROCE_PORT})


@dataclass(frozen=True, slots=True)
class Udp:
    """`length` counts this header too.  The checksum is sent as 0 and ignored: see iCRC."""

    sport: int
    dport: int
    length: int
    checksum: int = 0

    LENGTH: ClassVar[int] = 8

    @classmethod
    def parse(cls, buffer: Buffer, offset: int = 0) -> Self:
        return cls(*unpack(_LAYOUT, buffer, offset))

    def emit(self) -> bytes:
        return _LAYOUT.pack(self.sport, self.dport, self.length, self.checksum)
