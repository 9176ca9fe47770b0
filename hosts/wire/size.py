"""Sizes of packets in bytes (facts 2.9), each defined once."""

from hosts.wire import icrc
from hosts.wire.bth import Bth
from hosts.wire.ethernet import Ethernet
from hosts.wire.immdt import Immdt
from hosts.wire.ipv6 import Ipv6
from hosts.wire.meth import Meth
from hosts.wire.reth import Reth
from hosts.wire.tseth import Tseth
from hosts.wire.udp import Udp

NOMINAL_OVERHEAD_BYTES = 40
"""Specification 8.3.1: nominal packet size = UDP payload length + 40, whatever is around it."""

_WRITE_BYTES = Bth.LENGTH + Meth.LENGTH + Reth.LENGTH + icrc.LENGTH


def write_udp_payload(payload_bytes: int, *, imm: bool = False, ts: bool = True) -> int:
    """UDP payload of a write packet, BTH to iCRC, padding included."""
    extra = (Tseth.LENGTH if ts else 0) + (Immdt.LENGTH if imm else 0)
    return _WRITE_BYTES + extra + payload_bytes + (-payload_bytes & 3)


def nominal_size(payload_bytes: int, *, imm: bool = False, ts: bool = True) -> int:
    """What a write packet counts for: in flight, in rcvd_bytes, in congestion control.

    4176 for 4096 bytes with a timestamp.  Both ends must count the same, so both call this.
    """
    return write_udp_payload(payload_bytes, imm=imm, ts=ts) + NOMINAL_OVERHEAD_BYTES


def frame_size(udp_payload_bytes: int, *, srv6: bool = True) -> int:
    """The frame as tcpdump shows it (no FCS): 4238 for a full 4096-byte write over SRv6."""
    ip_headers = 2 if srv6 else 1
    return Ethernet.LENGTH + ip_headers * Ipv6.LENGTH + Udp.LENGTH + udp_payload_bytes
