"""A world without packets: hosts that deliver at full rate unless a NIC port of theirs is down.

It answers every control message a real host answers, so that what scenarios do with the answers can
be tested in milliseconds.  Nothing here is a model of MRC.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from hosts.errors import UsageError
from hosts.messages import ARRIVALS
from switches.api import CounterValue, PortStats, QueueStats, TableEntry, UpdateType
from topologies.model import Fabric, PortRef
from worlds.api import NodeDied


class FakeHost:
    def __init__(self, name: str) -> None:
        self.name = name
        self.config: dict[str, Any] = {}
        self.qps: dict[int, dict[str, Any]] = {}
        self.job: dict[str, Any] = {}
        self.t0_ns = 0
        self.expected = 0
        self.received = 0
        self.done_ns: int | None = None
        self.samples: list[list[int]] = []
        self.events: list[dict[str, Any]] = []
        self.corrupt = 0
        self.planes_down: set[int] = set()


class FakeWorld:
    """`die`: (time, node) of a death nobody ordered."""

    name = "virtual"

    def __init__(self, fabric: Fabric, *, die: tuple[int, str] | None = None) -> None:
        self.fabric = fabric
        self.hosts = {host.name: FakeHost(host.name) for host in fabric.hosts}
        self.calls: list[tuple[Any, ...]] = []
        self.die = die
        self.lost: dict[str, int] = {}
        self.ring_drops: dict[str, int] = {}
        self.late: dict[str, Any] = {"timer_p999_ns": 0, "send_p999_ns": 0, "slots_lost": 0.0}
        self.closed = False
        self._now_ns = 0

    def start(self) -> None:
        self._now_ns = 0

    def now_ns(self) -> int:
        return self._now_ns

    def run_until(self, t_ns: int) -> None:
        if self.die is not None and t_ns >= self.die[0]:
            self._now_ns = self.die[0]
            raise NodeDied(self.die[1], "killed by signal 9")
        for host in self.hosts.values():
            self._move(host, t_ns)
        self._now_ns = t_ns

    def control(self, host: str, message: Mapping[str, Any]) -> dict[str, Any]:
        method = getattr(self, f"_{message['op']}", None)
        if method is None:
            raise UsageError(f"unknown message {message['op']!r}")
        return dict(method(self.hosts[host], message))

    def set_link(self, end: PortRef, up: bool) -> None:
        self.calls.append(("set_link", self._now_ns, end, up))
        host_end = end if self.fabric.is_host(end.node) else self.fabric.peer(end)
        if not self.fabric.is_host(host_end.node):
            return
        for host in self.hosts.values():
            if host.name == host_end.node:
                (host.planes_down.discard if up else host.planes_down.add)(host_end.port)
            self._ev_events(host, host_end, up)

    def write_switch(self, switch: str, kind: UpdateType, entries: Iterable[TableEntry]) -> None:
        self.calls.append(("write_switch", self._now_ns, switch, kind, tuple(entries)))

    def read_counter(self, switch: str, name: str) -> list[CounterValue]:
        return [CounterValue(0, 0)] * 8

    def port_stats(self, switch: str) -> list[PortStats]:
        empty = QueueStats(0, 0, 0, 0, 0, 0, 0, 0, 0)
        return [PortStats(0, True, 0, 0, 0, 0, 0, self.ring_drops.get(switch, 0), (empty, empty))]

    def kill_switch(self, switch: str) -> None:
        self.calls.append(("kill_switch", self._now_ns, switch))

    def restart_switch(self, switch: str) -> None:
        self.calls.append(("restart_switch", self._now_ns, switch))

    def interface_losses(self) -> dict[str, int]:
        return self.lost

    def lateness(self) -> dict[str, Any]:
        return self.late

    def close(self) -> None:
        self.closed = True

    def _configure(self, host: FakeHost, message: Mapping[str, Any]) -> dict[str, Any]:
        host.config = dict(message["config"])
        return {}

    def _qp_create(self, host: FakeHost, message: Mapping[str, Any]) -> dict[str, Any]:
        qpn = 16 + len(host.qps)
        host.qps[qpn] = {"peer": message["peer"], "evs": message["evs"], "bad": set()}
        return {"qpn": qpn, "psn": 7, "gid": host.config["gid"], "mpr": 1, "max_wimm": 32}

    def _qp_connect(self, host: FakeHost, message: Mapping[str, Any]) -> dict[str, Any]:
        assert set(message["remote"]) == {"qpn", "psn", "gid", "mpr", "max_wimm"}
        return {}

    def _job_create(self, host: FakeHost, message: Mapping[str, Any]) -> dict[str, Any]:
        host.job = dict(message["job"])
        peers = dict(message["qps"])
        assert all(host.qps[qpn]["peer"] == peer for peer, qpn in peers.items())
        job = host.job
        if job["kind"] == "ring_allreduce":
            n = len(job["ranks"])
            host.expected = 2 * (n - 1) * job["bytes"] // n * job["steps"]
        elif job["kind"] == "write":
            host.expected = job["bytes"] if host.name == job["dst"] else 0
        elif job["kind"] == "incast":
            host.expected = job["bytes"] * len(job["sources"]) * (host.name == job["dst"])
        else:
            host.expected = job["bytes"]
        return {"exports": {peer: {"va": 0, "rkey": 1, "length": 8} for peer in peers}}

    def _job_connect(self, host: FakeHost, message: Mapping[str, Any]) -> dict[str, Any]:
        assert set(message["imports"]) == {qp["peer"] for qp in host.qps.values()}
        return {}

    def _start(self, host: FakeHost, message: Mapping[str, Any]) -> dict[str, Any]:
        host.t0_ns = message["t0_ns"]
        return {}

    def _poll(self, host: FakeHost, message: Mapping[str, Any]) -> dict[str, Any]:
        samples, host.samples = host.samples, []
        events, host.events = host.events, []
        bad = sum(len(qp["bad"]) for qp in host.qps.values())
        total = sum(len(qp["evs"]) for qp in host.qps.values())
        return {
            "done": host.received >= host.expected,
            "error": None,
            "progress": {"bytes_done": host.received, "bytes_total": host.expected},
            "samples": samples,
            "events": events,
            "ev": {"good": total - bad, "skip": 0, "assumed_bad": bad, "denied": 0},
        }

    def _stop(self, host: FakeHost, message: Mapping[str, Any]) -> dict[str, Any]:
        done = host.received >= host.expected
        duration = (host.done_ns or self._now_ns) - host.t0_ns
        return {
            "samples": host.samples,
            "events": host.events,
            "ledger": {},
            "ports": [],
            "job": {
                "completed": done,
                "bytes_corrupt": host.corrupt,
                "bytes_delivered": host.received,
                "messages": 1,
                "duration_ns": duration,
            },
            "qps": [
                {
                    "qpn": qpn,
                    "peer": qp["peer"],
                    "state": "RTS",
                    "reason": None,
                    "evs": [
                        [ev, plane, "assumed_bad" if ev in qp["bad"] else "good"]
                        for ev, plane, _ in qp["evs"]
                    ],
                    "sent": [],
                    "received": {name: [] for name in ARRIVALS},
                }
                for qpn, qp in host.qps.items()
            ],
        }

    def _hook(self, host: FakeHost, message: Mapping[str, Any]) -> dict[str, Any]:
        host.corrupt += 1
        return {}

    def _move(self, host: FakeHost, until_ns: int) -> None:
        """Deliver bin by bin, at the rate of the planes that are up."""
        if not host.t0_ns:
            return
        step = host.config["bin_ns"]
        start = max(self._now_ns, host.t0_ns)
        while start < until_ns and host.received < host.expected:
            end = min((start // step + 1) * step, until_ns)
            live = [p for i, p in enumerate(host.config["ports"]) if i not in host.planes_down]
            rate = sum(port["rate_bps"] for port in live)
            share = host.config["pmtu"] / (host.config["pmtu"] + 142)
            count = int(rate * share * (end - start) / 8e9)
            count = min(count, host.expected - host.received)
            host.received += count
            host.samples.append([start // step * step, count])
            start = end
            if host.received >= host.expected:
                host.done_ns = end

    def _ev_events(self, host: FakeHost, port: PortRef, up: bool) -> None:
        for qpn, qp in host.qps.items():
            if port.node not in (host.name, qp["peer"]):
                continue
            for ev, plane, _ in qp["evs"]:
                if plane != port.port:
                    continue
                old, new = ("assumed_bad", "good") if up else ("good", "assumed_bad")
                (qp["bad"].discard if up else qp["bad"].add)(ev)
                host.events.append(
                    {
                        "t_ns": self._now_ns,
                        "kind": "ev_state",
                        "qpn": qpn,
                        "ev": ev,
                        "plane": plane,
                        "from": old,
                        "to": new,
                        "cause": "port",
                    }
                )
