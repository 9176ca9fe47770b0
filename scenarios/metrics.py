"""What is measured, under which name, and how it is computed from what the hosts report.

Pure.  Times are nanoseconds since the start of the job; goodput is new payload placed at the
receivers, in bits a second, summed over the hosts of the job.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from typing import Any

from scenarios import schema

Value = Fraction | int | bool | frozenset[str]


class Kind(Enum):
    NUMBER = "number"
    RATE = "rate"
    TIME = "time"
    FLAG = "flag"
    SET = "set"


class Undefined(Exception):
    """This run did not measure that; the message says why."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A name, its kind, what it means; `per_fault`: written with a fault's name in parentheses."""

    name: str
    kind: Kind
    meaning: str
    per_fault: bool = False


METRICS = (
    Metric("job.completed", Kind.FLAG, "every host finished its part, without an error"),
    Metric("job.bytes_corrupt", Kind.NUMBER, "bytes in the receivers' memory that are not as sent"),
    Metric("job.bytes_delivered", Kind.NUMBER, "new payload bytes placed, all receivers"),
    Metric("job.bytes_expected", Kind.NUMBER, "payload bytes the job moves, all receivers"),
    Metric("job.messages", Kind.NUMBER, "messages completed, all receivers"),
    Metric("job.duration", Kind.TIME, "from the start of the job to the last host's end"),
    Metric("flow.fastest", Kind.TIME, "transfers: start of the job to a sender's last ACK, least"),
    Metric("flow.median", Kind.TIME, "the same, of the flow in the middle"),
    Metric("flow.slowest", Kind.TIME, "the same, of the slowest flow"),
    Metric("goodput", Kind.RATE, "payload delivered over the duration of the job"),
    Metric("goodput.ceiling", Kind.RATE, "the receivers' port rates less headers"),
    Metric("goodput.before", Kind.RATE, "mean of the 3 s before the fault", per_fault=True),
    Metric(
        "goodput.during", Kind.RATE, "mean from first link down to last link up", per_fault=True
    ),
    Metric("goodput.after", Kind.RATE, "mean from 2 s past the end of the fault", per_fault=True),
    Metric("qp.count", Kind.NUMBER, "queue pairs, both ends counted as one"),
    Metric("qp.errors", Kind.NUMBER, "ends of queue pairs in state ERROR"),
    Metric("ev.retired", Kind.SET, "EVs that entered ASSUMED_BAD at any time"),
    Metric("ev.affected", Kind.SET, "EVs that the faults of the timeline must retire"),
    Metric("ev.all_good", Kind.FLAG, "no EV is ASSUMED_BAD at the end"),
    Metric("ev.skips", Kind.NUMBER, "marks and trims for which senders passed an EV over"),
    Metric("ledger.unexplained", Kind.NUMBER, "frames sent that nothing accounts for"),
    Metric("ledger.sent", Kind.NUMBER, "data frames sent, retransmissions included"),
    Metric("ledger.retransmitted", Kind.NUMBER, "data frames sent again"),
    Metric("ledger.trimmed", Kind.NUMBER, "data frames cut by switches"),
    Metric("ledger.trimmed_last_hop", Kind.NUMBER, "of those, cut on the way out to their NIC"),
    Metric("ledger.timeouts", Kind.NUMBER, "data frames given up for want of any answer"),
    Metric("ledger.dropped", Kind.NUMBER, "frames of all kinds that switches lost, for any reason"),
    Metric("ledger.ecn_marked", Kind.NUMBER, "data frames that arrived marked"),
)


def names(fault_names: Sequence[str]) -> dict[str, Kind]:
    """All names in the order of the table, per-fault ones for each fault."""
    out = {}
    for metric in METRICS:
        if not metric.per_fault:
            out[metric.name] = metric.kind
        else:
            out |= {f"{metric.name}({fault})": metric.kind for fault in fault_names}
    return out


@dataclass(slots=True)
class Series:
    """Bytes placed per bin, by host; bin n covers [n * bin_ns, (n + 1) * bin_ns)."""

    bin_ns: int
    bytes_by_host: dict[str, dict[int, int]] = field(default_factory=dict)

    def add(self, host: str, start_ns: int, count: int) -> None:
        bins = self.bytes_by_host.setdefault(host, {})
        index = start_ns // self.bin_ns
        bins[index] = bins.get(index, 0) + count

    def total(self, index: int) -> int:
        return sum(bins.get(index, 0) for bins in self.bytes_by_host.values())

    @property
    def count(self) -> int:
        return 1 + max((max(bins) for bins in self.bytes_by_host.values() if bins), default=-1)

    def rate_bps(self, start_ns: int, end_ns: int) -> Fraction:
        """Mean over the whole bins inside the window.  Raises Undefined if there is none."""
        first, last = -(-start_ns // self.bin_ns), end_ns // self.bin_ns
        if last <= first:
            raise Undefined("no data: the window holds no whole bin of the goodput series")
        count = sum(self.total(index) for index in range(first, last))
        return Fraction(count * 8 * 10**9, (last - first) * self.bin_ns)

    def columns(self) -> dict[str, list[int]]:
        """`t_ns`, then goodput in bit/s in total and by host; one row a bin."""
        rows = range(self.count)
        scale = Fraction(8 * 10**9, self.bin_ns)
        hosts = sorted(self.bytes_by_host, key=lambda name: (len(name), name))
        table = {"t_ns": [index * self.bin_ns for index in rows]}
        table["total_bps"] = [int(self.total(index) * scale) for index in rows]
        for host in hosts:
            bins = self.bytes_by_host[host]
            table[f"{host}_bps"] = [int(bins.get(index, 0) * scale) for index in rows]
        return table


@dataclass(frozen=True, slots=True)
class FaultWindow:
    """When a fault was there, since the start of the job; end None: it stayed."""

    name: str
    start_ns: int
    end_ns: int | None


def before(series: Series, fault: FaultWindow, windows: schema.Windows) -> Fraction:
    start = max(fault.start_ns - windows.before, windows.warm_up)
    return series.rate_bps(start, fault.start_ns)


def during(series: Series, fault: FaultWindow, job_end_ns: int) -> Fraction:
    end = job_end_ns if fault.end_ns is None else fault.end_ns
    if job_end_ns < fault.start_ns:
        raise Undefined(f"no data: the job ended before {fault.name}")
    return series.rate_bps(fault.start_ns, min(end, job_end_ns))


def after(series: Series, fault: FaultWindow, windows: schema.Windows, job_end_ns: int) -> Fraction:
    """To the end of the job, as the first host to finish saw it."""
    if fault.end_ns is None:
        raise Undefined(f"no data: {fault.name} never ends")
    start = fault.end_ns + windows.settle
    if job_end_ns < start + series.bin_ns:
        raise Undefined(f"no data: the job ended before {fault.name} was over and settled")
    return series.rate_bps(start, job_end_ns)


def csv(columns: Mapping[str, Sequence[Any]]) -> str:
    """Comma-separated, one header line."""
    rows = zip(*columns.values(), strict=True)
    return "\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n"
