"""BMv2 with real interfaces, in a network namespace of its own."""

import stat
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from switches import compile_p4
from switches.api import PortConfig, SwitchError, UpdateType, write_all
from switches.bmv2.process import Bmv2Process, Bmv2Settings
from switches.entries import SwitchSettings, entries, port_configs
from tests.engine.frames import encapsulated, parse
from topologies import addressing
from topologies.addressing import UsidRole, usid
from topologies.builders import clos
from topologies.model import FabricSpec
from worlds.live.namespace import Namespace
from worlds.live.netlink import End
from worlds.live.raw_port import RawPort

pytestmark = [pytest.mark.root, pytest.mark.bmv2]

FABRIC = clos(FabricSpec(planes=1, t0=1, t1=1, hosts_per_t0=2, rate_bps=5_000_000, pmtu=1024))
SWITCH = FABRIC.switch("p0t0n0")
HOST, OTHER_HOST, UPLINK = range(3)
FRAME = encapsulated(
    addressing.usid_address([usid(UsidRole.T0, 0, 0), usid(UsidRole.NIC, 0, 1)]),
    payload=bytes(1024),
)


class Bench:
    """One switch and the far ends of its wires, all in one namespace."""

    def __init__(self, run_dir: Path) -> None:
        self.namespace = Namespace.make()
        ends = range(10, 10 + 6, 2)
        fd = self.namespace.fd
        self.namespace.netlink.make_links(
            [
                (
                    End(fd, f"bmv2-far{port}", index, bytes((2, 0, 0, 0, 0, index))),
                    End(fd, f"bmv2-eth{port}", index + 1, bytes((2, 0, 0, 0, 0, index + 1))),
                )
                for port, index in enumerate(ends)
            ],
            4300,
        )
        self.namespace.netlink.set_up([index + 1 for index in ends], True)
        with self.namespace.entered():
            self.wires = [RawPort(f"bmv2-far{port}") for port in range(3)]
        self.process = Bmv2Process(
            Bmv2Settings(
                name="p0t0n0",
                device_id=1,
                interfaces={port: f"bmv2-eth{port}" for port in range(3)},
                socket_folder=run_dir,
                log=run_dir / "p0t0n0.log",
                inside=self.namespace.entered,
                data_frame_bytes=len(FRAME.emit()),
                election_id=1,
            )
        )

    def load(self) -> None:
        build = compile_p4.ROOT / compile_p4.BUILD
        self.process.load(
            (build / compile_p4.P4INFO).read_text(), (build / compile_p4.JSON).read_bytes()
        )
        write_all(self.process.device, UpdateType.INSERT, entries(FABRIC, SWITCH, SwitchSettings()))

    def received(self, port: int, seconds: float) -> list[bytes]:
        out = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            while (frame := self.wires[port].receive()) is not None:
                out.append(frame)
            time.sleep(0.001)
        return out

    def close(self) -> None:
        self.process.kill()
        for wire in self.wires:
            wire.close()
        self.namespace.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.close()


def undelayed() -> list[tuple[int, PortConfig]]:
    configs = port_configs(FABRIC, SWITCH)
    return [
        (port, replace(config, egress_delay_ns=0, ingress_delay_ns=0))
        for port, config in configs.items()
    ]


def test_frames_cross_real_interfaces_and_the_port_counts_them(bench: Bench) -> None:
    bench.load()
    for _ in range(50):  # BMv2's receive ring holds 32 frames
        bench.wires[HOST].send(FRAME.emit())
        time.sleep(0.002)
    out = bench.received(OTHER_HOST, 0.5)
    assert len(out) == 50
    assert parse(out[0]).ip.hop_limit == 63
    stats = {port.port: port for port in bench.process.device.port_stats()}
    assert (stats[HOST].rx_packets, stats[OTHER_HOST].tx_packets) == (50, 50)
    assert stats[OTHER_HOST].tx_bytes == 50 * len(FRAME.emit())
    assert all(port.up for port in stats.values())


def test_the_rate_holds_and_what_is_too_much_is_trimmed_and_counted(bench: Bench) -> None:
    bench.load()
    for port, config in undelayed():
        bench.process.device.configure_port(port, config)
    for _ in range(200):  # a second at 5 Mb/s is 555 of them
        bench.wires[HOST].send(FRAME.emit())
        time.sleep(0.0004)
    out = bench.received(OTHER_HOST, 1.0)
    trims = [frame for frame in out if len(frame) == 144]
    assert len(out) == 200
    assert trims
    assert {parse(frame).ip.dscp for frame in trims} == {16}
    control = bench.process.device.port_stats()[OTHER_HOST].queues[1]
    assert (control.trim, control.trim_sent, control.trim_drop) == (len(trims), len(trims), 0)


def test_a_delay_is_refused_because_bmv2_has_none(bench: Bench) -> None:
    bench.load()
    with pytest.raises(SwitchError, match="BMv2 has no delay"):
        bench.process.device.configure_port(0, port_configs(FABRIC, SWITCH)[0])


def test_only_its_user_may_open_the_control_socket(bench: Bench, tmp_path: Path) -> None:
    bench.load()
    mode = (tmp_path / "p0t0n0.p4rt").stat().st_mode
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) & 0o077 == 0


def test_a_switch_that_ends_before_it_is_ready_is_named(bench: Bench) -> None:
    bench.process.process.kill()
    with pytest.raises(
        SwitchError, match="p0t0n0 was not ready before it ended: killed by signal 9"
    ):
        bench.process.load("", b"")


def test_a_killed_switch_is_noticed(bench: Bench) -> None:
    bench.load()
    assert bench.process.died() is None
    bench.process.kill()
    assert bench.process.died() == "killed by signal 9"
