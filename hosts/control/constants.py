"""Names and values of mrc_ctl.h."""

from enum import IntEnum, IntFlag

EV_BYTES = 32
"""MRC_CTL_EV_MAX_BYTES: of an EV value."""

NSCC = "uet-1.0-nscc"
"""The one congestion control algorithm the header names."""


class ProfileState(IntEnum):
    """enum mrc_ctl_profile_state."""

    INIT = 0
    OFFLINE = 1
    ONLINE = 2


class OptCap(IntFlag):
    """enum mrc_ctl_attr_opt."""

    EV_PROFILE_MODIFY_ONLINE = 1 << 0
    CC_PROFILE_MODIFY_ONLINE = 1 << 1
    EV_EVENT = 1 << 2
    EV_EXPLICIT_RANGE = 1 << 3
    EV_EVENT_PRECISE_DROP_CNT = 1 << 4
    EP_OP_EV_PROBE = 1 << 5


class PortAdminState(IntEnum):
    """enum mrc_ctl_port_admin_state."""

    DISABLED = 0
    ENABLED = 1


class EvFmtMode(IntFlag):
    """enum mrc_ctl_ev_fmt_mode."""

    STEV = 1 << 0
    SRV6 = 1 << 1
    UDP = 1 << 2


class EvMode(IntFlag):
    """enum mrc_ctl_ev_mode."""

    AUTO = 1 << 0
    EXP = 1 << 1
    GEN = 1 << 2


class EvState(IntFlag):
    """enum mrc_ctl_ev_state.  SKIP is not visible in the API."""

    GOOD = 1 << 0
    ASSUMED_BAD = 1 << 1
    DENIED = 1 << 2
    UNKNOWN = 1 << 31


class EvOp(IntEnum):
    """enum mrc_ctl_ev_op."""

    REPLACE_EV = 0
    MODIFY_EV_STATE = 1
    QUERY_EV_STATE = 2
    QUERY_EV_ARRAY = 3


class EvOpFlags(IntFlag):
    """enum mrc_ctl_ev_op_flags."""

    ALL_COPIES = 1 << 0


class FmtMask(IntFlag):
    """enum mrc_ctl_ev_fmt_profile_attr_mask."""

    STATE = 1 << 0
    CUR_STATE = 1 << 1
    MODE = 1 << 2
    OP = 1 << 3
    VENDOR_CFG = 1 << 31


class EvProfileMask(IntFlag):
    """enum mrc_ctl_ev_profile_attr_mask."""

    STATE = 1 << 0
    CUR_STATE = 1 << 1
    MODE = 1 << 2
    FMT_ID = 1 << 3
    COUNT = 1 << 4
    MIN_ACTIVE = 1 << 5
    EVENT_MASK = 1 << 6
    EV_OP = 1 << 7
    EV_FIELDS_OP = 1 << 8
    VENDOR_CFG = 1 << 31


class CcMask(IntFlag):
    """enum mrc_ctl_cc_profile_attr_mask."""

    STATE = 1 << 0
    CUR_STATE = 1 << 1
    ALGORITHM = 1 << 2
    CONFIG = 1 << 3
    VENDOR_CFG = 1 << 31


class EpOp(IntEnum):
    """enum mrc_ctl_ep_op_type."""

    EV_PROBE = 0
    PORT_STATUS_UPDATE = 1
