"""Every header, one by one: lengths, round trips, and the bytes of an independent codec."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosts.errors import WireError
from hosts.wire import ev
from hosts.wire.aeth import Aeth, NakCode
from hosts.wire.bth import Bth
from hosts.wire.eeth import Eeth
from hosts.wire.erth import Erth
from hosts.wire.ethernet import Ethernet
from hosts.wire.immdt import Immdt
from hosts.wire.ipv6 import Ipv6
from hosts.wire.meth import Meth
from hosts.wire.nack import Nack
from hosts.wire.peth import Peth
from hosts.wire.reth import Reth
from hosts.wire.sack import Sack
from hosts.wire.tseth import Tseth
from hosts.wire.udp import Udp

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "wire" / "headers.json").read_text())


def bits(width: int) -> st.SearchStrategy[int]:
    return st.integers(0, (1 << width) - 1)


def signed(width: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << width - 1), (1 << width - 1) - 1)


address = st.binary(min_size=16, max_size=16)
mac = st.binary(min_size=6, max_size=6)


@st.composite
def sacks(draw: st.DrawFn) -> Sack:
    pr = draw(st.booleans())
    return Sack(
        cack_psn=draw(bits(24)),
        entropy=draw(bits(32)),
        m=draw(bits(2)),
        pr=pr,
        ack_psn_offset=draw(bits(16) if pr else signed(16)),
        spdcid=draw(bits(16)),
        dpdcid=draw(bits(16)),
        cc_type=draw(bits(4)),
        cc_fl=draw(bits(4)),
        mpr=draw(bits(8)),
        sack_offset=draw(signed(16)),
        bitmap=draw(bits(64)),
        tx_ticks=draw(bits(16)),
        ooo_count=draw(bits(15)),
        restore_cwnd=draw(st.booleans()),
        rcv_cwnd_pen=draw(bits(7)),
        rcvd_units=draw(bits(24)),
    )


HEADERS: dict[type, st.SearchStrategy[Any]] = {
    Ethernet: st.builds(Ethernet, mac, mac, bits(16)),
    Ipv6: st.builds(Ipv6, bits(8), bits(20), bits(16), bits(8), bits(8), address, address),
    Udp: st.builds(Udp, bits(16), bits(16), bits(16), bits(16)),
    Bth: st.builds(
        Bth, bits(8), bits(24), bits(24), st.booleans(), st.booleans(), st.booleans(), bits(2),
        bits(16),
    ),
    Meth: st.builds(Meth, bits(16), bits(16)),
    Tseth: st.builds(Tseth, bits(16), bits(1), bits(4)),
    Reth: st.builds(Reth, bits(64), bits(32), bits(32)),
    Immdt: st.builds(Immdt, bits(32)),
    Aeth: st.builds(Aeth, bits(8), bits(24)),
    Sack: sacks(),
    Nack: st.builds(
        Nack, reason=bits(8), nack_psn=bits(24), entropy=bits(32), tx_ticks=bits(16),
        spdcid=bits(16), dpdcid=bits(16), cc_type=bits(4), cc_fl=bits(4), vendor_info=bits(8),
    ),
    Peth: st.builds(
        Peth, probe_id=bits(16), tx_ticks=bits(16), spdcid=bits(16), dpdcid=bits(16),
        tsr=bits(1), ftype=bits(4), vendor_info=bits(8),
    ),
    Erth: st.builds(
        Erth, op=bits(2), port_status_mask=bits(32), tx_ticks=bits(16), tsr=bits(1),
        ftype=bits(4), vendor_info=bits(8),
    ),
    Eeth: st.builds(Eeth, bits(2), bits(16)),
}  # fmt: skip


@pytest.mark.parametrize("header", HEADERS, ids=lambda h: h.__name__)
@given(data=st.data())
def test_a_header_survives_the_wire(header: Any, data: st.DataObject) -> None:
    value = data.draw(HEADERS[header])
    wire = value.emit()
    assert len(wire) == header.LENGTH
    assert header.parse(b"##" + wire + b"##", 2) == value
    with pytest.raises(WireError, match="short"):
        header.parse(wire[:-1])


@given(bits(32))
def test_an_ev_survives_its_two_carriers(value: int) -> None:
    sport, flow_label = ev.split(value)
    assert sport < 1 << 16
    assert flow_label < 1 << 20
    assert ev.join(sport, flow_label) == value
    assert ev.join(sport, flow_label | 0xF0000) == value


def test_a_transport_version_that_we_do_not_know_is_refused() -> None:
    wire = bytearray(Bth(0xC7, 5, 6).emit())
    wire[1] |= 1
    with pytest.raises(WireError, match="bth_version"):
        Bth.parse(wire)


def test_ipv4_in_the_place_of_ipv6_is_refused() -> None:
    with pytest.raises(WireError, match="version"):
        Ipv6.parse(b"\x45" + bytes(39))


def test_acknowledgements_are_told_from_naks() -> None:
    assert not Aeth.ack(7).is_nak
    nak = Aeth.nak(NakCode.REMOTE_ACCESS_ERROR, 7)
    assert nak.is_nak
    assert nak.nak_code == NakCode.REMOTE_ACCESS_ERROR


def vector_bth(packet: dict[str, Any]) -> Bth:
    bth = packet["bth"]
    return Bth(
        opcode=int(bth["opcode"], 16),
        dest_qpn=bth["dqp"],
        psn=bth["psn"],
        ack_req=bool(bth["a"]),
        rtx=bool(bth["rtx"]),
        ts=bool(bth["ts"]),
        pad=bth["pad"],
        p_key=bth["p_key"],
    )


def vector_sack(seth: dict[str, Any]) -> Sack:
    state = seth["cc_state"]
    offset = seth["ack_psn_offset"]
    return Sack(
        cack_psn=seth["cack_psn"],
        entropy=seth["entropy"],
        m=seth["m"],
        pr=bool(seth["pr"]),
        ack_psn_offset=offset & 0xFFFF if seth["pr"] else offset,
        spdcid=seth["spdcid"],
        dpdcid=seth["dpdcid"],
        cc_type=seth["cc_type"],
        cc_fl=seth["cc_fl"],
        mpr=seth["mpr"],
        sack_offset=seth["sack_offset"],
        bitmap=seth["sack_bitmap"],
        tx_ticks=state["tx_timestamp"],
        ooo_count=state["ooo_count"],
        restore_cwnd=bool(state["r_c"]),
        rcv_cwnd_pen=state["rcv_cwnd_pen"],
        rcvd_units=state["rcvd_bytes"],
    )


def vector_stack(packet: dict[str, Any]) -> list[Any]:
    """The headers of a vector in wire order, as our values."""
    stack: list[Any] = [vector_bth(packet)]
    if meth := packet.get("meth"):
        stack.append(Meth(meth["rqmsn"], meth["msn"]))
    if tseth := packet.get("tseth"):
        stack.append(Tseth(tseth["tx_timestamp"], tseth["tsr"], tseth["ftype"]))
    if reth := packet.get("reth"):
        stack.append(Reth(reth["va"], reth["r_key"], reth["dmalen"]))
    if immdt := packet.get("immdt"):
        stack.append(Immdt(immdt["immdt"]))
    if aeth := packet.get("aeth"):
        stack.append(Aeth(aeth["syndrome"], aeth["msn"]))
    if seth := packet.get("seth"):
        stack.append(vector_sack(seth))
    if neth := packet.get("neth"):
        names = {"nack_reason": "reason", "tx_timestamp": "tx_ticks"}
        stack.append(Nack(**{names.get(k, k): v for k, v in neth.items()}))
    for name, cls in (("peth", Peth), ("erth", Erth)):
        if fields := packet.get(name):
            stack.append(
                cls(**{{"tx_timestamp": "tx_ticks"}.get(k, k): v for k, v in fields.items()})
            )
    return stack


@pytest.mark.parametrize(
    "packet", VECTORS, ids=[f"{i}-{v['bth']['opcode']}" for i, v in enumerate(VECTORS)]
)
def test_headers_equal_those_of_an_independent_codec(packet: dict[str, Any]) -> None:
    wire = bytes.fromhex(packet["hex"])
    stack = vector_stack(packet)
    assert b"".join(header.emit() for header in stack) == wire
    at = 0
    for header in stack:
        assert type(header).parse(wire, at) == header
        at += header.LENGTH
    assert at == len(wire)


def test_the_vectors_cover_every_opcode_but_the_disputed_one() -> None:
    seen = {int(packet["bth"]["opcode"], 16) for packet in VECTORS}
    assert seen == {*range(0xC6, 0xCC), 0xD1, 0xD8, 0xDC, 0xDD, 0xDE}
