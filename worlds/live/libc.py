"""The few system calls the standard library of Python 3.11 lacks."""

import ctypes
import os
import platform
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from signal import SIGKILL

CLONE_NEWNS = 0x0002_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000

MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REC = 0x4000
MS_PRIVATE = 0x4_0000

NETWORK_NAMESPACE = "/proc/thread-self/ns/net"

_MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1
_PR_SET_TIMERSLACK = 29

SLICE_NS = 100_000
"""The shortest the kernel gives; what a switch or a NIC does at one go takes less."""

_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
_SCHED_ATTR = struct.Struct("=IIQiIQQQ")

_libc = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """Leave the namespaces named by the CLONE_NEW* flags for new ones.  Raises OSError."""
    _check("unshare", _libc.unshare(ctypes.c_int(flags)))


def setns(fd: int, flags: int) -> None:
    """Enter the namespace behind that descriptor.  Raises OSError."""
    _check("setns", _libc.setns(ctypes.c_int(fd), ctypes.c_int(flags)))


def mount(source: str, target: str, kind: str, flags: int) -> None:
    """mount(2) without data.  Raises OSError."""
    names = [name.encode() for name in (source, target, kind)]
    _check("mount", _libc.mount(*names, ctypes.c_ulong(flags), None))


def unmount(target: str) -> None:
    """umount2(2), also while in use.  Raises OSError."""
    _check("umount", _libc.umount2(target.encode(), ctypes.c_int(_MNT_DETACH)))


def die_with_parent() -> None:
    """SIGKILL for this process when the thread that made it ends."""
    _check("prctl", _libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(SIGKILL), 0, 0, 0))


def wake_exactly() -> None:
    """Timers of this thread fire when due; the kernel may else group them within 50 us."""
    _check("prctl", _libc.prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(1), 0, 0, 0))


def ask_for_short_slices() -> None:
    """This process and its children run soon after they wake, for no more of the processor.

    Linux 6.12 and later; earlier kernels, and machines we do not know, do as they always did.
    """
    number = _SCHED_SETATTR.get(platform.machine())
    if number is None:
        return
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    attributes = _SCHED_ATTR.pack(_SCHED_ATTR.size, os.SCHED_OTHER, 0, nice, 0, SLICE_NS, 0, 0)
    _libc.syscall(ctypes.c_long(number), 0, attributes, 0)


@contextmanager
def own_network_namespace_kept() -> Iterator[None]:
    """Whatever network namespace this thread enters, it is back in its own afterwards."""
    own = os.open(NETWORK_NAMESPACE, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield
    finally:
        setns(own, CLONE_NEWNET)
        os.close(own)


@contextmanager
def network_namespace(fd: int) -> Iterator[None]:
    """This thread is in the network namespace behind `fd`, and back in its own afterwards."""
    with own_network_namespace_kept():
        setns(fd, CLONE_NEWNET)
        yield


def _check(call: str, result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
