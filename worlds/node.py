"""The narrow waist: everything that has ports and a notion of time is a Node.

The virtual loop and the raw-socket driver both know only this.  Call order of a driver: deliver
frames and due timeouts, then `poll_transmit` until None, then ask `next_timeout`.
"""

from typing import Protocol


class Node(Protocol):
    def receive_frame(self, port: int, frame: bytes, now_ns: int) -> None:
        """A frame (Ethernet header first, no FCS) arrived on a port."""

    def handle_timeout(self, now_ns: int) -> None:
        """The deadline given by next_timeout has passed."""

    def poll_transmit(self, now_ns: int) -> tuple[int, bytes] | None:
        """The next (port, frame) to put on the wire now; call until None."""

    def next_timeout(self) -> int | None:
        """When to call handle_timeout (ns), or None.  May be in the past: then call at once."""

    def port_changed(self, port: int, up: bool, now_ns: int) -> None:
        """The carrier of a port came or went."""
