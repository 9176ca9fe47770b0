"""What a data packet costs in the endpoint, against scapy on the same bytes (design section 13).

`endpoint_vs_scapy`: data packets per CPU-second, both ends counted (the SACKs that go with them
too), over what scapy needs to build and to dissect each of the same frames once.  The clock is
handed in, as everywhere below the worlds: `time.process_time`.
"""

import gc
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from statistics import median

from hosts.mrc.config import EndpointConfig, NicPort, RemoteQp
from hosts.mrc.endpoint import Endpoint
from hosts.mrc.ev import EvSpec
from hosts.mrc.message import WriteRequest
from hosts.mrc.port import LATE_FRAMES
from hosts.wire.packet import parse_frame
from hosts.wire.path import Path
from hosts.wire.size import nominal_size

Clock = Callable[[], float]
"""CPU seconds of this process."""

PLANES = 4
EVS_PER_PLANE = 32
RATE_BPS = 100_000_000_000
BASE_RTT_NS = 8_000

ENDPOINT_PACKETS = 1_024
REPEATS = 16
"""The best of several short runs: what else the machine does is nobody's cost."""
SCAPY_FRAMES = 200
MESSAGE_BYTES_MAX = 1 << 20
QPS = (1, 64, 512)
QPS_MESSAGE_PACKETS = 32
QPS_PACKETS = 2 * max(QPS) * QPS_MESSAGE_PACKETS
"""Two messages for each QP where there are most of them, as many packets where there are fewer."""
QPS_ROUNDS = 9
QPS_WARM_UP = 4
"""Each QP first uses each EV so often: then paths are made, and the way back is known."""
PMTUS = (1024, 4096)
"""Frames of 1166 and 4238 bytes."""


@dataclass(frozen=True, slots=True)
class EndpointCost:
    """CPU seconds a data packet: both ends together, and its parts (shares of `total_s`)."""

    frame_bytes: int
    total_s: float
    parse_share: float
    emit_share: float
    scapy_s: float

    @property
    def ratio(self) -> float:
        return self.scapy_s / self.total_s

    def as_dict(self) -> dict[str, float]:
        machine = 1 - self.parse_share - self.emit_share
        return {
            "ratio": self.ratio, "endpoint_us": self.total_s * 1e6, "scapy_us": self.scapy_s * 1e6,
            "share_parse": self.parse_share, "share_emit": self.emit_share,
            "share_machine": machine,
        }  # fmt: skip


def endpoint_vs_scapy(clock: Clock) -> dict[int, EndpointCost]:
    """By frame length."""
    costs = [_cost(pmtu, clock) for pmtu in PMTUS]
    return {cost.frame_bytes: cost for cost in costs}


def qps_ratios(clock: Clock) -> dict[int, float]:
    """By number of QPs that send at the same time, the cost of a packet over that with one QP.

    The median of rounds in which all have their turn: a machine has faster and slower seconds, and
    the least of each would come from different ones.
    """
    pumps = {qps: Pump(qps=qps, packets_per_message=QPS_MESSAGE_PACKETS) for qps in QPS}
    for pump in pumps.values():
        pump.run(max(QPS_PACKETS, QPS_WARM_UP * pump.first_round))
    rounds = []
    gc.freeze()  # as a NIC process does
    try:
        for _ in range(QPS_ROUNDS):
            rounds.append({qps: pump.timed(QPS_PACKETS, clock) for qps, pump in pumps.items()})
    finally:
        gc.unfreeze()
    return {qps: median(costs[qps] / costs[1] for costs in rounds) for qps in QPS if qps > 1}


def _cost(pmtu: int, clock: Clock) -> EndpointCost:
    pump = Pump(pmtu=pmtu)
    pump.run(ENDPOINT_PACKETS)  # caches filled
    best = min(pump.timed(ENDPOINT_PACKETS, clock) for _ in range(REPEATS))
    frames = pump.sample(SCAPY_FRAMES)
    parse_s = _per_call(lambda frame: parse_frame(frame), frames, clock)
    emit_s = _emit_cost(pmtu, clock)
    return EndpointCost(
        len(frames[0]), best, parse_s / best, emit_s / best, scapy_cost(frames, clock)
    )


class Pump:
    """Two endpoints back to back, no loop and no wires: frames go straight over.

    `qps` connections carry the same writes in turn; time moves on by a step when both ends have
    said all.
    """

    def __init__(
        self, *, pmtu: int = 4096, qps: int = 1, evs_per_plane: int = EVS_PER_PLANE,
        planes: int = PLANES, packets_per_message: int = 128, base_rtt_ns: int = BASE_RTT_NS,
    ) -> None:  # fmt: skip
        assert packets_per_message * pmtu <= MESSAGE_BYTES_MAX
        self.packets_per_message = packets_per_message
        self.now_ns = 0
        self._returning: deque[tuple[int, tuple[int, bytes]]] = deque()
        self.pmtu = pmtu
        self._base_rtt_ns = base_rtt_ns
        self._poll_ns = int(LATE_FRAMES * nominal_size(pmtu) * 8e9 / RATE_BPS)
        """As rarely as costs no goodput."""
        self.a, self.b = (_endpoint(index, pmtu, planes, base_rtt_ns) for index in range(2))
        evs = [EvSpec(i << 3 | p, p, bytes(16)) for i in range(evs_per_plane)
               for p in range(planes)]  # fmt: skip
        self._evs = len(evs)
        self.qpns = [self._connect(evs) for _ in range(qps)]
        self._source = self.a.register_memory(MESSAGE_BYTES_MAX)
        self._target = self.b.register_memory(MESSAGE_BYTES_MAX)

    def _connect(self, evs: Sequence[EvSpec]) -> int:
        ends = (self.a, self.b)
        made = [end.create_qp(evs) for end in ends]
        for i, end in enumerate(ends):
            other = made[1 - i]
            end.connect_qp(
                made[i].qpn,
                RemoteQp(
                    gid=ends[1 - i].config.gid, qpn=other.qpn, psn=other.psn,
                    mpr_units=end.config.mpr_units, max_wimm=end.config.max_wimm,
                ),
            )  # fmt: skip
        return made[0].qpn

    @property
    def first_round(self) -> int:
        """Data packets until every QP has used every EV."""
        return len(self.qpns) * self._evs

    def run(self, packets: int) -> None:
        """Move so many data packets, in messages that go to the QPs in turn."""
        per_message = self.packets_per_message
        messages = -(-packets // per_message)
        for i in range(messages):
            self.a.post_write(
                self.qpns[i % len(self.qpns)],
                WriteRequest(
                    i, self._source, 0, per_message * self.pmtu, self._target.va, self._target.rkey
                ),
            )
        done = 0
        while done < messages:
            self._step()
            done += len(self.a.poll_completions())

    def _step(self) -> list[tuple[int, bytes]]:
        """Half a round trip of one end, what it sent for the other end, and back.

        Frames go over in batches, as drivers find them; they reach `b` at once and `a` a base RTT
        later.  Returns what `a` sent, as (port, frame).
        """
        start, end = self.now_ns, self.now_ns + self._base_rtt_ns // 2
        returning = self._returning
        for sent in _sent_until(self.b, start, end, self._poll_ns):
            returning.append((start + self._base_rtt_ns, sent))
        batch = _sent_until(self.a, start, end, self._poll_ns)
        for port, frame in batch:
            self.b.receive_frame(port, frame, end)
        while returning and returning[0][0] <= end:
            self.a.receive_frame(*returning.popleft()[1], end)
        self.now_ns = end
        return batch

    def timed(self, packets: int, clock: Clock) -> float:
        """CPU seconds a data packet."""
        sent = self.a.services.counters.tx_data_first
        start = clock()
        self.run(packets)
        spent = clock() - start
        return spent / (self.a.services.counters.tx_data_first - sent)

    def sample(self, count: int) -> list[bytes]:
        """Data frames as they leave `a`."""
        self.a.post_write(
            self.qpns[0],
            WriteRequest(0, self._source, 0, count * self.pmtu, self._target.va, self._target.rkey),
        )
        frames: list[bytes] = []
        while len(frames) < count:
            frames += [frame for _, frame in self._step()]
        return [frame for frame in frames if len(frame) == max(map(len, frames))]


def _sent_until(node: Endpoint, start: int, end: int, every: int) -> list[tuple[int, bytes]]:
    """What `node` sends, and its timers, with a driver that looks at it so often."""
    batch = []
    for now in range(start, end, every):
        due = node.next_timeout()
        if due is not None and due <= now:
            node.handle_timeout(now)
        while (sent := node.poll_transmit(now)) is not None:
            batch.append(sent)
    return batch


def _endpoint(index: int, pmtu: int, planes: int, base_rtt_ns: int) -> Endpoint:
    ports = tuple(
        NicPort(mac=bytes([2, 0, 0, 0, index, p]), gateway_mac=bytes(6), rate_bps=RATE_BPS)
        for p in range(planes)
    )
    config = EndpointConfig(
        gid=bytes(15) + bytes([index + 1]), ports=ports, base_rtt_ns=base_rtt_ns, timeout=12,
        pmtu=pmtu,
    )  # fmt: skip
    return Endpoint(config, Random(index))


def _per_call(what: Callable[[bytes], object], frames: Sequence[bytes], clock: Clock) -> float:
    best = float("inf")
    for _ in range(REPEATS):
        start = clock()
        for frame in frames:
            what(frame)
        best = min(best, (clock() - start) / len(frames))
    return best


def _emit_cost(pmtu: int, clock: Clock) -> float:
    path = Path(
        src_mac=bytes(6), dst_mac=bytes(6), src_gid=bytes(16), dst_gid=bytes(16),
        outer_dst=bytes(16), ev=1,
    )  # fmt: skip
    payload = memoryview(bytes(pmtu))

    def emit(_: bytes) -> bytes:
        return path.emit_write(3, 0xC7, 1, payload, 0, 0, 0, 0, pmtu, None, 0)

    return _per_call(emit, [b""] * SCAPY_FRAMES, clock)


def scapy_cost(frames: Sequence[bytes], clock: Clock) -> float:
    """CPU seconds that scapy needs to dissect a frame and to build it again."""
    from scapy.compat import raw
    from scapy.layers.l2 import Ether

    import hosts.scapy_mrc  # noqa: F401 - binds MRC's headers

    def both(frame: bytes) -> bytes:
        packet = Ether(frame)
        packet.clear_cache()
        return raw(packet)

    assert both(frames[0]) == frames[0], "scapy builds something else"
    return _per_call(both, frames[: SCAPY_FRAMES // 2], clock)
