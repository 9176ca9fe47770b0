"""Links over rtnetlink: encoded and decoded by pyroute2, sent by one socket a namespace in batches.

A veth pair is one message: names, addresses, MTU and namespaces of both ends at once.  The near end
is up from the start; the far end needs a second message (veth refuses to open an end whose peer
does not exist yet).

Every interface gets an index of its own over the whole fabric.  Not for looks: the kernel delays
the news of a lost carrier by up to a second where an interface and its peer have the same index
(`linkwatch_urgent_event` takes that for "no peer").
"""

import itertools
import os
import socket
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pyroute2.netlink import NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REQUEST
from pyroute2.netlink.rtnl import RTM_DELLINK, RTM_GETLINK, RTM_NEWLINK
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

IFF_UP = 0x1
IFF_NOARP = 0x80

TX_QUEUE_FRAMES = 1000
"""Linux's default; the links have no queueing discipline, so nothing ever waits in it."""

_BATCH = 16
"""Messages sent before their answers are read, so that neither side's buffer fills."""

_RECEIVE_BYTES = 1 << 17
_HEADER = struct.Struct("=IHHII")
_IFINFO = struct.Struct("=BxHiII")
_NLMSG_ERROR = 2
_NLMSG_DONE = 3


@dataclass(frozen=True, slots=True)
class End:
    """One end of a link that is to be made: where, what name, index and MAC address."""

    namespace_fd: int
    name: str
    index: int
    mac: bytes


@dataclass(frozen=True, slots=True)
class InterfaceState:
    """What the kernel says of an interface: flags, whether a carrier is there, and its counters."""

    name: str
    index: int
    mtu: int
    flags: int
    carrier: bool
    stats: dict[str, int]


class Netlink:
    """An rtnetlink socket of the namespace in which it is made.  Raises OSError on a refusal."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES * 2)
        self.socket.bind((0, 0))
        self._sequence = itertools.count(1)

    def make_links(self, pairs: Iterable[tuple[End, End]], mtu: int) -> None:
        """One veth pair each; the first end of a pair is up, the second down."""
        flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL
        self._send([_message(RTM_NEWLINK, flags, _pair(near, far, mtu)) for near, far in pairs])

    def set_up(self, indexes: Iterable[int], up: bool) -> None:
        self._send([_set_up(index, up) for index in indexes])

    def delete(self, index: int) -> None:
        self._send([_message(RTM_DELLINK, NLM_F_ACK, {"index": index})])

    def interfaces(self) -> list[InterfaceState]:
        """All interfaces of the namespace, loopback left out."""
        request = _message(RTM_GETLINK, NLM_F_DUMP, {})
        self.socket.send(request)
        out: list[InterfaceState] = []
        while True:
            for kind, data in _split(self.socket.recv(_RECEIVE_BYTES)):
                if kind == _NLMSG_DONE:
                    return out
                _raise_on_error(kind, data)
                state = _decode(data)
                if state.name != "lo":
                    out.append(state)

    def close(self) -> None:
        self.socket.close()

    def _send(self, messages: list[bytearray]) -> None:
        for batch in _chunks(messages):
            for message in batch:
                struct.pack_into("=I", message, 8, next(self._sequence))
            self.socket.send(b"".join(batch))
            answers = 0
            refused: OSError | None = None
            while answers < len(batch):
                for kind, data in _split(self.socket.recv(_RECEIVE_BYTES)):
                    answers += 1
                    try:
                        _raise_on_error(kind, data)
                    except OSError as error:
                        refused = refused or error
            if refused:
                raise refused


def _chunks(messages: list[bytearray]) -> Iterator[list[bytearray]]:
    for start in range(0, len(messages), _BATCH):
        yield messages[start : start + _BATCH]


def _pair(near: End, far: End, mtu: int) -> dict[str, object]:
    peer = {"index": far.index, "flags": IFF_NOARP, "change": IFF_NOARP, "attrs": _end(far, mtu)}
    link = {
        "attrs": [
            ("IFLA_INFO_KIND", "veth"),
            ("IFLA_INFO_DATA", {"attrs": [("VETH_INFO_PEER", peer)]}),
        ]
    }
    flags = IFF_UP | IFF_NOARP
    attrs = [*_end(near, mtu), ("IFLA_LINKINFO", link)]
    return {"index": near.index, "flags": flags, "change": flags, "attrs": attrs}


def _end(end: End, mtu: int) -> list[tuple[str, object]]:
    return [
        ("IFLA_IFNAME", end.name),
        ("IFLA_MTU", mtu),
        ("IFLA_TXQLEN", TX_QUEUE_FRAMES),
        ("IFLA_ADDRESS", end.mac.hex(":")),
        ("IFLA_NET_NS_FD", end.namespace_fd),
    ]


def _set_up(index: int, up: bool) -> bytearray:
    """Without attributes there is nothing to encode but two fixed structures."""
    length = _HEADER.size + _IFINFO.size
    header = _HEADER.pack(length, RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK, 0, 0)
    return bytearray(header + _IFINFO.pack(0, 0, index, IFF_UP if up else 0, IFF_UP))


def _message(kind: int, flags: int, fields: dict[str, object]) -> bytearray:
    message = ifinfmsg()
    for key, value in fields.items():
        message[key] = value
    message["header"]["type"] = kind
    message["header"]["flags"] = NLM_F_REQUEST | flags
    message.encode()
    return bytearray(message.data)


def _split(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(type, whole message) of every netlink message in a datagram."""
    offset = 0
    while offset + _HEADER.size <= len(data):
        length, kind, *_ = _HEADER.unpack_from(data, offset)
        yield kind, data[offset : offset + length]
        offset += (length + 3) & ~3


def _raise_on_error(kind: int, data: bytes) -> None:
    if kind == _NLMSG_ERROR:
        (number,) = struct.unpack_from("=i", data, _HEADER.size)
        if number:
            raise OSError(-number, f"netlink: {os.strerror(-number)}")


def _decode(data: bytes) -> InterfaceState:
    message = ifinfmsg(data)
    message.decode()
    return InterfaceState(
        name=message.get_attr("IFLA_IFNAME"),
        index=message["index"],
        mtu=message.get_attr("IFLA_MTU"),
        flags=message["flags"],
        carrier=bool(message.get_attr("IFLA_CARRIER")),
        stats={
            key: value
            for key, value in message.get_attr("IFLA_STATS64").items()
            if isinstance(value, int)
        },
    )
