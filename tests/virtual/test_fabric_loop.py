"""The compiled event loop does what the plain one does: every event, every count, in order."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from switches.api import PortConfig, QueueLimit, UpdateType
from switches.engine.build import build
from switches.engine.network import EngineNetwork, NetworkError, NetworkSwitch
from switches.entries import fault
from tests.virtual.test_world import INCAST, MS, P2P, P4, RING, Run
from topologies.model import PortRef
from worlds.virtual.link import Impairment
from worlds.virtual.world import VirtualWorld


def carrier(world: VirtualWorld) -> None:
    for at, up in ((300, False), (420, True), (500, False), (900, True)):
        world.loop.call_at(at * MS, partial(world.set_link, PortRef("p0t0n0", 0), up))
        world.loop.call_at(at * MS, partial(world.set_link, PortRef("p1t0n1", 3), up))


def reboot(world: VirtualWorld) -> None:
    world.loop.call_at(500 * MS, lambda: world.kill_switch("p1t1n0"))
    world.loop.call_at(1500 * MS, lambda: world.restart_switch("p1t1n0"))


def loss(world: VirtualWorld) -> None:
    rows = [fault(per_million=30_000, ingress_port=0)]
    world.loop.call_at(200 * MS, lambda: world.write_switch("p0t1n0", UpdateType.INSERT, rows))


def bad_wires(world: VirtualWorld) -> None:
    """Between switches, where the compiled loop carries frames itself unless told not to."""
    how = Impairment(loss=0.01, duplicate=0.01, reorder=0.05, reorder_delay_ns=3 * MS, corrupt=0.01)
    world.impair(PortRef("p0t0n0", 2), how)
    world.impair(PortRef("p1t1n1", 1), how)
    world.impair(PortRef("h1", 0), how)


def nothing(world: VirtualWorld) -> None: ...


CASES: list[tuple[str, Callable[[VirtualWorld], None]]] = [
    (RING, nothing),
    (INCAST, nothing),
    (RING, carrier),
    (RING, reboot),
    (P2P, loss),
    (RING, bad_wires),
]


@pytest.mark.parametrize(
    ("text", "before"), CASES, ids=[f"{t.split()[1]}-{b.__name__}" for t, b in CASES]
)
def test_both_loops_give_the_same_run(text: str, before: Callable[[VirtualWorld], None]) -> None:
    prints = {Run(text, before=before, compiled=flag).fingerprint() for flag in (True, False)}
    assert len(prints) == 1


def test_both_loops_show_a_tap_the_same_frames() -> None:
    def frames(compiled: bool, ports: list[tuple[int, int]] | None) -> list[Any]:
        seen: list[Any] = []

        def before(world: VirtualWorld) -> None:
            world.loop.tap(lambda *what: seen.append(what), ports)

        Run(P2P, before=before, compiled=compiled)
        return seen

    whole = frames(False, None)
    assert frames(True, None) == whole
    some = [(0, 0), (4, 2), (6, 1)]
    assert frames(True, some) == [what for what in whole if what[1:3] in some]
    assert any(what[1:3] == (6, 1) for what in whole)


@pytest.fixture
def fabric() -> EngineNetwork:
    return EngineNetwork(build(P4 / "mrc.json").library, 2)


def test_places_and_ports_are_checked(fabric: EngineNetwork) -> None:
    NetworkSwitch(fabric, 0, "a", 4, 1)
    with pytest.raises(MemoryError):
        NetworkSwitch(fabric, 0, "again", 4, 1)
    with pytest.raises(MemoryError):
        NetworkSwitch(fabric, 2, "beyond", 4, 1)
    with pytest.raises(ValueError, match="0 ports"):
        NetworkSwitch(fabric, 1, "b", 0, 1)
    with pytest.raises(NetworkError):
        fabric.send(0, 0, bytes(20_000), 0)


def test_frames_to_a_switch_that_is_gone_are_counted_and_held_ones_freed(
    fabric: EngineNetwork,
) -> None:
    switch = NetworkSwitch(fabric, 0, "a", 4, 1)
    limit = QueueLimit(10, 100_000)
    switch.device.configure_port(
        0, PortConfig(rate_bps=1000, ingress_delay_ns=50, queues=(limit, limit))
    )
    fabric.send(0, 0, bytes(100), 10)
    assert fabric.next_ns == 10
    assert fabric.run(11) == []
    assert switch.held == 1
    switch.close()
    assert switch.held == 0
    fabric.send(0, 0, bytes(100), 20)
    fabric.run(30)
    assert fabric.lost == 1
    assert fabric.events >= 2


def test_events_wait_for_their_time(fabric: EngineNetwork) -> None:
    NetworkSwitch(fabric, 1, "b", 2, 1)
    fabric.send(1, 0, bytes(60), 500)
    fabric.run(500)
    assert fabric.events == 0
    fabric.run(501)
    assert fabric.events == 1
    assert fabric.last_ns == 500


SANITIZED = """
from functools import partial
import worlds.virtual.world as world
from switches.engine.build import build
world.build = partial(build, sanitize=True)
from tests.virtual.test_fabric_loop import RING, Run, bad_wires, reboot
for before in (reboot, bad_wires):
    run = Run(RING, before=before)
    run.world.close()
    assert run.jobs()["h0"]["completed"]
"""


def test_the_compiled_loop_is_clean_under_the_sanitizers() -> None:
    """In a process of its own, since the address sanitizer has to be there from the start."""
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("gcc is not installed")
    asked = [gcc, "-print-file-name=libasan.so"]
    asan = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(asan).is_absolute():
        pytest.skip("libasan is not installed")
    done = subprocess.run(
        [sys.executable, "-c", SANITIZED],
        cwd=P4.parents[1],
        env={**os.environ, "LD_PRELOAD": asan, "ASAN_OPTIONS": "detect_leaks=0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
