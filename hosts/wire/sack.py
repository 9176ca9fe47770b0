"""Reliability SACK: SETH (28 bytes) and CC_STATE (8 bytes) (facts 2.6).

```
 0-1: type(4) next(5) m(2) r4 r3 r2 pr r0 | 2-3: ack_psn_offset | 4-7: entropy
 8-9: spdcid | 10-11: dpdcid | 12: reserved | 13-15: cack_psn
 16: cc_type(4) cc_fl(4) | 17: mpr | 18-19: sack_offset | 20-27: bitmap
 28-29: tx_timestamp | 30-31: - ooo_count(15) | 32: r_c rcv_cwnd_pen(7) | 33-35: rcvd_bytes
```
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Self

from hosts.wire.layout import Buffer, unpack

_LAYOUT = struct.Struct(">HhIHHIBBhQHHI")

_M_SHIFT = 5
_PR_BIT = 1 << 1

RCVD_UNIT_BYTES = 256
RCVD_UNITS_MODULO = 1 << 24
BITMAP_BITS = 64


class EvHint(IntEnum):
    """The m field: what the responder says about the EV that it reflects."""

    NONE = 0
    SKIP_ONCE = 1
    ALWAYS_SKIP = 2
    RESERVED = 3


@dataclass(slots=True, kw_only=True)
class Sack:
    """Not frozen only because freezing would cost 2 us for each of the most frequent packets back.

    `ack_psn_offset`: PSN that triggered this SACK minus cack_psn, signed 16; where `pr` is set (an
    answer to a probe) the 16 bits are the probe's id, here unsigned, and `probe_id` reads it.
    `bitmap` bit i (LSB = 0): PSN cack_psn + sack_offset + i was received.
    `mpr`: units of 128 PSNs, 0 without Dynamic MPR.  `tx_ticks`: the reflected timestamp.
    `rcvd_units`: bytes received, cumulative, in units of 256, modulo 2^24.
    `spdcid`, `dpdcid`: low 16 bits of the source's and the destination's QPN.
    """

    cack_psn: int
    entropy: int
    m: int = EvHint.NONE
    pr: bool = False
    ack_psn_offset: int = 0
    spdcid: int = 0
    dpdcid: int = 0
    cc_type: int = 0
    cc_fl: int = 0
    mpr: int = 0
    sack_offset: int = 1
    bitmap: int = 0
    tx_ticks: int = 0
    ooo_count: int = 0
    restore_cwnd: bool = False
    rcv_cwnd_pen: int = 0
    rcvd_units: int = 0

    LENGTH: ClassVar[int] = 36

    @property
    def probe_id(self) -> int:
        return self.ack_psn_offset & 0xFFFF

    @classmethod
    def parse(cls, buffer: Buffer, offset: int = 0) -> Self:
        (
            word, ack_psn_offset, entropy, spdcid, dpdcid, cack_psn, cc, mpr,
            sack_offset, bitmap, tx_ticks, ooo_count, state,
        ) = unpack(_LAYOUT, buffer, offset)  # fmt: skip
        self = cls.__new__(cls)
        # Field by field: a call with keywords takes three times as long.
        self.cack_psn = cack_psn & 0xFFFFFF
        self.entropy = entropy
        self.m = word >> _M_SHIFT & 0x3
        self.pr = pr = word & _PR_BIT != 0
        self.ack_psn_offset = ack_psn_offset & 0xFFFF if pr else ack_psn_offset
        self.spdcid = spdcid
        self.dpdcid = dpdcid
        self.cc_type = cc >> 4
        self.cc_fl = cc & 0xF
        self.mpr = mpr
        self.sack_offset = sack_offset
        self.bitmap = bitmap
        self.tx_ticks = tx_ticks
        self.ooo_count = ooo_count & 0x7FFF
        self.restore_cwnd = state >> 31 == 1
        self.rcv_cwnd_pen = state >> 24 & 0x7F
        self.rcvd_units = state & 0xFFFFFF
        return self

    def emit(self) -> bytes:
        offset = self.ack_psn_offset
        return _LAYOUT.pack(
            self.m << _M_SHIFT | (_PR_BIT if self.pr else 0),
            offset - 0x10000 if offset > 0x7FFF else offset,
            self.entropy,
            self.spdcid,
            self.dpdcid,
            self.cack_psn,
            self.cc_type << 4 | self.cc_fl,
            self.mpr,
            self.sack_offset,
            self.bitmap,
            self.tx_ticks,
            self.ooo_count,
            (1 << 31 if self.restore_cwnd else 0) | self.rcv_cwnd_pen << 24 | self.rcvd_units,
        )
