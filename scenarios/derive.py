"""Numbers that follow from a fabric and a scenario: time-outs, windows, host configurations, cost.

Pure, and the only place where these are computed.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

from scenarios import flows, schema
from topologies import addressing
from topologies.model import Fabric, FabricSpec, Host, Tier
from topologies.routing import Routing
from topologies.thresholds import base_rtt_ns, bdp_packets, data_frame_bytes, thresholds

RTO_UNIT_NS = 1024
"""The local ACK timeout is 1.024 us * 2^t (facts 3.4)."""

RTO_EXPONENT_MAX = 24
"""17 s; as hosts.mrc.units has it."""

RTO_MARGIN = Fraction(5, 4)
WINDOW_BDP = Fraction(3, 2)
"""Bytes in flight, in bandwidth-delay products: NSCC's MaxWnd (facts/nscc.md 2)."""

SACK_TRIGGER_PACKETS = 4
"""16 KiB at 4096 B: how much arrives before an unprompted SACK."""

MPR_UNIT = 128
MPR_UNITS_MAX = 32
"""32 x 128 PSNs, the specification's default maximum (facts 3.1)."""

NOMINAL_HEADER_BYTES = 80
"""Nominal packet size less payload: BTH through iCRC plus 40 (design section 7)."""

LINEAR_RETRIES = 7
EXPONENTIAL_RETRIES = 7
MAX_WIMM = 32
PROBE_SUCCESSES = 1

BINS_PER_JOB = 200
LIVE_PACKETS_PER_SECOND = 12_000
"""Data packets a second that two cores carry live (design section 8), until `doctor` measured."""

VIRTUAL_HOPS_PER_SECOND = 60_000
"""Packet-hops a second of the virtual world on one core; only for telling how long a run takes."""


def packet_ns(spec: FabricSpec) -> int:
    """Time of a full data frame on a link, rounded up."""
    return ceil(Fraction(8 * 10**9 * data_frame_bytes(spec), spec.rate_bps))


def rto_needed_ns(spec: FabricSpec) -> Fraction:
    """A round trip behind full queues, and a quarter: the RTO must not be below it."""
    depths = thresholds(spec)
    queued = 2 * depths.trim + depths.trim_last_hop
    return RTO_MARGIN * (base_rtt_ns(spec) + queued * packet_ns(spec))


def rto_exponent(at_least_ns: Fraction | int) -> int:
    """The smallest t with 1.024 us * 2^t at or above that."""
    exponent = 0
    while RTO_UNIT_NS << exponent < at_least_ns:
        exponent += 1
    return exponent


def rto_ns(exponent: int) -> int:
    return RTO_UNIT_NS << exponent


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """What a run is set up with.  Derived unless the scenario says otherwise and may."""

    base_rtt_ns: int
    rto_exponent: int
    window_bytes: int
    mpr_units: int
    bin_ns: int
    ceiling_bps: Fraction
    """Goodput ceiling of one host: its port rates less headers."""
    duration_ns: int
    """Estimate of the job's duration without faults, from the busiest host."""
    packets_per_second: Fraction
    """Estimate of data packets a second, all hosts together."""

    @property
    def rto_ns(self) -> int:
        return rto_ns(self.rto_exponent)


def numbers(fabric: Fabric, scenario: schema.Scenario) -> Numbers:
    spec = fabric.spec
    exponent = rto_exponent(max(rto_needed_ns(spec), Fraction(scenario.transport.rto or 0)))
    window = scenario.transport.window or window_bytes(spec)
    frame = data_frame_bytes(spec, Routing(scenario.transport.routing))
    ceiling = Fraction(spec.planes * spec.rate_bps * spec.pmtu, frame)
    duration = Fraction(8 * 10**9 * busiest_host_bytes(scenario.workload)) / ceiling
    total = Fraction(flows.payload_bytes(scenario.workload), spec.pmtu)
    return Numbers(
        base_rtt_ns=base_rtt_ns(spec),
        rto_exponent=exponent,
        window_bytes=window,
        mpr_units=_mpr_units(spec, scenario, rto_ns(exponent), window),
        bin_ns=scenario.bin or nice_step(ceil(duration / BINS_PER_JOB)),
        ceiling_bps=ceiling,
        duration_ns=ceil(duration),
        packets_per_second=total * 10**9 / duration,
    )


def window_bytes(spec: FabricSpec) -> int:
    """1.5 BDP of each plane, and what the receiver holds back before it sends a SACK."""
    packets = ceil(WINDOW_BDP * bdp_packets(spec)) + SACK_TRIGGER_PACKETS
    return spec.planes * packets * (spec.pmtu + NOMINAL_HEADER_BYTES)


def busiest_host_bytes(workload: schema.Workload) -> int:
    """The most payload any one host sends or receives."""
    sent: dict[str, int] = {}
    received: dict[str, int] = {}
    pairs = flows.data_flows(workload)
    each = -(-flows.payload_bytes(workload) // len(pairs))
    for src, dst in pairs:
        sent[src] = sent.get(src, 0) + each
        received[dst] = received.get(dst, 0) + each
    return max(*sent.values(), *received.values())


def nice_step(at_least: int) -> int:
    """The smallest of 1, 2, 5, 10, 20, ... at or above that."""
    step = 1
    while step < at_least:
        step = step * 5 // 2 if str(step)[0] == "2" else step * 2
    return step


def switch_settings(scenario: schema.Scenario) -> dict[str, Any]:
    """What switches.entries.SwitchSettings takes, as a world's settings carry it."""
    return {"routing": scenario.transport.routing, **scenario.switches.model_dump()}


def host_config(
    fabric: Fabric, scenario: schema.Scenario, host: Host, derived: Numbers, seed: int
) -> dict[str, Any]:
    """The `configure` message's config: EndpointConfig as JSON, byte strings in hexadecimal."""
    spec = fabric.spec
    return {
        "host": host.name,
        "seed": seed,
        "bin_ns": derived.bin_ns,
        "gid": addressing.gid(host).hex(),
        "ports": [_port(fabric, host, plane) for plane in range(spec.planes)],
        "pmtu": spec.pmtu,
        "base_rtt_ns": derived.base_rtt_ns,
        "timeout": derived.rto_exponent,
        "hold_down_ns": scenario.transport.hold_down,
        "linear_cnt": LINEAR_RETRIES,
        "exp_cnt": EXPONENTIAL_RETRIES,
        "mpr_units": derived.mpr_units,
        "max_wimm": MAX_WIMM,
        "udp_dport": scenario.transport.udp_port,
        "ev_min_active": max(1, spec.planes // 2),
        "probe_interval_ns": derived.rto_ns,
        "probe_successes": PROBE_SUCCESSES,
        "path_policy": scenario.transport.path_policy,
        "cc": scenario.transport.cc,
        "window_bytes": derived.window_bytes,
        "sack_trigger_bytes": SACK_TRIGGER_PACKETS * spec.pmtu,
    }


def _port(fabric: Fabric, host: Host, plane: int) -> dict[str, Any]:
    t0 = fabric.switch(addressing.switch_name(plane, Tier.T0, host.rack))
    return {
        "mac": addressing.host_mac(host, plane).hex(),
        "gateway_mac": addressing.switch_mac(t0, host.downlink).hex(),
        "rate_bps": fabric.spec.rate_bps,
    }


def _mpr_units(spec: FabricSpec, scenario: schema.Scenario, rto: int, window: int) -> int:
    """Wide enough that one lost packet, found by time-out and lost once more, stalls nobody."""
    if scenario.transport.mpr is not None:
        return scenario.transport.mpr // MPR_UNIT
    rate = Fraction(spec.planes * spec.rate_bps, 8 * 10**9 * data_frame_bytes(spec))
    packets = 2 * rto * rate + Fraction(window, spec.pmtu)
    return min(max(ceil(packets / MPR_UNIT), 1), MPR_UNITS_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a run would ask of a machine."""

    nodes: int
    links: int
    qps: int
    evs: int
    packets_per_second: float
    load: float
    """Share of what this machine carries live."""
    virtual_wall_s: float


def cost(fabric: Fabric, scenario: schema.Scenario, ceiling_pps: float) -> Cost:
    derived = numbers(fabric, scenario)
    pairs = flows.data_flows(scenario.workload)
    pps = float(derived.packets_per_second)
    hops = pps * derived.duration_ns / 1e9 * 4 * 1.5
    qps = len({frozenset(pair) for pair in pairs})
    per_plane = scenario.transport.evs_per_plane
    if scenario.transport.routing != "ecmp":
        per_plane = min(per_plane, fabric.spec.t1)
    return Cost(
        nodes=len(fabric.switches) + len(fabric.hosts),
        links=len(fabric.links),
        qps=qps,
        evs=2 * qps * per_plane * fabric.spec.planes,
        packets_per_second=pps,
        load=pps / ceiling_pps,
        virtual_wall_s=hops / VIRTUAL_HOPS_PER_SECOND,
    )
