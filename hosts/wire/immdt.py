"""Immediate data, 4 bytes, after RETH in the packet that ends a write with immediate."""

import struct
from dataclasses import dataclass
from typing import ClassVar, Self

from hosts.wire.layout import Buffer, unpack

_LAYOUT = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class Immdt:
    value: int

    LENGTH: ClassVar[int] = 4

    @classmethod
    def parse(cls, buffer: Buffer, offset: int = 0) -> Self:
        return cls(*unpack(_LAYOUT, buffer, offset))

    def emit(self) -> bytes:
        return _LAYOUT.pack(self.value)
