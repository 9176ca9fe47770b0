"""From a fabric to the table rows and port settings of one switch of it.

Pure functions: the same fabric gives the same rows, which are written once at start and again,
unchanged, after a reboot.  Only this module knows the names of p4/mrc.p4 and what its tables mean.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from switches.api import (
    ActionCall,
    Exact,
    Lpm,
    Match,
    OptionalMatch,
    PortConfig,
    QueueLimit,
    TableEntry,
    Ternary,
)
from topologies import addressing
from topologies.model import Fabric, PortRef, Switch, Tier
from topologies.routing import Routing as Routing
from topologies.routing import ecmp_salt
from topologies.thresholds import (
    CONTROL_FRAME_BYTES_MIN,
    CONTROL_TO_DATA_BYTES,
    Thresholds,
    data_frame_bytes,
    data_queue_packets,
    thresholds,
)

USID_NODE = "MrcIngress.routing.usid_node"
USID_ADJACENCY = "MrcIngress.routing.usid_adjacency"
FIB = "MrcIngress.routing.fib"
UPLINK = "MrcIngress.routing.uplink"
FAULT = "MrcIngress.faults.fault"
PORT = "MrcIngress.admission.port"

RECEIVED_COUNTER = "MrcIngress.received"
SENT_COUNTER = "MrcEgress.sent"
DROPS_COUNTER = "MrcIngress.drops"
TRIM_COUNTER = "MrcIngress.admission.trim"
TRIM_SENT_COUNTER = "MrcEgress.departure.trim_sent"
ECN_MARKED_COUNTER = "MrcEgress.marking.ecn_marked"
DATA_DEPTH_REGISTER = "data_depth"

DROP_REASONS = (
    "none",
    "malformed",
    "not_ipv6",
    "argument_zero",
    "hop_limit",
    "no_route",
    "no_uplink",
    "fault",
)
"""Names of the cells of `drops`, in order: the enum drop_t of p4/include/headers.p4."""

TRIM_SIZE_BYTES_MIN = 122
"""Shortest frame from which a receiver can build a NACK: Ethernet to TSETH (facts 4.4)."""

PER_MILLION = 1_000_000
EV_MASK = 0xFFFF_FFFF

_SID_BITS = 48
_RACK_BITS = 48
_GID_PREFIX_BITS = 32
_EV_UPLINK_SHIFT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchSettings:
    """What a scenario may choose about switches.

    trim_size: bytes of frame that a trimmed packet keeps (144 default; 128 is SAI's, 256
    Spectrum's).  rewrite_length: whether a trimmed packet's IPv6 payload length follows (SAI says
    yes, the SONiC test plan no).  thresholds: instead of those derived from the fabric.
    ecmp_seed: another value spreads flows differently.
    """

    routing: Routing = Routing.SRV6
    trimming: bool = True
    trim_size: int = 144
    rewrite_length: bool = False
    ecn: bool = True
    thresholds: Thresholds | None = None
    ecmp_seed: int = 0

    def __post_init__(self) -> None:
        if not TRIM_SIZE_BYTES_MIN <= self.trim_size < 1 << 16:
            raise ValueError(
                f"trim_size is {self.trim_size}, and must be from {TRIM_SIZE_BYTES_MIN} bytes "
                f"(a NACK needs the headers up to TSETH) to {(1 << 16) - 1}"
            )


DEFAULT_SETTINGS = SwitchSettings()


def entries(
    fabric: Fabric, switch: Switch, settings: SwitchSettings = DEFAULT_SETTINGS
) -> list[TableEntry]:
    """All rows of that switch, in the order they are written."""
    if settings.routing is Routing.SRV6:
        routes = _usid_rows(fabric, switch)
    else:
        routes = _address_rows(fabric, switch, settings)
    return [*routes, *_port_rows(fabric, switch, settings)]


def port_configs(
    fabric: Fabric, switch: Switch, settings: SwitchSettings = DEFAULT_SETTINGS
) -> dict[int, PortConfig]:
    """Rate, delays and queue limits of every port, by port number."""
    depths = settings.thresholds or thresholds(fabric.spec)
    return {port: _port_config(fabric, switch, port, depths) for port in _ports(fabric, switch)}


def fault(
    *,
    per_million: int = PER_MILLION,
    ingress_port: int | None = None,
    egress_port: int | None = None,
    ev: int | None = None,
    priority: int = 1,
) -> TableEntry:
    """A row that drops that share of the packets it matches; without keys, of all.

    The default share is a blackhole.  Where rows overlap the one of larger priority decides.
    """
    assert 0 <= per_million <= PER_MILLION
    match: dict[str, Match] = {}
    if ingress_port is not None:
        match["ingress_port"] = OptionalMatch(ingress_port)
    if egress_port is not None:
        match["egress_port"] = OptionalMatch(egress_port)
    if ev is not None:
        match["ev"] = Ternary(ev, EV_MASK)
    return TableEntry(
        FAULT, match, ActionCall("MrcIngress.faults.lose", {"per_million": per_million}), priority
    )


def adjacency(fabric: Fabric, switch: Switch, port: int, usid: int) -> TableEntry:
    """A uA row: that uSID names the link at that port (RFC 9800 End.X with NEXT-C-SID).

    The paths of `topologies.routing` need none, since every neighbour's uN is in the table; which
    uSIDs to spend on links is the caller's choice.
    """
    call = ActionCall("MrcIngress.routing.uA", _next_hop(fabric, switch, port))
    return TableEntry(USID_ADJACENCY, {"sid": Exact(_sid(usid))}, call)


def _usid_rows(fabric: Fabric, switch: Switch) -> Iterator[TableEntry]:
    own = _sid(addressing.switch_usid(switch))
    yield TableEntry(USID_NODE, {"sid": Exact(own)}, ActionCall("MrcIngress.routing.uN"))
    for port in _ports(fabric, switch):
        match = Lpm(_sid(_neighbour_usid(fabric, switch, port)) << 128 - _SID_BITS, _SID_BITS)
        yield TableEntry(FIB, {"dst": match}, _forward(fabric, switch, port))


def _address_rows(fabric: Fabric, switch: Switch, settings: SwitchSettings) -> Iterator[TableEntry]:
    """Routes by the NICs' own addresses: down by lookup, up by entropy value or hash."""
    if switch.tier is Tier.T1:
        for rack in _ports(fabric, switch):
            match = Lpm(addressing.GID_PREFIX << 96 | rack << 80, _RACK_BITS)
            yield TableEntry(FIB, {"dst": match}, _forward(fabric, switch, rack))
        return
    for host in fabric.hosts:
        if host.rack == switch.index:
            match = Lpm(int.from_bytes(addressing.gid(host)), 128)
            yield TableEntry(FIB, {"dst": match}, _forward(fabric, switch, host.downlink))
    elsewhere = Lpm(addressing.GID_PREFIX << 96, _GID_PREFIX_BITS)
    yield TableEntry(FIB, {"dst": elsewhere}, _spread(fabric, switch, settings))
    for uplink in range(fabric.spec.t1):
        call = _forward(fabric, switch, fabric.spec.hosts_per_t0 + uplink)
        yield TableEntry(UPLINK, {"index": Exact(uplink)}, call)


def _spread(fabric: Fabric, switch: Switch, settings: SwitchSettings) -> ActionCall:
    if settings.routing is Routing.STRUCTURED:
        bits = {"shift": _EV_UPLINK_SHIFT, "mask": addressing.INDEX_MAX}
        return ActionCall("MrcIngress.routing.spread_by_ev", bits)
    salt = ecmp_salt(switch.name, settings.ecmp_seed)
    params = {"salt": salt, "uplink_count": fabric.spec.t1}
    return ActionCall("MrcIngress.routing.spread_by_hash", params)


def _port_rows(fabric: Fabric, switch: Switch, settings: SwitchSettings) -> Iterator[TableEntry]:
    depths = settings.thresholds or thresholds(fabric.spec)
    for port in _ports(fabric, switch):
        last_hop = fabric.is_last_hop(switch, port)
        marks = settings.ecn and not last_hop
        params = {
            "host_facing": int(last_hop),
            "trim_threshold": _trim_depth(depths, last_hop) if settings.trimming else 0,
            "trim_size": settings.trim_size,
            "rewrite_length": int(settings.rewrite_length),
            "ecn_low": depths.ecn_low if marks else 0,
            "ecn_high": depths.ecn_high if marks else 0,
        }
        call = ActionCall("MrcIngress.admission.set_port", params)
        yield TableEntry(PORT, {"port": Exact(port)}, call)


def _port_config(fabric: Fabric, switch: Switch, port: int, depths: Thresholds) -> PortConfig:
    spec = fabric.spec
    last_hop = fabric.is_last_hop(switch, port)
    packets = data_queue_packets(_trim_depth(depths, last_hop))
    data_bytes = packets * data_frame_bytes(spec)
    control_bytes = CONTROL_TO_DATA_BYTES * data_bytes
    return PortConfig(
        rate_bps=spec.rate_bps,
        egress_delay_ns=spec.delay_ns,
        ingress_delay_ns=spec.delay_ns if last_hop else 0,
        queues=(
            QueueLimit(packets, data_bytes),
            QueueLimit(control_bytes // CONTROL_FRAME_BYTES_MIN, control_bytes),
        ),
    )


def _trim_depth(depths: Thresholds, last_hop: bool) -> int:
    return depths.trim_last_hop if last_hop else depths.trim


def _ports(fabric: Fabric, switch: Switch) -> range:
    return range(fabric.port_count(switch))


def _sid(usid: int) -> int:
    """Block and uSID: the first 48 bits of an address that is led by it."""
    return addressing.LOCATOR_BLOCK << 16 | usid


def _neighbour_usid(fabric: Fabric, switch: Switch, port: int) -> int:
    name = fabric.peer(PortRef(switch.name, port)).node
    if fabric.is_host(name):
        return addressing.nic_usid(fabric.host(name), switch.plane)
    return addressing.switch_usid(fabric.switch(name))


def _next_hop(fabric: Fabric, switch: Switch, port: int) -> dict[str, int]:
    peer = fabric.peer(PortRef(switch.name, port))
    if fabric.is_host(peer.node):
        dst_mac = addressing.host_mac(fabric.host(peer.node), switch.plane)
    else:
        dst_mac = addressing.switch_mac(fabric.switch(peer.node), peer.port)
    src_mac = addressing.switch_mac(switch, port)
    return {
        "port": port,
        "src_mac": int.from_bytes(src_mac),
        "dst_mac": int.from_bytes(dst_mac),
    }


def _forward(fabric: Fabric, switch: Switch, port: int) -> ActionCall:
    return ActionCall("MrcIngress.routing.forward", _next_hop(fabric, switch, port))
