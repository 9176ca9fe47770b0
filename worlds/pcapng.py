"""Writes captures in pcapng (draft-ietf-opsawg-pcapng), with nanoseconds and one block a port.

Little-endian, link type Ethernet.  Each frame says whether it left the port or came in.
"""

import struct
from collections.abc import Sequence
from typing import BinaryIO

_SECTION_HEADER = 0x0A0D0D0A
_INTERFACE = 1
_ENHANCED_PACKET = 6
_BYTE_ORDER = 0x1A2B3C4D
_LINKTYPE_ETHERNET = 1

_END_OF_OPTIONS = 0
_IF_NAME = 2
_IF_TSRESOL = 9
_EPB_FLAGS = 2
_NANOSECONDS = 9

_INBOUND = 1
_OUTBOUND = 2


class PcapngWriter:
    """`ports`: interface names; frames name them by their place in this list."""

    def __init__(self, file: BinaryIO, ports: Sequence[str]) -> None:
        self._file = file
        self._block(_SECTION_HEADER, struct.pack("<IHHq", _BYTE_ORDER, 1, 0, -1))
        for name in ports:
            options = _option(_IF_NAME, name.encode()) + _option(_IF_TSRESOL, b"%c" % _NANOSECONDS)
            head = struct.pack("<HHI", _LINKTYPE_ETHERNET, 0, 0)
            self._block(_INTERFACE, head + options + _option(_END_OF_OPTIONS, b""))
        self._flags = [
            _option(_EPB_FLAGS, struct.pack("<I", flag)) + _option(_END_OF_OPTIONS, b"")
            for flag in (_INBOUND, _OUTBOUND)
        ]

    def write(self, port: int, t_ns: int, frame: bytes, *, outbound: bool) -> None:
        """A frame (Ethernet first, no FCS) seen at that port; times need not be in order."""
        size = len(frame)
        head = struct.pack("<IIIII", port, t_ns >> 32, t_ns & 0xFFFF_FFFF, size, size)
        self._block(_ENHANCED_PACKET, head + _padded(frame) + self._flags[outbound])

    def _block(self, kind: int, body: bytes) -> None:
        length = struct.pack("<I", len(body) + 12)
        self._file.write(b"".join((struct.pack("<I", kind), length, body, length)))


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + _padded(value)


def _padded(value: bytes) -> bytes:
    return value + bytes(-len(value) % 4)
