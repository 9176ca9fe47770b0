"""How the headers here turn bytes into values."""

import struct
from typing import Any

from hosts.errors import WireError

Buffer = bytes | bytearray | memoryview


def unpack(layout: struct.Struct, buffer: Buffer, offset: int) -> tuple[Any, ...]:
    """The fields of `layout` at that offset.  Raises WireError("short")."""
    try:
        return layout.unpack_from(buffer, offset)
    except struct.error:
        raise WireError("short") from None
