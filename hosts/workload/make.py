"""From the job of a scenario, as JSON, to this host's part of it."""

from collections.abc import Mapping
from typing import Any

from hosts.errors import UsageError
from hosts.workload.job import Job, Transport
from hosts.workload.ring_allreduce import RingAllreduce
from hosts.workload.transfers import Transfer, Transfers

KINDS = ("ring_allreduce", "write", "incast", "permutation")


def make_job(transport: Transport, job: Mapping[str, Any], seed: int) -> Job:
    """`job` is a scenario's workload with `ranks`, the hosts taking part, and `rank`, our place.

    Raises UsageError for an unknown kind or a job that cannot be.
    """
    kind, ranks, rank = job["kind"], list(job["ranks"]), int(job["rank"])
    if kind == "ring_allreduce":
        return RingAllreduce(
            transport=transport,
            ranks=ranks,
            rank=rank,
            length=int(job["bytes"]),
            steps=int(job.get("steps", 1)),
            seed=seed,
        )
    transfers = [
        Transfer(src, dst, ranks.index(src), int(job["bytes"]), _message_bytes(job))
        for src, dst in pairs(job)
    ]
    return Transfers(transport=transport, host=ranks[rank], transfers=transfers, seed=seed)


def pairs(job: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(sender, receiver) of payload, in a fixed order.  Raises UsageError for an unknown kind."""
    match job["kind"]:
        case "ring_allreduce":
            ranks = list(job["ranks"])
            return [(rank, ranks[(i + 1) % len(ranks)]) for i, rank in enumerate(ranks)]
        case "write":
            return [(job["src"], job["dst"])]
        case "incast":
            return [(source, job["dst"]) for source in job["sources"]]
        case "permutation":
            hosts, shift = list(job["hosts"]), int(job.get("shift", 1))
            return [(host, hosts[(i + shift) % len(hosts)]) for i, host in enumerate(hosts)]
        case kind:
            raise UsageError(f"no job of kind {kind!r}: there are {', '.join(KINDS)}")


def _message_bytes(job: Mapping[str, Any]) -> int:
    return int(job.get("message_bytes") or job["bytes"] or 1)
