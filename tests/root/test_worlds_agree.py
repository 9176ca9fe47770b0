"""Two worlds, one truth: the same scenario in both, shortened, and what they must agree on.

Verdict, set of retired EVs, goodput and trims (docs/fidelity.md says how close and why).  All below
two thirds of what two cores carry live.  A machine that was late proves nothing: such a run is
repeated, and left out, saying so, if the machine never keeps time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.root.inside import INVALID
from tests.support.cli_run import run

pytestmark = pytest.mark.root

TRIES = 3
GOODPUT_WITHIN = 0.10
TRIMS_FACTOR = 2


@dataclass(frozen=True)
class Case:
    """A scenario of the catalog, with what makes it short."""

    scenario: str
    settings: Mapping[str, str] = field(default_factory=dict)
    trims: bool = False

    @property
    def words(self) -> list[str]:
        return [
            word for key, value in self.settings.items() for word in ("--set", f"{key}={value}")
        ]


SLOW_LAB = "{planes: 4, t0: 2, t1: 4, hosts_per_t0: 4, rate: 5mbit, delay: 5ms, pmtu: 4096}"
CASES = (
    Case("p2p", {"workload.bytes": "16MiB"}),
    Case(
        "link-flap",
        {
            "workload.bytes": "24MiB",
            "timeline.0.at": "1500ms",
            "timeline.0.flaps": "2",
            "windows.settle": "1s",
            "windows.warm_up": "300ms",
        },
    ),
    Case(
        "t0-optic",
        {
            "workload.bytes": "1MiB",
            "workload.steps": "8",
            "timeline.0.at": "1500ms",
            "timeline.0.flaps": "1",
            "transport.hold_down": "200ms",
            "windows.settle": "1s",
            "windows.warm_up": "300ms",
        },
    ),
    Case("incast-trim", {"topology.rate": "5mbit", "workload.bytes": "1MiB"}, trims=True),
    Case(
        "t1-reboot",
        {
            "topology": SLOW_LAB,
            "workload.hosts": "[h0, h4, h1, h5]",
            "workload.bytes": "12MiB",
            "timeline.0.at": "1500ms",
            "timeline.0.dark": "500ms",
            "timeline.0.down": "800ms",
            "windows.settle": "1s",
            "windows.warm_up": "300ms",
        },
    ),
)


@pytest.mark.parametrize("case", CASES, ids=[case.scenario for case in CASES])
def test_both_worlds_say_the_same(case: Case, tmp_path: Path) -> None:
    virtual = run(case.scenario, tmp_path / "virtual", *case.words)
    assert virtual.code == 0, virtual.out + virtual.err
    live = _live(case, tmp_path)
    _compare(case, virtual.result, live)


def _live(case: Case, tmp_path: Path) -> dict[str, Any]:
    reasons: list[str] = []
    for attempt in range(TRIES):
        done = run(case.scenario, tmp_path / f"live{attempt}", *case.words, world="live")
        if done.code != INVALID:
            assert done.code in (0, 1), done.out + done.err
            return done.result
        reasons = done.result["fidelity"]["reasons"]
    pytest.skip(f"this machine did not keep time in {TRIES} runs: {'; '.join(reasons)}")


def _compare(case: Case, virtual: dict[str, Any], live: dict[str, Any]) -> None:
    assert live["verdict"] == virtual["verdict"], live["expectations"]
    ours, theirs = virtual["metrics"], live["metrics"]
    assert theirs["ev.retired"] == ours["ev.retired"]
    assert abs(theirs["goodput"] / ours["goodput"] - 1) <= GOODPUT_WITHIN
    assert virtual["ledger"]["unexplained"] == live["ledger"]["unexplained"] == 0
    if case.trims:
        ratio = theirs["ledger.trimmed"] / ours["ledger.trimmed"]
        assert 1 / TRIMS_FACTOR <= ratio <= TRIMS_FACTOR
    else:
        assert ours["ledger.trimmed"] == theirs["ledger.trimmed"] == 0
