"""Proof that it is real: what is broken is seen to be broken, and packets are where they should be.

The first four run the command as a user does; the last listens with tcpdump on three hops.
"""

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from scapy.utils import RawPcapReader

from hosts.wire.packet import Packet, parse_frame
from scenarios import load
from scenarios.runner import Runner
from tests.root.inside import ROOT, inside, run_judged
from tests.support import live
from worlds.live.world import LiveWorld

pytestmark = pytest.mark.root

MIB = 1 << 20
SCENARIO = """
name: {name}
claim: A write between two racks of the smallest fabric; material for tests of the testbed.
topology: tiny
transport: {{kind: mrc, routing: srv6, evs_per_plane: 2}}
workload: {{kind: write, src: h0, dst: h2, bytes: {mib}MiB}}
max_duration: {max_duration}
expect:
  - job.completed
  - job.bytes_corrupt == 0
"""


def _scenario(folder: Path, *more: str, mib: int = 1, max_duration: str = "20s") -> Path:
    path = folder / "proof.yaml"
    text = SCENARIO.format(name="proof", mib=mib, max_duration=max_duration)
    path.write_text(text + "".join(f"  - {expectation}\n" for expectation in more))
    return path


def _words(scenario: Path, *flags: str) -> list[str]:
    out = ["--out", str(scenario.parent / "run")]
    return [*_command(), "run", str(scenario), "--world", "live", *out, *flags]


def _command() -> list[str]:
    return [sys.executable, "-m", "scenarios"]


def _result(scenario: Path) -> dict[str, Any]:
    result = json.loads((scenario.parent / "run" / "result.json").read_text())
    assert isinstance(result, dict)
    return result


def test_the_same_run_unbroken_passes(tmp_path: Path) -> None:
    scenario = _scenario(tmp_path)
    done = run_judged(_words(scenario))
    assert done.returncode == 0, done.stdout + done.stderr
    result = _result(scenario)
    assert result["verdict"] == "pass"
    assert result["metrics"]["job.bytes_delivered"] == MIB


def test_without_the_shift_in_the_compiled_program_no_byte_arrives(tmp_path: Path) -> None:
    program = json.loads((live.P4_BUILD / "mrc.json").read_text())
    assert _set_usid_shift(program, "0x0") == 2, "NEXT-C-SID at a node and at an adjacency"
    broken = tmp_path / "no_shift.json"
    broken.write_text(json.dumps(program))
    scenario = _scenario(tmp_path, max_duration="4s")
    done = run_judged(_words(scenario, "--program", str(broken)))
    assert done.returncode == 1, done.stdout + done.stderr
    result = _result(scenario)
    assert result["verdict"] == "fail"
    assert result["metrics"]["job.bytes_delivered"] == 0


def test_a_switch_killed_in_the_middle_of_a_run_is_named(tmp_path: Path) -> None:
    scenario = _scenario(tmp_path, mib=32, max_duration="60s")
    mark = uuid.uuid4().hex
    process = subprocess.Popen(
        _words(scenario),
        cwd=ROOT,
        env={**os.environ, live.MARK: mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if "goodput" in line:  # the first line of progress
                break
        (pid,) = [
            pid
            for pid, command in live.processes_marked(mark).items()
            if "--name p1t1n1 " in command
        ]
        os.kill(pid, signal.SIGKILL)
        output, _ = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 1, output
    assert "p1t1n1 died: killed by signal 9" in output


def test_one_byte_flipped_at_the_receiver_fails_the_run(tmp_path: Path) -> None:
    scenario = _scenario(tmp_path)
    done = run_judged(_words(scenario, "--corrupt-byte", "h2:70000"))
    assert done.returncode == 1, done.stdout + done.stderr
    result = _result(scenario)
    assert result["verdict"] == "fail"
    assert result["metrics"]["job.bytes_corrupt"] > 0


def test_an_expectation_that_cannot_be_met_fails_the_run(tmp_path: Path) -> None:
    scenario = _scenario(tmp_path, "goodput >= 1gbit")
    done = run_judged(_words(scenario))
    assert done.returncode == 1, done.stdout + done.stderr
    failed = [e["expr"] for e in _result(scenario)["expectations"] if not e["ok"]]
    assert failed == ["goodput >= 1gbit"]


def _set_usid_shift(program: dict[str, Any], value: str) -> int:
    """Changes the shift of the address by one uSID in every action that has it; how many."""
    changed = 0
    for action in program["actions"]:
        for expression in _expressions(action):
            if expression["op"] == "<<" and int(expression["right"].get("value", "0"), 16) == 16:
                expression["right"]["value"] = value
                changed += 1
    return changed


def _expressions(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, list):
        for item in node:
            yield from _expressions(item)
    elif isinstance(node, dict):
        if "op" in node and isinstance(node.get("right"), dict):
            yield node
        for item in node.values():
            yield from _expressions(item)


# --- tcpdump on three hops


@dataclass(frozen=True)
class Seen:
    """One captured data packet: on which interface, and what it says."""

    interface: str
    outer_dst: bytes
    packet: Packet


class TappedWorld(LiveWorld):
    """A live world on whose interfaces tcpdump listens, started in the nodes by Mininet."""

    taps: Mapping[str, Path]

    def start(self) -> None:
        super().start()
        self.dumps = []
        for interface, path in self.taps.items():
            command = ["tcpdump", "-i", interface, "-Q", "in" if interface in THIRD else "out"]
            command += ["--immediate-mode", "-U", "-B", "8192", "-s", "0", "-w", str(path)]
            node = self.wiring.net[interface.partition("-")[0]]
            self.dumps.append(node.popen(command))
        for dump in self.dumps:
            assert b"listening on" in dump.stderr.readline()

    def close(self) -> None:
        for dump in getattr(self, "dumps", []):
            dump.send_signal(signal.SIGINT)
            dump.communicate(timeout=10)
        self.dumps = []
        super().close()


FIRST = ("h0-eth0", "h0-eth1")
SECOND = ("p0t0n0-eth2", "p0t0n0-eth3", "p1t0n0-eth2", "p1t0n0-eth3")
THIRD = ("h2-eth0", "h2-eth1")


@inside
def test_tcpdump_on_three_hops_sees_mrc() -> None:
    folder = Path(os.environ["MRC_PROOF_FOLDER"])
    loaded = load.load(str(_scenario(folder, mib=2)), [])
    taps = {interface: folder / f"{interface}.pcap" for interface in FIRST + SECOND + THIRD}
    world = TappedWorld(loaded.fabric, live.settings(folder))
    world.taps = taps
    try:
        observed = Runner(loaded, world, 1, lambda _progress: None).run()
    finally:
        world.close()
    hops = [[s for i in names for s in _data(i, taps[i])] for names in (FIRST, SECOND, THIRD)]
    _check_shift(*hops)
    _check_paths(hops[2])
    for seen in hops:
        unique = {s.packet.psn: s.packet for s in seen}.values()
        assert sum(len(p.payload) for p in unique) >= 2 * MIB
        assert {s.packet.udp_dport for s in seen} == {4971}
    assert observed.stopped["h2"]["job"]["bytes_corrupt"] == 0


test_tcpdump_on_three_hops_sees_mrc.__doc__ = "See the module."


@pytest.fixture(autouse=True)
def _proof_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_PROOF_FOLDER", str(tmp_path))


def _data(interface: str, path: Path) -> list[Seen]:
    """The write packets in a capture; the outer destination is read by its place in the frame."""
    found = []
    with RawPcapReader(str(path)) as reader:
        for frame, _meta in reader:
            packet = parse_frame(bytes(frame))
            if packet.payload:
                found.append(Seen(interface, bytes(frame[38:54]), packet))
    return found


def _check_shift(first: list[Seen], second: list[Seen], third: list[Seen]) -> None:
    """At each hop the 96 bits behind the locator have moved left by the uSIDs used up."""
    sent = {_key(s.packet): s.outer_dst for s in first}
    assert len(sent) == len(first) > 0
    for seen, used in ((second, 1), (third, 3)):
        assert len(seen) == len(first), "no packet is missing at a hop, none came twice"
        for s in seen:
            was = sent[_key(s.packet)]
            assert s.outer_dst == was[:4] + was[4 + 2 * used :] + bytes(2 * used)


def _check_paths(seen: list[Seen]) -> None:
    """Every packet keeps to one path; only a retransmission may take another."""
    by_psn: dict[int, set[tuple[int, str]]] = {}
    for s in seen:
        if not s.packet.rtx:
            by_psn.setdefault(s.packet.psn, set()).add((s.packet.ev, s.interface))
    assert all(len(paths) == 1 for paths in by_psn.values())
    assert len({path for paths in by_psn.values() for path in paths}) == 4, "all paths are used"


def _key(packet: Packet) -> tuple[int, int, bool]:
    return packet.psn, packet.ev, packet.rtx
