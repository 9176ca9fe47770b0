"""BMv2 in the live world: one simple_switch_grpc a switch, each with a P4Runtime of its own."""

import os
import time
from pathlib import Path

from switches import entries
from switches.bmv2 import program
from switches.bmv2.process import Bmv2Process, Bmv2Settings
from switches.engine.device import Pacing
from switches.p4rt.client import P4RuntimeClient
from topologies.model import Fabric, Switch
from topologies.routing import Routing
from topologies.thresholds import data_frame_bytes
from worlds.api import WorldSettings, WorldUnavailable
from worlds.live.back_end import log_path
from worlds.live.wiring import Wiring
from worlds.past import Past
from worlds.switch_settings import switch_settings

COUNTERS = (
    entries.RECEIVED_COUNTER,
    entries.SENT_COUNTER,
    entries.DROPS_COUNTER,
    entries.TRIM_COUNTER,
    entries.TRIM_SENT_COUNTER,
    entries.ECN_MARKED_COUNTER,
)

LAST_WORDS_S = 0.1
"""For what a switch has received to go through ingress, once its ports are down."""


class Bmv2BackEnd:
    """Satisfies worlds.live.back_end.BackEnd.  It tells nothing of its lateness."""

    def __init__(self, fabric: Fabric, settings: WorldSettings) -> None:
        """Raises WorldUnavailable: BMv2 is missing, or the fabric has a delay."""
        try:
            program.find()
        except program.Bmv2Missing as error:
            raise WorldUnavailable(str(error)) from error
        if fabric.spec.delay_ns:
            raise WorldUnavailable("BMv2 has no delay: give the topology `delay: 0us`")
        routing = Routing(switch_settings(settings.switch).routing)
        self._fabric = fabric
        self._settings = settings
        self._frame_bytes = data_frame_bytes(fabric.spec, routing)
        self._program = settings.program_json.read_bytes()
        self._p4info = settings.p4info.read_text()
        self._running: dict[str, Bmv2Process] = {}
        self._rebooted: set[str] = set()

    def prepare(self, wiring: Wiring, socket_folder: Path) -> None:
        self._wiring = wiring
        self._socket_folder = socket_folder

    def start(self, switch: Switch, turn: int) -> Bmv2Process:
        """BMv2 stays deaf at an interface that was down when it opened it: after a reboot they are
        up until `load`, and what comes in by then is lost in the power cut."""
        name = switch.name
        if turn:
            self._set_up(name, up=True)
        running = Bmv2Process(
            Bmv2Settings(
                name=name,
                device_id=self._fabric.switches.index(switch) + 1,
                interfaces={p: end.name for p, end in self._wiring.interfaces(name).items()},
                socket_folder=self._socket_folder,
                log=log_path(self._settings, name) or Path(os.devnull),
                inside=self._wiring.namespace(name).entered,
                data_frame_bytes=self._frame_bytes,
                election_id=time.time_ns(),
            )
        )
        self._running[name] = running
        return running

    def serve(self) -> None:
        """Each serves itself."""

    def load(self, switch: Switch) -> P4RuntimeClient:
        running = self._running[switch.name]
        running.load(self._p4info, self._program)
        if switch.name in self._rebooted:
            self._set_up(switch.name, up=False)
            time.sleep(LAST_WORDS_S)
        return running.client

    def bury(self, name: str, past: Past) -> None:
        """All that came in and neither left nor was dropped by the program was inside."""
        time.sleep(LAST_WORDS_S)
        device = self._running[name].device
        counters = {counter: device.read_counter(counter) for counter in COUNTERS}
        ports = device.port_stats()
        dropped = sum(cell.packets for cell in counters[entries.DROPS_COUNTER])
        left = sum(port.tx_packets + port.link_down for port in ports)
        inside = sum(port.rx_packets for port in ports) - left - dropped
        past.take_over(ports, counters, max(inside, 0))
        self._rebooted.add(name)

    def lateness(self, name: str, *, clear: bool) -> None:
        return None

    def pacing(self, name: str) -> list[Pacing]:
        return []

    def close(self) -> None:
        """Connections end with the processes."""

    def _set_up(self, name: str, up: bool) -> None:
        self._wiring.set_up(name, list(self._wiring.interfaces(name)), up)
