"""Drives one Node by the machine's clock: raw ports, carriers, deadlines and a control channel.

One thread, one select, no queue of its own.  Call order as worlds/node.py has it: what is due, what
came in, then everything the node has to send.
"""

import gc
import select
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from worlds.live import libc
from worlds.live.carrier import CarrierWatch
from worlds.live.control import ChannelClosed, ControlChannel
from worlds.live.lateness import Histogram
from worlds.live.raw_port import RawPort
from worlds.node import Node

RECEIVE_BATCH = 16
"""Frames of one port before the others have their turn and what they caused is sent."""

LATE_FRAMES = 2
"""A sender that is late by so many frame times catches up (design section 8); more is lost."""

IDLE_NS = 5_000_000
"""With this long until the next deadline, there is time to collect garbage."""

GC_EVERY_NS = 1_000_000_000
_FOREVER_S = 3600.0

Control = Callable[[dict[str, Any], int], Mapping[str, Any]]
clock = time.monotonic_ns


class RealTime:
    """`ports`, by number, with the index of each interface.  `control`: answers the runner.

    `lost_ns`: by how much sends that a deadline asked for were later than a port can catch up with;
    a process that is late is late for all its ports, so this is time, not time by port.  `taken`:
    frames read, by port.

    `node` may be replaced at any time (None: frames are read and forgotten); `epoch_ns` is the
    CLOCK_MONOTONIC reading at which the world's time is 0.
    """

    def __init__(
        self,
        ports: Sequence[RawPort],
        indexes: Sequence[int],
        carrier: CarrierWatch,
        channel: ControlChannel,
        control: Control,
    ) -> None:
        self.node: Node | None = None
        self.epoch_ns = clock()
        self.timers = Histogram()
        self.sends = Histogram()
        self.ports = ports
        self.rates_bps = [0] * len(ports)
        self.lost_ns = 0
        self.taken = [0] * len(ports)
        self._busy_ns = [0] * len(ports)
        self.up = [True] * len(ports)
        self._port_of_index = {index: port for port, index in enumerate(indexes)}
        self._carrier = carrier
        self._channel = channel
        self._control = control
        self._asked_ns = 0
        self._next_gc_ns = 0

    def run(self) -> None:
        """Until the runner closes its end of the channel."""
        libc.wake_exactly()
        by_fd = {port.fileno(): number for number, port in enumerate(self.ports)}
        carrier_fd, control_fd = self._carrier.fileno(), self._channel.fileno()
        fds = [control_fd, carrier_fd, *by_fd]
        try:
            while True:
                readable, _, _ = select.select(fds, (), (), self._patience_s())
                self._send_what_is_due(clock() - self.epoch_ns)
                for fd in readable:
                    number, now_ns = by_fd.get(fd), clock() - self.epoch_ns
                    if number is not None:
                        self._receive(number, now_ns)
                    elif fd == carrier_fd:
                        self._hear_carriers(now_ns)
                    else:
                        self._answer(now_ns)
                    self._send_what_is_due(clock() - self.epoch_ns)
        except ChannelClosed:
            return

    def measure_anew(self, rates_bps: Sequence[int]) -> None:
        """Forget all lateness; frames count by the rates, in bits a second, from here on."""
        self.timers, self.sends = Histogram(), Histogram()
        self.rates_bps = list(rates_bps)
        self.lost_ns = 0
        self._busy_ns = [0] * len(rates_bps)

    @property
    def busy_ns(self) -> int:
        """How long the busiest port has been sending."""
        return max(self._busy_ns, default=0)

    def tell_carriers(self, node: Node) -> None:
        """A new node takes its ports for up: say which are not."""
        for port, up in enumerate(self.up):
            if not up:
                node.port_changed(port, False, clock() - self.epoch_ns)

    def _patience_s(self) -> float:
        node = self.node
        if node is None:
            return _FOREVER_S
        due_ns = node.next_timeout()
        now_ns = self._asked_ns = clock() - self.epoch_ns
        wait_ns = GC_EVERY_NS if due_ns is None else due_ns - now_ns
        if wait_ns > IDLE_NS and now_ns >= self._next_gc_ns:
            self._next_gc_ns = now_ns + GC_EVERY_NS
            gc.collect(1)
            return 0.0
        return wait_ns / 1e9 if wait_ns > 0 else 0.0

    def _send_what_is_due(self, now_ns: int) -> None:
        """Serves the deadline, if it has come, and sends all that the node has to send."""
        node = self.node
        if node is not None:
            since_ns = self._serve_deadline(node, now_ns)
            self._transmit(node, now_ns, since_ns)

    def _serve_deadline(self, node: Node, now_ns: int) -> int:
        """When what is sent from here on should have left: the deadline, or now."""
        asked_ns, self._asked_ns = self._asked_ns, now_ns
        due_ns = node.next_timeout()
        if due_ns is None or due_ns > now_ns:
            return now_ns
        node.handle_timeout(now_ns)
        if due_ns <= asked_ns:  # past already when we heard of it: work, not a deadline
            return now_ns
        self.timers.add(now_ns - due_ns)
        return due_ns

    def _receive(self, number: int, now_ns: int) -> None:
        port, node = self.ports[number], self.node
        for _ in range(RECEIVE_BATCH):
            frame = port.receive()
            if frame is None:
                return
            self.taken[number] += 1
            if node is not None:
                node.receive_frame(number, frame, now_ns)

    def _transmit(self, node: Node, now_ns: int, since_ns: int) -> None:
        item = node.poll_transmit(now_ns)
        if item is None:
            return
        ports, rates, busy_ns = self.ports, self.rates_bps, self._busy_ns
        frame_ns = 0
        while item is not None:
            number, frame = item
            ports[number].send(frame)
            if rates[number]:
                frame_ns = len(frame) * 8_000_000_000 // rates[number]
                busy_ns[number] += frame_ns
            item = node.poll_transmit(now_ns)
        late_ns = clock() - self.epoch_ns - since_ns
        self.sends.add(late_ns)
        if late_ns > LATE_FRAMES * frame_ns and since_ns < now_ns:
            self.lost_ns += late_ns - LATE_FRAMES * frame_ns

    def _hear_carriers(self, now_ns: int) -> None:
        for index, up in self._carrier.read():
            port = self._port_of_index.get(index)
            if port is not None and self.up[port] != up:
                self.up[port] = up
                if self.node is not None:
                    self.node.port_changed(port, up, now_ns)

    def _answer(self, now_ns: int) -> None:
        message = self._channel.receive()
        self._channel.send(self._control(message, now_ns))
