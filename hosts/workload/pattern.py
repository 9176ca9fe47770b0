"""Data that can be checked: every byte of a job is known from (seed, rank, iteration, position).

A buffer is one block repeated.  The block's length is a prime near 64 KiB, so that data put at a
wrong multiple of any packet size does not look right; a word per iteration is mixed in, so that
what an earlier iteration left behind does not either.  The reduction is XOR: it needs no tolerance.
"""

import hashlib
from collections.abc import Iterator
from functools import lru_cache

PERIOD = 65521
"""Bytes; also the most that one step of work touches (0.1 ms), so that a live NIC never stalls."""

_WORD = 8

Memory = bytearray | memoryview


@lru_cache(maxsize=256)
def _noise(seed: int, rank: int) -> int:
    """The block of a rank before the iteration's word, as a little-endian number."""
    return int.from_bytes(hashlib.shake_128(f"{seed}/{rank}".encode()).digest(PERIOD), "little")


@lru_cache(maxsize=4)
def _noise_of_all(seed: int, ranks: int) -> int:
    total = 0
    for rank in range(ranks):
        total ^= _noise(seed, rank)
    return total


def _word(seed: int, rank: int, iteration: int) -> int:
    name = f"{seed}/{rank}/{iteration}".encode()
    return int.from_bytes(hashlib.blake2b(name, digest_size=_WORD).digest(), "little")


def _repeated(word: int) -> int:
    one = word.to_bytes(_WORD, "little")
    return int.from_bytes((one * (PERIOD // _WORD + 1))[:PERIOD], "little")


class Pattern:
    """The contents of one buffer, whatever its length."""

    __slots__ = ("_block", "_number")

    def __init__(self, number: int) -> None:
        self._number = number
        self._block = number.to_bytes(PERIOD, "little")

    @classmethod
    def of_rank(cls, seed: int, rank: int, iteration: int) -> "Pattern":
        """What that rank puts in."""
        return cls(_noise(seed, rank) ^ _repeated(_word(seed, rank, iteration)))

    @classmethod
    def of_all(cls, seed: int, ranks: int, iteration: int) -> "Pattern":
        """The XOR over all ranks: what every rank must end with."""
        word = 0
        for rank in range(ranks):
            word ^= _word(seed, rank, iteration)
        return cls(_noise_of_all(seed, ranks) ^ _repeated(word))

    def fill(self, memory: Memory, position: int) -> None:
        """Write what belongs at `position` and after it to the whole of `memory`."""
        for start, end, offset in pieces(position, len(memory)):
            memory[start:end] = self._block[offset : offset + end - start]

    def xor(self, memory: Memory, position: int) -> None:
        """XOR what belongs there into `memory`."""
        for start, end, offset in pieces(position, len(memory)):
            size = end - start
            if size == PERIOD:
                mine = self._number
            else:
                mine = int.from_bytes(self._block[offset : offset + size], "little")
            theirs = int.from_bytes(memory[start:end], "little")
            memory[start:end] = (theirs ^ mine).to_bytes(size, "little")

    def differing(self, memory: Memory, position: int) -> int:
        """How many bytes of `memory` are not what belongs there."""
        wrong = 0
        for start, end, offset in pieces(position, len(memory)):
            wanted = self._block[offset : offset + end - start]
            found = bytes(memory[start:end])
            if found != wanted:
                wrong += sum(a != b for a, b in zip(found, wanted, strict=True))
        return wrong


def pieces(position: int, length: int) -> Iterator[tuple[int, int, int]]:
    """Cut `length` bytes at `position` at block borders: (start, end, offset in the block)."""
    start = 0
    while start < length:
        offset = (position + start) % PERIOD
        end = min(length, start + PERIOD - offset)
        yield start, end, offset
        start = end
