"""The contract of a switch, held by BMv2 itself: the reference of the embedded engine.

Frames go in and out by simple_switch_grpc's packet stream (`dataplane_interface.proto`), so that
neither namespaces nor interfaces are needed.
"""

import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import pytest

from switches import compile_p4
from switches.api import DATA_PRIORITY, Switch
from switches.bmv2 import program
from switches.bmv2.device import CONTEXT, SIMPLE_SWITCH, STANDARD, Bmv2Switch
from switches.bmv2.thrift import ThriftClient, i32, i64, text
from switches.entries import DROPS_COUNTER, RECEIVED_COUNTER
from switches.p4rt import rpc
from switches.p4rt.client import P4RuntimeClient
from tests.engine.contract import Sent, SwitchContract

pytestmark = [
    pytest.mark.bmv2,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

DEVICE_ID = 1
HELD_PPS = 25
"""Slow enough that a burst is over before the second packet leaves."""
QUIET_S = 0.3
"""Nothing for so long: nothing more comes.  Several times 1 / HELD_PPS."""
QUEUE_PACKETS = 1024
START_S = 10.0

_BUILD = compile_p4.ROOT / compile_p4.BUILD


class PacketStream:
    """The two messages of dataplane_interface.proto have the same four fields."""

    def __init__(self, address: str) -> None:
        self._in: SimpleQueue[Sent] = SimpleQueue()
        self._channel = rpc.open_channel(address)
        self._method = self._channel.stream_stream("/p4.bm.DataplaneInterface/PacketStream")
        self.open()

    def open(self) -> None:
        """Also again: a switch that has its program and has not started yet refuses streams."""
        self._out: SimpleQueue[bytes | None] = SimpleQueue()
        self._call = self._method(iter(self._out.get, None), wait_for_ready=True)
        threading.Thread(target=self._receive, args=(self._call,), daemon=True).start()

    def send(self, port: int, frame: bytes) -> None:
        head = b"\x10" + varint(DEVICE_ID) + b"\x18" + varint(port)
        self._out.put(head + b"\x22" + varint(len(frame)) + frame)

    def receive(self, timeout_s: float) -> Sent | None:
        try:
            return self._in.get(timeout=timeout_s)
        except Empty:
            return None

    @property
    def is_open(self) -> bool:
        return bool(self._call.is_active())

    def state(self) -> str:
        return "open" if self.is_open else f"{self._call.code()}: {self._call.details()}"

    def close(self) -> None:
        self._out.put(None)
        self._call.cancel()
        self._channel.close()

    def _receive(self, call: Any) -> None:
        try:
            for message in call:
                self._in.put(port_and_packet(message))
        except rpc.RpcError:
            return


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes((value & 0x7F | 0x80,))
        value >>= 7
    return out + bytes((value,))


def port_and_packet(message: bytes) -> Sent:
    port, packet, at = 0, b"", 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        field = number()
        value = number()
        if field == 0x22:
            packet = message[at : at + value]
            at += value
        elif field == 0x18:
            port = value
    return port, packet


class Bmv2Rig:
    """Real time: a held queue is one that lets 25 packets a second go."""

    hold_slack = 2

    def __init__(self, switch: Switch, thrift: ThriftClient, packets: PacketStream) -> None:
        self.switch = switch
        self._thrift = thrift
        self._packets = packets
        self._held: list[int] = []
        self._sent = 0
        thrift.call(SIMPLE_SWITCH, "set_all_egress_queue_depths", i32(QUEUE_PACKETS))
        self._warm_up()

    def send(self, port: int, frame: bytes) -> None:
        self._packets.send(port, frame)
        self._sent += 1

    def _warm_up(self) -> None:
        """A frame that comes just after the program is lost now and then: none of the tests'."""
        deadline = time.monotonic() + START_S
        while self._taken() == 0:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no frame in {START_S:g} s; stream: {self._packets.state()}")
            if not self._packets.is_open:
                self._packets.open()
            self._packets.send(0, bytes(60))
            time.sleep(QUIET_S)
        for counter in (RECEIVED_COUNTER, DROPS_COUNTER):
            self._thrift.call(STANDARD, "bm_counter_reset_all", i32(CONTEXT), text(counter))

    def _taken(self) -> int:
        return sum(cell.packets for cell in self.switch.read_counter(RECEIVED_COUNTER))

    def _wait_for_ingress(self) -> None:
        """Until all that was sent has been seen by the program, however busy the machine."""
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if self._taken() >= self._sent:
                return
            time.sleep(0.01)
        state = self._packets.state()
        taken = f"BMv2 took {self._taken()} of {self._sent} frames within {START_S:g} s"
        raise TimeoutError(f"{taken}; its packet stream: {state}")

    def collect(self) -> list[Sent]:
        self._wait_for_ingress()
        out = []
        while (sent := self._packets.receive(QUIET_S)) is not None:
            out.append(sent)
        for port in self._held:
            self._rate(port, 0)
        self._held.clear()
        return out

    def hold(self, port: int) -> None:
        self._rate(port, HELD_PPS)
        self._held.append(port)

    def _rate(self, port: int, pps: int) -> None:
        where = (i32(port), i32(DATA_PRIORITY))
        self._thrift.call(SIMPLE_SWITCH, "set_egress_priority_queue_rate", *where, i64(pps))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def connect(port: int) -> socket.socket:
    deadline = time.monotonic() + START_S
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=START_S)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


@pytest.fixture
def bmv2(tmp_path: Path) -> Iterator[tuple[str, str, int]]:
    """A switch without a program: addresses of P4Runtime and packets, port of Thrift."""
    control, packets, port = f"unix:{tmp_path}/c", f"unix:{tmp_path}/p", free_port()
    argv = program.command(
        program.find(),
        device_id=DEVICE_ID,
        interfaces={},
        p4runtime_address=control,
        thrift_port=port,
        packet_address=packets,
    )
    with (
        (tmp_path / "bmv2.log").open("w") as log,
        subprocess.Popen(argv, stdout=log, stderr=log, cwd=tmp_path) as process,
    ):
        try:
            yield control, packets, port
        finally:
            process.kill()


class TestBmv2(SwitchContract):
    @pytest.fixture
    def rig(self, bmv2: tuple[str, str, int]) -> Iterator[Bmv2Rig]:
        control, packets, port = bmv2
        client = P4RuntimeClient(control, DEVICE_ID, election_id=1)
        client.connect()
        info = (_BUILD / compile_p4.P4INFO).read_text()
        client.set_pipeline(info, (_BUILD / compile_p4.JSON).read_bytes())
        thrift = ThriftClient(connect(port))
        switch: Any = Bmv2Switch(client, thrift, data_frame_bytes=4238, interfaces=dict)
        stream = PacketStream(packets)
        yield Bmv2Rig(switch, thrift, stream)
        stream.close()
        thrift.close()
        client.close()
