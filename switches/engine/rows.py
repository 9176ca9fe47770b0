"""Table entries of switches.api <-> rows of the engine: values and masks by field, as bytes."""

from collections.abc import Collection, Mapping
from typing import assert_never

from switches.api import (
    ActionCall,
    Exact,
    Lpm,
    Match,
    OptionalMatch,
    Range,
    SwitchError,
    SwitchErrorCode,
    TableEntry,
    Ternary,
)
from switches.engine.messages import NO_ACTION, Action, Field, MatchKind, ProgramInfo, Reader, Table

KINDS: Mapping[MatchKind, type[Match]] = {
    MatchKind.EXACT: Exact,
    MatchKind.LPM: Lpm,
    MatchKind.TERNARY: Ternary,
    MatchKind.RANGE: Range,
    MatchKind.OPTIONAL: OptionalMatch,
}


def invalid(message: str) -> SwitchError:
    return SwitchError(SwitchErrorCode.INVALID_ARGUMENT, message)


def to_bytes(value: int, field: Field, where: str) -> bytes:
    """Big-endian, padded.  Raises SwitchError where the value is wider than the field."""
    if value < 0 or value >> field.bits:
        raise invalid(f"{where}: {value:#x} does not fit {field.name} of {field.bits} bits")
    return value.to_bytes(field.size, "big")


def encode_match(table: Table, entry: TableEntry) -> bytes:
    """priority, values, masks.  Raises SwitchError where the match is not one of this table."""
    unknown = entry.match.keys() - {field.name for field in table.fields}
    if unknown:
        raise invalid(f"{table.name}: no match field {sorted(unknown)[0]!r}")
    if not 0 <= entry.priority < 1 << 32:
        raise invalid(f"{table.name}: priority {entry.priority} out of range")
    pairs = [_value_and_mask(table, field, entry.match.get(field.name)) for field in table.fields]
    values = b"".join(value for value, _ in pairs)
    masks = b"".join(mask for _, mask in pairs)
    return entry.priority.to_bytes(4, "little") + values + masks


def _value_and_mask(table: Table, field: Field, match: Match | None) -> tuple[bytes, bytes]:
    ones = (1 << field.bits) - 1
    where = table.name
    if match is None:
        if field.kind is MatchKind.EXACT:
            raise invalid(f"{where}: exact field {field.name} is missing")
        mask = ones if field.kind is MatchKind.RANGE else 0
        return bytes(field.size), mask.to_bytes(field.size, "big")
    if type(match) is not KINDS[field.kind] and not is_optional(field, match):
        raise invalid(f"{where}: {field.name} is {field.kind.name}, not {type(match).__name__}")
    match match:
        case Exact(value) | OptionalMatch(value):
            mask = ones
        case Lpm(value, prefix_len):
            if not 0 <= prefix_len <= field.bits:
                raise invalid(f"{where}: {field.name} has no prefix of {prefix_len} bits")
            mask = ones >> (field.bits - prefix_len) << (field.bits - prefix_len)
        case Ternary(value, mask):
            pass
        case Range(value, mask):
            pass
        case _:
            assert_never(match)
    return to_bytes(value, field, where), to_bytes(mask, field, where)


def is_optional(field: Field, match: Match) -> bool:
    """p4c's JSON says ternary where the program and the p4info file say optional."""
    return field.kind is MatchKind.TERNARY and isinstance(match, OptionalMatch)


def encode_call(program: ProgramInfo, table: Table, call: ActionCall) -> bytes:
    """Raises SwitchError where the action is not one of the table or a parameter does not fit."""
    action = next((a for a in _actions(program, table) if a.name == call.name), None)
    if action is None:
        raise invalid(f"{table.name}: no action {call.name!r}")
    if call.params.keys() != {param.name for param in action.params}:
        wanted = ", ".join(param.name for param in action.params) or "none"
        raise invalid(f"{table.name}: parameters of {action.name} are {wanted}")
    params = (to_bytes(call.params[param.name], param, action.name) for param in action.params)
    return action.index.to_bytes(2, "little") + b"".join(params)


def _actions(program: ProgramInfo, table: Table) -> list[Action]:
    return [program.actions[index] for index in table.actions]


def decode_row(
    program: ProgramInfo, table: Table, r: Reader, optional: Collection[str]
) -> TableEntry:
    """The match and the call of one row.  `optional`: ternary fields that are optional ones."""
    priority = r.number(4)
    values = [int.from_bytes(r.bytes(field.size), "big") for field in table.fields]
    masks = [int.from_bytes(r.bytes(field.size), "big") for field in table.fields]
    found = zip(table.fields, values, masks, strict=True)
    match = {
        field.name: m
        for field, value, mask in found
        if (m := _match(field, value, mask, field.name in optional)) is not None
    }
    call = decode_call(program, r)
    assert call is not None, "a row has an action"
    return TableEntry(table.name, match, call, priority)


def _match(field: Field, value: int, mask: int, optional: bool) -> Match | None:
    """None for the wildcard, which an entry leaves out."""
    ones = (1 << field.bits) - 1
    match field.kind:
        case MatchKind.EXACT:
            return Exact(value)
        case MatchKind.LPM:
            return Lpm(value, mask.bit_count()) if mask else None
        case MatchKind.TERNARY:
            if not mask:
                return None
            return OptionalMatch(value) if optional else Ternary(value, mask)
        case MatchKind.RANGE:
            return Range(value, mask) if (value, mask) != (0, ones) else None
        case MatchKind.OPTIONAL:
            return OptionalMatch(value) if mask else None
        case _:
            assert_never(field.kind)


def decode_call(program: ProgramInfo, r: Reader) -> ActionCall | None:
    """None: a table without a default action."""
    index = r.number(2)
    if index == NO_ACTION:
        return None
    action = program.actions[index]
    params = {p.name: int.from_bytes(r.bytes(p.size), "big") for p in action.params}
    return ActionCall(action.name, params)
