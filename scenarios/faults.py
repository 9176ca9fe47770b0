"""Fault verbs as data: each becomes a list of timed primitive steps (design section 10).

Pure.  The runner carries the steps out; what a world or a switch back end has no means for is
refused by name before anything starts.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import assert_never

from scenarios import schema
from switches import entries
from switches.api import TableEntry
from topologies.model import Fabric, PortRef, Switch


@dataclass(frozen=True, slots=True)
class SetLink:
    """Take the link at `end` down or up."""

    end: PortRef
    up: bool


@dataclass(frozen=True, slots=True)
class AddLoss:
    """Write a row of the fault table."""

    switch: str
    entry: TableEntry


@dataclass(frozen=True, slots=True)
class RemoveLoss:
    switch: str
    entry: TableEntry


@dataclass(frozen=True, slots=True)
class KillSwitch:
    switch: str


@dataclass(frozen=True, slots=True)
class RestartSwitch:
    switch: str


@dataclass(frozen=True, slots=True)
class SetCorruption:
    """Share of the frames damaged on the way out of `end`."""

    end: PortRef
    probability: float


@dataclass(frozen=True, slots=True)
class SetDenied:
    """Take an EV out of use on a host, or give it back."""

    host: str
    ev: int
    denied: bool


@dataclass(frozen=True, slots=True)
class Impair:
    """What frames on the way out of `end` suffer; for the fuzzer, which has no verb for it."""

    end: PortRef
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    reorder_delay_ns: int = 0
    corrupt: float = 0.0


@dataclass(frozen=True, slots=True)
class PauseQueue:
    """Hold the data queue of a switch port: a receiver that does not keep up.  For the fuzzer."""

    end: PortRef
    paused: bool


Primitive = (
    SetLink
    | AddLoss
    | RemoveLoss
    | KillSwitch
    | RestartSwitch
    | SetCorruption
    | SetDenied
    | Impair
    | PauseQueue
)

WORLD_METHOD: dict[type[Primitive], str] = {
    SetLink: "set_link",
    AddLoss: "write_switch",
    RemoveLoss: "write_switch",
    KillSwitch: "kill_switch",
    RestartSwitch: "restart_switch",
    SetCorruption: "set_corruption",
    SetDenied: "control",
    Impair: "set_impairment",
    PauseQueue: "pause_queue",
}
"""The method of a world that carries the primitive out; a world without it refuses the verb."""


@dataclass(frozen=True, slots=True)
class Step:
    """One primitive at a time since the start of the job; `fault` is the name it belongs to."""

    t_ns: int
    fault: str
    what: Primitive


@dataclass(frozen=True, slots=True)
class Hit:
    """A network element a fault takes away: what expectations about EVs are computed from.

    Exactly one of: a NIC port (host and plane), the direction out of a switch port, a whole switch.
    `ev` narrows it to one entropy value.
    """

    nic_port: PortRef | None = None
    egress: PortRef | None = None
    switch: str | None = None
    ev: int | None = None


def expand(fabric: Fabric, faults: tuple[schema.AnyFault, ...]) -> list[Step]:
    """All steps in the order they happen; simultaneous ones in the order of the file."""
    steps = [
        step for index, fault in enumerate(faults) for step in _steps(fabric, fault, index + 1)
    ]
    return sorted(steps, key=lambda step: step.t_ns)


def window(fabric: Fabric, fault: schema.AnyFault) -> tuple[int, int | None]:
    """From the first step of a fault to the last that heals; None where something stays broken."""
    steps = list(_steps(fabric, fault, 1))
    if isinstance(fault, _UNTIL) and fault.for_ is None:
        return fault.at, None
    return min(s.t_ns for s in steps), max(s.t_ns for s in steps)


def refused(world: object, steps: list[Step]) -> str | None:
    """One sentence naming the first fault this world has no means for, or None."""
    for step in steps:
        method = WORLD_METHOD[type(step.what)]
        if not hasattr(world, method):
            name = getattr(world, "name", type(world).__name__)
            return f"the {name} world cannot do {step.fault!r}: it has no {method}"
    return None


def hits(fabric: Fabric, fault: schema.AnyFault) -> list[Hit]:
    """What the fault takes away."""
    match fault:
        case schema.LinkDown() | schema.LinkFlap() | schema.Optic():
            return [hit for end in link_ends(fabric, fault) for hit in _link_hits(fabric, end)]
        case schema.OneWayLoss() | schema.Corrupt():
            return [Hit(egress=end) for end in link_ends(fabric, fault)]
        case schema.T0Reboot():
            ports = range(fabric.spec.hosts_per_t0)
            ends = [fabric.peer(PortRef(fault.switch, port)) for port in ports]
            return [Hit(nic_port=end) for end in ends]
        case schema.T1Reboot() | schema.Blackhole():
            return [Hit(switch=fault.switch)]
        case schema.GrayLoss():
            if fault.link is not None:
                end = link_end(fabric, fault.switch, fault.link)
                return [Hit(egress=end, ev=fault.ev)]
            return [Hit(switch=fault.switch, ev=fault.ev)]
        case schema.NicPortDown():
            return [Hit(nic_port=PortRef(fault.host, fault.plane))]
        case schema.PlaneDown():
            return [Hit(nic_port=PortRef(host.name, fault.plane)) for host in fabric.hosts]
        case schema.DenyEv():
            return []
    assert_never(fault)


def link_end(fabric: Fabric, switch: str, neighbour: str) -> PortRef:
    """The port of the switch that leads to that neighbour.  Raises LookupError with a sentence."""
    for port in range(fabric.port_count(fabric.switch(switch))):
        end = PortRef(switch, port)
        if fabric.peer(end).node == neighbour:
            return end
    names = [fabric.peer(PortRef(switch, p)).node for p in _ports(fabric, fabric.switch(switch))]
    raise LookupError(f"{switch} has no link to {neighbour!r}: its neighbours are {_list(names)}")


_LinkFault = schema.LinkDown | schema.LinkFlap | schema.Optic | schema.OneWayLoss | schema.Corrupt


def link_ends(fabric: Fabric, fault: _LinkFault) -> list[PortRef]:
    return [link_end(fabric, fault.switch, name) for name in fault.links]


_UNTIL = (
    schema.LinkDown,
    schema.Blackhole,
    schema.GrayLoss,
    schema.OneWayLoss,
    schema.Corrupt,
    schema.NicPortDown,
    schema.PlaneDown,
    schema.DenyEv,
)

_PER_MILLION = 1_000_000


def _steps(fabric: Fabric, fault: schema.AnyFault, priority: int) -> Iterator[Step]:
    for t_ns, what in _primitives(fabric, fault, priority):
        yield Step(t_ns, fault.name, what)


def _primitives(
    fabric: Fabric, fault: schema.AnyFault, priority: int
) -> Iterator[tuple[int, Primitive]]:
    match fault:
        case schema.LinkDown():
            for end in link_ends(fabric, fault):
                yield from _down(end, fault.at, fault.for_)
        case schema.LinkFlap():
            for end in link_ends(fabric, fault):
                yield from _flaps(end, fault.at, fault.flaps, fault.down, fault.up)
        case schema.Optic():
            for index, end in enumerate(link_ends(fabric, fault)):
                start = fault.at + index * fault.stagger
                yield from _flaps(end, start, fault.flaps, fault.down, fault.up)
        case schema.T0Reboot() | schema.T1Reboot():
            if fault.dark:
                yield fault.at, AddLoss(fault.switch, entries.fault(priority=priority))
            yield fault.at + fault.dark, KillSwitch(fault.switch)
            yield fault.at + fault.dark + fault.down, RestartSwitch(fault.switch)
        case schema.Blackhole():
            row = entries.fault(priority=priority)
            yield from _loss(fault.switch, row, fault.at, fault.for_)
        case schema.GrayLoss():
            port = None if fault.link is None else link_end(fabric, fault.switch, fault.link).port
            row = _row(fault.probability, port, fault.ev, priority)
            yield from _loss(fault.switch, row, fault.at, fault.for_)
        case schema.OneWayLoss():
            for end in link_ends(fabric, fault):
                row = _row(fault.probability, end.port, None, priority)
                yield from _loss(fault.switch, row, fault.at, fault.for_)
        case schema.Corrupt():
            for end in link_ends(fabric, fault):
                yield fault.at, SetCorruption(end, fault.probability)
                if fault.for_ is not None:
                    yield fault.at + fault.for_, SetCorruption(end, 0.0)
        case schema.NicPortDown():
            yield from _down(PortRef(fault.host, fault.plane), fault.at, fault.for_)
        case schema.PlaneDown():
            for host in fabric.hosts:
                yield from _down(PortRef(host.name, fault.plane), fault.at, fault.for_)
        case schema.DenyEv():
            yield fault.at, SetDenied(fault.host, fault.ev, True)
            if fault.for_ is not None:
                yield fault.at + fault.for_, SetDenied(fault.host, fault.ev, False)
        case _:
            assert_never(fault)


def _down(end: PortRef, at_ns: int, for_ns: int | None) -> Iterator[tuple[int, Primitive]]:
    yield at_ns, SetLink(end, False)
    if for_ns is not None:
        yield at_ns + for_ns, SetLink(end, True)


def _flaps(
    end: PortRef, at_ns: int, count: int, down_ns: int, up_ns: int
) -> Iterator[tuple[int, Primitive]]:
    for flap in range(count):
        yield from _down(end, at_ns + flap * (down_ns + up_ns), down_ns)


def _row(probability: float, port: int | None, ev: int | None, priority: int) -> TableEntry:
    share = round(probability * _PER_MILLION)
    return entries.fault(per_million=share, egress_port=port, ev=ev, priority=priority)


def _loss(
    switch: str, row: TableEntry, at_ns: int, for_ns: int | None
) -> Iterator[tuple[int, Primitive]]:
    yield at_ns, AddLoss(switch, row)
    if for_ns is not None:
        yield at_ns + for_ns, RemoveLoss(switch, row)


def _link_hits(fabric: Fabric, end: PortRef) -> list[Hit]:
    peer = fabric.peer(end)
    if fabric.is_host(peer.node):
        return [Hit(nic_port=peer)]
    return [Hit(egress=end), Hit(egress=peer)]


def _ports(fabric: Fabric, switch: Switch) -> range:
    return range(fabric.port_count(switch))


def _list(names: list[str]) -> str:
    """Short even for a switch of 500 ports: runs of neighbours by first and last."""
    if len(names) <= 12:
        return ", ".join(names)
    jumps = [i for i, (a, b) in enumerate(pairwise(names)) if a[:2] != b[:2]]
    cut = jumps[0] + 1 if jumps else len(names)
    parts = [names[:cut], names[cut:]]
    return ", ".join(f"{part[0]} to {part[-1]}" for part in parts if part)
