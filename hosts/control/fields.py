"""EV fields: how an EV is laid in headers, what the header asks of that, and EVs drawn."""

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from hosts.control.constants import EV_BYTES
from hosts.errors import UsageError
from hosts.verbs.errors import ApiError

EV_BITS = EV_BYTES * 8


@dataclass(frozen=True, slots=True, kw_only=True)
class EvField:
    """`width` bits starting as `init_val`, of which those in `mask` come from the EV.

    min_val, max_val bound the masked bits of a generated EV; both 0 means no bounds.
    """

    width: int
    init_val: int = 0
    min_val: int = 0
    max_val: int = 0
    mask: int = 0

    def __post_init__(self) -> None:
        values = (self.init_val, self.mask, self.min_val, self.max_val)
        if not 1 <= self.width <= EV_BITS or min(values) < 0 or max(values) >= 1 << self.width:
            raise UsageError(f"EV field of {self.width} bits: a value does not fit")
        if self.min_val > self.max_val:
            raise UsageError("EV field: min_val above max_val")

    @property
    def ev_bits(self) -> int:
        """How many bits of the EV this field takes."""
        return self.mask.bit_count()

    def fill(self, bits: int) -> int:
        """`init_val` with the masked bits, MSB first, overwritten by `bits`."""
        value, left = self.init_val, self.ev_bits
        for position in range(self.width - 1, -1, -1):
            if self.mask >> position & 1:
                left -= 1
                bit = bits >> left & 1
                value = value & ~(1 << position) | bit << position
        return value

    def draw(self, rng: Random) -> int:
        """Masked bits for a generated EV."""
        if self.min_val or self.max_val:
            return rng.randint(self.min_val, self.max_val)
        return rng.getrandbits(self.ev_bits) if self.ev_bits else 0


def expand(fields: Sequence[EvField], widths: Sequence[int], ev: bytes) -> bytes:
    """The EV as it goes on the wire, 32 bytes, left aligned (facts/mrc.md 1.4).

    `widths` are the format's fields; a narrower field of the profile is right aligned in its own.
    Raises UsageError where they do not fit together.
    """
    if len(fields) > len(widths) or sum(widths) > EV_BITS or len(ev) != EV_BYTES:
        raise UsageError("EV expansion: fields, format and EV do not fit together")
    source, taken = int.from_bytes(ev, "big"), 0
    value, used = 0, 0
    for item, width in zip(fields, widths, strict=False):
        if item.width > width:
            raise UsageError(f"EV expansion: a field of {item.width} bits in one of {width}")
        taken += item.ev_bits
        bits = source >> (EV_BITS - taken) & ((1 << item.ev_bits) - 1)
        value = value << width | item.fill(bits)
        used += width
    return (value << (EV_BITS - used)).to_bytes(EV_BYTES, "big")


def check(fields: Sequence[EvField], widths: Sequence[int]) -> None:
    """The restrictions of struct mrc_ctl_ev_profile_attr.  Raises ApiError(EINVAL, E2BIG).

    That values fit the width of their field, EvField itself sees to (UsageError).
    """
    if len(fields) > len(widths) or sum(f.width for f in fields) > sum(widths):
        raise ApiError(errno.E2BIG, f"{len(fields)} fields do not fit the format {list(widths)}")
    for number, (field, width) in enumerate(zip(fields, widths, strict=False)):
        if field.width > width:
            raise ApiError(errno.E2BIG, f"field {number} is wider than its format field")
        if field.max_val >> field.ev_bits:
            raise ApiError(errno.EINVAL, f"field {number}: max_val is wider than the mask")


def generate(fields: Sequence[EvField], rng: Random) -> bytes:
    """A compact EV drawn within the fields' bounds."""
    out = bits = 0
    for field in fields:
        out = out << field.ev_bits | field.draw(rng)
        bits += field.ev_bits
    return (out << EV_BITS - bits).to_bytes(EV_BYTES)
