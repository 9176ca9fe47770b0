"""Captures chosen interfaces into one pcapng file, by a process of its own."""

import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from topologies import addressing
from topologies.model import Fabric
from worlds.api import WorldError
from worlds.live import control
from worlds.live.capture_process import FILE_NAME, SO_TIMESTAMPNS
from worlds.live.raw_port import RawPort
from worlds.live.wiring import Wiring

CHECKOUT = Path(__file__).resolve().parents[2]
_STOP_WITHIN_S = 5.0


class Capture:
    """Runs from here on until `close`.  `epoch_ns`: CLOCK_MONOTONIC at the world's time 0."""

    def __init__(
        self, fabric: Fabric, wiring: Wiring, ports: Sequence[str], folder: Path, epoch_ns: int
    ) -> None:
        """Raises WorldError for a name that is no interface of this fabric, or if it fails."""
        ours, theirs = control.pair()
        self._channel = ours
        command = ["-m", "worlds.live.capture_process", "--control-fd", str(theirs.fileno())]
        self._process = subprocess.Popen(
            [sys.executable, *command], pass_fds=[theirs.fileno()], cwd=CHECKOUT
        )
        theirs.close()
        for name in ports:
            sock = _tap(fabric, wiring, name)
            ours.send({"port": name}, [sock.fileno()])
            sock.close()
        real_epoch_ns = epoch_ns + time.time_ns() - time.monotonic_ns()
        ours.send({"file": str(folder / FILE_NAME), "epoch_ns": real_epoch_ns})
        ours.socket.settimeout(_STOP_WITHIN_S)
        try:
            ours.receive()
        except (control.ChannelClosed, TimeoutError) as error:
            raise WorldError("the capture process did not start") from error

    def close(self) -> None:
        """What crossed the interfaces until now is in the file when this returns."""
        self._channel.close()
        try:
            self._process.wait(timeout=_STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _tap(fabric: Fabric, wiring: Wiring, name: str) -> socket.socket:
    """A socket that sees all frames of the interface, both ways, with the kernel's time."""
    for link in fabric.links:
        for end in (link.lower, link.upper):
            if addressing.interface_name(end.node, end.port) == name:
                with wiring.namespace(end.node).entered():
                    port = RawPort(name, outgoing=True)
                port.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
                return port.socket
    raise WorldError(f"no port {name!r} to capture; a port is named like h0-eth0")
