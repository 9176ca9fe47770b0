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

from topologies import addressing, routing
from topologies.builders import clos
from topologies.model import Fabric, FabricSpec, Host, Tier
from worlds.api import WorldSettings
from worlds.live import private_namespace
from worlds.live.wiring import stock_mininet
from worlds.live.world import LiveWorld

CHECKOUT = Path(__file__).resolve().parents[2]
TIMES = 5
LIMIT_S = 60.0
POLL_S = 0.001
BASE_RTT_NS = 16_000_000
TIMEOUT_EXPONENT = 18


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
        _write(world, fabric.host("h0"), fabric.host("h4"))
        print(time.monotonic() - begun)
    finally:
        world.close()
    return 0


def _write(world: LiveWorld, src: Host, dst: Host) -> None:
    """Returns when the first byte of a write is in the receiver's memory."""
    fabric = world.fabric
    for host in fabric.hosts:
        world.control(host.name, {"op": "configure", "config": _config(fabric, host)})
    names = (src.name, dst.name)
    turns = (names, names[::-1])
    made = {}
    for one, other in turns:
        paths = routing.paths(fabric, fabric.host(one), fabric.host(other))
        evs = [[path.ev, path.plane, path.outer_dst.hex()] for path in paths]
        message: dict[str, Any] = {"op": "qp_create", "peer": other, "evs": evs, "backup": []}
        made[one] = world.control(one, message)
    for one, other in turns:
        message = {"op": "qp_connect", "qpn": made[one]["qpn"], "remote": made[other]}
        world.control(one, message)
    job = {"kind": "write", "src": src.name, "dst": dst.name, "bytes": 1 << 20, "ranks": names}
    exports = {}
    for rank, (one, other) in enumerate(turns):
        message = {"op": "job_create", "job": {**job, "rank": rank}}
        exports[one] = world.control(one, {**message, "qps": {other: made[one]["qpn"]}})["exports"]
    for one, other in turns:
        imports = {other: exports[other][one]} if one in exports[other] else {}
        world.control(one, {"op": "job_connect", "imports": imports})
    for name in names:
        world.control(name, {"op": "start", "t0_ns": world.now_ns()})
    while not world.control(dst.name, {"op": "poll"})["progress"]["bytes_done"]:
        time.sleep(POLL_S)


def _config(fabric: Fabric, host: Host) -> dict[str, Any]:
    ports = []
    for plane in range(fabric.spec.planes):
        t0 = fabric.switch(addressing.switch_name(plane, Tier.T0, host.rack))
        ports.append(
            {
                "mac": addressing.host_mac(host, plane).hex(),
                "gateway_mac": addressing.switch_mac(t0, host.downlink).hex(),
                "rate_bps": fabric.spec.rate_bps,
            }
        )
    return {
        "host": host.name,
        "seed": 1,
        "bin_ns": 10_000_000,
        "gid": addressing.gid(host).hex(),
        "ports": ports,
        "base_rtt_ns": BASE_RTT_NS,
        "timeout": TIMEOUT_EXPONENT,
    }


if __name__ == "__main__":
    sys.exit(private_namespace.run({"ours": _ours, "mininet": _mininet}[sys.argv[1]]))
