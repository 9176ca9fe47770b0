"""Endpoint response: EETH, 36 bytes (facts 2.8).

```
 0-1: type(4) next(5) r(3) op(2) r(2) | 2-27: reserved | 28-29: tx_timestamp | 30-35: reserved
```
Sources disagree on the place of `op`; OP_SHIFT decides.
"""

import struct
from dataclasses import dataclass
from typing import ClassVar, Self

from hosts.wire.layout import Buffer, unpack

_LAYOUT = struct.Struct(">H26xH6x")

OP_SHIFT = 2
"""Bits 3:2 of the first word, as in the HLS sources; EMU-A has bits 5:4."""


@dataclass(frozen=True, slots=True)
class Eeth:
    """`op` repeats the request's; `tx_ticks` is its timestamp, reflected."""

    op: int
    tx_ticks: int = 0

    LENGTH: ClassVar[int] = 36

    @classmethod
    def parse(cls, buffer: Buffer, offset: int = 0) -> Self:
        word, tx_ticks = unpack(_LAYOUT, buffer, offset)
        return cls(word >> OP_SHIFT & 0x3, tx_ticks)

    def emit(self) -> bytes:
        return _LAYOUT.pack(self.op << OP_SHIFT, self.tx_ticks)
