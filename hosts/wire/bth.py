"""Base Transport Header, 12 bytes (facts 2.4).

```
 0: opcode | 1: SE M pad(2) version(4) | 2-3: P_Key | 4: reserved | 5-7: destination QPN
 8: A - RTX TS -(4) | 9-11: PSN
```
What the PSN field holds depends on the opcode: writes their PSN, a SACK cack_psn, a NACK the PSN it
is about, endpoint operations a private 16-bit request id, a probe zero.
"""

import struct
from dataclasses import dataclass
from typing import ClassVar, Self

from hosts.errors import WireError
from hosts.wire.layout import Buffer, unpack

_LAYOUT = struct.Struct(">BBHII")

DEFAULT_P_KEY = 0xFFFF
ACK_REQ_BIT = 1 << 31
RTX_BIT = 1 << 29
TS_BIT = 1 << 28
"""Of the third 32-bit word, which ends in the PSN."""

PAD_SHIFT = 4
"""Of the pad count, in byte 1."""

MASK_24 = 0xFFFFFF


@dataclass(frozen=True, slots=True)
class Bth:
    opcode: int
    dest_qpn: int
    psn: int
    ack_req: bool = False
    rtx: bool = False
    ts: bool = False
    pad: int = 0
    p_key: int = DEFAULT_P_KEY

    LENGTH: ClassVar[int] = 12

    @classmethod
    def parse(cls, buffer: Buffer, offset: int = 0) -> Self:
        """Raises WireError: `short`, or `bth_version` for a transport version other than 0."""
        opcode, flags, p_key, qpn, word = unpack(_LAYOUT, buffer, offset)
        if flags & 0xF:
            raise WireError("bth_version")
        return cls(
            opcode=opcode,
            dest_qpn=qpn & MASK_24,
            psn=word & MASK_24,
            ack_req=bool(word & ACK_REQ_BIT),
            rtx=bool(word & RTX_BIT),
            ts=bool(word & TS_BIT),
            pad=flags >> PAD_SHIFT & 0x3,
            p_key=p_key,
        )

    def emit(self) -> bytes:
        word = self.psn
        if self.ack_req:
            word |= ACK_REQ_BIT
        if self.rtx:
            word |= RTX_BIT
        if self.ts:
            word |= TS_BIT
        return _LAYOUT.pack(self.opcode, self.pad << PAD_SHIFT, self.p_key, self.dest_qpn, word)
