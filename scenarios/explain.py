"""An EV in words: the path it names and the address at every hop.  Pure."""

from collections.abc import Iterator
from ipaddress import IPv6Address

from topologies import addressing, routing
from topologies.model import Fabric, Host, TopologyError
from topologies.routing import Routing
from topologies.strict_yaml import InputError

SHOWN_MAX = 8


def parse_ev(text: str) -> int:
    """`0xc008` or `49160`.  Raises InputError."""
    try:
        value = int(text, 0)
    except ValueError:
        value = -1
    if not 0 <= value <= 0xFFFF_FFFF:
        raise InputError(f"expected an EV such as 0xc008, 32 bits, got {text!r}")
    return value


def ev(
    fabric: Fabric, value: int, src: str, dst: str, mode: Routing = Routing.SRV6
) -> Iterator[str]:
    """Lines.  Raises InputError if that EV names no path between those hosts."""
    try:
        source, target = fabric.host(src), fabric.host(dst)
    except TopologyError as error:
        raise InputError(str(error)) from None
    if source == target:
        raise InputError(f"{src} is both ends: a path has two")
    if mode is Routing.ECMP:
        yield from _hashed(fabric, value, source, target)
        return
    ways = {way.ev: way for way in routing.paths(fabric, source, target)}
    if value not in ways:
        known = [f"{ev:#06x}" for ev in sorted(ways)]
        rest = f" and {len(known) - SHOWN_MAX} more" if len(known) > SHOWN_MAX else ""
        listed = ", ".join(known[:SHOWN_MAX])
        raise InputError(
            f"EV {value:#x} names no path from {src} to {dst}: there are {listed}{rest}"
        )
    yield from _lines(fabric, source, target, ways[value], mode)


def _hashed(fabric: Fabric, value: int, src: Host, dst: Host) -> Iterator[str]:
    """The plane is that of the NIC port the packet leaves by, so there is a path in each."""
    for plane in range(fabric.spec.planes):
        way = routing.ecmp_path(fabric, src, dst, plane, value)
        yield from _lines(fabric, src, dst, way, Routing.ECMP)


def _lines(fabric: Fabric, src: Host, dst: Host, way: routing.Path, mode: Routing) -> Iterator[str]:
    sport, label = way.ev & 0xFFFF, way.ev >> 16
    cross = f", T0 uplink {way.uplink}" if len(way.usids) > 2 else ""
    by_hash = " by hash" if cross and mode is Routing.ECMP else ""
    yield f"EV {way.ev:#010x}  {src.name} to {dst.name}: plane {way.plane}{cross}{by_hash}"
    yield f"  UDP source port {sport:#06x} ({sport}), flow label {label:#07x}"
    is_srv6 = mode is Routing.SRV6
    if is_srv6:
        yield f"  uSIDs {' '.join(f'{usid:04x}' for usid in way.usids)}"
    address = way.outer_dst
    for hop in routing.hops(fabric, src, way):
        peer = fabric.peer(hop)
        port = addressing.interface_name(hop.node, hop.port)
        if hop.node != src.name:
            address = shifted(address)
        outer = f" outer destination {IPv6Address(address)}" if is_srv6 else ""
        yield f"  {port:>14} -> {peer.node:<8}{outer}".rstrip()
    place = "inner destination" if is_srv6 else "destination"
    yield f"  {place} {IPv6Address(addressing.gid(dst))} on every hop"


def shifted(address: bytes) -> bytes:
    """What a switch makes of the address: its own uSID off, the rest moved left (RFC 9800)."""
    return address[:4] + address[6:] + bytes(2)
