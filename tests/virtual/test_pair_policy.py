"""Path policies other than MRC's: bytes arrive, and each behaves as it is known for."""

from collections import Counter

import pytest

from hosts.errors import UsageError
from hosts.mrc.policy import NAMES
from hosts.wire.packet import Packet
from tests.virtual.pair import US, Pair


def is_data(packet: Packet) -> bool:
    return 0xC6 <= packet.opcode <= 0xCB


@pytest.mark.parametrize("name", NAMES)
def test_bytes_arrive_under_loss(name: str) -> None:
    pair = Pair(path_policy=name)
    pair.impair(0, 0, loss=0.05)
    source, target = pair.write(2 << 20)
    pair.run_to_end()
    assert target.buffer == source.buffer
    assert (not pair.a.retired()) == (name != "mrc")


@pytest.mark.parametrize("name", NAMES)
def test_a_lost_port_moves_everything_to_the_others(name: str) -> None:
    pair = Pair(path_policy=name)
    source, target = pair.write(4 << 20)
    pair.run(20 * US)
    pair.loop.set_link(0, 0, False)
    down = pair.loop.now_ns
    pair.run_to_end()
    assert target.buffer == source.buffer
    assert all(plane == 1 for t, plane, _ in pair.data() if t > down + US)


def shares(name: str) -> tuple[float, Pair]:
    """The share of one of eight EVs that loses every packet."""
    pair = Pair(path_policy=name, seed=5)
    dead = pair.qa.evs.evs[2].value
    pair.drop(lambda p: p.ev == dead and is_data(p))
    pair.write(8 << 20)
    pair.run_to_end(within_ns=500_000_000)
    counts = Counter(packet.ev for _, _, packet in pair.data())
    return counts[dead] / sum(counts.values()), pair


def test_oblivious_goes_on_using_a_dead_path_and_the_others_learn() -> None:
    oblivious, _ = shares("oblivious")
    assert oblivious == pytest.approx(1 / 8, abs=0.02)
    for name in ("bitmap", "reps", "mrc"):
        share, _ = shares(name)
        assert share < 0.6 * oblivious, name
    assert shares("mrc")[0] < 0.4 * oblivious


def test_oblivious_uses_all_evs_alike() -> None:
    pair = Pair(path_policy="oblivious")
    pair.write(2 << 20)
    pair.run_to_end()
    counts = Counter(packet.ev for _, _, packet in pair.data())
    assert max(counts.values()) - min(counts.values()) <= 2


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(UsageError, match="no path policy"):
        Pair(path_policy="best")
