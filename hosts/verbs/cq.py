"""Completion queues and the channels that announce them (mrc.h)."""

import errno
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from hosts.verbs.constants import EventType, WcOpcode, WcStatus
from hosts.verbs.errors import ApiError

if TYPE_CHECKING:
    from hosts.verbs.context import Context

Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True)
class Wc:
    """struct ibv_wc, the fields MRC fills."""

    wr_id: int
    status: WcStatus
    opcode: WcOpcode
    byte_len: int
    qp_num: int
    imm_data: int | None = None


class CompChannel:
    """mrc_create_comp_channel.  Nothing blocks here: `get_cq_event` gives None when it is empty."""

    def __init__(self, context: "Context") -> None:
        self._context = context
        self._events: deque[Queue[object]] = deque()
        self.users = 0

    def get_cq_event(self) -> "Queue[object] | None":
        """mrc_get_cq_event: the next CQ with news.  Acknowledge with `Queue.ack_events`."""
        self._context.collect()
        if not self._events:
            return None
        cq = self._events.popleft()
        cq.unacknowledged += 1
        return cq

    def announce(self, cq: "Queue[object]") -> None:
        self._events.append(cq)

    def destroy(self) -> None:
        """mrc_destroy_comp_channel.  Raises ApiError(EBUSY) while a CQ uses it."""
        if self.users:
            raise ApiError(errno.EBUSY, "the channel still has completion queues")


class Queue(Generic[Entry]):
    """What completion queues and EV event queues share: bounded, polled, announced when armed."""

    def __init__(
        self, context: "Context", cqe: int, cq_context: object, channel: CompChannel | None
    ) -> None:
        if cqe < 1:
            raise ApiError(errno.EINVAL, f"a completion queue of {cqe} entries")
        self._context = context
        self._entries: deque[Entry] = deque()
        self._armed = self._solicited_only = False
        self._channel = channel
        self.cqe = cqe
        self.cq_context = cq_context
        self.unacknowledged = 0
        self.users = 0
        if channel is not None:
            channel.users += 1

    def poll(self, num_entries: int) -> list[Entry]:
        """mrc_poll_cq: at most so many, oldest first; fewer means it is empty now."""
        if num_entries < 0:
            raise ApiError(errno.EINVAL, f"poll for {num_entries} entries")
        self._context.collect()
        return [self._entries.popleft() for _ in range(min(num_entries, len(self._entries)))]

    def req_notify(self, solicited_only: bool = False) -> None:
        """mrc_req_notify_cq: announce the next entry on the channel, once."""
        if self._channel is None:
            raise ApiError(errno.EINVAL, "this completion queue has no channel")
        self._armed, self._solicited_only = True, solicited_only

    def ack_events(self, nevents: int) -> None:
        """mrc_ack_cq_events."""
        if not 0 <= nevents <= self.unacknowledged:
            raise ApiError(errno.EINVAL, f"{nevents} events acknowledged of {self.unacknowledged}")
        self.unacknowledged -= nevents

    def destroy(self) -> None:
        """mrc_destroy_cq.  Raises ApiError(EBUSY): a QP uses it, or an event is unacknowledged."""
        if self.users or self.unacknowledged:
            raise ApiError(errno.EBUSY, "the completion queue is in use")
        if self._channel is not None:
            self._channel.users -= 1
            self._channel = None

    @property
    def is_full(self) -> bool:
        return len(self._entries) >= self.cqe

    def _add(self, entry: Entry, *, solicited: bool = False) -> None:
        self._entries.append(entry)
        if self._armed and (solicited or not self._solicited_only):
            self._armed = False
            assert self._channel is not None
            self._channel.announce(self)  # type: ignore[arg-type]


class Cq(Queue[Wc]):
    """mrc_create_cq."""

    def __init__(
        self, context: "Context", cqe: int, cq_context: object, channel: CompChannel | None
    ) -> None:
        super().__init__(context, cqe, cq_context, channel)
        self.overrun = False

    def complete(self, wc: Wc) -> None:
        """A full queue is overrun: an async event, and what does not fit is lost."""
        if self.is_full:
            if not self.overrun:
                self.overrun = True
                self._context.raise_event(EventType.CQ_ERR, self)
            return
        bad = wc.status is not WcStatus.SUCCESS
        self._add(wc, solicited=bad or wc.opcode is WcOpcode.RECV_RDMA_WITH_IMM)
