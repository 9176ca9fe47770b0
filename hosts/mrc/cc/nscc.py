"""NSCC: the window of a QP from network signals, ECN mark and queueing delay (facts/nscc.md 3).

| ECN | delay         | reaction                                                    |
|-----|---------------|-------------------------------------------------------------|
| no  | under target  | proportional increase (fast increase while there is no delay) |
| no  | target, above | fair increase: delay alone never shrinks a window           |
| yes | target, above | multiplicative decrease, once a base RTT                    |
| yes | under target  | nothing; the EV machine takes another path                  |

A trimmed or lost packet takes its own size off the window, and when far less than the window got
through in a round trip, quick adapt cuts it to what did.

`Nscc` is free of units: times are in one tick, whichever (nanoseconds in production, picoseconds
in the vectors), rates in bytes a tick.  Nothing but + - x / min max on doubles, so that every
machine agrees.

`simulator=True` gives uet-htsim's behaviour where it differs from the specification, so that its
traces replay to the bit; the places are marked (s1) to (s10), after the list in facts/nscc.md 4.
"""

from dataclasses import dataclass

REFERENCE_RATE_BPS = 100_000_000_000
REFERENCE_MTU_BYTES = 4096
REFERENCE_RTT_NS = 12_000
NEAR_ZERO_NS = 1_000
"""Table 3-82 of UEC 1.0.3: the network the gains were chosen for, and a delay that counts as
none."""

ALPHA_FACTOR = 4.0
FAIR_FACTOR = 5.0
ETA_FACTOR = 0.15
FAST_FACTOR = 0.25
GAMMA = 0.8
MAX_MD_JUMP = 0.5
WINDOW_FACTOR = 1.5
TARGET_FACTOR = 0.75
"""Target delay in base RTTs, on a network that trims."""
QA_GATE = 3
QA_THRESHOLD_TARGETS = 4
ADJUST_PACKETS = 8
SIMULATOR_DELAY_GAIN = 0.0125
PENALTY_SHIFT = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class NsccParams:
    """Sizes in bytes, times in ticks, rates in bytes a tick.

    mtu: a full packet (nominal size).  gain_unit: what the gains are multiples of; the
    specification says mtu.  qa_threshold: delay that alone triggers quick adapt; None where the
    network trims.
    """

    mtu: int
    rate: float
    base_rtt: float
    ref_bdp: float
    ref_rtt: float
    near_zero: float
    target: float
    gain_unit: float
    bdp: float | None = None
    """Where it is not rate x base_rtt to the last bit."""
    qa_threshold: float | None = None
    qa_gate: int = QA_GATE
    gamma: float = GAMMA
    max_md_jump: float = MAX_MD_JUMP
    quick_adapt: bool = True
    max_cwnd: float | None = None
    simulator: bool = False


def scaled_params(*, rate_bps: float, base_rtt_ns: float, mtu: int) -> NsccParams:
    """Parameters for any rate, by the dilation rule of facts/nscc.md 10: ticks are nanoseconds.

    Absolute times of the reference network are multiplied by the ratio of packet times, its BDP
    is the same number of packets; then this network behaves as 100 Gb/s with base RTT / k does.
    """
    rate = rate_bps / 8e9
    k = (mtu / rate) / (REFERENCE_MTU_BYTES * 8e9 / REFERENCE_RATE_BPS)
    ref_packets = REFERENCE_RATE_BPS * REFERENCE_RTT_NS / 8e9 / REFERENCE_MTU_BYTES
    return NsccParams(
        mtu=mtu,
        rate=rate,
        base_rtt=base_rtt_ns,
        ref_bdp=ref_packets * mtu,
        ref_rtt=REFERENCE_RTT_NS * k,
        near_zero=NEAR_ZERO_NS * k,
        target=TARGET_FACTOR * base_rtt_ns,
        gain_unit=mtu,
    )


class Nscc:
    """One window.  `inflight_bytes` is signed and kept by the caller for sending, here for the
    rest."""

    __slots__ = (
        "_achieved", "_adjust_bytes", "_adjusted_at", "_alpha", "_averaged_at", "_decreased_at",
        "_eta", "_fair", "_fast", "_fast_count", "_fast_scale", "_ignored", "_inc", "_p",
        "_qa_end", "_rate", "_received", "_saved_cwnd", "_to_ignore", "_trigger_qa", "avg_delay",
        "base_rtt", "cwnd_bytes", "inflight_bytes", "max_cwnd",
    )  # fmt: skip

    def __init__(self, params: NsccParams) -> None:
        p = self._p = params
        bdp = p.rate * p.base_rtt if p.bdp is None else p.bdp
        a = bdp / p.ref_bdp
        b = p.target / p.ref_rtt
        self._alpha = ALPHA_FACTOR * p.gain_unit * a * b / p.target
        self._fair = FAIR_FACTOR * p.gain_unit * a
        self._eta = ETA_FACTOR * p.gain_unit * a
        self._fast_scale = FAST_FACTOR * a
        self._adjust_bytes = ADJUST_PACKETS * p.mtu
        self.base_rtt = p.base_rtt
        self._rate = p.rate
        self.max_cwnd = self._bound(WINDOW_FACTOR * bdp)
        self.cwnd_bytes: float = self.max_cwnd
        self.inflight_bytes = 0
        self.avg_delay = 0.0
        self._averaged_at = 0.0
        self._achieved = 0
        self._received = 0
        self._ignored = 0
        self._to_ignore = 0
        self._inc = 0.0
        self._fast_count = 0
        self._fast = False
        self._trigger_qa = False
        self._qa_end = 0.0
        self._adjusted_at = 0.0
        self._decreased_at = 0.0
        self._saved_cwnd: float | None = None

    # -- signals -----------------------------------------------------------------------------------

    def on_ack(
        self, received_bytes: int, *, marked: bool, rtt_ns: float | None, rtt_is_clean: bool = True,
        penalty: int = 0, restore: bool = False, now: float,
    ) -> None:  # fmt: skip
        """A SACK.  `rtt_ns` in ticks; one that is not clean (retransmission) never lowers base
        RTT."""
        self.inflight_bytes -= received_bytes
        self._achieved += received_bytes
        self._received += received_bytes
        self._ignored += received_bytes
        limited = False
        if penalty or self._saved_cwnd is not None:
            limited = self._receiver_limit(received_bytes, penalty, restore)
        p = self._p
        if rtt_ns is None:
            if not p.simulator:
                return
            delay = self.avg_delay  # (s2)
        else:
            if rtt_is_clean and rtt_ns < self.base_rtt:
                self._lower_base_rtt(rtt_ns)
            delay = max(0.0, rtt_ns - self.base_rtt)
            self._average(delay, marked, now)
        if self._quick_adapt(False, marked, delay, now):
            self._clamp()
            return
        self._quadrant(received_bytes, marked, delay, limited, now)
        self._adjust(now)

    def on_trim(
        self, size: int, *, last_hop: bool, now: float, rtt_ns: float | None = None
    ) -> None:
        """The NACK of a trimmed packet."""
        p = self._p
        if not p.simulator:
            self.inflight_bytes -= size  # (s6)
        if rtt_ns is not None and p.simulator and rtt_ns < self.base_rtt:
            self._lower_base_rtt(rtt_ns)  # (s10)
        self._average(p.base_rtt, True, now)
        self._ignored += size
        self._trigger_qa = True
        if not self._quick_adapt(True, True, 0.0, now):
            self._take(size)
        if p.simulator:
            self.inflight_bytes -= size
            self._clamp()

    def on_loss(self, size: int) -> None:
        """A packet declared lost: no quick adapt."""
        self._take(size)
        if not self._p.simulator:
            self._ignored += size  # (s7)
        self.inflight_bytes -= size

    def on_requeue(self, size: int) -> None:
        """Left the network with its port."""
        self.inflight_bytes -= size

    def set_rate(self, rate_bps: float) -> None:
        """In bits per second, ticks being nanoseconds.  The planes in use have changed: the largest
        window follows; gains and target stay."""
        self._rate = rate_bps / 8e9
        self._set_max(WINDOW_FACTOR * self._rate * self.base_rtt)

    # -- rules -------------------------------------------------------------------------------------

    def _receiver_limit(self, received: int, penalty: int, restore: bool) -> bool:
        """rcv_cwnd_pen: 127 all through a round trip leaves about one packet (spec 7.5.1)."""
        if penalty > 0:
            if self._saved_cwnd is None:
                self._saved_cwnd = self.cwnd_bytes
            cut = min(self.cwnd_bytes, self.inflight_bytes) - penalty * received / (
                1 << PENALTY_SHIFT
            )
            self.cwnd_bytes = max(float(self._p.mtu), cut)
            return True
        if self._saved_cwnd is not None:
            if restore:
                self.cwnd_bytes = min(self._saved_cwnd, self.max_cwnd)
            self._saved_cwnd = None
        return False

    def _lower_base_rtt(self, rtt: float) -> None:
        self.base_rtt = rtt = max(rtt, 1.0)  # a tick, where there is no network at all
        self._set_max(WINDOW_FACTOR * self._rate * rtt)

    def _average(self, delay: float, marked: bool, now: float) -> None:
        p = self._p
        if p.simulator:  # (s1)
            if not marked and delay > p.target:
                delay = float(int(self.base_rtt * 0.25))
            gain = SIMULATOR_DELAY_GAIN
            self.avg_delay = float(int(gain * delay + (1 - gain) * self.avg_delay))
            return
        since = now - self._averaged_at
        self._averaged_at = now
        weight = min(1.0, since / self.base_rtt)
        self.avg_delay += weight * (delay - self.avg_delay)

    def _quadrant(
        self, received: int, marked: bool, delay: float, limited: bool, now: float
    ) -> None:
        target = self._p.target
        if marked:
            if delay >= target:
                self._decrease(now)
        elif limited:
            return
        elif delay >= target:
            self._inc += self._fair * received
        else:
            self._fast_increase(received, delay)
            if not self._fast:
                self._inc += self._alpha * received * (target - delay)

    def _fast_increase(self, received: int, delay: float) -> None:
        if delay >= self._p.near_zero:
            self._fast_count = 0
            self._fast = False
            return
        self._fast_count += received
        self._fast = self._fast or self._fast_count > self.cwnd_bytes
        if self._fast:
            self._set(min(self.cwnd_bytes + self._fast_scale * received, self.max_cwnd))

    def _decrease(self, now: float) -> None:
        p = self._p
        self._fast = False
        self._fast_count = 0
        average = self.avg_delay
        if average > p.target and now - self._decreased_at > self.base_rtt:
            factor = max(1 - p.gamma * (average - p.target) / average, p.max_md_jump)
            self._set(max(self.cwnd_bytes * factor, float(p.mtu)))
            self._decreased_at = now

    def _quick_adapt(self, loss: bool, marked: bool, delay: float, now: float) -> bool:
        """Whether this signal is taken care of: the window was cut, or still drains after a cut."""
        p = self._p
        if not p.quick_adapt:
            return False
        handled = False
        if marked and self._ignored < self._to_ignore:
            handled = True
        elif now > self._qa_end if p.simulator else now >= self._qa_end:  # (s5)
            if self._qa_end != 0 and self._must_adapt(loss, delay):
                self._set(max(float(self._achieved), float(p.mtu)))
                self._to_ignore = self.inflight_bytes
                self._ignored = 0
                self._trigger_qa = False
                handled = True
            self._achieved = 0
            self._qa_end = now + self.base_rtt + p.target
        if handled:
            self._inc = 0.0
            self._received = 0
        return handled

    def _must_adapt(self, loss: bool, delay: float) -> bool:
        p = self._p
        late = p.qa_threshold is not None and delay > p.qa_threshold  # (s8)
        if not (self._trigger_qa or loss or late):
            return False
        return self._achieved < int(self.max_cwnd) >> p.qa_gate

    def _adjust(self, now: float) -> None:
        """Pay out what was gained, every few packets or once a base RTT."""
        p = self._p
        since = now - self._adjusted_at
        period = since > p.base_rtt if p.simulator else since >= p.base_rtt  # (s5)
        if period or self._received > self._adjust_bytes:
            self._set(self.cwnd_bytes + self._inc / self.cwnd_bytes)
            if since >= p.base_rtt:
                self._adjusted_at = now
                self._set(self.cwnd_bytes + self._eta)
            self._inc = 0.0
            self._received = 0
        self._clamp()

    # -- bounds ------------------------------------------------------------------------------------

    def _take(self, size: int) -> None:
        self.cwnd_bytes = max(self.cwnd_bytes - size, float(self._p.mtu))

    def _set(self, cwnd: float) -> None:
        self.cwnd_bytes = float(int(cwnd)) if self._p.simulator else cwnd

    def _bound(self, window: float) -> float:
        if self._p.max_cwnd is not None:
            window = min(window, self._p.max_cwnd)
        return float(int(window)) if self._p.simulator else window

    def _set_max(self, window: float) -> None:
        self.max_cwnd = max(self._bound(window), float(self._p.mtu))
        self._clamp()

    def _clamp(self) -> None:
        self.cwnd_bytes = min(max(self.cwnd_bytes, float(self._p.mtu)), self.max_cwnd)
