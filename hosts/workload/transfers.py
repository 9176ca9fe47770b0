"""One-way transfers: the jobs `write`, `incast` and `permutation`, seen from one host.

A transfer of some bytes is cut into messages, each a write with immediate; the receiver checks each
message in its memory when its completion comes.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hosts.workload.job import Region, Saboteur, Transport, Window, message_count
from hosts.workload.pattern import PERIOD, Pattern

POSTED_MAX = 64
"""Writes of one transfer posted and not yet sent: enough to keep any window full."""

_IMM_MASK = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class Transfer:
    """`rank`: of the sender, whose pattern the bytes are."""

    src: str
    dst: str
    rank: int
    length: int
    message_bytes: int


@dataclass(slots=True)
class _Outgoing:
    transfer: Transfer
    region: Region
    window: Window | None = None
    posted: int = 0
    sent: int = 0
    sent_ns: int | None = None
    """When the last message was acknowledged, since the start."""


@dataclass(slots=True)
class _Incoming:
    transfer: Transfer
    region: Region
    pattern: Pattern
    received: int = 0
    checked: int = 0


class Transfers:
    """This host's part in a set of transfers; at most one in each direction with each peer."""

    def __init__(
        self, *, transport: Transport, host: str, transfers: Iterable[Transfer], seed: int
    ) -> None:
        self._transport = transport
        self._out: dict[str, _Outgoing] = {}
        self._in: dict[str, _Incoming] = {}
        for transfer in transfers:
            pattern = Pattern.of_rank(seed, transfer.rank, 0)
            if transfer.src == host:
                region = transport.register(transfer.length)
                pattern.fill(region.buffer, 0)
                self._out[transfer.dst] = _Outgoing(transfer, region)
            if transfer.dst == host:
                region = transport.register(transfer.length)
                self._in[transfer.src] = _Incoming(transfer, region, pattern)
        self._unchecked: deque[tuple[_Incoming, int, int]] = deque()
        self._saboteur = Saboteur()
        self._started_ns = 0
        self.bytes_corrupt = 0
        self.messages = 0
        self.error: str | None = None

    @property
    def bytes_total(self) -> int:
        return sum(flow.transfer.length for flow in self._in.values())

    @property
    def done(self) -> bool:
        return all(f.sent == _messages(f.transfer) for f in self._out.values()) and all(
            f.checked == _messages(f.transfer) for f in self._in.values()
        )

    def exports(self) -> dict[str, Window]:
        return {
            peer: Window(f.region.va, f.region.rkey, len(f.region.buffer))
            for peer, f in self._in.items()
        }

    def connect(self, windows: Mapping[str, Window]) -> None:
        for peer, flow in self._out.items():
            flow.window = windows[peer]

    def corrupt_byte(self, index: int) -> None:
        self._saboteur.arm(index)

    def report(self) -> dict[str, Any]:
        """How long each of our flows took, to its last acknowledgement; None: it did not end."""
        return {"flows_ns": {peer: flow.sent_ns for peer, flow in self._out.items()}}

    def start(self, now_ns: int) -> None:
        self._started_ns = now_ns
        for flow in self._out.values():
            self._post(flow)

    def sent(self, peer: str, wr_id: int, now_ns: int) -> None:
        flow = self._out[peer]
        flow.sent += 1
        if flow.sent == _messages(flow.transfer):
            flow.sent_ns = now_ns - self._started_ns
        self._post(flow)

    def received(self, peer: str, imm: int, now_ns: int) -> None:
        flow = self._in.get(peer)
        if flow is None or imm != flow.received & _IMM_MASK:
            due = "none was" if flow is None else f"{flow.received} was"
            self.error = f"immediate {imm} from {peer} where {due} due"
            return
        start, end = _message(flow.transfer, flow.received)
        flow.received += 1
        self.messages += 1
        self._saboteur.inspect(memoryview(flow.region.buffer)[start:end])
        self._unchecked.append((flow, start, end))

    @property
    def has_work(self) -> bool:
        return bool(self._unchecked)

    def work(self, now_ns: int) -> None:
        """Check a few blocks of the oldest unchecked message."""
        flow, start, end = self._unchecked.popleft()
        stop = min(end, start + 4 * PERIOD)
        memory = memoryview(flow.region.buffer)[start:stop]
        self.bytes_corrupt += flow.pattern.differing(memory, start)
        if stop < end:
            self._unchecked.appendleft((flow, stop, end))
        else:
            flow.checked += 1

    def _post(self, flow: _Outgoing) -> None:
        assert flow.window is not None
        count = _messages(flow.transfer)
        while flow.posted < count and flow.posted - flow.sent < POSTED_MAX:
            start, end = _message(flow.transfer, flow.posted)
            self._transport.write(
                flow.transfer.dst,
                flow.posted,
                flow.region,
                start,
                end - start,
                remote_va=flow.window.va + start,
                rkey=flow.window.rkey,
                imm=flow.posted & _IMM_MASK,
            )
            flow.posted += 1


def _messages(transfer: Transfer) -> int:
    return message_count(transfer.length, transfer.message_bytes)


def _message(transfer: Transfer, index: int) -> tuple[int, int]:
    start = index * transfer.message_bytes
    return start, min(start + transfer.message_bytes, transfer.length)
