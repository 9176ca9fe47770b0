"""Base RTT only ever falls, so nothing but a full packet on an idle path may lower it."""

from hosts.mrc.cc.nscc import Nscc
from tests.virtual.test_world import Run
from topologies.thresholds import data_frame_bytes

SHORT_TAILS = """\
name: short-tails
claim: messages that end in a short packet leave the window of full ones alone
topology: tiny
transport: {kind: mrc, routing: srv6, evs_per_plane: 2}
workload: {kind: ring_allreduce, ranks: [h0, h1, h2, h3], bytes: 1000000B, steps: 2}
expect: [job.completed]
"""


def test_a_short_packet_does_not_lower_the_base_rtt() -> None:
    """A named bug: short last packets took two thirds of the window, and goodput with it."""
    run = Run(SHORT_TAILS)
    spec = run.loaded.fabric.spec
    frame_ns = data_frame_bytes(spec) * 8 * 10**9 // spec.rate_bps
    endpoint = run.world.host("h0").endpoint
    windows = [qp.requester.cc for qp in endpoint.qps]
    found = [cc.base_rtt for cc in windows if isinstance(cc, Nscc)]
    assert min(found) < endpoint.config.base_rtt_ns, "no sample came"
    assert min(found) >= frame_ns + 4 * spec.delay_ns
