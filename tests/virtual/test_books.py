"""By flow, EV and link: the books of a run with losses balance, and no count in them is spare."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from hosts.messages import ARRIVALS
from scenarios import books
from scenarios.ledger import WHOLE
from scenarios.observe import Observed
from scenarios.runner import Runner
from switches.api import UpdateType
from switches.entries import fault
from tests.virtual.test_ledger_loop import CROWD
from tests.virtual.test_world import MS, RING, Run
from topologies.model import PortRef
from worlds.virtual.world import VirtualWorld

LINK, FLOW, EV, BY_EV = "link ", "flow ", "EV ", "data "


def gray_ring() -> Run:
    """One switch loses packets, one link goes for a while."""

    def before(world: VirtualWorld) -> None:
        def at(ms: int, what: Callable[[], object]) -> None:
            world.loop.call_at(ms * MS, what)  # type: ignore[arg-type]

        lossy = [fault(per_million=30_000)]
        at(300, lambda: world.write_switch("p0t1n0", UpdateType.INSERT, lossy))
        at(400, lambda: world.set_link(PortRef("p0t0n0", 2), False))
        at(600, lambda: world.set_link(PortRef("p0t0n0", 2), True))

    return Run(RING, before=before)


class Closed:
    """A run that is over, and its books with one count changed or none."""

    def __init__(self, run: Run) -> None:
        self.observed = run.observed
        self.fabric = run.world.fabric
        self.ends = Runner(run.loaded, run.world, 1, lambda _: None).ends

    def red(self, observed: Observed) -> list[str]:
        return [b.name for b in books.close(self.fabric, self.ends, observed) if b.unexplained]


@pytest.fixture(scope="module")
def closed() -> Closed:
    return Closed(gray_ring())


def crowd() -> Run:
    """Seven to one: most of the first packets are cut."""
    return Run(CROWD)


def without_ev_counts(observed: Observed) -> Iterator[tuple[str, Observed]]:
    """With one count of one EV of one QP at zero."""
    for host, stop in observed.stopped.items():
        for q, qp in enumerate(stop["qps"]):
            for i, (ev, count) in enumerate(qp["sent"]):
                assert count
                yield f"sent {host} {ev:#x}", _changed(observed, host, q, "sent", None, i)
            for name in ARRIVALS:
                for i, (ev, _) in enumerate(qp["received"][name]):
                    less = _changed(observed, host, q, "received", name, i)
                    yield f"{name} {host} {ev:#x}", less


def _changed(
    observed: Observed, host: str, qp: int, kind: str, name: str | None, index: int
) -> Observed:
    stopped = copy.deepcopy(observed.stopped)
    rows = stopped[host]["qps"][qp][kind]
    (rows if name is None else rows[name])[index][1] = 0
    return replace(observed, stopped=stopped)


def without_port_counts(observed: Observed) -> Iterator[tuple[str, Observed]]:
    """With one count of one port, of a host or a switch, at zero."""
    for host, stop in observed.stopped.items():
        for port, counts in enumerate(stop["ports"]):
            for which, count in enumerate(counts):
                if count:
                    stopped = copy.deepcopy(observed.stopped)
                    stopped[host]["ports"][port][which] = 0
                    yield f"{host} {port} {which}", replace(observed, stopped=stopped)
    for switch, stats in observed.switch_stats.items():
        for i, port in enumerate(stats["ports"]):
            for name in ("rx_packets", "tx_packets"):
                if getattr(port, name):
                    ports = list(stats["ports"])
                    ports[i] = replace(port, **{name: 0})
                    changed: dict[str, Any] = {**stats, "ports": ports}
                    everything = {**observed.switch_stats, switch: changed}
                    yield f"{switch} {i} {name}", replace(observed, switch_stats=everything)


def test_every_flow_ev_and_link_has_a_book_and_it_balances(closed: Closed) -> None:
    found = [book.name for book in books.close(closed.fabric, closed.ends, closed.observed)]
    assert set(WHOLE) <= set(found)
    assert sum(name.startswith(LINK) for name in found) == len(closed.fabric.links)
    assert sum(name.startswith(FLOW) for name in found) == len(closed.ends)
    evs = sum(len(end.paths) for end in closed.ends)
    assert sum(name.startswith(EV) for name in found) == evs
    assert closed.red(closed.observed) == []


def test_what_was_lost_is_lost_on_evs_that_pass_the_faults(closed: Closed) -> None:
    """And on no others, though many more were in use."""
    lost = {
        book.name
        for book in books.close(closed.fabric, closed.ends, closed.observed)
        if book.name.startswith(EV) and book.explained[books.LOST]
    }
    assert lost
    assert all(int(name.partition(":")[2], 16) & 7 == 0 for name in lost), "all faults in plane 0"


def test_any_count_by_ev_left_out_turns_a_run_red(closed: Closed) -> None:
    kinds = set()
    for what, less in without_ev_counts(closed.observed):
        kinds.add(what.split()[0])
        red = closed.red(less)
        assert any(name.startswith(BY_EV) for name in red), what
    assert kinds >= {"sent", "delivered"}


def test_any_count_of_trimmed_packets_left_out_turns_a_run_red() -> None:
    closed = Closed(crowd())
    assert closed.red(closed.observed) == []
    trims = [less for what, less in without_ev_counts(closed.observed) if "trimmed" in what]
    assert trims
    assert all(closed.red(less) for less in trims)


def test_an_ev_blamed_for_anothers_loss_turns_a_run_red(closed: Closed) -> None:
    """Counts that only changed places leave all sums right, and yet no EV's book."""
    observed = closed.observed
    for host, stop in observed.stopped.items():
        for q, qp in enumerate(stop["qps"]):
            rows = [i for i, (ev, _) in enumerate(qp["received"]["delivered"]) if ev & 7]
            if len(rows) < 2:
                continue
            stopped = copy.deepcopy(observed.stopped)
            delivered = stopped[host]["qps"][q]["received"]["delivered"]
            delivered[rows[0]][1] += 1
            delivered[rows[1]][1] -= 1
            red = closed.red(replace(observed, stopped=stopped))
            assert len([name for name in red if name.startswith(EV)]) == 2
            return
    pytest.fail("no QP uses two EVs outside plane 0")


def test_any_port_count_left_out_turns_a_run_red(closed: Closed) -> None:
    for what, less in without_port_counts(closed.observed):
        assert any(name.startswith(LINK) for name in closed.red(less)), what
