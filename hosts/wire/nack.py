"""Reliability NACK: NETH, 20 bytes (facts 2.7).  Not a transport NAK, which is in an AETH.

```
 0-1: type(4) next(5) reserved(7) | 2: reason | 3: vendor_info | 4-7: entropy
 8-9: spdcid | 10-11: dpdcid | 12: reserved | 13-15: nack_psn
 16: cc_type(4) cc_fl(4) | 17: reserved | 18-19: tx_timestamp
```
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Self

from hosts.wire.layout import Buffer, unpack

_LAYOUT = struct.Struct(">HBBIHHIBBH")

CC_TYPE_NACK = 2


class NackReason(IntEnum):
    """All but UNEXP_EVENT, which is fatal, ask for a retransmission."""

    TRIMMED = 0x01
    TRIMMED_LASTHOP = 0x02
    NO_BITMAP = 0x06
    NO_PKT_BUFFER = 0x07
    NO_RESOURCE = 0x0A
    PSN_OOR_WINDOW = 0x0B
    UNEXP_EVENT = 0x19


@dataclass(frozen=True, slots=True, kw_only=True)
class Nack:
    reason: int
    nack_psn: int
    entropy: int
    tx_ticks: int = 0
    spdcid: int = 0
    dpdcid: int = 0
    cc_type: int = CC_TYPE_NACK
    cc_fl: int = 0
    vendor_info: int = 0

    LENGTH: ClassVar[int] = 20

    @classmethod
    def parse(cls, buffer: Buffer, offset: int = 0) -> Self:
        (
            _, reason, vendor_info, entropy, spdcid, dpdcid, psn, cc, _, tx_ticks,
        ) = unpack(_LAYOUT, buffer, offset)  # fmt: skip
        return cls(
            reason=reason,
            nack_psn=psn & 0xFFFFFF,
            entropy=entropy,
            tx_ticks=tx_ticks,
            spdcid=spdcid,
            dpdcid=dpdcid,
            cc_type=cc >> 4,
            cc_fl=cc & 0xF,
            vendor_info=vendor_info,
        )

    def emit(self) -> bytes:
        return _LAYOUT.pack(
            0,
            self.reason,
            self.vendor_info,
            self.entropy,
            self.spdcid,
            self.dpdcid,
            self.nack_psn,
            self.cc_type << 4 | self.cc_fl,
            0,
            self.tx_ticks,
        )
