"""The virtual world: the hosts and compiled switches of a fabric on one event heap.

Satisfies worlds.api.World.  Same fabric, settings and messages: the same events, bit by bit.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from hosts.errors import UsageError
from hosts.host import Host
from switches.api import CounterValue, PortStats, TableEntry, UpdateType, write_all
from switches.engine.build import build
from switches.engine.library import EngineSwitch
from switches.engine.network import NetworkSwitch
from switches.entries import entries, port_configs
from topologies import addressing
from topologies.model import Fabric, PortRef, Switch
from worlds import rng
from worlds.api import WorldError, WorldSettings
from worlds.past import Past
from worlds.switch_settings import switch_settings
from worlds.virtual.capture import Capture
from worlds.virtual.fabric_loop import FabricLoop
from worlds.virtual.link import PERFECT, Impairment
from worlds.virtual.loop import VirtualLoop


class Silent:
    """A node without power: takes what comes and does nothing, ever."""

    def __init__(self) -> None:
        self.frames = 0

    def receive_frame(self, port: int, frame: bytes, now_ns: int) -> None:
        self.frames += 1

    def handle_timeout(self, now_ns: int) -> None: ...

    def poll_transmit(self, now_ns: int) -> tuple[int, bytes] | None:
        return None

    def next_timeout(self) -> int | None:
        return None

    def port_changed(self, port: int, up: bool, now_ns: int) -> None: ...


AnySwitch = EngineSwitch | NetworkSwitch


class VirtualWorld:
    """Node order, which decides among simultaneous events: hosts, then switches."""

    name = "virtual"

    def __init__(self, fabric: Fabric, settings: WorldSettings, *, compiled: bool = True) -> None:
        """compiled: run switches on the compiled event loop; else every event in Python."""
        self.fabric = fabric
        self.settings = settings
        self._switch_settings = switch_settings(settings.switch)
        self._compiled = compiled
        self._loop: VirtualLoop
        self._index: dict[str, int] = {}
        self._hosts: dict[str, Host] = {}
        self._switches: dict[str, AnySwitch] = {}
        self._incarnation: dict[str, int] = {}
        self._past: dict[str, Past] = {}
        self._admin_down: set[PortRef] = set()
        self._capture: Capture | None = None

    # -- worlds.api.World ----------------------------------------------------------------------

    def start(self) -> None:
        self._library = build(self.settings.program_json).library
        streams = partial(rng.stream, self.settings.seed)
        if self._compiled:
            self._loop = FabricLoop(streams, self._library, len(self.fabric.switches))
        else:
            self._loop = VirtualLoop(streams)
        for host in self.fabric.hosts:
            self._index[host.name] = self._loop.add_node(host.name, Silent())
        for switch in self.fabric.switches:
            node = self._new_switch(switch)
            self._index[switch.name] = self._loop.add_node(switch.name, node)
        for link in self.fabric.links:
            a, b = link.lower, link.upper
            self._loop.connect(self._index[a.node], a.port, self._index[b.node], b.port)
        if self.settings.pcap_ports:
            self._capture = Capture(self.fabric, self._loop, self._index, self.settings)

    def now_ns(self) -> int:
        return self._loop.now_ns

    def run_until(self, t_ns: int) -> None:
        self._loop.run_until(t_ns)

    def control(self, host: str, message: Mapping[str, Any]) -> dict[str, Any]:
        """`configure` makes the host anew, as its process would; the rest is the host's."""
        index = self._host_index(host)
        try:
            if message.get("op") == "configure":
                self._configure(host, message["config"])
                return {}
            if host not in self._hosts:
                return self._hello(host, message)
            answer = self._hosts[host].control(message, self.now_ns())
        except UsageError as error:
            raise WorldError(f"{host}: {error}") from error
        self._loop.wake(index)
        return answer

    def set_link(self, end: PortRef, up: bool) -> None:
        self.fabric.peer(end)
        if up:
            self._admin_down.discard(end)
        else:
            self._admin_down.add(end)
        self._settle_link(end)

    def write_switch(self, switch: str, kind: UpdateType, entries: Iterable[TableEntry]) -> None:
        write_all(self._live(switch).device, kind, entries)
        self._loop.wake(self._index[switch])

    def read_counter(self, switch: str, name: str) -> list[CounterValue]:
        """Since the start of the world: what ended incarnations of the switch counted is in it."""
        past = self._past.get(switch)
        cells = self._switches[switch].device.read_counter(name) if self._alive(switch) else []
        return cells if past is None else past.with_counter(name, cells)

    def port_stats(self, switch: str) -> list[PortStats]:
        """Since the start of the world, as read_counter."""
        past = self._past.get(switch)
        ports = self._switches[switch].device.port_stats() if self._alive(switch) else []
        return ports if past is None else past.with_ports(ports)

    def kill_switch(self, switch: str) -> None:
        """What it held is lost, and `interface_losses` says how many frames that was."""
        node = self._live(switch)
        past = self._past.setdefault(switch, Past())
        past.bury(node, node.held)
        del self._switches[switch]
        self._loop.nodes[self._index[switch]] = Silent()
        for end in self._ends(switch):
            self._settle_link(end)
        node.close()

    def restart_switch(self, switch: str) -> None:
        if self._alive(switch):
            raise WorldError(f"{switch} is running: kill it first")
        node = self._new_switch(self.fabric.switch(switch))
        for end in self._ends(switch):
            node.port_changed(end.port, False, self.now_ns())
        self._loop.nodes[self._index[switch]] = node
        for end in self._ends(switch):
            self._settle_link(end)

    def interface_losses(self) -> dict[str, int]:
        """`link_down:NAME`: sent into a dead wire; `power_cut:NAME`: inside a switch that died."""
        losses = {}
        for (index, port), link in self._loop.links.items():
            if link.lost_down:
                name = addressing.interface_name(self._loop.names[index], port)
                losses[f"link_down:{name}"] = link.lost_down
        for switch, past in self._past.items():
            if past.frames:
                losses[f"power_cut:{switch}"] = past.frames
        return losses

    def lateness(self) -> dict[str, Any]:
        """Virtual time is never late."""
        return {
            "timer_p999_ns": 0,
            "send_p999_ns": 0,
            "timers": 0,
            "sends": 0,
            "slots_lost": 0.0,
        }

    def close(self) -> None:
        if self._capture is not None:
            self._capture.close()
            self._capture = None
        for node in self._switches.values():
            node.close()
        self._switches.clear()
        if hasattr(self, "_loop"):
            self._loop.close()

    # -- what this world can do besides --------------------------------------------------------

    def set_corruption(self, end: PortRef, probability: float) -> None:
        """Flip one bit in that share of the frames sent from that end."""
        now = self._loop.links[self._index[end.node], end.port].impairment
        self.impair(end, replace(now, corrupt=probability) if probability else PERFECT)

    def set_denied(self, host: str, ev: int, denied: bool) -> None:
        """The controller's word on an EV, in all QPs of that host that have it."""
        self.control(host, {"op": "deny", "ev": ev, "denied": denied})

    # -- for tests and tools -------------------------------------------------------------------

    @property
    def events(self) -> int:
        """Events handled since the start: frames and timers."""
        return self._loop.event_count

    @property
    def loop(self) -> VirtualLoop:
        return self._loop

    def host(self, name: str) -> Host:
        return self._hosts[name]

    def impair(self, end: PortRef, how: Impairment) -> None:
        """Let frames sent from that end of a link suffer so."""
        self._loop.impair(self._index[end.node], end.port, how)

    # -- inside ----------------------------------------------------------------------------------

    def _host_index(self, name: str) -> int:
        if name not in self._index or not self.fabric.is_host(name):
            raise WorldError(f"no host {name!r}")
        return self._index[name]

    def _configure(self, name: str, config: Mapping[str, Any]) -> None:
        host = self._new_host(config, rng.stream(self.settings.seed, f"host/{name}"))
        index = self._index[name]
        self._hosts[name] = host
        self._loop.nodes[index] = host
        for plane in range(self.fabric.spec.planes):
            if not self._loop.links[index, plane].up:
                host.port_changed(plane, False, self.now_ns())

    def _new_host(self, config: Mapping[str, Any], stream: Random) -> Host:
        return Host(config, stream)

    def _hello(self, name: str, message: Mapping[str, Any]) -> dict[str, Any]:
        if message.get("op") != "hello":
            raise UsageError(f"{message.get('op')} before configure")
        gid = addressing.gid(self.fabric.host(name)).hex()
        return {"host": name, "ports": self.fabric.spec.planes, "gid": gid}

    def _new_switch(self, switch: Switch) -> AnySwitch:
        name = switch.name
        turn = self._incarnation[name] = self._incarnation.get(name, -1) + 1
        seed = rng.stream_seed(self.settings.seed, f"switch/{name}/{turn}")
        ports = self.fabric.port_count(switch)
        node: AnySwitch
        if isinstance(self._loop, FabricLoop):
            place = self.fabric.switches.index(switch)
            node = NetworkSwitch(self._loop.network, place, name, ports, seed)
        else:
            node = EngineSwitch(self._library, name, ports, seed)
        for port, config in port_configs(self.fabric, switch, self._switch_settings).items():
            node.device.configure_port(port, config)
        write_all(
            node.device, UpdateType.INSERT, entries(self.fabric, switch, self._switch_settings)
        )
        self._switches[name] = node
        return node

    def _alive(self, switch: str) -> bool:
        return switch in self._switches

    def _live(self, switch: str) -> AnySwitch:
        if switch not in self._switches:
            raise WorldError(f"{switch} is not running")
        return self._switches[switch]

    def _ends(self, node: str) -> list[PortRef]:
        count = self.fabric.port_count(self.fabric.switch(node))
        return [PortRef(node, port) for port in range(count)]

    def _settle_link(self, end: PortRef) -> None:
        """A wire carries if nobody took it down and both its ends have power."""
        peer = self.fabric.peer(end)
        up = not {end, peer} & self._admin_down
        for node in (end.node, peer.node):
            up = up and (self.fabric.is_host(node) or self._alive(node))
        self._loop.set_link(self._index[end.node], end.port, up)
