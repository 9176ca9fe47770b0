"""Queue pairs of mrc.h: RESET, INIT, RTR, RTS, ERR, and the attributes each step needs."""

import errno
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hosts.errors import UsageError
from hosts.mrc.config import RemoteQp
from hosts.mrc.memory import MemoryRegion
from hosts.mrc.message import Completion, CompletionKind, Status, WriteRequest
from hosts.mrc.qp import QpState, QueuePair
from hosts.verbs.constants import (
    IBV_UNSUPPORTED,
    IbvQpAttrMask,
    IbvQpState,
    QpAttrMask,
    QpCap,
    SendFlags,
    WcOpcode,
    WcStatus,
    WrOpcode,
)
from hosts.verbs.cq import Cq, Wc
from hosts.verbs.errors import ApiError

if TYPE_CHECKING:
    from hosts.verbs.context import Context, Pd, QpHint

_STATUS = {
    Status.SUCCESS: WcStatus.SUCCESS,
    Status.FLUSHED: WcStatus.WR_FLUSH_ERR,
    Status.RETRY_EXCEEDED: WcStatus.RETRY_EXC_ERR,
    Status.REMOTE_ACCESS_ERROR: WcStatus.REM_ACCESS_ERR,
    Status.REMOTE_INVALID_REQUEST: WcStatus.REM_INV_REQ_ERR,
    Status.REMOTE_OPERATION_ERROR: WcStatus.REM_OP_ERR,
}

_IBV = IbvQpAttrMask
_MRC = QpAttrMask
REQUIRED: dict[tuple[IbvQpState, IbvQpState], tuple[IbvQpAttrMask, QpAttrMask]] = {
    (IbvQpState.RESET, IbvQpState.INIT): (
        _IBV.STATE,
        _MRC.HINT | _MRC.EV_PROFILE_ID | _MRC.CC_PROFILE_ID,
    ),
    (IbvQpState.INIT, IbvQpState.RTR): (
        _IBV.STATE | _IBV.AV | _IBV.PATH_MTU | _IBV.DEST_QPN | _IBV.RQ_PSN,
        _MRC.MAX_WIMM_DEST | _MRC.MPR_DEST | _MRC.CAP,
    ),
    (IbvQpState.RTR, IbvQpState.RTS): (
        _IBV.STATE | _IBV.SQ_PSN,
        _MRC.MAX_WIMM | _MRC.MPR | _MRC.RETRY_CNT | _MRC.TIMEOUT,
    ),
}
"""Transitions and the attributes they cannot do without (mrc.h, enum mrc_qp_attr_mask)."""

NO_CAP = QpCap(0)
NO_FLAGS = SendFlags(0)


@dataclass(frozen=True, slots=True)
class QpInitAttr:
    """struct mrc_qp_init_attr.  max_send_wr, max_recv_wr: of ibv_qp_cap; one SGE each."""

    send_cq: Cq
    recv_cq: Cq
    pd: "Pd"
    max_send_wr: int = 128
    max_recv_wr: int = 128
    sq_sig_all: bool = False
    qp_context: object = None


@dataclass(frozen=True, slots=True)
class IbvQpAttr:
    """struct ibv_qp_attr, the fields MRC uses.  dgid: of the address vector; path_mtu in bytes."""

    qp_state: IbvQpState = IbvQpState.RESET
    cur_qp_state: IbvQpState = IbvQpState.RESET
    dgid: bytes = b""
    path_mtu: int = 0
    dest_qp_num: int = 0
    rq_psn: int = 0
    sq_psn: int = 0


@dataclass(frozen=True, slots=True)
class QpAttr:
    """struct mrc_qp_attr.  mpr in units of 128 PSNs; timeout: 1.024 us x 2^timeout."""

    mpr: int = 0
    mpr_dest: int = 0
    max_wimm: int = 0
    max_wimm_dest: int = 0
    timeout: int = 0
    ev_profile_id: int = 0
    cc_profile_id: int = 0
    linear_cnt: int = 0
    exp_cnt: int = 0
    qp_hint: "QpHint | None" = None
    cap: QpCap = NO_CAP


@dataclass(frozen=True, slots=True)
class SendWr:
    """struct ibv_send_wr with one SGE: bytes of `mr` from `offset`."""

    wr_id: int
    mr: MemoryRegion
    offset: int
    length: int
    remote_addr: int
    rkey: int
    opcode: WrOpcode = WrOpcode.RDMA_WRITE
    imm_data: int = 0
    send_flags: SendFlags = NO_FLAGS


class Qp:
    """mrc_create_qp.  Its number is known from INIT on, when the endpoint makes its half."""

    def __init__(self, context: "Context", init_attr: QpInitAttr) -> None:
        self._context = context
        self.init_attr = init_attr
        self.attr = QpAttr()
        self.vattr = IbvQpAttr()
        self._half: QueuePair | None = None
        self._sends: deque[tuple[int, bool]] = deque()
        self._receives: deque[int] = deque()
        for cq in (init_attr.send_cq, init_attr.recv_cq):
            cq.users += 1

    @property
    def qpn(self) -> int:
        """mrc_get_qpn.  Raises ApiError(EINVAL) in RESET."""
        return self.half.qpn

    @property
    def number(self) -> int:
        """As qpn, but 0 in RESET."""
        return 0 if self._half is None else self._half.qpn

    @property
    def half(self) -> QueuePair:
        """The endpoint's own object.  Raises ApiError(EINVAL) in RESET."""
        if self._half is None:
            raise ApiError(errno.EINVAL, "the QP is in RESET")
        return self._half

    @property
    def state(self) -> IbvQpState:
        if self._half is not None and self._half.state is QpState.ERROR:
            return IbvQpState.ERR
        return self.vattr.qp_state

    # -- attributes --------------------------------------------------------------------------------

    def query(self) -> tuple[IbvQpAttr, QpAttr, QpInitAttr]:
        """mrc_query_qp, all attributes."""
        psn = 0 if self._half is None else self._half.psn
        vattr = replace(self.vattr, qp_state=self.state, cur_qp_state=self.state, sq_psn=psn)
        return vattr, self.attr, self.init_attr

    def modify(
        self, vattr: IbvQpAttr, vmask: IbvQpAttrMask, attr: QpAttr, mask: QpAttrMask
    ) -> None:
        """mrc_modify_qp.  Raises ApiError(EINVAL) with what is missing or wrong."""
        if vmask & IBV_UNSUPPORTED:
            raise ApiError(errno.EINVAL, f"not supported: {vmask & IBV_UNSUPPORTED!r}")
        if mask & QpAttrMask.VENDOR_CFG:
            raise ApiError(errno.EINVAL, "there is no vendor configuration")
        if _IBV.CUR_STATE in vmask and vattr.cur_qp_state is not self.state:
            raise ApiError(errno.EINVAL, f"the QP is in {self.state.name}")
        if _IBV.STATE not in vmask:
            raise ApiError(errno.EINVAL, "attributes change with the state only")
        target = vattr.qp_state
        if target is IbvQpState.ERR:
            self._to_error()
            return
        if target is IbvQpState.RESET:
            raise ApiError(errno.EINVAL, "destroy the QP and create another")
        step = (self.state, target)
        if step not in REQUIRED:
            raise ApiError(errno.EINVAL, f"no way from {self.state.name} to {target.name}")
        needed_v, needed = REQUIRED[step]
        if missing := needed_v & ~vmask:
            raise ApiError(errno.EINVAL, f"{target.name} needs {missing!r}")
        if missing_mrc := needed & ~mask:
            raise ApiError(errno.EINVAL, f"{target.name} needs {missing_mrc!r}")
        {
            IbvQpState.INIT: self._to_init,
            IbvQpState.RTR: self._to_rtr,
            IbvQpState.RTS: self._to_rts,
        }[target](vattr, attr)
        self.vattr = replace(self.vattr, qp_state=target)

    def _to_init(self, vattr: IbvQpAttr, attr: QpAttr) -> None:
        context = self._context
        if context.profiles is None:
            raise ApiError(errno.EINVAL, "no controller has made profiles")
        context.profiles.check_cc(attr.cc_profile_id)
        active, backup = context.profiles.evs_for_qp(attr.ev_profile_id, self)
        try:
            pd = self.init_attr.pd.handle
            self._half = context.endpoint.create_qp(active, backup, pd)
        except UsageError as error:
            context.profiles.release(self)
            raise ApiError(errno.EINVAL, str(error)) from error
        context.qps[self._half.qpn] = self
        context.profiles.qp_made(self)
        if attr.qp_hint is not None:
            attr.qp_hint.users += 1
        self.attr = replace(
            self.attr,
            ev_profile_id=attr.ev_profile_id,
            cc_profile_id=attr.cc_profile_id,
            qp_hint=attr.qp_hint,
        )

    def _to_rtr(self, vattr: IbvQpAttr, attr: QpAttr) -> None:
        config = self._context.endpoint.config
        checks = (
            ("path_mtu", vattr.path_mtu, config.pmtu),
            ("mpr_dest", attr.mpr_dest, config.mpr_units),
            ("max_wimm_dest", attr.max_wimm_dest, config.max_wimm),
        )
        for name, value, ours in checks:
            if value != ours:
                raise ApiError(errno.EINVAL, f"{name} is {value}: this endpoint has {ours}")
        try:
            remote = RemoteQp(
                gid=vattr.dgid,
                qpn=vattr.dest_qp_num,
                psn=vattr.rq_psn,
                mpr_units=config.mpr_units,
                max_wimm=config.max_wimm,
                trim_nack=not attr.cap & QpCap.TRIM_NACK_DEST_UNSUPPORTED,
                dynamic_mpr=bool(attr.cap & QpCap.DYNAMIC_MPR),
            )
            self._context.endpoint.connect_qp(self.qpn, remote)
        except UsageError as error:
            raise ApiError(errno.EINVAL, str(error)) from error
        self.attr = replace(
            self.attr, mpr_dest=attr.mpr_dest, max_wimm_dest=attr.max_wimm_dest, cap=attr.cap
        )
        self.vattr = replace(
            self.vattr,
            dgid=vattr.dgid,
            path_mtu=vattr.path_mtu,
            dest_qp_num=vattr.dest_qp_num,
            rq_psn=vattr.rq_psn,
        )

    def _to_rts(self, vattr: IbvQpAttr, attr: QpAttr) -> None:
        config, half = self._context.endpoint.config, self.half
        checks = (
            ("sq_psn", vattr.sq_psn, half.psn),
            ("timeout", attr.timeout, config.timeout),
            ("linear_cnt", attr.linear_cnt, config.linear_cnt),
            ("exp_cnt", attr.exp_cnt, config.exp_cnt),
        )
        for name, value, ours in checks:
            if value != ours:
                raise ApiError(errno.EINVAL, f"{name} is {value}: this endpoint has {ours}")
        assert half.remote is not None
        try:
            remote = replace(half.remote, mpr_units=attr.mpr, max_wimm=attr.max_wimm)
        except UsageError as error:
            raise ApiError(errno.EINVAL, str(error)) from error
        half.remote = remote
        half.requester.connect(remote)
        self.attr = replace(
            self.attr,
            mpr=attr.mpr,
            max_wimm=attr.max_wimm,
            timeout=attr.timeout,
            linear_cnt=attr.linear_cnt,
            exp_cnt=attr.exp_cnt,
        )

    def _to_error(self) -> None:
        self.half.fail(Status.FLUSHED, "application", self._context.clock())
        self._context.collect()
        self._flush_receives()

    # -- work ---------------------------------------------------------------------------------

    def post_send(self, wr: SendWr) -> None:
        """mrc_post_send: RDMA WRITE, with immediate or without.

        Raises ApiError: EINVAL (not in RTS, memory of another PD, out of bounds), ENOMEM (send
        queue full).
        """
        if self.state is not IbvQpState.RTS:
            raise ApiError(errno.EINVAL, f"the QP is in {self.state.name}, not RTS")
        if len(self._sends) >= self.init_attr.max_send_wr:
            raise ApiError(errno.ENOMEM, f"{self.init_attr.max_send_wr} requests are posted")
        if wr.mr.pd != self.init_attr.pd.handle:
            raise ApiError(errno.EINVAL, "the memory belongs to another protection domain")
        imm = wr.imm_data if wr.opcode is WrOpcode.RDMA_WRITE_WITH_IMM else None
        request = WriteRequest(wr.wr_id, wr.mr, wr.offset, wr.length, wr.remote_addr, wr.rkey, imm)
        try:
            self._context.endpoint.post_write(self.qpn, request)
        except UsageError as error:
            raise ApiError(errno.EINVAL, str(error)) from error
        signaled = self.init_attr.sq_sig_all or SendFlags.SIGNALED in wr.send_flags
        self._sends.append((wr.wr_id, signaled))

    def post_recv(self, wr_id: int) -> None:
        """mrc_post_recv: one immediate may complete.  As many as max_wimm_dest must be posted:
        there is no RNR in MRC, and an immediate that finds none ends the QP."""
        if self.state is IbvQpState.RESET:
            raise ApiError(errno.EINVAL, "the QP is in RESET")
        if len(self._receives) >= self.init_attr.max_recv_wr:
            raise ApiError(errno.ENOMEM, f"{self.init_attr.max_recv_wr} receives are posted")
        self._receives.append(wr_id)
        if self.state is IbvQpState.ERR:
            self._flush_receives()

    def completed(self, completion: Completion) -> None:
        """From the endpoint, in order."""
        status = _STATUS[completion.status]
        if completion.kind is CompletionKind.SEND:
            wr_id, signaled = self._sends.popleft()
            if signaled or status is not WcStatus.SUCCESS:
                wc = Wc(wr_id, status, WcOpcode.RDMA_WRITE, completion.byte_len, completion.qpn)
                self.init_attr.send_cq.complete(wc)
        elif not self._receives:
            self.half.fail(Status.FLUSHED, "no_receive_posted", self._context.clock())
        else:
            self.init_attr.recv_cq.complete(
                Wc(
                    self._receives.popleft(),
                    status,
                    WcOpcode.RECV_RDMA_WITH_IMM,
                    completion.byte_len,
                    completion.qpn,
                    completion.imm,
                )
            )
        if self.state is IbvQpState.ERR:
            self._flush_receives()

    def _flush_receives(self) -> None:
        while self._receives:
            wr_id = self._receives.popleft()
            opcode = WcOpcode.RECV_RDMA_WITH_IMM
            wc = Wc(wr_id, WcStatus.WR_FLUSH_ERR, opcode, 0, self.qpn)
            self.init_attr.recv_cq.complete(wc)

    def destroy(self) -> None:
        """mrc_destroy_qp: to ERR, and what was posted is forgotten."""
        context = self._context
        if self._half is not None:
            self._half.fail(Status.FLUSHED, "destroyed", context.clock())
            context.qps.pop(self._half.qpn, None)
            if context.profiles is not None:
                context.profiles.release(self)
        if self.attr.qp_hint is not None:
            self.attr.qp_hint.users -= 1
            self.attr = replace(self.attr, qp_hint=None)
        for cq in (self.init_attr.send_cq, self.init_attr.recv_cq):
            cq.users -= 1
