"""The engine as one process a switch: its command line, its control socket, its start and end.

The process opens its packet sockets before it reads a control message, so the answer to the first
one (`Device.program`) says that it is ready.  It ends when its control socket is closed, and at
once when the thread that started it ends (PR_SET_PDEATHSIG).
"""

import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from switches.api import SwitchError, SwitchErrorCode
from switches.engine.device import Device

ANSWER_WITHIN_S = 5.0
REPLY_MAX = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchProcess:
    """What to start.

    ports: port number to interface name, in the namespace of the process.  ring: receive through
    mapped rings even where large socket buffers can be had; without privilege they cannot, and the
    process uses rings of itself.
    """

    executable: Path
    name: str
    seed: int
    ports: Mapping[int, str]
    ring: bool = False

    def command(self, control_fd: int) -> list[str]:
        """The command line; `control_fd` is inherited, a connected SOCK_SEQPACKET socket."""
        ports = [f"{number}={interface}" for number, interface in sorted(self.ports.items())]
        return [
            str(self.executable),
            *("--name", self.name),
            *("--seed", str(self.seed & (1 << 64) - 1)),
            *("--control-fd", str(control_fd)),
            *(word for port in ports for word in ("--port", port)),
            *(("--ring",) if self.ring else ()),
        ]


class SocketChannel:
    """Control messages over a socket; requests from several threads are taken one by one."""

    def __init__(
        self, sock: socket.socket, name: str, *, timeout_s: float = ANSWER_WITHIN_S
    ) -> None:
        self._sock = sock
        self._name = name
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._broken: str | None = None
        sock.settimeout(timeout_s)

    def request(self, message: bytes) -> bytes:
        """Raises SwitchError(UNAVAILABLE), naming the switch, now and ever after."""
        with self._lock:
            if self._broken is not None:
                raise SwitchError(SwitchErrorCode.UNAVAILABLE, self._broken)
            try:
                self._sock.sendall(message)
                reply = self._sock.recv(REPLY_MAX)
            except TimeoutError:
                raise self._break(f"did not answer within {self._timeout_s:g} s") from None
            except OSError as error:
                raise self._break(f"is gone: {error.strerror or error}") from None
            if not reply:
                raise self._break("is gone")
            return reply

    def _break(self, how: str) -> SwitchError:
        """A late reply would be taken for that of the next request: there is no next request."""
        self._broken = f"switch {self._name} {how}"
        return SwitchError(SwitchErrorCode.UNAVAILABLE, self._broken)

    def close(self) -> None:
        self._sock.close()


class RunningSwitch:
    """A started switch process.  `device` is its control side."""

    def __init__(
        self, spec: SwitchProcess, process: subprocess.Popen[bytes], channel: SocketChannel
    ) -> None:
        self.spec = spec
        self.process = process
        self.channel = channel
        self.device = Device(channel)

    def died(self) -> str | None:
        """How the process ended, or None while it runs."""
        status = self.process.poll()
        if status is None:
            return None
        return f"killed by signal {-status}" if status < 0 else f"exit status {status}"

    def kill(self) -> None:
        """As a power cut: SIGKILL, and wait until the process is gone."""
        self.process.kill()
        self.process.wait()
        self.channel.close()

    def close(self) -> None:
        """Lets the process end, or kills it after a second.  Idempotent."""
        self.channel.close()
        try:
            self.process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            self.kill()


def start(
    spec: SwitchProcess, *, prefix: Sequence[str] = (), stderr: IO[bytes] | int | None = None
) -> RunningSwitch:
    """Starts the process and does not wait for it: many may come up side by side.

    `prefix`: words before the command that run it elsewhere (a namespace) and exec it with its
    inherited files.  Raises OSError where it cannot be started; a process that refuses its
    arguments or interfaces says why on `stderr` and is gone at the first request.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [*prefix, *spec.command(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )
    return RunningSwitch(spec, process, SocketChannel(ours, spec.name))
