"""The Linux kernel as an oracle for uSID processing: nobody here wrote it.

The kernel implements NEXT-C-SID (RFC 9800) for End since 6.1 and for End.X since 6.6.  Every packet
goes through a kernel router in a namespace of the test and through the compiled p4/mrc.p4; what
comes out must be the same bytes, Ethernet addresses aside, or nothing in both cases.

One difference is known and has its own test: a list that names the same switch twice in a row.
"""

import contextlib
import select
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from switches import entries as rows
from switches.api import ActionCall, Exact, Lpm, TableEntry, UpdateType, write_all
from switches.engine.build import BuildError, build
from switches.engine.library import EngineSwitch
from switches.entries import entries
from tests.engine import drive
from tests.engine.contract import FABRIC, HOST_PORT, OWN, PORT_COUNT, SWITCH, UPLINK_PORT
from tests.engine.frames import encapsulated
from tests.engine.namespace import Namespace
from topologies import addressing

pytestmark = pytest.mark.root

PROGRAM = Path(__file__).parents[2] / "p4" / "build" / "mrc.json"
LINK = OWN ^ 0x0155
"""The uSID of a link of the switch, for uA."""
BLOCK = addressing.usid_address([0])[:4]
SRC, INNER_SRC, INNER_DST = (bytes.fromhex("20010db8") + bytes([*[0] * 11, n]) for n in (1, 2, 3))
INLET_MAC = bytes.fromhex("020000000011")
NEXT_HOP = "2001:db8:1::2"
"""Not link-local: End.X looks it up."""
USIDS = 6
ETHERNET_BYTES = 14
NUMBER = struct.Struct(">I")
"""Last bytes of a packet: which one it is."""
WAIT_S = 5.0


@dataclass(frozen=True, slots=True)
class Packet:
    usids: tuple[int, ...]
    hop_limit: int

    def frame(self, number: int, dst_mac: bytes) -> bytes:
        payload = bytes(20) + NUMBER.pack(number)
        frame = encapsulated(
            addressing.usid_address(list(self.usids)), hop_limit=self.hop_limit, payload=payload
        )
        outer = replace(frame.ip, src=SRC)
        rest = INNER_SRC + INNER_DST
        inner = frame.rest[:8] + rest + frame.rest[8 + len(rest) :]
        return replace(
            frame, dst_mac=dst_mac, src_mac=b"\x02\0\0\0\0\x09", ip=outer, rest=inner
        ).emit()


def number_of(packet: bytes) -> int:
    return int(NUMBER.unpack(packet[-NUMBER.size :])[0])


Answer = dict[int, bytes]
"""By number of the packet: the IPv6 packet that came out.  What is not there was dropped."""


class KernelRouter:
    """Takes frames at one veth and routes the block out of the other, as its SIDs say."""

    SENTINEL = Packet((0x7777,), 64)

    def __init__(self) -> None:
        self._namespace = Namespace()
        self._resources = contextlib.ExitStack()
        self._resources.callback(self._namespace.close)
        try:
            self._set_up()
            self._inlet = self._socket("tin")
            self._outlet = self._socket("tout")
        except BaseException:
            self.close()
            raise

    def _set_up(self) -> None:
        self._namespace.veth("tin", "kin")
        self._namespace.veth("tout", "kout")
        for name in ("kin", "kout"):
            for key, value in (("addr_gen_mode", 1), ("disable_ipv6", 0), ("accept_dad", 0)):
                self._sysctl(f"conf/{name}/{key}", value)
        self._namespace.run("ip", "link", "set", "kin", "address", INLET_MAC.hex(":"))
        self._sysctl("conf/all/forwarding", 1)
        self._ip("addr", "add", "2001:db8:1::1/64", "dev", "kout", "nodad")
        self._ip("neigh", "add", NEXT_HOP, "lladdr", "02:00:00:00:00:02", "dev", "kout")
        self._ip("route", "add", prefix(), "via", NEXT_HOP, "dev", "kout")

    def add_sid(self, usid: int, *action: str) -> None:
        """Skips the test where kernel or iproute2 lack the behaviour."""
        flavor = ("flavors", "next-csid", "lblen", "32", "nflen", "16")
        try:
            self._ip(
                "route", "add", prefix(usid), "encap", "seg6local", "action", *action, *flavor,
                *("dev", "kout"),
            )  # fmt: skip
        except AssertionError as error:
            pytest.skip(f"this kernel or iproute2 has no {action[0]} with NEXT-C-SID: {error}")

    def route(self, packets: list[Packet]) -> Answer:
        """What comes out.  The last packet, a sentinel, says when to stop listening."""
        sentinel = len(packets)
        for number, packet in enumerate([*packets, self.SENTINEL]):
            self._inlet.send(packet.frame(number, INLET_MAC))
        answer: Answer = {}
        while sentinel not in answer:
            came = self._receive(WAIT_S)
            assert came is not None, "the kernel lost the sentinel"
            answer[number_of(came)] = came
        while (late := self._receive(0.0)) is not None:
            answer[number_of(late)] = late
        del answer[sentinel]
        return answer

    def close(self) -> None:
        self._resources.close()

    def _receive(self, timeout_s: float) -> bytes | None:
        while select.select([self._outlet], [], [], timeout_s)[0]:
            frame = self._outlet.recv(4096)
            if frame[ETHERNET_BYTES + 24 : ETHERNET_BYTES + 28] == BLOCK:
                return frame[ETHERNET_BYTES:]
        return None

    def _socket(self, interface: str) -> socket.socket:
        return self._resources.enter_context(self._namespace.raw_socket(interface))

    def _ip(self, *words: str) -> None:
        self._namespace.run("ip", "-6", *words)

    def _sysctl(self, key: str, value: int) -> None:
        self._namespace.run("sh", "-c", f"echo {value} > /proc/sys/net/ipv6/{key}")


def prefix(*usids: int) -> str:
    """The block, or the block and one uSID, as a prefix."""
    address = addressing.usid_address(list(usids or (0,)))
    return f"{socket.inet_ntop(socket.AF_INET6, address)}/{32 + 16 * len(usids)}"


class EngineRouter:
    """The compiled program with the same SIDs and the same route."""

    def __init__(self, library: Path) -> None:
        self._switch = EngineSwitch(library, SWITCH.name, PORT_COUNT, seed=1)
        next_hop = {"port": UPLINK_PORT, "src_mac": 1, "dst_mac": 2}
        block = int.from_bytes(BLOCK) << 96
        everything = TableEntry(
            rows.FIB, {"dst": Lpm(block, 32)}, ActionCall("MrcIngress.routing.forward", next_hop)
        )
        link = TableEntry(
            rows.USID_ADJACENCY,
            {"sid": Exact(int.from_bytes(addressing.usid_address([LINK])[:6]))},
            ActionCall("MrcIngress.routing.uA", next_hop),
        )
        device = self._switch.device
        write_all(device, UpdateType.INSERT, [*entries(FABRIC, SWITCH), everything, link])

    def route(self, packets: list[Packet]) -> Answer:
        answer: Answer = {}
        for number, packet in enumerate(packets):
            now_ns = self._switch.device.switch_stats().now_ns
            frame = packet.frame(number, bytes(6))
            out = drive.send(self._switch, HOST_PORT, frame, now_ns)
            out += drive.run_until(self._switch, now_ns + 10**9)
            assert len(out) <= 1
            if out:
                answer[number] = out[0].frame[ETHERNET_BYTES:]
        return answer

    def drops(self) -> dict[str, int]:
        cells = self._switch.device.read_counter(rows.DROPS_COUNTER)
        return dict(zip(rows.DROP_REASONS, (cell.packets for cell in cells), strict=True))

    def close(self) -> None:
        self._switch.close()


@pytest.fixture(scope="module")
def kernel() -> Iterator[KernelRouter]:
    with contextlib.closing(KernelRouter()) as router:
        router.add_sid(OWN, "End")
        yield router


@pytest.fixture(scope="module")
def kernel_with_link(kernel: KernelRouter) -> KernelRouter:
    kernel.add_sid(LINK, "End.X", "nh6", NEXT_HOP)
    return kernel


@pytest.fixture(scope="module")
def engine() -> Iterator[EngineRouter]:
    try:
        library = build(PROGRAM).library
    except BuildError as error:
        pytest.skip(str(error))
    with contextlib.closing(EngineRouter(library)) as router:
        yield router


ANY_USID = st.integers(min_value=0, max_value=0xFFFF)
FOREIGN_USID = ANY_USID.filter(lambda usid: usid not in (OWN, LINK))
OFTEN_ZERO = st.one_of(st.just(0), FOREIGN_USID)
HOP_LIMITS = st.one_of(st.sampled_from([0, 1, 2, 3, 64, 255]), st.integers(0, 255))


def packets(first: st.SearchStrategy[int]) -> st.SearchStrategy[list[Packet]]:
    """Lists that begin with such a uSID; our own ones do not come again."""
    rest = st.lists(OFTEN_ZERO, max_size=USIDS - 1)
    usids = st.builds(lambda head, tail: (head, *tail), first, rest)
    return st.lists(st.builds(Packet, usids, HOP_LIMITS), min_size=1, max_size=40)


@given(sent=packets(st.one_of(st.just(OWN), st.just(OWN), FOREIGN_USID)))
@settings(max_examples=60)
def test_uN_is_what_the_kernel_calls_end(
    kernel: KernelRouter, engine: EngineRouter, sent: list[Packet]
) -> None:
    assert engine.route(sent) == kernel.route(sent)


@given(sent=packets(st.one_of(st.just(LINK), st.just(OWN))))
@settings(max_examples=60)
def test_uA_is_what_the_kernel_calls_end_x(
    kernel_with_link: KernelRouter, engine: EngineRouter, sent: list[Packet]
) -> None:
    assert engine.route(sent) == kernel_with_link.route(sent)


@pytest.mark.parametrize("hop_limit", [0, 1, 2, 64])
def test_the_end_of_a_list_is_dropped_by_both(
    kernel: KernelRouter, engine: EngineRouter, hop_limit: int
) -> None:
    before = engine.drops()["argument_zero"]
    sent = [Packet((OWN,), hop_limit), Packet((OWN, 0, 0, 0, 0, 0), hop_limit)]
    assert engine.route(sent) == kernel.route(sent) == {}
    assert engine.drops()["argument_zero"] == before + 2


def test_a_zero_within_a_list_is_no_end(kernel: KernelRouter, engine: EngineRouter) -> None:
    sent = [Packet((OWN, 0, 0, 0, 0, 5), 64), Packet((OWN, 0, 7), 64)]
    answer = kernel.route(sent)
    assert engine.route(sent) == answer
    assert answer[0][24:40] == addressing.usid_address([0, 0, 0, 0, 5])


@pytest.mark.parametrize(("hop_limit", "comes_out"), [(0, False), (1, False), (2, True)])
def test_hop_limits_end_where_the_kernel_ends_them(
    kernel: KernelRouter, engine: EngineRouter, hop_limit: int, comes_out: bool
) -> None:
    sent = [Packet((OWN, 5), hop_limit), Packet((5, 6), hop_limit)]
    answer = kernel.route(sent)
    assert engine.route(sent) == answer
    assert len(answer) == (2 if comes_out else 0)
    assert all(packet[7] == hop_limit - 1 for packet in answer.values())


def test_the_difference_a_switch_named_twice_in_a_row(
    kernel: KernelRouter, engine: EngineRouter
) -> None:
    """The kernel looks up again within one pass and takes both off; a P4 pipeline passes once.

    Ours takes one off a pass, so it then needs a route to itself, which no fabric has: there the
    packet is a counted `no_route`.  No path of `topologies.routing` is such a list.
    """
    twice = [Packet((OWN, OWN, 5), 64)]
    [by_kernel], [by_engine] = kernel.route(twice).values(), engine.route(twice).values()
    assert by_kernel[24:40] == addressing.usid_address([5])
    assert by_engine[24:40] == addressing.usid_address([OWN, 5])
    assert by_kernel[7] == by_engine[7] == 63
