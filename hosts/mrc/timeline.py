"""When transmissions time out: deadlines of one QP's packets, one timer for all.

With one timeout for all, deadlines come in the order of sending, so a queue will do; only
packets in the exponential phase, which wait longer, need a heap.  What was acknowledged
meanwhile leaves the queue as others join it, so that it is no longer than what is in flight.
"""

import heapq
from collections import deque

from hosts.mrc.outstanding import OUTSTANDING, Sent
from hosts.mrc.services import Services
from hosts.mrc.timers import Timer
from hosts.mrc.units import Ns


class Timeline:
    __slots__ = ("_config", "_late", "_linear_cnt", "_queue", "_rto", "_timer", "_timers")

    def __init__(self, services: Services, timer: Timer) -> None:
        self._config = services.config
        self._timers = services.timers
        self._timer = timer
        self._rto = services.config.rto_ns
        self._linear_cnt = services.config.linear_cnt
        self._queue: deque[Sent] = deque()
        self._late: list[tuple[Ns, int, Sent]] = []

    def add(self, sent: Sent) -> None:
        """A packet that was sent now (`sent.sent_ns`)."""
        if sent.timeouts < self._linear_cnt:
            sent.deadline_ns = deadline = sent.sent_ns + self._rto
            queue = self._queue
            while queue and queue[0].state != OUTSTANDING:
                queue.popleft()
            queue.append(sent)
        else:
            sent.deadline_ns = deadline = sent.sent_ns + self._config.retry_timeout_ns(
                sent.timeouts
            )
            heapq.heappush(self._late, (deadline, sent.seq, sent))
        due = self._timer.at
        if due is None or deadline < due:
            self._timers.set(self._timer, deadline)

    def expired(self, now: Ns) -> list[Sent]:
        """Transmissions that are still outstanding past their deadline; the timer is set anew."""
        queue, late = self._queue, self._late
        out = []
        while queue and (queue[0].state != OUTSTANDING or queue[0].deadline_ns <= now):
            sent = queue.popleft()
            if sent.state == OUTSTANDING:
                out.append(sent)
        while late and (late[0][2].state != OUTSTANDING or late[0][0] <= now):
            sent = heapq.heappop(late)[2]
            if sent.state == OUTSTANDING:
                out.append(sent)
        deadlines = [queue[0].deadline_ns] if queue else []
        if late:
            deadlines.append(late[0][0])
        if deadlines:
            self._timers.set(self._timer, min(deadlines))
        return out

    def clear(self) -> None:
        self._queue.clear()
        self._late.clear()
        self._timers.stop(self._timer)
