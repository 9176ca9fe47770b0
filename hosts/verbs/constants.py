"""Names and values of mrc.h, and of the parts of libibverbs that it builds on."""

from enum import IntEnum, IntFlag


class DeviceCap(IntFlag):
    """enum mrc_device_cap."""

    TRIM_NACK = 1 << 0
    DYNAMIC_MPR = 1 << 1
    SVC_TIME = 1 << 2


class QpAttrMask(IntFlag):
    """enum mrc_qp_attr_mask."""

    MAX_WIMM = 1 << 0
    MAX_WIMM_DEST = 1 << 1
    MPR = 1 << 2
    MPR_DEST = 1 << 3
    TIMEOUT = 1 << 4
    EV_PROFILE_ID = 1 << 5
    CC_PROFILE_ID = 1 << 6
    HINT = 1 << 7
    RETRY_CNT = 1 << 8
    CAP = 1 << 9
    VENDOR_CFG = 1 << 31


class QpCap(IntFlag):
    """enum mrc_qp_cap."""

    TRIM_NACK_DEST_UNSUPPORTED = 1 << 0
    DYNAMIC_MPR = 1 << 1
    SVC_TIME_DEST_UNSUPPORTED = 1 << 2


class HintMask(IntFlag):
    """enum mrc_qp_hint_attr_mask."""

    NUM_QPS_PER_PEER = 1 << 0
    NUM_SEND_PEERS = 1 << 1
    NUM_REMOTE_RECV_PEERS = 1 << 2
    VENDOR_CFG = 1 << 31


class IbvQpState(IntEnum):
    """enum ibv_qp_state."""

    RESET = 0
    INIT = 1
    RTR = 2
    RTS = 3
    SQD = 4
    SQE = 5
    ERR = 6


class IbvQpAttrMask(IntFlag):
    """enum ibv_qp_attr_mask."""

    STATE = 1 << 0
    CUR_STATE = 1 << 1
    ACCESS_FLAGS = 1 << 3
    PKEY_INDEX = 1 << 4
    PORT = 1 << 5
    AV = 1 << 7
    PATH_MTU = 1 << 8
    TIMEOUT = 1 << 9
    RETRY_CNT = 1 << 10
    RNR_RETRY = 1 << 11
    RQ_PSN = 1 << 12
    MAX_QP_RD_ATOMIC = 1 << 13
    ALT_PATH = 1 << 14
    MIN_RNR_TIMER = 1 << 15
    SQ_PSN = 1 << 16
    MAX_DEST_RD_ATOMIC = 1 << 17
    PATH_MIG_STATE = 1 << 18
    DEST_QPN = 1 << 20


IBV_UNSUPPORTED = (
    IbvQpAttrMask.PORT
    | IbvQpAttrMask.TIMEOUT
    | IbvQpAttrMask.RETRY_CNT
    | IbvQpAttrMask.RNR_RETRY
    | IbvQpAttrMask.MIN_RNR_TIMER
    | IbvQpAttrMask.MAX_QP_RD_ATOMIC
    | IbvQpAttrMask.MAX_DEST_RD_ATOMIC
    | IbvQpAttrMask.ALT_PATH
    | IbvQpAttrMask.PATH_MIG_STATE
)
"""mrc_modify_qp refuses these."""


class WcStatus(IntEnum):
    """enum ibv_wc_status, those that occur."""

    SUCCESS = 0
    WR_FLUSH_ERR = 5
    REM_INV_REQ_ERR = 9
    REM_ACCESS_ERR = 10
    REM_OP_ERR = 11
    RETRY_EXC_ERR = 12


class WcOpcode(IntEnum):
    """enum ibv_wc_opcode, those that occur."""

    RDMA_WRITE = 1
    RECV_RDMA_WITH_IMM = 1 << 7 | 1


class WrOpcode(IntEnum):
    """enum ibv_wr_opcode, those that MRC carries."""

    RDMA_WRITE = 0
    RDMA_WRITE_WITH_IMM = 1


class SendFlags(IntFlag):
    """enum ibv_send_flags."""

    SIGNALED = 1 << 1
    SOLICITED = 1 << 2


class EventType(IntEnum):
    """enum ibv_event_type, those that occur."""

    CQ_ERR = 0
    QP_FATAL = 1
    PORT_ACTIVE = 9
    PORT_ERR = 10


API_VERSION = (1, 0, 1)
LAST_SUPPORTED_VERSION = (1, 0, 0)
PROTOCOL_VERSION_1 = 1
