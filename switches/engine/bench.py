"""engine_vs_c: what the engine costs against C that does not even look at the packet.

    python -m switches.engine.bench [SECONDS]

A generator offers more than can be taken; what leaves is counted at the far interface and divided
by the CPU time of the process in between, in rounds that alternate, so that whatever else the
machine does falls on both.  Everything lives in a network namespace of its own.
"""

import json
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from switches import entries as rows
from switches.api import UpdateType, write_all
from switches.engine.build import build, find_compiler
from switches.engine.process import SwitchProcess, start
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
_PROGRAM = Path(__file__).parents[2] / "p4/build/mrc.json"
_FABRIC = clos(FabricSpec(planes=1, t0=2, t1=2, hosts_per_t0=2))
_NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Comparison:
    """Packets per CPU-second at one frame size, medians of rounds; ratio is engine / c."""

    frame_bytes: int
    engine: float
    c: float
    ratio: float


def engine_vs_c(round_s: float = 1.0) -> list[Comparison]:
    """Measures in a namespace of its own.  Raises OSError, CalledProcessError, BuildError."""
    command = ["unshare", "--net", "--fork", "--kill-child", sys.executable, "-m", __spec__.name]
    done = subprocess.run(
        [*command, "--inside", str(round_s)], stdout=subprocess.PIPE, text=True, check=True
    )
    return [Comparison(**found) for found in json.loads(done.stdout)]


def _measure_all(round_s: float) -> list[Comparison]:
    executable = build(_PROGRAM).executable
    for one, other in ((INTERFACES[PORT_IN], GENERATOR), (INTERFACES[PORT_OUT], SINK)):
        _make_veth(one, other)
    with tempfile.TemporaryDirectory() as folder:
        forwarder = Path(folder) / "forwarder"
        subprocess.run([*find_compiler(), "-O2", "-o", str(forwarder), str(_FORWARDER)], check=True)
        return [_compare(size, executable, forwarder, round_s) for size in FRAME_BYTES]


def _make_veth(one: str, other: str) -> None:
    subprocess.run(["ip", "link", "add", one, "type", "veth", "peer", "name", other], check=True)
    for name in (one, other):
        quiet = Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6")
        if quiet.exists():
            quiet.write_text("1")
        subprocess.run(["ip", "link", "set", name, "mtu", "9000", "up"], check=True)


def _compare(size: int, executable: Path, forwarder: Path, round_s: float) -> Comparison:
    def engine() -> tuple[int, Callable[[], None]]:
        spec = SwitchProcess(executable=executable, name="bench", seed=1, ports=INTERFACES)
        running = start(spec)
        switch = _FABRIC.switch("p0t0n0")
        write_all(running.device, UpdateType.INSERT, rows.entries(_FABRIC, switch))
        return running.process.pid, running.close

    def c() -> tuple[int, Callable[[], None]]:
        process = subprocess.Popen([str(forwarder), *INTERFACES.values()])

        def end() -> None:
            process.kill()
            process.wait()

        return process.pid, end

    found: dict[str, list[float]] = {"engine": [], "c": []}
    generate = [str(forwarder), GENERATOR, "-", str(size), _frame(size).hex()]
    for _ in range(ROUNDS):
        for name, begin in (("engine", engine), ("c", c)):
            pid, end = begin()
            generator = subprocess.Popen(generate)
            try:
                found[name].append(_packets_per_cpu_s(pid, round_s))
            finally:
                generator.kill()
                generator.wait()
                end()
    ratios = [a / b for a, b in zip(found["engine"], found["c"], strict=True)]
    return Comparison(
        size,
        statistics.median(found["engine"]),
        statistics.median(found["c"]),
        statistics.median(ratios),
    )


def _packets_per_cpu_s(pid: int, round_s: float) -> float:
    time.sleep(SETTLE_S)
    packets, cpu_ns = _received(SINK), _cpu_ns(pid)
    time.sleep(round_s)
    return (_received(SINK) - packets) * _NS_PER_S / max(_cpu_ns(pid) - cpu_ns, 1)


def _cpu_ns(pid: int) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


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
        print(json.dumps([asdict(found) for found in _measure_all(float(sys.argv[2]))]))
        return
    round_s = float(sys.argv[1]) if sys.argv[1:] else 1.0
    for found in engine_vs_c(round_s):
        print(
            f"{found.frame_bytes} B: engine {found.engine:,.0f}, c {found.c:,.0f} "
            f"packets per CPU-second; engine_vs_c {found.ratio:.2f}"
        )


if __name__ == "__main__":
    main()
