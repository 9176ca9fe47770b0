"""Base RTT only ever falls, so nothing but a full packet on an idle path may lower it."""

from hosts.mrc.cc.nscc import Nscc
from tests.virtual.test_world import Run
from topologies.thresholds import data_frame_bytes

SHORT_TAILS = """\
name: short-tails
claim: messages that end in a short packet leave the window of full ones alone
topology: tiny
transport: {kind: mrc, routing: srv6, evs_per_plane: 2}
workload: {kind: write, src: h0, dst: h1, bytes: 1MiB, message_bytes: 9000B}
expect: [job.completed]
"""


def test_a_short_packet_does_not_lower_the_base_rtt() -> None:
    """A named bug: short last packets took two thirds of the window, and goodput with it."""
    run = Run(SHORT_TAILS)
    spec = run.loaded.fabric.spec
    frame_ns = data_frame_bytes(spec) * 8 * 10**9 // spec.rate_bps
    endpoint = run.world.host("h0").endpoint
    cc = endpoint.qps[0].requester.cc
    assert isinstance(cc, Nscc)
    assert cc.base_rtt < endpoint.config.base_rtt_ns, "no sample came"
    assert cc.base_rtt >= frame_ns + 4 * spec.delay_ns
