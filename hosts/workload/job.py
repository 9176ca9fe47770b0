"""What a host runs: the interface between a job and the host it runs on.

A job knows peers by name and memory by region; it knows no QP, no packet and no retransmission.  It
never blocks: what takes time is cut into steps that `work` does one at a time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


class Region(Protocol):
    """Registered memory: `buffer[i]` is the byte at address `va + i`."""

    @property
    def va(self) -> int: ...

    @property
    def rkey(self) -> int: ...

    @property
    def buffer(self) -> bytearray: ...


@dataclass(frozen=True, slots=True)
class Window:
    """Memory of a peer that we may write to."""

    va: int
    rkey: int
    length: int

    def as_message(self) -> dict[str, int]:
        return {"va": self.va, "rkey": self.rkey, "length": self.length}


class Transport(Protocol):
    """What a job asks of its host."""

    def register(self, length: int) -> Region: ...

    def write(
        self,
        peer: str,
        wr_id: int,
        region: Region,
        offset: int,
        length: int,
        *,
        remote_va: int,
        rkey: int,
        imm: int | None,
    ) -> None:
        """Send bytes of `region` to that address at the peer.

        `job.sent` follows when all have arrived; with `imm` also `received` at the peer, behind all
        that was written before.  The memory must not change until `sent`.
        """


class Job(Protocol):
    """One host's part.  Call order: exports, connect, start, then events and `work` till done."""

    @property
    def done(self) -> bool:
        """All was sent, all was received, all was checked."""

    @property
    def error(self) -> str | None:
        """Why this part can never be done."""

    @property
    def bytes_total(self) -> int:
        """Payload bytes this host receives when all goes well."""

    @property
    def bytes_corrupt(self) -> int:
        """Bytes found in memory that are not what was sent."""

    @property
    def messages(self) -> int:
        """Messages received and completed."""

    def exports(self) -> dict[str, Window]:
        """Memory each peer may write to, by peer."""

    def connect(self, windows: Mapping[str, Window]) -> None:
        """What the peers export to us, by peer."""

    def start(self, now_ns: int) -> None: ...

    def sent(self, peer: str, wr_id: int, now_ns: int) -> None:
        """That write is in the peer's memory."""

    def received(self, peer: str, imm: int, now_ns: int) -> None:
        """A write with that immediate is in our memory, and all before it."""

    @property
    def has_work(self) -> bool: ...

    def work(self, now_ns: int) -> None:
        """One step of pending computation, 2 ms at the most."""

    def corrupt_byte(self, index: int) -> None:
        """Test hook: flip the byte of that index, counted over messages as they are received."""

    def report(self) -> dict[str, Any]:
        """What this kind of job tells besides: times per message, flow or iteration."""


class Saboteur:
    """The corrupt_byte hook: damages one byte of memory after it was placed."""

    __slots__ = ("_index", "_seen")

    def __init__(self) -> None:
        self._index: int | None = None
        self._seen = 0

    def arm(self, index: int) -> None:
        self._index = index

    def inspect(self, memory: memoryview) -> None:
        """A message lies complete in `memory` and nobody has read it yet."""
        if self._index is not None and self._index < self._seen + len(memory):
            memory[max(self._index - self._seen, 0)] ^= 0xFF
            self._index = None
        self._seen += len(memory)


def message_count(total: int, message_bytes: int) -> int:
    """Messages a transfer of `total` bytes is cut into; an empty one still takes one."""
    return max(1, -(-total // message_bytes))
