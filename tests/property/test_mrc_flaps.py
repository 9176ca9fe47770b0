"""Ports that flap at random moments under load, with some loss besides: all bytes arrive."""

from functools import partial

from hypothesis import given, note, settings
from hypothesis import strategies as st

from hosts.mrc.message import CompletionKind, Status
from tests.virtual.pair import MS, US, Pair

FLAP = st.tuples(
    st.integers(0, 400), st.integers(0, 1), st.integers(0, 3), st.integers(1, 150)
)  # (start in us, host, port, length in us)


@settings(max_examples=40)
@given(
    flaps=st.lists(FLAP, max_size=12),
    seed=st.integers(0, 1 << 32),
    loss=st.sampled_from([0.0, 0.0, 0.01]),
    both_ends=st.booleans(),
)
def test_random_port_flaps_under_load(
    flaps: list[tuple[int, int, int, int]], seed: int, loss: float, both_ends: bool
) -> None:
    note(f"seed {seed}")
    pair = Pair(planes=4, evs_per_plane=2, seed=seed, record=False, exp_cnt=10)
    down: dict[tuple[int, int], int] = {}

    def set_port(host: int, port: int, up: bool) -> None:
        """A port is up when no flap holds it down."""
        key = host, port
        before = down.get(key, 0)
        down[key] = after = before + (-1 if up else 1)
        if (before == 0) == (after == 0):
            return
        wire_up = all(down.get((h, port), 0) == 0 for h in range(2))
        for h in range(2):
            pair.loop.links[h, port].up = wire_up
        for h in range(2) if both_ends else (host,):
            state = wire_up if both_ends else after == 0
            pair.hosts[h].endpoint.port_changed(port, state, pair.loop.now_ns)
            pair.loop.wake(h)

    for start, host, port, length in flaps:
        pair.loop.call_at(start * US, partial(set_port, host, port, False))
        pair.loop.call_at((start + length) * US, partial(set_port, host, port, True))
    for sender in range(2):
        for plane in range(4):
            pair.impair(sender, plane, loss=loss)
    moved = [pair.write(400_000, imm=i, wr_id=i) for i in range(8)]
    moved += [pair.write(400_000, imm=i, wr_id=100 + i, reverse=True) for i in range(8)]

    def waiting() -> bool:
        return len(pair.a.done()) + len(pair.b.done()) < 16

    assert pair.loop.run_while(waiting, 3000 * MS)
    for qp in (pair.qa, pair.qb):
        assert qp.state.value == "rts" or qp.reason in ("no_plane", "retry_exceeded")
    ends = [c.status for end in pair.hosts for c in end.done()]
    if all(status is Status.SUCCESS for status in ends):
        assert all(source.buffer == target.buffer for source, target in moved)
        for end in pair.hosts:
            assert [c.imm for c in end.done(CompletionKind.RECV_IMM)] == list(range(8))
            assert end.endpoint.delivered_bytes == 3_200_000
    else:
        assert any(qp.state.value == "error" for qp in (pair.qa, pair.qb))
    if not loss:
        for end in pair.hosts:
            retired = {e["plane"] for e in end.of("ev_state") if e["to"] == "assumed_bad"}
            assert retired <= {port for _, _, port, _ in flaps}
