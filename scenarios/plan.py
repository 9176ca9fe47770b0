"""What a run would build and cost, before it is run.  Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from scenarios import derive, faults, flows, twin
from scenarios.load import Loaded
from topologies import units
from topologies.thresholds import thresholds

WARN_LOAD = 0.5
REFUSE_LOAD = 0.9
"""Of what this machine carries live (design section 8)."""

BMV2_SWITCHES_MAX = 8
BMV2_CORES = 8
"""A BMv2 takes several times the CPU of the engine: more than `tiny` has need so many cores."""

Advice = tuple[str, str]
"""("warn" or "refuse", sentence)."""


def summary(loaded: Loaded, ceiling_pps: float) -> dict[str, Any]:
    """Everything `plan` prints, as plain values."""
    scenario, fabric = loaded.scenario, loaded.fabric
    spec = fabric.spec
    derived = derive.numbers(fabric, scenario)
    cost = derive.cost(fabric, scenario, ceiling_pps)
    depths = thresholds(spec)
    return {
        "scenario": scenario.name,
        "fabric": {
            "planes": spec.planes,
            "switches": len(fabric.switches),
            "hosts": len(fabric.hosts),
            "links": len(fabric.links),
            "rate_bps": spec.rate_bps,
            "delay_ns": spec.delay_ns,
            "pmtu": spec.pmtu,
        },
        "switch_thresholds_packets": {
            "ecn_low": depths.ecn_low,
            "ecn_high": depths.ecn_high,
            "trim": depths.trim,
            "trim_last_hop": depths.trim_last_hop,
        },
        "transport": {
            "base_rtt_ns": derived.base_rtt_ns,
            "rto_ns": derived.rto_ns,
            "rto_exponent": derived.rto_exponent,
            "window_bytes": derived.window_bytes,
            "mpr_packets": derived.mpr_units * derive.MPR_UNIT,
        },
        "job": {
            "hosts": flows.job_hosts(scenario.workload),
            "qps": cost.qps,
            "evs": cost.evs,
            "payload_bytes": flows.payload_bytes(scenario.workload),
            "duration_ns": derived.duration_ns,
        },
        "timeline": [
            {"t_ns": step.t_ns, "fault": step.fault, "what": type(step.what).__name__}
            for step in faults.expand(fabric, scenario.timeline)
        ],
        "live": {
            "packets_per_second": round(cost.packets_per_second),
            "ceiling_packets_per_second": round(ceiling_pps),
            "load": round(cost.load, 3),
        },
        "virtual": {"wall_s_about": round(cost.virtual_wall_s)},
        "twin": twin.sentence(spec),
    }


def advice(load: float) -> Advice | None:
    """Advice if a live run would ask much of this machine, else None."""
    if load <= WARN_LOAD:
        return None
    much = f"this run would use {load:.0%} of what this machine carries live"
    if load > REFUSE_LOAD:
        return "refuse", f"{much}: run it with --world virtual, or at a lower rate"
    return "warn", f"{much}: if it cannot keep time it will say so (invalid)"


def bmv2_advice(plan: Mapping[str, Any], cores: int) -> Advice | None:
    """As `advice`, for a run with BMv2."""
    switches, delay = plan["fabric"]["switches"], plan["fabric"]["delay_ns"]
    if switches > BMV2_SWITCHES_MAX and cores < BMV2_CORES:
        return "refuse", (
            f"{switches} switches of BMv2 need {BMV2_CORES} cores and this machine has {cores}: "
            "use topology tiny-bmv2, or leave out --switch bmv2"
        )
    if delay:
        return "refuse", "BMv2 has no delay: give the topology `delay: 0us`"
    return None


def lines(plan: Mapping[str, Any]) -> Iterator[str]:
    """For people."""
    fabric, transport, job = plan["fabric"], plan["transport"], plan["job"]
    live, marks = plan["live"], plan["switch_thresholds_packets"]
    rate, delay = units.show_rate(fabric["rate_bps"]), units.show_duration(fabric["delay_ns"])
    yield (
        f"fabric     {fabric['planes']} planes, {fabric['switches']} switches, {fabric['hosts']} "
        f"hosts, {fabric['links']} links of {rate} and {delay}, PMTU {fabric['pmtu']} B"
    )
    yield f"twin       {plan['twin']}"
    yield (
        f"switches   mark from {marks['ecn_low']} to {marks['ecn_high']} packets, trim at "
        f"{marks['trim']}, on the last hop at {marks['trim_last_hop']}"
    )
    yield (
        f"transport  base RTT {units.show_duration(transport['base_rtt_ns'])}, RTO "
        f"{units.show_duration(transport['rto_ns'])} (t = {transport['rto_exponent']}), window "
        f"{units.show_size(transport['window_bytes'])}, MPR {transport['mpr_packets']} packets"
    )
    yield (
        f"job        {len(job['hosts'])} hosts, {job['qps']} QPs, {job['evs']} EVs, "
        f"{units.show_size(job['payload_bytes'])} in about "
        f"{units.show_duration(job['duration_ns'])}"
    )
    for name, times in _by_fault(plan["timeline"]).items():
        span = f"from {times[0] / 1e9:g} s to {times[-1] / 1e9:g} s"
        yield f"fault      {name}: {len(times)} steps {span}"
    yield (
        f"live       {live['packets_per_second']} data packets a second, {live['load']:.0%} of "
        f"{live['ceiling_packets_per_second']}"
    )
    yield f"virtual    about {plan['virtual']['wall_s_about']} s on one core"


def _by_fault(steps: list[Mapping[str, Any]]) -> dict[str, list[int]]:
    out: dict[str, list[int]] = {}
    for step in steps:
        out.setdefault(step["fault"], []).append(step["t_ns"])
    return out
