"""The network namespace of one node, held by descriptor, with the sockets to work in it."""

import os
import socket
from contextlib import AbstractContextManager
from typing import Self

from worlds.api import WorldUnavailable
from worlds.live import libc
from worlds.live.netlink import Netlink

_DISABLE_IPV6 = "/proc/sys/net/ipv6/conf/default/disable_ipv6"


class Namespace:
    """Gone when closed and no process is left in it.

    `netlink` and `socket` (for ioctls) live inside.
    """

    def __init__(self) -> None:
        """The network namespace this thread is in; see `make` and `at`."""
        self.fd = os.open(libc.NETWORK_NAMESPACE, os.O_RDONLY | os.O_CLOEXEC)
        self.netlink = Netlink()
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    @classmethod
    def make(cls) -> Self:
        """A new one.  Interfaces that come into it have no IPv6: the kernel keeps quiet there.

        Raises WorldUnavailable where that cannot be had.
        """
        with libc.own_network_namespace_kept():
            libc.unshare(libc.CLONE_NEWNET)
            _silence_ipv6()
            return cls()

    @classmethod
    def at(cls, path: str) -> Self:
        """The one that file stands for.  Raises OSError."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            with libc.network_namespace(fd):
                return cls()
        finally:
            os.close(fd)

    def entered(self) -> AbstractContextManager[None]:
        """This thread, and the processes it starts meanwhile, are inside."""
        return libc.network_namespace(self.fd)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.netlink.close()
            self.socket.close()
            self.fd = -1


def _silence_ipv6() -> None:
    """A kernel or container without IPv6 has no such file, and is silent already."""
    if not os.path.exists(_DISABLE_IPV6):
        return
    try:
        with open(_DISABLE_IPV6, "w", encoding="ascii") as file:
            file.write("1")
    except OSError as error:
        raise WorldUnavailable(
            f"IPv6 cannot be turned off on the data interfaces ({_DISABLE_IPV6}: "
            f"{error.strerror}), so the kernel would send packets of its own"
        ) from error
