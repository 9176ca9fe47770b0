"""Jobs without a network: messages handed over by the test, in order, late, damaged or wrong."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosts.errors import UsageError
from hosts.workload.job import Job, Region
from hosts.workload.make import make_job, pairs
from hosts.workload.pattern import PERIOD, Pattern


@dataclass
class Memory:
    va: int
    rkey: int
    buffer: bytearray = field(repr=False)


@dataclass
class Fake:
    """The transport of one host: writes go to a list in `Net`."""

    net: "Net"
    name: str

    def register(self, length: int) -> Region:
        region = Memory(
            1 << 20 | len(self.net.regions) << 32, len(self.net.regions), bytearray(length)
        )
        self.net.regions.append(region)
        return region

    def write(
        self, peer: str, wr_id: int, region: Region, offset: int, length: int, *,
        remote_va: int, rkey: int, imm: int | None,
    ) -> None:  # fmt: skip
        send = Send(self.name, peer, wr_id, region, offset, length, remote_va, rkey, imm)
        self.net.queue.append(send)


@dataclass
class Send:
    src: str
    dst: str
    wr_id: int
    region: Region
    offset: int
    length: int
    remote_va: int
    rkey: int
    imm: int | None


class Net:
    """Every host of a job, joined by memory copies."""

    def __init__(self, job: dict[str, Any], seed: int = 1) -> None:
        self.regions: list[Memory] = []
        self.queue: deque[Send] = deque()
        self.jobs: dict[str, Job] = {
            name: make_job(Fake(self, name), {**job, "rank": rank}, seed)
            for rank, name in enumerate(job["ranks"])
        }
        for name, part in self.jobs.items():
            offers = {
                peer: other.exports()[name]
                for peer, other in self.jobs.items()
                if name in other.exports()
            }
            part.connect(offers)

    def start(self) -> None:
        for part in self.jobs.values():
            part.start(0)

    def deliver(self, now_ns: int) -> None:
        send = self.queue.popleft()
        region = self.regions[send.rkey]
        at = send.remote_va - region.va
        assert 0 <= at <= at + send.length <= len(region.buffer)
        region.buffer[at : at + send.length] = send.region.buffer[
            send.offset : send.offset + send.length
        ]
        assert send.imm is not None
        self.jobs[send.dst].received(send.src, send.imm, now_ns)
        self.jobs[send.src].sent(send.dst, send.wr_id, now_ns)

    def run(self, limit: int = 100_000) -> None:
        now = 0
        for now in range(limit):
            if self.queue:
                self.deliver(now)
            for part in self.jobs.values():
                if part.has_work:
                    part.work(now)
            if not self.queue and not any(part.has_work for part in self.jobs.values()):
                return
        raise AssertionError(f"not over after {now} steps")


def ring(n: int, size: int, steps: int = 1) -> dict[str, Any]:
    ranks = [f"h{i}" for i in range(n)]
    return {"kind": "ring_allreduce", "ranks": ranks, "bytes": size, "steps": steps}


@given(st.integers(2, 9), st.integers(1, 3 * PERIOD), st.integers(1, 3))
def test_a_ring_reduces_and_every_rank_can_tell(n: int, size: int, steps: int) -> None:
    net = Net(ring(n, size, steps))
    net.start()
    net.run()
    for part in net.jobs.values():
        assert part.done
        assert part.error is None
        assert part.bytes_corrupt == 0
        assert part.messages == 2 * (n - 1) * steps
    assert sum(p.bytes_total for p in net.jobs.values()) == 2 * (n - 1) * size * steps


def test_the_result_is_the_xor_of_what_ranks_put_in() -> None:
    net = Net(ring(3, 200_000))
    net.start()
    net.run()
    wanted = bytearray(200_000)
    for rank in range(3):
        Pattern.of_rank(1, rank, 0).xor(wanted, 0)
    assert any(wanted)
    for region in net.regions:
        assert region.buffer[-200_000:] == wanted


def test_data_of_an_earlier_iteration_does_not_pass() -> None:
    old = bytearray(1000)
    Pattern.of_all(1, 3, 0).fill(old, 0)
    assert Pattern.of_all(1, 3, 0).differing(old, 0) == 0
    assert Pattern.of_all(1, 3, 1).differing(old, 0) > 900
    assert Pattern.of_all(1, 3, 0).differing(old, 4096) > 900


@pytest.mark.parametrize("index", [0, 1, 99_999, 250_000, 399_999])
def test_one_flipped_byte_is_found_in_a_ring(index: int) -> None:
    net = Net(ring(3, 300_000))
    net.jobs["h1"].corrupt_byte(index)
    net.start()
    net.run()
    assert sum(part.bytes_corrupt for part in net.jobs.values()) >= 1
    assert all(part.done for part in net.jobs.values())


TRANSFERS: list[dict[str, Any]] = [
    {"kind": "write", "ranks": ["a", "b"], "src": "a", "dst": "b", "bytes": 1_000_000},
    {"kind": "write", "ranks": ["a", "b"], "src": "b", "dst": "a", "bytes": 300_001,
     "message_bytes": 1000},
    {"kind": "incast", "ranks": ["a", "b", "c"], "sources": ["a", "b"], "dst": "c",
     "bytes": 70_000, "message_bytes": 33_000},
    {"kind": "permutation", "ranks": ["a", "b", "c"], "hosts": ["a", "b", "c"], "shift": 2,
     "bytes": 66_000, "message_bytes": None},
    {"kind": "write", "ranks": ["a", "b"], "src": "a", "dst": "b", "bytes": 0},
]  # fmt: skip


@pytest.mark.parametrize("job", TRANSFERS, ids=lambda j: f"{j['kind']}-{j['bytes']}")
def test_transfers_arrive_as_sent(job: dict[str, Any]) -> None:
    net = Net(job)
    net.start()
    net.run()
    for name, part in net.jobs.items():
        assert part.done
        assert part.error is None
        assert part.bytes_corrupt == 0
        assert part.bytes_total == job["bytes"] * sum(dst == name for _, dst in pairs(job))


def test_one_flipped_byte_is_found_in_a_transfer() -> None:
    net = Net(TRANSFERS[1])
    net.jobs["a"].corrupt_byte(250_123)
    net.start()
    net.run()
    assert net.jobs["a"].bytes_corrupt == 1


def test_bytes_put_in_the_wrong_place_are_found() -> None:
    net = Net(TRANSFERS[0])
    net.start()
    buffer = net.queue[0].region.buffer
    buffer[4096:8192], buffer[8192:12288] = buffer[8192:12288], buffer[4096:8192]
    net.run()
    assert net.jobs["b"].bytes_corrupt > 8000


def test_an_immediate_out_of_turn_is_an_error() -> None:
    net = Net(TRANSFERS[1])
    net.jobs["a"].received("b", 5, 0)
    assert net.jobs["a"].error == "immediate 5 from b where 0 was due"
    net.jobs["a"].received("z", 0, 0)
    assert net.jobs["a"].error == "immediate 0 from z where none was due"
    circle = Net(ring(3, 1000))
    circle.jobs["h0"].received("h2", 77, 0)
    assert circle.jobs["h0"].error is not None


def test_an_unknown_kind_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="no job of kind 'gossip'"):
        pairs({"kind": "gossip"})
