"""Our bytes against scapy's RoCE layer, which is not ours."""

from typing import Any

import pytest
from hypothesis import given, settings

from hosts.wire import icrc
from hosts.wire.bth import Bth
from tests.unit.test_wire_headers import HEADERS, bits
from tests.unit.test_wire_packet import USIDS, Write, to_qp, writes

roce = pytest.importorskip("scapy.contrib.roce")
inet6 = pytest.importorskip("scapy.layers.inet6")
l2 = pytest.importorskip("scapy.layers.l2")
inet = pytest.importorskip("scapy.layers.inet")


def scapy_icrc(inner: bytes) -> bytes:
    """scapy's own computation over an IPv6 packet that ends in an iCRC."""
    dissected = inet6.IPv6(inner)
    udp = dissected[inet.UDP]
    bth = roce.BTH(bytes(udp.payload))
    udp.remove_payload()
    del bth.icrc
    computed: bytes = bytes(dissected / bth)[-icrc.LENGTH :]
    return computed


@settings(max_examples=50, deadline=None)
@given(writes(), bits(32))
def test_icrc_equals_scapys(write: Write, ev: int) -> None:
    frame = write.emit(to_qp(ev, USIDS))
    assert scapy_icrc(frame[54:]) == frame[-icrc.LENGTH :]
    native = write.emit(to_qp(ev, None))
    assert native[14:] == frame[54:]


@settings(max_examples=50, deadline=None)
@given(HEADERS[Bth])
def test_bth_reads_in_scapy_as_in_ours(bth: Any) -> None:
    theirs = roce.BTH(bth.emit() + bytes(4))
    assert (theirs.opcode, theirs.dqpn, theirs.psn) == (bth.opcode, bth.dest_qpn, bth.psn)
    assert (theirs.ackreq, theirs.padcount, theirs.pkey) == (bth.ack_req, bth.pad, bth.p_key)
    assert theirs.resv7 == bth.rtx << 5 | bth.ts << 4
    assert theirs.version == 0
