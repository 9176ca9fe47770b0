"""The engine inside this process: one switch as a Node, for the virtual world and for tests.

`EngineSwitch` is a worlds.node.Node by its shape; its control side is `.device`.  The library
leaves what a driver asks next in a `view` in memory, so most questions cost no call.
"""

import ctypes
from functools import cache
from pathlib import Path

from switches.engine.device import Device

NEVER = (1 << 64) - 1
REPLY_MAX = 60_000
PORTS_MAX = 511


class _View(ctypes.Structure):
    """struct view of runtime/library.h."""

    _fields_ = (
        ("next_ns", ctypes.c_uint64),
        ("bytes", ctypes.c_void_p),
        ("ready", ctypes.c_uint32),
        ("port", ctypes.c_uint32),
        ("length", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    )


_SIGNATURES: dict[str, tuple[object, list[object]]] = {
    "engine_create": (ctypes.c_void_p, [ctypes.c_uint32, ctypes.c_uint64]),
    "engine_destroy": (None, [ctypes.c_void_p]),
    "engine_view": (ctypes.POINTER(_View), [ctypes.c_void_p]),
    "engine_receive": (
        None,
        [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint64],
    ),
    "engine_handle_timeout": (None, [ctypes.c_void_p, ctypes.c_uint64]),
    "engine_port_changed": (
        None,
        [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint64],
    ),
    "engine_taken": (None, [ctypes.c_void_p, ctypes.c_uint64]),
    "engine_control": (
        ctypes.c_uint32,
        [
            ctypes.c_void_p,
            ctypes.c_char_p,
            ctypes.c_uint32,
            ctypes.c_char_p,
            ctypes.c_uint32,
            ctypes.c_uint64,
        ],
    ),
}


@cache
def _load(library: Path) -> ctypes.CDLL:
    loaded = ctypes.CDLL(str(library))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype = result
        function.argtypes = arguments
    return loaded


class EngineSwitch:
    """One switch.  `seed` feeds the `random` of its P4 program.

    Times are nanoseconds and never go back.  A control request happens at the time of the latest
    call.
    """

    def __init__(self, library: Path, name: str, port_count: int, seed: int) -> None:
        """Raises ValueError for a port count the program cannot have, MemoryError, OSError."""
        if not 0 < port_count <= PORTS_MAX:
            raise ValueError(f"{name}: {port_count} ports; a switch has 1 to {PORTS_MAX}")
        lib = _load(library)
        self.name = name
        self.port_count = port_count
        self._engine = lib.engine_create(port_count, seed & NEVER)
        if not self._engine:
            raise MemoryError(f"{name}: no memory for a switch of {port_count} ports")
        self._view: _View = lib.engine_view(self._engine).contents
        self._receive = lib.engine_receive
        self._handle_timeout = lib.engine_handle_timeout
        self._taken = lib.engine_taken
        self._port_changed = lib.engine_port_changed
        self._control = lib.engine_control
        self._destroy = lib.engine_destroy
        self._reply = ctypes.create_string_buffer(REPLY_MAX)
        self._now_ns = 0
        self.device = Device(self)

    @property
    def held(self) -> int:
        """Frames inside."""
        return self.device.switch_stats().buffers

    def receive_frame(self, port: int, frame: bytes, now_ns: int) -> None:
        self._now_ns = now_ns
        self._receive(self._engine, port, frame, len(frame), now_ns)

    def handle_timeout(self, now_ns: int) -> None:
        self._now_ns = now_ns
        self._handle_timeout(self._engine, now_ns)

    def poll_transmit(self, now_ns: int) -> tuple[int, bytes] | None:
        view = self._view
        if not view.ready:
            return None
        port, frame = view.port, ctypes.string_at(view.bytes, view.length)
        self._taken(self._engine, now_ns)
        return port, frame

    def next_timeout(self) -> int | None:
        next_ns: int = self._view.next_ns
        return None if next_ns == NEVER else next_ns

    def port_changed(self, port: int, up: bool, now_ns: int) -> None:
        self._now_ns = now_ns
        self._port_changed(self._engine, port, up, now_ns)

    def request(self, message: bytes) -> bytes:
        """One control message (messages.Channel)."""
        size = self._control(
            self._engine, message, len(message), self._reply, REPLY_MAX, self._now_ns
        )
        return ctypes.string_at(self._reply, size)

    def close(self) -> None:
        """Frees the switch; nothing may be called after.  Idempotent."""
        if self._engine:
            self._destroy(self._engine)
            self._engine = None

    def __del__(self) -> None:
        if getattr(self, "_engine", None):
            self.close()
