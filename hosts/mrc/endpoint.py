"""A NIC that speaks MRC: the transport as a Node (worlds/node.py), without I/O.

Call order of a driver: `receive_frame`, `port_changed` and, when `next_timeout` has come,
`handle_timeout`; then `poll_transmit` until None; then `next_timeout`.  The application's calls
(`post_write`, ...) may come at any time; after them, poll again.
"""

from collections import deque
from collections.abc import Sequence
from random import Random

from hosts.errors import UsageError, WireError
from hosts.mrc import cc, choices
from hosts.mrc.config import EndpointConfig, RemoteQp
from hosts.mrc.ep_op import EndpointOps
from hosts.mrc.ev import Cause, Ev, EvSpec
from hosts.mrc.memory import MemoryRegion, MemoryTable
from hosts.mrc.message import Completion, WriteRequest
from hosts.mrc.peer import Peer
from hosts.mrc.port import Port
from hosts.mrc.qp import QpState, QueuePair
from hosts.mrc.requester import Requester
from hosts.mrc.services import Services
from hosts.mrc.silence import Silence
from hosts.mrc.timers import TimerKind
from hosts.mrc.trace import TraceEvent
from hosts.mrc.units import Ns
from hosts.wire.bth import Bth
from hosts.wire.ethernet import Ethernet
from hosts.wire.ipv6 import NEXT_HEADER_IPV6, Ipv6
from hosts.wire.opcode import ENDPOINT_QPN, WRITES, Opcode
from hosts.wire.packet import Packet, parse_frame
from hosts.wire.size import nominal_size
from hosts.wire.udp import Udp

FIRST_QPN = 3
"""0 to 2 are reserved (facts 2.4)."""

TURN_PACKETS = 16
"""A QP sends up to so many packets before the next QP has its turn: what is in the caches, the
processor's and ours, is used more than once."""

PASSES_MAX = 4
"""QPs that are asked before a port's slot goes by because their EVs there are to be skipped."""

_FIRST_WRITE, _LAST_WRITE = int(min(WRITES)), int(max(WRITES))
_SACK, _NACK = int(Opcode.SACK), int(Opcode.NACK)
_ACKNOWLEDGE, _PROBE = int(Opcode.ACKNOWLEDGE), int(Opcode.PROBE)
_ERROR = QpState.ERROR
_REVERSE_PROBE_PACKETS = choices.REVERSE_PROBE_PACKETS
_NEVER = 1 << 62


class Endpoint:
    """`ports[p]` of the configuration is in plane p.  All randomness comes from `rng`."""

    def __init__(self, config: EndpointConfig, rng: Random) -> None:
        self.config = config
        self._rng = rng
        self._ports = [Port(i, port.rate_bps) for i, port in enumerate(config.ports)]
        self._ops = self.endpoint_ops = EndpointOps(self)
        self.services = Services(
            config=config,
            rng=rng,
            memory=MemoryTable(rng),
            send_control=self._send_control,
            probe_ev=self._ops.probe_ev,
        )
        self._counters = self.services.counters
        self._timers = self.services.timers
        self._qps: dict[int, QueuePair] = {}
        self.peers: dict[bytes, Peer] = {}
        self._next_qpn = FIRST_QPN
        self._ready: dict[int, deque[QueuePair]] = {}
        """QPs with something to send, by the mask of planes they can use."""
        self._ready_masks: list[int] = []
        self._mask_turn = 0
        self._controls_waiting = 0
        self._control_turn = 0
        """Ports take turns with control packets, so that these leave about in their order."""
        self._quiet_until = 0
        """Nothing can be sent before this, unless something happens."""
        self._slot_bytes = nominal_size(config.pmtu)
        self._free = 0
        """Planes by which a frame may leave, as of `_free_at`."""
        self._free_at = -1
        self._now = 0

    # -- set-up ----------------------------------------------------------------------------------

    def register_memory(self, size: int, pd: int = 0) -> MemoryRegion:
        return self.services.memory.register(size, pd)

    def create_qp(
        self, evs: Sequence[EvSpec], backup: Sequence[EvSpec] = (), pd: int = 0
    ) -> QueuePair:
        """A QP in INIT; `connect_qp` takes it to RTS.  Raises UsageError."""
        if not evs:
            raise UsageError("a QP without EVs")
        qpn = self._next_qpn
        self._next_qpn += 1
        rng = Random(self._rng.getrandbits(64))  # so that QPs do not shift each other's draws
        qp = QueuePair(
            qpn, evs, backup, services=self.services, rng=rng, psn=rng.getrandbits(24), pd=pd,
            cc=cc.make(self.config),
        )  # fmt: skip
        self._qps[qpn] = qp
        return qp

    def connect_qp(self, qpn: int, remote: RemoteQp) -> None:
        qp = self.qp(qpn)
        qp.connect(remote, self._now)
        peer = self.peers.get(remote.gid)
        if peer is None:
            peer = self.peers[remote.gid] = Peer(remote.gid, (1 << len(self._ports)) - 1)
        peer.qps.append(qp)
        for port in self._ports:
            if not port.in_service:
                qp.plane_down(port.index, Cause.PORT, self._now)
            elif not peer.port_mask >> port.index & 1:
                qp.plane_down(port.index, Cause.PEER_PORT, self._now)
        if not all(port.in_service for port in self._ports):
            self._ops.tell_peer(peer, self._now)

    def qp(self, qpn: int) -> QueuePair:
        """Raises UsageError if there is none of that number."""
        qp = self._qps.get(qpn)
        if qp is None:
            raise UsageError(f"no QP {qpn}")
        return qp

    def post_write(self, qpn: int, request: WriteRequest) -> None:
        qp = self.qp(qpn)
        qp.post(request)
        self._schedule(qp)

    def deny_ev(self, qpn: int, value: int, denied: bool, now_ns: int) -> None:
        """The controller's word on an EV of a QP.  Raises UsageError if there is no such EV."""
        self._now = now_ns
        qp = self.qp(qpn)
        ev = qp.evs.by_value.get(value)
        if ev is None:
            raise UsageError(f"QP {qpn} has no EV {value:#x}")
        if denied:
            qp.requester.health.deny(ev, now_ns)
        else:
            qp.requester.health.allow(ev, now_ns)
        self._schedule_all()

    # -- what comes out --------------------------------------------------------------------------

    def poll_completions(self) -> list[Completion]:
        """Completions since the last call, oldest first."""
        done = self.services.completions
        if not done:
            return []
        self.services.completions = []
        return done

    def poll_trace(self) -> list[TraceEvent]:
        return self.services.trace.take()

    def counters(self) -> dict[str, int]:
        """See hosts.mrc.counters."""
        return self._counters.as_dict()

    @property
    def delivered_bytes(self) -> int:
        """Payload placed so far, each byte once."""
        return self._counters.rx_payload_bytes

    @property
    def qps(self) -> list[QueuePair]:
        return list(self._qps.values())

    @property
    def port_mask(self) -> int:
        """Bit p = our port in plane p is in service."""
        return sum(1 << port.index for port in self._ports if port.in_service)

    # -- Node: frames in -------------------------------------------------------------------------

    def receive_frame(self, port: int, frame: bytes, now_ns: int) -> None:
        self._now = now_ns
        self._quiet_until = 0
        counters = self._counters
        try:
            packet = parse_frame(frame)
        except WireError as error:
            counters.drop(error.reason)
            if error.reason == "opcode":
                self._invalid_opcode(frame, now_ns)
            return
        if packet.inner_dst != self.config.gid:
            counters.rx_misdelivered += 1
            return
        opcode = packet.opcode
        if packet.dest_qpn == ENDPOINT_QPN:
            self._ops.receive(packet, port, now_ns)
            return
        qp = self._qps.get(packet.dest_qpn)
        if _FIRST_WRITE <= opcode <= _LAST_WRITE:
            self._receive_data(qp, packet, now_ns)
        else:
            self._receive_control(qp, packet, opcode, now_ns)

    def _receive_data(self, qp: QueuePair | None, packet: Packet, now: Ns) -> None:
        if qp is None or qp.remote is None or packet.inner_src != qp.remote.gid:
            self._counters.rx_data_no_qp += 1
        elif qp.state is _ERROR:
            qp.responder.receive_in_error(packet)
        else:
            qp.responder.receive_write(packet, now)
            reverse = qp.reverse
            reverse.inbound += 1
            if reverse.inbound >= _REVERSE_PROBE_PACKETS:
                reverse.probe(now)

    def _invalid_opcode(self, frame: bytes, now: Ns) -> None:
        """Not one of the twelve opcodes, but intact (the iCRC is checked first): NAK, QP error."""
        ip = Ipv6.parse(frame, Ethernet.LENGTH)
        at = Ethernet.LENGTH + Ipv6.LENGTH
        if ip.next_header == NEXT_HEADER_IPV6:
            ip = Ipv6.parse(frame, at)
            at += Ipv6.LENGTH
        bth = Bth.parse(frame, at + Udp.LENGTH)
        qp = self._qps.get(bth.dest_qpn)
        if (
            qp is not None
            and qp.state is QpState.RTS
            and qp.remote is not None
            and (ip.src, ip.dst) == (qp.remote.gid, self.config.gid)
        ):
            qp.responder.invalid_opcode(bth.psn, now)

    def _receive_control(self, qp: QueuePair | None, packet: Packet, opcode: int, now: Ns) -> None:
        counters = self._counters
        if (
            qp is None
            or qp.remote is None
            or packet.inner_src != qp.remote.gid
            or qp.state is _ERROR
        ):
            counters.rx_control_no_qp += 1
            return
        requester = qp.requester
        if opcode == _SACK:
            assert packet.sack is not None
            counters.rx_sack += 1
            requester.receive_sack(packet.sack, now)
        elif opcode == _ACKNOWLEDGE:
            assert packet.aeth is not None
            if packet.aeth.is_nak:
                counters.rx_nak += 1
            else:
                counters.rx_ack += 1
            requester.receive_ack(packet.aeth, now)
        elif opcode == _NACK:
            assert packet.nack is not None
            counters.rx_nack += 1
            requester.receive_nack(packet.nack, now)
        elif opcode == _PROBE:
            counters.rx_probe += 1
            qp.responder.receive_probe(packet)
            return
        else:
            counters.rx_control_invalid += 1
            return
        if not qp.queued:
            self._schedule(qp)

    # -- Node: time ------------------------------------------------------------------------------

    def handle_timeout(self, now_ns: int) -> None:
        self._now = now_ns
        self._quiet_until = 0
        timers = self._timers
        while (timer := timers.pop_due(now_ns)) is not None:
            owner = timer.owner
            match timer.kind:
                case TimerKind.EV:
                    assert isinstance(owner, Ev)
                    owner.requester.health.on_ev_timer(owner, now_ns)
                    self._schedule(owner.requester.qp)
                case TimerKind.RETRANSMIT:
                    assert isinstance(owner, Requester)
                    owner.on_retransmit_timer(now_ns)
                    self._schedule(owner.qp)
                case TimerKind.TAIL:
                    assert isinstance(owner, Silence)
                    owner.on_tail_timer(now_ns)
                case TimerKind.STALL:
                    assert isinstance(owner, Silence)
                    owner.on_stall_timer(now_ns)
                case TimerKind.HOLD_DOWN:
                    assert isinstance(owner, Port)
                    self._port_returns(owner, now_ns)
                case TimerKind.PORT_STATUS:
                    assert isinstance(owner, Peer)
                    self._ops.on_timer(owner, now_ns)

    def next_timeout(self) -> int | None:
        quiet, due = self._quiet_until, self._timers.next_due()
        if due is None:
            return None if quiet == _NEVER else quiet
        return due if due < quiet else quiet

    # -- Node: frames out ------------------------------------------------------------------------

    def poll_transmit(self, now_ns: int) -> tuple[int, bytes] | None:
        if now_ns < self._quiet_until:
            return None
        self._now = now_ns
        if now_ns == self._free_at:
            free = self._free
        else:
            self._free = free = self._free_ports(now_ns)
            self._free_at = now_ns
        if free:
            sent = self._transmit_control(free) if self._controls_waiting else None
            if sent is None:
                sent = self._transmit_data(free, now_ns)
            if sent is not None:
                plane, frame = sent
                port = self._ports[plane]
                port.charge(len(frame), now_ns)
                if port.next_free_ns > now_ns:
                    self._free &= ~(1 << plane)
                return sent
        self._quiet_until = self._next_opportunity()
        return None

    def _free_ports(self, now: Ns) -> int:
        """Mask of the planes by which a frame may leave now."""
        free = 0
        for port in self._ports:
            if port.next_free_ns <= now and port.in_service:
                free |= 1 << port.index
        return free

    def _transmit_control(self, free: int) -> tuple[int, bytes] | None:
        ports, turn = self._ports, self._control_turn
        for _ in ports:
            port = ports[turn]
            turn = turn + 1 if turn + 1 < len(ports) else 0
            if port.control and free >> port.index & 1:
                self._control_turn = turn
                self._controls_waiting -= 1
                return port.index, port.control.popleft()
        return None

    def _transmit_data(self, free: int, now: Ns) -> tuple[int, bytes] | None:
        masks = self._ready_masks
        passes = 0
        for _ in masks:
            self._mask_turn = turn = (self._mask_turn + 1) % len(masks)
            mask = masks[turn]
            queue = self._ready[mask]
            while queue and mask & free:
                qp = queue[0]
                requester = qp.requester
                if qp.evs.plane_mask & qp.live_mask == mask and requester.ready():
                    sent = requester.transmit(free, now)
                    if sent is not None:
                        qp.turn -= 1
                        if not qp.turn:
                            qp.turn = TURN_PACKETS
                            queue.rotate(-1)
                        return sent
                    qp.turn = TURN_PACKETS
                    queue.rotate(-1)
                    passes += 1
                    if passes >= min(len(queue), PASSES_MAX):
                        self._pass_by(mask & free, now)
                        free &= ~mask
                    continue
                queue.popleft()
                qp.queued = False
                if qp.evs.plane_mask & qp.live_mask != mask:
                    self._schedule(qp)
        return None

    def _pass_by(self, planes: int, now: Ns) -> None:
        """QPs would rather wait than use these planes, which are loaded: a slot goes by."""
        for port in self._ports:
            if planes >> port.index & 1:
                port.pass_by(self._slot_bytes, now)
        self._free &= ~planes

    def _next_opportunity(self) -> int:
        """When a port with something to send becomes free."""
        wanted = 0
        for mask in self._ready_masks:
            if self._ready[mask]:
                wanted |= mask
        earliest = _NEVER
        for port in self._ports:
            if (
                port.in_service
                and (port.control or wanted >> port.index & 1)
                and port.next_free_ns < earliest
            ):
                earliest = port.next_free_ns
        return earliest

    def _schedule(self, qp: QueuePair) -> None:
        """Put a QP where `poll_transmit` finds it, if it may send."""
        self._quiet_until = 0
        if qp.queued or not qp.requester.ready():
            return
        mask = qp.evs.plane_mask & qp.live_mask
        if not mask:
            qp.requester.silence.stalled(self._now)
            return
        queue = self._ready.get(mask)
        if queue is None:
            queue = self._ready[mask] = deque()
            self._ready_masks.append(mask)
        qp.queued = True
        queue.append(qp)

    def _schedule_all(self) -> None:
        """Planes came or went: QPs that wait may wait for a port that is not there any more."""
        for queue in self._ready.values():
            queue.clear()
        for qp in self._qps.values():
            qp.queued = False
            self._schedule(qp)

    def _send_control(self, plane: int, frame: bytes) -> None:
        port = self._ports[plane]
        if port.in_service:
            port.control.append(frame)
            if not self._controls_waiting:
                self._control_turn = plane
            self._controls_waiting += 1
            self._quiet_until = 0
        else:
            self._counters.control_dropped += 1

    # -- Node: ports -----------------------------------------------------------------------------

    def port_changed(self, port: int, up: bool, now_ns: int) -> None:
        self._now = now_ns
        it = self._ports[port]
        if it.carrier != up:
            it.carrier = up
            self._port_moved(it, now_ns)

    def port_admin_up(self, port: int) -> bool:
        """The administrator's last word (mrc_ctl_query_port)."""
        return self._ports[port].admin_up

    def set_port_admin(self, port: int, up: bool, now_ns: int) -> None:
        """The administrator's word (mrc_ctl_modify_port)."""
        self._now = now_ns
        it = self._ports[port]
        if it.admin_up != up:
            it.admin_up = up
            self._port_moved(it, now_ns)

    def _port_moved(self, port: Port, now: Ns) -> None:
        self._quiet_until = 0
        if port.carrier and port.admin_up:
            self._timers.set(port.hold_timer, now + self.config.hold_down_ns)
        else:
            self._timers.stop(port.hold_timer)
            if port.in_service:
                self._port_leaves(port, now)

    def _port_leaves(self, port: Port, now: Ns) -> None:
        port.in_service = False
        self._free_at = -1
        self._counters.control_dropped += len(port.control)
        self._controls_waiting -= len(port.control)
        port.control.clear()
        self.services.trace.add(now, "port", plane=port.index, up=False)
        for qp in self._qps.values():
            if qp.live_mask >> port.index & 1:
                qp.plane_down(port.index, Cause.PORT, now)
        self._schedule_all()
        self._ops.tell_peers(now)

    def _port_returns(self, port: Port, now: Ns) -> None:
        port.in_service = True
        port.next_free_ns = now
        self._free_at = -1
        self.services.trace.add(now, "port", plane=port.index, up=True)
        self._ops.tell_peers(now)
        for peer in self.peers.values():
            if peer.port_mask >> port.index & 1:
                for qp in peer.qps:
                    qp.plane_up(port.index, now)
        self._schedule_all()

    def peer_ports(self, peer: Peer, mask: int, now: Ns) -> None:
        """A peer says which of its ports are up."""
        changed = peer.port_mask ^ mask
        peer.port_mask = mask
        for port in self._ports:
            if not changed >> port.index & 1:
                continue
            up = bool(mask >> port.index & 1)
            for qp in peer.qps:
                if not up:
                    qp.plane_down(port.index, Cause.PEER_PORT, now)
                elif port.in_service:
                    qp.plane_up(port.index, now)
        self._schedule_all()
