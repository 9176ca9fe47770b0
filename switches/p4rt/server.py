"""The shim: P4Runtime for embedded switches, one device id each, on one private Unix socket.

What a BMv2 process does for itself, this does for switches that have no server of their own.  It
follows the P4Runtime specification 1.5; what it leaves out is refused by name: packet I/O, digests,
action profiles, meters, replication, idle timeouts, batches with roll-back.
"""

import contextlib
import os
import stat
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self

from switches.api import Switch, SwitchError, SwitchErrorCode
from switches.p4rt import rpc
from switches.p4rt.arbitration import Arbiter, Notices, Session
from switches.p4rt.protos import p4runtime
from switches.p4rt.served import Loader, ServedDevice, ServedSwitch

__all__ = ["API_VERSION", "Loader", "P4RuntimeServer", "ServedDevice"]

API_VERSION = "1.5.0"
STREAMS_PER_DEVICE = 4
"""A stream holds two threads; beyond this many a device on average, a new one is refused."""
UNARY_CALLS_MAX = 64
"""At once; beyond that gRPC itself answers RESOURCE_EXHAUSTED."""
ENTITIES_PER_RESPONSE = 2048
"""Keeps a response well below the 4 MiB that a client takes by default."""


class _Stream:
    """The server's end of one StreamChannel.  Messages put into `outbox` are sent in order."""

    def __init__(self) -> None:
        self.session = Session()
        self.outbox: SimpleQueue[Any] = SimpleQueue()

    def send(self, message: Any) -> None:
        self.outbox.put(message)

    def end(self, error: SwitchError | None = None) -> None:
        self.outbox.put(error)


class P4RuntimeServer:
    """Serves while between `start` and `close`, or as a context manager.

    address: `unix:PATH`; its folder is made (for its user alone) if it is missing.
    devices: by device id, which is not 0.
    """

    def __init__(self, address: str, devices: Mapping[int, ServedDevice]) -> None:
        if 0 in devices:
            raise ValueError("0 is no device id")
        self._address = address
        self._path = Path(rpc.socket_path(address))
        self._served = {id: ServedSwitch(device) for id, device in devices.items()}
        self._arbiters = {id: Arbiter(id) for id in devices}
        self._streams: dict[Session, _Stream] = {}
        self._streams_max = STREAMS_PER_DEVICE * max(1, len(devices))
        self._state = threading.Lock()
        """Held, briefly, around every use of the arbiters and streams."""
        self._server: Any = None

    def start(self) -> None:
        """Listen.  Raises OSError where the socket cannot be made."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handlers = rpc.Handlers(
            capabilities=self._capabilities,
            write=self._write,
            read=self._read,
            set_pipeline=self._set_pipeline,
            get_pipeline=self._get_pipeline,
            stream_channel=self._stream_channel,
        )
        with _private_files():
            self._server = rpc.make_server(
                handlers, self._address, calls_max=self._streams_max + UNARY_CALLS_MAX
            )
        if stat.S_IMODE(self._path.stat().st_mode) & 0o077:
            self.close()
            raise OSError(f"{self._path} would be open to other users")
        self._server.start()

    def close(self) -> None:
        """End all streams and calls and remove the socket.  Idempotent."""
        with self._state:
            for stream in self._streams.values():
                stream.end()
        if self._server is not None:
            self._server.stop(None).wait()
            self._server = None
        self._path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def replace_switch(self, device_id: int, switch: Switch) -> None:
        """The switch of that id was restarted: its pipeline must be set again.  Clients stay."""
        self._served[device_id].replace(switch)

    # --- unary calls

    def _device(self, device_id: int) -> ServedSwitch:
        served = self._served.get(device_id)
        if served is None:
            raise SwitchError(SwitchErrorCode.NOT_FOUND, f"there is no device {device_id}")
        return served

    def _check_writer(self, request: Any) -> None:
        election_id = request.election_id if request.HasField("election_id") else None
        with self._state:
            self._arbiters[request.device_id].check_writer(request.role, election_id)

    def _write(self, request: Any, context: Any) -> Any:
        with _refusals(context):
            errors = self._device(request.device_id).write(
                request, lambda: self._check_writer(request)
            )
        if any(errors):
            rpc.abort_batch(context, errors)
        return p4runtime.WriteResponse()

    def _read(self, request: Any, context: Any) -> Iterator[Any]:
        with _refusals(context):
            found, errors = self._device(request.device_id).read(request)
        for start in range(0, len(found), ENTITIES_PER_RESPONSE):
            yield p4runtime.ReadResponse(entities=found[start : start + ENTITIES_PER_RESPONSE])
        if any(errors):
            rpc.abort_batch(context, errors)

    def _set_pipeline(self, request: Any, context: Any) -> Any:
        with _refusals(context):
            self._device(request.device_id).set_pipeline(
                request, lambda: self._check_writer(request)
            )
        return p4runtime.SetForwardingPipelineConfigResponse()

    def _get_pipeline(self, request: Any, context: Any) -> Any:
        with _refusals(context):
            return self._device(request.device_id).get_pipeline(request.response_type)

    def _capabilities(self, request: Any, context: Any) -> Any:
        with _refusals(context):
            if request.device_id:
                self._device(request.device_id)
        return p4runtime.CapabilitiesResponse(p4runtime_api_version=API_VERSION)

    # --- streams

    def _stream_channel(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:
        """One thread takes what the client says, this one sends what is for the client."""
        stream = _Stream()
        with _refusals(context):
            self._register(stream)
        listener = threading.Thread(
            target=self._listen, args=(stream, requests), name="p4runtime-stream", daemon=True
        )
        try:
            if not context.add_callback(lambda: self._leave(stream)):
                return  # it ended before it began
            listener.start()
            while (message := stream.outbox.get()) is not None:
                if isinstance(message, SwitchError):
                    rpc.abort(context, message)
                yield message
        finally:
            self._leave(stream)

    def _register(self, stream: _Stream) -> None:
        with self._state:
            if len(self._streams) >= self._streams_max:
                raise SwitchError(SwitchErrorCode.RESOURCE_EXHAUSTED, "too many streams")
            self._streams[stream.session] = stream

    def _listen(self, stream: _Stream, requests: Iterable[Any]) -> None:
        end: SwitchError | None = SwitchError(SwitchErrorCode.INTERNAL, "the server is at fault")
        try:
            for request in requests:
                self._hear(stream, request)
            end = None
        except SwitchError as error:
            end = error
        except rpc.RpcError:  # the call is over
            end = None
        finally:
            stream.end(end)

    def _hear(self, stream: _Stream, request: Any) -> None:
        if isinstance(request, rpc.Unreadable):
            raise SwitchError(SwitchErrorCode.INVALID_ARGUMENT, "unreadable request")
        kind = request.WhichOneof("update")
        if kind == "arbitration":
            self._arbitrate(stream, request.arbitration)
        else:
            stream.send(self._refuse_message(stream, kind, request))

    def _arbitrate(self, stream: _Stream, message: Any) -> None:
        session = stream.session
        if session.device_id not in (None, message.device_id):
            raise SwitchError(
                SwitchErrorCode.FAILED_PRECONDITION,
                f"this stream is for device {session.device_id}; another needs a new stream",
            )
        served = self._device(message.device_id)
        with self._state:
            if session not in self._streams:
                return  # it ended meanwhile
            outcome = self._arbiters[message.device_id].update(session, message)
            session.device_id = message.device_id
            self._notify(outcome.now)
        with served.lock:  # whatever the primary before has begun is now finished
            pass
        with self._state:
            self._notify(outcome.after_writes)

    def _notify(self, notices: Notices) -> None:
        for session, notice in notices:
            if session in self._streams:
                self._streams[session].send(p4runtime.StreamMessageResponse(arbitration=notice))

    def _leave(self, stream: _Stream) -> None:
        """The call is over.  Called by gRPC as soon as it knows, and once more when we do."""
        stream.end()
        with self._state:
            self._streams.pop(stream.session, None)
            if stream.session.device_id is not None:
                self._notify(self._arbiters[stream.session.device_id].leave(stream.session))

    def _refuse_message(self, stream: _Stream, kind: str | None, request: Any) -> Any:
        """The StreamError for what is no arbitration (section Stream Error Reporting)."""
        response = p4runtime.StreamMessageResponse()
        error = response.error
        code, message = SwitchErrorCode.UNIMPLEMENTED, f"{kind} is not served"
        if kind is None:
            code, message = SwitchErrorCode.INVALID_ARGUMENT, "the message is empty"
        elif kind == "packet":
            error.packet_out.packet_out.CopyFrom(request.packet)
            if not self._is_primary(stream):
                code, message = SwitchErrorCode.PERMISSION_DENIED, "only the primary sends packets"
            else:
                message = "packet I/O is not served: these switches have no port to the controller"
        elif kind == "digest_ack":
            error.digest_list_ack.digest_list_ack.CopyFrom(request.digest_ack)
            code, message = SwitchErrorCode.INVALID_ARGUMENT, "no digest is enabled"
        elif kind == "other":
            error.other.other.CopyFrom(request.other)
        error.canonical_code, error.message = rpc.number(code), message
        return response

    def _is_primary(self, stream: _Stream) -> bool:
        device_id = stream.session.device_id
        if device_id is None:
            return False
        with self._state:
            return self._arbiters[device_id].is_primary(stream.session)


@contextlib.contextmanager
def _refusals(context: Any) -> Iterator[None]:
    """Turns a SwitchError into the end of the call."""
    try:
        yield
    except SwitchError as error:
        rpc.abort(context, error)


@contextlib.contextmanager
def _private_files() -> Iterator[None]:
    """Files and sockets made within are their user's alone."""
    before = os.umask(0o177)
    try:
        yield
    finally:
        os.umask(before)
