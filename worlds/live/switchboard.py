"""The switch processes of a fabric: started, programmed, watched, killed and started again."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from switches.api import CounterValue, PortStats, SwitchError, TableEntry, UpdateType
from switches.engine.device import Lateness, Pacing
from switches.entries import SwitchSettings, entries, port_configs
from switches.p4rt.client import P4RuntimeClient
from topologies.model import Fabric, Switch
from worlds.api import NodeDied, WorldError
from worlds.live.back_end import BackEnd, Running
from worlds.live.wiring import Wiring
from worlds.past import Past

Answer = TypeVar("Answer")


class Switchboard:
    """`back_end`: what kind of switch it is.  `socket_folder`: where P4Runtime sockets go.

    Call order: start, program, ..., close.
    """

    def __init__(
        self,
        fabric: Fabric,
        switch_settings: SwitchSettings,
        wiring: Wiring,
        *,
        back_end: BackEnd,
        socket_folder: Path,
    ) -> None:
        self._fabric = fabric
        self._switch_settings = switch_settings
        self._back_end = back_end
        self._running: dict[str, Running] = {}
        self._turns: dict[str, int] = {}
        self._past: dict[str, Past] = {}
        self._clients: dict[str, P4RuntimeClient] = {}
        self._pidfds: dict[int, str] = {}
        back_end.prepare(wiring, socket_folder)

    # --- start and end

    def start(self) -> None:
        """All processes, side by side; they come up while the caller goes on."""
        for switch in self._fabric.switches:
            self._start(switch)

    def program(self) -> None:
        """Pipeline, ports and rows, over P4Runtime where P4 knows of them.

        Raises WorldError, NodeDied.
        """
        self._back_end.serve()
        for switch in self._fabric.switches:
            self._program(switch)

    def close(self) -> None:
        """Idempotent."""
        self._clients.clear()
        self._back_end.close()
        for running in self._running.values():
            running.process.kill()  # all at once: the kernel takes 50 ms to take back the sockets
        for name in list(self._running):
            self._end(name).close()

    def kill(self, name: str) -> None:
        """SIGKILL.  What it counted until then is kept."""
        past = self._past.setdefault(name, Past())
        self._of(name, lambda: self._back_end.bury(name, past))
        self._end(name).kill()

    def restart(self, name: str) -> None:
        """The same command line again, with the same rows; its ports are the caller's to raise."""
        switch = self._fabric.switch(name)
        self._start(switch)
        self._program(switch)

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
        """Of every running switch that tells."""
        found = {
            name: self._of(name, lambda n=name: self._back_end.lateness(n, clear=clear))  # type: ignore[misc]
            for name in self._running
        }
        return {name: late for name, late in found.items() if late is not None}

    def pacing(self) -> list[Pacing]:
        """Of every line of every running switch that tells."""
        return [
            pacing
            for name in self._running
            for pacing in self._of(name, lambda n=name: self._back_end.pacing(n))  # type: ignore[misc]
        ]

    # --- inside

    def _start(self, switch: Switch) -> None:
        name = switch.name
        self._turns[name] = self._turns.get(name, -1) + 1
        running = self._back_end.start(switch, self._turns[name])
        self._running[name] = running
        self._pidfds[os.pidfd_open(running.process.pid)] = name

    def _end(self, name: str) -> Running:
        """Nobody watches it any more."""
        for fd in [fd for fd, watched in self._pidfds.items() if watched == name]:
            os.close(fd)
            del self._pidfds[fd]
        return self._running.pop(name)

    def _program(self, switch: Switch) -> None:
        name = switch.name
        client = self._of(name, lambda: self._back_end.load(switch))
        self._clients[name] = client
        device = self._running[name].device
        for port, config in port_configs(self._fabric, switch, self._switch_settings).items():
            self._of(name, lambda p=port, c=config: device.configure_port(p, c))  # type: ignore[misc]
        rows = entries(self._fabric, switch, self._switch_settings)
        self._of(name, lambda: client.write(UpdateType.INSERT, rows))

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
