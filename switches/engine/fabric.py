"""Many switches of one program, wired to each other inside the compiled library.

Frames from switch to switch never become Python objects.  What leaves for a host, or over a watched
wire, comes back from `run` as arrivals.  See runtime/fabric.h for the order of events.
"""

import ctypes
from functools import cache
from pathlib import Path

from switches.engine.device import Device
from switches.engine.library import NEVER, PORTS_MAX, REPLY_MAX

_FAILED = (1 << 32) - 1


class FabricError(RuntimeError):
    """Memory is short, or time stands still: switches keep answering each other at one instant."""


class _Arrival(ctypes.Structure):
    _fields_ = (
        ("bytes", ctypes.c_void_p),
        ("length", ctypes.c_uint32),
        ("node", ctypes.c_uint32),
        ("port", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    )


class _View(ctypes.Structure):
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
    "fabric_create": (_PTR, [_U32]),
    "fabric_destroy": (None, [_PTR]),
    "fabric_view": (ctypes.POINTER(_View), [_PTR]),
    "fabric_add": (_U32, [_PTR, _U32, _U32, _U64]),
    "fabric_remove": (None, [_PTR, _U32]),
    "fabric_connect": (None, [_PTR, _U32, _U32, _U32, _U32]),
    "fabric_watch": (None, [_PTR, _U32, _U32, _U32]),
    "fabric_held": (_U32, [_PTR, _U32]),
    "fabric_send": (_U32, [_PTR, _U32, _U32, _STR, _U32, _U64]),
    "fabric_run": (_U32, [_PTR, _U64]),
    "fabric_wake": (_U32, [_PTR, _U32, _U64]),
    "fabric_port_changed": (None, [_PTR, _U32, _U32, _U32, _U64]),
    "fabric_control": (_U32, [_PTR, _U32, _STR, _U32, _STR, _U32, _U64]),
}


@cache
def _load(library: Path) -> ctypes.CDLL:
    loaded = ctypes.CDLL(str(library))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype = result
        function.argtypes = arguments
    return loaded


class EngineFabric:
    """`node_count` places for switches, numbered from 0; times are ns and never go back."""

    def __init__(self, library: Path, node_count: int) -> None:
        """Raises MemoryError, OSError."""
        lib = self._lib = _load(library)
        self._fabric = lib.fabric_create(node_count)
        if not self._fabric:
            raise MemoryError(f"no memory for {node_count} switches")
        self._view: _View = lib.fabric_view(self._fabric).contents
        self._send = lib.fabric_send
        self._run = lib.fabric_run
        self.now_ns = 0

    @property
    def next_ns(self) -> int:
        """Time of the next event; NEVER if there is none."""
        next_ns: int = self._view.next_ns
        return next_ns

    @property
    def last_ns(self) -> int:
        """Time of the last event that `run` handled."""
        now_ns: int = self._view.now_ns
        return now_ns

    @property
    def events(self) -> int:
        events: int = self._view.events
        return events

    @property
    def lost(self) -> int:
        """Frames for a switch that was not there."""
        lost: int = self._view.lost
        return lost

    def connect(self, node: int, port: int, to_node: int, to_port: int) -> None:
        """One direction of a wire between two switches that were added."""
        self._lib.fabric_connect(self._fabric, node, port, to_node, to_port)

    def watch(self, node: int, port: int, watched: bool) -> None:
        """Let frames sent there be arrivals, although a switch is at the other end."""
        self._lib.fabric_watch(self._fabric, node, port, watched)

    def send(self, node: int, port: int, frame: bytes, at_ns: int) -> None:
        """A frame reaches that switch at that time, now or later.  Raises FabricError."""
        if not self._send(self._fabric, node, port, frame, len(frame), at_ns):
            raise FabricError(f"a frame of {len(frame)} bytes does not fit or memory is short")

    def run(self, limit_ns: int) -> list[tuple[int, int, bytes]]:
        """Events before that time, until a moment has arrivals: (node, port, frame) each."""
        return self._arrivals(self._run(self._fabric, limit_ns))

    def wake(self, node: int, now_ns: int) -> list[tuple[int, int, bytes]]:
        """Let a switch transmit what it can now, and arm its timer."""
        return self._arrivals(self._lib.fabric_wake(self._fabric, node, now_ns))

    def _arrivals(self, count: int) -> list[tuple[int, int, bytes]]:
        if not count:
            return []
        if count == _FAILED:
            raise FabricError("memory is short or time stands still")
        arrivals, string_at = self._view.arrivals, ctypes.string_at
        return [(a.node, a.port, string_at(a.bytes, a.length)) for a in arrivals[:count]]

    def close(self) -> None:
        """Frees all switches; nothing may be called after.  Idempotent."""
        if self._fabric:
            self._lib.fabric_destroy(self._fabric)
            self._fabric = None

    def __del__(self) -> None:
        if getattr(self, "_fabric", None):
            self.close()


class FabricSwitch:
    """One switch of an EngineFabric.  `device` is its control side.

    A Node by its shape that leaves transmitting and timeouts to the fabric.
    """

    def __init__(
        self, fabric: EngineFabric, node: int, name: str, port_count: int, seed: int
    ) -> None:
        """Raises ValueError for a port count the program cannot have, MemoryError."""
        if not 0 < port_count <= PORTS_MAX:
            raise ValueError(f"{name}: {port_count} ports; a switch has 1 to {PORTS_MAX}")
        if not fabric._lib.fabric_add(fabric._fabric, node, port_count, seed & NEVER):
            raise MemoryError(f"{name}: no memory for a switch of {port_count} ports")
        self.name = name
        self.node = node
        self._fabric = fabric
        self._reply = ctypes.create_string_buffer(REPLY_MAX)
        self.device = Device(self)

    @property
    def held(self) -> int:
        """Frames inside."""
        count: int = self._fabric._lib.fabric_held(self._fabric._fabric, self.node)
        return count

    def receive_frame(self, port: int, frame: bytes, now_ns: int) -> None:
        self._fabric.send(self.node, port, frame, now_ns)

    def handle_timeout(self, now_ns: int) -> None: ...

    def poll_transmit(self, now_ns: int) -> tuple[int, bytes] | None:
        return None

    def next_timeout(self) -> int | None:
        return None

    def port_changed(self, port: int, up: bool, now_ns: int) -> None:
        fabric = self._fabric
        fabric._lib.fabric_port_changed(fabric._fabric, self.node, port, up, now_ns)

    def request(self, message: bytes) -> bytes:
        """One control message (messages.Channel), at the fabric's `now_ns`."""
        fabric = self._fabric
        size = fabric._lib.fabric_control(
            fabric._fabric, self.node, message, len(message), self._reply, REPLY_MAX, fabric.now_ns
        )
        return ctypes.string_at(self._reply, size)

    def close(self) -> None:
        """Ends the switch and everything in it; its wires lead nowhere.  Idempotent."""
        if self._fabric._fabric:
            self._fabric._lib.fabric_remove(self._fabric._fabric, self.node)
