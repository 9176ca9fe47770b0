"""How many data packets a second this machine carries in the live world.

`python -m worlds.live.ceiling` runs one transfer through three switches at a modest rate and looks
at what it costs in processor time, all processes together: that many fit into the machine's cores.
A figure for planning; every run says for itself whether it kept time.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from topologies.builders import clos
from topologies.model import FabricSpec
from worlds.api import WorldError, WorldSettings
from worlds.live import private_namespace
from worlds.live.transfer import Transfer
from worlds.live.world import LiveWorld

CHECKOUT = Path(__file__).resolve().parents[2]
SPEC = FabricSpec(planes=2, t0=2, t1=2, hosts_per_t0=2, rate_bps=20_000_000)
MEASURE_S = 3.0
SETTLE_S = 0.5
LIMIT_S = 60.0
SIZE_BYTES = 64 << 20
"""More than is carried while we look."""


def measure_pps() -> float:
    """Takes about five seconds.  Raises WorldError where the live world cannot be had."""
    done = subprocess.run(
        [sys.executable, "-m", "worlds.live.ceiling"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    if done.returncode != 0:
        raise WorldError((done.stderr or done.stdout).strip()[-300:])
    return float(done.stdout.split()[-1])


def _inside() -> int:
    build = CHECKOUT / "p4" / "build"
    settings = WorldSettings(
        seed=1, program_json=build / "mrc.json", p4info=build / "mrc.p4info.txtpb"
    )
    world = LiveWorld(clos(SPEC), settings)
    try:
        world.start()
        transfer = Transfer(world, "h0", "h2", SIZE_BYTES)
        time.sleep(SETTLE_S)
        bytes_before, cpu_before = transfer.bytes_done(), _processor_s()
        time.sleep(MEASURE_S)
        packets = (transfer.bytes_done() - bytes_before) / SPEC.pmtu
        print(packets / (_processor_s() - cpu_before) * len(os.sched_getaffinity(0)))
    finally:
        world.close()
    return 0


def _processor_s() -> float:
    """Of all processes in this PID namespace, user and system."""
    ticks = 0
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(private_namespace.run(_inside))
