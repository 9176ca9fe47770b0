"""One write from one host to another, set up by hand: for measuring the live world itself.

Scenarios have their own way (scenarios/session.py); this needs none.
"""

from typing import Any

from topologies import addressing, routing
from topologies.model import Fabric, Host, Tier
from worlds.live.world import LiveWorld

BASE_RTT_NS = 50_000_000
TIMEOUT_EXPONENT = 19
BIN_NS = 10_000_000
WINDOW_BYTES = 1 << 18


class Transfer:
    """Configures all hosts and posts a write of `size` bytes; time runs from the constructor."""

    def __init__(self, world: LiveWorld, src: str, dst: str, size: int) -> None:
        self._world = world
        self._dst = dst
        for host in world.fabric.hosts:
            message = {"op": "configure", "config": _config(world.fabric, host)}
            world.control(host.name, message)
        turns = ((src, dst), (dst, src))
        qps = {one: self._create_qp(one, other) for one, other in turns}
        for one, other in turns:
            message = {"op": "qp_connect", "qpn": qps[one]["qpn"], "remote": qps[other]}
            world.control(one, message)
        job = {"kind": "write", "src": src, "dst": dst, "bytes": size, "ranks": [src, dst]}
        exports = {}
        for rank, (one, other) in enumerate(turns):
            message = {"job": {**job, "rank": rank}, "qps": {other: qps[one]["qpn"]}}
            exports[one] = world.control(one, {"op": "job_create", **message})["exports"]
        for one, other in turns:
            imports = {other: exports[other][one]} if one in exports[other] else {}
            world.control(one, {"op": "job_connect", "imports": imports})
        for host_name in (src, dst):
            world.control(host_name, {"op": "start", "t0_ns": world.now_ns()})

    def bytes_done(self) -> int:
        """Placed in the receiver's memory by now."""
        done: int = self._world.control(self._dst, {"op": "poll"})["progress"]["bytes_done"]
        return done

    def _create_qp(self, host: str, peer: str) -> dict[str, Any]:
        fabric = self._world.fabric
        paths = routing.paths(fabric, fabric.host(host), fabric.host(peer))
        evs = [[path.ev, path.plane, path.outer_dst.hex()] for path in paths]
        message = {"op": "qp_create", "peer": peer, "evs": evs, "backup": []}
        return self._world.control(host, message)


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
        "bin_ns": BIN_NS,
        "gid": addressing.gid(host).hex(),
        "ports": ports,
        "base_rtt_ns": BASE_RTT_NS,
        "timeout": TIMEOUT_EXPONENT,
        "cc": "fixed",
        "window_bytes": WINDOW_BYTES,
    }
