"""The parser: one C function a state, which gives the number of the next."""

from collections.abc import Sequence

from switches.engine.lower.actions import unused
from switches.engine.lower.bits import extract_lines, literal, load_bits
from switches.engine.lower.expressions import Expressions, to_field
from switches.engine.lower.layout import Layout, Place, TypeLayout
from switches.engine.lower.names import Scope, comment
from switches.engine.lower.primitives import Externs, Primitives
from switches.program import (
    AccessField,
    Const,
    FieldRef,
    HeaderRef,
    LastField,
    Lookahead,
    Named,
    Operation,
    ParserOp,
    ParserState,
    Primitive,
    StackRef,
    Transition,
    UnsupportedProgram,
    Value,
    refuse,
)

CORE_ERRORS = (
    "NoError",
    "PacketTooShort",
    "NoMatch",
    "StackOutOfBounds",
    "HeaderTooShort",
    "ParserTimeout",
    "ParserInvalidArgument",
)
_ADVANCE_BITS_MAX = 1 << 32


class ParserLowering:
    """Lowers the parser of a program."""

    def __init__(self, layout: Layout, externs: Externs) -> None:
        self._layout = layout
        self._externs = externs
        self._program = layout.program
        self._parser = layout.program.parser
        scope = Scope()
        self._names = {s.name: scope.take(s.name) for s in self._parser.states}
        self._extracted: dict[str, TypeLayout] = {}

    def emit(self) -> list[str]:
        """The functions; the last is `parse(sw, p, h)`."""
        self._check_progress()
        states: list[str] = []
        for state in self._parser.states:
            states += self._state(state)
        return [
            *self._constants(),
            *self._extract_functions(),
            *states,
            *self._main(),
        ]

    # --- frames of the C code

    def _constants(self) -> list[str]:
        errors = dict(self._program.errors)
        for number, name in enumerate(CORE_ERRORS):
            errors.setdefault(name, number)
        listed = ", ".join(f"ERROR_{_error_name(n)} = {v}" for n, v in errors.items())
        states = ", ".join(f"STATE_{self._names[s.name]}" for s in self._parser.states)
        return [f"enum {{ {listed} }};", f"enum {{ {states} }};", ""]

    def _extract_functions(self) -> list[str]:
        lines: list[str] = []
        for layout in self._extracted.values():
            varbit = ", uint32_t varbit_bytes" if layout.varbit else ""
            lines += [
                f"static inline void extract_{layout.struct}(struct {layout.struct} *f, "
                f"const uint8_t *d{varbit})",
                "{",
                *[f"    {line}" for line in extract_lines(layout)],
                "}",
                "",
            ]
        return lines

    def _main(self) -> list[str]:
        cases = []
        for state in self._parser.states:
            name = self._names[state.name]
            cases.append(f"        case STATE_{name}: state = parse_{name}(sw, p, h, &c); break;")
        return [
            "static void parse(struct sw *sw, struct packet *p, struct phv *h)",
            "{",
            "    struct cursor c = {p->bytes + p->offset, p->length, ERROR_NoError};",
            f"    uint32_t state = STATE_{self._names[self._parser.start]};",
            "    while (state != PARSER_END)",
            "        switch (state) {",
            *cases,
            "        default: state = PARSER_END; break;",
            "        }",
            "    p->parsed = p->length - c.left;",
            "    p->parser_error = c.error;",
            "}",
            "",
        ]

    # --- one state

    def _state(self, state: ParserState) -> list[str]:
        expressions = Expressions(self._layout)
        body: list[str] = []
        for op in state.ops:
            body += self._op(op, state, expressions)
        body += self._transitions(state, expressions)
        body = [*unused(body, ("sw", "p", "h", "c")), *body]
        where = f"  {state.source}" if state.source else ""
        name = self._names[state.name]
        return [
            f"/* state {comment(state.name)}{where} */",
            f"static uint32_t parse_{name}(struct sw *sw, struct packet *p, struct phv *h, "
            "struct cursor *c)",
            "{",
            *[f"    {line}" for line in body],
            "}",
            "",
        ]

    def _op(self, op: ParserOp, state: ParserState, expressions: Expressions) -> list[str]:
        if op.op in ("extract", "extract_VL"):
            return self._extract(op, state, expressions)
        if op.op == "set":
            return self._set(op, state, expressions)
        if op.op == "verify":
            condition, error = op.args
            code = to_field(expressions, Place("", 32), error, state.source)
            truth = expressions.truth(condition, state.source)
            return [f"if (!{truth}) return parse_error(c, {code});"]
        if op.op == "advance":
            return self._advance(op.args[0], state, expressions)
        if op.op == "shift" and isinstance(op.args[0], Const):
            return self._advance(Const(op.args[0].value * 8), state, expressions)
        if op.op == "primitive" and op.primitive is not None:
            return self._call(op.primitive, expressions)
        raise refuse(f"parser state {state.name!r}: operation {op.op!r}", state.source)

    def _call(self, call: Primitive, expressions: Expressions) -> list[str]:
        return Primitives(self._layout, self._externs, expressions).lower(call)

    def _extract(self, op: ParserOp, state: ParserState, expressions: Expressions) -> list[str]:
        target = op.args[0]
        if isinstance(target, StackRef):
            array, following, size = self._layout.stack(target.name, state.source)
            layout = self._layout.stack_type(target.name)
            lines = [f"if ({following} >= {size}) return parse_error(c, ERROR_StackOutOfBounds);"]
            lines += self._extract_to(f"{array}[{following}]", layout, op, state, expressions)
            return [*lines, f"{following}++;"]
        if isinstance(target, HeaderRef):
            if target.name not in self._program.headers:
                raise refuse(f"parser state {state.name!r}: extract to {target.name!r}")
            where, layout = expressions.header(target, state.source)
            lines = self._extract_to(where, layout, op, state, expressions)
            primitives = Primitives(self._layout, self._externs, expressions)
            return lines + primitives.validate(target, where)[1:]
        raise refuse(f"parser state {state.name!r}: extract to a header union stack", state.source)

    def _extract_to(
        self,
        where: str,
        layout: TypeLayout,
        op: ParserOp,
        state: ParserState,
        expressions: Expressions,
    ) -> list[str]:
        self._extracted[layout.type.name] = layout
        fixed = layout.fixed_bytes
        if layout.varbit is None:
            lines = []
            if fixed:
                lines = [f"if (c->left < {fixed}) return parse_error(c, ERROR_PacketTooShort);"]
            return [
                *lines,
                f"extract_{layout.struct}(&{where}, c->at);",
                f"parse_advance(c, {fixed});",
            ]
        if op.op != "extract_VL":
            raise refuse(f"parser state {state.name!r}: extract of a varbit without a length")
        bits = expressions.exact(op.args[1], state.source)
        if bits.low < 0 or bits.high >= 1 << 64:
            raise refuse("a varbit's length of more than 64 bits", state.source)
        return [
            "{",
            f"    const uint64_t bits = {bits.code};",
            "    if (bits % 8) return parse_error(c, ERROR_ParserInvalidArgument);",
            f"    if (c->left < {fixed} + bits / 8) return parse_error(c, ERROR_PacketTooShort);",
            f"    if (bits / 8 > {layout.varbit_bytes_max}) "
            "return parse_error(c, ERROR_HeaderTooShort);",
            f"    extract_{layout.struct}(&{where}, c->at, (uint32_t)(bits / 8));",
            f"    parse_advance(c, {fixed} + (uint32_t)(bits / 8));",
            "}",
        ]

    def _set(self, op: ParserOp, state: ParserState, expressions: Expressions) -> list[str]:
        target, value = op.args
        primitives = Primitives(self._layout, self._externs, expressions)
        if not _has_lookahead(value):
            return primitives.store(primitives.target(target, state.source), value, state.source)
        if not isinstance(value, Lookahead):
            raise refuse(f"parser state {state.name!r}: arithmetic on a lookahead", state.source)
        place = primitives.target(target, state.source)
        if place.wide or value.bits > 128:
            return [_need(value), *_lookahead_wide(place, value)]
        code = load_bits("c->at", value.offset, value.bits)
        if value.bits > place.bits:
            code = f"({code}) & {literal((1 << place.bits) - 1)}"
        return [_need(value), f"{place.code} = {code};"]

    def _advance(self, value: Value, state: ParserState, expressions: Expressions) -> list[str]:
        bits = expressions.exact(value, state.source)
        if bits.low < 0 or bits.high >= 1 << 64:
            raise refuse("an advance by more than 64 bits", state.source)
        return [
            "{",
            f"    const uint64_t bits = {bits.code};",
            "    if (bits % 8) return parse_error(c, ERROR_ParserInvalidArgument);",
            "    if (c->left < bits / 8) return parse_error(c, ERROR_PacketTooShort);",
            "    parse_advance(c, (uint32_t)(bits / 8));",
            "}",
        ]

    # --- transitions

    def _next(self, name: str | None) -> str:
        return f"return STATE_{self._names[name]};" if name else "return PARSER_END;"

    def _transitions(self, state: ParserState, expressions: Expressions) -> list[str]:
        default = next((t.next for t in state.transitions if t.kind == "default"), None)
        cases = [t for t in state.transitions if t.kind == "hexstr"]
        if not cases or not state.key:
            return [self._next(default)]
        keys = [self._key(k, state, expressions) for k in state.key]
        needs = [_need(k) for k in state.key if isinstance(k, Lookahead)]
        if len(keys) == 1 and keys[0].bits <= 64 and all(t.mask is None for t in cases):
            return [*needs, *self._switch(keys[0], cases, default)]
        lines = []
        for case in cases:
            condition = _matches(keys, case, state)
            lines.append(f"if ({condition}) {self._next(case.next)}")
        return [*needs, *lines, self._next(default)]

    def _key(self, value: Value, state: ParserState, expressions: Expressions) -> Place:
        if isinstance(value, Lookahead):
            if value.bits > 128:
                raise refuse(f"parser state {state.name!r}: select on {value.bits} bits")
            code = load_bits("c->at", value.offset, value.bits)
            return Place(f"({code})", value.bits)
        if isinstance(value, FieldRef | LastField | AccessField):
            place = expressions.place(value, state.source)
            assert place is not None
            if place.wide or place.varbit:
                raise refuse(f"parser state {state.name!r}: select on {place.bits} bits")
            return place
        what = "a header union stack" if isinstance(value, Named) else type(value).__name__
        raise refuse(f"parser state {state.name!r}: select on {what}", state.source)

    def _switch(self, key: Place, cases: Sequence[Transition], default: str | None) -> list[str]:
        lines, seen = [f"switch ({key.code}) {{"], set()
        for case in cases:
            if case.value not in seen and case.value < 1 << key.bits:
                seen.add(case.value)
                lines.append(f"case {literal(case.value)}: {self._next(case.next)}")
        return [*lines, f"default: {self._next(default)}", "}"]

    # --- does it end

    def _check_progress(self) -> None:
        """Refuses a parser that can go round without taking a byte: it would never end."""
        idle = {s.name: s for s in self._parser.states if not self._consumes(s)}
        done: set[str] = set()

        def visit(name: str, path: tuple[str, ...]) -> None:
            if name in path:
                source = idle[name].source
                raise refuse(f"parser state {name!r} comes back to itself without a byte", source)
            if name in done or name not in idle:
                return
            for transition in idle[name].transitions:
                if transition.next is not None:
                    visit(transition.next, (*path, name))
            done.add(name)

        for name in idle:
            visit(name, ())

    def _consumes(self, state: ParserState) -> bool:
        """Whether a state surely takes at least one byte, or ends the parser."""
        return any(self._op_consumes(op) for op in state.ops)

    def _op_consumes(self, op: ParserOp) -> bool:
        if op.op in ("extract", "extract_VL"):
            target = op.args[0]
            if isinstance(target, StackRef):  # each extraction fills a place of the stack
                return True
            if not isinstance(target, HeaderRef) or target.name not in self._program.headers:
                return False
            return self._layout.type_of(target.name).fixed_bytes > 0
        if op.op not in ("advance", "shift"):
            return False
        return isinstance(op.args[0], Const) and op.args[0].value >= 8


def _error_name(name: str) -> str:
    return name.replace(".", "_")


def _has_lookahead(value: Value) -> bool:
    if isinstance(value, Operation):
        return any(_has_lookahead(o) for o in value.operands)
    return isinstance(value, Lookahead)


def _need(value: Value) -> str:
    assert isinstance(value, Lookahead)
    bits = value.offset + value.bits
    return f"if (c->left < {(bits + 7) // 8}) return parse_error(c, ERROR_PacketTooShort);"


def _lookahead_wide(place: Place, value: Lookahead) -> list[str]:
    if value.bits != place.bits or value.offset % 8 or value.bits % 8:
        raise UnsupportedProgram(f"a lookahead of {value.bits} bits into {place.bits}")
    return [f"memcpy({place.code}, c->at + {value.offset // 8}, {place.bytes});"]


def _matches(keys: Sequence[Place], case: Transition, state: ParserState) -> str:
    """The condition of a case: its value and mask hold the keys one after the other in bytes."""
    total = sum(key.bytes for key in keys) * 8
    parts, left = [], total
    for key in keys:
        left -= key.bytes * 8
        ones = (1 << key.bits) - 1
        value = case.value >> left & (1 << key.bytes * 8) - 1
        mask = ones if case.mask is None else case.mask >> left & ones
        if value & mask & ~ones:
            return "false"
        if mask == ones:
            if value > ones:
                return "false"
            parts.append(f"{key.code} == {literal(value)}")
        elif mask:
            parts.append(f"({key.code} & {literal(mask)}) == {literal(value & mask)}")
    return " && ".join(parts) or "true"
