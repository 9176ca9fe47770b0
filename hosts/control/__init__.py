"""The controller's API of MRC: the names of mrc_ctl.h in the shape of pyverbs.

`docs/ocp-api.md` maps every function.  Start with `Controller(context, rng)`.
"""

from hosts.control.constants import (
    CcMask,
    EpOp,
    EvFmtMode,
    EvMode,
    EvOp,
    EvOpFlags,
    EvProfileMask,
    EvState,
    FmtMask,
    OptCap,
    PortAdminState,
    ProfileState,
)
from hosts.control.controller import (
    CcProfileAttr,
    Controller,
    CtlDeviceAttr,
    EvOpEntry,
    EvProfileAttr,
    FmtProfileAttr,
)
from hosts.control.endpoint_ops import EpBatch, EpReq, EpRsp
from hosts.control.events import EvEvent, EvEventCq
from hosts.control.fields import EvField, expand
from hosts.control.profiles import EV_UNPOPULATED, Ev, NsccCfg

__all__ = [
    "EV_UNPOPULATED", "CcMask", "CcProfileAttr", "Controller", "CtlDeviceAttr", "EpBatch",
    "EpOp", "EpReq", "EpRsp", "Ev", "EvEvent", "EvEventCq", "EvField", "EvFmtMode", "EvMode",
    "EvOp", "EvOpEntry", "EvOpFlags",
    "EvProfileAttr", "EvProfileMask", "EvState", "FmtMask", "FmtProfileAttr", "NsccCfg", "OptCap",
    "PortAdminState", "ProfileState", "expand",
]  # fmt: skip
