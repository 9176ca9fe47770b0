"""A driver of one Node in virtual time: what worlds/virtual does, for a switch alone."""

from dataclasses import dataclass

from worlds.node import Node


@dataclass(frozen=True, slots=True)
class Sent:
    t_ns: int
    port: int
    frame: bytes


def collect(node: Node, now_ns: int) -> list[Sent]:
    """All that the node has for the wires now."""
    found = []
    while (out := node.poll_transmit(now_ns)) is not None:
        found.append(Sent(now_ns, *out))
    return found


def run_until(node: Node, end_ns: int) -> list[Sent]:
    """Serves every deadline up to and including `end_ns`, each at its time."""
    found: list[Sent] = []
    while (due := node.next_timeout()) is not None and due <= end_ns:
        node.handle_timeout(due)
        found += collect(node, due)
    return found


def send(node: Node, port: int, frame: bytes, now_ns: int) -> list[Sent]:
    """A frame arrives; what leaves at once."""
    node.receive_frame(port, frame, now_ns)
    return collect(node, now_ns)
