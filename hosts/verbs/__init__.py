"""The application's API of MRC: the names of mrc.h in the shape of pyverbs.

`docs/ocp-api.md` maps every function.  Start with `Context(endpoint, clock)`; profiles come from
`hosts.control.Controller`.
"""

from hosts.verbs.constants import (
    DeviceCap,
    EventType,
    HintMask,
    IbvQpAttrMask,
    IbvQpState,
    QpAttrMask,
    QpCap,
    SendFlags,
    WcOpcode,
    WcStatus,
    WrOpcode,
)
from hosts.verbs.context import AsyncEvent, Context, DeviceAttr, Pd, QpHintAttr, query_version
from hosts.verbs.cq import CompChannel, Cq, Wc
from hosts.verbs.errors import ApiError
from hosts.verbs.qp import IbvQpAttr, Qp, QpAttr, QpInitAttr, SendWr

__all__ = [
    "ApiError", "AsyncEvent", "CompChannel", "Context", "Cq", "DeviceAttr", "DeviceCap",
    "EventType", "HintMask", "IbvQpAttr", "IbvQpAttrMask", "IbvQpState", "Pd", "Qp", "QpAttr",
    "QpAttrMask", "QpCap", "QpHintAttr", "QpInitAttr", "SendFlags", "SendWr", "Wc", "WcOpcode",
    "WcStatus", "WrOpcode", "query_version",
]  # fmt: skip
