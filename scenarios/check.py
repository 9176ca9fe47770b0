"""Whether a well-formed scenario makes sense in its fabric: names exist, links are there."""

from collections.abc import Iterator
from fractions import Fraction

from scenarios import derive, faults, flows, schema
from topologies import units
from topologies.model import Fabric, Tier, TopologyError
from topologies.routing import paths
from topologies.strict_yaml import Path

Finding = tuple[Path, str]


def findings(scenario: schema.Scenario, fabric: Fabric) -> Iterator[Finding]:
    """Where in the file, and what was expected."""
    yield from _workload(scenario.workload, fabric)
    yield from _transport(scenario.transport, fabric)
    for index, fault in enumerate(scenario.timeline):
        if isinstance(fault, schema.DenyEv):
            yield from _denied_ev(scenario, fabric, index, fault)
        for path, message in _fault(fault, fabric):
            yield ("timeline", index, *path), message


def _workload(workload: schema.Workload, fabric: Fabric) -> Iterator[Finding]:
    for key in ("ranks", "sources", "hosts"):
        names = getattr(workload, key, ())
        for index, name in enumerate(names):
            yield from _host(fabric, name, ("workload", key, index))
            if name in names[:index]:
                yield ("workload", key, index), f"{name} is in this list already"
    for key in ("src", "dst"):
        if (name := getattr(workload, key, None)) is not None:
            yield from _host(fabric, name, ("workload", key))
    for src, dst in flows.data_flows(workload):
        if src == dst:
            yield ("workload",), f"{src} would send to itself"
    if isinstance(workload, schema.RingAllreduce):
        least = 8 * len(workload.ranks)
        if workload.bytes % 8 or workload.bytes < least:
            message = f"expected a multiple of 8 and at least {least} bytes (8 a rank)"
            yield ("workload", "bytes"), f"{message}, got {workload.bytes}"


PMTUS = (256, 512, 1024, 2048, 4096, 8192)
"""Path MTUs of InfiniBand, and 8192."""


def _transport(transport: schema.Transport, fabric: Fabric) -> Iterator[Finding]:
    if fabric.spec.pmtu not in PMTUS:
        sizes = ", ".join(map(str, PMTUS))
        yield ("topology", "pmtu"), f"expected one of {sizes}, got {fabric.spec.pmtu}"
    needed = derive.rto_needed_ns(fabric.spec)
    wanted = max(needed, Fraction(transport.rto or 0))
    if derive.rto_exponent(wanted) > derive.RTO_EXPONENT_MAX:
        longest = units.show_duration(derive.rto_ns(derive.RTO_EXPONENT_MAX))
        yield ("topology",), f"the RTO would exceed {longest}: raise rate, or lower delay"
    if transport.rto is not None and transport.rto < needed:
        shown = units.show_duration(float(needed))
        yield ("transport", "rto"), f"expected at least {shown}, a round trip behind full queues"
    if transport.window is not None and transport.cc != "fixed":
        moved = "NSCC moves the window: leave this out, or say `cc: fixed`"
        yield ("transport", "window"), moved


def _fault(fault: schema.AnyFault, fabric: Fabric) -> Iterator[Finding]:
    switch = getattr(fault, "switch", None)
    if switch is not None:
        try:
            tier = fabric.switch(switch).tier
        except TopologyError as error:
            yield ("switch",), str(error)
            return
        wanted = {"t0_reboot": Tier.T0, "t1_reboot": Tier.T1}.get(fault.verb, tier)
        if tier is not wanted:
            yield ("switch",), f"expected a T{int(wanted)} switch, got {switch}"
    if (host := getattr(fault, "host", None)) is not None:
        yield from _host(fabric, host, ("host",))
    plane = getattr(fault, "plane", None)
    if plane is not None and plane >= fabric.spec.planes:
        yield ("plane",), f"this fabric has planes 0 to {fabric.spec.planes - 1}, got {plane}"
    if switch is not None:
        yield from _links(fault, switch, fabric)


def _denied_ev(
    scenario: schema.Scenario, fabric: Fabric, index: int, fault: schema.DenyEv
) -> Iterator[Finding]:
    """Where switches hash, EVs are random and nobody can name one beforehand."""
    where = ("timeline", index, "ev")
    if scenario.transport.routing == "ecmp":
        yield where, "with routing ecmp EVs are random: there is none to name"
        return
    pairs = {pair for flow in flows.data_flows(scenario.workload) for pair in (flow, flow[::-1])}
    try:
        peers = [fabric.host(dst) for src, dst in sorted(pairs) if src == fault.host]
        ways = [way for p in peers for way in paths(fabric, fabric.host(fault.host), p)]
    except TopologyError:
        return
    if fault.ev not in {way.ev for way in ways}:
        yield where, f"{fault.host} has no QP with an EV {fault.ev:#x} in this job"


def _links(fault: schema.AnyFault, switch: str, fabric: Fabric) -> Iterator[Finding]:
    named = [(("links", i), name) for i, name in enumerate(getattr(fault, "links", ()))]
    if (single := getattr(fault, "link", None)) is not None:
        named.append((("link",), single))  # type: ignore[arg-type]
    for path, name in named:
        try:
            faults.link_end(fabric, switch, name)
        except LookupError as error:
            yield path, str(error)


def _host(fabric: Fabric, name: str, path: Path) -> Iterator[Finding]:
    try:
        fabric.host(name)
    except TopologyError as error:
        yield path, str(error)
