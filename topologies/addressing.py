"""Every derived name and number, and nothing else of the kind anywhere else.

uSID layout (design section 4; the layout is ours, the carrier is F3216 of RFC 9800):
role in bits 15:14 (1 = T0, 2 = T1, 3 = NIC; 0 never, so that 0x0000 ends a list), plane in bits
13:11, index in bits 10:0 (T0 number; T1 number = uplink number; NIC = downlink number of its T0).

EV layout, low half: bits 15:14 set (the dynamic port range, since this half travels as the UDP
source port), uplink in bits 13:3, plane in bits 2:0.  High half (flow label): zero here.
"""

from collections.abc import Sequence
from enum import IntEnum

from topologies.model import Host, Switch, Tier

LOCATOR_BLOCK = 0x5F00_0000
"""32-bit locator block, from 5f00::/16, the SRv6 SID block of RFC 9602."""

USID_COUNT_MAX = 6
PLANES_MAX = 8
INDEX_MAX = (1 << 11) - 1
INTERFACE_NAME_MAX = 15
"""Bytes of an interface name the kernel accepts (IFNAMSIZ - 1)."""

GID_PREFIX = 0xFD6D_7263
"""First 32 bits of every NIC's own address: a unique local prefix (RFC 4193), 'mrc' in ASCII."""


DYNAMIC_PORT_MIN = 0xC000
"""First of the UDP ports that nobody owns (RFC 6335): every EV's low half is one of them."""


class UsidRole(IntEnum):
    T0 = 1
    T1 = 2
    NIC = 3


def switch_name(plane: int, tier: Tier, index: int) -> str:
    return f"p{plane}t{int(tier)}n{index}"


def host_name(index: int) -> str:
    return f"h{index}"


def interface_name(node: str, port: int) -> str:
    """As Mininet names them: `h3-eth0`, `p0t0n1-eth5`."""
    return f"{node}-eth{port}"


def usid(role: UsidRole, plane: int, index: int) -> int:
    assert 0 <= plane < PLANES_MAX
    assert 0 <= index <= INDEX_MAX
    return role << 14 | plane << 11 | index


def switch_usid(switch: Switch) -> int:
    role = UsidRole.T0 if switch.tier is Tier.T0 else UsidRole.T1
    return usid(role, switch.plane, switch.index)


def nic_usid(host: Host, plane: int) -> int:
    return usid(UsidRole.NIC, plane, host.downlink)


def usid_address(usids: Sequence[int]) -> bytes:
    """The 16-byte IPv6 address that carries the list, first to visit first (F3216)."""
    assert 0 < len(usids) <= USID_COUNT_MAX
    address = LOCATOR_BLOCK.to_bytes(4) + b"".join(u.to_bytes(2) for u in usids)
    return address.ljust(16, b"\0")


def gid(host: Host) -> bytes:
    """The NIC's own 16-byte address, one for all planes: rack in bits 95:80, downlink + 1 last."""
    return (GID_PREFIX << 96 | host.rack << 80 | host.downlink + 1).to_bytes(16)


def ev(plane: int, uplink: int) -> int:
    """The 32-bit entropy value of that path."""
    return DYNAMIC_PORT_MIN | uplink << 3 | plane


def ev_plane(value: int) -> int:
    return value & 0x7


def ev_uplink(value: int) -> int:
    return value >> 3 & INDEX_MAX


def host_mac(host: Host, plane: int) -> bytes:
    """Locally administered, readable in a capture: 02:03:<host, 2 bytes>:00:<plane>."""
    return bytes((0x02, 0x03)) + host.index.to_bytes(2) + bytes((0, plane))


def switch_mac(switch: Switch, port: int) -> bytes:
    """02:<tier>:<plane>:<number, 2 bytes>:<port> with the tier's uSID role (1 = T0, 2 = T1).

    The low three bits of the port's high byte share the plane's byte, so 2048 ports fit.
    """
    role = UsidRole.T0 if switch.tier is Tier.T0 else UsidRole.T1
    return (
        bytes((0x02, role, switch.plane << 4 | port >> 8))
        + switch.index.to_bytes(2)
        + bytes((port & 0xFF,))
    )
