"""The contract of a switch, held by the embedded engine as a process between real interfaces."""

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from switches import compile_p4
from switches.api import DATA_PRIORITY
from switches.engine.build import build
from switches.engine.process import RunningSwitch, SwitchProcess, start
from tests.engine.contract import PORT_COUNT, Sent, SwitchContract
from tests.engine.namespace import Namespace

SETTLE_S = 5.0
FRAME_MAX = 10_000


class ProcessRig:
    """Real time and real wires; a held queue is a paused one."""

    hold_slack = 0

    def __init__(self, running: RunningSwitch, wires: list[socket.socket]) -> None:
        self.switch = running.device
        self._wires = wires
        self._sent = 0
        self._held: list[int] = []

    def send(self, port: int, frame: bytes) -> None:
        self._wires[port].send(frame)
        self._sent += 1

    def hold(self, port: int) -> None:
        self.switch.pause_queue(port, DATA_PRIORITY, True)
        self._held.append(port)

    def collect(self) -> list[Sent]:
        self._wait_for(lambda: self._received() == self._sent)
        for port in self._held:
            self.switch.pause_queue(port, DATA_PRIORITY, False)
        self._held.clear()
        self._wait_for(lambda: self._gone() == self._sent)
        return [(port, frame) for port in range(PORT_COUNT) for frame in self._frames(port)]

    def _received(self) -> int:
        return sum(port.rx_packets for port in self.switch.port_stats())

    def _gone(self) -> int:
        """Every frame that came is sent, refused or dropped: the switch half of the ledger."""
        ports = self.switch.port_stats()
        refused = sum(q.dropped + q.trim_drop for port in ports for q in port.queues)
        wire = sum(port.tx_packets + port.link_down for port in ports)
        return wire + refused + sum(self.switch.switch_stats().drops.values())

    def _wait_for(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + SETTLE_S
        while not condition():
            assert time.monotonic() < end, "the ledger of the switch does not balance"
            time.sleep(0.001)

    def _frames(self, port: int) -> Iterator[bytes]:
        with contextlib.suppress(BlockingIOError):
            while True:
                frame, address = self._wires[port].recvfrom(FRAME_MAX, socket.MSG_DONTWAIT)
                if address[2] != socket.PACKET_OUTGOING:
                    yield frame


@pytest.fixture(scope="module")
def namespace() -> Iterator[Namespace]:
    made = Namespace()
    for port in range(PORT_COUNT):
        made.veth(f"s{port}", f"w{port}")
    yield made
    made.close()


@pytest.fixture(scope="module")
def executable() -> Path:
    return build(compile_p4.ROOT / compile_p4.BUILD / compile_p4.JSON).executable


@pytest.mark.root
class TestProcess(SwitchContract):
    @pytest.fixture
    def rig(self, namespace: Namespace, executable: Path) -> Iterator[ProcessRig]:
        ports = {port: f"s{port}" for port in range(PORT_COUNT)}
        spec = SwitchProcess(executable=executable, name="p0t0n0", seed=1, ports=ports)
        with contextlib.ExitStack() as stack:
            running = start(spec, prefix=namespace.prefix)
            stack.callback(running.close)
            wires = [namespace.raw_socket(f"w{port}") for port in range(PORT_COUNT)]
            for wire in wires:
                stack.callback(wire.close)
            assert all(port.up for port in running.device.port_stats())
            yield ProcessRig(running, wires)
