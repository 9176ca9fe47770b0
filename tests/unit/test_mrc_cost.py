"""What a packet costs does not grow with the QPs, the EVs or the window.

Counted in calls of Python functions, not timed: the count is the same on every machine.
"""

import sys
from collections import Counter
from types import FrameType

from hosts.bench import Pump

PACKETS = 4096
SLACK = 1.05
"""SACKs that overtake one another tell one QP alone less than they tell many: a few percent."""


def calls_per_packet(pump: Pump, packets: int = PACKETS) -> float:
    """By both ends together, once every QP has used every EV."""
    pump.run(max(packets, pump.first_round))
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            calls[frame.f_code.co_filename] += 1

    sent = pump.a.counters()["tx_data_first"]
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        pump.run(packets)
    finally:
        sys.setprofile(before)
    assert pump.a.counters()["tx_data_again"] == 0
    made = sum(n for name, n in calls.items() if "/hosts/" in name)
    return made / (pump.a.counters()["tx_data_first"] - sent)


def test_more_qps_do_not_make_a_packet_dearer() -> None:
    message, packets = 32, 512 * 32  # at least one message for each
    one = calls_per_packet(Pump(qps=1, packets_per_message=message), packets)
    for qps in (64, 512):
        many = calls_per_packet(Pump(qps=qps, packets_per_message=message), packets)
        assert many < SLACK * one, qps


def test_more_evs_do_not_make_a_packet_dearer() -> None:
    few = calls_per_packet(Pump(evs_per_plane=4))
    many = calls_per_packet(Pump(evs_per_plane=256))
    assert many < SLACK * few


def test_a_wider_window_does_not_make_a_packet_dearer() -> None:
    narrow = calls_per_packet(Pump(base_rtt_ns=8_000))
    wide = calls_per_packet(Pump(base_rtt_ns=128_000))
    assert wide < SLACK * narrow
