"""What an endpoint is told when it is made.  Nothing here changes afterwards."""

from dataclasses import dataclass

from hosts.errors import UsageError
from hosts.mrc import choices
from hosts.mrc.units import (
    EXP_CNT_INFINITE,
    LINEAR_CNT_MAX,
    MPR_UNIT_PSNS,
    NS_PER_S,
    TIMEOUT_EXPONENT_MAX,
    Ns,
    timeout_ns,
)
from hosts.wire.tseth import TICK_NS
from hosts.wire.udp import MRC_PORT

MPR_UNITS_MAX = 255
PORTS_MAX = 8
"""A plane has three bits in a uSID (design section 4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NicPort:
    """`gateway_mac`: the T0 switch's, where every frame goes.  `rate_bps` counts frame bytes."""

    mac: bytes
    gateway_mac: bytes
    rate_bps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointConfig:
    """`ports[p]` is in plane p.  Times in ns.

    timeout: exponent t of the local ACK timeout, 1.024 us x 2^t; see `units.derived_timeout`.
    linear_cnt, exp_cnt: retries of one packet at that timeout, then at doubled ones (25: for
    ever). hold_down_ns: quiet time after which a port whose carrier returned is used again.
    ev_min_active: 0 means max(1, planes / 2).  probe_interval_ns: 0 means 2 x base RTT.
    path_policy: "mrc", or one of hosts.mrc.policy to compare it with.
    window_bytes: with cc "fixed" the window of each QP.  tick_ns: of the wire timestamp; any but
    128 sets tsr.  trace_skip is for debugging: SKIP comes and goes with every mark.
    """

    gid: bytes
    ports: tuple[NicPort, ...]
    base_rtt_ns: Ns
    timeout: int
    pmtu: int = 4096
    hold_down_ns: Ns = NS_PER_S
    linear_cnt: int = LINEAR_CNT_MAX
    exp_cnt: int = 5
    mpr_units: int = 8
    max_wimm: int = 32
    udp_dport: int = MRC_PORT
    ev_min_active: int = 0
    probe_interval_ns: Ns = 0
    probe_successes: int = 3
    path_policy: str = "mrc"
    cc: str = "nscc"
    window_bytes: int = 1 << 18
    sack_trigger_bytes: int = choices.SACK_TRIGGER_BYTES
    tick_ns: int = TICK_NS
    trim_nack: bool = True
    dynamic_mpr: bool = False

    def __post_init__(self) -> None:
        """Raises UsageError."""
        problems = [
            (len(self.gid) != 16, "gid is not 16 bytes"),
            (not 1 <= len(self.ports) <= PORTS_MAX, f"not 1 to {PORTS_MAX} ports"),
            (any(port.rate_bps <= 0 for port in self.ports), "a port rate is not positive"),
            (self.base_rtt_ns <= 0, "base_rtt_ns is not positive"),
            (not 0 <= self.timeout <= TIMEOUT_EXPONENT_MAX, "timeout is not 0 to 24"),
            (self.pmtu not in (256, 512, 1024, 2048, 4096, 8192), "pmtu is not 256 to 8192"),
            (not 0 <= self.linear_cnt <= LINEAR_CNT_MAX, "linear_cnt is not 0 to 7"),
            (not 0 <= self.exp_cnt <= EXP_CNT_INFINITE, "exp_cnt is not 0 to 25"),
            (not 1 <= self.mpr_units <= MPR_UNITS_MAX, "mpr_units is not 1 to 255"),
            (self.max_wimm < 1, "max_wimm is less than 1"),
            (self.probe_successes < 1, "probe_successes is less than 1"),
            (self.window_bytes < 1, "window_bytes is less than 1"),
            (self.tick_ns < 1, "tick_ns is less than 1"),
        ]
        for wrong, why in problems:
            if wrong:
                raise UsageError(f"endpoint configuration: {why}")

    @property
    def rto_ns(self) -> Ns:
        return timeout_ns(self.timeout)

    @property
    def mpr_psns(self) -> int:
        return self.mpr_units * MPR_UNIT_PSNS

    @property
    def min_active(self) -> int:
        return self.ev_min_active or max(1, len(self.ports) // 2)

    @property
    def probe_every_ns(self) -> Ns:
        return self.probe_interval_ns or 2 * self.base_rtt_ns

    @property
    def retry_budget(self) -> int | None:
        """Retries after which a packet's QP is in error; None: never."""
        return None if self.exp_cnt == EXP_CNT_INFINITE else self.linear_cnt + self.exp_cnt

    def retry_timeout_ns(self, timeouts: int) -> Ns:
        """The timeout of a transmission of a packet that timed out so often before."""
        doublings = timeouts - self.linear_cnt + 1
        return self.rto_ns if doublings <= 0 else self.rto_ns << min(doublings, EXP_CNT_INFINITE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteQp:
    """The peer's half of a connection, carried out of band (spec Table 10-1)."""

    gid: bytes
    qpn: int
    psn: int
    mpr_units: int
    max_wimm: int
    trim_nack: bool = True
    dynamic_mpr: bool = False

    def __post_init__(self) -> None:
        if len(self.gid) != 16 or not 0 <= self.qpn < 1 << 24 or not 0 <= self.psn < 1 << 24:
            raise UsageError("remote QP: gid, qpn or psn out of range")
        if not 1 <= self.mpr_units <= MPR_UNITS_MAX or self.max_wimm < 1:
            raise UsageError("remote QP: mpr_units or max_wimm out of range")
