"""The control conversation with the hosts of a run (design section 9): one message, one answer.

Carries QP numbers and memory keys from host to host; knows nothing of time or faults.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scenarios import derive, flows, schema
from scenarios.flows import QpEnd
from topologies.model import Fabric
from topologies.routing import Path
from worlds.api import World


@dataclass(slots=True)
class Session:
    """Call order: configure, connect, create_job, start, poll until done, stop."""

    world: World
    fabric: Fabric
    scenario: schema.Scenario
    derived: derive.Numbers
    ends: Sequence[QpEnd]
    qpns: dict[tuple[str, str], int] = field(default_factory=dict)
    """By (host, peer)."""

    @property
    def hosts(self) -> list[str]:
        return flows.job_hosts(self.scenario.workload)

    def peers(self, host: str) -> dict[int, str]:
        """Who each QP of that host leads to."""
        return {qpn: peer for (owner, peer), qpn in self.qpns.items() if owner == host}

    def configure(self, seed: int) -> None:
        """Every host of the fabric, also those without a part in the job: their ports flap too."""
        for host in self.fabric.hosts:
            config = derive.host_config(self.fabric, self.scenario, host, self.derived, seed)
            self.world.control(host.name, {"op": "configure", "config": config})

    def connect(self) -> None:
        made: dict[tuple[str, str], dict[str, Any]] = {}
        for end in self.ends:
            message: dict[str, Any] = {
                "op": "qp_create",
                "peer": end.peer,
                "evs": self._evs(end.active),
                "backup": self._evs(end.backup),
            }
            made[end.host, end.peer] = self.world.control(end.host, message)
        for host, peer in made:
            qpn = made[host, peer]["qpn"]
            self.qpns[host, peer] = qpn
            message = {"op": "qp_connect", "qpn": qpn, "remote": made[peer, host]}
            self.world.control(host, message)

    def create_job(self) -> None:
        job = job_message(self.scenario.workload)
        exports: dict[str, dict[str, Any]] = {}
        for rank, host in enumerate(self.hosts):
            qps = {peer: qpn for (owner, peer), qpn in self.qpns.items() if owner == host}
            message = {"op": "job_create", "job": {**job, "rank": rank}, "qps": qps}
            exports[host] = self.world.control(host, message)["exports"]
        for host in self.hosts:
            imports = {peer: given[host] for peer, given in exports.items() if host in given}
            self.world.control(host, {"op": "job_connect", "imports": imports})

    def start(self, t0_ns: int) -> None:
        for host in self.hosts:
            self.world.control(host, {"op": "start", "t0_ns": t0_ns})

    def poll(self, hosts: Sequence[str]) -> dict[str, dict[str, Any]]:
        return {host: self.world.control(host, {"op": "poll"}) for host in hosts}

    def stop(self) -> dict[str, dict[str, Any]]:
        """From every host of the fabric, as every one may have sent frames."""
        names = [host.name for host in self.fabric.hosts]
        return {name: self.world.control(name, {"op": "stop"}) for name in names}

    def _evs(self, paths: Sequence[Path]) -> list[list[Any]]:
        """Only SRv6 names the path in an outer header; the other routing modes read the EV."""
        is_srv6 = self.scenario.transport.routing == "srv6"
        return [[way.ev, way.plane, way.outer_dst.hex() if is_srv6 else None] for way in paths]


def job_message(workload: schema.Workload) -> Mapping[str, Any]:
    """The workload as JSON, hosts in rank order under `ranks`."""
    return {**workload.model_dump(mode="json"), "ranks": flows.job_hosts(workload)}
