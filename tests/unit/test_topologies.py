"""Fabrics as values: shape, addresses, paths, refusals, and the arithmetic of the real thing."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies import addressing, routing
from topologies.addressing import UsidRole, usid
from topologies.builders import clos, link_mtu
from topologies.capacity import MultiPlane, ThreeTier
from topologies.model import Fabric, FabricSpec, PortRef, Tier, TopologyError

LAB = FabricSpec(planes=4, t0=2, t1=4, hosts_per_t0=4)

specs = st.builds(
    FabricSpec,
    planes=st.integers(1, 8),
    t0=st.integers(1, 5),
    t1=st.integers(1, 5),
    hosts_per_t0=st.integers(1, 5),
)


def test_lab_has_24_switches_8_hosts_and_32_nic_ports() -> None:
    fabric = clos(LAB)
    assert len(fabric.switches) == 24
    assert len(fabric.hosts) == 8
    assert sum(fabric.is_host(link.lower.node) for link in fabric.links) == 32
    assert fabric.switches[0].name == "p0t0n0"
    assert fabric.switch("p3t1n2").tier is Tier.T1


@given(specs)
def test_every_port_is_wired_once_and_every_t0_to_every_t1(spec: FabricSpec) -> None:
    fabric = clos(spec)
    ends = [end for link in fabric.links for end in (link.lower, link.upper)]
    assert len(ends) == len(set(ends))
    wanted = {PortRef(s.name, p) for s in fabric.switches for p in range(fabric.port_count(s))}
    wanted |= {PortRef(h.name, plane) for h in fabric.hosts for plane in range(spec.planes)}
    assert set(ends) == wanted
    for end in ends:
        assert fabric.peer(fabric.peer(end)) == end


@given(specs)
def test_all_derived_numbers_are_distinct(spec: FabricSpec) -> None:
    fabric = clos(spec)
    gids = [addressing.gid(host) for host in fabric.hosts]
    assert len(set(gids)) == len(gids)
    usids = [addressing.switch_usid(switch) for switch in fabric.switches]
    assert len(set(usids)) == len(usids)
    assert 0 not in usids
    macs = [addressing.host_mac(h, p) for h in fabric.hosts for p in range(spec.planes)]
    macs += [
        addressing.switch_mac(s, p) for s in fabric.switches for p in range(fabric.port_count(s))
    ]
    assert len(set(macs)) == len(macs)
    assert all(mac[0] & 0b11 == 0b10 for mac in macs), "locally administered, not multicast"


@given(specs, st.data())
def test_a_path_names_the_switches_it_crosses_and_ends_at_the_host(
    spec: FabricSpec, data: st.DataObject
) -> None:
    fabric = clos(spec)
    if len(fabric.hosts) < 2:
        return
    src, dst = data.draw(st.permutations(fabric.hosts))[:2]
    ways = list(routing.paths(fabric, src, dst))
    assert len(ways) == spec.planes * (1 if src.rack == dst.rack else spec.t1)
    assert len({way.ev for way in ways}) == len(ways)
    for way in ways:
        assert addressing.ev_plane(way.ev) == way.plane
        assert addressing.ev_uplink(way.ev) == way.uplink
        end = _walk(fabric, PortRef(src.name, way.plane), way)
        assert end == PortRef(dst.name, way.plane)


def _walk(fabric: Fabric, start: PortRef, way: routing.Path) -> PortRef:
    """Follow the uSID list through the wiring, as switches would, without asking `hops`."""
    egress = routing.hops(fabric, fabric.host(start.node), way)
    assert egress[0] == start
    here = fabric.peer(start)
    for hop, this in zip(egress[1:], way.usids, strict=False):
        assert hop.node == here.node
        assert addressing.switch_usid(fabric.switch(here.node)) == this
        here = fabric.peer(hop)
    return here


def test_an_address_carries_the_list_first_to_visit_first() -> None:
    fabric = clos(LAB)
    way = routing.path(fabric, fabric.host("h0"), fabric.host("h6"), plane=2, uplink=3)
    assert way.usids == (
        usid(UsidRole.T0, 2, 0), usid(UsidRole.T1, 2, 3), usid(UsidRole.T0, 2, 1),
        usid(UsidRole.NIC, 2, 2),
    )  # fmt: skip
    assert way.outer_dst.hex() == "5f000000" + "5000" + "9003" + "5001" + "d002" + "0000" * 2


def test_a_prefix_of_the_paths_loads_the_planes_evenly() -> None:
    fabric = clos(LAB)
    ways = list(routing.paths(fabric, fabric.host("h0"), fabric.host("h4")))
    assert [way.plane for way in ways[:8]] == [0, 1, 2, 3, 0, 1, 2, 3]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"planes": 9}, "planes is 9, and must be from 1 to 8"),
        ({"t0": 0}, "t0 is 0"),
        ({"hosts_per_t0": 3000}, "hosts_per_t0 is 3000"),
        ({"hosts_per_t0": 300, "t1": 300}, "T0 switch would have 600 ports"),
        ({"t0": 511}, "T1 switch would have 511 ports"),
        ({"pmtu": 9500}, "pmtu is 9500"),
        ({"pmtu": 4095}, "pmtu is 4095, and must be a multiple of 4"),
    ],
)
def test_what_cannot_exist_is_refused_by_name(change: dict[str, int], says: str) -> None:
    numbers = {"planes": 2, "t0": 2, "t1": 2, "hosts_per_t0": 2} | change
    with pytest.raises(TopologyError, match=says):
        clos(FabricSpec(**numbers))


def test_too_long_an_interface_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addressing, "INTERFACE_NAME_MAX", 7)
    with pytest.raises(TopologyError, match=r"interface name .* the kernel takes 7"):
        clos(FabricSpec(planes=1, t0=2, t1=1, hosts_per_t0=1))


def test_the_link_mtu_takes_a_full_packet() -> None:
    assert link_mtu(LAB) >= 4096 + 40 + 40 + 8 + 12 + 4 + 4 + 16 + 4 + 4


def test_an_unknown_node_is_named() -> None:
    with pytest.raises(TopologyError, match=r"no host 'h99'.*h0 to h7"):
        clos(LAB).host("h99")
    with pytest.raises(TopologyError, match="no switch 'p9t0n0'"):
        clos(LAB).switch("p9t0n0")


def test_the_arithmetic_of_the_real_thing() -> None:
    """Paper section 2 and table 1."""
    ours, theirs = MultiPlane(planes=8), ThreeTier()
    assert ours.radix == 512
    assert ours.nics == 131_072
    assert theirs.nics == 65_536
    assert Fraction(ours.optics_per_nic_bandwidth, theirs.optics_per_nic_bandwidth) == Fraction(
        2, 3
    )
    assert ours.switch_count / theirs.switch_count(ours.nics) == Fraction(3, 5)
    assert float(ours.t0_uplink_share) == pytest.approx(0.004, abs=0.0005)
    assert float(theirs.t0_uplink_share) == pytest.approx(0.03, abs=0.002)
    assert float(ours.nic_link_share) == pytest.approx(0.12, abs=0.006)
