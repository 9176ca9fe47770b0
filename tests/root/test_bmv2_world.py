"""Scenarios on real BMv2: `tiny` at 5 Mb/s, judged as on the engine."""

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from scenarios.verdict import EXIT_CODES, Verdict
from tests.root.inside import inside
from tests.support.cli_run import Done, run
from tests.support.live import settings
from topologies.builders import clos
from topologies.model import FabricSpec
from worlds.api import NodeDied, WorldUnavailable
from worlds.live.world import LiveWorld

pytestmark = [pytest.mark.root, pytest.mark.bmv2]

ON_BMV2 = (
    *("--switch", "bmv2", "--set", "topology=tiny-bmv2", "--set", "transport.evs_per_plane=2"),
)


def on_bmv2(scenario: str, folder: Path, *overrides: str) -> Done:
    words = [word for override in overrides for word in ("--set", override)]
    done = run(scenario, folder, *ON_BMV2, *words, world="live")
    if done.code == EXIT_CODES[Verdict.INVALID]:
        lost = [
            e for e in done.result["expectations"] if not e["ok"] and "goodput" not in e["expr"]
        ]
        assert lost == [], done.out
        pytest.skip(f"this machine could not keep time: {done.result['fidelity']['reasons']}")
    assert (done.result["world"], done.result["switch"]) == ("live", "bmv2")
    return done


def test_p2p_passes(tmp_path: Path) -> None:
    done = on_bmv2("p2p", tmp_path / "out", "workload.dst=h2", "workload.bytes=4MiB")
    assert done.code == 0, done.out + done.err


def test_t0_optic_passes(tmp_path: Path) -> None:
    """Two of the four NICs flap, so that half of the job stands: the file's 0.6 is for `lab`."""
    done = on_bmv2(
        "t0-optic",
        tmp_path / "out",
        "workload.ranks=[h0, h2, h1, h3]",
        "workload.bytes=2MiB",
        "workload.steps=8",
        "timeline.0.links=[h0, h1]",
        "expect.2=goodput.during(optic) >= 0.4 * goodput.before(optic)",
        "expect.3=goodput.after(optic) >= 0.85 * goodput.before(optic)",
    )
    assert done.code == 0, done.out + done.err
    assert len(done.result["metrics"]["ev.retired"]) >= 8


def test_a_rebooted_switch_forwards_again_and_the_books_balance(tmp_path: Path) -> None:
    done = on_bmv2(
        "t1-reboot",
        tmp_path / "out",
        "workload.hosts=[h0, h2, h1, h3]",
        "workload.bytes=8MiB",
        "timeline.0.switch=p1t1n1",
        "timeline.0.at=2s",
        "expect=[job.completed, job.bytes_corrupt == 0, qp.errors == 0,"
        " ev.retired == ev.affected, ev.all_good, ledger.unexplained == 0]",
    )
    assert done.code == 0, done.out + done.err
    frames = done.result["ledger"]["books"]["frames"]["explained"]
    assert frames["p4:fault:p1t1n1"] > 0


@pytest.mark.parametrize("routing", ["structured", "ecmp"])
def test_the_other_routing_modes_pass(tmp_path: Path, routing: str) -> None:
    done = on_bmv2(
        "p2p",
        tmp_path / "out",
        "workload.dst=h2",
        "workload.bytes=4MiB",
        f"transport.routing={routing}",
        "transport.evs_per_plane=8",
    )
    assert done.code == 0, done.out + done.err


def world(spec: FabricSpec) -> LiveWorld:
    return LiveWorld(clos(spec), replace(settings(), back_end="bmv2"))


@inside
def test_a_dead_bmv2_is_named_within_a_second() -> None:
    made = world(FabricSpec(planes=1, t0=2, t1=1, hosts_per_t0=1, rate_bps=5_000_000, delay_ns=0))
    made.start()
    os.kill(made._board._running["p0t1n0"].process.pid, signal.SIGKILL)
    before = time.monotonic()
    with pytest.raises(NodeDied, match="p0t1n0 died: killed by signal 9"):
        made.run_until(made.now_ns() + 10**10)
    assert time.monotonic() - before < 1
    made.close()


def test_a_fabric_with_delay_is_refused() -> None:
    with pytest.raises(WorldUnavailable, match="BMv2 has no delay"):
        world(FabricSpec(planes=1, t0=2, t1=1, hosts_per_t0=1))
