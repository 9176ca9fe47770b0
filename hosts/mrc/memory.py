"""Registered memory: what a peer may write to, and the check that it writes nowhere else."""

from dataclasses import dataclass, field
from random import Random

from hosts.errors import UsageError
from hosts.wire.aeth import NakCode

VA_BASE = 0x10_0000_0000
REGION_BYTES_MAX = 1 << 32
"""A size that no job of ours asks for; more is a slip, and the process would end of it."""

VA_ALIGN = 1 << 20
"""Regions begin on their own megabyte, with a free one between, so that an overrun meets
nothing."""


@dataclass(slots=True, eq=False)
class MemoryRegion:
    """`buffer[i]` is the byte at address `va + i`; `pd` is the protection domain it belongs to."""

    va: int
    rkey: int
    buffer: bytearray = field(repr=False)
    pd: int = 0

    @property
    def length(self) -> int:
        return len(self.buffer)


class MemoryTable:
    """Regions by rkey.  rkeys are drawn, so that a stale or mistyped one finds nothing."""

    __slots__ = ("_next_va", "_regions", "_rng")

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._regions: dict[int, MemoryRegion] = {}
        self._next_va = VA_BASE

    def register(self, size: int, pd: int = 0) -> MemoryRegion:
        if not 0 <= size <= REGION_BYTES_MAX:
            raise UsageError(f"a memory region of {size} bytes")
        rkey = self._rng.getrandbits(32)
        while rkey in self._regions:
            rkey = self._rng.getrandbits(32)
        region = MemoryRegion(self._next_va, rkey, bytearray(size), pd)
        self._next_va += (size + 2 * VA_ALIGN - 1) // VA_ALIGN * VA_ALIGN
        self._regions[rkey] = region
        return region

    def deregister(self, region: MemoryRegion) -> None:
        if self._regions.pop(region.rkey, None) is None:
            raise UsageError("memory region is not registered")

    def place(self, rkey: int, va: int, payload: memoryview, pd: int) -> NakCode | None:
        """Write the payload at that address; or the reason why nothing was written."""
        region = self._regions.get(rkey)
        if region is None or region.pd != pd:
            return NakCode.REMOTE_ACCESS_ERROR
        start = va - region.va
        end = start + len(payload)
        buffer = region.buffer
        if start < 0 or end > len(buffer):
            return NakCode.REMOTE_ACCESS_ERROR
        buffer[start:end] = payload
        return None
