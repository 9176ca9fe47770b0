"""EV fields: from a compact EV to the bits that go on the wire (mrc_ctl.h, "EV expansion").

Each field starts as its initial value; for each bit of its mask, most significant first, the next
most significant bit of the compact EV takes that bit's place.  Fields, each padded with zeros on
the left to the width its format gives it, are concatenated.
"""

import errno
import random
from collections.abc import Sequence
from dataclasses import dataclass

from hosts.control.constants import EV_BYTES
from hosts.verbs.errors import ApiError

_EV_BITS = 8 * EV_BYTES


@dataclass(frozen=True, slots=True)
class EvField:
    """struct mrc_ctl_ev_field.  min_val, max_val bound the bits that are generated for it.

    max_val 0 leaves them free, as the official sample does: a fixed field has an empty mask.
    """

    width: int
    init_val: int = 0
    min_val: int = 0
    max_val: int = 0
    mask: int = 0

    @property
    def bits(self) -> int:
        """How many bits of the compact EV it takes."""
        return self.mask.bit_count()

    @property
    def high(self) -> int:
        """The largest value that may be generated."""
        return self.max_val or (1 << self.bits) - 1


def check(fields: Sequence[EvField], widths: Sequence[int]) -> None:
    """The five restrictions of struct mrc_ctl_ev_profile_attr.  Raises ApiError(EINVAL, E2BIG)."""
    if len(fields) > len(widths) or sum(f.width for f in fields) > sum(widths):
        raise ApiError(errno.E2BIG, f"{len(fields)} fields do not fit the format {list(widths)}")
    for number, (field, width) in enumerate(zip(fields, widths, strict=False)):
        if field.width > width:
            raise ApiError(errno.E2BIG, f"field {number} is wider than its format field")
        if field.init_val >> field.width:
            raise ApiError(errno.EINVAL, f"field {number}: init_val is wider than the field")
        if field.mask >> field.width:
            raise ApiError(errno.EINVAL, f"field {number}: mask has bits outside of the field")
        if field.max_val >> field.bits:
            raise ApiError(errno.EINVAL, f"field {number}: max_val is wider than the mask")
        if field.min_val > field.high:
            raise ApiError(errno.EINVAL, f"field {number}: min_val is above max_val")


def expand(fields: Sequence[EvField], widths: Sequence[int], compact: bytes) -> bytes:
    """The 32 bytes of the EV that a compact one of 32 bytes stands for."""
    value, used, out, out_bits = int.from_bytes(compact), 0, 0, 0
    for field, width in zip(fields, widths, strict=False):
        expanded = field.init_val
        for bit in reversed(range(field.width)):
            if field.mask >> bit & 1:
                taken = value >> _EV_BITS - 1 - used & 1
                expanded = expanded & ~(1 << bit) | taken << bit
                used += 1
        out = out << width | expanded
        out_bits += width
    return (out << _EV_BITS - out_bits).to_bytes(EV_BYTES)


def generate(fields: Sequence[EvField], rng: random.Random) -> bytes:
    """A compact EV drawn within the fields' bounds."""
    out = bits = 0
    for field in fields:
        out = out << field.bits | rng.randint(field.min_val, field.high)
        bits += field.bits
    return (out << _EV_BITS - bits).to_bytes(EV_BYTES)
