"""The process of a host's NIC: `python -m worlds.live.nic_process --control-fd N`.

Started once, by that command line: it imports everything, then makes one process a host on request
(fork), so that eight hosts cost one interpreter start.  A host process enters the network
namespace it was given, opens its raw ports and drives a `hosts.host.Host` by the clock until the
runner closes its control socket.

Between the runner and this parent (descriptors travel with the message):

    spawn {host, ports: [[interface, index], ...], log}  + [control, namespace]  -> {pid}

What it tells unasked: {died, status} when a host process has ended.

Between the runner and a host process, besides the messages of hosts/messages.py:

    ready     -> {}                            the ports are open
    epoch     {epoch_ns}                       the CLOCK_MONOTONIC reading that is time 0
    configure {config, seed}                   a new Host
    clock     -> {timers, sends, ...}          lateness, frames lost by the machine
"""

import argparse
import gc
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from hosts.errors import UsageError
from hosts.host import Host
from worlds import rng
from worlds.api import WorldUnavailable
from worlds.live import libc
from worlds.live.carrier import CarrierWatch
from worlds.live.control import ChannelClosed, ControlChannel
from worlds.live.raw_port import RawPort
from worlds.live.realtime import RealTime

Message = Mapping[str, Any]


class Nic:
    """A host process: what the runner says, and what the machine did."""

    def __init__(
        self, name: str, ports: Sequence[tuple[str, int]], channel: ControlChannel
    ) -> None:
        self.name = name
        self.host: Host | None = None
        self.ports = [RawPort(interface) for interface, _ in ports]
        indexes = [index for _, index in ports]
        self.loop = RealTime(self.ports, indexes, CarrierWatch(), channel, self.answer)

    def answer(self, message: dict[str, Any], now_ns: int) -> Message:
        """`{error}` for what the runner should not have said."""
        handler = {
            "ready": self._ready,
            "epoch": self._epoch,
            "configure": self._configure,
            "clock": self._clock,
        }.get(message["op"])
        try:
            if handler is not None:
                return handler(message)
            if self.host is None:
                raise UsageError(f"{message['op']} before configure")
            return self.host.control(message, now_ns)
        except UsageError as error:
            return {"error": str(error)}

    def _ready(self, _message: Message) -> Message:
        return {}

    def _epoch(self, message: Message) -> Message:
        self.loop.epoch_ns = message["epoch_ns"]
        return {}

    def _configure(self, message: Message) -> Message:
        self.host = Host(message["config"], rng.stream(message["seed"], f"host/{self.name}"))
        self.loop.tell_carriers(self.host)
        self.loop.node = self.host
        self.loop.measure_anew([port["rate_bps"] for port in message["config"]["ports"]])
        gc.collect()
        gc.freeze()
        return {}

    def _clock(self, _message: Message) -> Message:
        timers, sends = self.loop.timers, self.loop.sends
        return {
            "timers": timers.count,
            "timer_p999_ns": timers.quantile(999),
            "sends": sends.count,
            "send_p999_ns": sends.quantile(999),
            "busy_ns": self.loop.busy_ns,
            "lost_ns": self.loop.lost_ns,
            "ports": {
                port.interface: {
                    "taken": taken,
                    "ring_drops": port.ring_drops(),
                    "sent_down": port.sent_down,
                    "sent_refused": port.sent_refused,
                }
                for port, taken in zip(self.ports, self.loop.taken, strict=True)
            },
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--control-fd", type=int, required=True)
    channel = ControlChannel(socket.socket(fileno=parser.parse_args().control_fd))
    libc.die_with_parent()
    gc.collect()
    gc.freeze()
    gc.disable()
    ended, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    channel.send({"ready": os.getpid()})
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the runner decides when a run ends
    try:
        while True:
            readable, _, _ = select.select([channel.fileno(), ended], (), ())
            if ended in readable:
                os.read(ended, 64)
                _tell_deaths(channel)
            if channel.fileno() in readable:
                _spawn(channel)
    except ChannelClosed:
        return 0


def _spawn(channel: ControlChannel) -> None:
    message, (control_fd, namespace_fd) = channel.receive_with_descriptors()
    parent = os.pidfd_open(os.getpid())
    pid = os.fork()
    if pid == 0:
        channel.close()
        _become_host(message, control_fd, namespace_fd, parent)
    for fd in (control_fd, namespace_fd, parent):
        os.close(fd)
    channel.send({"pid": pid})


def _tell_deaths(channel: ControlChannel) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        channel.send({"died": pid, "status": os.waitstatus_to_exitcode(status)})


def _become_host(message: Message, control_fd: int, namespace_fd: int, parent: int) -> NoReturn:
    code = 1
    try:
        libc.die_with_parent()
        if select.select([parent], (), (), 0)[0]:
            os._exit(code)  # it was gone before we asked to die with it
        _log_to(message["log"])
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        libc.setns(namespace_fd, libc.CLONE_NEWNET)
        os.close(namespace_fd)
        ports = [(interface, index) for interface, index in message["ports"]]
        channel = ControlChannel(socket.socket(fileno=control_fd))
        Nic(message["host"], ports, channel).loop.run()
        code = 0
    except WorldUnavailable as error:
        print(error, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _log_to(path: str | None) -> None:
    if path is not None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(fd, 1)
        os.dup2(fd, 2)
        os.close(fd)


if __name__ == "__main__":
    sys.exit(main())
