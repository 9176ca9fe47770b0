"""What a run shows: one line a second, then a table; with or without a terminal."""

import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from scenarios.observe import Progress
from topologies import units

INTERVAL_S = 1.0
_COLOURS = {"pass": "green", "fail": "red", "invalid": "yellow", "error": "yellow"}
_PLAIN_WIDTH = 200


def console(*, stderr: bool) -> Console:
    """No colours and no cutting to a width where nobody looks."""
    plain = Console(stderr=stderr, highlight=False, soft_wrap=True)
    if not plain.is_terminal:
        plain = Console(stderr=stderr, highlight=False, width=_PLAIN_WIDTH)
    return plain


class ProgressLines:
    """At most one line a second of real time; the last state is always shown."""

    def __init__(self, out: Console, clock: Any = time.monotonic) -> None:
        self._out = out
        self._clock = clock
        self._shown_at = -INTERVAL_S
        self._hidden: Progress | None = None

    def __call__(self, progress: Progress) -> None:
        now = self._clock()
        if now - self._shown_at < INTERVAL_S and progress.done_bytes < progress.total_bytes:
            self._hidden = progress
            return
        if self._hidden is None and self._shown_at > 0 and self._is_after_the_end(progress):
            return
        self._shown_at, self._hidden = now, None
        self._ended = progress.done_bytes >= progress.total_bytes
        text = Text(line(progress))
        text.highlight_regex(r"[1-9]\d* bad$", "red")
        self._out.print(text)

    _ended = False

    def _is_after_the_end(self, progress: Progress) -> bool:
        return self._ended and progress.done_bytes >= progress.total_bytes


def line(progress: Progress) -> str:
    share = 100 * progress.done_bytes / max(progress.total_bytes, 1)
    evs = progress.evs
    bad = evs["assumed_bad"] + evs["denied"]
    return (
        f"{_time(progress.t_ns)}  {share:5.1f} %  "
        f"goodput {units.show_rate(progress.goodput_bps):>11}  "
        f"EVs {evs['good']:>4} good {evs['skip']:>3} skip {bad:>3} bad"
    )


def _time(t_ns: int) -> str:
    """Seconds, or microseconds while that is what passes."""
    return f"{t_ns / 1e3:8.1f} us" if 0 < t_ns < 100_000_000 else f"{t_ns / 1e9:8.2f} s"


def findings(result: Mapping[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False)
    for name in ("", "expectation", "measured", "wanted"):
        table.add_column(name, overflow="fold", no_wrap=name == "")
    for e in result["expectations"]:
        mark = Text("ok", "green") if e["ok"] else Text("NO", "bold red")
        table.add_row(mark, Text(e["expr"]), Text(e["measured"]), Text(e["wanted"]))
    return table


def verdict(result: Mapping[str, Any]) -> Text:
    word = str(result["verdict"])
    out = Text(word.upper(), f"bold {_COLOURS[word]}")
    out.append(f"  {result['scenario']}, {result['world']} world, seed {result['seed']}", "default")
    return out


def problems(result: Mapping[str, Any]) -> list[str]:
    """Everything besides expectations that decided the verdict, each once."""
    reasons = result["fidelity"].get("reasons", [])
    hosts = [f"{host}: {text}" for host, text in result["host_errors"].items()]
    error = [result["error"]] if result["error"] else []
    return list(dict.fromkeys([*result["problems"], *hosts, *reasons, *error]))


def clock_line(fidelity: Mapping[str, Any]) -> str | None:
    """How well a live run kept time, on every run."""
    late = fidelity.get("lateness") or {}
    if not late:
        return None
    parts = [
        f"{what}s {units.show_duration(late[f'{what}_p999_ns'])} late at p99.9"
        for what in ("timer", "send")
        if f"{what}_p999_ns" in late
    ]
    if "slots_lost" in late:
        parts.append(f"{late['slots_lost']:.2%} of slots lost")
    return f"clock: {', '.join(parts)}"
