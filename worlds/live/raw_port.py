"""One interface as a raw socket: whole Ethernet frames in and out, every loss counted."""

import errno
import os
import socket
import struct

from worlds.api import WorldUnavailable
from worlds.live.packet_ring import PacketRing

RECEIVE_BYTES_MIN = 8 << 20
"""Of socket buffer, as the kernel accounts it; a default one held 24 frames of 4238 bytes."""

FRAME_BYTES_MAX = 9728
SEND_BYTES = 4 << 20

_ETH_P_ALL = 3
_SO_SNDBUFFORCE = 32
_SO_RCVBUFFORCE = 33
_SOL_PACKET = 263
_PACKET_STATISTICS = 6
_PACKET_IGNORE_OUTGOING = 23
_TPACKET_STATS = struct.Struct("=II")

_DOWN = frozenset((errno.ENETDOWN, errno.ENXIO, errno.ENODEV))
_FULL = frozenset((errno.EAGAIN, errno.ENOMEM))


class RawPort:
    """Opens in the network namespace of the calling thread.

    `outgoing`: also hears what anybody sends there, as a capture does.
    Where the kernel gives no buffer of that size (a user namespace), a ring takes its place.
    `sent_down`: frames that the interface refused because it is down.  `sent_refused`: frames that
    the kernel refused for any other reason.  Raises WorldUnavailable if the socket cannot have its
    buffer, OSError for the rest.
    """

    def __init__(self, interface: str, *, outgoing: bool = False) -> None:
        self.interface = interface
        self.sent_down = 0
        self.sent_refused = 0
        self._ring_drops = 0
        self._ring: PacketRing | None = None
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        try:
            self._prepare(outgoing)
        except BaseException:
            self.socket.close()
            raise
        self.recv = self.socket.recv
        self._send = self.socket.send

    def _prepare(self, outgoing: bool) -> None:
        """Protocol 0 until the end: the socket hears nothing before it is ready to."""
        sock = self.socket
        sock.setblocking(False)
        _buffer(sock, _SO_RCVBUFFORCE, socket.SO_RCVBUF, RECEIVE_BYTES_MIN)
        _buffer(sock, _SO_SNDBUFFORCE, socket.SO_SNDBUF, SEND_BYTES)
        got = sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2  # the kernel doubles it
        if not outgoing:
            if got < RECEIVE_BYTES_MIN:
                self._ring = self._open_ring(got)
            sock.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        sock.bind((self.interface, _ETH_P_ALL))

    def _open_ring(self, got: int) -> PacketRing:
        try:
            return PacketRing(self.socket, self.interface)
        except OSError as error:
            raise WorldUnavailable(
                f"{self.interface}: needs a receive buffer of {RECEIVE_BYTES_MIN} bytes, the "
                f"kernel gives {got} and no ring ({error.strerror}): run as root or raise "
                "net.core.rmem_max"
            ) from error

    def fileno(self) -> int:
        return self.socket.fileno()

    def receive(self) -> bytes | None:
        """The next frame, or None if there is none now.  An interface gone down is no error."""
        if self._ring is not None:
            return self._ring.take()
        try:
            return self.recv(FRAME_BYTES_MAX)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno in _DOWN:  # said once; carrier news come over netlink
                return None
            raise

    def send(self, frame: bytes) -> None:
        """A frame that the kernel will not have is counted, and gone as on a wire."""
        try:
            self._send(frame)
        except OSError as error:
            self._send_refused(frame, error.errno)

    def _send_refused(self, frame: bytes, number: int | None) -> None:
        """An interface that went down is told once to whoever uses the socket next: try again."""
        if number in _DOWN:
            try:
                self._send(frame)
                return
            except OSError as error:
                number = error.errno
        if number in _DOWN:
            self.sent_down += 1
        elif number == errno.ENOBUFS:
            return  # it reached the interface, which lost it and has counted it (tx_dropped)
        elif number in _FULL:
            self.sent_refused += 1
        else:
            raise OSError(number, f"{self.interface}: {os.strerror(number or 0)}")

    def ring_drops(self) -> int:
        """Frames that found the receive buffer full, since the socket was opened."""
        raw = self.socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _TPACKET_STATS.size)
        self._ring_drops += _TPACKET_STATS.unpack(raw)[1]  # reading sets the kernel's count to 0
        return self._ring_drops

    def close(self) -> None:
        if self._ring is not None:
            self._ring.close()
        self.socket.close()


def _buffer(sock: socket.socket, forced: int, allowed: int, size: int) -> None:
    try:
        sock.setsockopt(socket.SOL_SOCKET, forced, size)
    except PermissionError:
        sock.setsockopt(socket.SOL_SOCKET, allowed, size)
