"""Mininet's prompt for a run in progress, from another terminal.

A live world leaves a note in its run folder while it runs; `attach` reads it, goes into the private
namespace and builds Mininet's view of the same nodes.
"""

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from topologies.builders import clos
from topologies.model import FabricSpec
from worlds.api import WorldUnavailable
from worlds.live import private_namespace
from worlds.live.wiring import Wiring

NOTE = "live.json"


def announce(run_dir: Path | None, wiring: Wiring) -> None:
    """The namespaces are found by the descriptors of this process, as numbered inside."""
    if run_dir is None or not private_namespace.is_inside():
        return
    runner = os.getpid()
    note = {
        "init": private_namespace.init_pid(),
        "fabric": asdict(wiring.fabric.spec),
        "namespaces": {
            node: f"/proc/{runner}/fd/{wiring.namespace(node).fd}" for node in wiring.nodes
        },
    }
    (run_dir / NOTE).write_text(json.dumps(note), encoding="utf-8")


def withdraw(run_dir: Path | None) -> None:
    if run_dir is not None:
        (run_dir / NOTE).unlink(missing_ok=True)


def attach(run_dir: Path, use: Callable[[Wiring], None] = Wiring.prompt) -> int:
    """The prompt, until the user leaves it; the exit code.

    Raises WorldUnavailable if no live run is in progress in that folder, or not for this user.
    """
    try:
        note = json.loads((run_dir / NOTE).read_text(encoding="utf-8"))
        private_namespace.enter(note["init"])
    except FileNotFoundError as error:
        raise WorldUnavailable(f"no live run is in progress in {run_dir}") from error
    except OSError as error:
        raise WorldUnavailable(
            f"the run in {run_dir} cannot be entered ({error.strerror}): become the user who "
            "started it"
        ) from error
    child = os.fork()  # the first process that is in the PID namespace
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = private_namespace.INTERNAL_ERROR
    try:
        wiring = Wiring.attach(clos(FabricSpec(**note["fabric"])), note["namespaces"])
        use(wiring)
        wiring.close()
        code = 0
    finally:
        os._exit(code)
