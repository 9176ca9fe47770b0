"""Named random streams: adding a consumer never shifts what another draws."""

import hashlib
import random


def stream_seed(seed: int, name: str) -> int:
    """A 64-bit seed for the stream of that name, the same on every machine and Python."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=8).digest())


def stream(seed: int, name: str) -> random.Random:
    """The stream of that name."""
    return random.Random(stream_seed(seed, name))
