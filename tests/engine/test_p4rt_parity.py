"""One conversation, two servers: what the shim answers is what BMv2's own server answers.

Where they differ the case says how BMv2 differs; the shim follows the specification there.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from switches import entries as rows
from switches.api import ActionCall, TableEntry, UpdateType
from switches.engine.library import EngineSwitch
from switches.entries import entries
from switches.p4rt import rpc
from switches.p4rt.arbitration import to_uint128
from switches.p4rt.client import P4RuntimeClient
from switches.p4rt.p4info import model, parse_text
from switches.p4rt.protos import p4runtime
from switches.p4rt.server import P4RuntimeServer, ServedDevice
from switches.p4rt.translate import encode_entry
from tests.engine.contract import FABRIC, SWITCH
from tests.engine.test_contract_bmv2 import bmv2
from tests.engine.test_p4rt_engine import P4INFO, PROGRAM, engine, library

__all__ = ["bmv2", "engine", "library"]

DEVICE = 1
INFO = model(parse_text(P4INFO))
INSERT, MODIFY, DELETE = (p4runtime.Update.Type.Value(k) for k in ("INSERT", "MODIFY", "DELETE"))
ROWS = entries(FABRIC, SWITCH)
NODE = next(row for row in ROWS if row.table == rows.USID_NODE)
FIB = next(row for row in ROWS if row.table == rows.FIB)
FAULT = rows.fault(per_million=5, ingress_port=1, ev=0xABCD, priority=7)


def entry(row: TableEntry, change: Callable[[Any], None] = lambda message: None) -> Any:
    """A row as a message, changed."""
    message = encode_entry(INFO.table(row.table), row)
    change(message)
    return message


def put(path: str, value: Any) -> Callable[[Any], None]:
    """Sets a field far inside: `match.0.exact.value`."""

    def change(message: Any) -> None:
        *way, last = path.split(".")
        for step in way:
            message = message[int(step)] if step.isdigit() else getattr(message, step)
        setattr(message, last, value)

    return change


def drop(path: str) -> Callable[[Any], None]:
    def change(message: Any) -> None:
        *way, last = path.split(".")
        for step in way:
            message = message[int(step)] if step.isdigit() else getattr(message, step)
        if last.isdigit():
            del message[int(last)]
        else:
            message.ClearField(last)

    return change


def update(kind: int, message: Any) -> Any:
    built = p4runtime.Update(type=kind)
    built.entity.table_entry.CopyFrom(message)
    return built


def register(index: int, value: bytes) -> Any:
    built = p4runtime.Update(type=MODIFY)
    built.entity.register_entry.register_id = INFO.register(rows.DATA_DEPTH_REGISTER).id
    built.entity.register_entry.index.index = index
    built.entity.register_entry.data.bitstring = value
    return built


def default(call: ActionCall | None, **fields: Any) -> Any:
    table = INFO.table(rows.FIB)
    message = p4runtime.TableEntry(table_id=table.id, is_default_action=True, **fields)
    if call is not None:
        row = TableEntry(rows.FIB, {}, call, is_default=True)
        message.action.CopyFrom(encode_entry(table, row).action)
    return message


FORWARD = ActionCall("MrcIngress.routing.forward", {"port": 1, "src_mac": 2, "dst_mac": 3})
OK, INVALID, MISSING, EXISTS = "OK", "INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS"
NEVER = "UNIMPLEMENTED"
"""BMv2 has registers over Thrift alone."""

# What is written, what the specification wants to hear, and what BMv2 says where that differs.
CASES: dict[str, tuple[Any, str] | tuple[Any, str, str]] = {
    "a row": (update(INSERT, entry(NODE)), OK),
    "the same row again": (update(INSERT, entry(NODE)), EXISTS),
    "the same row changed": (update(MODIFY, entry(NODE)), OK),
    "a row that is not there, changed": (update(MODIFY, entry(FIB)), MISSING),
    "a row that is not there, deleted": (update(DELETE, entry(FIB)), MISSING),
    "the row deleted by its key": (update(DELETE, entry(NODE, drop("action"))), OK),
    "no kind of update": (update(0, entry(NODE)), INVALID),
    "no entity": (p4runtime.Update(type=INSERT), INVALID, "INTERNAL"),
    "no table": (update(INSERT, entry(NODE, put("table_id", 0))), INVALID),
    "a table of no program": (update(INSERT, entry(NODE, put("table_id", 0x0200FFFF))), INVALID),
    "an action's number": (update(INSERT, entry(NODE, put("table_id", 0x01000001))), INVALID),
    "no match": (update(INSERT, entry(NODE, drop("match"))), INVALID),
    "an unknown field": (update(INSERT, entry(NODE, put("match.0.field_id", 9))), INVALID),
    "a value too wide": (
        update(INSERT, entry(NODE, put("match.0.exact.value", b"\1" * 7))),
        INVALID,
    ),
    "no value": (update(INSERT, entry(NODE, put("match.0.exact.value", b""))), INVALID, OK),
    "another kind of match": (
        update(INSERT, entry(NODE, put("match.0.optional.value", b"\1"))),
        INVALID,
    ),
    "leading zeros": (
        update(INSERT, entry(NODE, put("match.0.exact.value", b"\0" * 9 + b"\1"))),
        OK,
    ),
    "no action": (update(INSERT, entry(FIB, drop("action"))), INVALID),
    "an action of another table": (
        update(INSERT, entry(NODE, put("action.action.action_id", INFO.action(FORWARD.name).id))),
        INVALID,
    ),
    "a parameter missing": (update(INSERT, entry(FIB, drop("action.action.params.0"))), INVALID),
    "a parameter too wide": (
        update(INSERT, entry(FIB, put("action.action.params.0.value", b"\2\0"))),
        INVALID,
    ),
    "an unknown parameter": (
        update(INSERT, entry(FIB, put("action.action.params.0.param_id", 9))),
        INVALID,
    ),
    "bits beyond the prefix": (
        update(INSERT, entry(FIB, put("match.0.lpm.prefix_len", 12))),
        INVALID,
    ),
    "a prefix too long": (update(INSERT, entry(FIB, put("match.0.lpm.prefix_len", 129))), INVALID),
    "a prefix of nothing": (update(INSERT, entry(FIB, put("match.0.lpm.prefix_len", 0))), INVALID),
    "a priority where there is none": (update(INSERT, entry(NODE, put("priority", 1))), INVALID),
    "no priority where there must be": (update(INSERT, entry(FAULT, put("priority", 0))), INVALID),
    "a negative priority": (
        update(INSERT, entry(FAULT, put("priority", -1))),
        INVALID,
        "INTERNAL",
    ),
    "a mask of zero": (
        update(INSERT, entry(FAULT, put("match.1.ternary.mask", b"\0"))),
        INVALID,
    ),
    "bits outside the mask": (
        update(INSERT, entry(FAULT, put("match.1.ternary.mask", b"\1"))),
        INVALID,
    ),
    "const": (update(INSERT, entry(NODE, put("is_const", True))), INVALID, OK),
    "an idle timeout": (update(INSERT, entry(FIB, put("idle_timeout_ns", 5))), INVALID),
    "a row with all there is": (update(INSERT, entry(FAULT)), OK),
    "the same key, another priority": (update(INSERT, entry(FAULT, put("priority", 8))), OK),
    "the default inserted": (update(INSERT, default(FORWARD)), INVALID),
    "the default deleted": (update(DELETE, default(FORWARD)), INVALID),
    "the default with a priority": (update(MODIFY, default(FORWARD, priority=1)), INVALID),
    "the default changed": (update(MODIFY, default(FORWARD)), OK),
    "the default reset": (update(MODIFY, default(None)), OK),
    "a register": (register(3, b"\7"), OK, NEVER),
    "a register's cell too far": (register(512, b"\7"), "OUT_OF_RANGE", NEVER),
    "a register's negative cell": (register(-1, b"\7"), INVALID, NEVER),
    "a register's value too wide": (register(3, b"\x08\0\0"), INVALID, NEVER),
}


class Conversation:
    """Primary of a programmed device."""

    def __init__(self, address: str) -> None:
        self.client = P4RuntimeClient(address, DEVICE, 1)
        self.client.connect()
        self.client.set_pipeline(P4INFO, PROGRAM)
        self.channel = rpc.open_channel(address)
        self.stub = rpc.Stub(self.channel)

    def write(self, update: Any) -> str:
        request = p4runtime.WriteRequest(
            device_id=DEVICE, election_id=to_uint128(1), updates=[update]
        )
        try:
            self.stub.write(request, timeout=5)
        except rpc.RpcError as failure:
            error: Any = failure
            found = rpc.unpack_details(error)
            return found[0].code.name if found and found[0] else f"the call: {error.code().name}"
        return OK

    def close(self) -> None:
        self.channel.close()
        self.client.close()


def read(address: str) -> dict[str, Any]:
    """All that our client can read, after the same writes."""
    conversation = Conversation(address)
    client = conversation.client
    client.write(UpdateType.INSERT, [*ROWS, FAULT])
    answers = {
        "rows": sorted(map(repr, client.read_entries())),
        "one table": sorted(map(repr, client.read_entries(rows.FIB))),
        "defaults": [client.read_default(table.name) for table in INFO.tables],
        "counter": client.read_counter(rows.DROPS_COUNTER),
        "direct counters": client.read_direct_counters(rows.FAULT),
        "direct counter": client.read_direct_counter(rows.FAULT, FAULT),
    }
    client.write(UpdateType.DELETE, [FAULT])
    answers["fewer rows"] = sorted(map(repr, client.read_entries()))
    client.set_pipeline(P4INFO, PROGRAM, cookie=0xBEEF)
    answers["no rows"] = client.read_entries()
    answers["cookie"] = client.get_cookie()
    conversation.close()
    return answers


def said(address: str) -> dict[str, str]:
    conversation = Conversation(address)
    answers = {name: conversation.write(case[0]) for name, case in CASES.items()}
    conversation.close()
    return answers


def test_the_shim_answers_as_the_specification_says(engine: EngineSwitch, tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/socket"
    with P4RuntimeServer(address, {DEVICE: ServedDevice(P4INFO, PROGRAM, engine.device)}):
        assert said(address) == {name: case[1] for name, case in CASES.items()}


@pytest.mark.bmv2
def test_both_read_the_same(
    bmv2: tuple[str, str, int], engine: EngineSwitch, tmp_path: Path
) -> None:
    address = f"unix:{tmp_path}/socket"
    with P4RuntimeServer(address, {DEVICE: ServedDevice(P4INFO, PROGRAM, engine.device)}):
        ours = read(address)
    assert ours == read(bmv2[0])
    assert len(ours["rows"]) == len(ROWS) + 1


@pytest.mark.bmv2
def test_bmv2_answers_the_same_but_for_named_differences(bmv2: tuple[str, str, int]) -> None:
    assert said(bmv2[0]) == {name: case[-1] for name, case in CASES.items()}
