"""A window that never moves: for tests, and to see what congestion control is good for."""

from hosts.mrc.units import Ns


class FixedWindow:
    __slots__ = ("cwnd_bytes", "inflight_bytes")

    def __init__(self, window_bytes: int) -> None:
        self.cwnd_bytes: float = window_bytes
        self.inflight_bytes = 0

    def on_ack(
        self, received_bytes: int, *, marked: bool, rtt_ns: Ns | None, rtt_is_clean: bool,
        penalty: int, restore: bool, now: Ns,
    ) -> None:  # fmt: skip
        self.inflight_bytes -= received_bytes

    def on_trim(self, size: int, *, last_hop: bool, now: Ns) -> None:
        self.inflight_bytes -= size

    def on_loss(self, size: int) -> None:
        self.inflight_bytes -= size

    def on_requeue(self, size: int) -> None:
        self.inflight_bytes -= size

    def set_rate(self, rate_bps: int) -> None:
        pass
