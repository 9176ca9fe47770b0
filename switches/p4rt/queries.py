"""Reads: the entities that one element of a ReadRequest asks for."""

from collections.abc import Callable, Iterator
from typing import Any

from switches.api import CounterValue, SwitchError, SwitchErrorCode, TableEntry
from switches.p4rt.p4info import Counter, P4Info, Register, Table
from switches.p4rt.protos import p4runtime
from switches.p4rt.translate import (
    decode_match,
    decode_priority,
    encode_cell,
    encode_entry,
    encode_key,
    key,
    refuse,
)
from switches.p4rt.updates import (
    NO_CALL,
    Note,
    Running,
    check_default_key,
    entry_key,
    indexes,
)


def answer(running: Running, entity: Any) -> list[Any]:
    """The Entity messages for one element.  Raises SwitchError."""
    kind = entity.WhichOneof("entity")
    if kind is None:
        refuse("the request has an empty entity")
    reader = _READERS.get(kind)
    if reader is not None:
        return list(reader(running, getattr(entity, kind)))
    return _read_absent(running.info, kind, getattr(entity, kind))


_ABSENT = {
    "meter_entry": "meter",
    "direct_meter_entry": "direct meter",
    "action_profile_member": "action profile",
    "action_profile_group": "action profile",
    "value_set_entry": "value set",
    "digest_entry": "digest",
}


def _read_absent(info: P4Info, kind: str, message: Any) -> list[Any]:
    """Kinds that cannot be written here, so that there is nothing to read.

    A request for all of them is answered with nothing, which is true unless the program itself has
    some; a request for one is refused.
    """
    has_some = any(text.startswith(f"{_ABSENT.get(kind)} ") for text in info.unsupported.values())
    if has_some or _names_something(message):
        raise SwitchError(SwitchErrorCode.UNIMPLEMENTED, f"{kind} is not served")
    return []


def _names_something(message: Any) -> bool:
    """Whether a scalar or a list is set at any depth."""
    return any(
        not hasattr(value, "ListFields") or _names_something(value)
        for _, value in message.ListFields()
    )


# --- table entries


def _read_table_entries(running: Running, message: Any) -> Iterator[Any]:
    with_counters = message.HasField("counter_data")
    for table, entries in _selected(running, message):
        for entry in entries:
            entity = p4runtime.Entity()
            entity.table_entry.CopyFrom(_described(running, table, entry))
            if with_counters and table.direct_counter is not None:
                _put_count(entity.table_entry.counter_data, _direct_count(running, entry))
            yield entity


def _described(running: Running, table: Table, entry: TableEntry) -> Any:
    described = encode_entry(table, entry)
    note = running.notes.get(key(entry), Note())
    described.controller_metadata = note.controller_metadata
    described.metadata = note.metadata
    described.is_const = table.const_entries and not entry.is_default
    return described


def _selected(running: Running, message: Any) -> Iterator[tuple[Table, list[TableEntry]]]:
    if message.table_id == 0:
        if any(name not in ("counter_data", "meter_config") for name in _fields_set(message)):
            refuse("a read of all tables takes no other filter")
        for table in running.info.tables:
            yield table, _entries(running, table)
        return
    table = running.info.table_by_id(message.table_id)
    _check_read_extras(table, message)
    if message.is_default_action:
        check_default_key(table, message)
        found = [running.find(TableEntry(table.name, {}, NO_CALL, is_default=True))]
    else:
        found = _entries(running, table)
    yield table, list(filter(_filter(running, table, message), found))


def _fields_set(message: Any) -> list[str]:
    return [field.name for field, _ in message.ListFields()]


def _entries(running: Running, table: Table) -> list[TableEntry]:
    return [entry for entry in running.switch.read_entries(table.name) if not entry.is_default]


def _check_read_extras(table: Table, message: Any) -> None:
    if message.HasField("counter_data") and table.direct_counter is None:
        refuse(f"{table.name} has no direct counter")
    if message.HasField("meter_config") or message.HasField("meter_counter_data"):
        refuse(f"{table.name} has no direct meter")
    if message.HasField("time_since_last_hit"):
        if not table.idle_timeout:
            refuse(f"entries of {table.name} do not expire")
        raise SwitchError(SwitchErrorCode.UNIMPLEMENTED, "idle timeouts are not served")


def _filter(running: Running, table: Table, message: Any) -> Callable[[TableEntry], bool]:
    """Every part that is set must agree (specification, section Wildcard Reads)."""
    match = decode_match(table, message) if message.match else None
    priority = decode_priority(table, message.priority) if message.priority else None
    action = _action_name(table, message.action) if message.HasField("action") else None

    def passes(entry: TableEntry) -> bool:
        note = running.notes.get(key(entry), Note())
        return (
            match in (None, dict(entry.match))
            and priority in (None, entry.priority)
            and action in (None, entry.action.name)
            and message.controller_metadata in (0, note.controller_metadata)
            and message.metadata in (b"", note.metadata)
        )

    return passes


def _action_name(table: Table, action: Any) -> str:
    if action.WhichOneof("type") != "action":
        refuse("entries can be filtered by action id alone")
    ref = table.action_ref(action.action.action_id)
    if ref is None:
        refuse(f"{table.name} has no action {action.action.action_id:#010x}")
    return ref.action.name


# --- counters


def _put_count(message: Any, value: CounterValue) -> None:
    message.SetInParent()
    message.packet_count, message.byte_count = value.packets, value.bytes


def _direct_count(running: Running, entry: TableEntry) -> CounterValue:
    return running.switch.read_direct_counter(entry.table, entry)


def _read_direct_counters(running: Running, message: Any) -> Iterator[Any]:
    named = message.table_entry
    for table, entries in _counted(running, named):
        for entry in entries:
            entity = p4runtime.Entity()
            entity.direct_counter_entry.table_entry.CopyFrom(encode_key(table, entry))
            _put_count(entity.direct_counter_entry.data, _direct_count(running, entry))
            yield entity


def _counted(running: Running, named: Any) -> Iterator[tuple[Table, list[TableEntry]]]:
    if named.table_id == 0:
        for table in running.info.tables:
            if table.direct_counter is not None:
                yield table, _entries(running, table)
        return
    table = running.info.table_by_id(named.table_id)
    if table.direct_counter is None:
        refuse(f"{table.name} has no direct counter")
    if named.is_default_action:
        check_default_key(table, named)
        yield table, [running.find(TableEntry(table.name, {}, NO_CALL, is_default=True))]
    elif named.match or named.priority:
        yield table, [running.find(entry_key(table, named))]
    else:
        yield table, _entries(running, table)


def _read_counters(running: Running, message: Any) -> Iterator[Any]:
    if message.counter_id:
        counters: tuple[Counter, ...] = (running.info.counter_by_id(message.counter_id),)
    else:
        counters = running.info.counters
        _no_index(message)
    for counter in counters:
        values = running.switch.read_counter(counter.name)
        for index in indexes(counter, message):
            entity = p4runtime.Entity()
            entity.counter_entry.counter_id = counter.id
            entity.counter_entry.index.index = index
            _put_count(entity.counter_entry.data, values[index])
            yield entity


# --- registers


def _read_registers(running: Running, message: Any) -> Iterator[Any]:
    if message.register_id:
        registers: tuple[Register, ...] = (running.info.register_by_id(message.register_id),)
    else:
        registers = running.info.registers
        _no_index(message)
    for register in registers:
        values = running.switch.read_register(register.name)
        for index in indexes(register, message):
            entity = p4runtime.Entity()
            entity.register_entry.register_id = register.id
            entity.register_entry.index.index = index
            entity.register_entry.data.CopyFrom(encode_cell(register, values[index]))
            yield entity


def _no_index(message: Any) -> None:
    if message.HasField("index"):
        refuse("an index needs the array it points into")


_READERS: dict[str, Callable[[Running, Any], Iterator[Any]]] = {
    "table_entry": _read_table_entries,
    "counter_entry": _read_counters,
    "direct_counter_entry": _read_direct_counters,
    "register_entry": _read_registers,
}
