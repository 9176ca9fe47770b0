"""Structured EVs and ECMP end to end: who picks the path changes, what is promised does not."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from hosts.wire.opcode import WRITES
from hosts.wire.packet import parse_frame
from scenarios import flows
from scenarios.load import load_text
from tests.support.cli_run import run
from tests.virtual.test_world import Run, assert_all_right
from topologies import addressing, routing
from topologies.model import Fabric, PortRef
from topologies.routing import Routing
from worlds import rng
from worlds.virtual.world import VirtualWorld

MODES = (Routing.STRUCTURED, Routing.ECMP)
SEED = 1


def ring(mode: Routing, topology: str = "tiny", evs: int = 2, ranks: str = "h0, h2, h1, h3") -> str:
    return f"""\
name: ring
claim: every byte of an all-reduce is verified in every routing mode
topology: {topology}
transport: {{kind: mrc, routing: {mode}, evs_per_plane: {evs}}}
workload: {{kind: ring_allreduce, ranks: [{ranks}], bytes: 1MiB}}
expect: [job.completed]
"""


class Ways:
    """Every data packet's egress ports, as they were seen and as topologies.routing says."""

    def __init__(self, text: str) -> None:
        self.seen: dict[tuple[bytes, int, int, int], list[PortRef]] = {}
        self.run = Run(text, seed=SEED, before=self._watch)
        self.loaded = load_text(text, "test")
        self.fabric: Fabric = self.loaded.fabric

    def _watch(self, world: VirtualWorld) -> None:
        names = world.loop.names

        def see(now_ns: int, node: int, port: int, frame: bytes) -> None:
            packet = parse_frame(frame)
            assert packet.outer_dst == packet.inner_dst, "an outer header where none belongs"
            if packet.opcode in WRITES and not packet.rtx:
                key = (packet.inner_src, packet.dest_qpn, packet.psn, packet.ev)
                self.seen.setdefault(key, []).append(PortRef(names[node], port))

        world.loop.tap(see)

    def predicted(self) -> dict[tuple[bytes, int], set[tuple[PortRef, ...]]]:
        """By sender and EV; an EV of several QPs may name several paths."""
        out: dict[tuple[bytes, int], set[tuple[PortRef, ...]]] = {}
        for end in flows.qp_ends(
            self.fabric, self.loaded.scenario, lambda name: rng.stream(SEED, name)
        ):
            src = self.fabric.host(end.host)
            for way in end.paths:
                hops = tuple(routing.hops(self.fabric, src, way))
                out.setdefault((addressing.gid(src), way.ev), set()).add(hops)
        return out


@pytest.mark.parametrize("mode", MODES)
def test_every_byte_arrives_over_the_paths_that_were_foretold(mode: Routing) -> None:
    ways = Ways(ring(mode))
    assert_all_right(ways.run)
    predicted = ways.predicted()
    assert len(ways.seen) > 1000
    for (src, _, _, ev), hops in ways.seen.items():
        assert tuple(hops) in predicted[src, ev]


@pytest.mark.parametrize("mode", MODES)
def test_an_ev_is_one_path(mode: Routing) -> None:
    """What lets a NIC take a later arrival on the same EV for the proof of a loss."""
    paths: dict[tuple[bytes, int, int], set[tuple[PortRef, ...]]] = {}
    for (src, qpn, _, ev), hops in Ways(ring(mode, evs=8)).seen.items():
        paths.setdefault((src, qpn, ev), set()).add(tuple(hops))
    assert all(len(taken) == 1 for taken in paths.values())


def test_many_hashed_evs_load_the_t1_switches_evenly() -> None:
    ranks = "h0, h4, h1, h5, h2, h6, h3, h7"
    done = Run(ring(Routing.ECMP, "lab", evs=64, ranks=ranks), seed=SEED)
    assert_all_right(done)
    loads = Counter(dict(_received_by_t1(done)))
    assert len(loads) == 16
    mean = sum(loads.values()) / len(loads)
    assert min(loads.values()) > 0.75 * mean
    assert max(loads.values()) < 1.25 * mean


def _received_by_t1(done: Run) -> Iterator[tuple[str, int]]:
    for switch in done.world.fabric.switches:
        if "t1" in switch.name:
            stats = done.world.port_stats(switch.name)
            yield switch.name, sum(port.rx_bytes for port in stats)


@pytest.mark.parametrize("scenario", ["structured-ev", "ecmp"])
def test_a_dead_link_retires_just_the_evs_that_cross_it(scenario: str, tmp_path: Path) -> None:
    done = run(scenario, tmp_path / "out")
    assert done.code == 0, done.out
    retired = done.result["metrics"]["ev.retired"]
    assert retired == done.result["metrics"]["ev.affected"]
    assert len(retired) >= 4
