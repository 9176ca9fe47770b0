"""A network namespace that nobody else sees: no name, gone with the process that holds it."""

import contextlib
import ctypes
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator

ETH_P_ALL = 3
SO_RCVBUFFORCE = 33
_CLONE_NEWNET = 0x4000_0000
_libc = ctypes.CDLL(None, use_errno=True)


class Namespace:
    """Held by a `cat` that ends when its standard input does: with close(), or with us."""

    def __init__(self) -> None:
        self._holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo ready; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"ready\n"
        self.path = f"/proc/{self._holder.pid}/ns/net"
        self.prefix = ("nsenter", f"--net={self.path}")
        self.run("ip", "link", "set", "lo", "up")

    def run(self, *command: str) -> str:
        done = subprocess.run([*self.prefix, *command], check=False, capture_output=True, text=True)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
        return done.stdout

    def veth(self, one: str, other: str, *, mtu: int = 9000) -> None:
        """A pair that is up and says nothing on its own."""
        self.run("ip", "link", "add", one, "type", "veth", "peer", "name", other)
        for name in (one, other):
            self.run("sh", "-c", f"echo 1 > /proc/sys/net/ipv6/conf/{name}/disable_ipv6 || true")
            self.run("ip", "link", "set", name, "mtu", str(mtu), "up")

    def raw_socket(self, interface: str) -> socket.socket:
        """All frames of that interface, with room for a burst."""
        with self.entered():
            sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
        with self.entered():
            sock.bind((interface, 0))
        return sock

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """This thread is inside for a while."""
        own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        other = os.open(self.path, os.O_RDONLY)
        try:
            assert _libc.setns(other, _CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
            try:
                yield
            finally:
                assert _libc.setns(own, _CLONE_NEWNET) == 0
        finally:
            os.close(own)
            os.close(other)

    def close(self) -> None:
        self._holder.communicate()


def eventually(condition: Callable[[], bool], within_s: float = 2.0) -> bool:
    """Whether it becomes true; looked at every few milliseconds."""
    end = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True
