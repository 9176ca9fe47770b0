"""Writes: one update of a batch, checked and applied to one switch.

Everything that can be wrong with an update is found before the switch is touched; the switch
itself refuses the rest (duplicates, missing entries, full tables) and then changes nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from switches.api import (
    ActionCall,
    CounterValue,
    CounterWriter,
    Switch,
    SwitchError,
    SwitchErrorCode,
    TableEntry,
    UpdateType,
)
from switches.p4rt.p4info import CellKind, Counter, P4Info, Register, Table
from switches.p4rt.protos import p4runtime
from switches.p4rt.translate import (
    Key,
    decode_action,
    decode_cell,
    decode_match,
    decode_priority,
    key,
    refuse,
)

NO_CALL = ActionCall("")
"""Stands where a key is meant and no action."""


@dataclass(frozen=True, slots=True)
class Note:
    """What a client attaches to an entry and gets back; opaque to the switch."""

    controller_metadata: int = 0
    metadata: bytes = b""


@dataclass(slots=True)
class Running:
    """A switch with the p4info its client uses, and the notes on its entries."""

    info: P4Info
    switch: Switch
    notes: dict[Key, Note] = field(default_factory=dict)

    def find(self, wanted: TableEntry) -> TableEntry:
        """The entry of that key as it is now.  Raises NOT_FOUND."""
        for entry in self.switch.read_entries(wanted.table):
            if key(entry) == key(wanted):
                return entry
        if wanted.is_default:
            default = self.info.table(wanted.table).initial_default
            if default is not None:
                return TableEntry(wanted.table, {}, default, is_default=True)
        raise SwitchError(SwitchErrorCode.NOT_FOUND, f"{wanted.table} has no such entry")


def apply(running: Running, update: Any) -> None:
    """One Update message.  Raises SwitchError, and then nothing of it was applied."""
    kind = _KINDS.get(update.type)
    if kind is None:
        refuse("an update is INSERT, MODIFY or DELETE")
    entity = update.entity.WhichOneof("entity")
    if entity is None:
        refuse("the update has no entity")
    handler = _HANDLERS.get(entity)
    if handler is None:
        raise SwitchError(SwitchErrorCode.UNIMPLEMENTED, f"{entity} cannot be written here")
    handler(running, kind, getattr(update.entity, entity))


_KINDS = {
    p4runtime.Update.INSERT: UpdateType.INSERT,
    p4runtime.Update.MODIFY: UpdateType.MODIFY,
    p4runtime.Update.DELETE: UpdateType.DELETE,
}


def _denied(message: str) -> SwitchError:
    return SwitchError(SwitchErrorCode.PERMISSION_DENIED, message)


# --- table entries


def _write_table_entry(running: Running, kind: UpdateType, message: Any) -> None:
    table = running.info.table_by_id(message.table_id)
    if message.is_const:
        refuse("is_const is the program's to set")
    if message.is_default_action:
        _write_default(running, kind, table, message)
    elif kind is UpdateType.DELETE:
        _delete(running, table, message)
    else:
        _insert_or_modify(running, kind, table, message)


def _write_default(running: Running, kind: UpdateType, table: Table, message: Any) -> None:
    check_default_key(table, message)
    if kind is not UpdateType.MODIFY:
        refuse("the default entry is always there: it can only be modified")
    if table.const_default:
        raise _denied(f"the default action of {table.name} is constant")
    _check_extras(table, message)
    count = _direct_count(running, table, message, initial=False)
    if message.HasField("action"):
        call = decode_action(table, message.action, is_default=True)
        note = Note(message.controller_metadata, message.metadata)
    else:
        call, note = _program_default(table), Note()
    entry = TableEntry(table.name, {}, call, is_default=True)
    running.switch.write(UpdateType.MODIFY, entry)
    running.notes[key(entry)] = note
    if count is not None:
        _set_direct(running, entry, count)


def _program_default(table: Table) -> ActionCall:
    if table.initial_default is None:
        raise SwitchError(
            SwitchErrorCode.UNIMPLEMENTED,
            f"the p4info does not say which default action {table.name} began with",
        )
    return table.initial_default


def check_default_key(table: Table, message: Any) -> None:
    if message.match:
        refuse("the default entry has no match")
    if message.priority:
        refuse("the default entry has no priority")
    if message.idle_timeout_ns or message.HasField("time_since_last_hit"):
        refuse(f"the default entry of {table.name} does not expire")


def entry_key(table: Table, message: Any) -> TableEntry:
    """The entry that a TableEntry message names by match and priority."""
    if not table.fields:
        raise SwitchError(SwitchErrorCode.NOT_FOUND, f"{table.name} has only a default entry")
    return TableEntry(
        table.name,
        decode_match(table, message),
        NO_CALL,
        priority=decode_priority(table, message.priority),
    )


def _delete(running: Running, table: Table, message: Any) -> None:
    if table.const_entries:
        raise _denied(f"the entries of {table.name} are constant")
    entry = entry_key(table, message)
    running.switch.write(UpdateType.DELETE, entry)
    running.notes.pop(key(entry), None)


def _insert_or_modify(running: Running, kind: UpdateType, table: Table, message: Any) -> None:
    inserting = kind is UpdateType.INSERT
    if inserting and not table.fields:
        refuse(f"{table.name} has no key, so no entry but the default one")
    if table.const_entries and (inserting or message.HasField("action")):
        raise _denied(f"the entries of {table.name} are constant")
    entry = entry_key(table, message)
    if inserting or message.HasField("action"):
        call = decode_action(table, message.action, is_default=False)
    else:
        call = running.find(entry).action
    _check_extras(table, message)
    count = _direct_count(running, table, message, initial=inserting)
    entry = TableEntry(entry.table, entry.match, call, priority=entry.priority)
    if not table.const_entries:
        running.switch.write(kind, entry)
        running.notes[key(entry)] = Note(message.controller_metadata, message.metadata)
    if count is not None:
        _set_direct(running, entry, count)


def _check_extras(table: Table, message: Any) -> None:
    """Parts of an entry that this program or this server does not have."""
    if message.HasField("meter_config") or message.HasField("meter_counter_data"):
        refuse(f"{table.name} has no direct meter")
    if message.HasField("time_since_last_hit"):
        refuse("time_since_last_hit cannot be written")
    if message.idle_timeout_ns:
        if not table.idle_timeout:
            refuse(f"entries of {table.name} do not expire")
        raise SwitchError(SwitchErrorCode.UNIMPLEMENTED, "idle timeouts are not served")


# --- direct counters


def _direct_count(
    running: Running, table: Table, message: Any, *, initial: bool
) -> CounterValue | None:
    """The counter value an entry is written with; None to leave it alone."""
    if not message.HasField("counter_data"):
        return None
    if table.direct_counter is None:
        refuse(f"{table.name} has no direct counter")
    value = _count(message.counter_data)
    if initial and value == CounterValue(0, 0):
        return None
    _counter_writer(running)
    return value


def _set_direct(running: Running, entry: TableEntry, value: CounterValue) -> None:
    _counter_writer(running).write_direct_counter(entry.table, entry, value)


def _write_direct_counter(running: Running, kind: UpdateType, message: Any) -> None:
    _modify_only(kind, "a direct counter")
    named = message.table_entry
    table = running.info.table_by_id(named.table_id)
    if table.direct_counter is None:
        refuse(f"{table.name} has no direct counter")
    if named.is_default_action:
        check_default_key(table, named)
        entry = running.find(TableEntry(table.name, {}, NO_CALL, is_default=True))
    else:
        entry = running.find(entry_key(table, named))
    if message.HasField("data"):
        _set_direct(running, entry, _count(message.data))


# --- indexed counters and registers


def _count(message: Any) -> CounterValue:
    if message.packet_count < 0 or message.byte_count < 0:
        refuse("a counter is not negative")
    return CounterValue(packets=message.packet_count, bytes=message.byte_count)


def _counter_writer(running: Running) -> CounterWriter:
    if isinstance(running.switch, CounterWriter):
        return running.switch
    raise SwitchError(SwitchErrorCode.UNIMPLEMENTED, "this switch cannot set counters")


def _modify_only(kind: UpdateType, what: str) -> None:
    if kind is not UpdateType.MODIFY:
        refuse(f"{what} can only be modified")


def indexes(array: Counter | Register, message: Any) -> range:
    """The cells that an optional Index message means: one, or all."""
    if not message.HasField("index"):
        return range(array.size)
    index = message.index.index
    if index < 0:
        refuse(f"index {index} is negative")
    if index >= array.size:
        raise SwitchError(
            SwitchErrorCode.OUT_OF_RANGE,
            f"{array.name} has {array.size} cells, no cell {index}",
        )
    return range(index, index + 1)


def _write_counter(running: Running, kind: UpdateType, message: Any) -> None:
    _modify_only(kind, "a counter")
    counter = running.info.counter_by_id(message.counter_id)
    cells = indexes(counter, message)
    if not message.HasField("data"):
        return
    value = _count(message.data)
    writer = _counter_writer(running)
    for index in cells:
        writer.write_counter(counter.name, index, value)


def _write_register(running: Running, kind: UpdateType, message: Any) -> None:
    _modify_only(kind, "a register")
    register = running.info.register_by_id(message.register_id)
    cells = indexes(register, message)
    value = decode_cell(register, message.data)
    if register.kind is CellKind.SIGNED:
        value &= (1 << register.bits) - 1
    for index in cells:
        running.switch.write_register(register.name, index, value)


_HANDLERS: dict[str, Callable[[Running, UpdateType, Any], None]] = {
    "table_entry": _write_table_entry,
    "counter_entry": _write_counter,
    "direct_counter_entry": _write_direct_counter,
    "register_entry": _write_register,
}
