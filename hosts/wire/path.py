"""Frames out: everything that stays the same for one path is made once, for all QPs on it.

A frame is then a join of a ready prefix (Ethernet up to the destination QPN), one small struct,
the payload and the CRC, which goes on from a state that has already seen the prefix.
"""

import struct

from zlib_ng.zlib_ng import crc32

from hosts.wire import icrc
from hosts.wire.aeth import Aeth
from hosts.wire.bth import ACK_REQ_BIT, DEFAULT_P_KEY, PAD_SHIFT, RTX_BIT, TS_BIT
from hosts.wire.dscp import Dscp, Ecn, traffic_class
from hosts.wire.eeth import Eeth
from hosts.wire.erth import EndpointOp, Erth
from hosts.wire.ethernet import ETHERTYPE_IPV6, Ethernet
from hosts.wire.ev import split
from hosts.wire.ipv6 import HOP_LIMIT, NEXT_HEADER_IPV6, NEXT_HEADER_UDP, Ipv6
from hosts.wire.layout import Buffer
from hosts.wire.nack import Nack
from hosts.wire.opcode import Opcode
from hosts.wire.peth import Peth
from hosts.wire.sack import Sack
from hosts.wire.tseth import FTYPE_TIMESTAMP, TSR_BIT
from hosts.wire.udp import MRC_PORT, Udp

_WRITE_TS = struct.Struct(">BHIHHHHQII")
_WRITE_TS_IMM = struct.Struct(">BHIHHHHQIII")
_WRITE = struct.Struct(">BHIHHQII")
_WRITE_IMM = struct.Struct(">BHIHHQIII")
_BTH_END = struct.Struct(">BHI")
"""A destination QPN of 24 bits, and the word with the PSN; what follows in a write comes next."""
_BTH_START = struct.Struct(">BBHx")
_ICRC = struct.Struct("<I")

_PADDING = (b"", b"\0", b"\0\0", b"\0\0\0")
_CACHE_MAX = 64
"""Prefixes kept a path; a message has two lengths or three, so this is ample."""

DATA_TRAFFIC_CLASS = traffic_class(Dscp.TRIMMABLE, Ecn.ECT0)
RETX_TRAFFIC_CLASS = traffic_class(Dscp.TRIMMABLE_RETX, Ecn.ECT0)
CONTROL_TRAFFIC_CLASS = traffic_class(Dscp.CONTROL, Ecn.NOT_ECT)
PROBE_TRAFFIC_CLASS = traffic_class(Dscp.NO_TRIM, Ecn.ECT0)
"""Probes share the queue and the marks of data, which is what they are there to feel."""

ControlHeader = Aeth | Sack | Nack | Peth | Erth | Eeth

_CONTROL: dict[type, tuple[int, int]] = {
    Aeth: (int(Opcode.ACKNOWLEDGE), CONTROL_TRAFFIC_CLASS),
    Sack: (int(Opcode.SACK), CONTROL_TRAFFIC_CLASS),
    Nack: (int(Opcode.NACK), CONTROL_TRAFFIC_CLASS),
    Peth: (int(Opcode.PROBE), PROBE_TRAFFIC_CLASS),
    Erth: (int(Opcode.ENDPOINT_REQUEST), CONTROL_TRAFFIC_CLASS),
    Eeth: (int(Opcode.ENDPOINT_RESPONSE), CONTROL_TRAFFIC_CLASS),
}
"""Opcode and traffic class; EV probes, one kind of ERTH, have the class of probes."""


class Path:
    """All frames from one NIC port to one peer under one EV, whichever QP they are for.

    `outer_dst` is the uSID list; None sends without the outer header (structured EV, ECMP).  MACs
    are 6 bytes, GIDs 16.
    """

    __slots__ = (
        "_flow_label", "_heads", "_inner_addresses", "_macs", "_outer_addresses", "_p_key",
        "_udp_ports",
    )  # fmt: skip

    def __init__(
        self,
        *,
        src_mac: bytes,
        dst_mac: bytes,
        src_gid: bytes,
        dst_gid: bytes,
        outer_dst: bytes | None,
        ev: int,
        udp_dport: int = MRC_PORT,
        p_key: int = DEFAULT_P_KEY,
    ) -> None:
        assert len(src_gid) == len(dst_gid) == 16
        assert len(src_mac) == len(dst_mac) == 6
        sport, self._flow_label = split(ev)
        self._macs = (dst_mac, src_mac)
        self._inner_addresses = (src_gid, dst_gid)
        self._outer_addresses = None if outer_dst is None else (src_gid, outer_dst)
        self._udp_ports = (sport, udp_dport)
        self._p_key = p_key
        self._heads: dict[int, tuple[bytes, int]] = {}
        """What `_head` made, by its key."""

    def _head(self, key: int) -> tuple[bytes, int]:
        """The frame up to the destination QPN, and the CRC over it.  `key` as packed by callers."""
        opcode, tclass, pad, length = key >> 26, key >> 18 & 0xFF, key >> 16 & 0x3, key & 0xFFFF
        src, dst = self._inner_addresses
        inner = Ipv6(tclass, self._flow_label, length, NEXT_HEADER_UDP, HOP_LIMIT, src, dst)
        parts = [Ethernet(*self._macs, ETHERTYPE_IPV6).emit()]
        if self._outer_addresses is not None:
            src, dst = self._outer_addresses
            parts.append(
                Ipv6(
                    tclass, self._flow_label, length + Ipv6.LENGTH, NEXT_HEADER_IPV6, HOP_LIMIT,
                    src, dst,
                ).emit()
            )  # fmt: skip
        ip_offset = sum(map(len, parts))
        parts += [
            inner.emit(),
            Udp(*self._udp_ports, length).emit(),
            _BTH_START.pack(opcode, pad << PAD_SHIFT, self._p_key),
        ]
        head = b"".join(parts)
        assert len(head) == ip_offset + icrc.STATE_LENGTH
        state = icrc.state(head[ip_offset:])
        if len(self._heads) >= _CACHE_MAX:
            self._heads.clear()
        self._heads[key] = head, state
        return head, state

    def emit_write(
        self,
        dest_qpn: int,
        opcode: int,
        psn: int,
        payload: Buffer,
        rqmsn: int,
        msn: int,
        va: int,
        rkey: int,
        dma_length: int,
        imm: int | None = None,
        tx_ticks: int | None = None,
        tsr: int = 0,
        ack_req: bool = False,
        rtx: bool = False,
        traffic_class: int = DATA_TRAFFIC_CLASS,
    ) -> bytes:
        """A write packet.  `imm` iff the opcode has one; no TSETH where `tx_ticks` is None."""
        high, low = dest_qpn >> 16, dest_qpn & 0xFFFF
        size = len(payload)
        pad = -size & 3
        word = psn
        if ack_req:
            word |= ACK_REQ_BIT
        if rtx:
            word |= RTX_BIT
        if tx_ticks is not None:
            word |= TS_BIT
            stamp = FTYPE_TIMESTAMP | TSR_BIT if tsr else FTYPE_TIMESTAMP
            if imm is None:
                middle = _WRITE_TS.pack(
                    high, low, word, rqmsn, msn, tx_ticks, stamp, va, rkey, dma_length
                )
            else:
                middle = _WRITE_TS_IMM.pack(
                    high, low, word, rqmsn, msn, tx_ticks, stamp, va, rkey, dma_length, imm
                )
        elif imm is None:
            middle = _WRITE.pack(high, low, word, rqmsn, msn, va, rkey, dma_length)
        else:
            middle = _WRITE_IMM.pack(high, low, word, rqmsn, msn, va, rkey, dma_length, imm)
        length = len(middle) + size + pad + 17  # UDP header, 5 bytes of BTH, iCRC
        key = opcode << 26 | traffic_class << 18 | pad << 16 | length
        head, state = self._heads.get(key) or self._head(key)
        crc = crc32(payload, crc32(middle, state))
        if pad:
            padding = _PADDING[pad]
            crc = crc32(padding, crc)
            return b"".join((head, middle, payload, padding, _ICRC.pack(crc)))
        return b"".join((head, middle, payload, _ICRC.pack(crc)))

    def emit_control(
        self,
        dest_qpn: int,
        header: ControlHeader,
        *,
        psn: int,
        ack_req: bool = False,
        rtx: bool = False,
        traffic_class: int | None = None,
    ) -> bytes:
        """A packet of BTH and that header, which tells the opcode.

        Traffic class if None: that of data for probes, so that they feel what data feels; control
        for all else.
        """
        opcode, usual_class = _CONTROL[type(header)]
        if traffic_class is None:
            traffic_class = usual_class
            if isinstance(header, Erth) and header.op == EndpointOp.EV_PROBE:
                traffic_class = PROBE_TRAFFIC_CLASS
        word = psn
        if ack_req:
            word |= ACK_REQ_BIT
        if rtx:
            word |= RTX_BIT
        middle = _BTH_END.pack(dest_qpn >> 16, dest_qpn & 0xFFFF, word) + header.emit()
        key = opcode << 26 | traffic_class << 18 | len(middle) + 17
        head, state = self._heads.get(key) or self._head(key)
        return b"".join((head, middle, _ICRC.pack(crc32(middle, state))))
