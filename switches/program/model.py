"""A P4 program as p4c's BMv2 back end describes it: values, declarations, controls.

The names and shapes are those of behavioral-model's docs/JSON_format.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass


class UnsupportedProgram(Exception):
    """A program that is not run.  The message names the construct and its place in the source."""


@dataclass(frozen=True, slots=True)
class Source:
    """A place in the P4 source."""

    file: str
    line: int
    fragment: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def refuse(what: str, source: Source | None = None) -> UnsupportedProgram:
    """The error to raise for a construct that is not supported."""
    return UnsupportedProgram(f"{source}: {what}" if source else what)


# --- values: what stands in an expression or as an argument


@dataclass(frozen=True, slots=True)
class Const:
    """An integer of any size; negative ones are possible."""

    value: int


@dataclass(frozen=True, slots=True)
class BoolConst:
    value: bool


@dataclass(frozen=True, slots=True)
class FieldRef:
    """A field of a header instance; the field `$valid$` is the header's validity bit."""

    header: str
    field: str


@dataclass(frozen=True, slots=True)
class HeaderRef:
    name: str


@dataclass(frozen=True, slots=True)
class StackRef:
    name: str


@dataclass(frozen=True, slots=True)
class LastField:
    """A field of the last header that was extracted into a stack."""

    stack: str
    field: str


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of the enclosing action, by index."""

    index: int


@dataclass(frozen=True, slots=True)
class Lookahead:
    """Bits of the packet ahead of the parser, which do not move it."""

    offset: int
    bits: int


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator as BMv2 spells it.  Arithmetic is on unbounded integers."""

    op: str
    operands: "tuple[Value, ...]"


@dataclass(frozen=True, slots=True)
class AccessField:
    """A field, by index, of a header that an expression picks from a stack."""

    header: "Value"
    index: int


@dataclass(frozen=True, slots=True)
class Named:
    """A register array, counter array, meter array, calculation, union or extern, by name."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Text:
    value: str


@dataclass(frozen=True, slots=True)
class Vector:
    values: "tuple[Value, ...]"


Value = (
    Const
    | BoolConst
    | FieldRef
    | HeaderRef
    | StackRef
    | LastField
    | Param
    | Lookahead
    | Operation
    | AccessField
    | Named
    | Text
    | Vector
)


# --- declarations


@dataclass(frozen=True, slots=True)
class Field:
    """bits is None for a varbit."""

    name: str
    bits: int | None
    signed: bool


@dataclass(frozen=True, slots=True)
class HeaderType:
    name: str
    fields: tuple[Field, ...]
    max_bytes: int | None
    """Of a type with a varbit, else None."""


@dataclass(frozen=True, slots=True)
class Header:
    name: str
    type: str
    metadata: bool


@dataclass(frozen=True, slots=True)
class HeaderStack:
    name: str
    type: str
    headers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HeaderUnion:
    name: str
    headers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FieldList:
    id: int
    name: str
    elements: tuple[Value, ...]
    source: Source | None


@dataclass(frozen=True, slots=True)
class Primitive:
    op: str
    args: tuple[Value, ...]
    source: Source | None


@dataclass(frozen=True, slots=True)
class ParserOp:
    """An operation of a parser state.  `primitive` holds the call if op is "primitive"."""

    op: str
    args: tuple[Value, ...]
    primitive: Primitive | None


@dataclass(frozen=True, slots=True)
class Transition:
    """kind is "hexstr", "default" or "parse_vset".  next is None at the end of the parser."""

    kind: str
    value: int
    mask: int | None
    value_set: str | None
    next: str | None


@dataclass(frozen=True, slots=True)
class ParserState:
    name: str
    ops: tuple[ParserOp, ...]
    key: tuple[Value, ...]
    transitions: tuple[Transition, ...]
    source: Source | None


@dataclass(frozen=True, slots=True)
class Parser:
    name: str
    start: str
    states: tuple[ParserState, ...]


@dataclass(frozen=True, slots=True)
class ActionParam:
    name: str
    bits: int


@dataclass(frozen=True, slots=True)
class Action:
    id: int
    name: str
    params: tuple[ActionParam, ...]
    primitives: tuple[Primitive, ...]
    source: Source | None


@dataclass(frozen=True, slots=True)
class Key:
    """A match field.  mask: the bits of the field that count, None for all."""

    name: str
    kind: str
    target: Value
    mask: int | None


@dataclass(frozen=True, slots=True)
class Entry:
    """A row the program brings.  match: per key (value, mask), (value, prefix) or (low, high)."""

    match: tuple[tuple[int, int], ...]
    action: int
    args: tuple[int, ...]
    priority: int
    source: Source | None


@dataclass(frozen=True, slots=True)
class DefaultEntry:
    action: int
    args: tuple[int, ...]
    const: bool


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    kind: str
    keys: tuple[Key, ...]
    size: int
    counters: bool
    timeout: bool
    meter: str | None
    action_profile: str | None
    actions: tuple[int, ...]
    next_by_action: Mapping[str, str | None]
    """By action name, or by __HIT__ and __MISS__."""
    next_default: str | None
    default: DefaultEntry | None
    entries: tuple[Entry, ...] | None
    source: Source | None


@dataclass(frozen=True, slots=True)
class Conditional:
    name: str
    condition: Value
    if_true: str | None
    if_false: str | None
    source: Source | None


@dataclass(frozen=True, slots=True)
class Control:
    name: str
    start: str | None
    tables: tuple[Table, ...]
    conditionals: tuple[Conditional, ...]
    source: Source | None


@dataclass(frozen=True, slots=True)
class Calculation:
    """input: fields, headers, constants with their width, and at most one payload."""

    name: str
    algorithm: str
    input: tuple[tuple[Value | None, int], ...]
    """(value, width of a constant or 0); None is the payload."""
    source: Source | None


@dataclass(frozen=True, slots=True)
class Checksum:
    name: str
    target: FieldRef
    calculation: str
    verify: bool
    update: bool
    condition: Value | None
    source: Source | None


@dataclass(frozen=True, slots=True)
class Array:
    """A register, counter or meter array.  bits: of a register cell.  table: of a direct one."""

    name: str
    size: int
    bits: int
    table: str | None
    source: Source | None


@dataclass(frozen=True, slots=True)
class Program:
    name: str
    header_types: Mapping[str, HeaderType]
    headers: Mapping[str, Header]
    stacks: Mapping[str, HeaderStack]
    unions: tuple[HeaderUnion, ...]
    union_stacks: tuple[str, ...]
    field_lists: tuple[FieldList, ...]
    errors: Mapping[str, int]
    parser: Parser
    value_sets: tuple[str, ...]
    deparser: tuple[str, ...]
    counters: tuple[Array, ...]
    meters: tuple[Array, ...]
    registers: tuple[Array, ...]
    calculations: Mapping[str, Calculation]
    actions: tuple[Action, ...]
    ingress: Control
    egress: Control
    checksums: tuple[Checksum, ...]
    externs: tuple[str, ...]
    aliases: Mapping[str, FieldRef]
    """Names the target uses for standard metadata, such as intrinsic_metadata.mcast_grp."""

    def header_type(self, header: str) -> HeaderType:
        return self.header_types[self.headers[header].type]
