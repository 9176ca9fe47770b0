"""The rows of every switch, walked by a model of p4/mrc.p4's routing in a few lines of Python."""

from collections import Counter
from collections.abc import Iterator
from itertools import product
from zlib import crc32

import pytest

from switches import entries as rows
from switches.api import ActionCall, Exact, Lpm, OptionalMatch, TableEntry, Ternary
from switches.entries import Routing, SwitchSettings, entries, port_configs
from topologies import addressing
from topologies.builders import clos
from topologies.model import Fabric, FabricSpec, Host, PortRef
from topologies.routing import Path, hops, path, paths
from topologies.thresholds import Thresholds, data_frame_bytes, thresholds

TINY = FabricSpec(planes=2, t0=2, t1=2, hosts_per_t0=2)
LAB = FabricSpec(planes=4, t0=2, t1=4, hosts_per_t0=4)
UNEVEN = FabricSpec(planes=3, t0=3, t1=5, hosts_per_t0=2)

ARGUMENT = (1 << 96) - 1


class TableModel:
    """The tables of one switch, and what `Routing` of p4/include/routing.p4 does with them."""

    def __init__(self, written: list[TableEntry]) -> None:
        self.tables: dict[str, list[TableEntry]] = {}
        for entry in written:
            self.tables.setdefault(entry.table, []).append(entry)

    def exact(self, table: str, key: str, value: int) -> ActionCall | None:
        found = [e.action for e in self.tables.get(table, []) if e.match[key] == Exact(value)]
        assert len(found) <= 1, f"two rows of {table} match {value:#x}"
        return found[0] if found else None

    def longest(self, dst: int) -> ActionCall | None:
        found: list[tuple[int, ActionCall]] = []
        for entry in self.tables.get(rows.FIB, []):
            match = entry.match["dst"]
            assert isinstance(match, Lpm)
            if match.value >> 128 - match.prefix_len == dst >> 128 - match.prefix_len:
                found.append((match.prefix_len, entry.action))
        return max(found, key=lambda pair: pair[0])[1] if found else None

    def route(self, src: int, dst: int, ev: int) -> tuple[ActionCall | str, int]:
        """The `forward` call or a drop reason, and the address that leaves."""
        ours = False
        call: ActionCall | None = None
        if self.exact(rows.USID_NODE, "sid", dst >> 80) is not None:
            ours, dst = True, next_usid(dst)
        if (call := self.exact(rows.USID_ADJACENCY, "sid", dst >> 80)) is not None:
            ours, dst = True, next_usid(dst)
        if ours and dst & ARGUMENT == 0:
            return "argument_zero", dst
        call = call or self.longest(dst)
        if call is None:
            return "no_route", dst
        if call.name.endswith("spread_by_ev"):
            call = self.uplink(ev >> call.params["shift"] & call.params["mask"])
        elif call.name.endswith("spread_by_hash"):
            data = call.params["salt"].to_bytes(4) + src.to_bytes(16) + dst.to_bytes(16)
            hashed = crc32(data + ev.to_bytes(4))
            call = self.uplink(hashed % call.params["uplink_count"])
        return call or "no_uplink", dst

    def uplink(self, index: int) -> ActionCall | None:
        return self.exact(rows.UPLINK, "index", index)


def next_usid(dst: int) -> int:
    return dst >> 96 << 96 | dst << 16 & ARGUMENT


def models(fabric: Fabric, settings: SwitchSettings) -> dict[str, TableModel]:
    return {s.name: TableModel(entries(fabric, s, settings)) for s in fabric.switches}


def walk(fabric: Fabric, tables: dict[str, TableModel], way: Path, src: Host, dst: int) -> str:
    """Follow a packet from the NIC; gives the host it reaches.  MACs are checked on the way."""
    at = fabric.peer(PortRef(src.name, way.plane))
    mac = None
    taken = [PortRef(src.name, way.plane)]
    while not fabric.is_host(at.node):
        switch = fabric.switch(at.node)
        if mac is not None:
            assert mac == int.from_bytes(addressing.switch_mac(switch, at.port))
        call, dst = tables[at.node].route(int.from_bytes(addressing.gid(src)), dst, way.ev)
        assert isinstance(call, ActionCall), f"{at.node} drops it: {call}"
        out = PortRef(at.node, call.params["port"])
        assert call.params["src_mac"] == int.from_bytes(addressing.switch_mac(switch, out.port))
        mac = call.params["dst_mac"]
        taken.append(out)
        assert len(taken) <= 4, "the packet goes in circles"
        at = fabric.peer(out)
    assert mac == int.from_bytes(addressing.host_mac(fabric.host(at.node), way.plane))
    assert at.port == way.plane
    if dst >> 96 == addressing.LOCATOR_BLOCK:
        assert taken == hops(fabric, src, way)
    return at.node


def pairs(fabric: Fabric) -> Iterator[tuple[Host, Host]]:
    return ((a, b) for a, b in product(fabric.hosts, fabric.hosts) if a != b)


@pytest.mark.parametrize("spec", [TINY, LAB, UNEVEN], ids=["tiny", "lab", "uneven"])
def test_every_usid_list_ends_at_its_host(spec: FabricSpec) -> None:
    fabric = clos(spec)
    tables = models(fabric, SwitchSettings())
    for src, dst in pairs(fabric):
        for way in paths(fabric, src, dst):
            reached = walk(fabric, tables, way, src, int.from_bytes(way.outer_dst))
            assert reached == dst.name


@pytest.mark.parametrize("spec", [TINY, LAB, UNEVEN], ids=["tiny", "lab", "uneven"])
@pytest.mark.parametrize("routing", [Routing.STRUCTURED, Routing.ECMP])
def test_every_address_is_reached_whatever_the_entropy(spec: FabricSpec, routing: Routing) -> None:
    fabric = clos(spec)
    tables = models(fabric, SwitchSettings(routing=routing))
    for src, dst in pairs(fabric):
        for way in paths(fabric, src, dst):
            reached = walk(fabric, tables, way, src, int.from_bytes(addressing.gid(dst)))
            assert reached == dst.name


def test_a_structured_entropy_value_names_the_uplink() -> None:
    fabric = clos(UNEVEN)
    tables = models(fabric, SwitchSettings(routing=Routing.STRUCTURED))
    src, dst = fabric.host("h0"), fabric.host("h5")
    for uplink in range(UNEVEN.t1):
        way = path(fabric, src, dst, 1, uplink)
        call, _ = tables["p1t0n0"].route(0, int.from_bytes(addressing.gid(dst)), way.ev)
        assert isinstance(call, ActionCall)
        assert call.params["port"] == UNEVEN.hosts_per_t0 + uplink


def test_a_structured_entropy_value_without_uplink_is_dropped_with_that_reason() -> None:
    fabric = clos(TINY)
    tables = models(fabric, SwitchSettings(routing=Routing.STRUCTURED))
    dst = int.from_bytes(addressing.gid(fabric.host("h3")))
    call, _ = tables["p0t0n0"].route(0, dst, addressing.ev(0, TINY.t1))
    assert call == "no_uplink"


def test_hashing_uses_every_uplink_and_differs_between_switches() -> None:
    fabric = clos(LAB)
    tables = models(fabric, SwitchSettings(routing=Routing.ECMP))
    dst = int.from_bytes(addressing.gid(fabric.host("h7")))

    def choices(switch: str) -> list[int]:
        calls = [tables[switch].route(1, dst, ev)[0] for ev in range(400)]
        return [call.params["port"] for call in calls if isinstance(call, ActionCall)]

    assert len(Counter(choices("p0t0n0"))) == LAB.t1
    assert min(Counter(choices("p0t0n0")).values()) > 400 / LAB.t1 / 2
    assert choices("p0t0n0") != choices("p1t0n0")


def test_an_empty_list_and_an_unknown_usid_are_not_forwarded() -> None:
    fabric = clos(TINY)
    tables = models(fabric, SwitchSettings())
    own = addressing.switch_usid(fabric.switch("p0t0n0"))
    assert tables["p0t0n0"].route(0, address(own), 0)[0] == "argument_zero"
    elsewhere = addressing.usid(addressing.UsidRole.T1, 1, 0)
    assert tables["p0t0n0"].route(0, address(own, elsewhere), 0)[0] == "no_route"


def test_a_usid_can_name_a_link() -> None:
    fabric = clos(TINY)
    switch = fabric.switch("p0t0n0")
    link = rows.adjacency(fabric, switch, 3, usid=0x0123)
    model = TableModel([*entries(fabric, switch), link])
    list_ = address(addressing.switch_usid(switch), 0x0123, 0x5001)
    call, dst = model.route(0, list_, 0)
    assert isinstance(call, ActionCall)
    assert call.params["port"] == 3
    assert dst == address(0x5001)


def address(*usids: int) -> int:
    return int.from_bytes(addressing.usid_address(usids))


def port_row(written: list[TableEntry], port: int) -> ActionCall:
    found = [e.action for e in written if e.table == rows.PORT and e.match["port"] == Exact(port)]
    assert len(found) == 1
    return found[0]


def test_ports_to_hosts_do_not_mark_and_trim_later() -> None:
    fabric = clos(LAB)
    written = entries(fabric, fabric.switch("p0t0n0"))
    down, up = port_row(written, 0).params, port_row(written, LAB.hosts_per_t0).params
    assert (down["host_facing"], down["ecn_low"], down["ecn_high"]) == (1, 0, 0)
    assert (up["host_facing"], up["ecn_low"], up["ecn_high"]) == (0, 4, 12)
    assert (up["trim_threshold"], down["trim_threshold"]) == (16, 24)
    assert up["trim_size"] == down["trim_size"] == 144


def test_every_port_has_one_row_and_room_for_what_it_does_not_trim() -> None:
    fabric = clos(UNEVEN)
    for switch in fabric.switches:
        written = entries(fabric, switch)
        configs = port_configs(fabric, switch)
        assert sorted(configs) == list(range(fabric.port_count(switch)))
        for port, config in configs.items():
            trim = port_row(written, port).params["trim_threshold"]
            data, control = config.queues
            assert data.packets >= trim + 16
            assert data.bytes == data.packets * data_frame_bytes(UNEVEN)
            assert control.bytes == 2 * data.bytes


def test_delay_stands_at_every_egress_and_at_the_ingress_from_hosts() -> None:
    fabric = clos(TINY)
    config = port_configs(fabric, fabric.switch("p0t0n0"))
    assert [config[p].ingress_delay_ns for p in range(4)] == [200_000, 200_000, 0, 0]
    assert {c.egress_delay_ns for c in config.values()} == {200_000}


def test_marking_and_trimming_can_be_switched_off_and_set() -> None:
    fabric = clos(TINY)
    switch = fabric.switch("p0t1n0")
    off = port_row(entries(fabric, switch, SwitchSettings(trimming=False, ecn=False)), 0).params
    assert (off["trim_threshold"], off["ecn_high"]) == (0, 0)
    depths = Thresholds(ecn_low=1, ecn_high=2, trim=3, trim_last_hop=5)
    settings = SwitchSettings(thresholds=depths, trim_size=256, rewrite_length=True)
    own = port_row(entries(fabric, switch, settings), 0).params
    assert (own["ecn_low"], own["ecn_high"], own["trim_threshold"]) == (1, 2, 3)
    assert (own["trim_size"], own["rewrite_length"]) == (256, 1)


def test_a_trim_size_too_short_for_a_nack_is_refused() -> None:
    with pytest.raises(ValueError, match="trim_size is 64, and must be from 122 bytes"):
        SwitchSettings(trim_size=64)


def test_a_fault_without_keys_is_a_blackhole() -> None:
    assert rows.fault() == TableEntry(
        rows.FAULT, {}, ActionCall("MrcIngress.faults.lose", {"per_million": 1_000_000}), 1
    )
    grey = rows.fault(per_million=200_000, ingress_port=1, ev=0xC001)
    assert grey.match == {"ingress_port": OptionalMatch(1), "ev": Ternary(0xC001, 0xFFFF_FFFF)}


def test_thresholds_grow_with_the_product_of_bandwidth_and_delay() -> None:
    twin = FabricSpec(planes=4, t0=2, t1=4, hosts_per_t0=4, delay_ns=10_700_000)
    depths = thresholds(twin)  # 29.4 packets of 4238 B in 99.7 ms at 10 Mb/s
    assert depths == Thresholds(ecn_low=6, ecn_high=24, trim=30, trim_last_hop=45)
    assert thresholds(LAB) == Thresholds(ecn_low=4, ecn_high=12, trim=16, trim_last_hop=24)


def test_rows_are_the_same_every_time() -> None:
    fabric = clos(LAB)
    for switch in fabric.switches:
        assert entries(fabric, switch) == entries(clos(LAB), switch)


def test_no_two_rows_of_a_switch_have_one_key() -> None:
    fabric = clos(UNEVEN)
    for routing, switch in product(Routing, fabric.switches):
        written = entries(fabric, switch, SwitchSettings(routing=routing))
        keys = [(e.table, tuple(e.match.items())) for e in written]
        assert len(set(keys)) == len(keys)
