"""What tests of the live world share: small fabrics, and a look at what is there from outside."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from topologies.builders import clos
from topologies.model import Fabric, FabricSpec
from worlds.api import WorldSettings

ROOT = Path(__file__).resolve().parents[2]
P4_BUILD = ROOT / "p4" / "build"
MARK = "MRC_TEST_MARK"
"""An environment variable by which a test knows the processes it is to blame for."""


def tiny() -> Fabric:
    return clos(FabricSpec(planes=2, t0=2, t1=2, hosts_per_t0=2))


def lab() -> Fabric:
    return clos(FabricSpec(planes=4, t0=2, t1=4, hosts_per_t0=4))


def settings(run_dir: Path | None = None) -> WorldSettings:
    return WorldSettings(
        seed=1,
        program_json=P4_BUILD / "mrc.json",
        p4info=P4_BUILD / "mrc.p4info.txtpb",
        run_dir=run_dir,
    )


def processes_marked(mark: str) -> dict[int, str]:
    """Pid and command of every process that has MARK=mark in its environment."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            environment = (folder / "environ").read_bytes()
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if f"{MARK}={mark}".encode() in environment.split(b"\0"):
            found[int(folder.name)] = command.replace(b"\0", b" ").decode(errors="replace")
    return found


def network_namespaces(pids: list[int]) -> set[int]:
    """Inodes of the network namespaces those processes are in."""
    inodes = set()
    for pid in pids:
        try:
            inodes.add(os.stat(f"/proc/{pid}/ns/net").st_ino)
        except OSError:
            continue
    return inodes


def all_network_namespaces() -> set[int]:
    return network_namespaces([int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()])


def wait_until(true: Callable[[], bool], limit_s: float) -> bool:
    """Whether it came true in time."""
    deadline = time.monotonic() + limit_s
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
