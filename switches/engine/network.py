"""Many switches of one program, wired to each other inside the compiled library.

Frames from switch to switch never become Python objects.  What leaves for a host, or over a watched
wire, comes back from `run` as arrivals.  See runtime/network.h for the order of events.
"""

import ctypes
from functools import cache
from pathlib import Path

from switches.engine.device import Device
from switches.engine.library import NEVER, PORTS_MAX, REPLY_MAX

_FAILED = (1 << 32) - 1


class NetworkError(RuntimeError):
    """Memory is short, or time stands still: switches keep answering each other at one instant."""


class _Arrival(ctypes.Structure):
    _fields_ = (
        ("bytes", ctypes.c_void_p),
        ("length", ctypes.c_uint32),
        ("node", ctypes.c_uint32),
        ("port", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    )


class View(ctypes.Structure):
    """struct network_view: what a driver asks most, to be read without a call."""

    _fields_ = (
        ("next_ns", ctypes.c_uint64),
        ("now_ns", ctypes.c_uint64),
        ("events", ctypes.c_uint64),
        ("lost", ctypes.c_uint64),
        ("arrivals", ctypes.POINTER(_Arrival)),
        ("arrival_count", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    )


_PTR, _U32, _U64, _STR = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_char_p
_SIGNATURES: dict[str, tuple[object, list[object]]] = {
    "network_create": (_PTR, [_U32]),
    "network_destroy": (None, [_PTR]),
    "network_view": (ctypes.POINTER(View), [_PTR]),
    "network_add": (_U32, [_PTR, _U32, _U32, _U64]),
    "network_remove": (None, [_PTR, _U32]),
    "network_connect": (None, [_PTR, _U32, _U32, _U32, _U32]),
    "network_watch": (None, [_PTR, _U32, _U32, _U32]),
    "network_held": (_U32, [_PTR, _U32]),
    "network_send": (_U32, [_PTR, _U32, _U32, _STR, _U32, _U64]),
    "network_run": (_U32, [_PTR, _U64]),
    "network_wake": (_U32, [_PTR, _U32, _U64]),
    "network_port_changed": (None, [_PTR, _U32, _U32, _U32, _U64]),
    "network_control": (_U32, [_PTR, _U32, _STR, _U32, _STR, _U32, _U64]),
}


@cache
def _load(library: Path) -> ctypes.CDLL:
    loaded = ctypes.CDLL(str(library))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype = result
        function.argtypes = arguments
    return loaded


class EngineNetwork:
    """`node_count` places for switches, numbered from 0; times are ns and never go back."""

    def __init__(self, library: Path, node_count: int) -> None:
        """Raises MemoryError, OSError."""
        lib = self._lib = _load(library)
        self._network = ctypes.c_void_p(lib.network_create(node_count))
        if self._network.value is None:
            raise MemoryError(f"no memory for {node_count} switches")
        self.view: View = lib.network_view(self._network).contents
        self._send = lib.network_send
        self._run = lib.network_run
        self.now_ns = 0

    @property
    def next_ns(self) -> int:
        """Time of the next event; NEVER if there is none."""
        next_ns: int = self.view.next_ns
        return next_ns

    @property
    def last_ns(self) -> int:
        """Time of the last event that `run` handled."""
        now_ns: int = self.view.now_ns
        return now_ns

    @property
    def events(self) -> int:
        events: int = self.view.events
        return events

    @property
    def lost(self) -> int:
        """Frames for a switch that was not there."""
        lost: int = self.view.lost
        return lost

    def connect(self, node: int, port: int, to_node: int, to_port: int) -> None:
        """One direction of a wire between two switches that were added."""
        self._lib.network_connect(self._network, node, port, to_node, to_port)

    def watch(self, node: int, port: int, watched: bool) -> None:
        """Let frames sent there be arrivals, although a switch is at the other end."""
        self._lib.network_watch(self._network, node, port, watched)

    def send(self, node: int, port: int, frame: bytes, at_ns: int) -> None:
        """A frame reaches that switch at that time, now or later.  Raises NetworkError."""
        if not self._send(self._network, node, port, frame, len(frame), at_ns):
            raise NetworkError(f"a frame of {len(frame)} bytes does not fit or memory is short")

    def run(self, limit_ns: int) -> list[tuple[int, int, bytes]]:
        """Events before that time, until a moment has arrivals: (node, port, frame) each."""
        return self._arrivals(self._run(self._network, limit_ns))

    def wake(self, node: int, now_ns: int) -> list[tuple[int, int, bytes]]:
        """Let a switch transmit what it can now, and arm its timer."""
        return self._arrivals(self._lib.network_wake(self._network, node, now_ns))

    def _arrivals(self, count: int) -> list[tuple[int, int, bytes]]:
        if not count:
            return []
        if count == _FAILED:
            raise NetworkError("memory is short or time stands still")
        arrivals, string_at = self.view.arrivals, ctypes.string_at
        return [(a.node, a.port, string_at(a.bytes, a.length)) for a in arrivals[:count]]

    def close(self) -> None:
        """Frees all switches; nothing may be called after.  Idempotent."""
        if self._network.value is not None:
            self._lib.network_destroy(self._network)
            self._network = ctypes.c_void_p()

    def __del__(self) -> None:
        if hasattr(self, "_network"):
            self.close()


class NetworkSwitch:
    """One switch of an EngineNetwork.  `device` is its control side.

    A Node by its shape that leaves transmitting and timeouts to the network.
    """

    def __init__(
        self, network: EngineNetwork, node: int, name: str, port_count: int, seed: int
    ) -> None:
        """Raises ValueError for a port count the program cannot have, MemoryError."""
        if not 0 < port_count <= PORTS_MAX:
            raise ValueError(f"{name}: {port_count} ports; a switch has 1 to {PORTS_MAX}")
        if not network._lib.network_add(network._network, node, port_count, seed & NEVER):
            raise MemoryError(f"{name}: no memory for a switch of {port_count} ports")
        self.name = name
        self.node = node
        self._network = network
        self._reply = ctypes.create_string_buffer(REPLY_MAX)
        self.device = Device(self)

    @property
    def held(self) -> int:
        """Frames inside."""
        count: int = self._network._lib.network_held(self._network._network, self.node)
        return count

    def receive_frame(self, port: int, frame: bytes, now_ns: int) -> None:
        self._network.send(self.node, port, frame, now_ns)

    def handle_timeout(self, now_ns: int) -> None: ...

    def poll_transmit(self, now_ns: int) -> tuple[int, bytes] | None:
        return None

    def next_timeout(self) -> int | None:
        return None

    def port_changed(self, port: int, up: bool, now_ns: int) -> None:
        network = self._network
        network._lib.network_port_changed(network._network, self.node, port, up, now_ns)

    def request(self, message: bytes) -> bytes:
        """One control message (messages.Channel), at the network's `now_ns`."""
        network = self._network
        size = network._lib.network_control(
            network._network,
            self.node,
            message,
            len(message),
            self._reply,
            REPLY_MAX,
            network.now_ns,
        )
        return ctypes.string_at(self._reply, size)

    def close(self) -> None:
        """Ends the switch and everything in it; its wires lead nowhere.  Idempotent."""
        if self._network._network.value is not None:
            self._network._lib.network_remove(self._network._network, self.node)
