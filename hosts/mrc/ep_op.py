"""Endpoint operations (QPN 2): port status and connectionless EV probes, requests and answers.

They belong to no QP, but only a QP knows paths to a peer, so they travel on a QP's EVs.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from hosts.mrc import choices
from hosts.mrc.ev import Ev
from hosts.mrc.peer import Peer
from hosts.mrc.psn import serial_diff
from hosts.mrc.qp import QpState, QueuePair
from hosts.mrc.units import Ns, ticks
from hosts.wire.eeth import Eeth
from hosts.wire.erth import EndpointOp, Erth
from hosts.wire.opcode import ENDPOINT_QPN
from hosts.wire.packet import Packet
from hosts.wire.path import Path

if TYPE_CHECKING:
    from hosts.mrc.endpoint import Endpoint

REQUEST_ID_BITS = 16
Answered = Callable[[int, Ns], None]
"""(plane the answer came in by, time)."""

EV_PROBES_MAX = 4096
"""Unanswered EV probes remembered; the oldest are forgotten first."""


class EndpointOps:
    __slots__ = ("_asked", "_endpoint", "_ev_probes", "_next_id")

    def __init__(self, endpoint: "Endpoint") -> None:
        self._endpoint = endpoint
        self._next_id = 0
        self._ev_probes: dict[int, Ev] = {}
        self._asked: dict[int, Answered] = {}

    def _new_id(self) -> int:
        request_id = self._next_id
        self._next_id = (request_id + 1) % (1 << REQUEST_ID_BITS)
        return request_id

    # -- requests --------------------------------------------------------------------------------

    def tell_peers(self, now: Ns) -> None:
        for peer in self._endpoint.peers.values():
            self.tell_peer(peer, now)

    def tell_peer(self, peer: Peer, now: Ns) -> None:
        """PORT_STATUS_UPDATE on every live plane, repeated until answered."""
        peer.pending_id = self._new_id()
        peer.repeats = 0
        self._send_status(peer, now)

    def on_timer(self, peer: Peer, now: Ns) -> None:
        if peer.pending_id is not None:
            peer.repeats += 1
            self._send_status(peer, now)

    def _send_status(self, peer: Peer, now: Ns) -> None:
        endpoint = self._endpoint
        assert peer.pending_id is not None
        mask = endpoint.port_mask
        header = Erth(op=EndpointOp.PORT_STATUS_UPDATE, port_status_mask=mask, **self._stamp(now))
        qp = peer.some_qp(_is_open)
        if qp is None:
            peer.pending_id = None  # nothing runs between us any more
            return
        live = mask & peer.port_mask or mask
        for plane in range(len(endpoint.config.ports)):
            ev = qp.evs.reverse_of(plane) if live >> plane & 1 else None
            if ev is not None:
                frame = qp.path(ev).emit_control(ENDPOINT_QPN, header, psn=peer.pending_id)
                endpoint.services.counters.tx_ep_request += 1
                endpoint.services.send_control(plane, frame)
        wait = peer.wait_ns(endpoint.config.rto_ns, choices.PORT_STATUS_REPEAT_MAX_NS)
        endpoint.services.timers.set(peer.timer, now + wait)

    def probe_ev(self, ev: Ev, now: Ns) -> None:
        """An EV probe; its answer goes to the `reverse` set of the EV's QP."""
        qp = ev.requester.qp
        request_id = self._new_id()
        if len(self._ev_probes) >= EV_PROBES_MAX:
            del self._ev_probes[next(iter(self._ev_probes))]
        self._ev_probes[request_id] = ev
        header = Erth(op=EndpointOp.EV_PROBE, **self._stamp(now))
        frame = qp.path(ev).emit_control(ENDPOINT_QPN, header, psn=request_id)
        self._endpoint.services.counters.tx_ep_request += 1
        self._endpoint.services.send_control(ev.plane, frame)

    def ask(
        self, path: Path, plane: int, header: Erth, *, tclass: int,
        answered: Answered, now: Ns,
    ) -> int:  # fmt: skip
        """A request of the controller's own, on whatever path; returns its id, for `forget`.

        `header` gets the time stamp.  The peer must have a QP with us: only a QP knows the way
        back.
        """
        request_id = self._new_id()
        self._asked[request_id] = answered
        stamped = replace(header, **self._stamp(now))
        frame = path.emit_control(ENDPOINT_QPN, stamped, psn=request_id, traffic_class=tclass)
        self._endpoint.services.counters.tx_ep_request += 1
        self._endpoint.services.send_control(plane, frame)
        return request_id

    def forget(self, request_id: int) -> None:
        """Its answer no longer matters."""
        self._asked.pop(request_id, None)

    def _stamp(self, now: Ns) -> dict[str, int]:
        tick_ns = self._endpoint.config.tick_ns
        return {"tx_ticks": ticks(now, tick_ns), "tsr": int(tick_ns != 128)}

    # -- arrivals --------------------------------------------------------------------------------

    def receive(self, packet: Packet, plane: int, now: Ns) -> None:
        counters = self._endpoint.services.counters
        peer = self._endpoint.peers.get(packet.inner_src)
        if peer is None:
            counters.rx_control_no_qp += 1
        elif packet.erth is not None:
            counters.rx_ep_request += 1
            self._request(peer, packet, packet.erth, now)
        elif packet.eeth is not None:
            counters.rx_ep_response += 1
            self._response(peer, packet, packet.eeth, plane, now)
        else:
            counters.rx_control_invalid += 1

    def _request(self, peer: Peer, packet: Packet, erth: Erth, now: Ns) -> None:
        request_id = packet.psn & 0xFFFF
        if erth.op == EndpointOp.PORT_STATUS_UPDATE:
            last = peer.last_request_id
            if last is None or serial_diff(request_id, last, REQUEST_ID_BITS) >= 0:
                peer.last_request_id = request_id
                if erth.port_status_mask != peer.port_mask:
                    self._endpoint.services.trace.add(
                        now, "port_status", plane_mask=erth.port_status_mask, peer=peer.gid.hex()
                    )
                    self._endpoint.peer_ports(peer, erth.port_status_mask, now)
        counters = self._endpoint.services.counters
        counters.tx_ep_response += 1
        qp = peer.some_qp(_is_open)
        ev = qp.reverse.next() if qp is not None else None
        if qp is None or ev is None:
            counters.control_dropped += 1
            return
        header = Eeth(op=erth.op, tx_ticks=erth.tx_ticks)
        frame = qp.path(ev).emit_control(ENDPOINT_QPN, header, psn=request_id)
        self._endpoint.services.send_control(ev.plane, frame)

    def _response(self, peer: Peer, packet: Packet, eeth: Eeth, plane: int, now: Ns) -> None:
        request_id = packet.psn & 0xFFFF
        answered = self._asked.pop(request_id, None)
        if answered is not None:
            answered(plane, now)
            return
        if eeth.op == EndpointOp.PORT_STATUS_UPDATE:
            if request_id == peer.pending_id:
                peer.pending_id = None
                self._endpoint.services.timers.stop(peer.timer)
            return
        ev = self._ev_probes.pop(request_id, None)
        if ev is not None:
            ev.requester.qp.reverse.answered(ev)


def _is_open(qp: QueuePair) -> bool:
    return qp.state is QpState.RTS
