"""One private network, PID and mount namespace around everything the live world starts.

Three processes: the command the user started stays outside and forwards signals; its child is PID 1
inside, which only forwards and reaps; PID 1's child is the runner.  Each dies with its parent
(PR_SET_PDEATHSIG) and the kernel ends every process of a PID namespace with its PID 1, so whichever
of the three ends, and however, nothing is left.  No interface of ours is ever seen outside.

Without root the three namespaces are made inside a user namespace, where that is allowed.
"""

import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from typing import NoReturn

from worlds.api import WorldUnavailable
from worlds.live import libc

GRACE_S = 1.0
"""How long the runner may tidy up after a signal before it is killed."""

INTERNAL_ERROR = 4
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SI_KERNEL = 0x80
"""si_code of a signal the terminal sent; its whole foreground group has it already."""


_inside = False
_init_pid = 0


def is_inside() -> bool:
    """Whether this process is the runner in a private namespace."""
    return _inside


def init_pid() -> int:
    """How PID 1 of our private namespace is called outside, for whoever wants to come in."""
    return _init_pid


def enter(pid: int) -> None:
    """Into the private namespaces of that process; PIDs are the next child's.  Raises OSError."""
    kinds = {
        "user": libc.CLONE_NEWUSER,
        "pid": libc.CLONE_NEWPID,
        "net": libc.CLONE_NEWNET,
        "mnt": libc.CLONE_NEWNS,
    }
    fds = {}
    for name in kinds:
        path = f"/proc/{pid}/ns/{name}"
        if os.stat(path).st_ino != os.stat(f"/proc/self/ns/{name}").st_ino:
            fds[name] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    for name, fd in fds.items():
        libc.setns(fd, kinds[name])
        os.close(fd)


def run(main: Callable[[], int]) -> int:
    """Run `main` inside; returns its exit code, or 128 + the signal that ended it.

    Call before any thread exists.  An exception out of `main` is printed and gives 4.  Raises
    WorldUnavailable where the namespaces may not be made.
    """
    own_pid_namespace = os.open("/proc/self/ns/pid_for_children", os.O_RDONLY | os.O_CLOEXEC)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, (*_FORWARDED, signal.SIGCHLD))
    alive = os.pidfd_open(os.getpid())
    ready, told = os.pipe()
    try:
        _unshare_pids()
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            os.close(ready)
            _become_init(main, blocked, alive, told)
        _leave_pid_namespace(own_pid_namespace)
        os.close(told)
        told = -1
        refusal = _read_all(ready)
        if refusal:
            os.waitpid(child, 0)
            raise WorldUnavailable(refusal)
        return _supervise(child, reap_all=False)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for fd in (own_pid_namespace, alive, ready, told):
            if fd >= 0:
                os.close(fd)


def why_not() -> str | None:
    """Tries it, in a child that ends at once.  None if the namespaces can be made, else why not."""
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ready)
        try:
            code = run(lambda: 0)
            os.write(told, b"" if code == 0 else b"a trial namespace failed")
        except WorldUnavailable as error:
            os.write(told, str(error).encode())
        finally:
            os._exit(0)
    os.close(told)
    reason = _read_all(ready)
    os.close(ready)
    os.waitpid(child, 0)
    return reason or None


def _unshare_pids() -> None:
    uid, gid = os.geteuid(), os.getegid()
    user = 0 if uid == 0 else libc.CLONE_NEWUSER
    try:
        libc.unshare(user | libc.CLONE_NEWPID)
        if user:
            _write("/proc/self/setgroups", "deny")
            _write("/proc/self/uid_map", f"0 {uid} 1")
            _write("/proc/self/gid_map", f"0 {gid} 1")
    except OSError as error:
        raise WorldUnavailable(_refusal(error)) from error


def _leave_pid_namespace(fd: int) -> None:
    """Later children of this process are ordinary ones again (root only; else it stays inside)."""
    if os.geteuid() == 0:
        try:
            libc.setns(fd, libc.CLONE_NEWPID)
        except OSError:
            return


def _become_init(main: Callable[[], int], mask: Iterable[int], parent: int, told: int) -> NoReturn:
    try:
        seen_as = int(os.readlink("/proc/self"))
        _die_with(parent)
        libc.unshare(libc.CLONE_NEWNET | libc.CLONE_NEWNS)
        libc.mount("none", "/", "none", libc.MS_REC | libc.MS_PRIVATE)
        libc.mount("proc", "/proc", "proc", libc.MS_NOSUID | libc.MS_NODEV | libc.MS_NOEXEC)
    except OSError as error:
        os.write(told, _refusal(error).encode())
        os._exit(INTERNAL_ERROR)
    os.close(told)
    alive = os.pidfd_open(os.getpid())
    global _init_pid
    _init_pid = seen_as
    runner = os.fork()
    if runner == 0:
        _die_with(alive)
        _become_runner(main, mask)
    os._exit(_supervise(runner, reap_all=True))


def _become_runner(main: Callable[[], int], mask: Iterable[int]) -> NoReturn:
    for number in _FORWARDED:  # also where the shell had SIGINT ignored for a background job
        signal.signal(number, _stop)
    global _inside
    _inside = True
    code = INTERNAL_ERROR
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        code = main()
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _stop(number: int, _frame: object) -> NoReturn:
    """Once: a second signal must not break off the tidying that the first one began."""
    for each in _FORWARDED:
        signal.signal(each, signal.SIG_IGN)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)


def _die_with(parent: int) -> None:
    """`parent`: a pidfd, since getppid() says 0 across a PID namespace."""
    libc.die_with_parent()
    if select.select([parent], [], [], 0)[0]:
        os._exit(INTERNAL_ERROR)
    os.close(parent)


def _supervise(child: int, *, reap_all: bool) -> int:
    """Forward signals to the child until it ends; its exit code, or 128 + signal."""
    kill_at: float | None = None
    while True:
        while True:
            pid, status = os.waitpid(-1 if reap_all else child, os.WNOHANG)
            if pid == child:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
            if pid == 0:
                break
        left = 3600.0 if kill_at is None else max(0.0, kill_at - time.monotonic())
        info = signal.sigtimedwait((*_FORWARDED, signal.SIGCHLD), left)
        if info is None:
            if kill_at is not None:
                os.kill(child, signal.SIGKILL)
                kill_at = None
        elif info.si_signo != signal.SIGCHLD:
            if info.si_code != _SI_KERNEL:
                os.kill(child, info.si_signo)
            kill_at = kill_at or time.monotonic() + GRACE_S


def _refusal(error: OSError) -> str:
    return (
        f"this process may not make network, PID and mount namespaces ({error.strerror}): run as "
        "root (in a container: with SYS_ADMIN and NET_ADMIN) or allow user namespaces"
    )


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def _read_all(fd: int) -> str:
    out = b""
    while chunk := os.read(fd, 4096):
        out += chunk
    return out.decode()
