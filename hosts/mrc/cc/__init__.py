"""Congestion control, picked by name: `fixed` or `nscc`."""

from hosts.errors import UsageError
from hosts.mrc.cc.base import CongestionControl
from hosts.mrc.cc.fixed import FixedWindow
from hosts.mrc.config import EndpointConfig


def make(config: EndpointConfig) -> CongestionControl:
    """The congestion control of one QP.  Raises UsageError for a name nobody has."""
    if config.cc == "fixed":
        return FixedWindow(config.window_bytes)
    raise UsageError(f"no congestion control named {config.cc!r}")
