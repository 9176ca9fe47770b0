"""Frames as the switch sees them, built and taken apart without any code of ours."""

import struct
from dataclasses import dataclass, replace

ETHERNET = struct.Struct(">6s6sH")
IPV6 = struct.Struct(">IHBB16s16s")
UDP = struct.Struct(">HHHH")

IPV6_TYPE = 0x86DD
IN_IPV6 = 41
IN_UDP = 17


@dataclass(frozen=True, slots=True, kw_only=True)
class Ipv6:
    src: bytes
    dst: bytes
    next_header: int
    payload_length: int
    dscp: int = 0
    ecn: int = 0
    flow_label: int = 0
    hop_limit: int = 64

    def emit(self) -> bytes:
        first = 6 << 28 | self.dscp << 22 | self.ecn << 20 | self.flow_label
        head = (first, self.payload_length, self.next_header, self.hop_limit)
        return IPV6.pack(*head, self.src, self.dst)


def parse_ipv6(data: bytes) -> Ipv6:
    first, length, next_header, hop_limit, src, dst = IPV6.unpack_from(data)
    return Ipv6(
        src=src,
        dst=dst,
        next_header=next_header,
        payload_length=length,
        dscp=first >> 22 & 0x3F,
        ecn=first >> 20 & 3,
        flow_label=first & 0xFFFFF,
        hop_limit=hop_limit,
    )


@dataclass(frozen=True, slots=True)
class Frame:
    """Ethernet, outer IPv6 and the rest; `rest` begins with the inner header or UDP."""

    dst_mac: bytes
    src_mac: bytes
    ip: Ipv6
    rest: bytes

    def emit(self) -> bytes:
        return ETHERNET.pack(self.dst_mac, self.src_mac, IPV6_TYPE) + self.ip.emit() + self.rest


def parse(frame: bytes) -> Frame:
    dst_mac, src_mac, kind = ETHERNET.unpack_from(frame)
    assert kind == IPV6_TYPE
    return Frame(dst_mac, src_mac, parse_ipv6(frame[14:]), frame[54:])


def encapsulated(
    outer_dst: bytes,
    *,
    dscp: int = 4,
    ecn: int = 2,
    ev: int = 0,
    payload: bytes = bytes(200),
    hop_limit: int = 64,
) -> Frame:
    """IPv6 in IPv6 as MRC sends it; the entropy value in flow label and source port."""
    udp = UDP.pack(ev & 0xFFFF, 4971, UDP.size + len(payload), 0) + payload
    inner = Ipv6(
        src=bytes(15) + b"\x01",
        dst=bytes(15) + b"\x02",
        next_header=IN_UDP,
        payload_length=len(udp),
        dscp=dscp,
        ecn=ecn,
        flow_label=ev >> 16,
    )
    rest = inner.emit() + udp
    outer = replace(
        inner,
        dst=outer_dst,
        next_header=IN_IPV6,
        payload_length=len(rest),
        hop_limit=hop_limit,
    )
    return Frame(bytes(6), bytes(6), outer, rest)


def plain(src: bytes, dst: bytes, *, ev: int = 0, payload: bytes = bytes(200)) -> Frame:
    """Without encapsulation: structured and ECMP routing."""
    udp = UDP.pack(ev & 0xFFFF, 4971, UDP.size + len(payload), 0) + payload
    ip = Ipv6(
        src=src,
        dst=dst,
        next_header=IN_UDP,
        payload_length=len(udp),
        dscp=4,
        ecn=2,
        flow_label=ev >> 16,
    )
    return Frame(bytes(6), bytes(6), ip, udp)
