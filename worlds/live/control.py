"""JSON messages over a SOCK_SEQPACKET socket, of any length, with descriptors where wanted.

A message travels in pieces that fit the socket's buffer; the first byte of a piece says whether it
is the last.  SOCK_SEQPACKET, so that the end of the other process is the end of the file.
"""

import json
import socket
from collections.abc import Mapping, Sequence
from typing import Any

PIECE_BYTES = 60_000
MESSAGE_BYTES_MAX = 64 << 20
_MORE = b"+"
_LAST = b"."
_DESCRIPTORS_MAX = 8


class ChannelClosed(Exception):
    """The other side is gone."""


class ControlChannel:
    """One end.  A message is sent and received whole; both block, unless a timeout is set."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, message: Mapping[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Raises ChannelClosed, TimeoutError."""
        data = json.dumps(message, separators=(",", ":")).encode()
        starts = range(0, len(data), PIECE_BYTES)
        try:
            for start in starts:
                mark = _LAST if start == starts[-1] else _MORE
                piece = mark + data[start : start + PIECE_BYTES]
                if descriptors and start == 0:
                    socket.send_fds(self.socket, [piece], list(descriptors))
                else:
                    self.socket.send(piece)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ChannelClosed from error

    def receive(self) -> dict[str, Any]:
        """Raises ChannelClosed, TimeoutError."""
        return self.receive_with_descriptors()[0]

    def receive_with_descriptors(self) -> tuple[dict[str, Any], list[int]]:
        data, descriptors = bytearray(), []
        while True:
            try:
                piece, found, _, _ = socket.recv_fds(self.socket, PIECE_BYTES + 1, _DESCRIPTORS_MAX)
            except ConnectionResetError as error:
                raise ChannelClosed from error
            descriptors += found
            if not piece or len(data) > MESSAGE_BYTES_MAX:
                raise ChannelClosed
            data += piece[1:]
            if piece[:1] == _LAST:
                message = json.loads(data)
                assert isinstance(message, dict)
                return message, descriptors

    def close(self) -> None:
        self.socket.close()


def pair() -> tuple[ControlChannel, ControlChannel]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return ControlChannel(ours), ControlChannel(theirs)
