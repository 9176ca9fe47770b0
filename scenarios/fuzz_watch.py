"""Hosts that watch themselves: which rules of the API a fuzz case made an endpoint break.

*Completions*: every posted write completes once, in order, the failed ones last; immediates are
counted from 0 without a gap.  *Memory*: nothing is placed but where a peer's posted write reaches.
*Size*: what an endpoint holds after all has gone quiet depends on its QPs and EVs alone, not on how
many packets it saw.
"""

from bisect import bisect_right, insort
from collections import deque
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from hosts.host import Host
from hosts.mrc.config import EndpointConfig
from hosts.mrc.endpoint import Endpoint
from hosts.mrc.memory import MemoryTable
from hosts.mrc.message import Completion, CompletionKind, Status, WriteRequest
from hosts.mrc.qp import QpState
from hosts.wire.aeth import NakCode

CONTAINERS = (list, tuple, set, frozenset, deque)
TOLD_MAX = 3

GROWTH_MAX = 60
"""Items an endpoint may hold more of when all is quiet than before its job ..."""

GROWTH_MAX_PER_EV = 20
"""... and for each EV: counts, probes that nobody answered, its path and, once it was in doubt, the
ten items of its `Care`."""


class Reach:
    """Memory that posted writes may fill, all hosts together: rkeys are drawn, so they differ."""

    def __init__(self) -> None:
        self._starts: dict[int, list[int]] = {}
        self._ends: dict[tuple[int, int], int] = {}

    def allow(self, rkey: int, start: int, length: int) -> None:
        key = rkey, start
        if key not in self._ends:
            insort(self._starts.setdefault(rkey, []), start)
        self._ends[key] = max(self._ends.get(key, 0), start + length)

    def allows(self, rkey: int, start: int, length: int) -> bool:
        starts = self._starts.get(rkey, [])
        at = bisect_right(starts, start)
        return at > 0 and start + length <= self._ends[rkey, starts[at - 1]]


class WatchedMemory(MemoryTable):
    """Tells of bytes placed where nobody posted a write to."""

    __slots__ = ("_findings", "_reach")

    def __init__(self, rng: Random, reach: Reach, findings: list[str]) -> None:
        super().__init__(rng)
        self._reach = reach
        self._findings = findings

    def place(self, rkey: int, va: int, payload: memoryview, pd: int) -> NakCode | None:
        refused = super().place(rkey, va, payload, pd)
        if refused is None and not self._reach.allows(rkey, va, len(payload)):
            self._findings.append(
                f"{len(payload)} bytes written at {va:#x} that no write asked for"
            )
        return refused


class WatchedEndpoint(Endpoint):
    """`findings`: rules broken so far."""

    def __init__(self, config: EndpointConfig, rng: Random, reach: Reach) -> None:
        super().__init__(config, rng)
        self.findings: list[str] = []
        self._reach = reach
        self._posted: dict[int, deque[int]] = {}
        self._failed: set[int] = set()
        self._immediates: dict[int, int] = {}
        self.services.memory = WatchedMemory(rng, reach, self.findings)

    def post_write(self, qpn: int, request: WriteRequest) -> None:
        self._reach.allow(request.rkey, request.remote_va, request.length)
        self._posted.setdefault(qpn, deque()).append(request.wr_id)
        super().post_write(qpn, request)

    def poll_completions(self) -> list[Completion]:
        done = super().poll_completions()
        for completion in done:
            if completion.kind is CompletionKind.SEND:
                self._send_completed(completion)
            elif completion.status is Status.SUCCESS:
                self._immediate_completed(completion)
        return done

    def _send_completed(self, completion: Completion) -> None:
        qpn, waiting = completion.qpn, self._posted.get(completion.qpn)
        due = waiting.popleft() if waiting else None
        if due != completion.wr_id:
            self.findings.append(f"QP {qpn}: write {completion.wr_id} completed, {due} was due")
        if completion.status is not Status.SUCCESS:
            self._failed.add(qpn)
        elif qpn in self._failed:
            self.findings.append(f"QP {qpn}: write {completion.wr_id} succeeded after one failed")

    def _immediate_completed(self, completion: Completion) -> None:
        due = self._immediates.get(completion.qpn, 0)
        self._immediates[completion.qpn] = due + 1
        if completion.wr_id != due:
            told = f"immediate {completion.wr_id} completed, {due} was due"
            self.findings.append(f"QP {completion.qpn}: {told}")

    def unfinished(self) -> Iterator[str]:
        """Writes of QPs in error that were never flushed."""
        for qpn, waiting in self._posted.items():
            if waiting and self.qp(qpn).state is QpState.ERROR:
                yield f"QP {qpn} is in error and {len(waiting)} of its writes never completed"


class WatchedHost(Host):
    """As Host, on a WatchedEndpoint."""

    def __init__(self, config: Mapping[str, Any], rng: Random, reach: Reach) -> None:
        super().__init__(config, rng)
        self.watched = WatchedEndpoint(self.endpoint.config, rng, reach)
        self.endpoint = self.watched
        self.size_at_start = 0

    def start_job(self, t0_ns: int) -> None:
        super().start_job(t0_ns)
        self.size_at_start = size(self.watched)

    def broken(self) -> Iterator[str]:
        """To be asked when all is quiet."""
        yield from self.watched.findings[:TOLD_MAX]
        yield from self.watched.unfinished()
        yield from self._grown()

    def _grown(self) -> Iterator[str]:
        """A QP in error keeps what it had, and a host without a job nothing."""
        qps = [self.watched.qp(qpn) for qpn in self.peers]
        if not qps or any(qp.state is QpState.ERROR for qp in qps):
            return
        grown = size(self.watched) - self.size_at_start
        if grown > GROWTH_MAX + GROWTH_MAX_PER_EV * sum(len(qp.evs.evs) for qp in qps):
            yield f"{grown} more items held after the job than before it"


def size(endpoint: Endpoint) -> int:
    """Items in all containers an endpoint holds; registered memory and messages not counted."""
    total, seen = 0, {id(endpoint)}
    stack: list[Any] = [endpoint]
    while stack:
        thing = stack.pop()
        for part in _parts(thing):
            total += 1
            if id(part) not in seen:
                seen.add(id(part))
                stack.append(part)
    return total


def _parts(thing: Any) -> Iterator[Any]:
    if isinstance(thing, dict):
        yield from thing.values()
    elif isinstance(thing, CONTAINERS):
        yield from thing
    elif type(thing).__module__.startswith("hosts.mrc") or isinstance(thing, Endpoint):
        yield from getattr(thing, "__dict__", {}).values()
        for kind in type(thing).__mro__:
            for name in getattr(kind, "__slots__", ()):
                if hasattr(thing, name):
                    yield getattr(thing, name)
