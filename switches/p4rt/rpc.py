"""The gRPC service `p4.v1.P4Runtime`: methods, options, codes.  The only module that imports grpc.

Only Unix sockets: an address is `unix:PATH`.  No name is resolved and no proxy asked.
"""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from typing import Any
from urllib.parse import quote

# Read by gRPC when it is imported.  Our processes are started by exec, never by a bare fork, so its
# fork handlers would only print; and it has nothing to say that our errors do not.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import grpc
from google.protobuf.message import DecodeError

from switches.api import SwitchError, SwitchErrorCode
from switches.p4rt.protos import p4runtime, status_pb2

SERVICE = "p4.v1.P4Runtime"
UNIX_PATH_BYTES_MAX = 107
"""What sockaddr_un holds, less the closing zero."""
MESSAGE_BYTES_MAX = 128 << 20
"""The specification advises far more than gRPC's 4 MiB, for large programs."""
UPDATES_PER_WRITE = 256
"""Our client's batch size."""
METADATA_BYTES_MAX = 8192 + 512 * UPDATES_PER_WRITE
"""Errors of a batch travel in the trailing metadata, one message for every update."""
DETAILS_KEY = "grpc-status-details-bin"

RpcError = grpc.RpcError
StatusCode = grpc.StatusCode

_GRPC_CODES = {code: grpc.StatusCode[code.name] for code in SwitchErrorCode}
_SWITCH_CODES = {grpc_code: code for code, grpc_code in _GRPC_CODES.items()} | {
    grpc.StatusCode.DEADLINE_EXCEEDED: SwitchErrorCode.UNAVAILABLE,
    grpc.StatusCode.CANCELLED: SwitchErrorCode.UNAVAILABLE,
}


def socket_path(address: str) -> str:
    """The path of `unix:PATH`.  Raises ValueError for anything else and for a path too long."""
    scheme, _, path = address.partition(":")
    if scheme != "unix" or not path.removeprefix("//"):
        raise ValueError(f"a P4Runtime address is unix:PATH, not {address!r}")
    path = path.removeprefix("//")
    if len(os.fsencode(path)) > UNIX_PATH_BYTES_MAX:
        raise ValueError(f"{path} is longer than a Unix socket's {UNIX_PATH_BYTES_MAX} bytes")
    return path


def _target(address: str) -> str:
    return "unix:" + quote(os.fsencode(socket_path(address)))


# --- codes


def number(code: SwitchErrorCode | None) -> int:
    """The google.rpc.Code of a refusal; None is OK."""
    return int(_GRPC_CODES[code].value[0]) if code is not None else 0


def switch_code(number: int) -> SwitchErrorCode:
    """The refusal that a google.rpc.Code stands for; INTERNAL for what we have no name for."""
    for grpc_code, code in _SWITCH_CODES.items():
        if grpc_code.value[0] == number:
            return code
    return SwitchErrorCode.INTERNAL


def error_of(rpc_error: Any) -> SwitchError:
    """What a failed call means."""
    code = _SWITCH_CODES.get(rpc_error.code(), SwitchErrorCode.INTERNAL)
    return SwitchError(code, rpc_error.details() or rpc_error.code().name)


def pack_details(errors: Sequence[SwitchError | None], message: str) -> bytes:
    """The google.rpc.Status of a batch: one p4.v1.Error for every element, in order."""
    status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=message)
    for error in errors:
        item = p4runtime.Error()
        if error is not None:
            item.canonical_code = number(error.code)
            item.message = str(error)
        status.details.add().Pack(item)
    return bytes(status.SerializeToString())


def unpack_details(rpc_error: Any) -> list[SwitchError | None]:
    """The errors of a batch, in order; empty where the call failed as a whole."""
    packed = next((v for k, v in rpc_error.trailing_metadata() or () if k == DETAILS_KEY), None)
    if packed is None:
        return []
    errors: list[SwitchError | None] = []
    for detail in status_pb2.Status.FromString(packed).details:
        item = p4runtime.Error()
        detail.Unpack(item)
        failed = item.canonical_code != 0
        errors.append(
            SwitchError(switch_code(item.canonical_code), item.message) if failed else None
        )
    return errors


# --- client


def open_channel(address: str) -> Any:
    return grpc.insecure_channel(
        _target(address),
        options=[
            ("grpc.enable_http_proxy", 0),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
            ("grpc.max_metadata_size", METADATA_BYTES_MAX),
            ("grpc.absolute_max_metadata_size", METADATA_BYTES_MAX),
            ("grpc.initial_reconnect_backoff_ms", 50),
            ("grpc.min_reconnect_backoff_ms", 50),
            ("grpc.max_reconnect_backoff_ms", 250),
        ],
    )


class Stub:
    """The six calls of the service on one channel."""

    def __init__(self, channel: Any) -> None:
        def unary(name: str, response: Any) -> Any:
            return channel.unary_unary(
                f"/{SERVICE}/{name}", _serialize, response_deserializer=response.FromString
            )

        self.capabilities = unary("Capabilities", p4runtime.CapabilitiesResponse)
        self.write = unary("Write", p4runtime.WriteResponse)
        self.set_pipeline = unary(
            "SetForwardingPipelineConfig", p4runtime.SetForwardingPipelineConfigResponse
        )
        self.get_pipeline = unary(
            "GetForwardingPipelineConfig", p4runtime.GetForwardingPipelineConfigResponse
        )
        self.read = channel.unary_stream(
            f"/{SERVICE}/Read",
            _serialize,
            response_deserializer=p4runtime.ReadResponse.FromString,
        )
        self.stream_channel = channel.stream_stream(
            f"/{SERVICE}/StreamChannel",
            _serialize,
            response_deserializer=p4runtime.StreamMessageResponse.FromString,
        )


def _serialize(message: Any) -> bytes:
    return bytes(message.SerializeToString())


# --- server


def make_server(handlers: "Handlers", address: str, *, calls_max: int) -> Any:
    """A gRPC server bound to the address.  Raises OSError where the socket cannot be made.

    calls_max: how many calls may be under way at once, streams included.
    """
    server = grpc.server(
        _ThreadPerCall(),
        options=[("grpc.max_receive_message_length", MESSAGE_BYTES_MAX)],
        maximum_concurrent_rpcs=calls_max,
    )
    server.add_generic_rpc_handlers((handlers.generic(),))
    try:
        server.add_insecure_port(_target(address))
    except RuntimeError:
        server.stop(None).wait()
        raise OSError(f"cannot listen on {socket_path(address)}") from None
    return server


class _ThreadPerCall(Executor):
    """Daemon threads: a call that never ends must not keep the process from ending."""

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(function(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=run, name="p4runtime-call", daemon=True).start()
        return future


Unary = Callable[[Any, Any], Any]


class Handlers:
    """Functions of (request, context) for the six calls.

    A request that is no message of its type is answered INVALID_ARGUMENT before they are called.
    """

    def __init__(
        self,
        *,
        capabilities: Unary,
        write: Unary,
        read: Unary,
        set_pipeline: Unary,
        get_pipeline: Unary,
        stream_channel: Unary,
    ) -> None:
        def unary(handler: Unary, request: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(
                _checked(handler),
                request_deserializer=_parser(request),
                response_serializer=_serialize,
            )

        self._methods = {
            "Capabilities": unary(capabilities, p4runtime.CapabilitiesRequest),
            "Write": unary(write, p4runtime.WriteRequest),
            "SetForwardingPipelineConfig": unary(
                set_pipeline, p4runtime.SetForwardingPipelineConfigRequest
            ),
            "GetForwardingPipelineConfig": unary(
                get_pipeline, p4runtime.GetForwardingPipelineConfigRequest
            ),
            "Read": grpc.unary_stream_rpc_method_handler(
                _checked(read),
                request_deserializer=_parser(p4runtime.ReadRequest),
                response_serializer=_serialize,
            ),
            "StreamChannel": grpc.stream_stream_rpc_method_handler(
                stream_channel,
                request_deserializer=_parser(p4runtime.StreamMessageRequest),
                response_serializer=_serialize,
            ),
        }

    def generic(self) -> Any:
        return grpc.method_handlers_generic_handler(SERVICE, self._methods)


class Unreadable:
    """Stands for a request whose bytes are no message."""


def _parser(message: Any) -> Callable[[bytes], Any]:
    def parse(data: bytes) -> Any:
        try:
            return message.FromString(data)
        except DecodeError:
            return Unreadable()

    return parse


def _checked(handler: Unary) -> Unary:
    def call(request: Any, context: Any) -> Any:
        if isinstance(request, Unreadable):
            abort(context, SwitchError(SwitchErrorCode.INVALID_ARGUMENT, "unreadable request"))
        return handler(request, context)

    return call


def abort(context: Any, error: SwitchError) -> None:
    """End the call with the code of a refusal.  Does not return."""
    context.abort(_GRPC_CODES[error.code], str(error))


def abort_batch(context: Any, errors: Sequence[SwitchError | None]) -> None:
    """End the call with the errors of a batch.  Does not return."""
    failed = [error for error in errors if error is not None]
    message = f"{len(failed)} of {len(errors)} refused; the first: {failed[0]}"
    context.set_trailing_metadata(((DETAILS_KEY, pack_details(errors, message)),))
    context.abort(grpc.StatusCode.UNKNOWN, message)
