"""Two endpoints with one wire a plane between them: the harness of the pair tests.

Wires have delay and the faults of worlds/virtual/link.py; there is no switch, so that a test says
exactly what happens to which packet.  Frames are seen with `pair.seen`, dropped with `pair.drop`.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hosts.mrc.config import EndpointConfig, NicPort, RemoteQp
from hosts.mrc.endpoint import Endpoint
from hosts.mrc.ev import EvSpec
from hosts.mrc.memory import MemoryRegion
from hosts.mrc.message import Completion, CompletionKind, Status, WriteRequest
from hosts.mrc.qp import QueuePair
from hosts.mrc.trace import TraceEvent
from hosts.mrc.units import derived_timeout
from hosts.wire.packet import Packet, parse_frame
from worlds.rng import stream
from worlds.virtual.link import PERFECT, Impairment
from worlds.virtual.loop import VirtualLoop

US = 1000
MS = 1_000_000
DELAY_NS = 2 * US
RATE_BPS = 100_000_000_000
BASE_RTT_NS = 6 * US

Judge = Callable[[Packet], bool]


def mac(host: int, plane: int) -> bytes:
    return bytes([2, 0, 0, 0, host, plane])


def gid(host: int) -> bytes:
    return bytes.fromhex("fd00") + bytes(13) + bytes([host])


def make_evs(planes: int, per_plane: int, first: int = 0) -> list[EvSpec]:
    """EVs with the plane in the low three bits, as in topologies.routing."""
    return [
        EvSpec(ev=(i << 3) | plane, plane=plane, outer_dst=bytes([0x5F, plane, i, *range(13)]))
        for i in range(first, first + per_plane)
        for plane in range(planes)
    ]


class Host:
    """One end: the endpoint and what it told so far."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.completions: list[Completion] = []
        self.trace: list[TraceEvent] = []

    def collect(self) -> None:
        self.completions += self.endpoint.poll_completions()
        self.trace += self.endpoint.poll_trace()

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Fields of the trace events of that kind."""
        self.collect()
        return [event.fields for event in self.trace if event.kind == kind]

    def retired(self) -> set[tuple[int, int]]:
        """(qpn, ev) that ever entered ASSUMED_BAD."""
        return {(e["qpn"], e["ev"]) for e in self.of("ev_state") if e["to"] == "assumed_bad"}

    def done(self, kind: CompletionKind = CompletionKind.SEND) -> list[Completion]:
        self.collect()
        return [c for c in self.completions if c.kind is kind]

    def count(self, name: str) -> int:
        return self.endpoint.counters()[name]


class Pair:
    """`a` sends to `b` in most tests; QPs work both ways.  `seen` holds what each put on a wire."""

    def __init__(
        self,
        *,
        planes: int = 2,
        evs_per_plane: int = 4,
        backup_per_plane: int = 0,
        seed: int = 1,
        psn: tuple[int, int] | None = None,
        delay_ns: int = DELAY_NS,
        qps: int = 1,
        record: bool = True,
        pd: tuple[int, int] = (0, 0),
        **config: Any,
    ) -> None:
        self.planes = planes
        self._pd = pd
        self.loop = VirtualLoop(lambda name: stream(seed, name))
        self.hosts: list[Host] = []
        self.seen: list[tuple[int, int, int, Packet]] = []
        """(time, host, plane, packet)"""
        self._judges: list[Judge] = []
        settings: dict[str, Any] = {
            "base_rtt_ns": BASE_RTT_NS, "timeout": derived_timeout(BASE_RTT_NS, 20 * US),
            "hold_down_ns": 50 * US, "window_bytes": 1 << 18, **config,
        }  # fmt: skip
        rate = settings.pop("rate_bps", RATE_BPS)
        for index in range(2):
            ports = tuple(NicPort(mac=mac(index, p), gateway_mac=mac(1 - index, p), rate_bps=rate)
                          for p in range(planes))  # fmt: skip
            cfg = EndpointConfig(gid=gid(index), ports=ports, **settings)
            endpoint = Endpoint(cfg, stream(seed, f"host/{index}"))
            self.loop.add_node(f"h{index}", endpoint)
            self.hosts.append(Host(endpoint))
        self.a, self.b = self.hosts
        for plane in range(planes):
            for link in self.loop.connect(0, plane, 1, plane):
                link.impairment = Impairment(delay_ns=delay_ns, drop_if=self._drop_if)
        if record:
            self.loop.tap(self._see)
        self.qps = [self._connect(evs_per_plane, backup_per_plane, psn) for _ in range(qps)]
        self.qa, self.qb = self.qps[0]

    def _connect(
        self, per_plane: int, backup: int, psn: tuple[int, int] | None
    ) -> tuple[QueuePair, QueuePair]:
        evs, spare = make_evs(self.planes, per_plane), make_evs(self.planes, backup, per_plane)
        made = [
            host.endpoint.create_qp(evs, spare, pd)
            for host, pd in zip(self.hosts, self._pd, strict=True)
        ]
        if psn is not None:
            for host, qp, first in zip(self.hosts, made, psn, strict=True):
                _renumber(host.endpoint, qp, first)
        for me in range(2):
            config = self.hosts[me].endpoint.config
            other = made[1 - me]
            remote = RemoteQp(
                gid=gid(1 - me), qpn=other.qpn, psn=other.psn, mpr_units=config.mpr_units,
                max_wimm=config.max_wimm, dynamic_mpr=config.dynamic_mpr,
            )  # fmt: skip
            self.hosts[me].endpoint.connect_qp(made[me].qpn, remote)
        return made[0], made[1]

    def _see(self, now: int, node: int, port: int, frame: bytes) -> None:
        self.seen.append((now, node, port, parse_frame(frame)))

    def _drop_if(self, frame: bytes, now: int) -> bool:
        if not self._judges:
            return False
        packet = parse_frame(frame)
        return any(judge(packet) for judge in self._judges)

    # -- faults ----------------------------------------------------------------------------------

    def drop(self, judge: Judge) -> None:
        """Lose every packet for which `judge` is true, either way, from now on."""
        self._judges.append(judge)

    def heal(self) -> None:
        self._judges.clear()

    def drop_once(self, judge: Judge) -> None:
        """Lose the first such packet."""
        lost: list[Packet] = []

        def first(packet: Packet) -> bool:
            if not lost and judge(packet):
                lost.append(packet)
                return True
            return False

        self._judges.append(first)

    def impair(self, host: int, plane: int, **how: Any) -> None:
        """Change the wire that leaves `host` in that plane."""
        link = self.loop.links[host, plane]
        base = link.impairment if link.impairment is not PERFECT else Impairment()
        link.impairment = replace(base, **how)

    # -- work ------------------------------------------------------------------------------------

    def write(
        self, size: int, *, imm: int | None = None, qp: QueuePair | None = None,
        into: tuple[MemoryRegion, int] | None = None, wr_id: int = 0, reverse: bool = False,
    ) -> tuple[MemoryRegion, MemoryRegion]:  # fmt: skip
        """Post a write of random bytes from a to b (b to a if `reverse`); (source, target)."""
        src, dst = (self.b, self.a) if reverse else (self.a, self.b)
        qp = qp or (self.qb if reverse else self.qa)
        local = src.endpoint.register_memory(size)
        local.buffer[:] = stream(7, f"data/{size}/{wr_id}").randbytes(size)
        target, offset = into or (dst.endpoint.register_memory(size), 0)
        request = WriteRequest(wr_id, local, 0, size, target.va + offset, target.rkey, imm)
        src.endpoint.post_write(qp.qpn, request)
        self.loop.wake(self.hosts.index(src))
        return local, target

    def run(self, for_ns: int) -> None:
        self.loop.run_until(self.loop.now_ns + for_ns)

    def run_to_end(self, sends: int = 1, within_ns: int = 50 * MS) -> None:
        """Until a (or b) has so many send completions; fails if that takes too long."""
        t_max = self.loop.now_ns + within_ns

        def waiting() -> bool:
            return len(self.a.done()) + len(self.b.done()) < sends

        assert self.loop.run_while(waiting, t_max), f"not done: {self.a.endpoint.counters()}"
        for host in self.hosts:
            assert all(c.status is Status.SUCCESS for c in host.done()), host.done()

    def data(self, host: int = 0) -> list[tuple[int, int, Packet]]:
        """(time, plane, packet) of every write packet that host put on a wire."""
        return [(t, p, k) for t, h, p, k in self.seen if h == host and 0xC6 <= k.opcode <= 0xCB]

    def control(self, opcode: int, host: int = 1) -> list[tuple[int, int, Packet]]:
        return [(t, p, k) for t, h, p, k in self.seen if h == host and k.opcode == opcode]


def _renumber(endpoint: Endpoint, qp: QueuePair, first_psn: int) -> None:
    """Give a fresh QP another first PSN (they are drawn at random)."""
    from hosts.mrc.outstanding import Outstanding

    qp.psn = first_psn
    requester = qp.requester
    requester.outstanding = Outstanding(first_psn)
    requester._next_seq = requester.loss.scanned_seq = first_psn
