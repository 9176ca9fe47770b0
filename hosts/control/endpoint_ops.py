"""Batches of endpoint operations (mrc_ctl_ep_batch_send_wait): EV probes and port status updates.

The C function blocks; here a batch is sent, the driver makes time go on, and `wait` tells what has
come.  Peers are nodes that we have a QP with: a node without one knows no path for its answer.
"""

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from hosts.control.constants import EpOp, EvFmtMode
from hosts.control.profiles import SRV6_EV_BASE, Ev
from hosts.mrc.units import Ns
from hosts.verbs.context import Context
from hosts.verbs.errors import ApiError
from hosts.wire.dscp import Dscp, Ecn, traffic_class
from hosts.wire.erth import EndpointOp, Erth
from hosts.wire.path import Path

_OPS = {
    EpOp.EV_PROBE: EndpointOp.EV_PROBE,
    EpOp.PORT_STATUS_UPDATE: EndpointOp.PORT_STATUS_UPDATE,
}


@dataclass(frozen=True, slots=True)
class EpReq:
    """struct mrc_ctl_ep_req.  req_ev is expanded; port_status: bit n = port n (1-based) is up."""

    req_id: int
    sgid: bytes
    dgid: bytes
    ev_fmt_mode: EvFmtMode
    req_ev: Ev
    port_status: int = 0


@dataclass(frozen=True, slots=True)
class EpRsp:
    """struct mrc_ctl_ep_rsp.  rtt in ns; it is never adjusted for service time."""

    req_id: int
    port: int
    rtt: int
    adj_svc_time: bool = False


class EpBatch:
    """Requests on their way.  `responses` in order of arrival."""

    def __init__(
        self,
        context: Context,
        req_tc: int,
        op_type: EpOp,
        requests: Sequence[EpReq],
        rsp_timeout: Ns,
    ) -> None:
        """Raises ApiError(EINVAL, ENOTSUP); then nothing was sent."""
        self.responses: list[EpRsp] = []
        self._context = context
        self._sent_ns = context.clock()
        self._deadline_ns = self._sent_ns + rsp_timeout
        self._count = len(requests)
        self._ids: list[int] = []
        paths = [_path(context, request) for request in requests]
        if len({request.req_id for request in requests}) < len(requests):
            raise ApiError(errno.EINVAL, "two requests have one req_id")
        ecn = Ecn.NOT_ECT if req_tc == Dscp.CONTROL else Ecn.ECT0
        for request, path in zip(requests, paths, strict=True):
            header = Erth(op=_OPS[op_type], port_status_mask=request.port_status >> 1)
            self._ids.append(
                context.endpoint.endpoint_ops.ask(
                    path,
                    request.req_ev.port - 1,
                    header,
                    tclass=traffic_class(req_tc, ecn),
                    answered=partial(self._answered, request.req_id),
                    now=self._sent_ns,
                )
            )

    def _answered(self, req_id: int, plane: int, now: Ns) -> None:
        self.responses.append(EpRsp(req_id, plane + 1, now - self._sent_ns))

    def wait(self) -> list[EpRsp] | None:
        """All responses, or None while some are missing and there is time.

        Raises ApiError(ETIMEDOUT) when there is none; `responses` holds what came.
        """
        if len(self.responses) == self._count:
            return self.responses
        if self._context.clock() < self._deadline_ns:
            return None
        for request_id in self._ids:
            self._context.endpoint.endpoint_ops.forget(request_id)
        missing = self._count - len(self.responses)
        raise ApiError(errno.ETIMEDOUT, f"{missing} of {self._count} requests were not answered")


def _path(context: Context, request: EpReq) -> Path:
    config = context.endpoint.config
    port, value = request.req_ev.port, request.req_ev.val
    if request.sgid != config.gid:
        raise ApiError(errno.EINVAL, "sgid is not this NIC's")
    if not 1 <= port <= len(config.ports):
        raise ApiError(errno.EINVAL, f"port {port}: there are 1 to {len(config.ports)}")
    if not 0 <= request.req_id < 1 << 16:
        raise ApiError(errno.EINVAL, f"req_id {request.req_id} is not 16 bits")
    if request.dgid not in context.endpoint.peers:
        raise ApiError(errno.ENOTSUP, "no QP leads to that node: it would know no way back")
    srv6 = request.ev_fmt_mode is EvFmtMode.SRV6
    if srv6:
        ev = SRV6_EV_BASE | port - 1
    else:
        ev = int.from_bytes(value[: 4 if request.ev_fmt_mode is EvFmtMode.STEV else 2])
    nic = config.ports[port - 1]
    return Path(
        src_mac=nic.mac,
        dst_mac=nic.gateway_mac,
        src_gid=config.gid,
        dst_gid=request.dgid,
        outer_dst=value[:16] if srv6 else None,
        ev=ev,
        udp_dport=config.udp_dport,
    )
