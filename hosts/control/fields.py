"""What the header asks of EV fields before they are used, and EVs drawn from them.

Expansion itself is the transport's (`hosts.mrc.ev_profile.expand`).
"""

import errno
import random
from collections.abc import Sequence

from hosts.control.constants import EV_BYTES
from hosts.mrc.ev_profile import EvField
from hosts.verbs.errors import ApiError


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


def generate(fields: Sequence[EvField], rng: random.Random) -> bytes:
    """A compact EV drawn within the fields' bounds."""
    out = bits = 0
    for field in fields:
        out = out << field.ev_bits | field.draw(rng)
        bits += field.ev_bits
    return (out << 8 * EV_BYTES - bits).to_bytes(EV_BYTES)
