"""The library context of mrc.h over one endpoint: objects, device, completions and events.

In the shape of pyverbs: classes for handles, methods named after the C functions, ApiError with
the documented errno.  Nothing blocks and nothing waits; the driver of the endpoint makes time go
on, and every call that looks for news collects what the endpoint has by then.
"""

import errno
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from hosts.mrc.endpoint import Endpoint
from hosts.mrc.ev import EvSpec
from hosts.mrc.memory import MemoryRegion
from hosts.mrc.trace import TraceEvent
from hosts.verbs.constants import (
    API_VERSION,
    LAST_SUPPORTED_VERSION,
    PROTOCOL_VERSION_1,
    DeviceCap,
    EventType,
    HintMask,
)
from hosts.verbs.cq import CompChannel, Cq
from hosts.verbs.errors import ApiError

if TYPE_CHECKING:
    from hosts.verbs.qp import Qp, QpInitAttr

HINTS_MAX = 1024
MAX_WIMM = 65535
MPR_RESOLUTION = 1


@dataclass(frozen=True, slots=True)
class DeviceAttr:
    """struct mrc_device_attr; MPR in units of 128 PSNs."""

    protocol_version: int
    max_wimm: int
    max_wimm_dest: int
    max_mpr: int
    mpr_resolution: int
    max_qp_hint: int
    cap: DeviceCap


@dataclass(frozen=True, slots=True)
class AsyncEvent:
    """struct mrc_async_event.  `element`: the Cq, the Qp, or the port number (1-based)."""

    event_type: EventType
    element: object


@dataclass(frozen=True, slots=True)
class QpHintAttr:
    """struct mrc_qp_hint_attr.  Kept and given back; nothing is allocated by it."""

    num_qps_per_peer: int = 0
    num_send_peers: int = 0
    num_remote_recv_peers: int = 0


_HINT_FIELDS = {
    HintMask.NUM_QPS_PER_PEER: "num_qps_per_peer",
    HintMask.NUM_SEND_PEERS: "num_send_peers",
    HintMask.NUM_REMOTE_RECV_PEERS: "num_remote_recv_peers",
}


@dataclass(slots=True, eq=False)
class QpHint:
    """mrc_create_qp_hint."""

    context: "Context" = field(repr=False)
    attr: QpHintAttr
    users: int = 0

    def query(self, mask: HintMask) -> QpHintAttr:
        """mrc_query_qp_hint: all fields, whatever the mask names."""
        _check_hint_mask(mask)
        return self.attr

    def modify(self, attr: QpHintAttr, mask: HintMask) -> None:
        """mrc_modify_qp_hint."""
        _check_hint_mask(mask)
        for bit, name in _HINT_FIELDS.items():
            if bit in mask:
                self.attr = replace(self.attr, **{name: getattr(attr, name)})

    def destroy(self) -> None:
        """mrc_destroy_qp_hint.  Raises ApiError(EBUSY)."""
        if self.users:
            raise ApiError(errno.EBUSY, "the hint is in use by a QP")
        self.context.hints.remove(self)


@dataclass(frozen=True, slots=True)
class Pd:
    """A protection domain.  Memory of one is out of reach for QPs of another."""

    context: "Context" = field(repr=False)
    handle: int

    def reg_mr(self, length: int) -> MemoryRegion:
        """Memory of that size, for local use and remote writes: `va`, `rkey`, `buffer`."""
        return self.context.endpoint.register_memory(length, self.handle)


class Profiles(Protocol):
    """What a context asks of the controller (hosts.control): profiles by number."""

    def evs_for_qp(self, ev_profile_id: int, qp: "Qp") -> tuple[list[EvSpec], list[EvSpec]]:
        """Active and backup EVs.  Raises ApiError(EINVAL) unless the profile is ONLINE."""

    def qp_made(self, qp: "Qp") -> None:
        """The endpoint has made the QP with those EVs."""

    def check_cc(self, cc_profile_id: int) -> None:
        """Raises ApiError(EINVAL) unless that profile is ONLINE and what this endpoint runs."""

    def release(self, qp: "Qp") -> None:
        """The QP no longer uses its profiles."""

    def ev_changed(self, event: TraceEvent) -> None: ...


class Context:
    """mrc_create_context.  `clock` gives the time in ns of whoever drives the endpoint."""

    def __init__(self, endpoint: Endpoint, clock: Callable[[], int]) -> None:
        self.endpoint = endpoint
        self.clock = clock
        self.profiles: Profiles | None = None
        self.qps: dict[int, Qp] = {}
        self.hints: list[QpHint] = []
        self._events: deque[AsyncEvent] = deque()
        self._unacknowledged = 0
        self._pds = 0

    def destroy(self) -> None:
        """mrc_destroy_context.  Raises ApiError(EBUSY) while it has QPs or hints."""
        if self.qps or self.hints:
            raise ApiError(errno.EBUSY, "the context still has QPs or hints")

    # -- device ----------------------------------------------------------------------------------

    def query_device(self) -> DeviceAttr:
        """mrc_query_device_ex; `supported` is true."""
        config = self.endpoint.config
        cap = DeviceCap(0)
        if config.trim_nack:
            cap |= DeviceCap.TRIM_NACK
        if config.dynamic_mpr:
            cap |= DeviceCap.DYNAMIC_MPR
        return DeviceAttr(
            protocol_version=PROTOCOL_VERSION_1,
            max_wimm=MAX_WIMM,
            max_wimm_dest=config.max_wimm,
            max_mpr=config.mpr_units,
            mpr_resolution=MPR_RESOLUTION,
            max_qp_hint=HINTS_MAX,
            cap=cap,
        )

    def query_gid(self) -> bytes:
        """ibv_query_gid: the one this NIC has."""
        return self.endpoint.config.gid

    # -- objects ---------------------------------------------------------------------------------

    def alloc_pd(self) -> Pd:
        """ibv_alloc_pd."""
        self._pds += 1
        return Pd(self, self._pds)

    def create_comp_channel(self) -> CompChannel:
        return CompChannel(self)

    def create_cq(
        self, cqe: int, cq_context: object = None, channel: CompChannel | None = None
    ) -> Cq:
        """Raises ApiError(EINVAL)."""
        return Cq(self, cqe, cq_context, channel)

    def create_qp_hint(self, attr: QpHintAttr) -> QpHint:
        """Raises ApiError(ENOMEM) beyond `max_qp_hint`."""
        if len(self.hints) >= HINTS_MAX:
            raise ApiError(errno.ENOMEM, f"{HINTS_MAX} hints is the most")
        hint = QpHint(self, attr)
        self.hints.append(hint)
        return hint

    def create_qp(self, init_attr: "QpInitAttr") -> "Qp":
        from hosts.verbs.qp import Qp

        return Qp(self, init_attr)

    # -- events ----------------------------------------------------------------------------------

    def get_async_event(self) -> AsyncEvent | None:
        """mrc_get_async_event; None when there is none."""
        self.collect()
        if not self._events:
            return None
        self._unacknowledged += 1
        return self._events.popleft()

    def ack_async_event(self, event: AsyncEvent) -> None:
        """mrc_ack_async_event."""
        if not self._unacknowledged:
            raise ApiError(errno.EINVAL, "no async event is unacknowledged")
        self._unacknowledged -= 1

    def raise_event(self, event_type: EventType, element: object) -> None:
        self._events.append(AsyncEvent(event_type, element))

    def collect(self) -> None:
        """Hand what the endpoint has produced to queues and event lists."""
        for completion in self.endpoint.poll_completions():
            qp = self.qps.get(completion.qpn)
            if qp is not None:
                qp.completed(completion)
        for event in self.endpoint.poll_trace():
            self._take(event)

    def _take(self, event: TraceEvent) -> None:
        if event.kind == "qp_state" and event.fields["to"] == "error":
            qp = self.qps.get(event.fields["qpn"])
            if qp is not None:
                self.raise_event(EventType.QP_FATAL, qp)
        elif event.kind == "port":
            kind = EventType.PORT_ACTIVE if event.fields["up"] else EventType.PORT_ERR
            self.raise_event(kind, event.fields["plane"] + 1)
        elif event.kind == "ev_state" and self.profiles is not None:
            self.profiles.ev_changed(event)


def query_version() -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """mrc_query_version: (current, oldest supported)."""
    return API_VERSION, LAST_SUPPORTED_VERSION


def _check_hint_mask(mask: HintMask) -> None:
    if HintMask.VENDOR_CFG in mask:
        raise ApiError(errno.EINVAL, "there is no vendor configuration")
