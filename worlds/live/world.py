"""The live world: real interfaces, one process a node, the machine's own clock.

Satisfies worlds.api.World.  Meant to be built inside `private_namespace.run`, which is what makes
sure that nothing outlives the runner; nothing here needs it otherwise.
"""

import os
import select
import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from switches.api import CounterValue, PortStats, TableEntry, UpdateType
from switches.entries import SwitchSettings
from topologies import addressing
from topologies.model import Fabric, PortRef
from worlds.api import NodeDied, WorldError, WorldSettings
from worlds.live import libc, losses, private_namespace, shell
from worlds.live.back_end import BackEnd, EngineBackEnd
from worlds.live.bmv2 import Bmv2BackEnd
from worlds.live.capture import Capture
from worlds.live.lateness import quantile_of_all
from worlds.live.losses import Counted, Wire
from worlds.live.nics import Nics
from worlds.live.switchboard import Switchboard
from worlds.live.wiring import Wiring
from worlds.switch_settings import switch_settings

LOOK_EVERY_NS = 500_000_000
"""A node that died is noticed at once; this bounds how late, whatever the kernel says."""

SETTLE_TIMES = 5
SETTLE_S = 0.02

BUSY_NS_MIN = 100_000_000
"""A line in use for less than this says nothing about the slots it lost."""


class LiveWorld:
    """The constructor starts the import of the host processes; `start` builds everything."""

    name = "live"

    def __init__(self, fabric: Fabric, settings: WorldSettings) -> None:
        self.fabric = fabric
        self.settings = settings
        self._switch_settings: SwitchSettings = switch_settings(settings.switch)
        self._epoch_ns = 0
        self._admin_down: set[PortRef] = set()
        self._ever_down: set[PortRef] = set()
        self._stuck: dict[str, int] = {}
        self._wiring: Wiring | None = None
        self._switches: Switchboard | None = None
        self._logs = None if settings.run_dir is None else settings.run_dir / "logs"
        if self._logs is not None:
            self._logs.mkdir(parents=True, exist_ok=True)
        self._socket_folder: _SocketFolder | None = None
        kind = EngineBackEnd if settings.back_end == "engine" else Bmv2BackEnd
        self._back_end: BackEnd = kind(fabric, settings)
        libc.ask_for_short_slices()  # for every process that is started from here on
        self._nics = Nics(self._logs)
        self._imported = False
        self._capture: Capture | None = None

    # -- worlds.api.World ----------------------------------------------------------------------

    def start(self) -> None:
        """Raises WorldUnavailable, WorldError, NodeDied; what was built is `close`'s to end."""
        fabric = self.fabric
        self.wait_for_imports()
        self._wiring = wiring = Wiring(fabric)
        self._socket_folder = _SocketFolder(self.settings.run_dir)
        self._switches = Switchboard(
            fabric,
            self._switch_settings,
            wiring,
            back_end=self._back_end,
            socket_folder=self._socket_folder.path,
        )
        self._switches.start()
        self._nics.spawn(
            (
                host.name,
                [(end.name, end.index) for end in wiring.interfaces(host.name).values()],
                wiring.namespace(host.name).fd,
            )
            for host in fabric.hosts
        )
        self._switches.program()
        self._nics.wait_until_ready()
        self._switches.lateness(clear=True)
        self._epoch_ns = time.monotonic_ns()
        shell.announce(self.settings.run_dir, wiring)
        if self.settings.pcap_ports:
            self._capture = self._start_capture(wiring)
        names = [host.name for host in fabric.hosts]
        self._nics.ask_all(names, {"op": "epoch", "epoch_ns": self._epoch_ns})

    def now_ns(self) -> int:
        return time.monotonic_ns() - self._epoch_ns

    def run_until(self, t_ns: int) -> None:
        hosts, switches = self._nics.pidfds(), self._board.pidfds()
        watch = select.poll()
        for fd in (*hosts, *switches):
            watch.register(fd, select.POLLIN)
        while True:
            left_ns = max(t_ns - self.now_ns(), 0)
            for fd, _ in watch.poll(min(left_ns, LOOK_EVERY_NS) / 1e6):
                raise self._death(hosts.get(fd), switches.get(fd))
            if left_ns == 0:
                return

    def control(self, host: str, message: Mapping[str, Any]) -> dict[str, Any]:
        """`configure` makes the host anew; the rest is the host's.  Raises WorldError, NodeDied."""
        if message.get("op") == "configure":
            message = {**message, "seed": self.settings.seed}
        return self._nics.ask(host, message)

    def set_link(self, end: PortRef, up: bool) -> None:
        self.fabric.peer(end)
        if up:
            self._admin_down.discard(end)
        else:
            self._admin_down.add(end)
            self._ever_down.add(end)
        if self.fabric.is_host(end.node) or self._board.is_running(end.node):
            self._wires.set_up(end.node, [end.port], up)

    def write_switch(self, switch: str, kind: UpdateType, entries: Iterable[TableEntry]) -> None:
        self._board.write(switch, kind, entries)

    def read_counter(self, switch: str, name: str) -> list[CounterValue]:
        return self._board.read_counter(switch, name)

    def port_stats(self, switch: str) -> list[PortStats]:
        return self._board.port_stats(switch)

    def kill_switch(self, switch: str) -> None:
        """Its ports go first, so that nothing comes or goes during the last count."""
        if not self._board.is_running(switch):
            raise WorldError(f"{switch} is not running")
        ports = list(self._wires.interfaces(switch))
        self._ever_down |= {PortRef(switch, port) for port in ports}
        self._wires.set_up(switch, ports, up=False)
        self._board.kill(switch)
        self._stuck[switch] = self._in_sockets(switch)

    def restart_switch(self, switch: str) -> None:
        if self._board.is_running(switch):
            raise WorldError(f"{switch} is running: kill it first")
        self._board.restart(switch)
        self._stuck[switch] = self._in_sockets(switch)
        ports = [
            port
            for port in self._wires.interfaces(switch)
            if PortRef(switch, port) not in self._admin_down
        ]
        self._wires.set_up(switch, ports, up=True)

    def interface_losses(self) -> dict[str, int]:
        """`link_down:NAME`: into or out of a dead wire; `power_cut:NAME`: in a switch that died.

        `host_ring`: found a host's receive buffer full; `kernel`: lost for any other reason.  The
        last two should be zero.
        """
        counted = self._count_frames()
        for _ in range(SETTLE_TIMES):
            if not any(count.vanished for count in counted.values()):
                break
            time.sleep(SETTLE_S)  # what was on its way is there by now
            counted = self._count_frames()
        out = losses.places(self._wire_ends(), counted)
        hosts = (host.name for host in self.fabric.hosts)
        ends = [end.name for host in hosts for end in self._wires.interfaces(host).values()]
        out["host_ring"] = sum(counted[name].ring_drops for name in ends)
        for switch in self.fabric.switches:
            lost = self._board.buried_frames(switch.name) + self._stuck.get(switch.name, 0)
            losses.add(out, f"power_cut:{switch.name}", lost)
        return out

    def lateness(self) -> dict[str, Any]:
        """p99.9 of the worst node.  `slots_lost`: share of the worst line that was in use."""
        hosts = self._host_clocks()
        switches = self._board.lateness()
        timers = {name: clock["timer_p999_ns"] for name, clock in hosts.items()}
        sends = {name: clock["send_p999_ns"] for name, clock in hosts.items()}
        timers |= {name: late.timer_p999_ns for name, late in switches.items()}
        sends |= {name: late.send_p999_ns for name, late in switches.items()}
        lines = [(line.busy_ns, line.lost_ns) for line in self._board.pacing()]
        lines += [(clock["busy_ns"], clock["lost_ns"]) for clock in hosts.values()]
        shares = [lost / (busy + lost) for busy, lost in lines if busy >= BUSY_NS_MIN]
        return {
            "timer_p999_ns": quantile_of_all(list(timers.values())),
            "send_p999_ns": quantile_of_all(list(sends.values())),
            "timers": _sum(hosts, "timers") + sum(late.timers for late in switches.values()),
            "sends": _sum(hosts, "sends") + sum(late.sends for late in switches.values()),
            "slots_lost": max(shares, default=0.0),
            "worst_timer": max(timers, key=lambda name: timers[name], default=""),
            "worst_send": max(sends, key=lambda name: sends[name], default=""),
        }

    def close(self) -> None:
        if self._capture is not None:
            self._capture.close()
            self._capture = None
        shell.withdraw(self.settings.run_dir)
        self._nics.close()
        if self._switches is not None:
            self._switches.close()
            self._switches = None
        if self._socket_folder is not None:
            self._socket_folder.close()
            self._socket_folder = None
        if self._wiring is not None:
            self._wiring.close()
            self._wiring = None

    # -- for the prompt, benchmarks and tests --------------------------------------------------

    def wait_for_imports(self) -> None:
        """Until host processes can be made at once.  Raises WorldError."""
        if not self._imported:
            self._nics.wait_for_imports()
            self._imported = True

    @property
    def wiring(self) -> Wiring:
        return self._wires

    # -- inside ------------------------------------------------------------------------------------

    @property
    def _wires(self) -> Wiring:
        assert self._wiring is not None, "start comes first"
        return self._wiring

    @property
    def _board(self) -> Switchboard:
        assert self._switches is not None, "start comes first"
        return self._switches

    def _death(self, host: str | None, switch: str | None) -> NodeDied:
        if host is not None:
            return self._nics.died(host)
        assert switch is not None
        return self._board.died(switch)

    def _start_capture(self, wiring: Wiring) -> Capture:
        folder, ports = self.settings.run_dir, self.settings.pcap_ports
        if folder is None:
            raise WorldError("a capture needs a run folder")
        return Capture(self.fabric, wiring, ports, folder, self._epoch_ns)

    def _host_clocks(self) -> dict[str, dict[str, Any]]:
        return self._nics.ask_all([host.name for host in self.fabric.hosts], {"op": "clock"})

    def _in_sockets(self, switch: str) -> int:
        """Frames that a dead switch's interfaces had taken and it never read, all deaths in one."""
        states = self._wires.namespace(switch).netlink.interfaces()
        taken = sum(state.stats["rx_packets"] for state in states)
        ports = self._board.port_stats(switch)
        return taken - sum(port.rx_packets + port.ring_drops for port in ports)

    def _count_frames(self) -> dict[str, Counted]:
        """By interface.  The kernel first, so that what is read meanwhile is not missed."""
        kernel = {
            state.name: state.stats
            for node in self._wires.nodes
            for state in self._wires.namespace(node).netlink.interfaces()
        }
        out = {}
        for clock in self._host_clocks().values():
            for name, port in clock["ports"].items():
                stats = kernel[name]
                out[name] = Counted(stats["rx_packets"], stats["tx_dropped"], **port)
        for switch in self.fabric.switches:
            known = switch.name not in self._stuck  # what died says nothing of single ports
            ends = self._wires.interfaces(switch.name)
            for port_stats in self._board.port_stats(switch.name):
                stats = kernel[ends[port_stats.port].name]
                taken = port_stats.rx_packets if known else None
                out[ends[port_stats.port].name] = Counted(
                    stats["rx_packets"], stats["tx_dropped"], taken, port_stats.ring_drops
                )
        return out

    def _wire_ends(self) -> list[Wire]:
        out = []
        for link in self.fabric.links:
            dead = not self._ever_down.isdisjoint((link.lower, link.upper))
            for end in (link.lower, link.upper):
                out.append(Wire(addressing.interface_name(end.node, end.port), dead))
        return out


class _SocketFolder:
    """Where the P4Runtime socket lies: in memory that goes with the private mount namespace.

    The path is made short by a descriptor: a Unix socket's has at most 107 bytes.
    """

    def __init__(self, run_dir: Path | None) -> None:
        self._made = None if run_dir is not None else tempfile.mkdtemp(prefix="mrc-testbed-")
        self._folder = Path(self._made or run_dir or "") / "sockets"
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._mounted = private_namespace.is_inside()
        if self._mounted:
            libc.mount("tmpfs", str(self._folder), "tmpfs", libc.MS_NOSUID | libc.MS_NODEV)
        self._fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.path = Path(f"/proc/self/fd/{self._fd}")

    def close(self) -> None:
        os.close(self._fd)
        if self._mounted:
            libc.unmount(str(self._folder))
        self._folder.rmdir()
        if self._made is not None:
            shutil.rmtree(self._made)


def _sum(clocks: Mapping[str, Mapping[str, Any]], key: str) -> int:
    return sum(clock[key] for clock in clocks.values())
