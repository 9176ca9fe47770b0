"""A p4info as a model: what P4Runtime's numbers mean for one program.

Names are full names (`preamble.name`), as in p4c's BMv2 JSON.  A model is checked when it is made:
numbers are unique and of their kind, every reference resolves, widths are known.  What the model
cannot express (action profiles, meters, translated strings, ...) is listed in `unsupported` by
number, so that a request for it can be refused by name.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, lru_cache
from typing import Any, TypeVar

from switches.api import ActionCall, SwitchError, SwitchErrorCode
from switches.p4rt.protos import p4info as proto
from switches.p4rt.protos import text_format


class MatchKind(Enum):
    EXACT = "exact"
    LPM = "lpm"
    TERNARY = "ternary"
    RANGE = "range"
    OPTIONAL = "optional"


ORDERED_KINDS = frozenset({MatchKind.TERNARY, MatchKind.RANGE, MatchKind.OPTIONAL})
"""A table with a field of one of these kinds orders its entries by priority."""


@dataclass(frozen=True, slots=True)
class MatchField:
    id: int
    name: str
    kind: MatchKind
    bits: int


@dataclass(frozen=True, slots=True)
class Param:
    id: int
    name: str
    bits: int


@dataclass(frozen=True, slots=True)
class Action:
    id: int
    name: str
    params: tuple[Param, ...]


@dataclass(frozen=True, slots=True)
class ActionRef:
    """An action of a table, and whether entries, the default entry or both may use it."""

    action: Action
    in_entries: bool
    as_default: bool


@dataclass(frozen=True, slots=True)
class Table:
    """initial_default: None where the compiler did not say.  direct_counter: its name, or None."""

    id: int
    name: str
    fields: tuple[MatchField, ...]
    actions: tuple[ActionRef, ...]
    size: int
    const_entries: bool
    const_default: bool
    initial_default: ActionCall | None
    direct_counter: str | None
    idle_timeout: bool

    @property
    def has_priority(self) -> bool:
        return any(field.kind in ORDERED_KINDS for field in self.fields)

    def field(self, id: int) -> MatchField | None:
        return next((field for field in self.fields if field.id == id), None)

    def action_ref(self, id: int) -> ActionRef | None:
        return next((ref for ref in self.actions if ref.action.id == id), None)


@dataclass(frozen=True, slots=True)
class Counter:
    id: int
    name: str
    size: int


@dataclass(frozen=True, slots=True)
class DirectCounter:
    id: int
    name: str
    table: str


class CellKind(Enum):
    UNSIGNED = "bit"
    SIGNED = "int"
    BOOL = "bool"
    OTHER = "other"
    """A struct, header, tuple, ...: cannot be read or written here."""


@dataclass(frozen=True, slots=True)
class Register:
    id: int
    name: str
    size: int
    kind: CellKind
    bits: int


@dataclass(frozen=True)
class P4Info:
    """`unsupported`: number -> what it is ("meter ingress.m").  Look-ups raise SwitchError."""

    tables: tuple[Table, ...]
    actions: tuple[Action, ...]
    counters: tuple[Counter, ...]
    direct_counters: tuple[DirectCounter, ...]
    registers: tuple[Register, ...]
    unsupported: Mapping[int, str]

    @cached_property
    def _by_id(self) -> dict[int, object]:
        return {item.id: item for item in self._items}

    @cached_property
    def _by_name(self) -> dict[tuple[type, str], object]:
        return {(type(item), item.name): item for item in self._items}

    @property
    def _items(self) -> tuple[Table | Action | Counter | DirectCounter | Register, ...]:
        return (
            *self.tables,
            *self.actions,
            *self.counters,
            *self.direct_counters,
            *self.registers,
        )

    def table_by_id(self, id: int) -> Table:
        return self._look_up(Table, id)

    def counter_by_id(self, id: int) -> Counter:
        return self._look_up(Counter, id)

    def register_by_id(self, id: int) -> Register:
        return self._look_up(Register, id)

    def table(self, name: str) -> Table:
        return self._named(Table, name)

    def action(self, name: str) -> Action:
        return self._named(Action, name)

    def counter(self, name: str) -> Counter:
        return self._named(Counter, name)

    def register(self, name: str) -> Register:
        return self._named(Register, name)

    def _look_up(self, kind: type["Item"], id: int) -> "Item":
        found = self._by_id.get(id)
        if isinstance(found, kind):
            return found
        what = kind.__name__.lower()
        if id in self.unsupported:
            raise SwitchError(
                SwitchErrorCode.UNIMPLEMENTED, f"{self.unsupported[id]} is not served"
            )
        raise SwitchError(SwitchErrorCode.INVALID_ARGUMENT, f"the program has no {what} {id:#010x}")

    def _named(self, kind: type["Item"], name: str) -> "Item":
        found = self._by_name.get((kind, name))
        if isinstance(found, kind):
            return found
        what = kind.__name__.lower()
        raise SwitchError(SwitchErrorCode.INVALID_ARGUMENT, f"the program has no {what} {name!r}")


Item = TypeVar("Item", Table, Action, Counter, Register)


@lru_cache(maxsize=8)  # 20 ms each in pure Python, and all switches of a fabric run one program
def parse_text(text: str) -> Any:
    """The p4info message of a text proto, as p4c writes it; not to be changed.

    Raises SwitchError.
    """
    try:
        return text_format.Parse(text, proto.P4Info())
    except text_format.ParseError as error:
        raise SwitchError(SwitchErrorCode.INVALID_ARGUMENT, f"not a p4info text: {error}") from None


@lru_cache(maxsize=8)
def text_model(text: str) -> P4Info:
    """The model of a text proto.  Raises SwitchError."""
    return model(parse_text(text))


def model(message: Any) -> P4Info:
    """The model of a p4info message.  Raises SwitchError where the message contradicts itself."""
    return _model(message.SerializeToString(deterministic=True))


@lru_cache(maxsize=8)  # all switches of a fabric run one program
def _model(serialized: bytes) -> P4Info:
    message = proto.P4Info.FromString(serialized)
    _check_ids(message)
    actions = {item.preamble.id: _action(item) for item in message.actions}
    direct_counters = {item.preamble.id: item for item in message.direct_counters}
    tables = {
        item.preamble.id: _table(item, actions, direct_counters)
        for item in message.tables
        if not item.implementation_id
    }
    return P4Info(
        tables=tuple(tables.values()),
        actions=tuple(actions.values()),
        counters=tuple(
            Counter(item.preamble.id, item.preamble.name, item.size) for item in message.counters
        ),
        direct_counters=tuple(
            DirectCounter(id, item.preamble.name, tables[item.direct_table_id].name)
            for id, item in direct_counters.items()
            if item.direct_table_id in tables
        ),
        registers=tuple(_register(item) for item in message.registers),
        unsupported=_unsupported(message),
    )


def _bad(message: str) -> SwitchError:
    return SwitchError(SwitchErrorCode.INVALID_ARGUMENT, f"p4info: {message}")


_KINDS = (
    ("tables", "TABLE", "table"),
    ("actions", "ACTION", "action"),
    ("counters", "COUNTER", "counter"),
    ("direct_counters", "DIRECT_COUNTER", "direct counter"),
    ("registers", "REGISTER", "register"),
    ("action_profiles", "ACTION_PROFILE", "action profile"),
    ("meters", "METER", "meter"),
    ("direct_meters", "DIRECT_METER", "direct meter"),
    ("value_sets", "VALUE_SET", "value set"),
    ("digests", "DIGEST", "digest"),
)
_MODELLED = ("tables", "actions", "counters", "direct_counters", "registers")


def _check_ids(message: Any) -> None:
    seen: dict[int, str] = {}
    for collection, prefix, what in _KINDS:
        for item in getattr(message, collection):
            id, name = item.preamble.id, item.preamble.name
            if id >> 24 != proto.P4Ids.Prefix.Value(prefix):
                raise _bad(f"{id:#010x} of {name!r} is not the number of a {what}")
            if id in seen:
                raise _bad(f"{id:#010x} is both {seen[id]!r} and {name!r}")
            seen[id] = name


def _unsupported(message: Any) -> dict[int, str]:
    others = {
        item.preamble.id: f"{what} {item.preamble.name}"
        for collection, _, what in _KINDS
        if collection not in _MODELLED
        for item in getattr(message, collection)
    }
    indirect = {
        item.preamble.id: f"table {item.preamble.name} (by action profile)"
        for item in message.tables
        if item.implementation_id
    }
    return others | indirect


def _unique(ids: Iterable[int], where: str) -> None:
    seen: set[int] = set()
    for id in ids:
        if id == 0 or id in seen:
            raise _bad(f"number {id} within {where} is zero or used twice")
        seen.add(id)


def _width(item: Any, where: str) -> int:
    if item.bitwidth > 0:
        return int(item.bitwidth)
    raise SwitchError(
        SwitchErrorCode.UNIMPLEMENTED,
        f"{item.name} of {where} has no width in bits (a translated string?)",
    )


def _action(item: Any) -> Action:
    name = item.preamble.name
    _unique((param.id for param in item.params), name)
    params = tuple(Param(p.id, p.name, _width(p, name)) for p in item.params)
    return Action(item.preamble.id, name, params)


def _match_field(item: Any, table: str) -> MatchField:
    known = {kind.name for kind in MatchKind}
    spelled = proto.MatchField.MatchType.Name(item.match_type) if item.match_type else ""
    if spelled not in known:
        raise SwitchError(
            SwitchErrorCode.UNIMPLEMENTED,
            f"{item.name} of {table} has match kind {item.other_match_type or 'unspecified'!r}",
        )
    return MatchField(item.id, item.name, MatchKind[spelled], _width(item, table))


def _table(item: Any, actions: Mapping[int, Action], direct_counters: Mapping[int, Any]) -> Table:
    name = item.preamble.name
    _unique((field.id for field in item.match_fields), name)
    refs = tuple(_action_ref(ref, actions, name) for ref in item.action_refs)
    counters = [id for id in item.direct_resource_ids if id in direct_counters]
    const_default = item.const_default_action_id != 0
    return Table(
        id=item.preamble.id,
        name=name,
        fields=tuple(_match_field(field, name) for field in item.match_fields),
        actions=refs,
        size=item.size,
        const_entries=item.is_const_table,
        const_default=const_default,
        initial_default=_initial_default(item, actions),
        direct_counter=direct_counters[counters[0]].preamble.name if counters else None,
        idle_timeout=item.idle_timeout_behavior != 0,
    )


def _action_ref(ref: Any, actions: Mapping[int, Action], table: str) -> ActionRef:
    if ref.id not in actions:
        raise _bad(f"table {table} refers to action {ref.id:#010x}, which is not there")
    return ActionRef(
        actions[ref.id],
        in_entries=ref.scope != proto.ActionRef.DEFAULT_ONLY,
        as_default=ref.scope != proto.ActionRef.TABLE_ONLY,
    )


def _initial_default(item: Any, actions: Mapping[int, Action]) -> ActionCall | None:
    call = item.initial_default_action
    id = call.action_id or item.const_default_action_id
    if not id:
        return None
    if id not in actions:
        raise _bad(f"the default action {id:#010x} of {item.preamble.name} is not there")
    action = actions[id]
    given = {argument.param_id: argument.value for argument in call.arguments}
    if set(given) != {param.id for param in action.params}:
        return None  # a compiler before P4Runtime 1.4 names the action and not its arguments
    return ActionCall(
        action.name, {p.name: int.from_bytes(given[p.id], "big") for p in action.params}
    )


def _register(item: Any) -> Register:
    spec = item.type_spec
    kind, bits = CellKind.OTHER, 0
    if spec.WhichOneof("type_spec") == "bool":
        kind, bits = CellKind.BOOL, 1
    elif spec.WhichOneof("type_spec") == "bitstring":
        if spec.bitstring.HasField("bit"):
            kind, bits = CellKind.UNSIGNED, spec.bitstring.bit.bitwidth
        elif spec.bitstring.HasField("int"):
            kind, bits = CellKind.SIGNED, spec.bitstring.int.bitwidth
    return Register(item.preamble.id, item.preamble.name, item.size, kind, bits)
