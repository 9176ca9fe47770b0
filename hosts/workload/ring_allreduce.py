"""Ring all-reduce: every rank ends with the XOR of what all ranks put in.

`steps` all-reduces one after the other, each of 2(n-1) rounds.  In the first n-1 (reduce-scatter)
rank r sends chunk r - round to its successor and XORs its own part into what it gets; in the rest
(all-gather) finished chunks go round.  Ranks synchronise by their messages alone: a rank that has
all chunks of an iteration knows that every rank has used all it was sent in that iteration's
reduce-scatter, so the n-1 landing slots can be used again, and a message that its successor has
used can never be needed from memory again.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any

from hosts.errors import UsageError
from hosts.workload.job import Region, Saboteur, Transport, Window
from hosts.workload.pattern import PERIOD, Pattern

_ALIGN = 4
_CHUNK_BITS = 12
RANKS_MAX = 1 << _CHUNK_BITS
_STEP_MASK = (1 << 32 - _CHUNK_BITS) - 1


def chunk_bounds(length: int, ranks: int) -> list[int]:
    """Where chunks begin, and the end: as equal as multiples of 4 allow."""
    return [length * i // ranks // _ALIGN * _ALIGN for i in range(ranks)] + [length]


class RingAllreduce:
    """Memory: n-1 landing slots of one chunk, one slot for the first send, then the result."""

    def __init__(
        self,
        *,
        transport: Transport,
        ranks: list[str],
        rank: int,
        length: int,
        steps: int,
        seed: int,
    ) -> None:
        n = len(ranks)
        if not 2 <= n <= RANKS_MAX or length < 0 or steps < 0:
            raise UsageError(f"an all-reduce of {length} bytes, {n} ranks, {steps} steps")
        self._transport, self._rank, self._ranks, self._seed = transport, rank, n, seed
        self._steps = steps
        self._next, self._previous = ranks[(rank + 1) % n], ranks[rank - 1]
        self._bounds = chunk_bounds(length, n)
        self._slot = max(b - a for a, b in zip(self._bounds, self._bounds[1:], strict=False))
        self._result = n * self._slot
        self._region: Region = transport.register(self._result + length)
        self._memory = memoryview(self._region.buffer)
        self._target: Window | None = None
        self._iteration = 0
        self._round = 0
        self._mine = self._all = Pattern(0)
        self._arrived: deque[int] = deque()
        self._cursor = 0
        self._unsent = 0
        self._saboteur = Saboteur()
        self._started_ns = 0
        self._iteration_ns: list[int] = []
        self.bytes_corrupt = 0
        self.messages = 0
        self.error: str | None = None

    @property
    def bytes_total(self) -> int:
        """All chunks but one, once to be reduced and once as the result, in every iteration."""
        n = self._ranks
        each = sum(self._chunk_length(self._incoming(round_)) for round_ in range(2 * (n - 1)))
        return each * self._steps

    @property
    def done(self) -> bool:
        return self._iteration == self._steps and self._unsent == 0

    def exports(self) -> dict[str, Window]:
        region = self._region
        return {self._previous: Window(region.va, region.rkey, len(region.buffer))}

    def connect(self, windows: Mapping[str, Window]) -> None:
        self._target = windows[self._next]

    def corrupt_byte(self, index: int) -> None:
        self._saboteur.arm(index)

    def report(self) -> dict[str, Any]:
        return {"iterations_ns": self._iteration_ns}

    def start(self, now_ns: int) -> None:
        self._started_ns = now_ns
        self._begin_iteration()

    def sent(self, peer: str, wr_id: int, now_ns: int) -> None:
        self._unsent -= 1

    def received(self, peer: str, imm: int, now_ns: int) -> None:
        """Arrivals come in ring order; the immediate says so, and is believed only if it is."""
        step = self._iteration * 2 * (self._ranks - 1) + self._round + len(self._arrived)
        round_ = (self._round + len(self._arrived)) % (2 * (self._ranks - 1))
        wanted = (step & _STEP_MASK) << _CHUNK_BITS | self._incoming(round_)
        if imm != wanted or peer != self._previous:
            self.error = f"immediate {imm:#x} from {peer} where {wanted:#x} was due"
            return
        self.messages += 1
        offset, length = self._landing(round_)
        self._saboteur.inspect(self._memory[offset : offset + length])
        self._arrived.append(round_)

    @property
    def has_work(self) -> bool:
        return bool(self._arrived)

    def work(self, now_ns: int) -> None:
        """Reduce or check one block of the oldest arrival; send it on when all of it is done."""
        round_ = self._arrived[0]
        chunk = self._incoming(round_)
        offset, length = self._landing(round_)
        position = self._bounds[chunk] + self._cursor
        size = min(length - self._cursor, PERIOD - position % PERIOD)
        block = self._memory[offset + self._cursor : offset + self._cursor + size]
        last_reduction = round_ == self._ranks - 2
        if round_ <= self._ranks - 2:
            self._mine.xor(block, position)
        if last_reduction:
            result = self._result + position
            self._memory[result : result + size] = block
        if round_ >= self._ranks - 2:
            self.bytes_corrupt += self._all.differing(block, position)
        self._cursor += size
        if self._cursor >= length:
            self._finish_round(now_ns)

    def _finish_round(self, now_ns: int) -> None:
        round_ = self._arrived.popleft()
        self._cursor = 0
        self._round += 1
        if self._round < 2 * (self._ranks - 1):
            self._send(self._round, self._incoming(round_))
            return
        self._iteration_ns.append(now_ns - self._started_ns)
        self._started_ns = now_ns
        self._iteration += 1
        self._round = 0
        if self._iteration < self._steps:
            self._begin_iteration()

    def _begin_iteration(self) -> None:
        self._mine = Pattern.of_rank(self._seed, self._rank, self._iteration)
        self._all = Pattern.of_all(self._seed, self._ranks, self._iteration)
        start, length = self._bounds[self._rank], self._chunk_length(self._rank)
        first = (self._ranks - 1) * self._slot
        self._mine.fill(self._memory[first : first + length], start)
        self._send(0, self._rank)

    def _send(self, round_: int, chunk: int) -> None:
        """Chunk to the successor, from where the last round left it."""
        assert self._target is not None
        n = self._ranks
        step = self._iteration * 2 * (n - 1) + round_
        if round_ == 0:
            offset = (n - 1) * self._slot
        elif round_ < n - 1:
            offset = (round_ - 1) * self._slot
        else:
            offset = self._result + self._bounds[chunk]
        landing = round_ * self._slot if round_ < n - 1 else self._result + self._bounds[chunk]
        self._unsent += 1
        self._transport.write(
            self._next,
            step,
            self._region,
            offset,
            self._chunk_length(chunk),
            remote_va=self._target.va + landing,
            rkey=self._target.rkey,
            imm=(step & _STEP_MASK) << _CHUNK_BITS | chunk,
        )

    def _incoming(self, round_: int) -> int:
        """The chunk that arrives from the predecessor in that round."""
        n, rank = self._ranks, self._rank
        if round_ < n - 1:
            return (rank - 1 - round_) % n
        return (rank - (round_ - (n - 1))) % n

    def _landing(self, round_: int) -> tuple[int, int]:
        """(offset in our region, length) of what arrives in that round."""
        chunk = self._incoming(round_)
        if round_ < self._ranks - 1:
            return round_ * self._slot, self._chunk_length(chunk)
        return self._result + self._bounds[chunk], self._chunk_length(chunk)

    def _chunk_length(self, chunk: int) -> int:
        return self._bounds[chunk + 1] - self._bounds[chunk]
