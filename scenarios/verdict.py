"""From what a run saw to pass, fail or invalid, with the numbers that say so.  Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Any

from scenarios import books as all_books
from scenarios import derive, expect, faults, flows, ledger, metrics, twin
from scenarios.load import Loaded
from scenarios.metrics import Undefined, Value
from scenarios.observe import Observed

SLOTS_LOST_SHARE_MAX = 0.02
"""A backlogged port that lost more of its slots to lateness did not run at its rate."""

ORDERED_LOSSES = ("link_down:", "power_cut:")
"""Places of interface losses that a scenario causes; all others are this machine's."""

RTO_SHARE = 8
"""p99.9 lateness may be an eighth of the RTO ..."""

LATE_PACKETS = 2
"""... or two packet times, whichever is more (design section 11)."""

SPEED_RTT_SHARE = 2
"""A window is 1.5 times the bandwidth-delay product, so round trips may be late by half a base RTT
before speed suffers.  Beyond that a speed that fell short proves nothing."""


class Verdict(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    INVALID = "invalid"
    ERROR = "error"


EXIT_CODES = {Verdict.PASS: 0, Verdict.FAIL: 1, Verdict.INVALID: 3, Verdict.ERROR: 4}
EXIT_BAD_INPUT = 2


@dataclass(frozen=True, slots=True)
class Judgement:
    verdict: Verdict
    findings: tuple[expect.Finding, ...]
    problems: tuple[str, ...]
    """Reasons to fail that no expectation names."""
    invalid: tuple[str, ...]
    """Why this machine's run proves nothing; empty if it kept time."""
    books: tuple[ledger.Book, ...]
    fidelity: Mapping[str, Any]
    metrics: Mapping[str, Any]
    host_errors: Mapping[str, str] = field(default_factory=dict)
    """What hosts said went wrong; whether that fails the run, expectations say."""


def judge(
    loaded: Loaded, derived: derive.Numbers, ends: list[flows.QpEnd], observed: Observed
) -> Judgement:
    books = all_books.close(loaded.fabric, ends, observed)
    measure = Measure(loaded, derived, ends, observed, books)
    names = expect.names_of(loaded.scenario)
    expectations = [expect.parse(text, names) for text in loaded.scenario.expect]
    findings = tuple(expect.judge(expectation, measure) for expectation in expectations)
    problems = list(observed.problems)
    if not observed.problems:
        problems += all_books.complaints(books)
    invalid = invalid_reasons(observed, loaded, derived)
    failed = [e for e, finding in zip(expectations, findings, strict=True) if not finding.ok]
    if (
        failed
        and not (problems or invalid)
        and all(expectation.is_of_speed for expectation in failed)
    ):
        invalid += _speed_in_doubt(observed, derived)
    return Judgement(
        _verdict(findings, problems, invalid, died=not observed.stopped),
        findings,
        tuple(problems),
        tuple(invalid),
        books,
        _fidelity(observed, invalid),
        _all_metrics(measure, names),
        observed.host_errors,
    )


def _verdict(
    findings: tuple[expect.Finding, ...], problems: list[str], invalid: list[str], *, died: bool
) -> Verdict:
    """A death is a failure whatever the clock did; else a machine that was late proves nothing."""
    if died:
        return Verdict.FAIL
    if invalid:
        return Verdict.INVALID
    return Verdict.PASS if not problems and all(f.ok for f in findings) else Verdict.FAIL


def invalid_reasons(observed: Observed, loaded: Loaded, derived: derive.Numbers) -> list[str]:
    """The three conditions of design section 11; empty in a virtual world, which is never late."""
    out = [
        f"{count} frames lost in this machine at {place}"
        for place, count in _losses(observed).items()
        if count and not place.startswith(ORDERED_LOSSES)
    ]
    limit = max(LATE_PACKETS * derive.packet_ns(loaded.fabric.spec), derived.rto_ns // RTO_SHARE)
    late = _late_ns(observed)
    if late > limit:
        shown = f"{late / 1e6:.1f} ms late at p99.9, and {limit / 1e6:.1f} ms is the limit"
        out.append(f"timers or sends were {shown}")
    share = observed.lateness.get("slots_lost", 0.0)
    if share > SLOTS_LOST_SHARE_MAX:
        out.append(f"a backlogged port lost {share:.1%} of its slots, and 2 % is the limit")
    return out


def _speed_in_doubt(observed: Observed, derived: derive.Numbers) -> list[str]:
    """Of a run in which nothing but speed fell short."""
    late, limit = _late_ns(observed), derived.base_rtt_ns // SPEED_RTT_SHARE
    if late <= limit:
        return []
    return [
        f"only speed fell short, and timers or sends were {late / 1e6:.1f} ms late at p99.9; more "
        f"than half a base RTT ({limit / 1e6:.1f} ms) costs speed"
    ]


def _late_ns(observed: Observed) -> int:
    """p99.9 of timers or of sends, whichever is more."""
    late = observed.lateness
    return int(max(late.get("timer_p999_ns", 0), late.get("send_p999_ns", 0)))


def _losses(observed: Observed) -> dict[str, int]:
    """Frames lost by place; of receive rings of switches the switches themselves tell."""
    rings = {
        f"{reason}:{port}": count
        for port, reason, count in ledger.drops_by_place(observed.switch_stats)
        if reason == ledger.RING
    }
    return {**observed.losses, **rings}


def _fidelity(observed: Observed, invalid: list[str]) -> dict[str, Any]:
    return {
        "kept_time": not invalid,
        "reasons": list(invalid),
        "lateness": observed.lateness,
        "interface_losses": {k: v for k, v in _losses(observed).items() if v},
        "more": "docs/fidelity.md",
    }


def _all_metrics(measure: "Measure", names: Mapping[str, metrics.Kind]) -> dict[str, Any]:
    """Every name with its value as a plain number, null where undefined; sets as sorted lists."""
    out: dict[str, Any] = {}
    for name in names:
        try:
            value = measure(name)
        except Undefined:
            out[name] = None
            continue
        if isinstance(value, frozenset):
            out[name] = sorted(value)
        elif isinstance(value, Fraction):
            out[name] = int(value) if value.denominator == 1 else round(float(value), 3)
        else:
            out[name] = value
    return out


class Measure:
    """The value of each name an expectation may use.  Raises metrics.Undefined with a reason."""

    def __init__(
        self,
        loaded: Loaded,
        derived: derive.Numbers,
        ends: list[flows.QpEnd],
        observed: Observed,
        books: tuple[ledger.Book, ...],
    ) -> None:
        self._loaded = loaded
        self._derived = derived
        self._ends = ends
        self._seen = observed
        self._books = books
        self._hosts = flows.job_hosts(loaded.scenario.workload)

    def __call__(self, name: str) -> Value:
        if not self._seen.stopped:
            raise Undefined("no data: the run broke before its end")
        group, _, rest = name.partition(".")
        if rest.endswith(")"):
            what, _, fault = rest[:-1].partition("(")
            return self._around(what, fault)
        table: dict[str, Callable[[str], Value]] = {
            "job": self._job,
            "flow": self._flow,
            "goodput": self._goodput,
            "qp": self._qp,
            "ev": self._ev,
            "ledger": self._ledger,
        }
        return table[group](rest)

    def _jobs(self) -> list[Mapping[str, Any]]:
        return [self._seen.stopped[host]["job"] for host in self._hosts]

    def _job(self, what: str) -> Value:
        match what:
            case "completed":
                return all(job["completed"] for job in self._jobs())
            case "bytes_expected":
                return self._seen.total_bytes
            case "duration":
                return self._duration_ns()
        return sum(int(job[what]) for job in self._jobs())

    def _duration_ns(self) -> int:
        times = [int(job["duration_ns"]) for job in self._jobs() if job["completed"]]
        if not times:
            raise Undefined("no data: no host completed its part of the job")
        return max(times)

    def _flow(self, what: str) -> Value:
        found = [job.get("flows_ns", {}).values() for job in self._jobs() if job["completed"]]
        times = sorted(int(ns) for flows_ns in found for ns in flows_ns if ns is not None)
        if not times:
            raise Undefined("no data: no flow of a transfer was completed")
        at = {"fastest": 0, "median": len(times) // 2, "slowest": -1}
        return times[at[what]]

    def _first_end_ns(self) -> int:
        """When the first host was done: from then on goodput says nothing about the fabric."""
        times = [int(job["duration_ns"]) for job in self._jobs() if job["completed"]]
        return min(times, default=self._seen.series.count * self._seen.series.bin_ns)

    def _goodput(self, what: str) -> Value:
        if what == "ceiling":
            receivers = {dst for _, dst in flows.data_flows(self._loaded.scenario.workload)}
            return self._derived.ceiling_bps * len(receivers)
        delivered = self._job("bytes_delivered")
        return Fraction(8 * 10**9 * int(delivered), max(self._duration_ns(), 1))  # type: ignore[arg-type]

    def _around(self, what: str, fault: str) -> Value:
        window = self._seen.windows[fault]
        windows = self._loaded.scenario.windows
        end = self._first_end_ns()
        if what == "before":
            return metrics.before(self._seen.series, window, windows)
        if what == "during":
            return metrics.during(self._seen.series, window, end)
        return metrics.after(self._seen.series, window, windows, end)

    def _qp(self, what: str) -> Value:
        if what == "count":
            return len(self._ends) // 2
        ends = [qp for stop in self._seen.stopped.values() for qp in stop["qps"]]
        return sum(str(qp["state"]).lower() == "error" for qp in ends)

    def _ev(self, what: str) -> Value:
        match what:
            case "retired":
                return frozenset(self._seen.retired)
            case "affected":
                fabric, timeline = self._loaded.fabric, self._loaded.scenario.timeline
                hits = [hit for fault in timeline for hit in faults.hits(fabric, fault)]
                return flows.affected(fabric, self._ends, hits)
            case "all_good":
                states = [
                    str(ev[2]).lower()
                    for stop in self._seen.stopped.values()
                    for qp in stop["qps"]
                    for ev in qp["evs"]
                ]
                return "assumed_bad" not in states
        return ledger.total(what, self._seen.stopped, self._seen.switch_stats)

    def _ledger(self, what: str) -> Value:
        if what == "unexplained":
            return sum(abs(book.unexplained) for book in self._books)
        return ledger.total(what, self._seen.stopped, self._seen.switch_stats)


def result(
    loaded: Loaded, judgement: Judgement, *, world: str, switch: str, seed: int, error: str | None
) -> dict[str, Any]:
    """result.json: nothing in it depends on the machine, the time or the place of the run."""
    return {
        "scenario": loaded.scenario.name,
        "verdict": str(judgement.verdict),
        "world": world,
        "switch": switch,
        "seed": seed,
        "error": error,
        "problems": list(judgement.problems),
        "host_errors": dict(judgement.host_errors),
        "expectations": [
            {"expr": f.expr, "wanted": f.wanted, "measured": f.measured, "ok": f.ok}
            for f in judgement.findings
        ],
        "timeline": [
            {"name": fault.name, "start_ns": window[0], "end_ns": window[1]}
            for fault in loaded.scenario.timeline
            for window in [faults.window(loaded.fabric, fault)]
        ],
        "metrics": dict(judgement.metrics),
        "ledger": {
            "unexplained": sum(abs(book.unexplained) for book in judgement.books),
            "books": {
                book.name: book.as_json()
                for book in judgement.books
                if book.name in ledger.WHOLE or book.unexplained
            },
            "closed": len(judgement.books),
        },
        "fidelity": dict(judgement.fidelity),
        "twin": twin.sentence(loaded.fabric.spec),
    }


def no_judgement(problem: str) -> Judgement:
    """Of a run that broke in our own hands."""
    fidelity: dict[str, Any] = {"kept_time": None, "reasons": [], "more": "docs/fidelity.md"}
    return Judgement(Verdict.ERROR, (), (problem,), (), (), fidelity, {})
