"""Whatever the wires do short of cutting everything, bytes arrive once, in place, and all calms
down."""

from typing import Any

from hypothesis import given, note, settings
from hypothesis import strategies as st

from hosts.mrc.ev import EvState
from hosts.mrc.message import CompletionKind, Status
from tests.virtual.pair import BASE_RTT_NS, MS, US, Pair

SIZES = st.one_of(st.integers(0, 20), st.integers(4090, 4100), st.integers(0, 300_000))
MESSAGES = st.lists(st.tuples(SIZES, st.booleans(), st.booleans()), min_size=1, max_size=12)
"""(bytes, with immediate, from b to a)"""

WIRES = st.fixed_dictionaries(
    {
        "loss": st.sampled_from([0.0, 0.0, 0.01, 0.1]),
        "duplicate": st.sampled_from([0.0, 0.0, 0.05]),
        "reorder": st.sampled_from([0.0, 0.0, 0.1]),
        "corrupt": st.sampled_from([0.0, 0.0, 0.02]),
        "delay_ns": st.integers(0, 8 * US),
    }
)


@settings(max_examples=80)
@given(
    seed=st.integers(0, 1 << 32),
    planes=st.integers(1, 4),
    evs=st.integers(1, 4),
    backup=st.integers(0, 2),
    wires=st.lists(WIRES, min_size=8, max_size=8),
    messages=MESSAGES,
    mpr_units=st.sampled_from([1, 8]),
    max_wimm=st.sampled_from([1, 4, 32]),
    cc=st.sampled_from(["nscc", "fixed"]),
    policy=st.sampled_from(["mrc", "mrc", "oblivious", "bitmap", "reps"]),
    first_psn=st.sampled_from([0, 0xFFFFF8, 0x7FFFF8, 12345]),
)
def test_bytes_arrive_once_and_everything_calms_down(
    seed: int,
    planes: int,
    evs: int,
    backup: int,
    wires: list[dict[str, Any]],
    messages: list[tuple[int, bool, bool]],
    mpr_units: int,
    max_wimm: int,
    cc: str,
    policy: str,
    first_psn: int,
) -> None:
    note(f"seed {seed}")
    pair = Pair(
        planes=planes, evs_per_plane=evs, backup_per_plane=backup, seed=seed, record=False,
        psn=(first_psn, first_psn ^ 0xFF), mpr_units=mpr_units, max_wimm=max_wimm, cc=cc,
        path_policy=policy, exp_cnt=25,
    )  # fmt: skip
    for plane in range(planes):
        for host in range(2):
            pair.impair(host, plane, reorder_delay_ns=5 * US, **wires[2 * plane + host])
    moved = [
        pair.write(size, imm=i if imm else None, wr_id=i, reverse=reverse)
        for i, (size, imm, reverse) in enumerate(messages)
    ]
    pair.run_to_end(len(messages), within_ns=5000 * MS)
    for source, target in moved:
        assert source.buffer == target.buffer
    for end, reverse in ((pair.b, False), (pair.a, True)):
        wanted = [i for i, (_, imm, back) in enumerate(messages) if imm and back is reverse]
        assert [c.imm for c in end.done(CompletionKind.RECV_IMM)] == wanted
        size = sum(size for size, _, back in messages if back is reverse)
        assert end.endpoint.delivered_bytes == size
    for end in pair.hosts:
        assert all(c.status is Status.SUCCESS for c in end.done())
        assert [c.wr_id for c in end.done()] == sorted(c.wr_id for c in end.done())
    _calm(pair)


def _calm(pair: Pair) -> None:
    """With the wires well again: nothing in flight, every EV GOOD, and silence."""
    for link in pair.loop.links.values():
        link.impairment = type(link.impairment)(delay_ns=US)
    pair.run(400 * BASE_RTT_NS)
    for qp in (pair.qa, pair.qb):
        assert not qp.requester.outstanding.by_seq
        assert -1024 <= qp.requester.cc.inflight_bytes <= 1024
        assert {ev.state for ev in qp.evs.evs} <= {EvState.GOOD, EvState.SKIP}
        assert not any(ev.resting for ev in qp.evs.evs)
    assert [end.endpoint.next_timeout() for end in pair.hosts] == [None, None]
