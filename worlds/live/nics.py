"""The NIC processes of a fabric, as the runner sees them: started, asked, watched, ended."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worlds.api import NodeDied, WorldError
from worlds.live import control
from worlds.live.control import ChannelClosed, ControlChannel

ANSWER_WITHIN_S = 5.0
_HOW_WITHIN_S = 0.5
PARENT_LOG = "nic_process.log"
CHECKOUT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class NicProcess:
    """One host's process.  `pidfd` becomes readable when it ends."""

    pid: int
    pidfd: int
    channel: ControlChannel
    log: Path | None


class Nics:
    """All of them.  The constructor starts their common parent, which imports meanwhile."""

    def __init__(self, logs: Path | None) -> None:
        self._logs = logs
        self._processes: dict[str, NicProcess] = {}
        self._starting: dict[str, tuple[ControlChannel, Path | None]] = {}
        self._spawned: list[int] = []
        self._ended: dict[int, int] = {}
        parent, theirs = control.pair()
        log = open(logs / PARENT_LOG, "ab") if logs else None  # noqa: SIM115
        command = ["-m", "worlds.live.nic_process", "--control-fd", str(theirs.fileno())]
        self._parent = subprocess.Popen(
            [sys.executable, *command],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            cwd=CHECKOUT,
        )
        theirs.close()
        if log:
            log.close()
        self._channel = parent
        self._channel.socket.settimeout(ANSWER_WITHIN_S * 4)

    def wait_for_imports(self) -> None:
        """Until the common parent is ready to make host processes.  Raises WorldError."""
        try:
            self._channel.receive()
        except (ChannelClosed, TimeoutError) as error:
            raise WorldError(f"the NIC processes cannot be started: {self._why()}") from error

    def _why(self) -> str:
        try:
            how = _status(self._parent.wait(timeout=1.0))
        except subprocess.TimeoutExpired:
            return "no answer"
        last_words = _last_line(self._logs / PARENT_LOG if self._logs else None)
        return f"{how}: {last_words}" if last_words else how

    def spawn(self, hosts: Iterable[tuple[str, Sequence[tuple[str, int]], int]]) -> None:
        """(name, (interface, index) by port, namespace descriptor) each; all side by side."""
        for name, ports, namespace_fd in hosts:
            ours, theirs = control.pair()
            ours.socket.settimeout(ANSWER_WITHIN_S)
            log = self._logs / f"{name}.log" if self._logs else None
            message = {"host": name, "ports": ports, "log": None if log is None else str(log)}
            self._channel.send(message, [theirs.fileno(), namespace_fd])
            theirs.close()
            self._starting[name] = ours, log

    def wait_until_ready(self) -> None:
        """Until all have opened their ports.  Raises WorldError, NodeDied."""
        for name, (channel, log) in self._starting.items():
            pid = self._next_pid()
            try:
                pidfd = os.pidfd_open(pid)
            except ProcessLookupError:
                raise NodeDied(name, _last_line(log) or "it ended as it started") from None
            self._processes[name] = NicProcess(pid, pidfd, channel, log)
        self._starting.clear()
        self.ask_all(self._processes, {"op": "ready"})

    def ask(self, host: str, message: Mapping[str, Any]) -> dict[str, Any]:
        """Raises NodeDied, and WorldError for no answer within 5 s or a refusal."""
        answer: dict[str, Any] = self.ask_all([host], message)[host]
        return answer

    def ask_all(self, hosts: Iterable[str], message: Mapping[str, Any]) -> dict[str, Any]:
        """The same message to several hosts, which work on it side by side."""
        names = list(hosts)
        for name in names:
            self._talk(name, lambda channel: channel.send(message))
        return {name: self._receive(name) for name in names}

    def pidfds(self) -> dict[int, str]:
        """By descriptor, which becomes readable when that host's process ends: its name."""
        return {process.pidfd: name for name, process in self._processes.items()}

    def died(self, name: str) -> NodeDied:
        """What to say of a host whose process has ended."""
        process = self._processes[name]
        deadline = time.monotonic() + _HOW_WITHIN_S
        while process.pid not in self._ended:
            if not select.select([self._channel], [], [], max(deadline - time.monotonic(), 0))[0]:
                break
            self._hear()
        how = _status(self._ended.get(process.pid))
        last_words = _last_line(process.log)
        return NodeDied(name, f"{how}: {last_words}" if last_words else how)

    def close(self) -> None:
        """End of file is the end of each process; what does not hear it is killed.  Idempotent."""
        for channel, _ in self._starting.values():
            channel.close()
        self._starting.clear()
        for process in self._processes.values():
            process.channel.close()
        for process in self._processes.values():
            if not select.select([process.pidfd], [], [], 1.0)[0]:
                _kill(process.pidfd)
            os.close(process.pidfd)
        self._processes.clear()
        self._channel.close()
        try:
            self._parent.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            self._parent.kill()
            self._parent.wait()

    def _receive(self, name: str) -> dict[str, Any]:
        answer: dict[str, Any] = self._talk(name, lambda channel: channel.receive())
        if "error" in answer and len(answer) == 1:
            raise WorldError(f"{name}: {answer['error']}")
        return answer

    def _talk(self, name: str, what: Any) -> Any:
        process = self._processes.get(name)
        if process is None:
            raise WorldError(f"no host {name!r}")
        try:
            return what(process.channel)
        except ChannelClosed:
            raise self.died(name) from None
        except TimeoutError:
            raise WorldError(f"{name} did not answer within {ANSWER_WITHIN_S:g} s") from None

    def _next_pid(self) -> int:
        while not self._spawned:
            self._hear()
        return self._spawned.pop(0)

    def _hear(self) -> None:
        """One message of the common parent."""
        try:
            message = self._channel.receive()
        except (ChannelClosed, TimeoutError) as error:
            raise WorldError("the parent of the NIC processes is gone") from error
        if "pid" in message:
            self._spawned.append(message["pid"])
        elif "died" in message:
            self._ended[message["died"]] = message["status"]


def _status(code: int | None) -> str:
    if code is None:
        return "its process is gone"
    return f"killed by signal {-code}" if code < 0 else f"exit status {code}"


def _last_line(log: Path | None) -> str:
    if log is None or not log.exists():
        return ""
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


def _kill(pidfd: int) -> None:
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        return
    select.select([pidfd], [], [], 1.0)
