"""The fuzzer sees what it watches for: each rule is broken once, on purpose."""

from random import Random
from typing import Any

import pytest

from hosts.mrc.message import Completion, CompletionKind, Status, WriteRequest
from scenarios import fuzz, fuzz_check
from scenarios.fuzz_case import Case
from scenarios.fuzz_watch import GROWTH_MAX, GROWTH_MAX_PER_EV, Reach, WatchedHost
from scenarios.metrics import Series
from scenarios.observe import Observed
from worlds.api import Event

CONFIG: dict[str, Any] = {
    "host": "h0", "seed": 1, "bin_ns": 1_000_000, "gid": "fd" + 30 * "0", "timeout": 14,
    "ports": [{"mac": "02" + 10 * "0", "gateway_mac": "02" + 8 * "0" + "01", "rate_bps": 10**10}],
    "base_rtt_ns": 10_000,
}  # fmt: skip
QPN = 3


def host() -> WatchedHost:
    """With one QP, numbered 3, to h1, and three writes posted."""
    made = WatchedHost(CONFIG, Random(1), Reach())
    message = {"op": "qp_create", "peer": "h1", "evs": [[0xC000, 0, None]], "backup": []}
    qpn = made.control(message, 0)["qpn"]
    assert qpn == QPN
    remote = {"gid": "fd" + 28 * "0" + "01", "qpn": 3, "psn": 0, "mpr": 8, "max_wimm": 8}
    made.control({"op": "qp_connect", "qpn": qpn, "remote": remote}, 0)
    local = made.endpoint.register_memory(64)
    for wr_id in range(3):
        made.endpoint.post_write(qpn, WriteRequest(wr_id, local, 0, 64, 0x1000, 7))
    made.size_at_start = 10**6
    return made


def completed(*done: tuple[int, CompletionKind, Status]) -> list[str]:
    made = host()
    for wr_id, kind, status in done:
        made.endpoint.services.completions.append(Completion(QPN, wr_id, kind, status, 1, 64, 0))
    made.endpoint.poll_completions()
    return list(made.broken())


SEND, IMM = CompletionKind.SEND, CompletionKind.RECV_IMM
OK, FLUSHED = Status.SUCCESS, Status.FLUSHED


def test_completions_in_order_are_no_finding() -> None:
    assert completed((0, SEND, OK), (0, IMM, OK), (1, SEND, OK), (1, IMM, OK)) == []
    assert completed((0, SEND, OK), (1, SEND, FLUSHED), (2, SEND, FLUSHED)) == []


@pytest.mark.parametrize(
    ("done", "finding"),
    [
        ([(1, SEND, OK)], "write 1 completed, 0 was due"),
        ([(0, SEND, OK), (0, SEND, OK)], "write 0 completed, 1 was due"),
        ([(n, SEND, OK) for n in (0, 1, 2, 3)], "write 3 completed, None was due"),
        ([(0, SEND, FLUSHED), (1, SEND, OK)], "write 1 succeeded after one failed"),
        ([(1, IMM, OK)], "immediate 1 completed, 0 was due"),
    ],
)
def test_completions_out_of_order_are_found(
    done: list[tuple[int, CompletionKind, Status]], finding: str
) -> None:
    assert completed(*done)[0] == f"QP {QPN}: {finding}"


def test_writes_that_an_error_does_not_flush_are_found() -> None:
    made = host()
    made.endpoint.qp(QPN).requester.fail(Status.RETRY_EXCEEDED, "retry_exceeded", 0)
    assert list(made.broken()) == [f"QP {QPN} is in error and 3 of its writes never completed"]
    made.endpoint.poll_completions()
    assert list(made.broken()) == []


def test_bytes_placed_where_no_write_was_posted_to_are_found() -> None:
    reach = Reach()
    made = WatchedHost(CONFIG, Random(1), reach)
    region = made.endpoint.register_memory(4096)
    reach.allow(region.rkey, region.va + 1024, 1024)
    place = made.endpoint.services.memory.place
    assert place(region.rkey, region.va + 1500, memoryview(bytes(548)), 0) is None
    assert place(region.rkey, region.va + 4000, memoryview(bytes(200)), 0) is not None
    assert list(made.broken()) == []
    assert place(region.rkey, region.va + 1500, memoryview(bytes(549)), 0) is None
    assert place(region.rkey, region.va, memoryview(bytes(1)), 0) is None
    assert [finding.split(" that ")[1] for finding in made.broken()] == ["no write asked for"] * 2


def test_what_is_kept_of_every_packet_is_found() -> None:
    made = host()
    made.start_job(0)
    assert list(made.broken()) == []
    made.endpoint.services.completions += [
        Completion(QPN, n, SEND, OK, None, 64, 0) for n in range(GROWTH_MAX + GROWTH_MAX_PER_EV + 1)
    ]
    (finding,) = made.broken()
    assert "more items held after the job than before it" in finding


def seen(*steps: tuple[str, str], end: str) -> Observed:
    observed = Observed(Series(1), 0)
    for before, after in steps:
        fields = {"qpn": QPN, "ev": 1, "from": before, "to": after}
        observed.add_event(Event(0, "h0", "ev_state", fields))
    qp = {"qpn": QPN, "peer": "h1", "state": "rts", "reason": "", "evs": [[1, 0, end]]}
    observed.stopped = {"h0": {"qps": [qp]}}
    return observed


BAD = "assumed_bad"


def test_an_ev_goes_by_legal_steps_and_each_from_where_it_was() -> None:
    check = fuzz_check.transitions
    assert not list(check(seen(("skip", BAD), (BAD, "good"), end="skip")))
    assert list(check(seen(("denied", BAD), end=BAD)))
    assert list(check(seen(("good", BAD), ("good", BAD), end=BAD)))
    assert list(check(seen(("good", BAD), end="good")))


def test_an_ev_that_stays_out_of_use_is_found() -> None:
    assert not list(fuzz_check.recovery(seen(end="denied")))
    assert list(fuzz_check.recovery(seen(end=BAD))) == ["stuck: h0 still avoids EV 0x1 to h1"]


STARVED = """
name: fuzz
claim: one plane of two is hardly used
topology: {planes: 2, t0: 2, t1: 2, hosts_per_t0: 2, rate: 1gbit, delay: 1us, pmtu: 1024}
transport: {evs_per_plane: 2}
workload: {kind: write, src: h0, dst: h2, bytes: 400000B}
expect: [job.bytes_corrupt == 0]
timeline: TIMELINE
max_duration: 7s
"""
DARK = "[{at: 0s, fault: plane_down, plane: 1, for: 10s}]"


@pytest.mark.parametrize(("timeline", "starves"), [("[]", True), (DARK, False)])
def test_a_plane_that_starves_is_found_unless_something_was_done_to_it(
    monkeypatch: pytest.MonkeyPatch, timeline: str, starves: bool
) -> None:
    monkeypatch.setattr(fuzz_check, "STARVED_SHARE", 1.2)
    found = fuzz.check(Case(1, STARVED.replace("TIMELINE", timeline)))
    assert any("the average plane" in finding for finding in found) == starves
