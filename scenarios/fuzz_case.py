"""What a fuzz seed stands for: a small random fabric, job and schedule of faults.  Pure.

Everything is scaled by the time of one packet, so that a case of any rate takes about as many
events.  All faults end, so that whatever is stuck afterwards is a finding.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from scenarios import derive, flows
from scenarios.faults import Impair, PauseQueue, Step
from scenarios.load import Loaded, load_text
from topologies.model import PortRef
from topologies.strict_yaml import dump
from worlds.rng import stream

RATES = ("10mbit", "100mbit", "1gbit", "25gbit", "100gbit")
PMTUS = (256, 1024, 4096)
PACKETS = (40, 600)
"""Least and most data packets of a case."""

FAULTS_MAX = 4
IMPAIRMENTS_MAX = 3
FIXED_WINDOWS = (1, 4)
"""Packets.  More of them, from many sources at once, may trim each other for ever: what is trimmed
goes first and is sent again at once, and a fixed window never shrinks (seed 550)."""

PATIENCE_RTOS = 400
"""A QP's whole retry budget, and a good deal more."""


@dataclass(frozen=True, slots=True)
class Case:
    """`text`: the scenario file.  `extra`: steps that no verb of a scenario asks for."""

    seed: int
    text: str
    extra: tuple[Step, ...] = field(default=())

    def load(self) -> Loaded:
        return load_text(self.text, f"seed {self.seed}")


def make(seed: int, rng: random.Random) -> Case:
    """The case of that seed."""
    topology = _topology(rng)
    hosts = [f"h{i}" for i in range(topology["t0"] * topology["hosts_per_t0"])]
    data: dict[str, Any] = {
        "name": "fuzz",
        "claim": f"seed {seed}",
        "topology": topology,
        "transport": _transport(rng, topology["pmtu"]),
        "switches": {
            "trimming": rng.random() < 0.8,
            "trim_size": rng.choice((128, 144, 256)),
            "ecn": rng.random() < 0.8,
        },
        "workload": _workload(rng, hosts, topology["pmtu"]),
        "expect": ["job.bytes_corrupt == 0"],
        "seed": seed,
    }
    bare = load_text(dump(data), "fuzz")
    numbers = derive.numbers(bare.fabric, bare.scenario)
    span_ns = max(numbers.duration_ns, 20 * derive.packet_ns(bare.fabric.spec))
    data["transport"]["hold_down"] = f"{max(numbers.rto_ns // 4, 1)}ns"
    clock = _Clock(rng, span_ns, numbers.rto_ns)
    data["timeline"] = [
        _fault(rng, bare, clock, f"f{i}") for i in range(rng.randint(0, FAULTS_MAX))
    ]
    extra = [
        step for _ in range(rng.randint(0, IMPAIRMENTS_MAX)) for step in _extra(rng, bare, clock)
    ]
    data["max_duration"] = f"{3 * span_ns + clock.last_ns + PATIENCE_RTOS * numbers.rto_ns}ns"
    return Case(seed, dump(data), tuple(extra))


@dataclass(slots=True)
class _Clock:
    """Times of faults: mostly while the job runs, lasting from a few packets to some RTOs."""

    rng: random.Random
    span_ns: int
    rto_ns: int
    last_ns: int = 0

    def window(self) -> tuple[int, int]:
        """(start, length); remembers when the last one ends."""
        start = int(self.span_ns * self.rng.uniform(0.02, 0.9))
        longest = self.rng.choice((self.span_ns // 8, self.span_ns // 2, 3 * self.rto_ns))
        length = max(int(longest * self.rng.uniform(0.1, 1)), 1)
        self.last_ns = max(self.last_ns, start + length)
        return start, length


def _topology(rng: random.Random) -> dict[str, Any]:
    return {
        "planes": rng.randint(1, 4),
        "t0": rng.randint(1, 3),
        "t1": rng.randint(1, 3),
        "hosts_per_t0": rng.randint(2, 3),
        "rate": rng.choice(RATES),
        "delay": f"{rng.choice((0, 200, 1000, 20_000, 200_000))}ns",
        "pmtu": rng.choice(PMTUS),
    }


def _transport(rng: random.Random, pmtu: int) -> dict[str, Any]:
    made: dict[str, Any] = {
        "routing": rng.choice(("srv6", "srv6", "structured", "ecmp")),
        "evs_per_plane": rng.randint(1, 4),
        "path_policy": rng.choice((*5 * ("mrc",), "oblivious", "bitmap", "reps")),
    }
    if rng.random() < 0.2:
        made |= {"cc": "fixed", "window": f"{rng.choice(FIXED_WINDOWS) * pmtu}B"}
    return made


def _workload(rng: random.Random, hosts: list[str], pmtu: int) -> dict[str, Any]:
    packets = rng.randint(*PACKETS)
    chosen = rng.sample(hosts, rng.randint(2, min(len(hosts), 6)))
    kind = rng.choice(("write", "incast", "incast", "permutation", "ring_allreduce"))
    odd = rng.choice((0, 1, pmtu - 1))
    each = max(packets // len(chosen), 2) * pmtu + odd
    message = rng.choice((None, pmtu // 2, pmtu, 3 * pmtu + 1, 20 * pmtu))
    extra = {} if message is None else {"message_bytes": f"{message}B"}
    match kind:
        case "write":
            size = f"{packets * pmtu + odd}B"
            return {"kind": kind, "src": chosen[0], "dst": chosen[1], "bytes": size, **extra}
        case "incast":
            sources = chosen[1:]
            size = f"{each}B"
            return {"kind": kind, "sources": sources, "dst": chosen[0], "bytes": size, **extra}
        case "permutation":
            return {"kind": kind, "hosts": chosen, "bytes": f"{each}B", **extra}
    ring = max(each // 2 // 8 * 8, 8 * len(chosen))
    return {"kind": kind, "ranks": chosen, "bytes": f"{ring}B", "steps": rng.randint(1, 2)}


def _fault(rng: random.Random, loaded: Loaded, clock: _Clock, label: str) -> dict[str, Any]:
    fabric = loaded.fabric
    start, length = clock.window()
    base = {"at": f"{start}ns", "label": label}
    switch = rng.choice(fabric.switches)
    t0 = rng.choice([s for s in fabric.switches if s.tier == 0])
    t1 = rng.choice([s for s in fabric.switches if s.tier == 1])
    peers = [
        fabric.peer(PortRef(switch.name, port)).node for port in range(fabric.port_count(switch))
    ]
    links = rng.sample(peers, rng.randint(1, min(len(peers), 3)))
    lasting = {"for": f"{length}ns"}
    share = f"{rng.choice((1, 5, 20, 100))}%"
    makers: list[Callable[[], dict[str, Any]]] = [
        lambda: {"fault": "link_down", "switch": switch.name, "links": links, **lasting},
        lambda: {
            "fault": "link_flap",
            "switch": switch.name,
            "links": links,
            "flaps": 3,
            "down": f"{max(length // 6, 1)}ns",
            "up": f"{max(length // 6, 1)}ns",
        },
        lambda: {"fault": "t1_reboot", "switch": t1.name, "down": f"{length}ns"},
        lambda: {"fault": "t0_reboot", "switch": t0.name, "down": f"{length}ns"},
        lambda: {"fault": "blackhole", "switch": switch.name, **lasting},
        lambda: {"fault": "gray_loss", "switch": switch.name, "probability": share, **lasting},
        lambda: {
            "fault": "one_way_loss",
            "switch": switch.name,
            "links": links,
            "probability": share,
            **lasting,
        },
        lambda: {"fault": "plane_down", "plane": rng.randrange(fabric.spec.planes), **lasting},
        lambda: {
            "fault": "corrupt",
            "switch": switch.name,
            "links": links,
            "probability": "5%",
            **lasting,
        },
        lambda: {
            "fault": "nic_port_down",
            "host": rng.choice(fabric.hosts).name,
            "plane": rng.randrange(fabric.spec.planes),
            **lasting,
        },
    ]
    if loaded.scenario.transport.routing != "ecmp":
        makers.append(lambda: {"fault": "deny_ev", **_an_ev(rng, loaded), **lasting})
    return {**base, **rng.choice(makers)()}


def _an_ev(rng: random.Random, loaded: Loaded) -> dict[str, Any]:
    scenario = loaded.scenario
    ends = flows.qp_ends(loaded.fabric, scenario, lambda name: stream(scenario.seed, name))
    end = rng.choice(ends)
    return {"host": end.host, "ev": rng.choice(end.paths).ev}


def _extra(rng: random.Random, loaded: Loaded, clock: _Clock) -> list[Step]:
    """Something that befalls one direction of one link for a while."""
    fabric = loaded.fabric
    start, length = clock.window()
    if rng.random() < 0.3:
        t0 = rng.choice([s for s in fabric.switches if s.tier == 0])
        end = PortRef(t0.name, rng.randrange(fabric.spec.hosts_per_t0))
        name = f"slow receiver at {end.node} port {end.port}"
        return [
            Step(start, name, PauseQueue(end, True)),
            Step(start + length, name, PauseQueue(end, False)),
        ]
    link = rng.choice(fabric.links)
    end = rng.choice((link.lower, link.upper))
    packet = derive.packet_ns(fabric.spec)
    how = rng.choice(
        (
            Impair(end, loss=rng.choice((0.01, 0.1, 0.5))),
            Impair(end, duplicate=rng.choice((0.05, 0.5))),
            Impair(end, reorder=0.2, reorder_delay_ns=packet * rng.choice((3, 30))),
            Impair(end, corrupt=rng.choice((0.01, 0.2))),
        )
    )
    name = f"impairment at {end.node} port {end.port}"
    return [Step(start, name, how), Step(start + length, name, Impair(end))]
