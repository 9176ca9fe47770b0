"""What the live world asks of a kind of switch: started, programmed, counted, ended.

Two kinds: the embedded engine (here) and BMv2 (`worlds.live.bmv2`).
"""

import subprocess
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, Protocol

from switches.api import Switch as Device
from switches.api import SwitchError, SwitchErrorCode
from switches.engine import process
from switches.engine.build import BuildError, build
from switches.engine.device import Lateness, Pacing
from switches.engine.process import RunningSwitch, SwitchProcess
from switches.p4rt import rpc
from switches.p4rt.client import P4RuntimeClient
from switches.p4rt.p4info import text_model
from switches.p4rt.server import P4RuntimeServer, ServedDevice
from topologies.model import Fabric, Switch
from worlds import rng
from worlds.api import WorldSettings, WorldUnavailable
from worlds.live.wiring import Wiring
from worlds.past import Past

CONNECT_TRIES = 3


class Running(Protocol):
    """One process of a switch.  `kill` and `close` end it at once and gently, and wait."""

    process: subprocess.Popen[bytes]

    @property
    def device(self) -> Device: ...

    def died(self) -> str | None: ...

    def kill(self) -> None: ...

    def close(self) -> None: ...


class BackEnd(Protocol):
    """Call order: prepare; start for every switch; serve; load for each; ...; close.

    A switch that was killed is started and loaded again.  Raises SwitchError where a switch does
    not do what it is told.
    """

    def prepare(self, wiring: Wiring, socket_folder: Path) -> None:
        """`socket_folder`: where P4Runtime sockets go."""

    def start(self, switch: Switch, turn: int) -> Running:
        """Its process, which comes up while the caller goes on; `turn`: how often it died."""

    def serve(self) -> None:
        """All processes have been started."""

    def load(self, switch: Switch) -> P4RuntimeClient:
        """A client that is primary, of a switch that has the program and no rows."""

    def bury(self, name: str, past: Past) -> None:
        """Give over what a switch counted and held that is about to be killed."""

    def lateness(self, name: str, *, clear: bool) -> Lateness | None:
        """None where the switch does not tell."""

    def pacing(self, name: str) -> list[Pacing]: ...

    def close(self) -> None:
        """Idempotent; the processes are the caller's to end, afterwards."""


class EngineBackEnd:
    """One process a switch, and one P4Runtime server in front of them all.

    Ports and counters of the traffic manager go over each process's own control socket; everything
    P4 knows of goes over P4Runtime, as it would to any other switch.
    """

    def __init__(self, fabric: Fabric, settings: WorldSettings) -> None:
        """Builds the program and reads its p4info, before anything is wired.

        Raises WorldUnavailable.
        """
        self._fabric = fabric
        self._settings = settings
        self._program = settings.program_json.read_bytes()
        self._p4info = settings.p4info.read_text()
        try:
            self._executable = build(settings.program_json).executable
            text_model(self._p4info)  # and stays read
        except (BuildError, SwitchError) as error:
            raise WorldUnavailable(str(error)) from error
        self._running: dict[str, RunningSwitch] = {}
        self._clients: dict[str, P4RuntimeClient] = {}
        self._server: P4RuntimeServer | None = None

    def prepare(self, wiring: Wiring, socket_folder: Path) -> None:
        self._wiring = wiring
        self._address = f"unix:{socket_folder}/p4runtime.sock"

    def start(self, switch: Switch, turn: int) -> RunningSwitch:
        name = switch.name
        spec = SwitchProcess(
            executable=self._executable,
            name=name,
            seed=rng.stream_seed(self._settings.seed, f"switch/{name}/{turn}"),
            ports={port: end.name for port, end in self._wiring.interfaces(name).items()},
        )
        with self._wiring.namespace(name).entered(), _log(self._settings, name) as log:
            running = process.start(spec, stderr=log)
        self._running[name] = running
        return running

    def serve(self) -> None:
        devices = {
            number: ServedDevice(self._p4info, self._program, self._running[switch.name].device)
            for number, switch in enumerate(self._fabric.switches, 1)
        }
        self._server = P4RuntimeServer(self._address, devices)
        self._server.start()
        self._channel = rpc.open_channel(self._address)

    def load(self, switch: Switch) -> P4RuntimeClient:
        assert self._server is not None, "serve comes first"
        number = self._fabric.switches.index(switch) + 1
        client = self._clients.get(switch.name)
        if client is None:
            client = self._clients[switch.name] = self._connect(number)
        else:
            self._server.replace_switch(number, self._running[switch.name].device)
        client.set_pipeline(self._p4info, self._program)
        return client

    def _connect(self, number: int) -> P4RuntimeClient:
        """Again where the first call is not answered: seen once in a hundred starts at load 13."""
        tries_left = CONNECT_TRIES
        while True:
            client = P4RuntimeClient(self._address, number, time.time_ns(), channel=self._channel)
            tries_left -= 1
            try:
                client.connect(wait_for_server=not self._clients)
                return client
            except SwitchError as error:
                client.close()
                if error.code is not SwitchErrorCode.UNAVAILABLE or not tries_left:
                    raise

    def bury(self, name: str, past: Past) -> None:
        past.bury(self._running[name])

    def lateness(self, name: str, *, clear: bool) -> Lateness:
        return self._running[name].device.lateness(clear=clear)

    def pacing(self, name: str) -> list[Pacing]:
        return self._running[name].device.pacing()

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()
        if self._server is not None:
            self._channel.close()
            self._server.close()
            self._server = None


def log_path(settings: WorldSettings, name: str) -> Path | None:
    """Where a switch's own words go; None: nowhere."""
    return None if settings.run_dir is None else settings.run_dir / "logs" / f"{name}.log"


def _log(settings: WorldSettings, name: str) -> AbstractContextManager[IO[bytes] | None]:
    path = log_path(settings, name)
    return nullcontext() if path is None else path.open("ab")
