"""Reads p4c's BMv2 JSON strictly.

The format is behavioral-model's docs/JSON_format.md, as p4c-bm2-ss writes it for v1model.  A key or
a form this file does not know is refused by name: a program is understood whole or not at all.
What is understood here but cannot be run is refused by whoever runs it (switches.engine.lower).
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from switches.program.model import (
    AccessField,
    Action,
    ActionParam,
    Array,
    BoolConst,
    Calculation,
    Checksum,
    Conditional,
    Const,
    Control,
    DefaultEntry,
    Entry,
    Field,
    FieldList,
    FieldRef,
    Header,
    HeaderRef,
    HeaderStack,
    HeaderType,
    HeaderUnion,
    Key,
    LastField,
    Lookahead,
    Named,
    Operation,
    Param,
    Parser,
    ParserOp,
    ParserState,
    Primitive,
    Program,
    Source,
    StackRef,
    Table,
    Text,
    Transition,
    UnsupportedProgram,
    Value,
    Vector,
    refuse,
)

Json = Any  # a value from json.loads; narrowed by _Node

WIDTH_MAX = 1 << 16
"""Bits of a field: no frame holds more."""

ARRAY_SIZE_MAX = 1 << 24
"""Cells of a counter, meter or register array."""

WRONG_SHAPE = (
    KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, RecursionError,
    AssertionError,
)  # fmt: skip
"""What a document raises that is JSON and yet not shaped as p4c writes it; an assertion states
what p4c always does."""


class _Node:
    """An object of the file, with its keys accounted for."""

    def __init__(self, value: Json, where: str) -> None:
        if not isinstance(value, dict):
            raise UnsupportedProgram(f"{where}: expected an object, found {value!r}")
        self._left = dict(value)
        self.where = f"{where} {value['name']!r}" if isinstance(value.get("name"), str) else where
        self.source = self._read_source()

    def _read_source(self) -> Source | None:
        info = self._left.pop("source_info", None)
        if info is None:
            return None
        return Source(str(info["filename"]), int(info["line"]), str(info["source_fragment"]))

    def error(self, what: str) -> UnsupportedProgram:
        return refuse(f"{self.where}: {what}", self.source)

    def take(self, key: str) -> Json:
        if key not in self._left:
            raise self.error(f"no key {key!r}")
        return self._left.pop(key)

    def get(self, key: str, default: Json = None) -> Json:
        return self._left.pop(key, default)

    def text(self, key: str) -> str:
        value = self.take(key)
        if not isinstance(value, str):
            raise self.error(f"{key} is {value!r}, expected a string")
        return value

    def number(self, key: str) -> int:
        value = self.take(key)
        if not isinstance(value, int):
            raise self.error(f"{key} is {value!r}, expected a number")
        return value

    def items(self, key: str) -> "Iterator[_Node]":
        for item in self.get(key) or []:
            yield _Node(item, f"{self.where}: {key}")

    def ignore(self, *keys: str) -> None:
        for key in keys:
            self._left.pop(key, None)

    def done(self) -> None:
        if self._left:
            raise self.error(f"unknown key {min(self._left)!r}")


def _hex(text: str) -> int:
    return int(text, 16)


_NAMED = {
    "register_array": "register",
    "counter_array": "counter",
    "meter_array": "meter",
    "calculation": "calculation",
    "header_union": "union",
    "header_union_stack": "union stack",
    "extern": "extern",
}


def _operation(body: Json, where: str, source: Source | None) -> Value:
    op = body["op"]
    if op == "access_field":
        return AccessField(_value(body["left"], where, source), int(body["right"]))
    names = ("cond", "left", "right") if op == "?" else ("left", "right")
    unknown = set(body) - {"op", *names}
    if unknown:
        raise refuse(f"{where}: unknown key {min(unknown)!r} in operation {op!r}", source)
    present = [body[name] for name in names if body.get(name) is not None]
    return Operation(op, tuple(_value(item, where, source) for item in present))


def _reference(kind: str, value: Json) -> Value | None:
    """A value of one of the types whose JSON is a name or a list of plain items."""
    if kind == "field":
        return FieldRef(value[0], value[1])
    if kind == "header":
        return HeaderRef(value)
    if kind == "header_stack":
        return StackRef(value)
    if kind == "stack_field":
        return LastField(value[0], value[1])
    if kind == "lookahead":
        return Lookahead(value[0], value[1])
    if kind in _NAMED:
        return Named(_NAMED[kind], value)
    return None


def _value(item: Json, where: str, source: Source | None) -> Value:
    if isinstance(item, str):
        return Text(item)
    if not isinstance(item, dict) or "type" not in item:
        raise refuse(f"{where}: unknown value {item!r}", source)
    kind: str = item["type"]
    value: Json = item.get("value")
    if kind == "expression":  # an operation, or another value wrapped once more
        return _operation(value, where, source) if "op" in value else _value(value, where, source)
    if kind == "hexstr":
        return Const(_hex(value))
    if kind == "bool":
        return BoolConst(value)
    if kind in ("runtime_data", "local"):
        return Param(value)
    if kind == "string":
        return Text(value)
    if kind == "parameters_vector":
        return Vector(tuple(_value(v, where, source) for v in value or ()))
    if kind == "field" and isinstance(value[0], dict) and value[1] == "$valid$":
        picked = _operation(value[0], where, source)
        return Operation("b2d", (Operation("valid", (picked,)),))
    found = _reference(kind, value)
    if found is None:
        raise refuse(f"{where}: unknown value of type {kind!r}: {value!r}", source)
    return found


def _primitive(node: _Node) -> Primitive:
    op = node.text("op")
    args = tuple(_value(a, f"{node.where}: {op}", node.source) for a in node.take("parameters"))
    node.done()
    return Primitive(op, args, node.source)


def _width(node: _Node, value: Json) -> int:
    """A number of bits."""
    bits = int(value)
    if not 0 <= bits <= WIDTH_MAX:
        raise node.error(f"a width of {bits} bits")
    return bits


def _header_type(node: _Node) -> HeaderType:
    name = node.text("name")
    fields = []
    for item in node.take("fields"):
        bits = None if item[1] == "*" else _width(node, item[1])
        if len(item) > 3 or (len(item) == 3 and item[2] not in (True, False, 0, 1)):
            raise node.error(f"unknown kind of field {item!r}")
        fields.append(Field(item[0], bits, len(item) == 3 and bool(item[2])))
    max_bytes = node.get("max_length")
    if node.get("length_exp") is not None:
        raise node.error("a varbit whose length is an expression of its header")
    node.ignore("id")
    node.done()
    return HeaderType(name, tuple(fields), max_bytes)


def _header(node: _Node) -> tuple[int, Header]:
    header = Header(node.text("name"), node.text("header_type"), bool(node.take("metadata")))
    number = node.number("id")
    node.ignore("pi_omit")
    node.done()
    return number, header


def _stack(node: _Node, names: Mapping[int, str]) -> HeaderStack:
    members = tuple(names[i] for i in node.take("header_ids"))
    stack = HeaderStack(node.text("name"), node.text("header_type"), members)
    node.ignore("id", "size")
    node.done()
    return stack


def _union(node: _Node, names: Mapping[int, str]) -> HeaderUnion:
    union = HeaderUnion(node.text("name"), tuple(names[i] for i in node.take("header_ids")))
    node.ignore("id", "union_type", "pi_omit")
    node.done()
    return union


def _field_list(node: _Node) -> FieldList:
    elements = tuple(_value(e, node.where, node.source) for e in node.take("elements"))
    fields = FieldList(node.number("id"), node.text("name"), elements, node.source)
    node.done()
    return fields


def _parser_arg(item: Json, node: _Node) -> Value:
    if item["type"] == "regular":
        return HeaderRef(item["value"])
    if item["type"] == "stack":
        return StackRef(item["value"])
    if item["type"] == "union_stack":
        return Named("union stack", item["value"][0])
    return _value(item, node.where, node.source)


def _parser_op(node: _Node) -> ParserOp:
    op, parameters = node.text("op"), node.take("parameters")
    node.done()
    if op == "primitive":
        return ParserOp(op, (), _primitive(_Node(parameters[0], node.where)))
    return ParserOp(op, tuple(_parser_arg(p, node) for p in parameters), None)


def _transition(node: _Node) -> Transition:
    kind, value, mask = node.get("type", "hexstr"), node.take("value"), node.take("mask")
    following = node.take("next_state")
    node.done()
    if kind == "hexstr" and value == "default":
        kind = "default"
    if kind == "hexstr":
        return Transition(kind, _hex(value), None if mask is None else _hex(mask), None, following)
    if kind not in ("default", "parse_vset"):
        raise node.error(f"unknown transition {kind!r}")
    return Transition(kind, 0, None, value if kind == "parse_vset" else None, following)


def _state(node: _Node) -> ParserState:
    state = ParserState(
        node.text("name"),
        tuple(_parser_op(op) for op in node.items("parser_ops")),
        tuple(_key_value(k, node) for k in node.take("transition_key")),
        tuple(_transition(t) for t in node.items("transitions")),
        node.source,
    )
    node.ignore("id")
    node.done()
    return state


def _key_value(item: Json, node: _Node) -> Value:
    if item["type"] == "union_stack_field":
        return Named("union stack", item["value"][0])
    return _value(item, node.where, node.source)


def _parser(node: _Node) -> Parser:
    states = tuple(_state(s) for s in node.items("parse_states"))
    parser = Parser(node.text("name"), node.text("init_state"), states)
    node.ignore("id")
    node.done()
    return parser


def _deparser(node: _Node) -> tuple[str, ...]:
    if node.get("primitives"):
        raise node.error("calls in the deparser")
    order = tuple(node.take("order"))
    node.ignore("id", "name")
    node.done()
    return order


def _array(node: _Node) -> Array:
    direct = bool(node.get("is_direct", False))
    table = node.get("binding") if direct else None
    size, bits = int(node.get("size", 0)), _width(node, node.get("bitwidth", 0))
    if not 0 <= size <= ARRAY_SIZE_MAX:
        raise node.error(f"an array of {size}")
    array = Array(node.text("name"), size, bits, table, node.source)
    node.ignore("id", "binding", "rate_count", "type", "result_target")
    node.done()
    return array


def _calculation(node: _Node) -> Calculation:
    inputs: list[tuple[Value | None, int]] = []
    for item in node.take("input"):
        if item["type"] == "payload":
            inputs.append((None, 0))
        else:
            inputs.append((_value(item, node.where, node.source), item.get("bitwidth", 0)))
    found = Calculation(node.text("name"), node.text("algo"), tuple(inputs), node.source)
    node.ignore("id")
    node.done()
    return found


def _checksum(node: _Node) -> Checksum:
    if node.text("type") != "generic":
        raise node.error("a checksum that is not generic")
    condition = node.get("if_cond")
    target = node.take("target")
    found = Checksum(
        node.text("name"),
        FieldRef(target[0], target[1]),
        node.text("calculation"),
        bool(node.get("verify", True)),
        bool(node.get("update", True)),
        None if condition is None else _value(condition, node.where, node.source),
        node.source,
    )
    node.ignore("id")
    node.done()
    return found


def _action(node: _Node) -> Action:
    params = []
    for param in node.items("runtime_data"):
        params.append(ActionParam(param.text("name"), _width(param, param.number("bitwidth"))))
        param.done()
    primitives = tuple(_primitive(p) for p in node.items("primitives"))
    action = Action(node.number("id"), node.text("name"), tuple(params), primitives, node.source)
    node.done()
    return action


def _key(node: _Node) -> Key:
    target, mask = node.take("target"), node.get("mask")
    if not isinstance(target, list) or not all(isinstance(part, str) for part in target):
        raise node.error(f"a match on {target!r}")
    kind = node.text("match_type")
    name = node.get("name", ".".join(target))
    node.done()
    return Key(name, kind, FieldRef(*target), None if mask is None else _hex(mask))


def _entry_match(node: _Node) -> tuple[int, int]:
    kind = node.text("match_type")
    if kind == "range":
        found = _hex(node.text("start")), _hex(node.text("end"))
    elif kind == "lpm":
        found = _hex(node.text("key")), node.number("prefix_length")
    elif kind == "ternary":
        found = _hex(node.text("key")), _hex(node.text("mask"))
    elif kind == "exact":
        found = _hex(node.text("key")), 0
    else:
        raise node.error(f"match type {kind!r}")
    node.done()
    return found


def _entry(node: _Node) -> Entry:
    match = tuple(_entry_match(m) for m in node.items("match_key"))
    call = _Node(node.take("action_entry"), node.where)
    priority = node.get("priority", 1)
    node.done()
    action, args = call.number("action_id"), tuple(_hex(a) for a in call.take("action_data"))
    call.done()
    return Entry(match, action, args, priority, node.source)


def _default_entry(node: _Node) -> DefaultEntry:
    args = tuple(_hex(a) for a in node.get("action_data") or ())
    const = bool(node.get("action_const", False)) or bool(node.get("action_entry_const", False))
    found = DefaultEntry(node.number("action_id"), args, const)
    node.ignore("action_entry_const")
    node.done()
    return found


def _table(node: _Node) -> Table:
    default = node.get("default_entry")
    entries = node.get("entries")
    table = Table(
        name=node.text("name"),
        kind=node.text("type"),
        keys=tuple(_key(k) for k in node.items("key")),
        size=node.number("max_size"),
        counters=bool(node.take("with_counters")),
        timeout=bool(node.take("support_timeout")),
        meter=node.get("direct_meters"),
        action_profile=node.get("action_profile"),
        actions=tuple(node.get("action_ids") or ()),
        next_by_action=dict(node.take("next_tables")),
        next_default=node.get("base_default_next"),
        default=_default_entry(_Node(default, node.where)) if default is not None else None,
        entries=None
        if entries is None
        else tuple(_entry(_Node(e, f"{node.where}: entries")) for e in entries),
        source=node.source,
    )
    node.ignore("id", "match_type", "actions")
    node.done()
    return table


def _conditional(node: _Node) -> Conditional:
    condition = _value(node.take("expression"), node.where, node.source)
    found = Conditional(
        node.text("name"), condition, node.take("true_next"), node.take("false_next"), node.source
    )
    node.ignore("id")
    node.done()
    return found


def _control(node: _Node) -> Control:
    if node.get("action_calls"):
        raise node.error("action calls")
    control = Control(
        node.text("name"),
        node.take("init_table"),
        tuple(_table(t) for t in node.items("tables")),
        tuple(_conditional(c) for c in node.items("conditionals")),
        node.source,
    )
    node.ignore("id", "action_profiles")
    node.done()
    return control


def _only(items: list[Any], what: str) -> Any:
    if len(items) != 1:
        raise UnsupportedProgram(f"{len(items)} {what}s; v1model has one")
    return items[0]


def _by_name(items: Iterator[Any]) -> dict[str, Any]:
    return {item.name: item for item in items}


def _controls(root: _Node) -> tuple[Control, Control]:
    found = [_control(c) for c in root.items("pipelines")]
    if [c.name for c in found] != ["ingress", "egress"]:
        names = ", ".join(c.name for c in found)
        raise UnsupportedProgram(f"controls {names}; v1model has ingress and egress")
    return found[0], found[1]


def _aliases(root: _Node) -> dict[str, FieldRef]:
    return {item[0]: FieldRef(*item[1]) for item in root.get("field_aliases") or ()}


def _version(root: _Node) -> None:
    meta = root.get("__meta__") or {}
    version = meta.get("version", [2, 0])
    if version[0] != 2:
        raise UnsupportedProgram(f"version {version} of the BMv2 JSON format; 2 is known")


def parse_program(document: Json, name: str = "program") -> Program:
    """The program of a decoded JSON document.  Raises UnsupportedProgram."""
    root = _Node(document, name)
    _version(root)
    numbered = dict(_header(h) for h in root.items("headers"))
    names = {number: header.name for number, header in numbered.items()}
    ingress, egress = _controls(root)
    program = Program(
        name=str(root.get("program") or name),
        header_types=_by_name(_header_type(t) for t in root.items("header_types")),
        headers=_by_name(iter(numbered.values())),
        stacks=_by_name(_stack(s, names) for s in root.items("header_stacks")),
        unions=tuple(_union(u, names) for u in root.items("header_unions")),
        union_stacks=tuple(s["name"] for s in root.get("header_union_stacks") or ()),
        field_lists=tuple(_field_list(f) for f in root.items("field_lists")),
        errors={error[0]: int(error[1]) for error in root.get("errors") or ()},
        parser=_only([_parser(p) for p in root.items("parsers")], "parser"),
        value_sets=tuple(s["name"] for s in root.get("parse_vsets") or ()),
        deparser=_only([_deparser(d) for d in root.items("deparsers")], "deparser"),
        counters=tuple(_array(c) for c in root.items("counter_arrays")),
        meters=tuple(_array(m) for m in root.items("meter_arrays")),
        registers=tuple(_array(r) for r in root.items("register_arrays")),
        calculations=_by_name(_calculation(c) for c in root.items("calculations")),
        actions=tuple(_action(a) for a in root.items("actions")),
        ingress=ingress,
        egress=egress,
        checksums=tuple(_checksum(c) for c in root.items("checksums")),
        externs=tuple(e["name"] for e in root.get("extern_instances") or ()),
        aliases=_aliases(root),
    )
    root.ignore("header_union_types", "enums", "learn_lists", "force_arith")
    root.done()
    return program


def load_program(path: Path) -> Program:
    """Reads p4c's BMv2 JSON.  Raises UnsupportedProgram, OSError."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return parse_program(document, path.name)
    except WRONG_SHAPE as error:
        raise UnsupportedProgram(f"{path.name}: not BMv2 JSON: {error!r}") from error
