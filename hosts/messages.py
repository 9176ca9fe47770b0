"""The runner's messages to a host: JSON objects, one answer each (docs/architecture.md).

```
hello        {}                                  -> {host, ports, gid}
qp_create    {peer, evs, backup}                 -> {qpn, psn, gid, mpr, max_wimm}
qp_connect   {qpn, remote: {gid, qpn, psn, mpr, max_wimm}} -> {}
job_create   {job, qps: {peer: qpn}}             -> {exports: {peer: {va, rkey, length}}}
job_connect  {imports: {peer: what it exported to us}} -> {}
start        {t0_ns}                             -> {}
poll         {}                                  -> {done, error, progress, samples, events, ev}
stop         {}                                  -> {ledger, ports, job, qps, samples, events}
deny         {ev, denied}                        -> {}     the EV in all QPs that have it
hook         {corrupt_byte}                      -> {}
```
`ports` are [frames sent, frames received].  A QP of `stop` has its data packets by EV: `sent`, and
`received` by what became of them (ARRIVALS), each a list of [ev, packets].

EVs are [ev, plane, outer destination in hexadecimal or null].  `samples` are [bin start in ns, new
payload bytes placed], each bin told once, when it is over, or by `stop`.  `configure` is the
world's to handle: it makes the Host.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from hosts.errors import UsageError
from hosts.mrc.config import RemoteQp
from hosts.mrc.ev import EvSpec
from hosts.workload.job import Window

if TYPE_CHECKING:
    from hosts.host import Host

ARRIVALS = ("delivered", "duplicate", "trimmed", "rejected")

Message = Mapping[str, Any]
Answer = dict[str, Any]


def handle(host: "Host", message: Message, now_ns: int) -> Answer:
    """Raises UsageError for an unknown message or one that lacks or misstates a key."""
    op = message.get("op")
    handler = _HANDLERS.get(str(op))
    if handler is None:
        raise UsageError(f"no message {op!r}")
    try:
        return handler(host, message, now_ns)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"{op}: {type(error).__name__}: {error}") from error


def _hello(host: "Host", message: Message, now_ns: int) -> Answer:
    config = host.endpoint.config
    return {"host": host.name, "ports": len(config.ports), "gid": config.gid.hex()}


def _qp_create(host: "Host", message: Message, now_ns: int) -> Answer:
    qp = host.endpoint.create_qp(_evs(message["evs"]), _evs(message["backup"]))
    host.peers[qp.qpn] = message["peer"]
    config = host.endpoint.config
    return {
        "qpn": qp.qpn,
        "psn": qp.psn,
        "gid": config.gid.hex(),
        "mpr": config.mpr_units,
        "max_wimm": config.max_wimm,
    }


def _qp_connect(host: "Host", message: Message, now_ns: int) -> Answer:
    remote = message["remote"]
    host.endpoint.connect_qp(
        message["qpn"],
        RemoteQp(
            gid=bytes.fromhex(remote["gid"]),
            qpn=remote["qpn"],
            psn=remote["psn"],
            mpr_units=remote["mpr"],
            max_wimm=remote["max_wimm"],
        ),
    )
    return {}


def _job_create(host: "Host", message: Message, now_ns: int) -> Answer:
    job = host.create_job(message["job"], message["qps"])
    return {"exports": {peer: window.as_message() for peer, window in job.exports().items()}}


def _job_connect(host: "Host", message: Message, now_ns: int) -> Answer:
    _job(host).connect({peer: Window(**offer) for peer, offer in message["imports"].items()})
    return {}


def _start(host: "Host", message: Message, now_ns: int) -> Answer:
    _job(host)
    host.start_job(int(message["t0_ns"]))
    return {}


def _poll(host: "Host", message: Message, now_ns: int) -> Answer:
    job = host.job
    return {
        "done": host.done_ns is not None,
        "error": host.error,
        "progress": {
            "bytes_done": host.endpoint.delivered_bytes,
            "bytes_total": 0 if job is None else job.bytes_total,
        },
        "samples": host.goodput.take(now_ns),
        "events": _events(host),
        "ev": _ev_counts(host),
    }


def _stop(host: "Host", message: Message, now_ns: int) -> Answer:
    return {
        "ledger": host.ledger(),
        "ports": [list(p) for p in zip(host.sent_by_port, host.received_by_port, strict=True)],
        "job": _job_report(host, now_ns),
        "qps": [_qp_report(host, qpn) for qpn in host.peers],
        "samples": host.goodput.take(now_ns, last=True),
        "events": _events(host),
    }


def _deny(host: "Host", message: Message, now_ns: int) -> Answer:
    """The controller's denylist.  Raises UsageError if no QP of this host has such an EV."""
    value, denied = int(message["ev"]), bool(message["denied"])
    endpoint = host.endpoint
    qpns = [qpn for qpn in host.peers if value in endpoint.qp(qpn).evs.by_value]
    for qpn in qpns:
        endpoint.deny_ev(qpn, value, denied, now_ns)
    if not qpns:
        raise UsageError(f"deny: no QP has EV {value:#x}")
    return {}


def _hook(host: "Host", message: Message, now_ns: int) -> Answer:
    _job(host).corrupt_byte(int(message["corrupt_byte"]))
    return {}


_HANDLERS: dict[str, Callable[["Host", Message, int], Answer]] = {
    "hello": _hello,
    "qp_create": _qp_create,
    "qp_connect": _qp_connect,
    "job_create": _job_create,
    "job_connect": _job_connect,
    "start": _start,
    "poll": _poll,
    "stop": _stop,
    "deny": _deny,
    "hook": _hook,
}


def _job(host: "Host") -> Any:
    if host.job is None:
        raise UsageError("there is no job yet: job_create comes first")
    return host.job


def _evs(evs: list[Any]) -> list[EvSpec]:
    return [
        EvSpec(ev, plane, None if outer_dst is None else bytes.fromhex(outer_dst))
        for ev, plane, outer_dst in evs
    ]


def _events(host: "Host") -> list[Answer]:
    return [
        {"t_ns": event.t_ns, "kind": event.kind, **event.fields}
        for event in host.endpoint.poll_trace()
    ]


def _ev_counts(host: "Host") -> dict[str, int]:
    total: dict[str, int] = {}
    for qpn in host.peers:
        for state, count in host.endpoint.qp(qpn).evs.counts().items():
            total[state] = total.get(state, 0) + count
    return total


def _job_report(host: "Host", now_ns: int) -> Answer:
    job = host.job
    end = now_ns if host.done_ns is None else host.done_ns
    return {
        "completed": host.done_ns is not None and host.error is None,
        "error": host.error,
        "bytes_corrupt": 0 if job is None else job.bytes_corrupt,
        "bytes_delivered": host.endpoint.delivered_bytes,
        "messages": 0 if job is None else job.messages,
        "duration_ns": 0 if host.start_ns is None else max(end - host.start_ns, 0),
        **({} if job is None else job.report()),
    }


def _qp_report(host: "Host", qpn: int) -> Answer:
    qp = host.endpoint.qp(qpn)
    return {
        "qpn": qpn,
        "peer": host.peers[qpn],
        "state": qp.state.value,
        "reason": qp.reason,
        "evs": [[ev.value, ev.plane, ev.state.value] for ev in qp.evs.evs],
        "sent": _pairs({ev.value: ev.sent for ev in qp.evs.evs}),
        "received": {name: _pairs(getattr(qp.responder, name).by_ev()) for name in ARRIVALS},
    }


def _pairs(counts: Mapping[int, int]) -> list[list[int]]:
    """Those that are not zero, as JSON can carry them."""
    return [[ev, count] for ev, count in counts.items() if count]
