"""What a packet costs in the engine, against two others in the same place.

    python -m switches.engine.bench [SECONDS]

engine_vs_c: against C that does not even look at the packet.  engine_vs_bmv2: against BMv2 with the
same program and rows, where it is installed.  A generator offers more than can be taken; what
leaves is counted at the far interface and divided by the CPU time of the process in between, in
rounds that alternate, so that whatever else the machine does falls on all.  Everything lives in a
network namespace of its own.
"""

import contextlib
import json
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from switches import compile_p4
from switches.api import TableEntry, UpdateType, write_all
from switches.bmv2 import program as bmv2
from switches.bmv2.process import Bmv2Process, Bmv2Settings
from switches.engine.build import build, find_compiler
from switches.engine.process import SwitchProcess, start
from switches.entries import SwitchSettings, entries
from topologies import addressing
from topologies.addressing import UsidRole, usid
from topologies.builders import clos
from topologies.model import FabricSpec

FRAME_BYTES = (1100, 4200)
ROUNDS = 5
SETTLE_S = 0.2
PORT_IN, PORT_OUT = 0, 2
INTERFACES = {PORT_IN: "s0", PORT_OUT: "s1"}
GENERATOR, SINK = "w0", "w1"

_FORWARDER = Path(__file__).with_name("bench_forwarder.c")
_PROGRAM = compile_p4.ROOT / compile_p4.BUILD / compile_p4.JSON
_P4INFO = compile_p4.ROOT / compile_p4.BUILD / compile_p4.P4INFO
_FABRIC = clos(FabricSpec(planes=1, t0=2, t1=2, hosts_per_t0=2))
_NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Comparison:
    """Packets per CPU-second at one frame size, medians of rounds; ratio is engine / reference."""

    frame_bytes: int
    engine: float
    reference: float
    ratio: float


def engine_vs_c(round_s: float = 1.0) -> list[Comparison]:
    """Raises OSError, CalledProcessError, BuildError."""
    return _in_namespace("c", round_s)


def engine_vs_bmv2(round_s: float = 1.0) -> list[Comparison] | None:
    """None where simple_switch_grpc is not on the PATH.  Raises as engine_vs_c."""
    return None if shutil.which(bmv2.EXECUTABLE) is None else _in_namespace("bmv2", round_s)


def _in_namespace(reference: str, round_s: float) -> list[Comparison]:
    command = ["unshare", "--net", "--fork", "--kill-child", sys.executable, "-m", __spec__.name]
    done = subprocess.run(
        [*command, "--inside", reference, str(round_s)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [Comparison(**found) for found in json.loads(done.stdout)]


Begin = Callable[[], tuple[int, Callable[[], None]]]
"""Starts a forwarder between the two interfaces: its process, and how to end it."""


def _measure_all(reference: str, round_s: float) -> list[Comparison]:
    executable = build(_PROGRAM).executable
    for one, other in ((INTERFACES[PORT_IN], GENERATOR), (INTERFACES[PORT_OUT], SINK)):
        _make_veth(one, other)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        forwarder = folder / "forwarder"
        compiler = [*find_compiler(), "-O2", "-o", str(forwarder), str(_FORWARDER)]
        subprocess.run(compiler, check=True)
        begin: dict[str, Begin] = {
            "engine": lambda: _begin_engine(executable),
            "c": lambda: _begin_c(forwarder),
            "bmv2": lambda: _begin_bmv2(folder),
        }
        contenders = begin["engine"], begin[reference]
        return [_compare(size, contenders, forwarder, round_s) for size in FRAME_BYTES]


def _rows() -> list[TableEntry]:
    """The forwarder is to carry every packet whole, also where it is overrun."""
    settings = SwitchSettings(trimming=False, ecn=False)
    return entries(_FABRIC, _FABRIC.switch("p0t0n0"), settings)


def _begin_engine(executable: Path) -> tuple[int, Callable[[], None]]:
    spec = SwitchProcess(executable=executable, name="bench", seed=1, ports=INTERFACES)
    running = start(spec)
    write_all(running.device, UpdateType.INSERT, _rows())
    return running.process.pid, running.close


def _begin_c(forwarder: Path) -> tuple[int, Callable[[], None]]:
    process = subprocess.Popen([str(forwarder), *INTERFACES.values()])

    def end() -> None:
        process.kill()
        process.wait()

    return process.pid, end


def _begin_bmv2(folder: Path) -> tuple[int, Callable[[], None]]:
    settings = Bmv2Settings(
        name="bench",
        device_id=1,
        interfaces=INTERFACES,
        socket_folder=folder,
        log=folder / "bmv2.log",
        inside=contextlib.nullcontext,
        data_frame_bytes=max(FRAME_BYTES),
        election_id=1,
    )
    running = Bmv2Process(settings)
    running.load(_P4INFO.read_text(), _PROGRAM.read_bytes())
    write_all(running.device, UpdateType.INSERT, _rows())
    return running.process.pid, running.close


def _make_veth(one: str, other: str) -> None:
    subprocess.run(["ip", "link", "add", one, "type", "veth", "peer", "name", other], check=True)
    for name in (one, other):
        quiet = Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6")
        if quiet.exists():
            quiet.write_text("1")
        subprocess.run(["ip", "link", "set", name, "mtu", "9000", "up"], check=True)


def _compare(
    size: int, contenders: tuple[Begin, Begin], forwarder: Path, round_s: float
) -> Comparison:
    rounds = [
        [_round(begin, size, forwarder, round_s) for begin in contenders] for _ in range(ROUNDS)
    ]
    engine, reference = (statistics.median(found) for found in zip(*rounds, strict=True))
    return Comparison(size, engine, reference, statistics.median(a / b for a, b in rounds))


def _round(begin: Begin, size: int, forwarder: Path, round_s: float) -> float:
    pid, end = begin()
    generator = subprocess.Popen([str(forwarder), GENERATOR, "-", str(size), _frame(size).hex()])
    try:
        return _packets_per_cpu_s(pid, round_s)
    finally:
        generator.kill()
        generator.wait()
        end()


def _packets_per_cpu_s(pid: int, round_s: float) -> float:
    time.sleep(SETTLE_S)
    packets, cpu_ns = _received(SINK), _cpu_ns(pid)
    time.sleep(round_s)
    rate = (_received(SINK) - packets) * _NS_PER_S / max(_cpu_ns(pid) - cpu_ns, 1)
    if not rate:
        raise RuntimeError("nothing arrived: the forwarder under test does not forward")
    return rate


def _cpu_ns(pid: int) -> int:
    """Of all its threads."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


def _received(interface: str) -> int:
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == interface:
            return int(numbers.split()[1])
    raise LookupError(interface)


def _frame(size: int) -> bytes:
    """A data packet from a NIC to the other rack, up to where the payload begins."""
    switch = _FABRIC.switch("p0t0n0")
    path = [addressing.switch_usid(switch), usid(UsidRole.T1, 0, 0), usid(UsidRole.T0, 0, 1)]
    destination = addressing.usid_address([*path, usid(UsidRole.NIC, 0, 0)])
    gid = addressing.gid(_FABRIC.hosts[0])
    udp = struct.pack(">4H", 1, 4971, size - 14 - 40 - 40, 0)
    inner = struct.pack(">IHBB", 6 << 28, len(udp), 17, 64) + gid + gid
    outer = struct.pack(">IHBB", 6 << 28 | 4 << 22 | 2 << 20, size - 54, 41, 64) + gid + destination
    return bytes(12) + b"\x86\xdd" + outer + inner + udp


def main() -> None:
    if sys.argv[1:2] == ["--inside"]:
        found = _measure_all(sys.argv[2], float(sys.argv[3]))
        print(json.dumps([asdict(comparison) for comparison in found]))
        return
    round_s = float(sys.argv[1]) if sys.argv[1:] else 1.0
    for name, measure in (("engine_vs_c", engine_vs_c), ("engine_vs_bmv2", engine_vs_bmv2)):
        for comparison in measure(round_s) or ():
            print(
                f"{comparison.frame_bytes} B: engine {comparison.engine:,.0f}, reference "
                f"{comparison.reference:,.0f} packets per CPU-second; {name} {comparison.ratio:.2f}"
            )


if __name__ == "__main__":
    main()
