"""Writes what crosses some interfaces to one pcapng file: `python -m worlds.live.capture_process`.

A process of its own, so that capturing takes no time from the nodes'.  It gets its sockets, already
bound in the nodes' namespaces, with the first control message; end of file is the end, after what
is still in the sockets has been written.
"""

import argparse
import heapq
import select
import socket
import struct
import sys
import time
from pathlib import Path
from typing import BinaryIO

from worlds.live import libc
from worlds.live.control import ControlChannel
from worlds.pcapng import PcapngWriter

FILE_NAME = "capture.pcapng"
FRAME_BYTES_MAX = 9728
HOLD_NS = 200_000_000
"""Frames of different sockets are put in order over so long."""

SO_TIMESTAMPNS = 35
_PACKET_OUTGOING = 4
_TIMESPEC = struct.Struct("=qq")
_ANCILLARY = socket.CMSG_SPACE(_TIMESPEC.size)
_BATCH = 64

Seen = tuple[int, int, int, bytes, bool]
"""(ns, sequence, port, frame, outbound)"""


class Capture:
    """`epoch_ns`: CLOCK_REALTIME at the world's time 0."""

    def __init__(
        self, sockets: list[socket.socket], ports: list[str], file: BinaryIO, epoch_ns: int
    ) -> None:
        self._sockets = sockets
        self._epoch_ns = epoch_ns
        self._file = file
        self._writer = PcapngWriter(file, ports)
        self._held: list[Seen] = []
        self._sequence = 0

    def run(self, until: int) -> None:
        """Until that descriptor is readable."""
        numbers = {sock.fileno(): number for number, sock in enumerate(self._sockets)}
        while True:
            readable, _, _ = select.select([until, *numbers], [], [], HOLD_NS / 1e9)
            for fd in readable:
                if fd in numbers:
                    self._take(numbers[fd], _BATCH)
            self._write_before(time.time_ns() - self._epoch_ns - HOLD_NS)
            if until in readable:
                break
        for number in numbers.values():
            self._take(number, None)
        self._write_before(None)

    def _take(self, number: int, limit: int | None) -> None:
        sock = self._sockets[number]
        while limit is None or limit > 0:
            try:
                frame, ancillary, _, address = sock.recvmsg(FRAME_BYTES_MAX, _ANCILLARY)
            except BlockingIOError:
                return
            except OSError:  # the interface went down
                continue
            t_ns = time.time_ns()
            for _level, kind, data in ancillary:
                if kind == SO_TIMESTAMPNS:
                    seconds, ns = _TIMESPEC.unpack(data[: _TIMESPEC.size])
                    t_ns = seconds * 1_000_000_000 + ns
            self._sequence += 1
            outbound = address[2] == _PACKET_OUTGOING
            t_ns = max(t_ns - self._epoch_ns, 0)
            heapq.heappush(self._held, (t_ns, self._sequence, number, frame, outbound))
            limit = None if limit is None else limit - 1

    def _write_before(self, t_ns: int | None) -> None:
        held = self._held
        while held and (t_ns is None or held[0][0] < t_ns):
            at_ns, _, port, frame, outbound = heapq.heappop(held)
            self._writer.write(port, at_ns, frame, outbound=outbound)
        self._file.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--control-fd", type=int, required=True)
    channel = ControlChannel(socket.socket(fileno=parser.parse_args().control_fd))
    libc.die_with_parent()
    sockets: list[socket.socket] = []
    ports: list[str] = []
    while True:
        message, descriptors = channel.receive_with_descriptors()
        if "port" not in message:
            break
        sockets += [socket.socket(fileno=fd) for fd in descriptors]
        ports.append(message["port"])
    with Path(message["file"]).open("wb") as file:
        capture = Capture(sockets, ports, file, message["epoch_ns"])
        channel.send({})
        capture.run(channel.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
