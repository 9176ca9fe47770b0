"""Entries and cells between `switches.api` and P4Runtime's messages.

Used on both sides: the client turns entries into messages, the server turns messages into entries,
and each back again.  Messages are read strictly: what the specification (sections Bytestrings,
Match Format, Action Specification) calls malformed raises SwitchError.  They are written in the
canonical form: shortest byte strings, wildcards left out, fields in the order of the p4info.

A value that does not fit its field is INVALID_ARGUMENT in matches, parameters and cells, as those
sections say and as BMv2's server answers; the general section on byte strings names OUT_OF_RANGE,
which is left to indexes.
"""

from collections.abc import Mapping
from typing import Any, NoReturn, assert_never

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
from switches.p4rt.p4info import (
    Action,
    CellKind,
    MatchField,
    MatchKind,
    P4Info,
    Register,
    Table,
)
from switches.p4rt.protos import p4data, p4runtime


def refuse(message: str) -> NoReturn:
    raise SwitchError(SwitchErrorCode.INVALID_ARGUMENT, message)


def encode_uint(value: int) -> bytes:
    """The shortest big-endian bytes of a number; zero is one byte."""
    if value < 0:
        refuse(f"{value} is negative")
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def decode_uint(data: bytes, bits: int, what: str) -> int:
    """Any number of leading zeros is accepted; an empty string and too large a value are not."""
    if not data:
        refuse(f"{what} is an empty byte string")
    value = int.from_bytes(data, "big")
    if value.bit_length() > bits:
        refuse(f"{what} is {value:#x}, which does not fit {bits} bits")
    return value


def encode_int(value: int) -> bytes:
    """The shortest two's complement of a number; zero and minus one are one byte."""
    magnitude = value if value >= 0 else ~value
    return value.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def decode_int(data: bytes, bits: int, what: str) -> int:
    if not data:
        refuse(f"{what} is an empty byte string")
    value = int.from_bytes(data, "big", signed=True)
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        refuse(f"{what} is {value}, which does not fit {bits} signed bits")
    return value


# --- matches


def decode_match(table: Table, message: Any) -> dict[str, Match]:
    """The match of a TableEntry message, in the order of the p4info."""
    given: dict[int, Match] = {}
    for item in message.match:
        field = table.field(item.field_id)
        if field is None:
            refuse(f"{table.name} has no match field {item.field_id}")
        if field.id in given:
            refuse(f"{field.name} of {table.name} is given twice")
        given[field.id] = _decode_field(field, item)
    for field in table.fields:
        if field.kind is MatchKind.EXACT and field.id not in given:
            refuse(f"{field.name} of {table.name} is exact and must be given")
    return {field.name: given[field.id] for field in table.fields if field.id in given}


def _decode_field(field: MatchField, item: Any) -> Match:
    kind = item.WhichOneof("field_match_type")
    if kind != field.kind.value:
        refuse(f"{field.name} is matched {field.kind.value}, not {kind or 'left open'}")
    name, bits = field.name, field.bits
    match field.kind:
        case MatchKind.EXACT:
            return Exact(decode_uint(item.exact.value, bits, name))
        case MatchKind.OPTIONAL:
            return OptionalMatch(decode_uint(item.optional.value, bits, name))
        case MatchKind.LPM:
            return _decode_lpm(field, item.lpm)
        case MatchKind.TERNARY:
            value = decode_uint(item.ternary.value, bits, name)
            mask = decode_uint(item.ternary.mask, bits, f"the mask of {name}")
            if mask == 0:
                refuse(f"the mask of {name} is zero: leave a wildcard out")
            if value & ~mask:
                refuse(f"{name} has bits outside its mask")
            return Ternary(value, mask)
        case MatchKind.RANGE:
            return _decode_range(field, item.range)
        case _:
            assert_never(field.kind)


def _decode_lpm(field: MatchField, item: Any) -> Lpm:
    value = decode_uint(item.value, field.bits, field.name)
    if not 0 < item.prefix_len <= field.bits:
        refuse(f"the prefix of {field.name} is {item.prefix_len}, not 1 to {field.bits} bits")
    if value & ((1 << field.bits - item.prefix_len) - 1):
        refuse(f"{field.name} has bits beyond its prefix of {item.prefix_len}")
    return Lpm(value, item.prefix_len)


def _decode_range(field: MatchField, item: Any) -> Range:
    low = decode_uint(item.low, field.bits, f"the low end of {field.name}")
    high = decode_uint(item.high, field.bits, f"the high end of {field.name}")
    if low > high:
        refuse(f"the range of {field.name} begins at {low} and ends at {high}")
    if (low, high) == (0, (1 << field.bits) - 1):
        refuse(f"the range of {field.name} is everything: leave a wildcard out")
    return Range(low, high)


def is_wildcard(field: MatchField, match: Match) -> bool:
    match match:
        case Lpm(prefix_len=0) | Ternary(mask=0):
            return True
        case Range(low=0, high=high):
            return high == (1 << field.bits) - 1
        case _:
            return False


def _encode_field(field: MatchField, match: Match, into: Any) -> None:
    into.field_id = field.id
    expected = {
        MatchKind.EXACT: Exact,
        MatchKind.LPM: Lpm,
        MatchKind.TERNARY: Ternary,
        MatchKind.RANGE: Range,
        MatchKind.OPTIONAL: OptionalMatch,
    }[field.kind]
    if not isinstance(match, expected):
        refuse(f"{field.name} is matched {field.kind.value}, not {type(match).__name__}")
    match match:
        case Exact(value):
            into.exact.value = encode_uint(value)
        case OptionalMatch(value):
            into.optional.value = encode_uint(value)
        case Lpm(value, prefix_len):
            into.lpm.value = encode_uint(value)
            into.lpm.prefix_len = prefix_len
        case Ternary(value, mask):
            into.ternary.value = encode_uint(value)
            into.ternary.mask = encode_uint(mask)
        case Range(low, high):
            into.range.low = encode_uint(low)
            into.range.high = encode_uint(high)
        case _:
            assert_never(match)


# --- actions


def decode_action(table: Table, message: Any, *, is_default: bool) -> ActionCall:
    """A TableAction message as a call.  PERMISSION_DENIED where the action's scope forbids it."""
    kind = message.WhichOneof("type")
    if kind != "action":
        refuse(f"{table.name} takes an action, not {kind or 'nothing'}")
    ref = table.action_ref(message.action.action_id)
    if ref is None:
        refuse(f"{table.name} has no action {message.action.action_id:#010x}")
    if not (ref.as_default if is_default else ref.in_entries):
        place = "the default entry" if is_default else "an entry"
        raise SwitchError(
            SwitchErrorCode.PERMISSION_DENIED,
            f"{ref.action.name} may not be used in {place} of {table.name}",
        )
    return ActionCall(ref.action.name, _decode_params(ref.action, message.action.params))


def _decode_params(action: Action, params: Any) -> dict[str, int]:
    given: dict[int, bytes] = {}
    for item in params:
        if item.param_id in given:
            refuse(f"parameter {item.param_id} of {action.name} is given twice")
        given[item.param_id] = item.value
    if extra := given.keys() - {param.id for param in action.params}:
        refuse(f"{action.name} has no parameter {min(extra)}")
    for param in action.params:
        if param.id not in given:
            refuse(f"{param.name} of {action.name} is missing")
    return {
        param.name: decode_uint(given[param.id], param.bits, f"{param.name} of {action.name}")
        for param in action.params
    }


def _encode_action(table: Table, call: ActionCall, into: Any) -> None:
    action = next((ref.action for ref in table.actions if ref.action.name == call.name), None)
    if action is None:
        refuse(f"{table.name} has no action {call.name!r}")
    if call.params.keys() != {param.name for param in action.params}:
        wanted = ", ".join(param.name for param in action.params) or "none"
        refuse(f"{call.name} takes {wanted}; given: {', '.join(call.params) or 'none'}")
    into.action.action_id = action.id
    for param in action.params:
        into.action.params.add(param_id=param.id, value=encode_uint(call.params[param.name]))


# --- whole entries


def decode_priority(table: Table, priority: int) -> int:
    if table.has_priority and priority <= 0:
        refuse(f"entries of {table.name} need a priority of at least 1")
    if not table.has_priority and priority != 0:
        refuse(f"entries of {table.name} have no priority")
    return priority


def decode_entry(info: P4Info, message: Any) -> TableEntry:
    """A TableEntry message as the server of a switch answers it: key and action."""
    table = info.table_by_id(message.table_id)
    is_default = bool(message.is_default_action)
    return TableEntry(
        table=table.name,
        match=decode_match(table, message) if not is_default else {},
        action=decode_action(table, message.action, is_default=is_default),
        priority=decode_priority(table, message.priority) if not is_default else 0,
        is_default=is_default,
    )


def encode_key(table: Table, entry: TableEntry) -> Any:
    """The TableEntry message that names an entry, without its action."""
    message = p4runtime.TableEntry(
        table_id=table.id, priority=entry.priority, is_default_action=entry.is_default
    )
    if unknown := entry.match.keys() - {field.name for field in table.fields}:
        refuse(f"{table.name} has no match field {min(unknown)!r}")
    for field in table.fields:
        match = entry.match.get(field.name)
        if match is not None and not is_wildcard(field, match):
            _encode_field(field, match, message.match.add())
    return message


def encode_entry(table: Table, entry: TableEntry) -> Any:
    """The whole TableEntry message of an entry."""
    message = encode_key(table, entry)
    _encode_action(table, entry.action, message.action)
    return message


Key = tuple[str, frozenset[tuple[str, Match]], int, bool]


def key(entry: TableEntry) -> Key:
    """What makes an entry one of a kind."""
    return _key(entry.table, entry.match, entry.priority, entry.is_default)


def _key(table: str, match: Mapping[str, Match], priority: int, is_default: bool) -> Key:
    return (table, frozenset(match.items()), priority, is_default)


# --- cells of registers


def encode_cell(register: Register, value: int) -> Any:
    """The P4Data message of a cell; `value` may be the bits of a negative number or the number."""
    match register.kind:
        case CellKind.UNSIGNED:
            return p4data.P4Data(bitstring=encode_uint(value))
        case CellKind.BOOL:
            return p4data.P4Data(bool=bool(value))
        case CellKind.SIGNED:
            sign = 1 << register.bits - 1
            return p4data.P4Data(bitstring=encode_int(((value + sign) & (2 * sign - 1)) - sign))
        case CellKind.OTHER:
            _refuse_cell(register)
        case _:
            assert_never(register.kind)


def decode_cell(register: Register, message: Any) -> int:
    """The value of a P4Data message; negative where the register is signed and its sign is set."""
    what = f"the value for {register.name}"
    if register.kind is CellKind.OTHER:
        _refuse_cell(register)
    kind = message.WhichOneof("data")
    if kind != ("bool" if register.kind is CellKind.BOOL else "bitstring"):
        refuse(f"{what} is {kind or 'missing'}, not of the register's type")
    if register.kind is CellKind.BOOL:
        return int(message.bool)
    decode = decode_int if register.kind is CellKind.SIGNED else decode_uint
    return decode(message.bitstring, register.bits, what)


def _refuse_cell(register: Register) -> NoReturn:
    raise SwitchError(
        SwitchErrorCode.UNIMPLEMENTED, f"register {register.name} holds neither bits nor a bool"
    )
