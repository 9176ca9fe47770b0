"""A small scenario as text, for tests that change one thing in it."""

TEXT = """\
name: small
claim: nothing in particular
topology: {planes: 2, t0: 2, t1: 2, hosts_per_t0: 2, rate: 10mbit, delay: 200us, pmtu: 4096}
transport: {kind: mrc, routing: srv6, evs_per_plane: 2}
workload: {kind: ring_allreduce, ranks: [h0, h1, h2], bytes: 3MiB, steps: 4}
timeline:
  - {at: 2s, fault: optic, switch: p0t0n0, links: [h0, h1], flaps: 2, down: 300ms, stagger: 50ms}
expect:
  - job.completed
  - goodput.during(optic) >= 0.3 * goodput.before(optic)
  - ev.retired == ev.affected
windows: {settle: 500ms}
"""


def changed(old: str, new: str) -> str:
    assert TEXT.count(old) >= 1, old
    return TEXT.replace(old, new, 1)
