"""Path, EV and uSID list: three names of one thing (facts 3.9).

With SRv6 and with structured EVs the sender of a packet decides its path alone: the EV is built
from plane and uplink, and switches only shift and look up.  With ECMP the EV is a random number and
the source's T0 hashes it; as no table ever changes, it still stands for one path, and the one that
it stands for is computed here as the switch computes it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from zlib import crc32

from topologies import addressing
from topologies.addressing import UsidRole, usid
from topologies.model import Fabric, Host, PortRef, Tier


class Routing(StrEnum):
    """Who picks the path, and from what (the EV formats of facts 2.2)."""

    SRV6 = "srv6"
    STRUCTURED = "structured"
    ECMP = "ecmp"


@dataclass(frozen=True, slots=True)
class Path:
    """One way from one NIC to another: its EV, plane, T0 uplink (0 in a rack) and uSID list.

    The list names the nodes on the way in every routing mode; only with SRv6 is it sent.
    """

    ev: int
    plane: int
    uplink: int
    usids: tuple[int, ...]

    @property
    def outer_dst(self) -> bytes:
        return addressing.usid_address(self.usids)


def paths(fabric: Fabric, src: Host, dst: Host) -> Iterator[Path]:
    """All paths from src to dst, planes in turn so that any prefix loads the planes evenly."""
    uplinks = 1 if src.rack == dst.rack else fabric.spec.t1
    for uplink in range(uplinks):
        for plane in range(fabric.spec.planes):
            yield path(fabric, src, dst, plane, uplink)


def path(fabric: Fabric, src: Host, dst: Host, plane: int, uplink: int) -> Path:
    """The path over that plane and T0 uplink.  In a rack there is one a plane, uplink 0."""
    first = usid(UsidRole.T0, plane, src.rack)
    last = addressing.nic_usid(dst, plane)
    if src.rack == dst.rack:
        return Path(addressing.ev(plane, 0), plane, 0, (first, last))
    middle = (usid(UsidRole.T1, plane, uplink), usid(UsidRole.T0, plane, dst.rack))
    return Path(addressing.ev(plane, uplink), plane, uplink, (first, *middle, last))


def ecmp_path(fabric: Fabric, src: Host, dst: Host, plane: int, ev: int, seed: int = 0) -> Path:
    """The path that EV takes in that plane where switches hash; `seed` as for `ecmp_salt`."""
    if src.rack == dst.rack:
        uplink = 0
    else:
        salt = ecmp_salt(addressing.switch_name(plane, Tier.T0, src.rack), seed)
        uplink = ecmp_uplink(fabric, src, dst, ev, salt)
    return Path(ev, plane, uplink, path(fabric, src, dst, plane, uplink).usids)


def ecmp_salt(switch: str, seed: int = 0) -> int:
    """32 bits that make the hash of that switch its own; another seed spreads flows differently."""
    return crc32(f"{seed} {switch}".encode())


def ecmp_uplink(fabric: Fabric, src: Host, dst: Host, ev: int, salt: int) -> int:
    """As spread_by_hash of p4/include/routing.p4: CRC-32 over salt, addresses and EV."""
    flow = salt.to_bytes(4) + addressing.gid(src) + addressing.gid(dst) + ev.to_bytes(4)
    return crc32(flow) % fabric.spec.t1


def hops(fabric: Fabric, src: Host, way: Path) -> list[PortRef]:
    """The egress port at every node on the way, the sending NIC's first."""
    out = [PortRef(src.name, way.plane)]
    if len(way.usids) == 2:
        t0 = addressing.switch_name(way.plane, Tier.T0, src.rack)
        return [*out, PortRef(t0, way.usids[-1] & addressing.INDEX_MAX)]
    dst_rack = way.usids[2] & addressing.INDEX_MAX
    t0_src = addressing.switch_name(way.plane, Tier.T0, src.rack)
    t1 = addressing.switch_name(way.plane, Tier.T1, way.uplink)
    t0_dst = addressing.switch_name(way.plane, Tier.T0, dst_rack)
    return [
        *out,
        PortRef(t0_src, fabric.spec.hosts_per_t0 + way.uplink),
        PortRef(t1, dst_rack),
        PortRef(t0_dst, way.usids[-1] & addressing.INDEX_MAX),
    ]
