"""A host's half of the books: the endpoint's counters under the names of the ledger's table.

`tx_frames` and `rx_frames` are counted at the host's ports, apart from the endpoint's own counts,
so that each can be held against the other (scenarios/ledger.py).
"""

from collections.abc import Mapping

_SUMS: dict[str, tuple[str, ...]] = {
    "data_sent": ("tx_data_first", "tx_data_again"),
    "data_retransmitted": ("tx_data_again",),
    "data_delivered": ("rx_data_new",),
    "data_duplicate": ("rx_data_duplicate",),
    "data_trimmed": ("rx_data_trimmed", "rx_data_trimmed_lasthop"),
    "data_rejected": ("rx_data_window", "rx_data_naked", "rx_data_no_qp"),
}


def ledger(counters: Mapping[str, int], *, tx_frames: int, rx_frames: int) -> dict[str, int]:
    """The endpoint's own counters, and the sums that the ledger is written in."""
    sums = {name: sum(counters[part] for part in parts) for name, parts in _SUMS.items()}
    return {**counters, **sums, "tx_frames": tx_frames, "rx_frames": rx_frames}
