"""News of carriers, from the kernel of the network namespace in which this is opened."""

import socket
import struct

_RTMGRP_LINK = 1
_RTM_NEWLINK = 16
_RTM_DELLINK = 17
_RTM_GETLINK = 18
_NLM_F_REQUEST = 0x1
_NLM_F_DUMP = 0x300
_IFF_UP = 0x1
_IFF_LOWER_UP = 0x1_0000
_HEADER = struct.Struct("=IHHII")
_IFINFO = struct.Struct("=BxHiII")
_RECEIVE_BYTES = 1 << 16


class CarrierWatch:
    """Hears of every link of the namespace, and has asked for the state of all once.

    Read without pyroute2, whose import would cost each host process more than all it does here.
    """

    def __init__(self) -> None:
        flags = socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
        self.socket = socket.socket(socket.AF_NETLINK, flags, 0)
        self.socket.bind((0, _RTMGRP_LINK))
        self._ask_for_all()

    def fileno(self) -> int:
        return self.socket.fileno()

    def read(self) -> list[tuple[int, bool]]:
        """(interface index, whether there is a carrier), in order; also where nothing changed."""
        out: list[tuple[int, bool]] = []
        while True:
            try:
                data = self.socket.recv(_RECEIVE_BYTES)
            except BlockingIOError:
                return out
            except OSError:  # ENOBUFS: something was not said, so hear all of it again
                self._ask_for_all()
                continue
            out += _parse(data)

    def close(self) -> None:
        self.socket.close()

    def _ask_for_all(self) -> None:
        length = _HEADER.size + _IFINFO.size
        head = _HEADER.pack(length, _RTM_GETLINK, _NLM_F_REQUEST | _NLM_F_DUMP, 1, 0)
        self.socket.send(head + _IFINFO.pack(0, 0, 0, 0, 0))


def _parse(data: bytes) -> list[tuple[int, bool]]:
    out = []
    offset = 0
    while offset + _HEADER.size <= len(data):
        length, kind, *_ = _HEADER.unpack_from(data, offset)
        if kind in (_RTM_NEWLINK, _RTM_DELLINK):
            _, _, index, flags, _ = _IFINFO.unpack_from(data, offset + _HEADER.size)
            both = _IFF_UP | _IFF_LOWER_UP
            out.append((index, kind == _RTM_NEWLINK and flags & both == both))
        offset += (length + 3) & ~3
    return out
