"""Another NIC, as the port status operations see it: which of its ports it says are up."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from hosts.mrc.timers import Timer, TimerKind
from hosts.mrc.units import Ns

if TYPE_CHECKING:
    from hosts.mrc.qp import QueuePair


class Peer:
    """`port_mask`: bit p = its port in plane p is reachable, by its own word.

    `pending_id`: request id of our own port status that it has not answered.
    """

    __slots__ = ("_turn", "gid", "last_request_id", "pending_id", "port_mask", "qps", "repeats",
                 "timer")  # fmt: skip

    def __init__(self, gid: bytes, all_ports: int) -> None:
        self.gid = gid
        self.port_mask = all_ports
        self.qps: list[QueuePair] = []
        self.last_request_id: int | None = None
        self.pending_id: int | None = None
        self.repeats = 0
        self.timer = Timer(TimerKind.PORT_STATUS, self)
        self._turn = 0

    def some_qp(self, is_usable: "Callable[[QueuePair], bool]") -> "QueuePair | None":
        """A QP whose EVs lead there, a different one each time."""
        for _ in self.qps:
            self._turn = (self._turn + 1) % len(self.qps)
            qp = self.qps[self._turn]
            if is_usable(qp):
                return qp
        return None

    def wait_ns(self, first_ns: Ns, max_ns: Ns) -> Ns:
        """Until the next repetition of an unanswered request."""
        return max(first_ns, min(first_ns << min(self.repeats, 32), max_ns))
