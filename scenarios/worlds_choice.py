"""Which world a run gets on this machine, found by trying (design section 12)."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn

from topologies.model import Fabric
from topologies.strict_yaml import InputError
from worlds.api import World, WorldSettings, WorldUnavailable

WorldName = Literal["live", "virtual"]

SUDO_MARK = "MRC_TESTBED_THROUGH_SUDO"
"""Set for the process sudo starts, so that it never asks twice."""

LIVE_COMMANDS = {
    "mnexec": "mininet",
    "ifconfig": "net-tools",
    "ip": "iproute2",
    "ethtool": "ethtool",
}
"""What the live world calls, and the Debian package of each."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A world and why it is that one."""

    world: WorldName
    reason: str


def choose(wanted: str | None, switch: str) -> Choice:
    """`wanted`: what --world said.  Raises InputError if that cannot be had, in one sentence."""
    if switch == "bmv2":
        _need_bmv2(wanted)
        wanted = "live"
    if wanted == "virtual":
        return Choice("virtual", "asked for")
    why_not = _why_not_live()
    if why_not is None:
        how = "root" if os.geteuid() == 0 else "user namespaces"
        return Choice("live", how)
    if wanted == "live":
        raise InputError(f"the live world cannot run here: {why_not}")
    return Choice("virtual", f"the live world cannot run here: {why_not}")


def enter(choice: Choice, main: Callable[[], int]) -> int:
    """Run `main` where that world may be built; its exit code.  Call before any thread exists."""
    if choice.world == "virtual":
        return main()
    from worlds.live import private_namespace

    return private_namespace.run(main)


def make(choice: Choice, fabric: Fabric, settings: WorldSettings) -> World:
    """Raises WorldUnavailable."""
    if choice.world == "live":
        from worlds.live.world import LiveWorld

        return LiveWorld(fabric, settings)
    from worlds.virtual.world import VirtualWorld

    return VirtualWorld(fabric, settings)


def shell(folder: Path) -> int:
    """The prompt of the live run in progress in that folder.  Raises InputError."""
    from worlds.live import shell as live_shell

    try:
        return live_shell.attach(folder)
    except WorldUnavailable as error:
        raise InputError(str(error)) from error


def through_sudo(wanted: str | None) -> bool:
    """Whether the live world would work if this command were repeated under sudo."""
    if wanted == "virtual" or os.geteuid() == 0 or os.environ.get(SUDO_MARK):
        return False
    if shutil.which("sudo") is None or _why_not_live() is None:
        return False
    quiet = subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False)
    return quiet.returncode == 0 or (sys.stdin.isatty() and sys.stderr.isatty())


def repeat_under_sudo(arguments: list[str]) -> NoReturn:
    """Becomes `sudo python -m scenarios ...`; files are handed back at the end of the run."""
    sys.stdout.flush()
    no_bytecode = "PYTHONDONTWRITEBYTECODE=1"  # it would be root's, in the user's checkout
    variables = (f"{SUDO_MARK}=1", no_bytecode)
    command = ["sudo", *variables, sys.executable, "-m", "scenarios", *arguments]
    os.execvp(command[0], command)


def _why_not_live() -> str | None:
    from worlds.live import private_namespace

    for command, package in LIVE_COMMANDS.items():
        if shutil.which(command) is None:
            return f"{command} is missing (Debian's package `{package}` has it)"
    return private_namespace.why_not()


def _need_bmv2(wanted: str | None) -> None:
    from switches.bmv2 import program

    if wanted == "virtual":
        raise InputError("--switch bmv2 runs in the live world only: leave out --world virtual")
    try:
        program.find()
    except program.Bmv2Missing as error:
        raise InputError(str(error)) from None
