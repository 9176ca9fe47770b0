"""What the requester asks of congestion control; implementations are picked by name.

Sizes are nominal packet sizes (hosts.wire.size), in bytes.  `inflight_bytes` is signed: it falls
by what the receiver says it received, not by what a bitmap says, so lost SACKs do no harm.  The
gate is `inflight + one full packet <= cwnd`, and one packet may always be in flight.
"""

from typing import Protocol

from hosts.mrc.units import Ns


class CongestionControl(Protocol):
    cwnd_bytes: float
    inflight_bytes: int

    def on_ack(
        self, received_bytes: int, *, marked: bool, rtt_ns: Ns | None, rtt_is_clean: bool,
        penalty: int, restore: bool, now: Ns,
    ) -> None:  # fmt: skip
        """A SACK: `received_bytes` more arrived; `rtt_is_clean`: of a packet sent only once."""

    def on_trim(self, size: int, *, last_hop: bool, now: Ns) -> None:
        """A packet was trimmed (or refused) and will be sent again."""

    def on_loss(self, size: int) -> None:
        """A packet was declared lost and will be sent again."""

    def on_requeue(self, size: int) -> None:
        """A packet left the network with its port: no sign of congestion."""

    def set_rate(self, rate_bps: int) -> None:
        """The sum of the rates of the planes in use has changed."""
