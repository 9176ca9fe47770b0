"""Ethernet II header, 14 bytes, no VLAN tag and no FCS."""

import struct
from dataclasses import dataclass
from typing import ClassVar, Self

from hosts.wire.layout import Buffer, unpack

_LAYOUT = struct.Struct(">6s6sH")

ETHERTYPE_IPV6 = 0x86DD


@dataclass(frozen=True, slots=True)
class Ethernet:
    dst: bytes
    src: bytes
    ethertype: int = ETHERTYPE_IPV6

    LENGTH: ClassVar[int] = 14

    @classmethod
    def parse(cls, buffer: Buffer, offset: int = 0) -> Self:
        return cls(*unpack(_LAYOUT, buffer, offset))

    def emit(self) -> bytes:
        return _LAYOUT.pack(self.dst, self.src, self.ethertype)
