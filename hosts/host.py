"""A host: one MRC endpoint, the job that uses it, and the counts and events the runner asks for.

A Node (worlds/node.py) whose frames are the endpoint's.  `control` takes the runner's messages; see
`hosts.messages` for what they say.
"""

import random
from collections.abc import Mapping
from typing import Any

from hosts import messages
from hosts.config import endpoint_config
from hosts.errors import UsageError
from hosts.goodput import Goodput
from hosts.ledger import ledger
from hosts.mrc.endpoint import Endpoint
from hosts.mrc.memory import MemoryRegion
from hosts.mrc.message import CompletionKind, Status, WriteRequest
from hosts.workload.job import Job, Region
from hosts.workload.make import make_job


class Host:
    """`config`: see hosts/config.py.  `rng`: everything random in this host is drawn from it."""

    def __init__(self, config: Mapping[str, Any], rng: random.Random) -> None:
        self.name = str(config["host"])
        self.seed = int(config["seed"])
        self.endpoint = Endpoint(endpoint_config(config), rng)
        self.goodput = Goodput(int(config["bin_ns"]))
        self.peers: dict[int, str] = {}
        self.qpns: dict[str, int] = {}
        self.job: Job | None = None
        self.error: str | None = None
        self.start_ns: int | None = None
        self.done_ns: int | None = None
        self._started = False
        self._delivered = 0
        self._job_due: int | None = None
        """When the job wants to run: its start, or the past while it has work."""
        ports = len(self.endpoint.config.ports)
        self.sent_by_port = [0] * ports
        self.received_by_port = [0] * ports

    # -- Node --------------------------------------------------------------------------------

    def receive_frame(self, port: int, frame: bytes, now_ns: int) -> None:
        self.received_by_port[port] += 1
        endpoint = self.endpoint
        endpoint.receive_frame(port, frame, now_ns)
        delivered = endpoint.delivered_bytes
        if delivered != self._delivered:
            self.goodput.add(delivered - self._delivered, now_ns)
            self._delivered = delivered
        self._complete(now_ns)

    def handle_timeout(self, now_ns: int) -> None:
        self.endpoint.handle_timeout(now_ns)
        self._complete(now_ns)
        if self._job_due is not None and self._job_due <= now_ns:
            self._run_job(now_ns)

    def poll_transmit(self, now_ns: int) -> tuple[int, bytes] | None:
        sent = self.endpoint.poll_transmit(now_ns)
        if sent is not None:
            self.sent_by_port[sent[0]] += 1
        return sent

    def next_timeout(self) -> int | None:
        due, job_due = self.endpoint.next_timeout(), self._job_due
        if job_due is None or (due is not None and due < job_due):
            return due
        return job_due

    def port_changed(self, port: int, up: bool, now_ns: int) -> None:
        self.endpoint.port_changed(port, up, now_ns)
        self._complete(now_ns)

    # -- the job's transport -------------------------------------------------------------------

    def register(self, length: int) -> Region:
        return self.endpoint.register_memory(length)

    def write(
        self,
        peer: str,
        wr_id: int,
        region: Region,
        offset: int,
        length: int,
        *,
        remote_va: int,
        rkey: int,
        imm: int | None,
    ) -> None:
        assert isinstance(region, MemoryRegion), "memory that this host did not register"
        request = WriteRequest(wr_id, region, offset, length, remote_va, rkey, imm)
        self.endpoint.post_write(self.qpns[peer], request)

    # -- control ---------------------------------------------------------------------------------

    def control(self, message: Mapping[str, Any], now_ns: int) -> dict[str, Any]:
        """One message of the runner and its answer.  Raises UsageError."""
        return messages.handle(self, message, now_ns)

    def create_job(self, job: Mapping[str, Any], qps: Mapping[str, int]) -> Job:
        for peer, qpn in qps.items():
            if self.peers.get(qpn) != peer:
                raise UsageError(f"job_create: QP {qpn} does not lead to {peer}")
            self.qpns[peer] = qpn
        self.job = make_job(self, job, self.seed)
        return self.job

    def ledger(self) -> dict[str, int]:
        return ledger(
            self.endpoint.counters(),
            tx_frames=sum(self.sent_by_port),
            rx_frames=sum(self.received_by_port),
        )

    def start_job(self, t0_ns: int) -> None:
        self.start_ns = self._job_due = t0_ns
        self.goodput.begin(t0_ns)

    # -- inside ------------------------------------------------------------------------------------

    def _complete(self, now_ns: int) -> None:
        """Hand the endpoint's completions to the job."""
        completions = self.endpoint.poll_completions()
        if not completions:
            return
        job = self.job
        assert job is not None, "a completion without a job"
        for completion in completions:
            peer = self.peers[completion.qpn]
            if completion.status is not Status.SUCCESS:
                if self.error is None:
                    self.error = f"QP to {peer}: {completion.status.value}"
            elif completion.kind is CompletionKind.SEND:
                job.sent(peer, completion.wr_id, now_ns)
            else:
                assert completion.imm is not None
                job.received(peer, completion.imm, now_ns)
        self._note_progress(job, now_ns)

    def _run_job(self, now_ns: int) -> None:
        job = self.job
        assert job is not None
        if not self._started:
            self._started = True
            job.start(now_ns)
        if job.has_work:
            job.work(now_ns)
        self._note_progress(job, now_ns)

    def _note_progress(self, job: Job, now_ns: int) -> None:
        if self._started:
            self._job_due = 0 if job.has_work else None
        if self.error is None and job.error is not None:
            self.error = job.error
        if self.done_ns is None and self._started and job.done:
            self.done_ns = now_ns
