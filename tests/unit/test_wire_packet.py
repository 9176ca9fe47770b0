"""Whole frames: what a path emits, parse_frame reads; nonsense is refused by name."""

import struct
import time
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosts.errors import WireError
from hosts.wire import size
from hosts.wire.bth import Bth
from hosts.wire.dscp import Dscp, Ecn, traffic_class
from hosts.wire.eeth import Eeth
from hosts.wire.erth import EndpointOp, Erth
from hosts.wire.ipv6 import Ipv6
from hosts.wire.opcode import WITH_IMMEDIATE, WRITES, Opcode
from hosts.wire.packet import REASONS, parse_frame
from hosts.wire.path import ControlHeader, Path
from hosts.wire.peth import Peth
from hosts.wire.sack import Sack
from hosts.wire.udp import MRC_PORT, ROCE_PORT
from tests.unit.test_wire_headers import HEADERS, bits

GID_A = bytes.fromhex("fd6d7263000000000000000000000001")
GID_B = bytes.fromhex("fd6d7263000100000000000000000002")
USIDS = bytes.fromhex("5f000000400080014001c00100000000")
BTH_AT = {True: 102, False: 62}


@dataclass
class ToQp:
    """A path to one QP of the peer."""

    path: Path
    qpn: int

    def emit_write(self, opcode: int, psn: int, payload: bytes, **fields: Any) -> bytes:
        return self.path.emit_write(self.qpn, opcode, psn, payload, **fields)

    def emit_control(self, header: ControlHeader, **fields: Any) -> bytes:
        return self.path.emit_control(self.qpn, header, **fields)


def to_qp(
    ev: int = 0xC00A, outer_dst: bytes | None = USIDS, dport: int = MRC_PORT, qpn: int = 77
) -> ToQp:
    path = Path(
        src_mac=b"\x02\x03\0\0\0\0",
        dst_mac=b"\x02\x01\0\0\0\0",
        src_gid=GID_A,
        dst_gid=GID_B,
        outer_dst=outer_dst,
        ev=ev,
        udp_dport=dport,
    )
    return ToQp(path, qpn)


@dataclass
class Write:
    opcode: int
    psn: int
    payload: bytes
    fields: dict[str, Any]

    def emit(self, t: ToQp) -> bytes:
        return t.emit_write(self.opcode, self.psn, self.payload, **self.fields)


@st.composite
def writes(draw: st.DrawFn, max_payload: int = 600) -> Write:
    opcode = draw(st.sampled_from(sorted(WRITES)))
    fields = {
        "rqmsn": draw(bits(16)),
        "msn": draw(bits(16)),
        "va": draw(bits(64)),
        "rkey": draw(bits(32)),
        "dma_length": draw(bits(32)),
        "imm": draw(bits(32)) if opcode in WITH_IMMEDIATE else None,
        "tx_ticks": draw(st.none() | bits(16)),
        "ack_req": draw(st.booleans()),
        "rtx": draw(st.booleans()),
    }
    return Write(opcode, draw(bits(24)), draw(st.binary(max_size=max_payload)), fields)


@given(writes(), bits(32), st.booleans(), st.sampled_from([MRC_PORT, ROCE_PORT]))
def test_a_write_survives_the_wire(write: Write, ev: int, srv6: bool, dport: int) -> None:
    frame = write.emit(to_qp(ev, USIDS if srv6 else None, dport))
    packet = parse_frame(frame)
    assert bytes(packet.payload) == write.payload
    assert (packet.opcode, packet.psn, packet.ev) == (write.opcode, write.psn, ev)
    assert (packet.outer_src, packet.outer_dst) == (GID_A, USIDS if srv6 else GID_B)
    assert (packet.inner_src, packet.inner_dst) == (GID_A, GID_B)
    assert (packet.outer_dscp, packet.outer_ecn) == (Dscp.TRIMMABLE, Ecn.ECT0)
    assert (packet.hop_limit, packet.udp_dport, packet.dest_qpn) == (64, dport, 77)
    assert packet.pad == -len(write.payload) % 4
    assert not packet.trimmed
    assert packet.ts_present == (write.fields["tx_ticks"] is not None)
    for name in ("rqmsn", "msn", "va", "rkey", "dma_length", "imm", "ack_req", "rtx"):
        assert getattr(packet, name) == write.fields[name], name
    assert packet.tx_ticks == (write.fields["tx_ticks"] or 0)
    imm, ts = write.fields["imm"] is not None, packet.ts_present
    assert packet.nominal_size == size.nominal_size(len(write.payload), imm=imm, ts=ts)
    assert len(frame) == size.frame_size(packet.udp_payload_length, srv6=srv6)


CONTROL = {
    "aeth": Opcode.ACKNOWLEDGE,
    "sack": Opcode.SACK,
    "nack": Opcode.NACK,
    "peth": Opcode.PROBE,
    "erth": Opcode.ENDPOINT_REQUEST,
    "eeth": Opcode.ENDPOINT_RESPONSE,
}
CONTROL_HEADERS = {cls.__name__.lower(): strategy for cls, strategy in HEADERS.items()}


@pytest.mark.parametrize("name", CONTROL)
@given(data=st.data())
def test_a_control_packet_survives_the_wire(name: str, data: st.DataObject) -> None:
    header = data.draw(CONTROL_HEADERS[name])
    psn, srv6 = data.draw(bits(24)), data.draw(st.booleans())
    ack_req, rtx = data.draw(st.booleans()), data.draw(st.booleans())
    t = to_qp(outer_dst=USIDS if srv6 else None)
    packet = parse_frame(t.emit_control(header, psn=psn, ack_req=ack_req, rtx=rtx))
    assert (packet.opcode, packet.psn, packet.ack_req, packet.rtx) == (
        CONTROL[name], psn, ack_req, rtx,
    )  # fmt: skip
    for other in CONTROL:
        assert getattr(packet, other) == (header if other == name else None)
    assert len(packet.payload) == 0


def test_probes_feel_what_data_feels_and_the_rest_goes_ahead() -> None:
    t = to_qp()

    def mark(header: Any) -> tuple[int, int]:
        packet = parse_frame(t.emit_control(header, psn=0))
        return packet.outer_dscp, packet.outer_ecn

    data, control = (Dscp.NO_TRIM, Ecn.ECT0), (Dscp.CONTROL, Ecn.NOT_ECT)
    assert mark(Peth(probe_id=1)) == data
    assert mark(Erth(op=EndpointOp.EV_PROBE)) == data
    assert mark(Erth(op=EndpointOp.PORT_STATUS_UPDATE)) == control
    assert mark(Eeth(op=EndpointOp.EV_PROBE)) == control
    assert mark(Sack(cack_psn=1, entropy=0)) == control


def full_write(payload: int = 4096, **changes: Any) -> bytes:
    fields: dict[str, Any] = {
        "rqmsn": 1, "msn": 2, "va": 0x1000, "rkey": 9, "dma_length": payload, "tx_ticks": 5
    }  # fmt: skip
    return to_qp().emit_write(Opcode.WRITE_MIDDLE, 0xABCDEF, bytes(payload), **(fields | changes))


def test_sizes_are_those_of_the_dossier() -> None:
    """facts 2.9: frames in v6 in v6, no FCS."""
    assert len(full_write()) == 4238
    assert size.nominal_size(4096) == 4176
    t, n = to_qp(), to_qp(outer_dst=None)
    for header, srv6, native in (
        (Sack(cack_psn=0, entropy=0), 154, 114),
        (Peth(probe_id=0), 134, 94),
        (Erth(op=1), 134, 94),
        (Eeth(op=1), 154, 114),
    ):
        assert len(t.emit_control(header, psn=0)) == srv6
        assert len(n.emit_control(header, psn=0)) == native


def test_both_flow_labels_carry_the_high_half_of_the_ev() -> None:
    frame = to_qp(ev=0xBEEF1234).emit_control(Peth(probe_id=1), psn=0)
    outer, inner = Ipv6.parse(frame, 14), Ipv6.parse(frame, 54)
    assert outer.flow_label == inner.flow_label == 0xBEEF
    assert frame[94:96] == b"\x12\x34"


@given(st.integers(54, 4237), st.integers(0, 7))
def test_a_flipped_bit_is_noticed_wherever_the_icrc_looks(at: int, bit: int) -> None:
    frame = bytearray(full_write())
    frame[at] ^= 1 << bit
    masked = {*range(54, 58), 61, 100, 101, 106}  # class, flow label, hop limit, checksum, BTH 4
    if at in masked and not (at == 54 and bit >= 4):
        parse_frame(bytes(frame))
    else:
        with pytest.raises(WireError) as caught:
            parse_frame(bytes(frame))
        assert caught.value.reason in REASONS


def test_what_switches_change_does_not_matter_to_the_icrc() -> None:
    frame = bytearray(full_write())
    frame[0:12] = b"\x11" * 12
    frame[21] = 3  # hop limit
    frame[38:54] = USIDS[:4] + USIDS[6:] + b"\0\0"
    frame[14:16] = struct.pack(">H", 0x6000 | traffic_class(Dscp.TRIMMABLE, Ecn.CE) << 4)
    packet = parse_frame(bytes(frame))
    assert packet.ce_marked
    assert packet.hop_limit == 3


def refused(frame: bytes) -> str:
    with pytest.raises(WireError) as caught:
        parse_frame(frame)
    return caught.value.reason


@given(st.integers(0, 4237))
def test_a_frame_that_ends_early_is_refused(end: int) -> None:
    assert refused(full_write()[:end]) == "short"


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (12, 0x08, "ethertype"),
        (14, 0x45, "version"),
        (54, 0x45, "version"),
        (20, 6, "version"),  # not IPv6 in IPv6: read as native, where the bytes mean other things
        (60, 6, "next_header"),
        (96, 0, "udp_port"),
        (103, 1, "bth_version"),
        (19, 1, "length"),
    ],
)
def test_nonsense_is_refused_by_name(at: int, value: int, reason: str) -> None:
    frame = bytearray(full_write())
    frame[at] = value
    if at == 20:
        frame[14] = 0x45
    assert refused(bytes(frame)) == reason


def test_an_unknown_opcode_with_a_good_icrc_is_refused() -> None:
    frame = to_qp().emit_write(0xC0, 1, b"12345678", rqmsn=1, msn=2, va=0, rkey=9, dma_length=8)
    assert refused(frame) == "opcode"


def test_bytes_after_the_packet_are_ignored() -> None:
    assert parse_frame(full_write(64) + b"trailer").payload == bytes(64)


@given(writes(), st.integers(0, 400), st.booleans(), st.booleans())
def test_a_trimmed_packet_tells_its_first_headers(
    write: Write, keep: int, last_hop: bool, srv6: bool
) -> None:
    dscp = Dscp.TRIMMED_LASTHOP if last_hop else Dscp.TRIMMED
    write.fields["traffic_class"] = traffic_class(dscp, Ecn.ECT0)
    frame = write.emit(to_qp(0x1234C00A, USIDS if srv6 else None))[:keep]
    need = BTH_AT[srv6] + Bth.LENGTH + (4 if write.fields["tx_ticks"] is None else 8 - 2)
    if len(frame) < need:
        assert refused(frame) == "short"
        return
    packet = parse_frame(frame)
    assert packet.trimmed
    assert packet.trimmed_last_hop == last_hop
    assert (packet.psn, packet.ev, packet.dest_qpn) == (write.psn, 0x1234C00A, 77)
    assert (packet.rqmsn, packet.msn) == (write.fields["rqmsn"], write.fields["msn"])
    assert packet.tx_ticks == (write.fields["tx_ticks"] or 0)
    assert len(packet.payload) == 0


def test_lengths_of_a_trimmed_packet_are_not_believed() -> None:
    tc = traffic_class(Dscp.TRIMMED, Ecn.ECT0)
    frame = bytearray(full_write(traffic_class=tc)[:144])
    for at in (18, 58, 98):  # outer, inner, UDP
        frame[at : at + 2] = b"\xff\x07"
        assert parse_frame(bytes(frame)).psn == 0xABCDEF


def test_only_writes_are_trimmed() -> None:
    tc = traffic_class(Dscp.TRIMMED, Ecn.NOT_ECT)
    frame = to_qp().emit_control(Peth(probe_id=1), psn=0, traffic_class=tc)
    assert refused(frame) == "opcode"


def verdict(frame: bytes) -> str:
    try:
        assert repr(parse_frame(frame))
    except WireError as error:
        return error.reason
    return "packet"


@given(st.binary(max_size=400))
def test_any_bytes_are_a_packet_or_a_wire_error(frame: bytes) -> None:
    assert verdict(frame) in (*REASONS, "packet")


@given(writes(max_payload=40), st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255))))
def test_any_damage_is_a_packet_or_a_wire_error(
    write: Write, damage: list[tuple[int, int]]
) -> None:
    frame = bytearray(write.emit(to_qp()))
    for at, value in damage:
        frame[at % len(frame)] = value
    assert verdict(bytes(frame)) in (*REASONS, "packet")


def test_a_path_forgets_sizes_rather_than_grow() -> None:
    t = to_qp()
    for length in range(300):
        frame = t.emit_write(
            Opcode.WRITE_ONLY, 1, bytes(length), rqmsn=0, msn=0, va=0, rkey=0, dma_length=length
        )
        assert len(parse_frame(frame).payload) == length


def test_emit_and_parse_take_microseconds() -> None:
    """A bound ten times above what a slow machine needs: this guards against the wrong shape."""
    t, payload, n = to_qp(), bytes(4096), 2000
    start = time.process_time()
    for psn in range(n):
        frame = t.emit_write(
            Opcode.WRITE_MIDDLE, psn, payload, rqmsn=0, msn=0, va=0, rkey=0, dma_length=0,
            tx_ticks=1,
        )  # fmt: skip
        parse_frame(frame)
    assert (time.process_time() - start) / n < 100e-6
