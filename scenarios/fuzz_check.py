"""What must hold after any fuzz case, whatever was done to it."""

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from hosts.host import Host
from hosts.mrc.ev import TRANSITIONS
from scenarios import books, flows, schema
from scenarios.faults import Impair, PauseQueue, Step
from scenarios.fuzz_watch import Reach, WatchedHost
from scenarios.load import Loaded
from scenarios.observe import Observed
from scenarios.runner import Runner
from topologies import addressing
from topologies.model import Fabric, PortRef
from worlds.api import WorldSettings
from worlds.virtual.link import Impairment
from worlds.virtual.world import Silent, VirtualWorld

LEGAL = {(before.value, after.value) for (before, _), after in TRANSITIONS.items()}
GOOD = "good"
TAIL_RTOS = 8
"""After the job: time for probes to bring EVs back, one of them lost to what still was wrong."""

STARVED_SHARE = 0.25
"""A plane nothing was done to carries at least this share of the average plane's packets."""

STARVED_PACKETS_MIN = 40
"""Packets a plane below which chance decides."""


class FuzzWorld(VirtualWorld):
    """The virtual world with what only the fuzzer does to it, and its losses in the books."""

    def __init__(self, fabric: Fabric, settings: WorldSettings, *, delays: bool) -> None:
        """delays: wires will hold frames for a while; only the Python loop counts those that then
        come to a switch without power."""
        super().__init__(fabric, settings, compiled=not delays)
        self._unheard: dict[str, int] = {}
        self._reach = Reach()
        self.watched: dict[str, WatchedHost] = {}

    def _new_host(self, config: Mapping[str, Any], stream: Random) -> Host:
        host = WatchedHost(config, stream, self._reach)
        self.watched[host.name] = host
        return host

    def set_impairment(self, step: Impair) -> None:
        self.impair(
            step.end,
            Impairment(
                loss=step.loss,
                duplicate=step.duplicate,
                reorder=step.reorder,
                reorder_delay_ns=step.reorder_delay_ns,
                corrupt=step.corrupt,
            ),
        )

    def pause_queue(self, end: PortRef, paused: bool) -> None:
        """Forgotten if the switch is away: its queue goes with it."""
        if end.node in self._switches:
            self._switches[end.node].device.pause_queue(end.port, 0, paused)
            self._loop.wake(self._index[end.node])

    def restart_switch(self, switch: str) -> None:
        self._unheard[switch] = self._unheard.get(switch, 0) + self._silent_frames(switch)
        super().restart_switch(switch)

    def _silent_frames(self, switch: str) -> int:
        """Frames that came to a switch without power: wires with a delay still held them."""
        node = self._loop.nodes[self._index[switch]]
        return node.frames if isinstance(node, Silent) else 0

    def interface_losses(self) -> dict[str, int]:
        losses = super().interface_losses()
        for switch in (switch.name for switch in self.fabric.switches):
            unheard = self._unheard.get(switch, 0) + self._silent_frames(switch)
            if unheard:
                place = f"power_cut:{switch}"
                losses[place] = losses.get(place, 0) + unheard
        for (index, port), link in self.loop.links.items():
            name = addressing.interface_name(self.loop.names[index], port)
            if link.lost:
                losses[f"impaired:{name}"] = link.lost
            if link.duplicated:
                losses[f"duplicated:{name}"] = -link.duplicated
        return losses


def run(loaded: Loaded, extra: list[Step], settings: WorldSettings) -> list[str]:
    """The broken invariants of one case; empty if all hold."""
    delays = any(isinstance(step.what, Impair) and step.what.reorder for step in extra)
    world = FuzzWorld(loaded.fabric, settings, delays=delays)
    runner = Runner(
        loaded,
        world,
        settings.seed,
        lambda progress: None,
        extra_steps=extra,
        tail_rtos=TAIL_RTOS,
    )
    try:
        observed = runner.run()
        return list(_broken(loaded, runner, world, observed, extra))
    finally:
        world.close()


def _broken(
    loaded: Loaded, runner: Runner, world: FuzzWorld, observed: Observed, extra: list[Step]
) -> Iterator[str]:
    yield from _outcome(loaded, observed)
    yield from _watched(world)
    yield from transitions(observed)
    yield from recovery(observed)
    yield from _books(loaded, runner, observed, extra)
    yield from _starvation(loaded, runner.ends, observed, extra)


def _watched(world: FuzzWorld) -> Iterator[str]:
    for name, host in world.watched.items():
        yield from (f"{name}: {finding}" for finding in host.broken())


def _outcome(loaded: Loaded, observed: Observed) -> Iterator[str]:
    """Every message once and byte-equal, or a QP in error for a stated reason; nothing stuck."""
    hosts = flows.job_hosts(loaded.scenario.workload)
    jobs = {host: observed.stopped[host]["job"] for host in hosts}
    corrupt = sum(job["bytes_corrupt"] for job in jobs.values())
    if corrupt:
        yield f"{corrupt} bytes are not what was sent"
    bad = [qp for stop in observed.stopped.values() for qp in stop["qps"] if _is_error(qp)]
    for qp in bad:
        if not qp["reason"]:
            yield f"QP {qp['qpn']} to {qp['peer']} is in error without a reason"
    for host, job in jobs.items():
        if job["error"] and not bad:
            yield f"{host}: {job['error']}"
    if not bad and not all(job["completed"] for job in jobs.values()):
        waiting = [host for host, job in jobs.items() if not job["completed"]]
        yield f"stuck: {', '.join(waiting)} never finished although every fault has ended"
    delivered = sum(job["bytes_delivered"] for job in jobs.values())
    if not bad and delivered != observed.total_bytes and all(j["completed"] for j in jobs.values()):
        yield f"{delivered} bytes placed, {observed.total_bytes} expected"


def _is_error(qp: dict[str, Any]) -> bool:
    return str(qp["state"]).lower() == "error"


def transitions(observed: Observed) -> Iterator[str]:
    """Each EV from GOOD by legal steps, each from where the last one led, to where it is now."""
    at: dict[tuple[str, int, int], str] = {}
    for event in observed.events:
        if event.kind == "ev_state":
            key = event.node, event.fields["qpn"], event.fields["ev"]
            before, after = str(event.fields["from"]), str(event.fields["to"])
            if (before, after) not in LEGAL or _seen(before) != at.get(key, GOOD):
                was = at.get(key, GOOD)
                yield f"{event.node}: an EV that was {was} went from {before} to {after}"
            at[key] = _seen(after)
    for host, stop in observed.stopped.items():
        for qp in stop["qps"]:
            for ev, _, state in qp["evs"]:
                was = at.get((host, qp["qpn"], ev), GOOD)
                if _seen(state) != was:
                    yield f"{host}: an EV that was {was} is {state} at the end"


def _seen(state: str) -> str:
    """SKIP comes and goes with every mark, and is not told."""
    return GOOD if state == "skip" else state


def recovery(observed: Observed) -> Iterator[str]:
    """Every fault has ended: no EV of a QP that works stays out of use."""
    for host, stop in observed.stopped.items():
        for qp in stop["qps"]:
            bad = [ev for ev, _, state in qp["evs"] if state == "assumed_bad"]
            if bad and not _is_error(qp):
                yield f"stuck: {host} still avoids EV {bad[0]:#x} to {qp['peer']}"


def _books(loaded: Loaded, runner: Runner, observed: Observed, extra: list[Step]) -> Iterator[str]:
    """What a wire duplicates is data or control, nobody knows: the book of data stays open."""
    duplicated = any(isinstance(s.what, Impair) and s.what.duplicate for s in extra)
    for book in books.close(loaded.fabric, runner.ends, observed):
        if book.unexplained and not (duplicated and book.name == "data"):
            yield f"the ledger has {book.unexplained} unexplained {book.name}"


def _starvation(
    loaded: Loaded, ends: list[flows.QpEnd], observed: Observed, extra: list[Step]
) -> Iterator[str]:
    """Every plane to which nothing was done carries its share, whatever befell the others."""
    spec = loaded.fabric.spec
    if spec.planes == 1:
        return
    carried = [0] * spec.planes
    for switch in loaded.fabric.switches:
        if switch.tier == 0:
            ports = observed.switch_stats[switch.name]["ports"]
            carried[switch.plane] += sum(
                port.rx_packets for port in ports if port.port < spec.hosts_per_t0
            )
    mean = sum(carried) / spec.planes
    whole = set(range(spec.planes)) - _planes_hit(loaded, ends, extra)
    for plane in sorted(whole):
        count = carried[plane]
        if mean >= STARVED_PACKETS_MIN and count < STARVED_SHARE * mean:
            yield f"plane {plane} carried {count} packets, the average plane {mean:.0f}"


def _planes_hit(loaded: Loaded, ends: list[flows.QpEnd], extra: list[Step]) -> set[int]:
    """Planes to which anything was done at any time."""
    hit = set()
    fabric = loaded.fabric
    for fault in loaded.scenario.timeline:
        if isinstance(fault, schema.NicPortDown | schema.PlaneDown):
            hit.add(fault.plane)
        elif isinstance(fault, schema.DenyEv):
            hit |= {way.plane for end in ends for way in end.paths if way.ev == fault.ev}
        else:
            hit.add(fabric.switch(fault.switch).plane)
    for step in extra:
        assert isinstance(step.what, Impair | PauseQueue)
        end = step.what.end
        hit.add(end.port if fabric.is_host(end.node) else fabric.switch(end.node).plane)
    return hit
