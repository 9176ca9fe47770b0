"""The parts of the live world that need no namespaces."""

import os
import threading
from random import Random

import pytest

from worlds.live import control, losses
from worlds.live.control import MESSAGE_BYTES_MAX, PIECE_BYTES, ChannelClosed
from worlds.live.lateness import Histogram, quantile_of_all
from worlds.live.losses import Counted, Wire


def test_a_quantile_is_right_to_a_sixteenth() -> None:
    rng = Random(1)
    values = sorted(rng.randrange(1, 10**9) for _ in range(20_000))
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    for per_mille in (500, 900, 999, 1000):
        exact = values[len(values) * per_mille // 1000 - 1]
        assert exact <= histogram.quantile(per_mille) <= exact * 17 / 16
    assert histogram.quantile(1000) == histogram.max_ns == values[-1]


def test_small_times_are_exact_and_none_is_nothing() -> None:
    histogram = Histogram()
    assert histogram.quantile(999) == 0
    for value in range(17):
        histogram.add(value)
    assert [histogram.quantile(1000 * n // 17 + 1) for n in range(16)] == list(range(16))
    assert quantile_of_all([]) == 0
    assert quantile_of_all([3, 5]) == 5


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 10 * PIECE_BYTES])
def test_a_message_of_any_length_arrives_whole(size: int) -> None:
    ours, theirs = control.pair()
    message = {"text": "x" * size}
    sender = threading.Thread(target=ours.send, args=(message,))
    sender.start()
    assert theirs.receive() == message
    sender.join()
    ours.close()
    with pytest.raises(ChannelClosed):
        theirs.receive()
    with pytest.raises(ChannelClosed):
        theirs.send({})
    theirs.close()
    assert MESSAGE_BYTES_MAX > 10 * PIECE_BYTES


def test_a_descriptor_travels_with_its_message() -> None:
    ours, theirs = control.pair()
    read, write = os.pipe()
    ours.send({"pipe": 1}, [write])
    os.close(write)
    message, (received,) = theirs.receive_with_descriptors()
    os.write(received, b"through")
    os.close(received)
    assert (message, os.read(read, 16)) == ({"pipe": 1}, b"through")
    os.close(read)
    ours.close()
    theirs.close()


def test_every_lost_frame_has_one_place() -> None:
    counted = {
        "h0-eth0": Counted(rx_packets=10, tx_dropped=3, taken=8, ring_drops=1, sent_down=2),
        "p0t0n0-eth0": Counted(rx_packets=20, tx_dropped=0, taken=20, ring_drops=0),
        "h1-eth0": Counted(rx_packets=5, tx_dropped=4, taken=5, ring_drops=0, sent_refused=1),
        "p0t0n0-eth1": Counted(rx_packets=7, tx_dropped=0, taken=None, ring_drops=0),
    }
    wires = [Wire(name, dead="eth0" in name and "h1" not in name) for name in counted]
    assert losses.places(wires, counted) == {"kernel": 4 + 1, "link_down:h0-eth0": 2 + 3 + 1}


def test_what_a_node_read_before_it_was_counted_is_not_lost() -> None:
    ahead = Counted(rx_packets=10, tx_dropped=0, taken=12, ring_drops=0)
    assert ahead.vanished == 0
