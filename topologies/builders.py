"""Builds a `Fabric` from its numbers and refuses what cannot exist."""

from topologies import addressing
from topologies.model import Fabric, FabricSpec, Host, Link, PortRef, Switch, Tier, TopologyError

ENCAPSULATION_BYTES = 146
"""Ethernet to iCRC around the payload of the largest write packet: v6 in v6, TSETH, ImmDt."""

LINK_MTU_MAX = 9500
"""Largest MTU the virtual Ethernet links are set to."""

PORTS_MAX = 510
"""P4's v1model port field has 9 bits; 511 means drop."""


def clos(spec: FabricSpec) -> Fabric:
    """The fabric of design section 4.  Raises TopologyError naming the limit that does not hold."""
    _check(spec)
    switches = tuple(
        Switch(addressing.switch_name(plane, tier, index), plane, tier, index)
        for plane in range(spec.planes)
        for tier, count in ((Tier.T0, spec.t0), (Tier.T1, spec.t1))
        for index in range(count)
    )
    hosts = tuple(
        Host(addressing.host_name(i), i, i // spec.hosts_per_t0, i % spec.hosts_per_t0)
        for i in range(spec.t0 * spec.hosts_per_t0)
    )
    links = tuple(_links(spec, hosts))
    for end in (end for link in links for end in (link.lower, link.upper)):
        name = addressing.interface_name(end.node, end.port)
        if len(name) > addressing.INTERFACE_NAME_MAX:
            raise TopologyError(
                f"interface name {name!r} has {len(name)} characters and the kernel takes "
                f"{addressing.INTERFACE_NAME_MAX}: use fewer switches, hosts or ports"
            )
    return Fabric(spec, switches, hosts, links)


def link_mtu(spec: FabricSpec) -> int:
    """MTU in bytes that each link needs (Ethernet header not counted), rounded up to 100."""
    return -(-(spec.pmtu + ENCAPSULATION_BYTES - 14) // 100) * 100


def _links(spec: FabricSpec, hosts: tuple[Host, ...]) -> list[Link]:
    links = []
    for plane in range(spec.planes):
        for host in hosts:
            t0 = addressing.switch_name(plane, Tier.T0, host.rack)
            links.append(Link(PortRef(host.name, plane), PortRef(t0, host.downlink)))
        for t0_index in range(spec.t0):
            t0 = addressing.switch_name(plane, Tier.T0, t0_index)
            for uplink in range(spec.t1):
                t1 = addressing.switch_name(plane, Tier.T1, uplink)
                lower = PortRef(t0, spec.hosts_per_t0 + uplink)
                links.append(Link(lower, PortRef(t1, t0_index)))
    return links


def _check(spec: FabricSpec) -> None:
    limits = (
        ("planes", spec.planes, 1, addressing.PLANES_MAX),
        ("t0", spec.t0, 1, addressing.INDEX_MAX + 1),
        ("t1", spec.t1, 1, addressing.INDEX_MAX + 1),
        ("hosts_per_t0", spec.hosts_per_t0, 1, addressing.INDEX_MAX + 1),
        ("rate", spec.rate_bps, 1, 10**13),
        ("delay", spec.delay_ns, 0, 10**10),
        ("pmtu", spec.pmtu, 256, LINK_MTU_MAX - ENCAPSULATION_BYTES + 14),
    )
    for key, value, low, high in limits:
        if not low <= value <= high:
            raise TopologyError(f"topology: {key} is {value}, and must be from {low} to {high}")
    if spec.pmtu % 4:
        raise TopologyError(f"topology: pmtu is {spec.pmtu}, and must be a multiple of 4")
    for what, ports in (("T0", spec.hosts_per_t0 + spec.t1), ("T1", spec.t0)):
        if ports > PORTS_MAX:
            raise TopologyError(
                f"topology: a {what} switch would have {ports} ports, and {PORTS_MAX} is the most"
            )
