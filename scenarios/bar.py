"""`mrc-testbed bar`: flow completion times beside those of uet-htsim, the simulator of the field.

The scenarios are `bar-*.yaml` of the catalog, the simulator's figures one run each (facts beside
SIMULATOR_US).  A time is compared as a multiple of what the bottleneck needs at least for the
frames of that side, since ours carry longer headers.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from scenarios import derive, load, schema, verdict, worlds_choice
from scenarios.execute import P4_BUILD
from scenarios.load import Loaded
from scenarios.runner import Runner
from scenarios.worlds_choice import Choice
from topologies.thresholds import DATA_HEADER_BYTES
from worlds.api import WorldSettings

SEED = 13
"""The simulator's."""

SIMULATOR_FRAME_BYTES = 4160
"""4096 B of payload and 64 of headers, the last packet of a flow padded."""

PERMUTATION = "bar-permutation"
DEAD_UPLINK = "bar-dead-uplink"
SIMULATOR_US = {PERMUTATION: 193.7, "bar-incast-8": 1325.0, "bar-incast-32": 5332.0}
"""Slowest flow: uet-htsim at 40ccb05 with NSCC, trimming and its default load balancing; for the
incasts without ECN at the last hop."""

TO_REACH = {PERMUTATION: 1.05, "bar-incast-8": 1.03, "bar-incast-32": 1.03, DEAD_UPLINK: 1.25}
"""Share of the simulator's figure; for the dead uplink, of our own without the fault."""


@dataclass(frozen=True, slots=True)
class Flows:
    """One run: completion times in us, and what it cost here."""

    seed: int
    fastest_us: float
    median_us: float
    slowest_us: float
    retransmitted: int
    trimmed: int
    timeouts: int
    frames: int
    wall_s: float
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Line:
    """One scenario, its runs, and the comparison of the run in the middle."""

    name: str
    runs: tuple[Flows, ...]
    ideal_us: float
    simulator_ideal_us: float | None
    ratio: float

    @property
    def slowest_us(self) -> float:
        return median(run.slowest_us for run in self.runs)

    @property
    def ok(self) -> bool:
        return self.ratio <= TO_REACH[self.name]


def main(path: Path, seeds: int) -> int:
    """Runs all, prints the table, writes the numbers to `path`; 0 if every aim is reached, else
    1."""
    out = Console()
    lines = compare(seeds, measure, lambda text: out.print(text, style="dim"))
    out.print(_table(lines))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([_as_json(line) for line in lines], indent=2) + "\n")
    out.print(f"numbers: {path}", markup=False)
    return 0 if all(line.ok for line in lines) else 1


def compare(
    seeds: int, run: Callable[[Loaded, int], Flows], report: Callable[[str], None]
) -> list[Line]:
    """`run` measures a scenario with a seed."""
    lines: list[Line] = []
    for name in TO_REACH:
        loaded = load.load(name)
        runs = []
        for seed in range(SEED, SEED + seeds):
            report(f"running {name}, seed {seed}")
            runs.append(run(loaded, seed))
        lines.append(_line(name, loaded, tuple(runs), lines))
    return lines


def _line(name: str, loaded: Loaded, runs: tuple[Flows, ...], before: list[Line]) -> Line:
    slowest = median(run.slowest_us for run in runs)
    ideal = ideal_us(loaded, None)
    if name in SIMULATOR_US:
        theirs = ideal_us(loaded, SIMULATOR_FRAME_BYTES)
        return Line(name, runs, ideal, theirs, slowest / ideal / (SIMULATOR_US[name] / theirs))
    healthy = next(line for line in before if line.name == PERMUTATION)
    return Line(name, runs, ideal, None, slowest / healthy.slowest_us)


def ideal_us(loaded: Loaded, frame_bytes: int | None) -> float:
    """The time in which the bottleneck passes all frames: of that size, or ours if None."""
    workload, spec = loaded.scenario.workload, loaded.fabric.spec
    assert isinstance(workload, schema.Incast | schema.Permutation)
    flows = len(workload.sources) if isinstance(workload, schema.Incast) else 1
    packets = -(-workload.bytes // spec.pmtu)
    on_wire = workload.bytes + packets * DATA_HEADER_BYTES
    if frame_bytes is not None:
        on_wire = packets * frame_bytes
    return flows * on_wire * 8e6 / spec.rate_bps


def measure(loaded: Loaded, seed: int) -> Flows:
    """One run in the virtual world.  Raises RuntimeError if it was not a good one."""
    settings = WorldSettings(
        seed=seed,
        program_json=P4_BUILD / "mrc.json",
        p4info=P4_BUILD / "mrc.p4info.txtpb",
        run_dir=None,
        switch=derive.switch_settings(loaded.scenario),
    )
    wall, cpu = time.monotonic(), time.process_time()
    world = worlds_choice.make(Choice("virtual", "exact"), loaded.fabric, settings)
    try:
        runner = Runner(loaded, world, seed, lambda progress: None)
        runner.run()
    finally:
        world.close()
    wall, cpu = time.monotonic() - wall, time.process_time() - cpu
    judged = verdict.judge(loaded, runner.derived, runner.ends, runner.observed)
    found = judged.metrics
    if judged.problems or not found["job.completed"] or found["job.bytes_corrupt"]:
        raise RuntimeError(f"{loaded.scenario.name}, seed {seed}: {judged.problems or found}")
    return Flows(
        seed=seed,
        fastest_us=found["flow.fastest"] / 1000,
        median_us=found["flow.median"] / 1000,
        slowest_us=found["flow.slowest"] / 1000,
        retransmitted=found["ledger.retransmitted"],
        trimmed=found["ledger.trimmed"],
        timeouts=found["ledger.timeouts"],
        frames=found["ledger.sent"],
        wall_s=round(wall, 2),
        cpu_s=round(cpu, 2),
    )


def _table(lines: list[Line]) -> Table:
    table = Table(box=None, title="the slowest flow, in us and in multiples of the ideal")
    heads = ("scenario", "here", "x ideal", "simulator", "x ideal", "ratio", "aim", "CPU")
    for head in heads:
        table.add_column(head, justify="left" if head == "scenario" else "right", no_wrap=True)
    for line in lines:
        theirs, their_ideal = SIMULATOR_US.get(line.name), line.simulator_ideal_us
        table.add_row(
            line.name,
            f"{line.slowest_us:.1f}",
            f"{line.slowest_us / line.ideal_us:.3f}",
            "" if theirs is None else f"{theirs:.1f}",
            "" if theirs is None or their_ideal is None else f"{theirs / their_ideal:.3f}",
            f"{line.ratio:.3f}",
            f"{TO_REACH[line.name]:.2f}{'' if line.ok else ' MISSED'}",
            f"{median(run.cpu_s for run in line.runs):.1f} s",
        )
    return table


def _as_json(line: Line) -> dict[str, Any]:
    names = Flows.__dataclass_fields__
    return {
        "scenario": line.name,
        "ratio": line.ratio,
        "to_reach": TO_REACH[line.name],
        "ideal_us": line.ideal_us,
        "simulator_us": SIMULATOR_US.get(line.name),
        "runs": [{name: getattr(run, name) for name in names} for run in line.runs],
    }
