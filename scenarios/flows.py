"""Who sends to whom in a job, and over which EVs: the QPs of a run, and whom a fault hits.

Pure; the same scenario and seed give the same EVs.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from scenarios import schema
from scenarios.faults import Hit
from topologies import addressing, routing
from topologies.model import Fabric, Host
from topologies.routing import Path

Stream = Callable[[str], random.Random]
"""A named random stream."""


@dataclass(frozen=True, slots=True)
class QpEnd:
    """One half of a QP: the host that owns it, its peer, and the paths its packets may take.

    sends: whether payload flows from here, or acknowledgements only.
    """

    host: str
    peer: str
    sends: bool
    active: tuple[Path, ...]
    backup: tuple[Path, ...]

    @property
    def paths(self) -> tuple[Path, ...]:
        return self.active + self.backup


def data_flows(workload: schema.Workload) -> list[tuple[str, str]]:
    """(sender, receiver) of payload, in a fixed order."""
    match workload:
        case schema.RingAllreduce():
            ranks = workload.ranks
            return [(rank, ranks[(i + 1) % len(ranks)]) for i, rank in enumerate(ranks)]
        case schema.Write():
            return [(workload.src, workload.dst)]
        case schema.Incast():
            return [(source, workload.dst) for source in workload.sources]
        case schema.Permutation():
            hosts = workload.hosts
            return [(h, hosts[(i + workload.shift) % len(hosts)]) for i, h in enumerate(hosts)]


def job_hosts(workload: schema.Workload) -> list[str]:
    """Everyone in the job; the place in this list is the rank."""
    if isinstance(workload, schema.RingAllreduce):
        return list(workload.ranks)
    if isinstance(workload, schema.Permutation):
        return list(workload.hosts)
    return list(dict.fromkeys(host for flow in data_flows(workload) for host in flow))


def payload_bytes(workload: schema.Workload) -> int:
    """New payload bytes the job moves in total, over all receivers."""
    match workload:
        case schema.RingAllreduce():
            return 2 * (len(workload.ranks) - 1) * workload.bytes * workload.steps
        case schema.Write():
            return workload.bytes
        case schema.Incast():
            return workload.bytes * len(workload.sources)
        case schema.Permutation():
            return workload.bytes * len(workload.hosts)


def qp_ends(fabric: Fabric, scenario: schema.Scenario, stream: Stream) -> list[QpEnd]:
    """Both ends of every QP, the connecting end first; one QP a pair of hosts."""
    flows = data_flows(scenario.workload)
    pairs = dict.fromkeys(tuple(sorted(flow, key=lambda n: fabric.host(n).index)) for flow in flows)
    ends = []
    for pair in pairs:
        for host, peer in (pair, pair[::-1]):
            made = ecmp_ev_set if scenario.transport.routing == "ecmp" else ev_set
            active, backup = made(
                fabric,
                fabric.host(host),
                fabric.host(peer),
                scenario.transport.evs_per_plane,
                stream(f"evs/{host}>{peer}"),
            )
            ends.append(QpEnd(host, peer, (host, peer) in flows, active, backup))
    return ends


def ev_set(
    fabric: Fabric, src: Host, dst: Host, per_plane: int, rng: random.Random
) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Active and backup paths: random uplinks, equally many a plane, planes in turn (facts 3.9)."""
    uplinks = 1 if src.rack == dst.rack else fabric.spec.t1
    by_plane = [rng.sample(range(uplinks), uplinks) for _ in range(fabric.spec.planes)]
    ways = [
        routing.path(fabric, src, dst, plane, by_plane[plane][index])
        for index in range(uplinks)
        for plane in range(fabric.spec.planes)
    ]
    cut = min(per_plane, uplinks) * fabric.spec.planes
    return tuple(ways[:cut]), tuple(ways[cut:])


def ecmp_ev_set(
    fabric: Fabric, src: Host, dst: Host, per_plane: int, rng: random.Random
) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """So many random EVs in each plane, and none in reserve: where switches hash, nobody knows
    which path a backup EV would take, and it may well be the one that has just failed."""
    planes = fabric.spec.planes
    values: dict[int, None] = {}
    while len(values) < per_plane * planes:
        values[_random_ev(rng)] = None
    ways = (
        routing.ecmp_path(fabric, src, dst, index % planes, value)
        for index, value in enumerate(values)
    )
    return tuple(ways), ()


def _random_ev(rng: random.Random) -> int:
    """30 random bits; the UDP source port stays in the dynamic range, as with all EVs."""
    return rng.getrandbits(16) << 16 | addressing.DYNAMIC_PORT_MIN | rng.getrandbits(14)


def ev_name(host: str, peer: str, ev: int) -> str:
    """One EV of one end of one QP, as events and expectations show it."""
    return f"{host}>{peer}:{ev:#06x}"


def affected(fabric: Fabric, ends: Iterable[QpEnd], hits: Iterable[Hit]) -> frozenset[str]:
    """The EVs those hits must retire.

    A NIC port takes its plane from both ends of every QP with an end on that host, as one end sees
    the carrier go and the other is told.  Inside the fabric only senders of payload notice, and
    only the EVs whose path crosses the element.
    """
    found = set()
    wanted = list(hits)
    for end in ends:
        for way in end.paths:
            if any(_is_hit(fabric, end, way, hit) for hit in wanted):
                found.add(ev_name(end.host, end.peer, way.ev))
    return frozenset(found)


def _is_hit(fabric: Fabric, end: QpEnd, way: Path, hit: Hit) -> bool:
    if hit.ev is not None and way.ev != hit.ev:
        return False
    if hit.nic_port is not None:
        return way.plane == hit.nic_port.port and hit.nic_port.node in (end.host, end.peer)
    if not end.sends or way not in end.active:
        return False
    hops = routing.hops(fabric, fabric.host(end.host), way)
    if hit.egress is not None:
        return hit.egress in hops
    return any(hop.node == hit.switch for hop in hops)
