"""Which hardware a slow fabric stands for (facts/nscc.md section 10).

With k the ratio of packet times, a network of rate R, base RTT T and MTU M behaves exactly as one
of 100 Gb/s, 4096 B and base RTT T / k.
"""

from fractions import Fraction

from topologies import units
from topologies.model import FabricSpec
from topologies.thresholds import base_rtt_ns

TWIN_RATE_BPS = 100 * 10**9
TWIN_PMTU = 4096


def dilation(spec: FabricSpec) -> Fraction:
    """How many times slower a packet is here than on the twin."""
    return Fraction(spec.pmtu, spec.rate_bps) / Fraction(TWIN_PMTU, TWIN_RATE_BPS)


def sentence(spec: FabricSpec) -> str:
    """`10 Mb/s, 4096 B is 100 Gb/s, 4096 B at 1/10 000 of the speed; base RTT 16 ms is 1.6 us`."""
    ratio = dilation(spec)
    rtt = base_rtt_ns(spec)
    here = f"{units.show_rate(spec.rate_bps)}, {spec.pmtu} B"
    if ratio == 1:
        return f"{here}: the hardware's own speed; base RTT {_rtt(rtt)}"
    speed = f"at 1/{float(ratio):,.0f}" if ratio > 1 else f"at {float(1 / ratio):,.3g} times"
    return (
        f"{here} is 100 Gb/s, {TWIN_PMTU} B {speed.replace(',', ' ')} of the speed; "
        f"base RTT {_rtt(rtt)} is {_rtt(rtt / ratio)}"
    )


def _rtt(ns: Fraction | int) -> str:
    return units.show_duration(float(f"{float(ns):.2g}"))
