"""The switch process between real interfaces, in a network namespace of the test's own."""

import contextlib
import errno
import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from switches.api import PortConfig, QueueLimit, SwitchError
from switches.engine.process import RunningSwitch, SwitchProcess, start
from tests.engine import tiny
from tests.engine.namespace import Namespace, eventually
from tests.engine.tiny import frame, tag_of

SO_TIMESTAMPNS = 35
PROCESS = ("process", "process_port", "process_carrier", "process_lateness", "process_ring")


@pytest.fixture(scope="session")
def tiny_executable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if tiny.COMPILER is None:
        pytest.skip("no C compiler on the PATH")
    also = tuple(tiny.RUNTIME / f"{name}.c" for name in PROCESS)
    return tiny.compile_tiny(tmp_path_factory.mktemp("tiny") / "tiny", "-O2", "-g", also=also)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "usage:"),
        (["--control-fd", "0", "--port", "0"], "NUMBER=INTERFACE"),
        (["--control-fd", "0", "--port", "0=a", "--port", "0=b"], "each number once"),
        (["--control-fd", "0", "--port", "600=a"], "NUMBER=INTERFACE"),
    ],
)
def test_bad_arguments_are_one_sentence_and_status_2(
    tiny_executable: Path, arguments: list[str], said: str
) -> None:
    done = subprocess.run(
        [tiny_executable, *arguments], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    assert done.returncode == 2
    assert said in done.stderr.decode()


class Lab:
    """Two veth pairs in a namespace: s0, s1 at the switch, w0, w1 are where the test listens."""

    def __init__(self, executable: Path, *, ring: bool) -> None:
        with contextlib.ExitStack() as stack:
            self._namespace = Namespace()
            stack.callback(self._namespace.close)
            for i in range(2):
                self._namespace.veth(f"s{i}", f"w{i}")
            ports = {0: "s0", 1: "s1"}
            spec = SwitchProcess(
                executable=executable, name="p0t0n0", seed=7, ports=ports, ring=ring
            )
            self.switch: RunningSwitch = start(spec, prefix=self._namespace.prefix)
            stack.callback(self.switch.close)
            self.wires = [self._namespace.raw_socket(f"w{i}") for i in range(2)]
            for wire in self.wires:
                stack.callback(wire.close)
            self._stack = stack.pop_all()

    def ip(self, *words: str) -> None:
        self._namespace.run("ip", *words)

    def receive(self, wire: int, wait_s: float = 2) -> bytes | None:
        """The next frame that came over the wire, or None."""
        self.wires[wire].settimeout(wait_s)
        with contextlib.suppress(TimeoutError):
            while True:
                try:
                    received, address = self.wires[wire].recvfrom(10_000)
                except OSError as error:
                    if error.errno != errno.ENETDOWN:  # said once after the link was down
                        raise
                    continue
                if address[2] != socket.PACKET_OUTGOING:
                    return bytes(received)
        return None

    def arrival_ns(self, wire: int) -> int:
        """When the next frame reached the interface, by the kernel's word."""
        self.wires[wire].settimeout(2)
        _frame, ancillary, _flags, _address = self.wires[wire].recvmsg(10_000, 64)
        (stamp,) = (data for _, kind, data in ancillary if kind == SO_TIMESTAMPNS)
        seconds, nanoseconds = struct.unpack("qq", stamp)
        return int(seconds) * 10**9 + int(nanoseconds)

    def close(self) -> None:
        self._stack.close()


@pytest.fixture(params=[False, True], ids=["socket", "ring"])
def lab(tiny_executable: Path, request: pytest.FixtureRequest) -> Iterator[Lab]:
    made = Lab(tiny_executable, ring=request.param)
    yield made
    made.close()


@pytest.mark.root
class TestProcess:
    def test_it_is_ready_when_it_answers(self, lab: Lab) -> None:
        assert lab.switch.device.program.name == "tiny"
        assert [port.up for port in lab.switch.device.port_stats()] == [True, True]
        lab.wires[0].send(frame(1, tag=42, size=4238))
        received = lab.receive(1)
        assert received is not None
        assert (tag_of(received), len(received)) == (42, 4238)

    def test_a_burst_is_forwarded_whole_and_in_order(self, lab: Lab) -> None:
        assert lab.switch.device.program.ports == 2
        for tag in range(400):
            lab.wires[0].send(frame(1, tag=tag, size=4238))
        got = [lab.receive(1) for _ in range(400)]
        assert [tag_of(f) for f in got if f is not None] == list(range(400))
        assert lab.switch.device.port_stats()[0].ring_drops == 0

    def test_carrier_of_a_port_is_followed_and_frames_are_counted(self, lab: Lab) -> None:
        device = lab.switch.device
        lab.ip("link", "set", "w1", "down")
        assert eventually(lambda: not device.port_stats()[1].up)
        lab.wires[0].send(frame(1))
        assert eventually(lambda: device.port_stats()[1].link_down == 1)
        lab.ip("link", "set", "w1", "up")
        assert eventually(lambda: device.port_stats()[1].up)
        lab.ip("link", "set", "s1", "down")
        assert eventually(lambda: not device.port_stats()[1].up)
        lab.ip("link", "set", "s1", "up")
        assert eventually(lambda: device.port_stats()[1].up)
        lab.wires[0].send(frame(1, tag=8))
        received = lab.receive(1)
        assert received is not None
        assert tag_of(received) == 8

    def test_its_own_frames_do_not_come_back(self, lab: Lab) -> None:
        lab.switch.device.port_stats()
        lab.wires[0].send(frame(1, tag=1))
        assert lab.receive(1) is not None
        assert lab.receive(0, 0.1) is None
        own = [port.rx_packets for port in lab.switch.device.port_stats()]
        lab.wires[0].send(frame(1, tag=1))
        assert lab.receive(1) is not None
        now = [port.rx_packets for port in lab.switch.device.port_stats()]
        assert [b - a for a, b in zip(own, now, strict=True)] == [1, 0]

    def test_a_paused_queue_is_exact_on_a_real_wire(self, lab: Lab) -> None:
        device = lab.switch.device
        limits = (QueueLimit(16, 1 << 30), QueueLimit(8, 1 << 30))
        device.configure_port(1, PortConfig(rate_bps=0, queues=limits))
        for priority in (0, 1):
            device.pause_queue(1, priority, True)
        for tag in range(100):
            lab.wires[0].send(frame(1, priority=tag % 2, keep=144 * (tag % 2), size=1000))
        assert eventually(lambda: device.port_stats()[0].rx_packets >= 100)
        data, control = device.port_stats()[1].queues
        assert (data.depth_packets, data.dropped) == (16, 34)
        assert (control.depth_packets, control.trim_drop) == (8, 42)

    def test_what_is_inside_is_counted(self, lab: Lab) -> None:
        device = lab.switch.device
        device.configure_port(1, PortConfig(rate_bps=0, egress_delay_ns=3 * 10**9))
        for tag in range(20):
            lab.wires[0].send(frame(1, tag=tag))
        assert eventually(lambda: device.port_stats()[0].rx_packets >= 20)
        assert device.switch_stats().buffers == device.port_stats()[0].rx_packets

    def test_lateness_is_measured(self, lab: Lab) -> None:
        device = lab.switch.device
        device.configure_port(1, PortConfig(rate_bps=10_000_000, egress_delay_ns=100_000))
        device.lateness(clear=True)
        for tag in range(50):
            lab.wires[0].send(frame(1, tag=tag, size=1100))
        assert eventually(lambda: device.port_stats()[1].tx_packets >= 50)
        late = device.lateness()
        assert late.sends >= 50
        assert 0 < late.send_p999_ns <= late.send_max_ns < 10**9
        assert late.timers >= 50

    @pytest.mark.parametrize(("rate_bps", "size"), [(1_000_000, 600), (10_000_000, 4238)])
    def test_the_rate_is_kept_to_half_a_percent(self, lab: Lab, rate_bps: int, size: int) -> None:
        """Of the time it was served: how late it was, and what that cost, it says itself."""
        count = min(2 * rate_bps // (8 * size), 400)  # a ring holds some 500
        lab.switch.device.configure_port(1, PortConfig(rate_bps=rate_bps))
        lab.wires[1].setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        for tag in range(count):
            lab.wires[0].send(frame(1, tag=tag, size=size))
        arrivals = [lab.arrival_ns(1) for _ in range(count)]
        elapsed_s = (arrivals[-1] - arrivals[0]) / 1e9
        lost_s = lab.switch.device.pacing()[1].lost_ns / 1e9
        late_s = lab.switch.device.lateness().send_max_ns / 1e9  # of the first or last frame
        wanted_s = (count - 1) * size * 8 / rate_bps
        assert abs(elapsed_s - lost_s - wanted_s) <= 0.005 * wanted_s + late_s

    def test_it_ends_with_its_control_socket(self, lab: Lab) -> None:
        assert lab.switch.died() is None
        lab.switch.close()
        assert lab.switch.died() == "exit status 0"
        with pytest.raises(SwitchError, match="p0t0n0"):
            lab.switch.device.port_stats()

    def test_a_killed_switch_is_named(self, lab: Lab) -> None:
        lab.switch.device.port_stats()
        lab.switch.kill()
        assert lab.switch.died() == "killed by signal 9"
        with pytest.raises(SwitchError, match="p0t0n0 is gone"):
            lab.switch.device.port_stats()


@pytest.mark.root
def test_an_interface_that_is_not_there_is_named(tiny_executable: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    spec = SwitchProcess(executable=tiny_executable, name="p1t1n3", seed=1, ports={0: "nowhere0"})
    with log.open("wb") as stderr:
        running = start(spec, stderr=stderr)
    with pytest.raises(SwitchError, match="p1t1n3 is gone"):
        running.device.port_stats()
    running.close()
    assert running.died() == "exit status 2"
    assert "p1t1n3: nowhere0: no such interface" in log.read_text()
