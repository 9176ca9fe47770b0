"""No counter of the books can be spared: with any one of them at zero a run turns red.

Three runs between them exercise every way a frame can end; then each counter in turn is left out.
"""

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pytest

from hosts import ledger as host_ledger
from scenarios import ledger
from scenarios.verdict import EXIT_CODES, Verdict
from switches.api import CONTROL_PRIORITY, DATA_PRIORITY, PortStats, QueueLimit, UpdateType
from switches.entries import FIB, entries, fault, port_configs
from tests.support.cli_run import run
from tests.virtual.test_world import MS, RING, Run
from topologies.model import PortRef
from worlds.switch_settings import switch_settings
from worlds.virtual.world import VirtualWorld

RX_DROPS = "rx_drop_"
CROWD = """\
name: crowd
claim: seven to one
topology: lab
workload: {kind: incast, sources: [h1, h2, h3, h4, h5, h6, h7], dst: h0, bytes: 512KiB}
expect: [job.completed]
"""


def broken_ring() -> Run:
    """Loss, damage, dead wires, a power cut, a missing route, a queue that stands still."""

    def before(world: VirtualWorld) -> None:
        t1 = world.fabric.switch("p1t1n0")
        route = next(row for row in entries(world.fabric, t1) if row.table == FIB)

        loss = fault(per_million=30_000)

        def at(ms: int, what: Callable[[], object]) -> None:
            world.loop.call_at(ms * MS, what)  # type: ignore[arg-type]

        at(300, lambda: world.write_switch("p0t1n0", UpdateType.INSERT, [loss]))
        at(300, lambda: world.set_corruption(PortRef("h1", 0), 0.02))
        at(400, lambda: world.set_link(PortRef("p0t0n0", 2), False))
        at(600, lambda: world.set_link(PortRef("p0t0n0", 2), True))
        at(500, lambda: world.set_link(PortRef("p1t0n1", 0), False))
        at(650, lambda: world.set_link(PortRef("p1t0n1", 0), True))
        at(700, lambda: world.write_switch("p1t1n0", UpdateType.DELETE, [route]))
        at(900, lambda: world.write_switch("p1t1n0", UpdateType.INSERT, [route]))
        at(1000, lambda: world.kill_switch("p1t0n1"))
        at(1300, lambda: world.restart_switch("p1t0n1"))
        device = world._switches["p0t1n1"].device
        at(1500, lambda: device.pause_queue(1, DATA_PRIORITY, True))

    return Run(RING.replace("bytes: 1MiB", "bytes: 4MiB"), before=before)


def crowd(text: str, priority: int, limit: QueueLimit) -> Run:
    """With that little room in one queue of the last hop."""

    def before(world: VirtualWorld) -> None:
        switch = world.fabric.switch("p0t0n0")
        config = port_configs(world.fabric, switch, switch_settings(world.settings.switch))[0]
        queues = list(config.queues)
        queues[priority] = limit
        device = world._switches["p0t0n0"].device
        device.configure_port(0, replace(config, queues=tuple(queues)))

    return Run(text, before=before)


def cramped_incast() -> Run:
    """So little room for trims that some are lost."""
    return crowd(CROWD, CONTROL_PRIORITY, QueueLimit(2, 300))


def untrimmed_incast() -> Run:
    text = CROWD.replace("workload:", "switches: {trimming: false}\nworkload:")
    return crowd(text, DATA_PRIORITY, QueueLimit(4, 1 << 20))


@dataclass(frozen=True)
class Left:
    """What a run left behind, with one counter left out or none."""

    stopped: dict[str, dict[str, Any]]
    switch_stats: dict[str, dict[str, Any]]
    losses: dict[str, int]

    def is_red(self) -> bool:
        killed = cut(self.losses)
        books = ledger.balance(self.stopped, self.switch_stats, self.losses, killed)
        return any(book.unexplained for book in books)


def cut(losses: Mapping[str, int]) -> set[str]:
    """Switches that were killed with frames inside."""
    return {place.partition(":")[2] for place in losses if place.startswith("power_cut:")}


def left_by(run: Run) -> Left:
    o = run.observed
    return Left(dict(o.stopped), dict(o.switch_stats), dict(o.losses))


def endpoint_names(left: Left) -> Iterator[str]:
    """Every counter of the endpoints that is in a book and not zero."""
    known = {*ledger.SENT_KINDS, *ledger.RECEIVED_KINDS, "tx_frames", "rx_frames"}
    for name in next(iter(left.stopped.values()))["ledger"]:
        if (name in known or name == "control_dropped" or name.startswith(RX_DROPS)) and any(
            stop["ledger"][name] for stop in left.stopped.values()
        ):
            yield name


def without_endpoint_counter(left: Left, name: str) -> Left:
    stopped = copy.deepcopy(left.stopped)
    for stop in stopped.values():
        counts = {**stop["ledger"], name: 0}
        stop["ledger"] = host_ledger.ledger(
            counts, tx_frames=counts["tx_frames"], rx_frames=counts["rx_frames"]
        )
    return replace(left, stopped=stopped)


def without_drop(left: Left, switch: str, reason: str) -> Left:
    stats = copy.deepcopy(left.switch_stats)
    stats[switch]["drops"][reason] = 0
    return replace(left, switch_stats=stats)


PORT_COUNTERS = ("rx_packets", "tx_packets", "link_down")
QUEUE_COUNTERS = ("dropped", "trim_drop", "depth_packets")


def port_cells(port: PortStats) -> Iterator[tuple[str, PortStats]]:
    """Each counter of a port that is not zero, and the port without it."""
    for name in PORT_COUNTERS:
        if getattr(port, name):
            zero: dict[str, Any] = {name: 0}
            yield name, replace(port, **zero)
    for index, queue in enumerate(port.queues):
        for name in QUEUE_COUNTERS:
            if getattr(queue, name):
                queues = list(port.queues)
                queues[index] = replace(queue, **{name: 0})
                yield name, replace(port, queues=tuple(queues))


def without_each(left: Left) -> Iterator[tuple[str, str, Left]]:
    """(kind of counter, which one, what is left without it)."""
    for name in endpoint_names(left):
        yield name, "all hosts", without_endpoint_counter(left, name)
    for switch, stats in left.switch_stats.items():
        for reason, count in stats["drops"].items():
            if count:
                yield f"p4:{reason}", switch, without_drop(left, switch, reason)
        for index, port in enumerate(stats["ports"]):
            for name, less in port_cells(port):
                ports = [*stats["ports"][:index], less, *stats["ports"][index + 1 :]]
                changed: Mapping[str, Any] = {**stats, "ports": ports}
                where = f"{switch}-eth{port.port}"
                if switch in cut(left.losses) and name in ("rx_packets", "tx_packets"):
                    continue  # the books of a switch that was killed are closed by what it held
                yield (
                    name,
                    where,
                    replace(left, switch_stats={**left.switch_stats, switch: dict(changed)}),
                )
    for place in left.losses:
        less_losses = {name: count for name, count in left.losses.items() if name != place}
        yield place.partition(":")[0] + " outside", place, replace(left, losses=less_losses)


RUNS: dict[str, tuple[Callable[[], Run], set[str]]] = {
    "broken ring": (
        broken_ring,
        {
            *("p4:fault", "p4:no_route", "link_down", "power_cut outside"),
            *("depth_packets", "rx_drop_icrc", "rx_packets", "tx_packets"),
            *("tx_data_first", "tx_data_again", "tx_sack", "tx_probe", "tx_ep_request"),
        },
    ),
    "cramped incast": (cramped_incast, {"trim_drop", "rx_data_trimmed_lasthop", "tx_nack"}),
    "untrimmed incast": (untrimmed_incast, {"dropped"}),
}


@pytest.mark.parametrize("name", RUNS)
def test_any_counter_left_out_turns_a_run_red(name: str) -> None:
    make, must_happen = RUNS[name]
    left = left_by(make())
    assert not left.is_red()
    exercised, spared = set(), []
    for kind, which, less in without_each(left):
        exercised.add(kind)
        if not less.is_red():
            spared.append((kind, which))
    assert spared == []
    assert must_happen <= exercised, must_happen - exercised


def test_the_loop_knows_every_counter_of_a_port() -> None:
    """A new field of PortStats must be put in the loop or named here with the reason it is not."""
    not_frames = {"port", "up", "rx_bytes", "tx_bytes", "queues"}
    only_live = {"ring_drops"}
    assert {f.name for f in fields(PortStats)} == {*PORT_COUNTERS, *not_frames, *only_live}


LOSSY = (
    "timeline=["
    "{at: 300ms, fault: gray_loss, switch: p0t0n0, probability: 3%, for: 700ms},"
    "{at: 500ms, fault: link_flap, switch: p1t1n2, links: [p1t0n1], down: 200ms}]"
)
BALANCED = "expect=[job.completed, ledger.dropped > 0, ledger.unexplained == 0]"


@pytest.mark.parametrize("world", ["virtual", pytest.param("live", marks=pytest.mark.root)])
def test_p2p_under_loss_balances(tmp_path: Path, world: str) -> None:
    """Also where the machine was too busy to prove anything else."""
    short = ("--set", "workload.bytes=12MiB", "--set", LOSSY, "--set", BALANCED)
    done = run("p2p", tmp_path / "out", *short, world=world)
    assert done.code in (0, EXIT_CODES[Verdict.INVALID]), done.out + done.err
    assert all(finding["ok"] for finding in done.result["expectations"]), done.out
    assert done.result["problems"] == []
