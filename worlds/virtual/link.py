"""One direction of an in-process wire, and what may go wrong on it.

A wire has no delay of its own in the product (design section 8: switches own delay); tests of a
bare pair of hosts give it one, and the faults below.  Faults are drawn from the link's own stream.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Impairment:
    """Ratios are probabilities per frame in [0, 1]; times in ns.

    reorder: share of frames held back by reorder_delay_ns.  drop_if: also drop frames for which it
    returns True (named, exact faults of tests).
    """

    delay_ns: int = 0
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    reorder_delay_ns: int = 0
    corrupt: float = 0.0
    drop_if: Callable[[bytes, int], bool] | None = None


PERFECT = Impairment()


class VirtualLink:
    """A directed wire from one node's port to another's."""

    __slots__ = (
        "corrupted", "delivered", "dst", "dst_port", "duplicated", "impairment", "lost",
        "lost_down", "rng", "up",
    )  # fmt: skip

    def __init__(self, dst: int, dst_port: int, rng: random.Random) -> None:
        self.dst = dst
        self.dst_port = dst_port
        self.rng = rng
        self.impairment = PERFECT
        self.up = True
        self.delivered = 0
        self.lost = 0
        self.lost_down = 0
        self.duplicated = 0
        self.corrupted = 0

    def carry(self, frame: bytes, now_ns: int) -> list[tuple[int, bytes]]:
        """Arrivals (time, frame) that this frame causes at the far end: none, one or two."""
        if not self.up:
            self.lost_down += 1
            return []
        how = self.impairment
        if how is PERFECT:
            return [(now_ns, frame)]
        if self._is_lost(how, frame, now_ns):
            self.lost += 1
            return []
        at = now_ns + how.delay_ns
        if how.reorder and self.rng.random() < how.reorder:
            at += how.reorder_delay_ns
        if how.corrupt and self.rng.random() < how.corrupt:
            frame = self._flip_one_bit(frame)
            self.corrupted += 1
        if how.duplicate and self.rng.random() < how.duplicate:
            self.duplicated += 1
            return [(at, frame), (at, frame)]
        return [(at, frame)]

    def _is_lost(self, how: Impairment, frame: bytes, now_ns: int) -> bool:
        if how.drop_if is not None and how.drop_if(frame, now_ns):
            return True
        return bool(how.loss) and self.rng.random() < how.loss

    def _flip_one_bit(self, frame: bytes) -> bytes:
        bit = self.rng.randrange(len(frame) * 8)
        damaged = bytearray(frame)
        damaged[bit >> 3] ^= 1 << (bit & 7)
        return bytes(damaged)
