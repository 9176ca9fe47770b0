"""The bench moves what it says it moves."""

import itertools

import pytest

from hosts import bench


@pytest.mark.parametrize("qps", [1, 7])
def test_the_pump_moves_every_packet_once(qps: int) -> None:
    pump = bench.Pump(qps=qps, packets_per_message=16)
    pump.run(512)
    sent, received = pump.a.counters(), pump.b.counters()
    assert sent["tx_data_first"] == received["rx_data_new"] == 512
    assert sent["tx_data_again"] == 0
    assert sent["messages_sent"] == 32


def test_a_cost_is_in_units_of_the_clock_and_scapy_builds_the_same_bytes() -> None:
    ticks = itertools.count()
    pump = bench.Pump()
    assert pump.timed(128, lambda: float(next(ticks))) == 1 / 128
    assert bench.scapy_cost(pump.sample(4)[:4], lambda: float(next(ticks))) > 0
