"""A receive ring shared with the kernel (TPACKET_V2), where no large buffer can be had.

Inside a user namespace SO_RCVBUFFORCE is refused, and the machine's net.core.rmem_max is mostly far
below what a port needs.  A ring takes its memory elsewhere.
"""

import fcntl
import mmap
import socket
import struct

RING_FRAMES = 1024
"""At least so many frames fit, of any size the interface takes."""

_SOL_PACKET = 263
_PACKET_RX_RING = 5
_PACKET_VERSION = 10
_TPACKET_V2 = 1
_TP_STATUS_KERNEL = 0
_TP_STATUS_USER = 1
_SIOCGIFMTU = 0x8921
_BLOCK_BYTES = 1 << 16
_SLOT_HEAD = 96  # header, address, and room that aligns what follows Ethernet
_SLOT_ALIGN = 16
_ETHERNET_AND_VLAN = 18
_HEADER = struct.Struct("=I4xIH")  # status, bytes here, where they begin
_STATUS = struct.Struct("=I")


class PacketRing:
    """Of a packet socket that is not bound yet.  Raises OSError where there is none to be had."""

    def __init__(self, sock: socket.socket, interface: str) -> None:
        slot_bytes = _aligned(_SLOT_HEAD + _mtu(sock, interface) + _ETHERNET_AND_VLAN)
        per_block = _BLOCK_BYTES // slot_bytes
        blocks = -(-RING_FRAMES // per_block)
        request = struct.pack("=IIII", _BLOCK_BYTES, blocks, slot_bytes, blocks * per_block)
        sock.setsockopt(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V2)
        sock.setsockopt(_SOL_PACKET, _PACKET_RX_RING, request)
        self._socket = sock
        self._memory = mmap.mmap(sock.fileno(), blocks * _BLOCK_BYTES)
        self._offsets = [
            block * _BLOCK_BYTES + place * slot_bytes
            for block in range(blocks)
            for place in range(per_block)
        ]
        self._next = 0

    def take(self) -> bytes | None:
        """The next frame, or None if there is none now."""
        at = self._offsets[self._next]
        status, length, begin = _HEADER.unpack_from(self._memory, at)
        if not status & _TP_STATUS_USER:
            # An interface gone down leaves an error that would wake us for ever: take it.
            self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            return None
        frame = self._memory[at + begin : at + begin + length]
        _STATUS.pack_into(self._memory, at, _TP_STATUS_KERNEL)
        self._next = (self._next + 1) % len(self._offsets)
        return frame

    def close(self) -> None:
        self._memory.close()


def _mtu(sock: socket.socket, interface: str) -> int:
    request = struct.pack("16si", interface.encode(), 0) + bytes(20)
    answer = fcntl.ioctl(sock.fileno(), _SIOCGIFMTU, request)
    return int(struct.unpack_from("i", answer, 16)[0])


def _aligned(size: int) -> int:
    return -(-size // _SLOT_ALIGN) * _SLOT_ALIGN
