"""What ended incarnations of a switch had counted, so that counts of a run never fall."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from switches.api import CounterValue, PortStats, QueueStats
from switches.engine.device import Device

SNAPSHOT_TRIES = 20
"""A live switch goes on emptying its queues while it is asked: a frame that left between two
answers would be counted twice or not at all, so it is asked again."""


class HasDevice(Protocol):
    """A switch of the engine, library or process."""

    @property
    def device(self) -> Device: ...


class Past:
    """`frames`: how many were inside when the power went."""

    def __init__(self) -> None:
        self.frames = 0
        self._ports: list[PortStats] = []
        self._counters: dict[str, list[CounterValue]] = {}

    def bury(self, node: HasDevice, held: int | None = None) -> None:
        """Take over the counts of a switch that is about to end, with `held` frames inside.

        None: all its buffers in use, which is right where it shares them with no other switch.
        """
        device = node.device
        tries = 0
        while True:
            before = device.switch_stats().buffers
            ports = device.port_stats()
            counters = {name: device.read_counter(name) for name in device.program.counter_by_name}
            tries += 1
            if tries == SNAPSHOT_TRIES or device.switch_stats().buffers == before:
                break
        self.take_over(ports, counters, before if held is None else held)

    def take_over(
        self, ports: list[PortStats], counters: Mapping[str, list[CounterValue]], held: int
    ) -> None:
        """As `bury`, from counts already read."""
        self.frames += held
        self._ports = self.with_ports([_emptied(port) for port in ports])
        for name, cells in counters.items():
            self._counters[name] = self.with_counter(name, cells)

    def with_ports(self, now: list[PortStats]) -> list[PortStats]:
        """These and the present incarnation's, an empty list if there is none."""
        if not self._ports or not now:
            return self._ports or now
        return [_add_port(a, b) for a, b in zip(self._ports, now, strict=True)]

    def with_counter(self, name: str, now: list[CounterValue]) -> list[CounterValue]:
        before = self._counters.get(name, [])
        if not before or not now:
            return before or now
        return [
            CounterValue(a.packets + b.packets, a.bytes + b.bytes)
            for a, b in zip(before, now, strict=True)
        ]


def _emptied(port: PortStats) -> PortStats:
    queues = tuple(replace(queue, depth_packets=0, depth_bytes=0) for queue in port.queues)
    return replace(port, up=False, queues=queues)


def _add_port(a: PortStats, b: PortStats) -> PortStats:
    return PortStats(
        port=b.port,
        up=b.up,
        rx_packets=a.rx_packets + b.rx_packets,
        rx_bytes=a.rx_bytes + b.rx_bytes,
        tx_packets=a.tx_packets + b.tx_packets,
        tx_bytes=a.tx_bytes + b.tx_bytes,
        link_down=a.link_down + b.link_down,
        ring_drops=a.ring_drops + b.ring_drops,
        queues=tuple(_add_queue(x, y) for x, y in zip(a.queues, b.queues, strict=True)),
    )


def _add_queue(a: QueueStats, b: QueueStats) -> QueueStats:
    """Counts add up; depths are of now, and of the deepest ever."""
    return QueueStats(
        enqueued=a.enqueued + b.enqueued,
        dequeued=a.dequeued + b.dequeued,
        dropped=a.dropped + b.dropped,
        trim=a.trim + b.trim,
        trim_sent=a.trim_sent + b.trim_sent,
        trim_drop=a.trim_drop + b.trim_drop,
        depth_packets=b.depth_packets,
        depth_bytes=b.depth_bytes,
        depth_packets_max=max(a.depth_packets_max, b.depth_packets_max),
    )
