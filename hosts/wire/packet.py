"""A whole frame to a `Packet`.  This file and `path` alone know the order of headers.

```
SRv6:    Ethernet | IPv6 to the uSID list | IPv6 to the NIC | UDP | BTH | ... | iCRC
native:  Ethernet | IPv6 to the NIC | UDP | BTH | ... | iCRC      (structured EV, ECMP)
writes:  BTH | METH [TSETH] RETH [ImmDt] | payload | pad | iCRC
```
Speed matters here: one `unpack_from` takes everything up to the BTH, one more the rest.
"""

import struct

from zlib_ng.zlib_ng import crc32

from hosts.errors import WireError
from hosts.wire import icrc
from hosts.wire.aeth import Aeth
from hosts.wire.bth import ACK_REQ_BIT, MASK_24, PAD_SHIFT, RTX_BIT, TS_BIT
from hosts.wire.dscp import Dscp, Ecn
from hosts.wire.eeth import Eeth
from hosts.wire.erth import Erth
from hosts.wire.ethernet import ETHERTYPE_IPV6
from hosts.wire.ipv6 import NEXT_HEADER_IPV6, NEXT_HEADER_UDP
from hosts.wire.nack import Nack
from hosts.wire.opcode import WITH_IMMEDIATE, WRITES, Opcode
from hosts.wire.peth import Peth
from hosts.wire.sack import Sack
from hosts.wire.udp import UDP_PORTS

REASONS = (
    "short",  # ends before a header does, or before its own length says
    "ethertype",  # not IPv6
    "version",  # not IPv6 after all
    "next_header",  # neither IPv6 in IPv6 nor UDP
    "udp_port",  # neither of MRC's ports
    "bth_version",  # transport version other than 0
    "opcode",  # not one of the twelve
    "length",  # lengths of the headers contradict one another
    "icrc",  # damaged on the way
)
"""Every reason of the WireErrors that `parse_frame` raises."""

_IPV6_WORDS = "IHBB16s16s"
_UDP_BTH = "HHHHBBHII"
_SRV6 = struct.Struct(">12xH" + _IPV6_WORDS + _IPV6_WORDS + _UDP_BTH)
_NATIVE = struct.Struct(">12xH" + _IPV6_WORDS + _UDP_BTH)
_SRV6_INNER = 54
_NATIVE_INNER = 14
_NEXT_HEADER_AT = 20

_WRITE_TS = struct.Struct(">HHHHQII")
_WRITE = struct.Struct(">HHQII")
_MESSAGE_TS = struct.Struct(">HHH")
_MESSAGE = struct.Struct(">HH")
_IMMEDIATE = struct.Struct(">I")
_ICRC = struct.Struct("<I")

_WRITE_OPCODES = frozenset(int(opcode) for opcode in WRITES)
_IMMEDIATE_OPCODES = frozenset(int(opcode) for opcode in WITH_IMMEDIATE)
# Plain integers: comparing with the members of an enumeration takes several times as long.
_ACKNOWLEDGE, _SACK, _NACK = int(Opcode.ACKNOWLEDGE), int(Opcode.SACK), int(Opcode.NACK)
_PROBE, _ENDPOINT_REQUEST = int(Opcode.PROBE), int(Opcode.ENDPOINT_REQUEST)
_TRIMMED_LASTHOP = int(Dscp.TRIMMED_LASTHOP)
_TRIM_CODES = (int(Dscp.TRIMMED), _TRIMMED_LASTHOP)
_CE = int(Ecn.CE)
_STATE_LENGTH, _icrc_state = icrc.STATE_LENGTH, icrc.state
_EMPTY = memoryview(b"")


class Packet:
    """What a frame says.  Made by `parse_frame`; not changed afterwards.

    In native encapsulation outer and inner addresses are the same.  Fields of writes are zero, and
    `payload` empty, for other opcodes; each of the headers below is None unless it is the opcode's.
    A trimmed packet has no payload, and `va`, `rkey`, `dma_length` and `imm` are not told.
    """

    __slots__ = (
        "ack_req", "aeth", "dest_qpn", "dma_length", "eeth", "erth", "ev", "hop_limit", "imm",
        "inner_dst", "inner_src", "msn", "nack", "opcode", "outer_dscp", "outer_dst", "outer_ecn",
        "outer_src", "p_key", "pad", "payload", "peth", "psn", "rkey", "rqmsn", "rtx", "sack",
        "trimmed", "ts_present", "tsr", "tx_ticks", "udp_dport", "udp_payload_length", "va",
    )  # fmt: skip

    outer_src: bytes
    outer_dst: bytes
    outer_dscp: int
    outer_ecn: int
    hop_limit: int
    inner_src: bytes
    inner_dst: bytes
    ev: int
    udp_dport: int
    udp_payload_length: int
    opcode: int
    pad: int
    p_key: int
    dest_qpn: int
    psn: int
    ack_req: bool
    rtx: bool
    ts_present: bool
    trimmed: bool
    rqmsn: int
    msn: int
    tx_ticks: int
    tsr: int
    va: int
    rkey: int
    dma_length: int
    imm: int | None
    payload: memoryview
    aeth: Aeth | None
    sack: Sack | None
    nack: Nack | None
    peth: Peth | None
    erth: Erth | None
    eeth: Eeth | None

    @property
    def ce_marked(self) -> bool:
        """Whether a switch on the way was congested (ECN CE in the outer header)."""
        return self.outer_ecn == _CE

    @property
    def trimmed_last_hop(self) -> bool:
        return self.outer_dscp == _TRIMMED_LASTHOP

    @property
    def nominal_size(self) -> int:
        """See `hosts.wire.size.nominal_size`; not meaningful where `trimmed`."""
        return self.udp_payload_length + 40

    def __repr__(self) -> str:
        name = Opcode(self.opcode).name
        trim = " trimmed" if self.trimmed else ""
        return (
            f"<Packet {name} qpn={self.dest_qpn} psn={self.psn} ev={self.ev:#x} "
            f"payload={len(self.payload)}{trim}>"
        )


def parse_frame(frame: bytes) -> Packet:
    """The packet in a frame (Ethernet first, no FCS; bytes after the IP packet are ignored).

    The iCRC is checked, except on trimmed packets, which a switch has cut: of those nothing is
    believed but BTH, METH and TSETH, and no length.  Raises WireError with one of REASONS.
    """
    try:
        if frame[_NEXT_HEADER_AT] == NEXT_HEADER_IPV6:
            inner = _SRV6_INNER
            (
                ethertype, word, outer_length, _, hop_limit, outer_src, outer_dst,
                inner_word, inner_length, next_header, _, inner_src, inner_dst,
                sport, dport, udp_length, _, opcode, flags, p_key, qpn, psn_word,
            ) = _SRV6.unpack_from(frame)  # fmt: skip
        else:
            inner = _NATIVE_INNER
            (
                ethertype, word, outer_length, next_header, hop_limit, outer_src, outer_dst,
                sport, dport, udp_length, _, opcode, flags, p_key, qpn, psn_word,
            ) = _NATIVE.unpack_from(frame)  # fmt: skip
            inner_word, inner_length = word, outer_length
            inner_src, inner_dst = outer_src, outer_dst
    except (struct.error, IndexError):
        raise WireError("short") from None
    p = Packet()
    p.outer_src = outer_src
    p.outer_dst = outer_dst
    p.inner_src = inner_src
    p.inner_dst = inner_dst
    p.hop_limit = hop_limit
    if ethertype != ETHERTYPE_IPV6:
        raise WireError("ethertype")
    if word >> 28 != 6 or inner_word >> 28 != 6:
        raise WireError("version")
    if next_header != NEXT_HEADER_UDP:
        raise WireError("next_header")
    if dport not in UDP_PORTS:
        raise WireError("udp_port")
    if flags & 0xF:
        raise WireError("bth_version")
    p.outer_dscp = dscp = word >> 22 & 0x3F
    p.outer_ecn = word >> 20 & 0x3
    p.ev = (inner_word & 0xFFFF) << 16 | sport
    p.udp_dport = dport
    p.udp_payload_length = udp_length - 8
    p.opcode = opcode
    p.p_key = p_key
    p.dest_qpn = qpn & MASK_24
    p.psn = psn_word & MASK_24
    p.ack_req = psn_word & ACK_REQ_BIT != 0
    p.rtx = psn_word & RTX_BIT != 0
    p.ts_present = psn_word & TS_BIT != 0
    p.imm = p.aeth = p.sack = p.nack = p.peth = p.erth = p.eeth = None
    p.payload = _EMPTY
    if dscp in _TRIM_CODES:
        p.trimmed = True
        _trimmed(p, frame, inner + 60)
        return p
    p.trimmed = False
    if inner_length != udp_length or outer_length != inner_length + inner - _NATIVE_INNER:
        raise WireError("length")
    p.pad = flags >> PAD_SHIFT & 0x3
    at = inner + 60
    end = inner + 36 + udp_length  # IPv6, UDP and then all but the iCRC
    if end < at or end + 4 > len(frame):
        raise WireError("short")
    view = memoryview(frame)
    middle = inner + _STATE_LENGTH
    if (
        crc32(view[middle:end], _icrc_state(frame[inner:middle]))
        != _ICRC.unpack_from(frame, end)[0]
    ):
        raise WireError("icrc")
    if opcode not in _WRITE_OPCODES:
        p.rqmsn = p.msn = p.tx_ticks = p.tsr = p.va = p.rkey = p.dma_length = 0
        _control(p, frame, at, end)
        return p
    try:
        if p.ts_present:
            (
                p.rqmsn, p.msn, p.tx_ticks, stamp, p.va, p.rkey, p.dma_length,
            ) = _WRITE_TS.unpack_from(view, at)  # fmt: skip
            p.tsr = stamp >> 15
            at += 24
        else:
            p.rqmsn, p.msn, p.va, p.rkey, p.dma_length = _WRITE.unpack_from(view, at)
            p.tx_ticks = p.tsr = 0
            at += 20
        if opcode in _IMMEDIATE_OPCODES:
            (p.imm,) = _IMMEDIATE.unpack_from(view, at)
            at += 4
    except struct.error:
        raise WireError("short") from None
    end -= p.pad
    if at > end:
        raise WireError("length")
    p.payload = view[at:end]
    return p


def _control(p: Packet, frame: bytes, at: int, end: int) -> None:
    """Headers of fixed length, no payload; what a later version may append is ignored."""
    if p.ts_present:
        at += 4
    opcode = p.opcode
    length = _CONTROL_LENGTHS.get(opcode)
    if length is None:
        raise WireError("opcode")
    if at + length > end:
        raise WireError("length")
    if opcode == _SACK:
        p.sack = Sack.parse(frame, at)
    elif opcode == _ACKNOWLEDGE:
        p.aeth = Aeth.parse(frame, at)
    elif opcode == _NACK:
        p.nack = Nack.parse(frame, at)
    elif opcode == _PROBE:
        p.peth = Peth.parse(frame, at)
    elif opcode == _ENDPOINT_REQUEST:
        p.erth = Erth.parse(frame, at)
    else:
        p.eeth = Eeth.parse(frame, at)


_CONTROL_LENGTHS: dict[int, int] = {
    _ACKNOWLEDGE: Aeth.LENGTH,
    _ENDPOINT_REQUEST: Erth.LENGTH,
    int(Opcode.ENDPOINT_RESPONSE): Eeth.LENGTH,
    _SACK: Sack.LENGTH,
    _NACK: Nack.LENGTH,
    _PROBE: Peth.LENGTH,
}


def _trimmed(p: Packet, frame: bytes, at: int) -> None:
    """What a responder needs for its NACK, and no more; switches trim writes only."""
    if p.opcode not in _WRITE_OPCODES:
        raise WireError("opcode")
    p.pad = p.tx_ticks = p.tsr = p.va = p.rkey = p.dma_length = 0
    try:
        if p.ts_present:
            p.rqmsn, p.msn, p.tx_ticks = _MESSAGE_TS.unpack_from(frame, at)
        else:
            p.rqmsn, p.msn = _MESSAGE.unpack_from(frame, at)
    except struct.error:
        raise WireError("short") from None
