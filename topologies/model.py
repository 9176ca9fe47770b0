"""The multi-plane Clos fabric as a value.

Pure: no Mininet, no sockets.  A `Fabric` can be wired by a world, walked by a test or printed by
the command line.  Structure (design section 4): `planes` parallel two-tier networks; in each, every
T0 is linked to every T1; every host has one NIC port in every plane, on the T0 of its rack.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property


class TopologyError(ValueError):
    """The requested fabric cannot exist; the message says which limit and what to change."""


class Tier(IntEnum):
    T0 = 0
    T1 = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricSpec:
    """The numbers a fabric is built from.

    rate_bps: of every link, bits of frame per second.  delay_ns: propagation of one link.
    pmtu: RDMA payload bytes of a full packet.
    """

    planes: int
    t0: int
    t1: int
    hosts_per_t0: int
    rate_bps: int = 10_000_000
    delay_ns: int = 200_000
    pmtu: int = 4096


@dataclass(frozen=True, slots=True)
class Switch:
    name: str
    plane: int
    tier: Tier
    index: int


@dataclass(frozen=True, slots=True)
class Host:
    """One NIC.  `rack` is the T0 number in every plane, `downlink` its place on that T0."""

    name: str
    index: int
    rack: int
    downlink: int


@dataclass(frozen=True, slots=True)
class PortRef:
    """One end of a link.  `port` is a switch port, or the plane (0-based) for a host."""

    node: str
    port: int


@dataclass(frozen=True, slots=True)
class Link:
    """`lower` is the end nearer to the hosts."""

    lower: PortRef
    upper: PortRef


@dataclass(frozen=True)
class Fabric:
    """Nodes and links in a fixed order: planes, then tiers, then numbers.

    Port numbers: T0 downlink d is port d, T0 uplink u is port hosts_per_t0 + u; T1 port i leads to
    T0 number i; the port of a host is the plane.
    """

    spec: FabricSpec
    switches: tuple[Switch, ...]
    hosts: tuple[Host, ...]
    links: tuple[Link, ...] = field(repr=False)

    @cached_property
    def _hosts_by_name(self) -> dict[str, Host]:
        return {host.name: host for host in self.hosts}

    @cached_property
    def _switches_by_name(self) -> dict[str, Switch]:
        return {switch.name: switch for switch in self.switches}

    @cached_property
    def _peers(self) -> dict[PortRef, PortRef]:
        pairs = [(link.lower, link.upper) for link in self.links]
        return dict(pairs) | {upper: lower for lower, upper in pairs}

    def host(self, name: str) -> Host:
        """The host of that name.  Raises TopologyError if there is none."""
        if name not in self._hosts_by_name:
            raise TopologyError(
                f"no host {name!r} in this fabric: it has h0 to h{len(self.hosts) - 1}"
            )
        return self._hosts_by_name[name]

    def switch(self, name: str) -> Switch:
        """The switch of that name.  Raises TopologyError if there is none."""
        if name not in self._switches_by_name:
            raise TopologyError(
                f"no switch {name!r} in this fabric: it has {self.switches[0].name} to "
                f"{self.switches[-1].name}"
            )
        return self._switches_by_name[name]

    def is_host(self, name: str) -> bool:
        return name in self._hosts_by_name

    def peer(self, end: PortRef) -> PortRef:
        """The other end of the link at `end`.  Raises TopologyError if nothing is connected."""
        if end not in self._peers:
            raise TopologyError(f"{end.node} has no port {end.port}")
        return self._peers[end]

    def port_count(self, switch: Switch) -> int:
        spec = self.spec
        return spec.hosts_per_t0 + spec.t1 if switch.tier is Tier.T0 else spec.t0

    def is_last_hop(self, switch: Switch, port: int) -> bool:
        """Whether that switch port faces a host (T0 to NIC)."""
        return switch.tier is Tier.T0 and port < self.spec.hosts_per_t0
