"""Runs a scenario in a world: set up, start, break things on time, watch, take down.

Knows both worlds only as `worlds.api.World`.  The verdict is `scenarios.verdict`'s.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, assert_never

from scenarios import derive, faults, flows
from scenarios.conditions import Conditions
from scenarios.load import Loaded
from scenarios.metrics import FaultWindow, Series
from scenarios.observe import EV_STATES, Observed, Progress
from scenarios.session import Session
from switches import entries
from worlds import rng
from worlds.api import Event, NodeDied, World

LEAD_NS = 100_000_000
"""From the start message to the start of the job, so that every host has it in time."""

POLL_NS_MAX = 1_000_000_000
POLLS_PER_JOB = 40
"""More when a job takes longer than planned, but ever fewer: waiting costs nothing."""

TAIL_RTOS = 2
"""After the job, so that nothing is in flight when the books are closed."""

Report = Callable[[Progress], None]


class Refused(Exception):
    """This world cannot do what the scenario asks for: one sentence, exit 2."""


@dataclass(slots=True)
class Hook:
    """For tests of the testbed: flip one byte in a host's memory after it was placed, by host."""

    corrupt_byte: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Runner:
    """One run.  `observed` is filled while it goes on, and holds what there is if it breaks."""

    loaded: Loaded
    world: World
    seed: int
    report: Report
    hook: Hook = field(default_factory=Hook)
    extra_steps: list[faults.Step] = field(default_factory=list)
    """Primitives no verb asks for (the fuzzer's)."""
    tail_rtos: int = TAIL_RTOS
    derived: derive.Numbers = field(init=False)
    ends: list[flows.QpEnd] = field(init=False)
    observed: Observed = field(init=False)
    _session: Session = field(init=False)
    _conditions: Conditions = field(init=False)
    _steps: list[faults.Step] = field(init=False)
    _t0_ns: int = field(init=False, default=0)
    _done_bytes: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        scenario, fabric = self.loaded.scenario, self.loaded.fabric
        self.derived = derive.numbers(fabric, scenario)
        self.ends = flows.qp_ends(fabric, scenario, lambda name: rng.stream(self.seed, name))
        steps = [*faults.expand(fabric, scenario.timeline), *self.extra_steps]
        self._steps = sorted(steps, key=lambda step: step.t_ns)
        total = flows.payload_bytes(scenario.workload)
        self.observed = Observed(Series(self.derived.bin_ns), total)
        self._conditions = Conditions(self.world)
        self._session = Session(self.world, fabric, scenario, self.derived, self.ends)

    def run(self) -> Observed:
        """Raises Refused, WorldError; what a run shows by itself is in `observed`."""
        if sentence := faults.refused(self.world, self._steps):
            raise Refused(sentence)
        try:
            self.world.start()
            self._set_up()
            self._job()
            self._tail()
            self._close_books()
        except NodeDied as death:
            self._died(death)
        return self.observed

    def _set_up(self) -> None:
        self._session.configure(self.seed)
        self._session.connect()
        self._session.create_job()
        step = self.derived.bin_ns
        self._t0_ns = -(-(self.world.now_ns() + LEAD_NS) // step) * step
        for fault in self.loaded.scenario.timeline:
            start, end = faults.window(self.loaded.fabric, fault)
            self.observed.windows[fault.name] = FaultWindow(fault.name, start, end)
        for host, index in self.hook.corrupt_byte.items():
            self.world.control(host, {"op": "hook", "corrupt_byte": index})
        self._session.start(self._t0_ns)
        self.observed.add_event(Event(0, "runner", "job_start", {"bytes": self._total_bytes}))

    @property
    def _total_bytes(self) -> int:
        return self.observed.total_bytes

    def _job(self) -> None:
        """Until every host is done or in error, or the scenario's patience ends."""
        self.world.run_until(self._t0_ns)
        self._poll(0)
        pending = list(self._steps)
        limit = self.loaded.scenario.max_duration
        step = max(self.derived.duration_ns // POLLS_PER_JOB, 1)
        next_poll = min(step, POLL_NS_MAX)
        while True:
            until = min(next_poll, pending[0].t_ns) if pending else next_poll
            self.world.run_until(self._t0_ns + until)
            while pending and pending[0].t_ns <= until:
                self._carry_out(pending.pop(0))
            if until < next_poll:
                continue
            if self._poll(until):
                break
            if until >= limit:
                self._problem(until, "timeout", f"the job did not end within {limit / 1e9:g} s")
                break
            next_poll += min(max(step, until // POLLS_PER_JOB), POLL_NS_MAX)
        self._finish_timeline(until, pending)

    def _finish_timeline(self, t_ns: int, pending: list[faults.Step]) -> None:
        """A fault that never happened proves nothing; one that is on is seen through."""
        begun = {step.fault for step in self._steps if step not in pending}
        missed = [step.fault for step in pending if step.fault not in begun]
        for name in dict.fromkeys(name for name in missed if name in self.observed.windows):
            start = self.observed.windows[name].start_ns
            text = f"the job ended at {t_ns / 1e9:.3g} s, before {name} at {start / 1e9:g} s"
            self._problem(t_ns, "fault_missed", text)
        for step in pending:
            if step.fault in begun:
                self.world.run_until(self._t0_ns + step.t_ns)
                self._carry_out(step)

    def _tail(self) -> None:
        """Until retransmissions, probes and hold-downs that are due have had their time."""
        transport = self.loaded.scenario.transport
        rest = self.tail_rtos * self.derived.rto_ns + self.derived.base_rtt_ns
        if self._steps:
            rest += transport.hold_down
        end = self.world.now_ns() + rest
        self.world.run_until(end)
        self._poll(end - self._t0_ns)

    def _poll(self, t_ns: int) -> bool:
        """Ask every host of the job; True when each is done or in error."""
        observed = self.observed
        answers = self._session.poll(self._session.hosts)
        evs = dict.fromkeys(EV_STATES, 0)
        for host, answer in answers.items():
            observed.take(host, answer, self._t0_ns, self._session.peers(host))
            for state in EV_STATES:
                evs[state] += answer["ev"].get(state, 0)
        done = sum(answer["progress"]["bytes_done"] for answer in answers.values())
        since = observed.ev_rows[-1][0] if observed.ev_rows else 0
        gained = done - self._done_bytes
        rate = gained * 8 * 10**9 // (t_ns - since) if t_ns > since else 0
        self._done_bytes = done
        observed.ev_rows.append((t_ns, *evs.values()))
        self.report(Progress(t_ns, done, self._total_bytes, rate, evs))
        return all(answer["done"] or answer["error"] for answer in answers.values())

    def _carry_out(self, step: faults.Step) -> None:
        node, kind, fields = describe(step.what)
        if isinstance(step.what, faults.SetLink):
            fields["peer"] = self.loaded.fabric.peer(step.what.end).node
        if isinstance(step.what, faults.KillSwitch):
            self.observed.rebooted.add(node)
        if isinstance(step.what, faults.SetCorruption) or (
            isinstance(step.what, faults.Impair) and step.what.corrupt
        ):
            self.observed.garbled = True
        if not self._conditions.carry_out(step.what):
            fields["no_change"] = True
        self.observed.add_event(Event(step.t_ns, node, kind, {"fault": step.fault, **fields}))

    def _close_books(self) -> None:
        observed = self.observed
        observed.stopped = self._session.stop()
        for host, answer in observed.stopped.items():
            observed.take(host, answer, self._t0_ns, self._session.peers(host))
        for switch in self.loaded.fabric.switches:
            cells = self.world.read_counter(switch.name, entries.DROPS_COUNTER)
            observed.switch_stats[switch.name] = {
                "ports": self.world.port_stats(switch.name),
                "drops": {
                    reason: cell.packets
                    for reason, cell in zip(entries.DROP_REASONS, cells, strict=False)
                },
            }
        observed.losses = dict(sorted(self.world.interface_losses().items()))
        observed.lateness = self.world.lateness()

    def _died(self, death: NodeDied) -> None:
        t_ns = self.world.now_ns() - self._t0_ns
        is_switch = not self.loaded.fabric.is_host(death.node)
        kind = "switch_died" if is_switch else "host_died"
        self._problem(t_ns, kind, str(death), death.node)

    def _problem(self, t_ns: int, kind: str, text: str, node: str = "runner") -> None:
        self.observed.problems.append(text)
        self.observed.add_event(Event(t_ns, node, kind, {"what": text}))


def describe(what: faults.Primitive) -> tuple[str, str, dict[str, Any]]:
    """Node, kind and fields of the event a primitive is."""
    match what:
        case faults.SetLink(end, up):
            return end.node, "link_up" if up else "link_down", {"port": end.port}
        case faults.AddLoss(switch, row):
            return switch, "loss_begins", {"per_million": row.action.params["per_million"]}
        case faults.RemoveLoss(switch, _):
            return switch, "loss_ends", {}
        case faults.KillSwitch(switch):
            return switch, "switch_killed", {}
        case faults.RestartSwitch(switch):
            return switch, "switch_restarted", {}
        case faults.SetCorruption(end, probability):
            return end.node, "corruption", {"port": end.port, "probability": probability}
        case faults.SetDenied(host, ev, denied):
            return host, "ev_denied" if denied else "ev_allowed", {"ev": ev}
        case faults.Impair(end):
            return end.node, "impairment", {"port": end.port}
        case faults.PauseQueue(end, paused):
            return end.node, "queue_paused" if paused else "queue_resumed", {"port": end.port}
    assert_never(what)
