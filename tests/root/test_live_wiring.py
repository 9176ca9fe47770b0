"""The wires of the live world: there, as ordered, and silent."""

import socket
import time

import pytest

from tests.root.inside import inside
from tests.support.live import lab, settings, tiny
from topologies import builders
from topologies.model import PortRef
from worlds.live.carrier import CarrierWatch
from worlds.live.netlink import IFF_NOARP
from worlds.live.offloads import Offloads
from worlds.live.raw_port import RECEIVE_BYTES_MIN, RawPort
from worlds.live.wiring import Wiring
from worlds.live.world import LiveWorld

pytestmark = pytest.mark.root

FRAME = bytes.fromhex("020100000000 020300000000 86dd") + bytes(4000)


@inside
def test_every_interface_is_made_as_the_fabric_says() -> None:
    fabric = lab()
    wiring = Wiring(fabric)
    indexes = []
    for node in wiring.nodes:
        states = {s.name: s for s in wiring.namespace(node).netlink.interfaces()}
        ends = wiring.interfaces(node)
        assert set(states) == {end.name for end in ends.values()}
        for end in ends.values():
            state = states[end.name]
            assert (state.index, state.mtu) == (end.index, builders.link_mtu(fabric.spec))
            assert state.flags & IFF_NOARP
            assert state.carrier
            indexes.append(end.index)
    assert len(set(indexes)) == 2 * len(fabric.links)


@inside
def test_offloads_are_off_by_ethtools_own_word() -> None:
    wiring = Wiring(tiny())
    offloads = Offloads()
    for node in wiring.nodes:
        for end in wiring.interfaces(node).values():
            assert offloads.read_back(wiring.namespace(node).socket, end.name) == []
            shown = wiring.net[node].cmd("ethtool -k", end.name)
            for feature in (
                "rx-checksumming",
                "tx-checksumming",
                "scatter-gather",
                "tcp-segmentation-offload",
                "generic-segmentation-offload",
                "generic-receive-offload",
                "large-receive-offload",
                "rx-vlan-offload",
                "tx-vlan-offload",
            ):
                assert f"{feature}: off" in shown, (end.name, feature, shown)


@inside
def test_an_idle_fabric_shows_no_frame_on_any_port_for_ten_seconds() -> None:
    world = LiveWorld(lab(), settings())
    world.start()
    sniffers = []
    for node in world.wiring.nodes:
        with world.wiring.namespace(node).entered():
            sniffers += [RawPort(end.name) for end in world.wiring.interfaces(node).values()]
    world.run_until(world.now_ns() + 10_000_000_000)
    assert [port.interface for port in sniffers if port.receive() is not None] == []
    for node in world.wiring.nodes:
        for state in world.wiring.namespace(node).netlink.interfaces():
            assert (state.stats["rx_packets"], state.stats["tx_packets"]) == (0, 0), state.name
    world.close()


@inside
def test_mininets_own_ways_work() -> None:
    net = Wiring(tiny()).net
    assert "h0-eth0" in net["h0"].cmd("ip -brief link")
    assert "h0-eth1" in net["h0"].cmd("ls /sys/class/net")
    assert "h0-eth0" not in net["p0t0n0"].cmd("ip -brief link")
    net.configLinkStatus("h0", "p0t0n0", "down")
    assert "state DOWN" in net["p0t0n0"].cmd("ip link show p0t0n0-eth0")
    net.configLinkStatus("h0", "p0t0n0", "up")
    assert "LOWER_UP" in net["p0t0n0"].cmd("ip link show p0t0n0-eth0")
    out, _ = net["h1"].popen("ip -brief link").communicate()
    assert b"h1-eth0" in out
    assert net["h0"].MAC("h0-eth1") == "02:03:00:00:00:01"
    assert len(net.linksBetween(net["p0t0n0"], net["p0t1n1"])) == 1


@inside
def test_a_lost_carrier_is_heard_of_within_50_ms_at_both_ends() -> None:
    wiring = Wiring(tiny())
    end = PortRef("p0t0n0", 0)
    peer = wiring.fabric.peer(end)
    heard = {}
    for node in (end.node, peer.node):
        with wiring.namespace(node).entered():
            heard[node] = CarrierWatch()
            heard[node].read()
    for up in (False, True) * 5:
        wiring.set_up(end.node, [end.port], up)
        deadline = time.monotonic() + 0.05
        left = {end.node: end, peer.node: peer}
        while left and time.monotonic() < deadline:
            for node, ref in list(left.items()):
                index = wiring.interfaces(node)[ref.port].index
                if (index, up) in heard[node].read():
                    del left[node]
        assert not left, (up, left)


@inside
def test_a_raw_port_holds_2000_data_frames_and_counts_what_it_cannot() -> None:
    wiring = Wiring(tiny())
    with wiring.namespace("h0").entered():
        sender = RawPort("h0-eth0")
    with wiring.namespace("p0t0n0").entered():
        port = RawPort("p0t0n0-eth0")
    got = port.socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    assert got // 2 >= RECEIVE_BYTES_MIN
    sent = 5000
    for _ in range(sent):
        sender.send(FRAME)
    taken = 0
    while port.receive() is not None:
        taken += 1
    assert taken >= 1500
    assert taken + port.ring_drops() == sent
    assert sender.receive() is None, "a port does not hear itself"


@inside
def test_frames_into_a_dead_wire_are_counted_once_each() -> None:
    wiring = Wiring(tiny())
    with wiring.namespace("h0").entered():
        port = RawPort("h0-eth0")

    def counted() -> tuple[int, int, int]:
        (state,) = [s for s in wiring.namespace("h0").netlink.interfaces() if s.name == "h0-eth0"]
        return state.stats["tx_packets"], state.stats["tx_dropped"], port.sent_down

    wiring.set_up("p0t0n0", [0], up=False)
    for _ in range(10):
        port.send(FRAME)
    assert counted() == (0, 10, 0)
    wiring.set_up("h0", [0], up=False)
    for _ in range(7):
        port.send(FRAME)
    assert counted() == (0, 10, 7)
    for node in ("h0", "p0t0n0"):
        wiring.set_up(node, [0], up=True)
    for _ in range(5):
        port.send(FRAME)
    assert sum(counted()) == 22, "the kernel may need a moment to open a wire again, and counts it"
