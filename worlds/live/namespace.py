"""The network namespace of one node, held by descriptor, with the sockets to work in it."""

import os
import socket
from contextlib import AbstractContextManager

from worlds.api import WorldUnavailable
from worlds.live import libc
from worlds.live.netlink import Netlink

_DISABLE_IPV6 = "/proc/sys/net/ipv6/conf/default/disable_ipv6"


class Namespace:
    """Made by this constructor, gone when closed and no process is left in it.

    Interfaces that come into it have no IPv6: the kernel says nothing on its own.  Raises
    WorldUnavailable where that cannot be had.  `netlink` and `socket` (for ioctls) live inside.
    """

    def __init__(self) -> None:
        with libc.own_network_namespace_kept():
            libc.unshare(libc.CLONE_NEWNET)
            _silence_ipv6()
            self.fd = os.open(libc.NETWORK_NAMESPACE, os.O_RDONLY | os.O_CLOEXEC)
            self.netlink = Netlink()
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

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
