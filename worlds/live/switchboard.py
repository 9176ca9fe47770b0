"""The switch processes of a fabric and the one P4Runtime server in front of them.

Ports and counters of the traffic manager go over each process's own control socket; everything P4
knows of goes over P4Runtime, as it would to any other switch.
"""

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from switches.api import CounterValue, PortStats, SwitchError, TableEntry, UpdateType
from switches.engine import process
from switches.engine.device import Lateness, Pacing
from switches.engine.process import RunningSwitch, SwitchProcess
from switches.entries import SwitchSettings, entries, port_configs
from switches.p4rt import rpc
from switches.p4rt.client import P4RuntimeClient
from switches.p4rt.server import P4RuntimeServer, ServedDevice
from topologies.model import Fabric, Switch
from worlds import rng
from worlds.api import NodeDied, WorldError, WorldSettings
from worlds.live.wiring import Wiring
from worlds.past import Past

Answer = TypeVar("Answer")


class Switchboard:
    """`executable`: of the compiled program.  `socket_folder`: where the P4Runtime socket goes.

    Call order: start, program, ..., close.
    """

    def __init__(
        self,
        fabric: Fabric,
        settings: WorldSettings,
        switch_settings: SwitchSettings,
        wiring: Wiring,
        *,
        executable: Path,
        socket_folder: Path,
    ) -> None:
        self._fabric = fabric
        self._settings = settings
        self._switch_settings = switch_settings
        self._wiring = wiring
        self._socket_folder = socket_folder
        self._executable = executable
        self._program = settings.program_json.read_bytes()
        self._p4info = settings.p4info.read_text()
        self._running: dict[str, RunningSwitch] = {}
        self._turns: dict[str, int] = {}
        self._past: dict[str, Past] = {}
        self._clients: dict[str, P4RuntimeClient] = {}
        self._pidfds: dict[int, str] = {}
        self._server: P4RuntimeServer | None = None

    # --- start and end

    def start(self) -> None:
        """All processes, side by side; they come up while the caller goes on."""
        for switch in self._fabric.switches:
            self._start(switch)

    def program(self) -> None:
        """Ports, then pipeline and rows over P4Runtime.  Raises WorldError, NodeDied."""
        for switch in self._fabric.switches:
            self._configure_ports(switch)
        address = f"unix:{self._socket_folder}/p4runtime.sock"
        self._server = P4RuntimeServer(
            address,
            {
                number: ServedDevice(self._p4info, self._program, self._running[switch.name].device)
                for number, switch in enumerate(self._fabric.switches, 1)
            },
        )
        self._server.start()
        self._channel = rpc.open_channel(address)
        for number, switch in enumerate(self._fabric.switches, 1):
            client = P4RuntimeClient(address, number, time.time_ns(), channel=self._channel)
            self._clients[switch.name] = client
            self._of(switch.name, client.connect)
            self._write_tables(switch)

    def close(self) -> None:
        """Idempotent."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()
        if self._server is not None:
            self._channel.close()
            self._server.close()
            self._server = None
        for running in self._running.values():
            running.process.kill()  # all at once: the kernel takes 50 ms to take back the sockets
        for name in list(self._running):
            self._end(name).close()

    def kill(self, name: str) -> None:
        """SIGKILL.  What it counted until then is kept."""
        past = self._past.setdefault(name, Past())
        self._of(name, lambda: past.bury(self._running[name]))
        self._end(name).kill()

    def restart(self, name: str) -> None:
        """The same command line again, with the same rows; its ports are the caller's to raise."""
        assert self._server is not None
        switch = self._fabric.switch(name)
        self._start(switch)
        self._configure_ports(switch)
        number = self._fabric.switches.index(switch) + 1
        self._server.replace_switch(number, self._running[name].device)
        self._write_tables(switch)

    # --- while it runs

    def is_running(self, name: str) -> bool:
        return name in self._running

    def pidfds(self) -> dict[int, str]:
        """By descriptor, which becomes readable when that process ends: the switch's name."""
        return self._pidfds

    def died(self, name: str) -> NodeDied:
        """What to say of a switch whose process has ended."""
        running = self._running[name]
        return NodeDied(name, running.died() or "its process is gone")

    def write(self, name: str, kind: UpdateType, rows: Iterable[TableEntry]) -> None:
        client = self._client(name)
        self._of(name, lambda: client.write(kind, rows))

    def read_counter(self, name: str, counter: str) -> list[CounterValue]:
        """Since the start of the world, whatever died in between."""
        past = self._past.get(name)
        cells: list[CounterValue] = []
        if name in self._running:
            client = self._client(name)
            cells = self._of(name, lambda: client.read_counter(counter))
        return cells if past is None else past.with_counter(counter, cells)

    def port_stats(self, name: str) -> list[PortStats]:
        """Since the start of the world, whatever died in between."""
        past = self._past.get(name)
        ports: list[PortStats] = []
        if name in self._running:
            ports = self._of(name, self._running[name].device.port_stats)
        return ports if past is None else past.with_ports(ports)

    def buried_frames(self, name: str) -> int:
        """How many frames were inside when the power went, all deaths together."""
        past = self._past.get(name)
        return 0 if past is None else past.frames

    def lateness(self, *, clear: bool = False) -> dict[str, Lateness]:
        return {
            name: self._of(name, lambda r=running: r.device.lateness(clear=clear))  # type: ignore[misc]
            for name, running in self._running.items()
        }

    def pacing(self) -> list[Pacing]:
        """Of every line of every running switch."""
        return [
            pacing
            for name, running in self._running.items()
            for pacing in self._of(name, running.device.pacing)
        ]

    # --- inside

    def _start(self, switch: Switch) -> None:
        name = switch.name
        turn = self._turns[name] = self._turns.get(name, -1) + 1
        spec = SwitchProcess(
            executable=self._executable,
            name=name,
            seed=rng.stream_seed(self._settings.seed, f"switch/{name}/{turn}"),
            ports={port: end.name for port, end in self._wiring.interfaces(name).items()},
        )
        run_dir = self._settings.run_dir
        log = open(run_dir / "logs" / f"{name}.log", "ab") if run_dir else None  # noqa: SIM115
        with self._wiring.namespace(name).entered():
            running = process.start(spec, stderr=log)
        if log is not None:
            log.close()
        self._running[name] = running
        self._pidfds[os.pidfd_open(running.process.pid)] = name

    def _end(self, name: str) -> RunningSwitch:
        """Nobody watches it any more."""
        for fd in [fd for fd, watched in self._pidfds.items() if watched == name]:
            os.close(fd)
            del self._pidfds[fd]
        return self._running.pop(name)

    def _configure_ports(self, switch: Switch) -> None:
        device = self._running[switch.name].device
        for port, config in port_configs(self._fabric, switch, self._switch_settings).items():
            self._of(switch.name, lambda p=port, c=config: device.configure_port(p, c))  # type: ignore[misc]

    def _write_tables(self, switch: Switch) -> None:
        client = self._clients[switch.name]
        rows = entries(self._fabric, switch, self._switch_settings)
        self._of(switch.name, lambda: client.set_pipeline(self._p4info, self._program))
        self._of(switch.name, lambda: client.write(UpdateType.INSERT, rows))

    def _client(self, name: str) -> P4RuntimeClient:
        if name not in self._running:
            raise WorldError(f"{name} is not running")
        return self._clients[name]

    def _of(self, name: str, what: Callable[[], Answer]) -> Answer:
        """Whose fault it is when a switch does not do what it is told."""
        try:
            return what()
        except SwitchError as error:
            running = self._running.get(name)
            if running is not None and running.died() is not None:
                raise self.died(name) from error
            raise WorldError(f"{name}: {error}") from error
