"""Hosts run jobs over hubs: what the runner's messages promise, without any switch of ours."""

import json
from typing import Any

import pytest

from hosts.errors import UsageError
from hosts.host import Host
from hosts.wire.packet import parse_frame
from worlds.rng import stream
from worlds.virtual.link import Impairment
from worlds.virtual.loop import VirtualLoop

PLANES = 2
DELAY_NS = 2000
BIN_NS = 50_000
MS = 1_000_000


class Hub:
    """Stands in for a plane: every frame goes straight to the NIC it names inside."""

    def __init__(self, gids: list[bytes]) -> None:
        self._ports = {gid: port for port, gid in enumerate(gids)}
        self._out: list[tuple[int, bytes]] = []

    def receive_frame(self, port: int, frame: bytes, now_ns: int) -> None:
        self._out.append((self._ports[parse_frame(frame).inner_dst], frame))

    def handle_timeout(self, now_ns: int) -> None: ...

    def poll_transmit(self, now_ns: int) -> tuple[int, bytes] | None:
        return self._out.pop(0) if self._out else None

    def next_timeout(self) -> int | None:
        return None

    def port_changed(self, port: int, up: bool, now_ns: int) -> None: ...


def gid(index: int) -> bytes:
    return bytes.fromhex("fd6d7263") + bytes(11) + bytes([index + 1])


class Bench:
    """Hosts h0.. joined by one hub a plane, and the runner's half of the conversation."""

    def __init__(self, count: int, seed: int = 1) -> None:
        self.loop = VirtualLoop(lambda name: stream(seed, name))
        self.names = [f"h{i}" for i in range(count)]
        self.hosts = {
            name: Host(self._config(i, seed), stream(seed, f"host/{name}"))
            for i, name in enumerate(self.names)
        }
        for name, host in self.hosts.items():
            self.loop.add_node(name, host)
        for plane in range(PLANES):
            hub = self.loop.add_node(f"hub{plane}", Hub([gid(i) for i in range(count)]))
            for i in range(count):
                for wire in self.loop.connect(i, plane, hub, i):
                    wire.impairment = Impairment(delay_ns=DELAY_NS)

    def _config(self, index: int, seed: int) -> dict[str, Any]:
        port = {"mac": f"0203{index:04x}0000", "gateway_mac": "020100000000", "rate_bps": 10**10}
        return {
            "host": f"h{index}", "seed": seed, "bin_ns": BIN_NS, "gid": gid(index).hex(),
            "ports": [port] * PLANES, "pmtu": 1024, "base_rtt_ns": 10_000, "timeout": 8,
            "hold_down_ns": MS, "window_bytes": 100_000,
        }  # fmt: skip

    def tell(self, host: str, op: str, **message: Any) -> dict[str, Any]:
        """As over a socket: what is said and answered must survive JSON."""
        wire = json.loads(json.dumps({"op": op, **message}))
        answer = self.hosts[host].control(wire, self.loop.now_ns)
        self.loop.wake(self.names.index(host))
        decoded: dict[str, Any] = json.loads(json.dumps(answer))
        return decoded

    def set_up(self, job: dict[str, Any], pairs: set[tuple[str, str]]) -> None:
        ends: dict[tuple[str, str], dict[str, Any]] = {}
        for a, b in sorted(pairs):
            for host, peer in ((a, b), (b, a)):
                evs = [[0xC000 | i << 3 | p, p, "5f" * 16] for i in range(2) for p in range(PLANES)]
                ends[host, peer] = self.tell(host, "qp_create", peer=peer, evs=evs, backup=[])
        for host, peer in ends:
            self.tell(host, "qp_connect", qpn=ends[host, peer]["qpn"], remote=ends[peer, host])
        exports = {}
        for rank, host in enumerate(job["ranks"]):
            qps = {peer: end["qpn"] for (owner, peer), end in ends.items() if owner == host}
            answer = self.tell(host, "job_create", job={**job, "rank": rank}, qps=qps)
            exports[host] = answer["exports"]
        for host in job["ranks"]:
            imports = {peer: offer[host] for peer, offer in exports.items() if host in offer}
            self.tell(host, "job_connect", imports=imports)

    def run(self, limit_ns: int = 500 * MS) -> dict[str, dict[str, Any]]:
        """Start, run till all are done, give it a while to fall silent, stop."""
        for host in self.names:
            self.tell(host, "start", t0_ns=100_000)
        while not all(h.done_ns is not None or h.error for h in self.hosts.values()):
            assert self.loop.now_ns < limit_ns, "the job does not end"
            self.loop.run_until(self.loop.now_ns + 100_000)
        self.loop.run_until(self.loop.now_ns + 5 * MS)
        return {host: self.tell(host, "stop") for host in self.names}


def ring(count: int, size: int, steps: int = 2) -> tuple[dict[str, Any], set[tuple[str, str]]]:
    ranks = [f"h{i}" for i in range(count)]
    pairs = {tuple(sorted((rank, ranks[i - 1]))) for i, rank in enumerate(ranks)}
    job = {"kind": "ring_allreduce", "ranks": ranks, "bytes": size, "steps": steps}
    return job, pairs  # type: ignore[return-value]


@pytest.mark.parametrize("count", [2, 3, 4])
def test_a_ring_allreduce_ends_with_every_byte_right(count: int) -> None:
    bench = Bench(count)
    bench.set_up(*ring(count, 500_001))
    stopped = bench.run()
    total = 0
    for host, answer in stopped.items():
        job = answer["job"]
        assert job["completed"], host
        assert job["bytes_corrupt"] == 0
        assert job["messages"] == 2 * (count - 1) * 2
        assert len(job["iterations_ns"]) == 2
        assert sum(count for _, count in answer["samples"]) == job["bytes_delivered"]
        assert {qp["state"] for qp in answer["qps"]} == {"rts"}
        total += job["bytes_delivered"]
    assert total == 2 * (count - 1) * 500_001 * 2


def test_a_flipped_byte_is_seen_in_the_report() -> None:
    bench = Bench(3)
    bench.set_up(*ring(3, 300_000, steps=1))
    bench.tell("h1", "hook", corrupt_byte=150_000)
    stopped = bench.run()
    assert sum(answer["job"]["bytes_corrupt"] for answer in stopped.values()) >= 1


def test_the_same_seed_gives_the_same_run() -> None:
    def once() -> str:
        bench = Bench(3)
        bench.set_up(*ring(3, 200_000))
        return json.dumps([bench.run(), bench.loop.events, bench.loop.now_ns])

    assert once() == once()


def test_polls_tell_progress_events_and_each_sample_once() -> None:
    bench = Bench(2)
    bench.set_up(
        {"kind": "write", "ranks": ["h0", "h1"], "src": "h0", "dst": "h1", "bytes": 2_000_000,
         "message_bytes": 100_000},
        {("h0", "h1")},
    )  # fmt: skip
    for host in bench.names:
        bench.tell(host, "start", t0_ns=100_000)
    samples: list[list[int]] = []
    events = []
    while True:
        bench.loop.run_until(bench.loop.now_ns + 130_000)
        answer = bench.tell("h1", "poll")
        samples += answer["samples"]
        events += answer["events"]
        if answer["done"]:
            break
        assert answer["progress"]["bytes_done"] < 2_000_000
        assert answer["ev"]["good"] + answer["ev"]["skip"] == 4
    stop = bench.tell("h1", "stop")
    samples += stop["samples"]
    assert answer["progress"] == {"bytes_done": 2_000_000, "bytes_total": 2_000_000}
    starts = [start for start, _ in samples]
    assert starts == sorted(set(starts))
    assert all((start - 100_000) % BIN_NS == 0 for start in starts)
    assert sum(count for _, count in samples) == 2_000_000
    assert [e["to"] for e in events if e["kind"] == "qp_state"] == ["rtr", "rts"]
    assert stop["job"]["messages"] == 20
    assert stop["job"]["flows_ns"] == {}
    took_ns = bench.tell("h0", "stop")["job"]["flows_ns"]["h1"]
    assert 0 < took_ns <= bench.loop.now_ns - 100_000


def test_a_peer_that_vanishes_ends_the_job_with_a_reason() -> None:
    bench = Bench(2)
    bench.set_up(*ring(2, 2_000_000, steps=50))
    for host in bench.names:
        bench.tell(host, "start", t0_ns=100_000)
    bench.loop.run_until(MS)
    for plane in range(PLANES):
        bench.loop.set_link(0, plane, False)
    while bench.hosts["h1"].error is None:
        assert bench.loop.now_ns < 10_000 * MS
        bench.loop.run_until(bench.loop.now_ns + 10 * MS)
    answer = bench.tell("h1", "stop")
    assert not answer["job"]["completed"]
    assert answer["job"]["error"].startswith("QP to h0: ")
    assert answer["qps"][0]["state"] == "error"


def test_a_denied_ev_carries_nothing_until_it_is_allowed() -> None:
    bench = Bench(2)
    bench.set_up(*ring(2, 500_000))
    bench.tell("h0", "deny", ev=0xC000, denied=True)
    assert bench.tell("h0", "poll")["ev"]["denied"] == 1
    seen = set()

    def see(now_ns: int, node: int, port: int, frame: bytes) -> None:
        if node == 0:
            seen.add(parse_frame(frame).ev)

    bench.loop.tap(see)
    assert bench.run()["h0"]["job"]["completed"]
    assert 0xC001 in seen
    assert 0xC000 not in seen
    bench.tell("h0", "deny", ev=0xC000, denied=False)
    assert bench.tell("h0", "poll")["ev"]["denied"] == 0
    with pytest.raises(UsageError, match="no QP has EV 0x1"):
        bench.tell("h0", "deny", ev=1, denied=True)


def test_an_ev_allowed_while_its_plane_is_down_waits_for_the_plane() -> None:
    """A named bug: the controller's word put it back into use at once."""
    bench = Bench(2)
    bench.set_up(*ring(2, 500_000))
    bench.tell("h0", "deny", ev=0xC000, denied=True)
    bench.loop.set_link(0, 0, False)
    bench.tell("h0", "deny", ev=0xC000, denied=False)
    states = {ev: state for ev, plane, state in bench.tell("h0", "stop")["qps"][0]["evs"]}
    assert states[0xC000] == "assumed_bad"


def test_messages_are_refused_with_a_sentence() -> None:
    bench = Bench(2)
    host = bench.hosts["h0"]
    with pytest.raises(UsageError, match="no message 'dance'"):
        host.control({"op": "dance"}, 0)
    with pytest.raises(UsageError, match="no job yet"):
        host.control({"op": "start", "t0_ns": 1}, 0)
    with pytest.raises(UsageError, match="qp_create: KeyError: 'evs'"):
        host.control({"op": "qp_create", "peer": "h1"}, 0)
    with pytest.raises(UsageError, match="QP 3 does not lead to h1"):
        host.control({"op": "job_create", "job": ring(2, 10)[0], "qps": {"h1": 3}}, 0)
    assert host.control({"op": "hello"}, 0) == {"host": "h0", "ports": 2, "gid": gid(0).hex()}
    config = bench._config(0, 1)
    with pytest.raises(UsageError, match="unknown key 'colour'"):
        Host({**config, "colour": 1}, stream(1, "x"))
    with pytest.raises(UsageError, match="pmtu"):
        Host({**config, "pmtu": 1000}, stream(1, "x"))
