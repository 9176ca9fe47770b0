"""A queue pair: both halves, its EVs, and its state."""

import enum
from collections.abc import Sequence
from random import Random

from hosts.errors import UsageError
from hosts.mrc import policy
from hosts.mrc.cc.base import CongestionControl
from hosts.mrc.config import RemoteQp
from hosts.mrc.ev import Cause, Ev, EvSpec, EvState
from hosts.mrc.ev_set import EvSet
from hosts.mrc.message import Status, WriteRequest
from hosts.mrc.requester import Requester
from hosts.mrc.responder import Responder
from hosts.mrc.reverse import ReverseSet
from hosts.mrc.services import Services
from hosts.mrc.units import Ns
from hosts.wire.path import ControlHeader, Path
from hosts.wire.peth import Peth


class QpState(enum.Enum):
    RESET = "reset"
    INIT = "init"
    RTR = "rtr"
    RTS = "rts"
    ERROR = "error"


TRANSITIONS: dict[QpState, frozenset[QpState]] = {
    QpState.RESET: frozenset({QpState.INIT}),
    QpState.INIT: frozenset({QpState.RTR, QpState.RESET, QpState.ERROR}),
    QpState.RTR: frozenset({QpState.RTS, QpState.RESET, QpState.ERROR}),
    QpState.RTS: frozenset({QpState.RESET, QpState.ERROR}),
    QpState.ERROR: frozenset({QpState.RESET}),
}


class QueuePair:
    """`psn` is the PSN of its first packet.  `live_mask`: planes whose ports are up at both
    ends."""

    __slots__ = (
        "_services", "evs", "live_mask", "pd", "psn", "qpn", "queued", "reason", "remote",
        "remote_qpn", "requester", "responder", "reverse", "state", "turn",
    )  # fmt: skip

    def __init__(
        self,
        qpn: int,
        active: Sequence[EvSpec],
        backup: Sequence[EvSpec],
        *,
        services: Services,
        cc: CongestionControl,
        rng: Random,
        psn: int,
        pd: int = 0,
    ) -> None:
        config = services.config
        self._services = services
        self.qpn = qpn
        self.psn = psn
        self.pd = pd
        self.state = QpState.INIT
        self.reason: str | None = None
        self.remote: RemoteQp | None = None
        self.remote_qpn = 0
        self.live_mask = (1 << len(config.ports)) - 1
        self.queued = False
        self.turn = 1
        """In the endpoint's list of QPs with something to send."""
        self.evs = EvSet(
            active, backup, plane_count=len(config.ports), min_active=config.min_active, rng=rng,
            changed=self._ev_changed,
            policy=policy.make(config.path_policy, rng, config.base_rtt_ns),
        )  # fmt: skip
        self.requester = Requester(self, services, self.evs, cc, self.psn, self.fail)
        self.responder = Responder(self, services, self.fail)
        self.reverse = ReverseSet(self, services, rng)

    def connect(self, remote: RemoteQp, now: Ns) -> None:
        """INIT to RTS.  Raises UsageError in any other state."""
        if self.state is not QpState.INIT:
            raise UsageError(f"QP {self.qpn} is {self.state.value}, not init")
        self.remote = remote
        self.remote_qpn = remote.qpn
        self.responder.connect(remote)
        self.requester.connect(remote)
        self._move(QpState.RTR, None, now)
        self._move(QpState.RTS, None, now)

    def post(self, request: WriteRequest) -> None:
        if self.state is not QpState.RTS:
            raise UsageError(f"QP {self.qpn} is {self.state.value}, not rts")
        request.check()
        self.requester.post(request)

    def fail(self, status: Status, reason: str, now: Ns) -> None:
        """To ERROR: everything unfinished is flushed."""
        if self.state is QpState.ERROR:
            return
        self.reason = reason
        self._move(QpState.ERROR, reason, now)
        self.requester.flush(status, now)

    def _move(self, state: QpState, reason: str | None, now: Ns) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state} to {state}"
        before, self.state = self.state, state
        fields = {"qpn": self.qpn, "from": before.value, "to": state.value, "reason": reason}
        self._services.trace.add(now, "qp_state", **fields)

    def _ev_changed(self, ev: Ev, before: EvState, after: EvState, cause: Cause, now: Ns) -> None:
        """SKIP is not visible outside (mrc_ctl.h)."""
        old = EvState.GOOD if before is EvState.SKIP else before
        new = EvState.GOOD if after is EvState.SKIP else after
        if old is not new:
            fields = {
                "qpn": self.qpn, "ev": ev.value, "plane": ev.plane, "from": old.value,
                "to": new.value, "cause": cause.value,
            }  # fmt: skip
            self._services.trace.add(now, "ev_state", **fields)

    # -- planes ----------------------------------------------------------------------------------

    def plane_down(self, plane: int, cause: Cause, now: Ns) -> None:
        self.live_mask &= ~(1 << plane)
        if self.state is not QpState.ERROR:
            self.requester.health.plane_down(plane, cause, now)
            self.requester.loss.plane_gone(plane)
            self._planes_changed()

    def plane_up(self, plane: int, now: Ns) -> None:
        self.live_mask |= 1 << plane
        if self.state is not QpState.ERROR:
            self.requester.health.plane_up(plane, now)
            self._planes_changed()

    def _planes_changed(self) -> None:
        ports = self._services.config.ports
        live = [p.rate_bps for i, p in enumerate(ports) if self.live_mask >> i & 1]
        if live:
            self.requester.cc.set_rate(sum(live))

    # -- frames ----------------------------------------------------------------------------------

    def send_control(self, header: ControlHeader, psn: int, *, only_one: bool = False) -> None:
        """A control packet to the peer QP, on the next live plane of the way back; on the surest if
        no other will say the same."""
        ev = self.reverse.surest() if only_one else self.reverse.next()
        if ev is None:
            self._services.counters.control_dropped += 1
            return
        self.send_control_on(ev, header, psn)

    def send_control_on(self, ev: Ev, header: ControlHeader, psn: int) -> None:
        frame = (ev.path or self.path(ev)).emit_control(self.remote_qpn, header, psn=psn)
        self._services.send_control(ev.plane, frame)

    def send_probe(self, ev: Ev, probe_id: int, now: Ns) -> None:
        config = self._services.config
        peth = Peth(
            probe_id=probe_id,
            spdcid=self.qpn & 0xFFFF,
            dpdcid=self.remote_qpn & 0xFFFF,
            tx_ticks=now // config.tick_ns & 0xFFFF,
        )
        frame = self.path(ev).emit_control(self.remote_qpn, peth, psn=0)
        self._services.counters.tx_probe += 1
        self._services.send_control(ev.plane, frame)

    def path(self, ev: Ev) -> Path:
        """The path that this EV stands for."""
        if ev.path is None:
            assert self.remote is not None
            ev.path = self._services.path(ev, self.remote.gid)
        return ev.path
