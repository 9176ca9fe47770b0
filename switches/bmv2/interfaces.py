"""What the kernel counts at a switch's interfaces, because BMv2 has no counters of its ports.

BMv2's own word on whether a port is up comes from sysfs, which shows another network namespace
than the switch's; the flags of the interface do not lie.
"""

import fcntl
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

_SIOCGIFFLAGS, _SIOCSIFFLAGS = 0x8913, 0x8914
_IFF_UP = 0x1
_IFF_RUNNING = 0x40
_IFREQ = struct.Struct("16sh22x")


@dataclass(frozen=True, slots=True)
class InterfaceCounters:
    """One line of /proc/PID/net/dev, from the switch's side of the wire."""

    rx_packets: int
    rx_bytes: int
    rx_dropped: int
    tx_packets: int
    tx_bytes: int
    tx_dropped: int

    def since(self, before: "InterfaceCounters") -> "InterfaceCounters":
        return InterfaceCounters(
            *(getattr(self, f.name) - getattr(before, f.name) for f in fields(self))
        )


@dataclass(frozen=True, slots=True)
class InterfaceState:
    up: bool
    counters: InterfaceCounters


class Interfaces:
    """Made in the network namespace of the switch by a thread that has entered it.

    Counts begin when it is made: what an earlier switch did at the same interfaces is not in them.
    """

    def __init__(self, names: Mapping[int, str]) -> None:
        self._names = dict(names)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._before = parse_net_dev(Path("/proc/thread-self/net/dev").read_text("ascii"))

    def loopback_up(self) -> None:
        """Thrift listens on TCP and nothing else."""
        flags = self._flags("lo") | _IFF_UP
        fcntl.ioctl(self._socket, _SIOCSIFFLAGS, _IFREQ.pack(b"lo", flags))

    def states(self, pid: int) -> dict[int, InterfaceState]:
        """By switch port; `pid` is any process in the namespace.  Raises OSError."""
        counted = parse_net_dev(Path(f"/proc/{pid}/net/dev").read_text(encoding="ascii"))
        return {
            port: InterfaceState(
                bool(self._flags(name) & _IFF_RUNNING), counted[name].since(self._before[name])
            )
            for port, name in self._names.items()
        }

    def close(self) -> None:
        self._socket.close()

    def _flags(self, name: str) -> int:
        answer = fcntl.ioctl(self._socket, _SIOCGIFFLAGS, _IFREQ.pack(name.encode(), 0))
        flags: int = _IFREQ.unpack(answer)[1]
        return flags


def parse_net_dev(content: str) -> dict[str, InterfaceCounters]:
    """Counters by interface name."""
    found = {}
    for line in content.splitlines()[2:]:
        name, _, numbers = line.partition(":")
        n = [int(word) for word in numbers.split()]
        found[name.strip()] = InterfaceCounters(n[1], n[0], n[3], n[9], n[8], n[11])
    return found
