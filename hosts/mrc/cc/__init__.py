"""Congestion control, picked by name: `nscc`, or `fixed` for a window that never moves."""

from hosts.errors import UsageError
from hosts.mrc.cc.base import CongestionControl
from hosts.mrc.cc.fixed import FixedWindow
from hosts.mrc.cc.nscc import Nscc, scaled_params
from hosts.mrc.config import EndpointConfig
from hosts.wire.size import nominal_size


def make(config: EndpointConfig) -> CongestionControl:
    """The congestion control of one QP.  Raises UsageError for a name nobody has."""
    if config.cc == "fixed":
        return FixedWindow(config.window_bytes)
    if config.cc == "nscc":
        return Nscc(
            scaled_params(
                rate_bps=sum(port.rate_bps for port in config.ports),
                base_rtt_ns=config.base_rtt_ns,
                mtu=nominal_size(config.pmtu),
            )
        )
    raise UsageError(f"no congestion control named {config.cc!r}")
