"""Scapy layers for MRC: to read captures, to build packets by hand, and to test against.

Not on any data path.  `from hosts.scapy_mrc import *` binds MRC to UDP port 4971; for 4791, which
is RoCEv2's in scapy, call `bind(4791)`.

>>> from scapy.layers.inet6 import IPv6, UDP
>>> probe = IPv6()/UDP(sport=0xc00a, dport=4971, chksum=0)/BTH(dest_qpn=7)/PETH(probe_id=1)

What is left None is worked out: opcode from the header that follows (writes must say theirs), TS
from TSETH, the pad count, and the iCRC over the IPv6 header next to UDP.  Padding bytes stay part
of Raw when a packet is read.
"""
# ruff: noqa: RUF012 - fields_desc is scapy's own convention

from typing import Any

from scapy.fields import (
    BitField,
    ByteEnumField,
    ByteField,
    ConditionalField,
    FCSField,
    IntField,
    ShortField,
    SignedShortField,
    XBitField,
    XIntField,
    XLongField,
    XShortField,
)
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet, Raw, bind_layers

from hosts.wire import icrc
from hosts.wire.dscp import Dscp
from hosts.wire.nack import NackReason
from hosts.wire.opcode import WITH_IMMEDIATE, WRITES, Opcode
from hosts.wire.udp import MRC_PORT

__all__ = [
    "AETH", "BTH", "EETH", "ERTH", "METH", "NETH", "PETH", "RETH", "SETH", "TSETH", "ImmDt",
    "bind",
]  # fmt: skip

_OPCODES = {int(opcode): opcode.name for opcode in Opcode}
_REASONS = {int(reason): reason.name for reason in NackReason}
_TRIMMED = (Dscp.TRIMMED, Dscp.TRIMMED_LASTHOP)
_ICRC_FORMAT = "<I"


class BTH(Packet):
    """Base Transport Header; owns the iCRC at the packet's end, which a trimmed one lacks."""

    name = "MRC BTH"
    fields_desc = [
        ByteEnumField("opcode", None, _OPCODES),
        BitField("se", 0, 1),
        BitField("m", 0, 1),
        BitField("pad", None, 2),
        BitField("version", 0, 4),
        XShortField("p_key", 0xFFFF),
        ByteField("reserved", 0),
        BitField("dest_qpn", 0, 24),
        BitField("ack_req", 0, 1),
        BitField("reserved2", 0, 1),
        BitField("rtx", 0, 1),
        BitField("ts", None, 1),
        BitField("reserved3", 0, 4),
        BitField("psn", 0, 24),
        ConditionalField(FCSField("icrc", None, fmt=_ICRC_FORMAT), lambda p: not p.is_trimmed()),
    ]

    def is_trimmed(self) -> bool:
        """By the DSCP of the outermost IPv6 header."""
        outer, layer = None, self.underlayer
        while layer is not None:
            outer = layer if isinstance(layer, IPv6) else outer
            layer = layer.underlayer
        return outer is not None and outer.tc >> 2 in _TRIMMED

    def guess_payload_class(self, payload: bytes) -> Any:
        if self.opcode in WRITES:
            return METH
        return _CONTROL.get(self.opcode, Raw)

    def post_build(self, header: bytes, payload: bytes) -> bytes:
        """`payload` ends in what FCSField put there for the iCRC."""
        out, trimmed = bytearray(header), self.is_trimmed()
        body = payload if trimmed else payload[: -icrc.LENGTH]
        if self.opcode is None:
            out[0] = next((op for op, cls in _CONTROL.items() if cls is type(self.payload)), 0)
        if self.pad is None and out[0] in WRITES:
            pad = -len(body) & 3
            out[1] |= pad << 4
            body += bytes(pad)
        if self.ts is None and self.haslayer(TSETH):
            out[8] |= 1 << 4
        packet = bytes(out) + body
        if trimmed:
            return packet
        return packet + (self._icrc(packet) if self.icrc is None else payload[-icrc.LENGTH :])

    def _icrc(self, packet: bytes) -> bytes:
        udp = self.underlayer
        if not isinstance(udp, UDP) or not isinstance(udp.underlayer, IPv6):
            return bytes(icrc.LENGTH)
        around = udp.underlayer.copy()
        around[UDP].remove_payload()
        around[UDP].dport = udp.dport  # with BTH gone its default would no longer be MRC's
        whole = bytes(around / Raw(packet + bytes(icrc.LENGTH)))
        value = icrc.icrc(whole, 0, len(whole) - icrc.LENGTH)
        return value.to_bytes(icrc.LENGTH, "little")


class METH(Packet):
    """Message Extension header."""

    name = "MRC METH"
    fields_desc = [ShortField("rqmsn", 0), ShortField("msn", 0)]

    def guess_payload_class(self, payload: bytes) -> Any:
        bth = self.underlayer
        return TSETH if bth is not None and bth.ts else RETH


class TSETH(Packet):
    """Timestamp header."""

    name = "MRC TSETH"
    fields_desc = [
        ShortField("tx_ticks", 0),
        BitField("tsr", 0, 1),
        BitField("reserved", 0, 11),
        BitField("ftype", 1, 4),
    ]

    def guess_payload_class(self, payload: bytes) -> Any:
        return RETH


class RETH(Packet):
    """RDMA Extended Transport Header."""

    name = "MRC RETH"
    fields_desc = [XLongField("va", 0), XIntField("rkey", 0), IntField("dma_length", 0)]

    def guess_payload_class(self, payload: bytes) -> Any:
        layer = self.underlayer
        while layer is not None and not isinstance(layer, BTH):
            layer = layer.underlayer
        return ImmDt if layer is not None and layer.opcode in WITH_IMMEDIATE else Raw


class ImmDt(Packet):
    """Immediate data."""

    name = "MRC ImmDt"
    fields_desc = [XIntField("imm", 0)]


class AETH(Packet):
    """Transport ACK or NAK."""

    name = "MRC AETH"
    fields_desc = [ByteField("syndrome", 0x1F), BitField("msn", 0, 24)]


class SETH(Packet):
    """Reliability SACK, CC_STATE included."""

    name = "MRC SETH"
    fields_desc = [
        BitField("type", 0, 4),
        BitField("next", 0, 5),
        BitField("m", 0, 2),
        BitField("r4", 0, 1),
        BitField("r3", 0, 1),
        BitField("r2", 0, 1),
        BitField("pr", 0, 1),
        BitField("r0", 0, 1),
        SignedShortField("ack_psn_offset", 0),
        XIntField("entropy", 0),
        ShortField("spdcid", 0),
        ShortField("dpdcid", 0),
        ByteField("reserved", 0),
        BitField("cack_psn", 0, 24),
        BitField("cc_type", 0, 4),
        BitField("cc_fl", 0, 4),
        ByteField("mpr", 0),
        SignedShortField("sack_offset", 1),
        XLongField("bitmap", 0),
        ShortField("tx_ticks", 0),
        BitField("reserved2", 0, 1),
        BitField("ooo_count", 0, 15),
        BitField("restore_cwnd", 0, 1),
        BitField("rcv_cwnd_pen", 0, 7),
        BitField("rcvd_units", 0, 24),
    ]


class NETH(Packet):
    """Reliability NACK."""

    name = "MRC NETH"
    fields_desc = [
        BitField("type", 0, 4),
        BitField("next", 0, 5),
        BitField("reserved", 0, 7),
        ByteEnumField("reason", NackReason.TRIMMED, _REASONS),
        ByteField("vendor_info", 0),
        XIntField("entropy", 0),
        ShortField("spdcid", 0),
        ShortField("dpdcid", 0),
        ByteField("reserved2", 0),
        BitField("nack_psn", 0, 24),
        BitField("cc_type", 2, 4),
        BitField("cc_fl", 0, 4),
        ByteField("reserved3", 0),
        ShortField("tx_ticks", 0),
    ]


class PETH(Packet):
    """Reliability probe request."""

    name = "MRC PETH"
    fields_desc = [
        ShortField("type_next", 0),
        ByteField("reserved", 0),
        ByteField("vendor_info", 0),
        ShortField("probe_id", 0),
        ShortField("reserved2", 0),
        ShortField("spdcid", 0),
        ShortField("dpdcid", 0),
        ShortField("tx_ticks", 0),
        BitField("tsr", 0, 1),
        BitField("reserved3", 0, 11),
        BitField("ftype", 1, 4),
    ]


class ERTH(Packet):
    """Endpoint request."""

    name = "MRC ERTH"
    fields_desc = [
        BitField("type", 0, 4),
        BitField("next", 0, 5),
        BitField("reserved", 0, 5),
        BitField("op", 0, 2),
        ByteField("reserved2", 0),
        ByteField("vendor_info", 0),
        XIntField("port_status_mask", 0),
        IntField("reserved3", 0),
        ShortField("tx_ticks", 0),
        BitField("tsr", 0, 1),
        BitField("reserved4", 0, 11),
        BitField("ftype", 1, 4),
    ]


class EETH(Packet):
    """Endpoint response."""

    name = "MRC EETH"
    fields_desc = [
        BitField("type", 0, 4),
        BitField("next", 0, 5),
        BitField("r", 0, 3),
        BitField("op", 0, 2),
        BitField("r2", 0, 2),
        XBitField("reserved", 0, 208),
        ShortField("tx_ticks", 0),
        XBitField("reserved2", 0, 48),
    ]


_CONTROL: dict[int, Any] = {
    int(Opcode.ACKNOWLEDGE): AETH,
    int(Opcode.ENDPOINT_REQUEST): ERTH,
    int(Opcode.ENDPOINT_RESPONSE): EETH,
    int(Opcode.SACK): SETH,
    int(Opcode.NACK): NETH,
    int(Opcode.PROBE): PETH,
}


def bind(port: int) -> None:
    """Read UDP to that destination port as MRC, and send MRC to it by default."""
    bind_layers(UDP, BTH, dport=port)


bind(MRC_PORT)
