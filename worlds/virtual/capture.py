"""Captures the frames of chosen ports while the loop runs, as tcpdump on those interfaces would."""

from io import BytesIO
from typing import BinaryIO

from topologies import addressing
from topologies.model import Fabric, PortRef
from worlds.api import WorldError, WorldSettings
from worlds.pcapng import PcapngWriter
from worlds.virtual.loop import VirtualLoop

FILE_NAME = "capture.pcapng"


class Capture:
    """Into `run_dir`, or into `memory` where there is none."""

    def __init__(
        self, fabric: Fabric, loop: VirtualLoop, index: dict[str, int], settings: WorldSettings
    ) -> None:
        """Raises WorldError for a name that is no port of this fabric."""
        self._loop = loop
        self._ports: dict[tuple[int, int], int] = {}
        ends = {
            addressing.interface_name(end.node, end.port): end
            for link in fabric.links
            for end in (link.lower, link.upper)
        }
        for number, name in enumerate(settings.pcap_ports):
            if name not in ends:
                raise WorldError(f"no port {name!r} to capture; a port is named like h0-eth0")
            self._ports[_key(ends[name], index)] = number
        self.memory = BytesIO()
        self._file: BinaryIO = self.memory
        if settings.run_dir is not None:
            self._file = (settings.run_dir / FILE_NAME).open("wb")
        self._writer = PcapngWriter(self._file, settings.pcap_ports)
        senders = {
            *self._ports,
            *((loop.links[p].dst, loop.links[p].dst_port) for p in self._ports),
        }
        loop.tap(self._see, senders)

    def close(self) -> None:
        if self._file is not self.memory:
            self._file.close()

    def _see(self, now_ns: int, index: int, port: int, frame: bytes) -> None:
        """A node sends: seen where it leaves, and where it arrives if the wire is up."""
        here = self._ports.get((index, port))
        if here is not None:
            self._writer.write(here, now_ns, frame, outbound=True)
        link = self._loop.links[index, port]
        there = self._ports.get((link.dst, link.dst_port))
        if there is not None and link.up:
            self._writer.write(there, now_ns, frame, outbound=False)


def _key(end: PortRef, index: dict[str, int]) -> tuple[int, int]:
    return index[end.node], end.port
