"""A raw client of the P4Runtime shim and what the shim's tests say with it."""

from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from switches.api import ActionCall, Exact, Switch, SwitchError, SwitchErrorCode, TableEntry
from switches.p4rt import rpc
from switches.p4rt.arbitration import to_uint128
from switches.p4rt.p4info import model, parse_text
from switches.p4rt.protos import p4runtime, text_format
from switches.p4rt.server import P4RuntimeServer, ServedDevice
from tests.support.fake_switch import FakeSwitch, ResettableFakeSwitch
from tests.support.small_program import P4INFO, PROGRAM

INFO = model(parse_text(P4INFO))
DEVICE, OTHER = 3, 4


class Stream:
    """A raw StreamChannel."""

    def __init__(self, stub: rpc.Stub) -> None:
        self._outbox: SimpleQueue[Any] = SimpleQueue()
        self._call = stub.stream_channel(iter(self._outbox.get, None), timeout=10)

    def send(self, message: Any) -> None:
        self._outbox.put(message)

    def arbitrate(self, election_id: int | None, device: int = DEVICE, role: str = "") -> None:
        message = p4runtime.StreamMessageRequest()
        message.arbitration.device_id = device
        if election_id is not None:
            message.arbitration.election_id.CopyFrom(to_uint128(election_id))
        if role:
            message.arbitration.role.name = role
        self.send(message)

    def next(self) -> Any:
        return next(self._call)

    def status(self) -> int:
        return int(self.next().arbitration.status.code)

    def code(self) -> str:
        """The code with which the server ended the stream."""
        with pytest.raises(rpc.RpcError):
            self.next()
        return str(self._call.code().name)

    def finish(self) -> None:
        """Say that nothing more will come."""
        self._outbox.put(None)

    def close(self) -> None:
        self._outbox.put(None)
        self._call.cancel()


class Bench:
    """A server with two fake switches, and a raw client."""

    def __init__(self, folder: Path) -> None:
        self.address = f"unix:{folder}/p4runtime/socket"
        self.switch = ResettableFakeSwitch(INFO)
        self.plain = FakeSwitch(INFO)
        self.loaded: list[bytes] = []
        self.server = P4RuntimeServer(
            self.address,
            {
                DEVICE: ServedDevice(P4INFO, PROGRAM, self.switch, self._load),
                OTHER: ServedDevice(P4INFO, PROGRAM, self.plain),
            },
        )
        self.server.start()
        self.channel = rpc.open_channel(self.address)
        self.stub = rpc.Stub(self.channel)
        self.streams: list[Stream] = []

    def _load(self, program: bytes) -> Callable[[], Switch]:
        if b"strange" in program:
            raise SwitchError(SwitchErrorCode.UNIMPLEMENTED, "extern `strange` is not supported")

        def start() -> Switch:
            self.loaded.append(program)
            self.switch = ResettableFakeSwitch(INFO)
            return self.switch

        return start

    def stream(self) -> Stream:
        self.streams.append(Stream(self.stub))
        return self.streams[-1]

    def primary(self, election_id: int = 1, device: int = DEVICE) -> Stream:
        stream = self.stream()
        stream.arbitrate(election_id, device)
        assert stream.status() == 0
        return stream

    def pipeline(self, action: str = "VERIFY_AND_COMMIT", **changes: Any) -> None:
        kind = p4runtime.SetForwardingPipelineConfigRequest
        request = kind(
            device_id=DEVICE, election_id=to_uint128(1), action=kind.Action.Value(action)
        )
        if changes.pop("config", True):
            request.config.p4info.CopyFrom(parse_text(changes.pop("p4info", P4INFO)))
            request.config.p4_device_config = changes.pop("program", PROGRAM)
            request.config.cookie.cookie = 0xC00C1E
        for name, value in changes.items():
            setattr(request, name, value)
        self.stub.set_pipeline(request, timeout=5)

    def get(self, kind: str = "ALL") -> Any:
        request = p4runtime.GetForwardingPipelineConfigRequest
        return self.stub.get_pipeline(
            request(device_id=DEVICE, response_type=request.ResponseType.Value(kind)), timeout=5
        )

    def ready(self) -> Stream:
        stream = self.primary()
        self.pipeline()
        return stream

    def write(self, text: str, election_id: int | None = 1, device: int = DEVICE) -> None:
        request = text_format.Parse(text, p4runtime.WriteRequest())
        request.device_id = device
        if election_id is not None:
            request.election_id.CopyFrom(to_uint128(election_id))
        self.stub.write(request, timeout=5)

    def read(self, text: str, device: int = DEVICE) -> list[Any]:
        request = text_format.Parse(text, p4runtime.ReadRequest())
        request.device_id = device
        return [e for r in self.stub.read(request, timeout=5) for e in r.entities]

    def close(self) -> None:
        for stream in self.streams:
            stream.close()
        self.channel.close()
        self.server.close()


def refused(call: Callable[[], Any]) -> str:
    """The gRPC code of a call that fails as a whole."""
    with pytest.raises(rpc.RpcError) as caught:
        call()
    error: Any = caught.value
    assert rpc.unpack_details(error) == []
    return str(error.code().name)


def batch(call: Callable[[], Any]) -> list[str]:
    """The codes of a batch, by element."""
    with pytest.raises(rpc.RpcError) as caught:
        call()
    error: Any = caught.value
    assert error.code().name == "UNKNOWN"
    return [e.code.name if e is not None else "OK" for e in rpc.unpack_details(error)]


def update(kind: str, entity: str) -> str:
    return f"updates {{ type: {kind} entity {{ {entity} }} }}\n"


ROUTE = """table_entry { table_id: 0x02000001
    match { field_id: 1 exact { value: "%s" } } match { field_id: 2 exact { value: "\\007" } }
    %s } """
DROP = "action { action { action_id: 0x01000002 } }"
FORWARD = """action { action { action_id: 0x01000001
    params { param_id: 1 value: "\\003" } params { param_id: 2 value: "A" } } }"""


def route(dst: str, rest: str = DROP) -> str:
    return ROUTE % (dst, rest)


def a_row(dst: str, action: ActionCall) -> TableEntry:
    match = {"hdr.dst": Exact(ord(dst)), "meta.plane": Exact(7)}
    return TableEntry("ingress.route", match, action)
