"""Reliability probe request: PETH, 16 bytes (facts 2.8).  Consumes no PSN; a SACK answers it.

```
 0-1: type next reserved | 2: reserved | 3: vendor_info | 4-5: probe_id | 6-7: reserved
 8-9: spdcid | 10-11: dpdcid | 12-13: tx_timestamp | 14-15: tsr reserved(11) ftype(4)
```
"""

import struct
from dataclasses import dataclass
from typing import ClassVar, Self

from hosts.wire.layout import Buffer, unpack
from hosts.wire.tseth import FTYPE_TIMESTAMP

_LAYOUT = struct.Struct(">HBBHHHHHH")


@dataclass(frozen=True, slots=True, kw_only=True)
class Peth:
    probe_id: int
    tx_ticks: int = 0
    spdcid: int = 0
    dpdcid: int = 0
    tsr: int = 0
    ftype: int = FTYPE_TIMESTAMP
    vendor_info: int = 0

    LENGTH: ClassVar[int] = 16

    @classmethod
    def parse(cls, buffer: Buffer, offset: int = 0) -> Self:
        _, _, vendor_info, probe_id, _, spdcid, dpdcid, tx_ticks, word = unpack(
            _LAYOUT, buffer, offset
        )
        return cls(
            probe_id=probe_id,
            tx_ticks=tx_ticks,
            spdcid=spdcid,
            dpdcid=dpdcid,
            tsr=word >> 15,
            ftype=word & 0xF,
            vendor_info=vendor_info,
        )

    def emit(self) -> bytes:
        word = self.tsr << 15 | self.ftype
        return _LAYOUT.pack(
            0, 0, self.vendor_info, self.probe_id, 0, self.spdcid, self.dpdcid, self.tx_ticks, word
        )
