"""Message Extension header, 4 bytes (facts 2.5).

`msn` numbers the requester's messages; `rqmsn` numbers those with an immediate.  Both modulo 2^16.
"""

import struct
from dataclasses import dataclass
from typing import ClassVar, Self

from hosts.wire.layout import Buffer, unpack

_LAYOUT = struct.Struct(">HH")


@dataclass(frozen=True, slots=True)
class Meth:
    rqmsn: int
    msn: int

    LENGTH: ClassVar[int] = 4

    @classmethod
    def parse(cls, buffer: Buffer, offset: int = 0) -> Self:
        return cls(*unpack(_LAYOUT, buffer, offset))

    def emit(self) -> bytes:
        return _LAYOUT.pack(self.rqmsn, self.msn)
