"""Offloads of an interface off, and read back: a switch must see the bytes that were sent.

The ethtool ioctl, since it costs two system calls an interface and no process.  Layouts are those
of linux/ethtool.h.
"""

import array
import fcntl
import socket
import struct

from worlds.api import WorldUnavailable

_SIOCETHTOOL = 0x8946
_ETHTOOL_GSTRINGS = 0x1B
_ETHTOOL_GSSET_INFO = 0x37
_ETHTOOL_GFEATURES = 0x3A
_ETHTOOL_SFEATURES = 0x3B
_ETH_SS_FEATURES = 4
_GSTRING_LEN = 32

_OFF = ("checksum", "segmentation", "scatter-gather", "gso", "gro", "lro", "vlan")
"""Every feature with one of these in its name goes off (`rx-checksum`, `tx-gso-...` and so on)."""

_KEEP = ("vlan-challenged", "tx-gso-robust")
"""Statements about a device rather than work it does."""


class Offloads:
    """Turns the offloads of interfaces off.  Names of features are read from the kernel once."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._masks: list[int] = []  # of the features that go off, 32 a block

    def turn_off(self, inside: socket.socket, interface: str) -> None:
        """`inside`: any socket made in the interface's namespace.

        Raises WorldUnavailable if the kernel left one of them on.
        """
        self._learn_names(inside, interface)
        _, changeable = _features(inside, interface, len(self._masks))
        request = bytearray(struct.pack("=II", _ETHTOOL_SFEATURES, len(self._masks)))
        for block, mask in enumerate(self._masks):
            request += struct.pack("=II", changeable[block] & mask, 0)
        _ethtool(inside, interface, request)
        if on := self.read_back(inside, interface):
            raise WorldUnavailable(f"{interface}: the kernel left offloads on: {', '.join(on)}")

    def read_back(self, inside: socket.socket, interface: str) -> list[str]:
        """The names of those offloads that are still on, and that the kernel lets one turn off."""
        self._learn_names(inside, interface)
        active, changeable = _features(inside, interface, len(self._masks))
        on = [a & c & mask for a, c, mask in zip(active, changeable, self._masks, strict=True)]
        return [name for bit, name in enumerate(self._names) if on[bit // 32] >> bit % 32 & 1]

    def _learn_names(self, inside: socket.socket, interface: str) -> None:
        if not self._names:
            self._names = _feature_names(inside, interface)
            self._masks = [0] * -(-len(self._names) // 32)
            for bit, name in enumerate(self._names):
                if any(part in name for part in _OFF) and name not in _KEEP:
                    self._masks[bit // 32] |= 1 << bit % 32


def _features(inside: socket.socket, interface: str, blocks: int) -> tuple[list[int], list[int]]:
    """(active, changeable) masks, 32 bits a block."""
    request = bytearray(struct.pack("=II", _ETHTOOL_GFEATURES, blocks)) + bytes(16 * blocks)
    answer = _ethtool(inside, interface, request)
    active, changeable = [], []
    for block in range(blocks):
        available, _, on, never = struct.unpack_from("=IIII", answer, 8 + 16 * block)
        active.append(on)
        changeable.append(available & ~never)
    return active, changeable


def _feature_names(inside: socket.socket, interface: str) -> list[str]:
    head = bytearray(struct.pack("=IIQI", _ETHTOOL_GSSET_INFO, 0, 1 << _ETH_SS_FEATURES, 0))
    (count,) = struct.unpack_from("=I", _ethtool(inside, interface, head), 16)
    request = bytearray(struct.pack("=III", _ETHTOOL_GSTRINGS, _ETH_SS_FEATURES, count))
    answer = _ethtool(inside, interface, request + bytes(_GSTRING_LEN * count))[12:]
    strings = (answer[i : i + _GSTRING_LEN] for i in range(0, len(answer), _GSTRING_LEN))
    return [string.split(b"\0")[0].decode() for string in strings]


def _ethtool(inside: socket.socket, interface: str, request: bytearray) -> bytes:
    buffer = array.array("B", request)
    address, _ = buffer.buffer_info()
    fcntl.ioctl(
        inside.fileno(), _SIOCETHTOOL, struct.pack("16sP", interface.encode(), address) + bytes(16)
    )
    return buffer.tobytes()
