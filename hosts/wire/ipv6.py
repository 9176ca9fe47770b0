"""IPv6 header, 40 bytes (RFC 8200).  MRC over SRv6 has two: the path and the NIC."""

import struct
from dataclasses import dataclass
from typing import ClassVar, Self

from hosts.errors import WireError
from hosts.wire.layout import Buffer, unpack

_LAYOUT = struct.Struct(">IHBB16s16s")

NEXT_HEADER_IPV6 = 41
NEXT_HEADER_UDP = 17
HOP_LIMIT = 64
"""At the sender (design section 4); each switch takes one from the outer header."""


@dataclass(frozen=True, slots=True)
class Ipv6:
    """`payload_length` counts the bytes after this header."""

    traffic_class: int
    flow_label: int
    payload_length: int
    next_header: int
    hop_limit: int
    src: bytes
    dst: bytes

    LENGTH: ClassVar[int] = 40

    @property
    def dscp(self) -> int:
        return self.traffic_class >> 2

    @property
    def ecn(self) -> int:
        return self.traffic_class & 0x3

    @classmethod
    def parse(cls, buffer: Buffer, offset: int = 0) -> Self:
        """Raises WireError: `short`, or `version` if this is not IPv6."""
        word, *rest = unpack(_LAYOUT, buffer, offset)
        if word >> 28 != 6:
            raise WireError("version")
        return cls(word >> 20 & 0xFF, word & 0xFFFFF, *rest)

    def emit(self) -> bytes:
        return _LAYOUT.pack(
            6 << 28 | self.traffic_class << 20 | self.flow_label,
            self.payload_length,
            self.next_header,
            self.hop_limit,
            self.src,
            self.dst,
        )
