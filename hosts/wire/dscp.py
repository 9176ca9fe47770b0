"""DSCP and ECN code points (facts 4.3).

The classes are the specification's; the numbers are configurable there and none is normative.
Ours are those of the emulator that the dossier calls EMU-A.  p4/include has the same numbers, and a
test compares.
"""

from enum import IntEnum


class Dscp(IntEnum):
    """Of the outer IPv6 header, which is the one switches read and rewrite."""

    NO_TRIM = 0
    TRIMMABLE = 4
    TRIMMABLE_RETX = 8
    TRIMMED = 12
    TRIMMED_LASTHOP = 16
    CONTROL = 46


class Ecn(IntEnum):
    NOT_ECT = 0
    ECT1 = 1
    ECT0 = 2
    CE = 3


def traffic_class(dscp: int, ecn: int) -> int:
    """The traffic class byte of an IPv6 header."""
    return dscp << 2 | ecn
