"""Whatever a message holds, it is answered, and a refusal changes nothing."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from switches.api import SwitchError
from switches.p4rt.p4info import Counter, Register, model, parse_text
from switches.p4rt.protos import p4runtime
from switches.p4rt.served import ServedDevice, ServedSwitch
from switches.p4rt.translate import encode_uint
from tests.support.fake_switch import FakeSwitch, ResettableFakeSwitch
from tests.support.small_program import P4INFO, PROGRAM

INFO = model(parse_text(P4INFO))
IDS = [
    item.id
    for items in (INFO.tables, INFO.actions, INFO.counters, INFO.registers, INFO.direct_counters)
    for item in items
]
NUMBERS = [0, 1, 2, 3, 4, 8, 9, 16, 32, 33, -1, 1 << 31, (1 << 63) - 1]
STRINGS = [b"", b"\x00", b"\x01", b"\x07", b"\x08", b"\x00\x01", b"\xff\xff", b"\xff" * 16, b"\x80"]
DEPTH_MAX = 7


class Scribbler:
    """Fills messages with fields that make sense often enough to get far."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def fill(self, message: Any, depth: int = 0) -> Any:
        for field in message.DESCRIPTOR.fields:
            if self._random.random() < (0.75 if depth < 3 else 0.6):
                self._set(message, field, depth)
        return message

    def _set(self, message: Any, field: Any, depth: int) -> None:
        value = getattr(message, field.name)
        if field.message_type is not None:
            if depth >= DEPTH_MAX:
                return
            if hasattr(value, "add"):
                for _ in range(self._random.randrange(3)):
                    self.fill(value.add(), depth + 1)
            elif hasattr(value, "SetInParent"):  # not a map
                value.SetInParent()
                self.fill(value, depth + 1)
        elif hasattr(value, "append"):
            return
        else:
            self._set_scalar(message, field, value)

    def _set_scalar(self, message: Any, field: Any, value: Any) -> None:
        if isinstance(value, bool):
            setattr(message, field.name, self._random.random() < 0.3)
        elif isinstance(value, bytes):
            setattr(message, field.name, self._random.choice(STRINGS))
        elif isinstance(value, int):
            ids = IDS if field.name.endswith("_id") and self._random.random() < 0.7 else NUMBERS
            try:
                setattr(message, field.name, self._random.choice(ids))
            except ValueError:  # a negative number in an unsigned field
                setattr(message, field.name, 1)

    def update(self) -> Any:
        update = p4runtime.Update(type=self._random.choice([1, 1, 1, 2, 3, 0]))
        kind = self._random.choice(["table_entry"] * 4 + KINDS)
        self.fill(getattr(update.entity, kind), 1)
        if kind == "table_entry":
            self._make_plausible(update.entity.table_entry)
        elif kind in ARRAYS and self._random.random() < 0.8:
            array = self._random.choice(ARRAYS[kind])
            message = getattr(update.entity, kind)
            setattr(message, kind.replace("entry", "id"), array.id)
            update.type = p4runtime.Update.MODIFY
            message.index.index = self._random.randrange(array.size + 1)
            if isinstance(array, Register):
                message.data.bitstring = self._bytes(array.bits)
        return update

    def _bytes(self, bits: int) -> bytes:
        """Nearly always a value of that width."""
        if self._random.random() < 0.03:
            return self._random.choice(STRINGS)
        return encode_uint(self._random.choice([0, 1, 2, 3, (1 << bits) - 1]) & (1 << bits) - 1)

    def _make_plausible(self, entry: Any) -> None:
        """Often the parts that a table wants, in the right place."""
        table = self._random.choice(INFO.tables)
        entry.table_id = table.id
        del entry.match[:]
        for field in table.fields:
            item = entry.match.add(field_id=field.id)
            self.fill(getattr(item, field.kind.value))
            for part, _ in getattr(item, field.kind.value).ListFields():
                if part.name != "prefix_len" and self._random.random() < 0.9:
                    setattr(getattr(item, field.kind.value), part.name, self._bytes(field.bits))
        ref = self._random.choice(table.actions)
        if self._random.random() < 0.9:
            entry.action.action.action_id = ref.action.id
            del entry.action.action.params[:]
            for param in ref.action.params:
                value = self._bytes(param.bits)
                entry.action.action.params.add(param_id=param.id, value=value)
        if self._random.random() < 0.8:
            entry.is_const = entry.is_default_action = False
            entry.priority = int(table.has_priority)
            for name in ("meter_config", "meter_counter_data", "time_since_last_hit"):
                entry.ClearField(name)
            entry.idle_timeout_ns = 0


ARRAYS: dict[str, tuple[Counter | Register, ...]] = {
    "counter_entry": INFO.counters,
    "register_entry": INFO.registers,
}
KINDS = [field.name for field in p4runtime.Entity.DESCRIPTOR.fields]


def state(switch: FakeSwitch) -> Any:
    return (
        switch.read_entries(),
        [switch.read_counter(counter.name) for counter in INFO.counters],
        [switch.read_register(register.name) for register in INFO.registers],
    )


def served(switch: FakeSwitch) -> ServedSwitch:
    shim = ServedSwitch(ServedDevice(P4INFO, PROGRAM, switch))
    request = p4runtime.SetForwardingPipelineConfigRequest(
        action=p4runtime.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
    )
    request.config.p4info.CopyFrom(parse_text(P4INFO))
    request.config.p4_device_config = PROGRAM
    shim.set_pipeline(request, lambda: None)
    return shim


@pytest.mark.parametrize("kind", [FakeSwitch, ResettableFakeSwitch])
@given(seed=st.integers(min_value=0, max_value=1 << 32))
@settings(max_examples=150)
def test_a_refused_update_changes_nothing(kind: type[FakeSwitch], seed: int) -> None:
    switch = kind(INFO)
    shim = served(switch)
    scribbler = Scribbler(seed)
    for _ in range(10):
        before = state(switch)
        update = scribbler.update()
        [error] = shim.write(p4runtime.WriteRequest(updates=[update]), lambda: None)
        if error is not None:
            assert state(switch) == before, update


@given(seed=st.integers(min_value=0, max_value=1 << 32))
@settings(max_examples=150)
def test_an_inserted_entry_is_read_as_it_was_written(seed: int) -> None:
    switch = ResettableFakeSwitch(INFO)
    shim = served(switch)
    scribbler = Scribbler(seed)
    for _ in range(10):
        update = scribbler.update()
        update.type = p4runtime.Update.INSERT
        [error] = shim.write(p4runtime.WriteRequest(updates=[update]), lambda: None)
        if error is not None or not update.entity.HasField("table_entry"):
            continue
        written = update.entity.table_entry
        wanted = p4runtime.TableEntry(
            table_id=written.table_id,
            match=written.match,
            priority=written.priority,
        )
        found, _ = shim.read(p4runtime.ReadRequest(entities=[p4runtime.Entity(table_entry=wanted)]))
        assert any(canonical(entity.table_entry) == canonical(written) for entity in found)


def canonical(entry: Any) -> Any:
    """Without what a reader asks for apart, and with the shortest byte strings."""
    copy = p4runtime.TableEntry()
    copy.CopyFrom(entry)
    copy.ClearField("counter_data")
    for item in copy.match:
        kind = getattr(item, item.WhichOneof("field_match_type"))
        for field, value in kind.ListFields():
            if isinstance(value, bytes):
                setattr(kind, field.name, value.lstrip(b"\0") or b"\0")
    for param in copy.action.action.params:
        param.value = param.value.lstrip(b"\0") or b"\0"
    return copy


@given(seed=st.integers(min_value=0, max_value=1 << 32))
@settings(max_examples=300)
def test_every_read_is_answered(seed: int) -> None:
    switch = ResettableFakeSwitch(INFO)
    shim = served(switch)
    scribbler = Scribbler(seed)
    entities = [scribbler.update().entity for _ in range(5)]
    _, errors = shim.read(p4runtime.ReadRequest(entities=entities))
    assert len(errors) == len(entities)


@given(seed=st.integers(min_value=0, max_value=1 << 32))
@settings(max_examples=100)
def test_every_config_is_verified_or_refused(seed: int) -> None:
    switch = FakeSwitch(INFO)
    shim = served(switch)
    request = p4runtime.SetForwardingPipelineConfigRequest(action=seed % 7)
    if seed % 2:
        request.config.p4info.CopyFrom(parse_text(P4INFO))
        request.config.p4_device_config = PROGRAM
    Scribbler(seed).fill(request.config.p4info)
    before = state(switch)
    try:
        shim.set_pipeline(request, lambda: None)
    except SwitchError:
        assert state(switch) == before
