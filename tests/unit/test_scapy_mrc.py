"""The scapy layers read our frames field by field, and build the same bytes."""

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hosts.wire.dscp import Dscp, Ecn, traffic_class
from hosts.wire.packet import parse_frame
from tests.unit.test_wire_headers import bits
from tests.unit.test_wire_packet import CONTROL, CONTROL_HEADERS, USIDS, Write, to_qp, writes

layers = pytest.importorskip("hosts.scapy_mrc")
inet6 = pytest.importorskip("scapy.layers.inet6")
l2 = pytest.importorskip("scapy.layers.l2")
raw_layer = pytest.importorskip("scapy.packet").Raw

LAYERS = {
    "aeth": layers.AETH,
    "sack": layers.SETH,
    "nack": layers.NETH,
    "peth": layers.PETH,
    "erth": layers.ERTH,
    "eeth": layers.EETH,
}


def rebuilt(packet: Any) -> bytes:
    """The same packet without its iCRC, which scapy then has to find itself."""
    bare = packet.copy()
    del bare[layers.BTH].icrc
    out: bytes = bytes(bare)
    return out


@settings(max_examples=60, deadline=None)
@given(writes(), bits(32), st.booleans())
def test_a_write_reads_the_same_in_scapy(write: Write, ev: int, srv6: bool) -> None:
    frame = write.emit(to_qp(ev, USIDS if srv6 else None))
    ours, theirs = parse_frame(frame), l2.Ether(frame)
    bth, meth, reth = theirs[layers.BTH], theirs[layers.METH], theirs[layers.RETH]
    assert (bth.opcode, bth.dest_qpn, bth.psn) == (ours.opcode, ours.dest_qpn, ours.psn)
    assert (bth.ack_req, bth.rtx, bth.ts) == (ours.ack_req, ours.rtx, ours.ts_present)
    assert (meth.rqmsn, meth.msn) == (ours.rqmsn, ours.msn)
    assert (reth.va, reth.rkey, reth.dma_length) == (ours.va, ours.rkey, ours.dma_length)
    if ours.ts_present:
        assert theirs[layers.TSETH].tx_ticks == ours.tx_ticks
    assert theirs.haslayer(layers.ImmDt) == (ours.imm is not None)
    if ours.imm is not None:
        assert theirs[layers.ImmDt].imm == ours.imm
    data = bytes(theirs[raw_layer].load) if theirs.haslayer(raw_layer) else b""
    assert data == bytes(ours.payload) + bytes(ours.pad)
    assert rebuilt(theirs) == frame


@pytest.mark.parametrize("name", CONTROL)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_control_packet_reads_the_same_in_scapy(name: str, data: st.DataObject) -> None:
    header = data.draw(CONTROL_HEADERS[name])
    frame = to_qp().emit_control(header, psn=data.draw(bits(24)))
    packet = l2.Ether(frame)
    theirs = packet[LAYERS[name]]
    for field in (each.name for each in fields(header)):
        value = getattr(header, field)
        if field == "ack_psn_offset" and value > 0x7FFF:
            value -= 0x10000
        assert getattr(theirs, field) == value, field
    assert rebuilt(packet) == frame


def test_a_trimmed_packet_has_no_icrc() -> None:
    tc = traffic_class(Dscp.TRIMMED, Ecn.ECT0)
    frame = to_qp().emit_write(
        0xC7, 5, bytes(1000), rqmsn=1, msn=2, va=3, rkey=4, dma_length=5, tx_ticks=6,
        traffic_class=tc,
    )[:144]  # fmt: skip
    packet = l2.Ether(frame)
    assert packet[layers.BTH].is_trimmed()
    assert packet[layers.RETH].rkey == 4
    assert bytes(packet) == frame


def test_a_packet_built_by_hand_is_one_of_ours() -> None:
    packet = (
        l2.Ether(src="02:03:00:00:00:00", dst="02:01:00:00:00:00")
        / inet6.IPv6(src="fd6d:7263::1", dst="5f00::1", tc=Dscp.TRIMMABLE << 2)
        / inet6.IPv6(src="fd6d:7263::1", dst="fd6d:7263::2")
        / inet6.UDP(sport=0xC00A, dport=4971, chksum=0)
        / layers.BTH(opcode="WRITE_ONLY_IMM", dest_qpn=77, psn=9)
        / layers.METH(msn=4)
        / layers.TSETH(tx_ticks=3)
        / layers.RETH(va=0x1000, rkey=8, dma_length=5)
        / layers.ImmDt(imm=6)
        / b"hello"
    )
    ours = parse_frame(bytes(packet))
    assert (bytes(ours.payload), ours.pad, ours.imm, ours.msn) == (b"hello", 3, 6, 4)
    probe = inet6.IPv6() / inet6.UDP(sport=1, chksum=0) / layers.BTH() / layers.PETH(probe_id=1)
    frame = l2.Ether() / probe
    assert parse_frame(bytes(frame)).peth is not None
