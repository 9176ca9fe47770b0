"""Memory does not grow with the length of a run: hosts, switches and loop forget what is done."""

import gc
import tracemalloc
from pathlib import Path

from scenarios import derive, load
from scenarios.execute import P4_BUILD
from scenarios.runner import Runner
from switches.engine.network import NetworkSwitch
from worlds.api import WorldSettings
from worlds.virtual.world import VirtualWorld

ROOT = Path(__file__).parents[2]

TEXT = """
name: long
claim: the same for longer
topology: {{planes: 2, t0: 2, t1: 2, hosts_per_t0: 2, rate: 100gbit, delay: 1us}}
transport: {{evs_per_plane: 2}}
workload: {{kind: ring_allreduce, ranks: [h0, h1, h2, h3], bytes: 64KiB, steps: {steps}}}
expect: [job.completed]
"""

GROWTH_BYTES_MAX = 64 * 1024
"""For 4300 packets more, each of which is a few hundred bytes of objects while it is out."""


def held_bytes(steps: int) -> int:
    """What is allocated at the end of such a run by everything below the scenarios."""
    loaded = load.load_text(TEXT.format(steps=steps), "long")
    settings = WorldSettings(
        seed=1,
        program_json=P4_BUILD / "mrc.json",
        p4info=P4_BUILD / "mrc.p4info.txtpb",
        run_dir=None,
        switch=derive.switch_settings(loaded.scenario),
    )
    world = VirtualWorld(loaded.fabric, settings)
    runner = Runner(loaded, world, 1, lambda progress: None)
    places = [
        tracemalloc.Filter(True, f"{ROOT}/{folder}/*") for folder in ("hosts", "switches", "worlds")
    ]
    tracemalloc.start()
    try:
        observed = runner.run()
        gc.collect()
        found = tracemalloc.take_snapshot().filter_traces(places)
    finally:
        tracemalloc.stop()
    assert all(stop["job"]["completed"] for stop in observed.stopped.values())
    switches = [node for node in world.loop.nodes if isinstance(node, NetworkSwitch)]
    assert len(switches) == len(loaded.fabric.switches)
    assert not any(switch.held for switch in switches)
    world.close()
    return sum(trace.size for trace in found.traces)


def test_ten_times_the_run_holds_no_more() -> None:
    held_bytes(1)
    assert held_bytes(50) < held_bytes(5) + GROWTH_BYTES_MAX
