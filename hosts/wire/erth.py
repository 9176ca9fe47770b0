"""Endpoint request: ERTH, 16 bytes (facts 2.8).  Connectionless; the request id is BTH.psn[15:0].

```
 0-1: type(4) next(5) reserved(5) op(2) | 2: reserved | 3: vendor_info | 4-7: port_status_mask
 8-11: reserved | 12-13: tx_timestamp | 14-15: tsr reserved(11) ftype(4)
```
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Self

from hosts.wire.layout import Buffer, unpack
from hosts.wire.tseth import FTYPE_TIMESTAMP

_LAYOUT = struct.Struct(">HBBIIHH")


class EndpointOp(IntEnum):
    PORT_STATUS_UPDATE = 0
    EV_PROBE = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Erth:
    """`port_status_mask`: bit p set = the sender's port p + 1 (plane p) is reachable."""

    op: int
    port_status_mask: int = 0
    tx_ticks: int = 0
    tsr: int = 0
    ftype: int = FTYPE_TIMESTAMP
    vendor_info: int = 0

    LENGTH: ClassVar[int] = 16

    @classmethod
    def parse(cls, buffer: Buffer, offset: int = 0) -> Self:
        word, _, vendor_info, mask, _, tx_ticks, stamp = unpack(_LAYOUT, buffer, offset)
        return cls(
            op=word & 0x3,
            port_status_mask=mask,
            tx_ticks=tx_ticks,
            tsr=stamp >> 15,
            ftype=stamp & 0xF,
            vendor_info=vendor_info,
        )

    def emit(self) -> bytes:
        stamp = self.tsr << 15 | self.ftype
        return _LAYOUT.pack(
            self.op, 0, self.vendor_info, self.port_status_mask, 0, self.tx_ticks, stamp
        )
