"""The virtual world on `tiny`: jobs through compiled mrc.p4 switches, faults, books and repeats."""

import hashlib
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hosts.wire.packet import parse_frame
from scenarios import derive, ledger
from scenarios.load import Loaded, load_text
from scenarios.observe import Observed
from scenarios.runner import Runner
from switches.api import UpdateType
from switches.engine.build import build
from switches.entries import DROPS_COUNTER, SwitchSettings, fault
from topologies.model import PortRef
from topologies.thresholds import Thresholds
from worlds.api import WorldError, WorldSettings
from worlds.virtual.world import VirtualWorld

ROOT = Path(__file__).parents[2]
P4 = ROOT / "p4" / "build"
MS = 1_000_000

RING = """\
name: ring
claim: every byte of an all-reduce is verified
topology: tiny
transport: {kind: mrc, routing: srv6, evs_per_plane: 2}
workload: {kind: ring_allreduce, ranks: [h0, h1, h2, h3], bytes: 1MiB, steps: 2}
expect: [job.completed]
"""
P2P = """\
name: p2p
claim: one write between racks
topology: tiny
transport: {kind: mrc, routing: srv6, evs_per_plane: 2}
workload: {kind: write, src: h0, dst: h2, bytes: 2MiB}
expect: [job.completed]
"""
INCAST = """\
name: incast
claim: three to one, trimmed and sent again
topology: tiny
transport: {kind: mrc, routing: srv6, evs_per_plane: 2}
workload: {kind: incast, sources: [h1, h2, h3], dst: h0, bytes: 1MiB}
expect: [job.completed]
"""


class Run:
    """A scenario run to its end, and the world as it was left."""

    def __init__(
        self,
        text: str,
        *,
        seed: int = 1,
        before: Callable[[VirtualWorld], None] | None = None,
        settings: dict[str, Any] | None = None,
        compiled: bool = True,
    ) -> None:
        self.loaded: Loaded = load_text(text, "test")
        self.world = VirtualWorld(
            self.loaded.fabric,
            WorldSettings(
                **{
                    "seed": seed,
                    "program_json": P4 / "mrc.json",
                    "p4info": P4 / "mrc.p4info.txtpb",
                    "switch": derive.switch_settings(self.loaded.scenario),
                    **(settings or {}),
                }
            ),
            compiled=compiled,
        )
        runner = Runner(self.loaded, self.world, seed, lambda _: None)
        if before is not None:
            start = self.world.start

            def and_then() -> None:
                start()
                before(self.world)

            self.world.start = and_then  # type: ignore[method-assign]
        self.observed: Observed = runner.run()

    @property
    def books(self) -> tuple[ledger.Book, ...]:
        o = self.observed
        cut = {place.partition(":")[2] for place in o.losses if place.startswith("power_cut:")}
        return ledger.balance(o.stopped, o.switch_stats, o.losses, o.rebooted | cut)

    def counts(self, name: str) -> int:
        return sum(stop["ledger"][name] for stop in self.observed.stopped.values())

    def jobs(self) -> dict[str, dict[str, Any]]:
        return {host: stop["job"] for host, stop in self.observed.stopped.items()}

    def fingerprint(self) -> str:
        """Of everything observed, events in order."""
        o = self.observed
        lines = [[e.t_ns, e.node, e.kind, dict(e.fields)] for e in o.in_order()]
        everything = [lines, o.stopped, o.series.columns(), o.losses, self.world.events]
        return hashlib.sha256(json.dumps(everything).encode()).hexdigest()


def assert_all_right(run: Run) -> None:
    assert run.observed.problems == []
    assert run.observed.host_errors == {}
    expected = run.observed.total_bytes
    assert sum(job["bytes_delivered"] for job in run.jobs().values()) == expected
    assert sum(job["bytes_corrupt"] for job in run.jobs().values()) == 0
    for stop in run.observed.stopped.values():
        if stop["qps"]:
            assert stop["job"]["completed"]
    for book in run.books:
        assert book.unexplained == 0, book


@pytest.mark.parametrize("text", [RING, P2P, INCAST], ids=["ring", "p2p", "incast"])
def test_every_byte_arrives_and_the_books_balance(text: str) -> None:
    run = Run(text)
    assert_all_right(run)
    assert run.counts("data_sent") == sum(
        run.counts(name)
        for name in ("data_delivered", "data_duplicate", "data_trimmed", "data_rejected")
    )


def test_an_incast_is_trimmed_and_loses_nothing() -> None:
    """Queues so short that congestion control cannot help, and no mark that would warn it."""
    shallow = Thresholds(ecn_low=100, ecn_high=200, trim=4, trim_last_hop=4)
    run = Run(INCAST, settings={"switch": SwitchSettings(thresholds=shallow)})
    assert_all_right(run)
    assert run.counts("rx_data_trimmed_lasthop") > 0
    assert run.counts("data_retransmitted") >= run.counts("data_trimmed")


def test_the_same_seed_gives_the_same_run_and_another_does_not() -> None:
    first = Run(RING).fingerprint()
    assert Run(RING).fingerprint() == first
    assert Run(RING, seed=2).fingerprint() != first


def test_python_hash_seeds_change_nothing() -> None:
    code = (
        "from tests.virtual.test_world import *; import sys;"
        "sys.stdout.write(Run(INCAST).fingerprint())"
    )
    prints = set()
    for hash_seed in ("0", "4711"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        prints.add(done.stdout)
    assert len(prints) == 1


def test_the_optimiser_of_the_c_compiler_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    optimised = Run(INCAST).fingerprint()
    monkeypatch.setattr("worlds.virtual.world.build", partial(build, opt="-O0"))
    assert Run(INCAST).fingerprint() == optimised


def test_the_path_shifts_sixteen_bits_a_hop() -> None:
    """Outer destinations of one write as it leaves NIC, T0, T1 and T0 (facts 4.1)."""
    seen: dict[int, list[bytes]] = {}
    hops: list[int] = []

    def before(world: VirtualWorld) -> None:
        def see(now_ns: int, node: int, port: int, frame: bytes) -> None:
            packet = parse_frame(frame)
            if packet.opcode in range(0xC6, 0xCC) and not packet.rtx:
                seen.setdefault(packet.psn, []).append(packet.outer_dst)
                hops.append(packet.hop_limit)

        world.loop.tap(see)

    Run(P2P, before=before)
    assert len(seen) == 512
    for path in seen.values():
        assert len(path) == 4
        for near, far in itertools.pairwise(path):
            assert far == near[:4] + near[6:] + b"\0\0"
    assert set(hops) == {64, 63, 62, 61}


def test_a_carrier_lost_in_mid_job_loses_no_byte() -> None:
    def before(world: VirtualWorld) -> None:
        end = PortRef("p0t0n0", 0)
        world.loop.call_at(600 * MS, lambda: world.set_link(end, False))
        world.loop.call_at(900 * MS, lambda: world.set_link(end, True))

    run = Run(RING, before=before)
    assert_all_right(run)
    ports = [e for e in run.observed.in_order() if e.kind == "port"]
    assert [(e.node, e.fields["plane"], e.fields["up"]) for e in ports][:1] == [("h0", 0, False)]
    assert run.counts("ev_retired") > 0


def test_a_killed_switch_comes_back_with_its_tables() -> None:
    def before(world: VirtualWorld) -> None:
        world.loop.call_at(500 * MS, lambda: world.kill_switch("p1t1n0"))
        world.loop.call_at(1500 * MS, lambda: world.restart_switch("p1t1n0"))

    run = Run(RING, before=before)
    assert_all_right(run)
    stats = run.world.port_stats("p1t1n0")
    assert sum(port.rx_packets for port in stats) > 100


def test_a_switch_that_is_off_counts_what_it_had_and_answers_nothing() -> None:
    def before(world: VirtualWorld) -> None:
        world.loop.call_at(500 * MS, lambda: world.kill_switch("p1t1n0"))

    run = Run(RING, before=before)
    assert_all_right(run)
    assert run.world.port_stats("p1t1n0")
    assert run.world.read_counter("p1t1n0", DROPS_COUNTER)
    with pytest.raises(WorldError, match="p1t1n0 is not running"):
        run.world.write_switch("p1t1n0", UpdateType.INSERT, [])
    run.world.restart_switch("p1t1n0")
    with pytest.raises(WorldError, match="is running"):
        run.world.restart_switch("p1t1n0")


def test_a_link_is_up_only_if_nobody_took_it_down_and_both_ends_have_power() -> None:
    run = Run(P2P)
    world, link = run.world, PortRef("p0t0n0", 2)

    def is_up() -> bool:
        return {p.port: p.up for p in world.port_stats("p0t0n0")}[2]

    world.set_link(link, False)
    world.kill_switch("p0t1n0")
    world.set_link(link, True)
    assert not is_up()
    world.restart_switch("p0t1n0")
    assert is_up()
    world.set_link(world.fabric.peer(link), False)
    assert not is_up()
    world.set_link(link, True)
    assert not is_up()


def test_a_blackhole_by_table_row_is_survived_and_counted() -> None:
    def before(world: VirtualWorld) -> None:
        world.loop.call_at(
            300 * MS,
            lambda: world.write_switch("p0t1n0", UpdateType.INSERT, [fault(ingress_port=0)]),
        )

    run = Run(P2P, before=before)
    assert_all_right(run)
    drops = run.world.read_counter("p0t1n0", DROPS_COUNTER)
    assert drops[7].packets > 0
    assert run.counts("ev_retired") >= 1


def test_damaged_frames_are_noticed_and_sent_again() -> None:
    run = Run(P2P, before=lambda world: world.set_corruption(PortRef("h0", 0), 0.02))
    assert sum(job["bytes_corrupt"] for job in run.jobs().values()) == 0
    assert run.jobs()["h2"]["completed"]
    assert run.counts("rx_drop_icrc") > 0


def test_nonsense_is_refused_with_a_sentence() -> None:
    world = Run(P2P).world
    with pytest.raises(WorldError, match="no host 'h99'"):
        world.control("h99", {"op": "poll"})
    with pytest.raises(WorldError, match="h0: no message 'dance'"):
        world.control("h0", {"op": "dance"})
    with pytest.raises(WorldError, match="no port 'h0-eth9'"):
        Run(P2P, settings={"pcap_ports": ("h0-eth9",)})


def test_a_capture_holds_what_crossed_its_ports(tmp_path: Path) -> None:
    settings = {"run_dir": tmp_path, "pcap_ports": ("h0-eth1", "p1t0n0-eth0")}
    run = Run(P2P, settings=settings)
    run.world.close()
    utils = pytest.importorskip("scapy.utils")
    frames = [bytes(frame) for frame in utils.rdpcap(str(tmp_path / "capture.pcapng"))]
    at_switch = run.observed.switch_stats["p1t0n0"]["ports"][0]
    assert len(frames) == 2 * (at_switch.rx_packets + at_switch.tx_packets)
    opcodes = {parse_frame(frame).opcode for frame in frames}
    assert {0xC6, 0xC7, 0xDC} <= opcodes


def test_wireshark_finds_nothing_wrong_in_a_capture(tmp_path: Path) -> None:
    """Of trimmed packets it says that they are shorter than their UDP length: they are."""
    tshark = shutil.which("tshark")
    if tshark is None:
        pytest.skip("tshark is not installed (apt: tshark)")
    shallow = Thresholds(ecn_low=100, ecn_high=200, trim=4, trim_last_hop=4)
    ports = ("h0-eth0", "h1-eth0", "p0t0n0-eth0")
    settings = {
        "run_dir": tmp_path,
        "pcap_ports": ports,
        "switch": SwitchSettings(thresholds=shallow),
    }
    run = Run(INCAST, settings=settings)
    run.world.close()
    script = ROOT / "docs" / "wireshark" / "mrc.lua"
    shown = {}
    for name, condition in (
        ("bad", "(_ws.malformed && !(mrc.trimmed == 1)) || mrc.too_short || !mrc"),
        ("trimmed", "mrc.trimmed == 1"),
    ):
        command = [tshark, "-X", f"lua_script:{script}", "-r", str(tmp_path / "capture.pcapng")]
        done = subprocess.run(
            [*command, "-Y", condition, "-T", "fields", "-e", "mrc.psn"],
            capture_output=True,
            text=True,
            check=True,
        )
        shown[name] = done.stdout.split()
    assert shown["bad"] == []
    assert len(shown["trimmed"]) > 0
