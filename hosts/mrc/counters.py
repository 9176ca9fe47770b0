"""Everything the endpoint counts, by name: the endpoint's half of the ledger.

Data packets sent = `tx_data_first` + all `rtx_*_sent`.  Every data frame that arrives is counted
under exactly one of the `rx_data_*` (marks aside), every other arrival under `rx_<kind>` or
`rx_drop_<reason>`.
"""

from dataclasses import dataclass, fields

from hosts.wire.packet import REASONS


@dataclass(slots=True)
class Counters:
    """Integers that only grow."""

    tx_data_first: int = 0
    """Data packets sent for the first time."""
    tx_data_again: int = 0
    tx_data_payload_bytes: int = 0
    """Payload of all data packets, repeats included."""
    tx_sack: int = 0
    tx_nack: int = 0
    tx_ack: int = 0
    tx_nak: int = 0
    tx_probe: int = 0
    tx_ep_request: int = 0
    tx_ep_response: int = 0
    control_dropped: int = 0
    """Control packets (counted as sent above) that found no port in service."""

    rtx_order: int = 0
    """Packets given up because a later one on the same EV had arrived."""
    rtx_tolerance: int = 0
    """Because packets far behind it had arrived."""
    rtx_timeout: int = 0
    rtx_trim: int = 0
    rtx_refused: int = 0
    rtx_port: int = 0
    late_arrivals: int = 0
    """Given up, and yet acknowledged before they were sent again."""

    rx_data_new: int = 0
    rx_data_duplicate: int = 0
    rx_data_trimmed: int = 0
    rx_data_trimmed_lasthop: int = 0
    rx_data_window: int = 0
    """Beyond the MPR window."""
    rx_data_naked: int = 0
    """Answered with a transport NAK, or arriving after one."""
    rx_data_no_qp: int = 0
    rx_data_marked: int = 0
    """CE, among the new and the duplicate."""
    rx_payload_bytes: int = 0
    """Payload placed, each byte once."""

    rx_sack: int = 0
    rx_nack: int = 0
    rx_ack: int = 0
    rx_nak: int = 0
    rx_probe: int = 0
    rx_ep_request: int = 0
    rx_ep_response: int = 0
    rx_control_no_qp: int = 0
    rx_control_invalid: int = 0
    """Counted besides the kind: it says what cannot be."""
    rx_misdelivered: int = 0
    rx_drop_short: int = 0
    rx_drop_ethertype: int = 0
    rx_drop_version: int = 0
    rx_drop_next_header: int = 0
    rx_drop_udp_port: int = 0
    rx_drop_bth_version: int = 0
    rx_drop_opcode: int = 0
    rx_drop_length: int = 0
    rx_drop_icrc: int = 0

    ev_retired: int = 0
    ev_restored: int = 0
    ev_marks: int = 0
    ev_trims: int = 0
    ev_doubts: int = 0
    ev_floor_kept: int = 0
    """Retirements that ev_min_active forbade."""
    tail_probes: int = 0
    messages_sent: int = 0
    """Acknowledged by the peer."""
    messages_completed: int = 0
    """Received whole and in order."""

    def drop(self, reason: str) -> None:
        """A frame that is not what it claims to be; `reason` of a WireError."""
        name = "rx_drop_" + reason
        setattr(self, name, getattr(self, name) + 1)

    def as_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in NAMES}


NAMES = tuple(field.name for field in fields(Counters))

assert {f"rx_drop_{reason}" for reason in REASONS} == {n for n in NAMES if n.startswith("rx_drop_")}
