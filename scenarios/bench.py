"""`make bench`: how fast, always as a ratio of two things measured in this run on this machine.

Names and aims are those of design section 13; what cannot be measured here is null, never
remembered.  The measuring itself lives beside what is measured: `switches.engine.bench`,
`hosts.bench`, `worlds.live.bench`; this module runs them, and whole scenarios for the rest.
"""

import csv
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from hosts.bench import endpoint_vs_scapy, qps_ratios
from scenarios import derive, load
from switches.engine import bench as engine_bench
from topologies.thresholds import LINKS_ONE_WAY
from worlds.live import bench as live_bench

SCENARIO = "p2p"
"""One write of 64 MiB over all planes of `lab`, in both worlds."""

VERDICTS = ("FAIL", "INVALID", "ERROR")

Numbers = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Line:
    """One measure: its name, what it divides by what, the aim, and how to take it."""

    name: str
    what: str
    aim: str
    measure: Callable[[], Numbers]


def main(path: Path) -> int:
    """Measures everything, prints a table, writes the numbers to `path`; 0."""
    out = Console()
    found: dict[str, Numbers | None] = {}
    with tempfile.TemporaryDirectory() as folder:
        for line in _lines(Path(folder)):
            found[line.name], why = _try(line.measure)
            out.print(f"{line.name:<18} {why or _text(found[line.name])}", markup=False)
            out.print(f"{'':<18} {line.what}; to reach: {line.aim}", style="dim", markup=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    out.print(f"numbers: {path}", markup=False)
    return 0


def _try(measure: Callable[[], Numbers]) -> tuple[Numbers | None, str | None]:
    """The numbers, or why there are none here."""
    try:
        return measure(), None
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        return None, f"not measured: {error}"


def _text(numbers: Numbers | None) -> str:
    ratios = {k: v for k, v in (numbers or {}).items() if k.startswith("ratio")}
    return ", ".join(
        f"{v:.3g} {k.removeprefix('ratio').strip('_ ')}".strip() for k, v in ratios.items()
    )


def _lines(folder: Path) -> list[Line]:
    runs = _Runs(folder)
    return [
        Line("engine_vs_c", "engine / C forwarder, packets per CPU-second", "0.7", _engine),
        Line("engine_vs_bmv2", "engine / BMv2, packets per CPU-second", "6", _bmv2),
        Line("endpoint_vs_scapy", "endpoint / scapy, packets per CPU-second; cost, n QPs / 1",
             "20; 1.2", _endpoint),
        Line("start_vs_mininet", "Mininet's build time / ours to the first byte", "2", _start),
        Line("goodput_share", "goodput / port rates less headers", "0.96 live, 0.99 virtual",
             runs.goodput_share),
        Line("virtual_vs_live", "packet-hops a second, virtual / live", "1", runs.virtual_vs_live),
    ]  # fmt: skip


def _engine() -> Numbers:
    found = engine_bench.engine_vs_c()
    return {f"ratio_{c.frame_bytes}B": c.ratio for c in found} | {
        f"{c.frame_bytes}B": asdict(c) for c in found
    }


def _bmv2() -> Numbers:
    found = engine_bench.engine_vs_bmv2()
    if found is None:
        raise RuntimeError("BMv2 is not installed (simple_switch is not on the PATH)")
    return {f"ratio_{c.frame_bytes}B": c.ratio for c in found} | {
        f"{c.frame_bytes}B": asdict(c) for c in found
    }


def _endpoint() -> Numbers:
    """And, as `ratio_64_qps` and so on, the cost of a packet among many QPs over that with one."""
    found = endpoint_vs_scapy(time.process_time)
    many = qps_ratios(time.process_time)
    return (
        {f"ratio_{size}B": cost.ratio for size, cost in found.items()}
        | {f"ratio_{qps}_qps": ratio for qps, ratio in many.items()}
        | {f"{size}B": cost.as_dict() for size, cost in found.items()}
    )


def _start() -> Numbers:
    return live_bench.start_vs_mininet()


class _Runs:
    """The same scenario once in each world, run as a user would, and what its folders say."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._done: dict[str, Path] = {}

    def goodput_share(self) -> Numbers:
        return {f"ratio_{world}": self._share(world) for world in ("live", "virtual")}

    def virtual_vs_live(self) -> Numbers:
        """Both worlds carry the same frames over the same hops, so hops a second go as 1 / time."""
        hops = {world: self._hops_per_s(world) for world in ("live", "virtual")}
        return {"ratio": hops["virtual"] / hops["live"]} | {
            f"{world}_hops_per_s": rate for world, rate in hops.items()
        }

    def _run(self, world: str) -> Path:
        if world not in self._done:
            out = self._folder / world
            command = [sys.executable, "-m", "scenarios", "run", SCENARIO]
            done = subprocess.run(
                [*command, "--world", world, "--out", str(out)],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.returncode != 0:
                said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
                what = next((x for x in said if x.split()[0] in VERDICTS), said[-1])
                raise RuntimeError(f"the run of {what}")
            self._done[world] = out
        return self._done[world]

    def _share(self, world: str) -> float:
        """Goodput between the first and the last RTT, over the ceiling."""
        folder = self._run(world)
        loaded = load.load(SCENARIO)
        numbers = derive.numbers(loaded.fabric, loaded.scenario)
        skip = -(-numbers.base_rtt_ns // numbers.bin_ns) + 1
        with (folder / "goodput.csv").open(encoding="utf-8", newline="") as file:
            rates = [float(row["total_bps"]) for row in csv.DictReader(file)][skip : -skip - 1]
        return sum(rates) / len(rates) / float(numbers.ceiling_bps)

    def _hops_per_s(self, world: str) -> float:
        folder = self._run(world)
        result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        machine = json.loads((folder / "machine.json").read_text(encoding="utf-8"))
        frames: int = result["ledger"]["books"]["frames"]["sent"]
        return frames * LINKS_ONE_WAY / float(machine["wall_s"])
