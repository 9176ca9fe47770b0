"""When a queue marks, when it trims, and how much it holds: one place for the whole testbed.

Shares of the bandwidth-delay product of one plane as in the UEC 1.0.3 guidance (marking from 0.2
to 0.8, trimming at 1.0, at 1.5 on the last hop), each with a floor for slow, short fabrics
(design section 5).  Depths are packets, because v1model counts so; a packet is a full data frame.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from topologies.model import FabricSpec
from topologies.routing import Routing

DATA_HEADER_BYTES = 142
"""Ethernet to iCRC around the payload of a write with TSETH, IPv6 in IPv6 (facts 2.9)."""

OUTER_HEADER_BYTES = 40
"""The IPv6 header that carries the uSID list; structured EVs and ECMP do without."""

SACK_FRAME_BYTES = 154
"""Frame of a SACK, IPv6 in IPv6 (facts 2.9)."""

LINKS_ONE_WAY = 4
"""NIC, T0, T1, T0, NIC: the longest way."""

ECN_LOW_PACKETS_MIN = 4
ECN_HIGH_PACKETS_MIN = 12
TRIM_PACKETS_MIN = 16

QUEUE_SLACK_PACKETS = 16
"""Room above the trim threshold, so that nothing trimmable is ever lost for want of space."""

CONTROL_TO_DATA_BYTES = 2
"""The control queue holds so many times the bytes of the data queue."""

CONTROL_FRAME_BYTES_MIN = 64
"""No frame is shorter: what turns the control queue's bytes into a number of packets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Packets of the data queue, for ports between switches; `trim_last_hop` for ports to NICs."""

    ecn_low: int
    ecn_high: int
    trim: int
    trim_last_hop: int


def data_frame_bytes(spec: FabricSpec, routing: Routing = Routing.SRV6) -> int:
    """Bytes of a full data frame as tcpdump shows it (no FCS).

    What is derived here is derived from the longest frame, that of SRv6, in every routing mode.
    """
    outer = OUTER_HEADER_BYTES if routing is Routing.SRV6 else 0
    return spec.pmtu + DATA_HEADER_BYTES - OUTER_HEADER_BYTES + outer


def base_rtt_ns(spec: FabricSpec) -> int:
    """Round trip of a full data frame and its SACK over the longest way of an idle fabric.

    Every node stores and forwards, so both frames are serialised once a link.
    """
    bits = 8 * (data_frame_bytes(spec) + SACK_FRAME_BYTES)
    per_link = 2 * spec.delay_ns + Fraction(bits * 10**9, spec.rate_bps)
    return ceil(LINKS_ONE_WAY * per_link)


def bdp_packets(spec: FabricSpec) -> Fraction:
    """Bandwidth-delay product of one plane in full data frames; exact, not rounded."""
    return Fraction(spec.rate_bps * base_rtt_ns(spec), 8 * 10**9 * data_frame_bytes(spec))


def thresholds(spec: FabricSpec) -> Thresholds:
    """The depths at which the ports of that fabric act, rounded up."""
    bdp = bdp_packets(spec)
    trim = max(ceil(bdp), TRIM_PACKETS_MIN)
    return Thresholds(
        ecn_low=max(ceil(bdp * Fraction(2, 10)), ECN_LOW_PACKETS_MIN),
        ecn_high=max(ceil(bdp * Fraction(8, 10)), ECN_HIGH_PACKETS_MIN),
        trim=trim,
        trim_last_hop=ceil(trim * Fraction(3, 2)),
    )


def data_queue_packets(trim_threshold: int) -> int:
    """Capacity of a data queue that trims at that depth (UEC: tail drop at 2 to 5 times)."""
    return max(2 * trim_threshold, trim_threshold + QUEUE_SLACK_PACKETS)
