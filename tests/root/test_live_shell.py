"""The prompt of a run in progress, entered from outside, and its capture."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scapy.utils import RawPcapNgReader

from tests.root.inside import ROOT, run
from tests.root.test_live_ends import Held
from worlds.live.shell import NOTE

pytestmark = pytest.mark.root

ATTACH = (
    "import sys; from pathlib import Path; from worlds.live import shell; "
    "sys.exit(shell.attach(Path(sys.argv[1])))"
)
SCENARIO = """
name: captured
claim: A short write between two racks.
topology: tiny
workload: {kind: write, src: h0, dst: h2, bytes: 256KiB}
expect: [job.completed]
"""


def test_the_prompt_of_a_run_in_progress_talks_to_its_nodes(tmp_path: Path) -> None:
    held = Held(tmp_path)
    try:
        done = subprocess.run(
            [sys.executable, "-c", ATTACH, str(tmp_path)],
            cwd=ROOT,
            input="nodes\nh0 ip -brief link\nlink h1 p0t0n0 down\ncounters h1 p9\nexit\n",
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        shown = done.stdout + done.stderr  # Mininet's prompt writes to standard error
        assert "p1t1n1" in shown
        assert "h0-eth1@" in shown
        rows = {line.split()[0]: line.split()[1] for line in shown.splitlines() if line}
        assert (rows["h1-eth0"], rows["h1-eth1"]) == ("no", "yes")
        held.process.send_signal(signal.SIGTERM)
        held.check_gone()
        assert not (tmp_path / NOTE).exists()
    finally:
        held.end()


def test_without_a_run_in_progress_the_prompt_says_so(tmp_path: Path) -> None:
    done = run([sys.executable, "-c", ATTACH, str(tmp_path)])
    assert done.returncode != 0
    assert f"no live run is in progress in {tmp_path}" in done.stderr


def test_a_capture_holds_every_hop_in_order_of_time(tmp_path: Path) -> None:
    scenario = tmp_path / "captured.yaml"
    scenario.write_text(SCENARIO)
    ports = "h0-eth0,h0-eth1,h2-eth0,h2-eth1"
    words = [sys.executable, "-m", "scenarios", "run", str(scenario), "--world", "live"]
    done = run([*words, "--out", str(tmp_path / "run"), "--pcap", ports])
    assert done.returncode in (0, 3), done.stdout + done.stderr  # 3: this machine was busy
    seen = _frames(tmp_path / "run" / "capture.pcapng")
    assert [t for _, t, _ in seen] == sorted(t for _, t, _ in seen)
    full = [name for name, _, size in seen if size > 4000]
    from_h0 = sum(name.startswith("h0") for name in full)
    assert from_h0 == sum(name.startswith("h2") for name in full) >= 64


def _frames(path: Path) -> list[tuple[str, int, int]]:
    """(interface, time in ns, bytes) of every frame, in the order of the file."""
    found = []
    with RawPcapNgReader(str(path)) as reader:
        for frame, read in reader:
            meta: Any = read
            found.append((meta.ifname.decode(), meta.tshigh << 32 | meta.tslow, len(frame)))
    return found
