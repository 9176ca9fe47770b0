"""Where the 32-bit entropy value of a packet rides: UDP source port and flow label (facts 2.2).

Sources disagree on which half goes where; this file is the one place that decides.  Low half to the
source port, high half to the low 16 bits of the 20-bit flow label.  In SRv6 mode the path itself is
in the outer destination and the EV rides along only to be reflected by the responder.
"""


def split(ev: int) -> tuple[int, int]:
    """(UDP source port, flow label) that carry this EV."""
    return ev & 0xFFFF, ev >> 16


def join(sport: int, flow_label: int) -> int:
    """The EV that was carried.  The top four bits of a flow label are not part of it."""
    return (flow_label & 0xFFFF) << 16 | sport
