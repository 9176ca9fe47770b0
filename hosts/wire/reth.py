"""RDMA Extended Transport Header, 16 bytes (IBTA layout), in every write packet (facts 2.5).

The address advances from packet to packet; key and length are those of the whole message.
"""

import struct
from dataclasses import dataclass
from typing import ClassVar, Self

from hosts.wire.layout import Buffer, unpack

_LAYOUT = struct.Struct(">QII")


@dataclass(frozen=True, slots=True)
class Reth:
    va: int
    rkey: int
    dma_length: int

    LENGTH: ClassVar[int] = 16

    @classmethod
    def parse(cls, buffer: Buffer, offset: int = 0) -> Self:
        return cls(*unpack(_LAYOUT, buffer, offset))

    def emit(self) -> bytes:
        return _LAYOUT.pack(self.va, self.rkey, self.dma_length)
