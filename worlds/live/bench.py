"""How long the live `lab` takes from nothing to its first byte, against Mininet's bare wiring.

Each measurement is a process of its own, so that neither warms anything for the other:
`python -m worlds.live.bench ours|mininet` prints one number, in seconds.
"""

import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from topologies.builders import clos
from topologies.model import Fabric, FabricSpec
from worlds.api import WorldSettings
from worlds.live import private_namespace
from worlds.live.transfer import Transfer
from worlds.live.wiring import stock_mininet
from worlds.live.world import LiveWorld

CHECKOUT = Path(__file__).resolve().parents[2]
TIMES = 5
LIMIT_S = 60.0
POLL_S = 0.001
SIZE_BYTES = 1 << 20


def start_vs_mininet() -> dict[str, Any]:
    """`ratio`: Mininet's time over ours, medians of runs taken in turn.  Raises RuntimeError.

    Mininet: `lab`'s nodes and links, nothing on them.  Ours: from the call of the wiring to the
    first byte that is placed at a receiver.  Imports are done in both, and the engine is in the
    cache.
    """
    took: dict[str, list[float]] = {"mininet": [], "ours": []}
    for _ in range(TIMES):
        for which in took:
            took[which].append(_measure(which))
    mininet_s, ours_s = median(took["mininet"]), median(took["ours"])
    return {"ratio": mininet_s / ours_s, "mininet_s": mininet_s, "ours_s": ours_s, "runs": took}


def _measure(which: str) -> float:
    words = [sys.executable, "-m", "worlds.live.bench", which]
    done = subprocess.run(
        words, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    if done.returncode != 0:
        raise RuntimeError(f"{which}: {(done.stderr or done.stdout).strip()[-300:]}")
    return float(done.stdout.split()[-1])


def _lab() -> Fabric:
    return clos(FabricSpec(planes=4, t0=2, t1=4, hosts_per_t0=4))


def _mininet() -> int:
    fabric = _lab()
    begun = time.monotonic()
    net = stock_mininet(fabric)
    print(time.monotonic() - begun)
    net.stop()
    return 0


def _ours() -> int:
    build = CHECKOUT / "p4" / "build"
    fabric = _lab()
    settings = WorldSettings(
        seed=1, program_json=build / "mrc.json", p4info=build / "mrc.p4info.txtpb"
    )
    world = LiveWorld(fabric, settings)
    world.wait_for_imports()
    try:
        begun = time.monotonic()
        world.start()
        transfer = Transfer(world, "h0", "h4", SIZE_BYTES)
        while not transfer.bytes_done():
            time.sleep(POLL_S)
        print(time.monotonic() - begun)
    finally:
        world.close()
    return 0


if __name__ == "__main__":
    sys.exit(private_namespace.run({"ours": _ours, "mininet": _mininet}[sys.argv[1]]))
