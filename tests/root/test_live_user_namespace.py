"""The live world without root, where the kernel allows user namespaces."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.root.inside import inside, run
from tests.support.live import tiny
from worlds.live.raw_port import RawPort
from worlds.live.wiring import Wiring

pytestmark = pytest.mark.root

INTO = ["unshare", "--user", "--map-root-user"]
FRAME = bytes.fromhex("020100000000 020300000000 86dd") + bytes(4000)


@pytest.fixture(autouse=True)
def _user_namespaces() -> None:
    tried = subprocess.run([*INTO, "true"], check=False, capture_output=True, text=True)
    if tried.returncode != 0:
        pytest.skip(f"no user namespaces here: {tried.stderr.strip()}")


@inside
def check_ring() -> None:
    wiring = Wiring(tiny())
    with wiring.namespace("h0").entered():
        sender = RawPort("h0-eth0")
    with wiring.namespace("p0t0n0").entered():
        port = RawPort("p0t0n0-eth0")
    if port._ring is None:
        return  # this machine gives large buffers to everybody
    frames = [FRAME[:20] + bytes((i % 256,)) * (i % 4000) for i in range(3000)]
    for round_ in range(3):
        for frame in frames[:500]:
            sender.send(frame)
        taken = []
        while (got := port.receive()) is not None:
            taken.append(got)
        assert taken == frames[:500], round_
    for frame in frames:
        sender.send(frame)
    left = 0
    while port.receive() is not None:
        left += 1
    assert left + port.ring_drops() == len(frames)
    wiring.set_up("p0t0n0", [0], up=False)
    assert port.receive() is None
    wiring.set_up("p0t0n0", [0], up=True)


def test_a_ring_takes_the_place_of_a_buffer_that_is_not_given() -> None:
    words = [sys.executable, "-m", "tests.root.inside", __name__, check_ring.__name__]
    done = run([*INTO, *words])
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_run_in_a_user_namespace_passes(tmp_path: Path) -> None:
    scenario = tmp_path / "rootless.yaml"
    scenario.write_text(
        "name: rootless\nclaim: A write without root.\ntopology: tiny\n"
        "workload: {kind: write, src: h0, dst: h2, bytes: 256KiB}\n"
        "expect: [job.completed, job.bytes_corrupt == 0]\n"
    )
    words = [sys.executable, "-m", "scenarios", "run", str(scenario), "--world", "live"]
    done = run([*INTO, *words, "--out", str(tmp_path / "run")])
    assert done.returncode in (0, 3), done.stdout + done.stderr  # 3: this machine was busy
    assert "host_ring" not in done.stdout
