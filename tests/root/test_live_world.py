"""The live world as worlds.api.World: who dies or falls silent is named, who returns works."""

import os
import signal
import time
from pathlib import Path

import pytest

from switches.api import UpdateType
from switches.entries import DROPS_COUNTER, entries
from tests.root.inside import inside
from tests.support.live import settings, tiny
from topologies.model import PortRef
from worlds.api import NodeDied, WorldError
from worlds.live.world import LiveWorld

pytestmark = pytest.mark.root

MS = 1_000_000


def _started(folder: Path | None = None) -> LiveWorld:
    world = LiveWorld(tiny(), settings(folder))
    world.start()
    return world


def _pid(name: str) -> int:
    """Of the process whose command line has that word, or whose log it is."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and name in (folder / "cmdline").read_text().split("\0"):
            return int(folder.name)
    raise AssertionError(f"no process {name}")


def _nic_pid(world: LiveWorld, host: str) -> int:
    return world._nics._processes[host].pid


@inside
def test_a_dead_switch_is_named_within_a_second() -> None:
    world = _started()
    os.kill(_pid("p1t1n0"), signal.SIGKILL)
    before = time.monotonic()
    with pytest.raises(NodeDied, match="p1t1n0 died: killed by signal 9") as death:
        world.run_until(world.now_ns() + 10_000 * MS)
    assert time.monotonic() - before < 1
    assert death.value.node == "p1t1n0"


@inside
def test_a_dead_host_is_named_within_a_second() -> None:
    world = _started()
    os.kill(_nic_pid(world, "h2"), signal.SIGKILL)
    with pytest.raises(NodeDied, match="h2 died: killed by signal 9"):
        world.run_until(world.now_ns() + 1000 * MS)
    with pytest.raises(NodeDied, match="h2"):
        world.control("h2", {"op": "hello"})


@inside
def test_a_host_that_does_not_answer_is_named_after_five_seconds() -> None:
    world = _started()
    os.kill(_nic_pid(world, "h1"), signal.SIGSTOP)
    before = time.monotonic()
    with pytest.raises(WorldError, match="h1 did not answer within 5 s"):
        world.control("h1", {"op": "hello"})
    assert 4.5 < time.monotonic() - before < 6


@inside
def test_a_switch_that_does_not_answer_is_named_after_five_seconds() -> None:
    world = _started()
    os.kill(_pid("p0t0n1"), signal.SIGSTOP)
    with pytest.raises(WorldError, match="p0t0n1"):
        world.port_stats("p0t0n1")


@inside
def test_what_a_host_refuses_is_told_with_its_name() -> None:
    world = _started()
    with pytest.raises(WorldError, match="h0: poll before configure"):
        world.control("h0", {"op": "poll"})


@inside
def test_every_switch_has_the_rows_of_the_fabric() -> None:
    world = _started()
    for switch in world.fabric.switches:
        device = world._board._running[switch.name].device
        wanted = [entry for entry in entries(world.fabric, switch) if not entry.is_default]
        found = [entry for entry in device.read_entries() if not entry.is_default]
        assert len(found) == len(wanted) > 0
        stats = world.port_stats(switch.name)
        assert [port.up for port in stats] == [True] * world.fabric.port_count(switch)
        assert sum(cell.packets for cell in world.read_counter(switch.name, DROPS_COUNTER)) == 0


@inside
def test_a_killed_switch_takes_its_carriers_with_it_and_returns_with_its_rows() -> None:
    world = _started()
    switch = world.fabric.switch("p0t0n0")
    rows = len(world._board._running[switch.name].device.read_entries())
    world.set_link(PortRef("p0t0n0", 1), up=False)
    world.kill_switch("p0t0n0")
    world.run_until(world.now_ns() + 20 * MS)
    assert _carrier(world, "h0", 0) is False
    with pytest.raises(WorldError, match="p0t0n0 is not running"):
        world.write_switch("p0t0n0", UpdateType.INSERT, [])
    world.restart_switch("p0t0n0")
    world.run_until(world.now_ns() + 20 * MS)
    assert _carrier(world, "h0", 0) is True
    assert _carrier(world, "h1", 0) is False, "the scenario took that link down, and still does"
    assert len(world._board._running[switch.name].device.read_entries()) == rows
    assert [port.up for port in world.port_stats("p0t0n0")] == [True, False, True, True]
    with pytest.raises(WorldError, match="running"):
        world.restart_switch("p0t0n0")


@inside
def test_a_link_taken_down_loses_its_carrier_at_both_ends() -> None:
    world = _started()
    end = PortRef("p1t0n1", 2)
    peer = world.fabric.peer(end)
    world.set_link(end, up=False)
    assert (_carrier(world, *_of(end)), _carrier(world, *_of(peer))) == (False, False)
    world.set_link(end, up=True)
    assert (_carrier(world, *_of(end)), _carrier(world, *_of(peer))) == (True, True)


@inside
def test_nothing_is_lost_and_nobody_late_in_an_idle_fabric() -> None:
    world = _started()
    world.run_until(world.now_ns() + 100 * MS)
    assert world.interface_losses() == {"host_ring": 0, "kernel": 0}
    late = world.lateness()
    assert late["slots_lost"] == 0
    world.close()
    world.close()


def _of(end: PortRef) -> tuple[str, int]:
    return end.node, end.port


def _carrier(world: LiveWorld, node: str, port: int) -> bool:
    name = world.wiring.interfaces(node)[port].name
    states = world.wiring.namespace(node).netlink.interfaces()
    return next(state.carrier for state in states if state.name == name)
