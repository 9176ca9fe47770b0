"""Primitive calls, the statements of actions and parser states, as C."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from switches.engine.lower.bits import literal, store
from switches.engine.lower.expressions import Expressions, is_truth, to_field
from switches.engine.lower.integers import cast
from switches.engine.lower.layout import VALID, WORD_BITS, Layout, Place, TypeLayout, word_type
from switches.program import (
    Const,
    HeaderRef,
    Named,
    Operation,
    Primitive,
    Source,
    StackRef,
    Value,
    refuse,
)


@dataclass(slots=True)
class Externs:
    """C constants of the arrays and calculations a primitive can name."""

    registers: Mapping[str, tuple[str, int, int]]
    """Constant, size, bits by name."""
    counters: Mapping[str, tuple[str, int]]
    hashes: Mapping[str, str]
    """C function of a calculation."""
    field_lists: frozenset[int] = field(default_factory=frozenset)


class Primitives:
    """Lowers primitive calls to C statements."""

    def __init__(self, layout: Layout, externs: Externs, expressions: Expressions) -> None:
        self._layout = layout
        self._externs = externs
        self._expr = expressions
        self._table: dict[str, Callable[[Sequence[Value], Source | None], list[str]]] = {
            "assign": self._assign,
            "modify_field": self._assign,
            "set": self._assign,
            "assign_VL": self._assign_varbit,
            "assign_header": self._assign_header,
            "copy_header": self._assign_header,
            "assign_header_stack": self._assign_stack,
            "assign_union": self._assign_union,
            "add_header": self._add_header,
            "remove_header": self._remove_header,
            "push": self._push,
            "pop": self._pop,
            "mark_to_drop": self._mark_to_drop,
            "drop": self._drop,
            "exit": self._exit,
            "no_op": self._nothing,
            "log_msg": self._nothing,
            "assert": self._assert,
            "assume": self._assert,
            "truncate": self._truncate,
            "modify_field_rng_uniform": self._random,
            "modify_field_with_hash_based_offset": self._hash,
            "count": self._count,
            "register_read": self._register_read,
            "register_write": self._register_write,
            "clone_ingress_pkt_to_egress": self._clone_ingress,
            "clone_egress_pkt_to_egress": self._clone_egress,
            "resubmit": self._resubmit,
            "recirculate": self._recirculate,
        }

    def lower(self, call: Primitive) -> list[str]:
        """The statements of one call.  Raises UnsupportedProgram, naming a primitive unknown."""
        if call.op not in self._table:
            raise refuse(f"primitive {call.op!r}", call.source)
        return self._table[call.op](call.args, call.source)

    def truth(self, value: Value, source: Source | None) -> str:
        """A condition as C."""
        return self._expr.truth(value, source)

    # --- assignment

    def target(self, value: Value, source: Source | None) -> Place:
        place = self._expr.place(value, source)
        if place is None:
            raise refuse(f"assignment to {type(value).__name__}", source)
        return place

    def store(self, place: Place, value: Value, source: Source | None) -> list[str]:
        """Statements that store a number or truth value in a field."""
        if place.varbit:
            return self._assign_varbit_place(place, value, source)
        if is_truth(value):
            value = Operation("b2d", (value,))
        if place.wide:
            return self._store_wide(place, value, source)
        return [f"{place.code} = {to_field(self._expr, place, value, source)};"]

    def _store_wide(self, place: Place, value: Value, source: Source | None) -> list[str]:
        """A field of more than 128 bits takes a constant, another field, or a narrower number."""
        if isinstance(value, Const):
            number = value.value & (1 << place.bits) - 1
            text = ", ".join(f"0x{byte:02x}" for byte in number.to_bytes(place.bytes, "big"))
            return [f"memcpy({place.code}, (const uint8_t[]){{{text}}}, {place.bytes});"]
        other = self._expr.place(value, source)
        if other is not None and other.wide:
            return _copy_wide(place, other, source)
        if _is_cut(value, place.bits):
            return self._store_wide(place, value.operands[0], source)
        number_code = self._expr.exact(value, source)
        if number_code.low < 0:
            raise refuse(f"arithmetic on {place.bits} bits; 128 is the most", source)
        zeros = place.bytes - WORD_BITS // 8
        return [
            f"memset({place.code}, 0, {zeros});",
            store(f"{place.code} + {zeros}", WORD_BITS // 8, number_code.code),
        ]

    def _assign(self, args: Sequence[Value], source: Source | None) -> list[str]:
        return self.store(self.target(args[0], source), args[1], source)

    def _assign_varbit(self, args: Sequence[Value], source: Source | None) -> list[str]:
        return self._assign_varbit_place(self.target(args[0], source), args[1], source)

    def _assign_varbit_place(self, place: Place, value: Value, source: Source | None) -> list[str]:
        other = self._expr.place(value, source)
        if other is None or not other.varbit or other.bits > place.bits:
            raise refuse("assignment to a varbit from anything but a varbit", source)
        return [
            f"{place.count} = {other.count};",
            f"memcpy({place.code}, {other.code}, {other.count});",
        ]

    # --- headers

    def _header(self, value: Value, source: Source | None) -> tuple[str, TypeLayout]:
        return self._expr.header(value, source)

    def validate(self, value: Value, where: str) -> list[str]:
        """Statements that make a header valid; in a union the others become invalid."""
        lines = [f"{where}.{VALID} = true;"]
        union = self._layout.union_of(value.name) if isinstance(value, HeaderRef) else None
        for other in union.headers if union else ():
            if isinstance(value, HeaderRef) and other != value.name:
                lines.append(f"{self._layout.header(other)}.{VALID} = false;")
        return lines

    def _add_header(self, args: Sequence[Value], source: Source | None) -> list[str]:
        where, layout = self._header(args[0], source)
        body = [
            f"memset(&{where}, 0, sizeof {where});",
            *self.validate(args[0], where),
            f"p->packet_length += {layout.fixed_bytes};",
        ]
        return [f"if (!{where}.{VALID}) {{", *_indent(body), "}"]

    def _remove_header(self, args: Sequence[Value], source: Source | None) -> list[str]:
        where, layout = self._header(args[0], source)
        length = header_bytes(where, layout)
        return [
            f"if ({where}.{VALID}) {{",
            f"    {where}.{VALID} = false;",
            f"    p->packet_length -= {length};",
            "}",
        ]

    def _assign_header(self, args: Sequence[Value], source: Source | None) -> list[str]:
        (to, layout), (of, other) = (self._header(a, source) for a in args)
        if layout.type.name != other.type.name:
            raise refuse("assignment between header types", source)
        lines = [f"if ({of}.{VALID}) {{", f"    {to} = {of};"]
        return [
            *lines,
            *_indent(self.validate(args[0], to)[1:]),
            "} else {",
            f"    {to}.{VALID} = false;",
            "}",
        ]

    def _assign_union(self, args: Sequence[Value], source: Source | None) -> list[str]:
        unions = {u.name: u for u in self._layout.program.unions}
        names = [a.name for a in args if isinstance(a, Named) and a.name in unions]
        if len(names) != 2:
            raise refuse("assignment of a header union", source)
        to, of = (unions[name].headers for name in names)
        pairs = [
            f"{self._layout.header(a)} = {self._layout.header(b)};"
            for a, b in zip(to, of, strict=True)
        ]
        return pairs

    def _stack(self, value: Value, source: Source | None) -> tuple[str, str, int]:
        if not isinstance(value, StackRef):
            raise refuse(f"a header stack given by {type(value).__name__}", source)
        return self._layout.stack(value.name, source)

    def _assign_stack(self, args: Sequence[Value], source: Source | None) -> list[str]:
        (to, to_next, size), (of, of_next, other) = (self._stack(a, source) for a in args)
        if size != other:
            raise refuse("assignment between header stacks of two sizes", source)
        return [f"memcpy({to}, {of}, {size} * sizeof {to}[0]);", f"{to_next} = {of_next};"]

    def _push(self, args: Sequence[Value], source: Source | None) -> list[str]:
        array, following, size = self._stack(args[0], source)
        count = self._stack_move(args[1], size, source)
        return [
            f"memmove({array} + {count}, {array}, {size - count} * sizeof {array}[0]);",
            f"memset(&{array}[0], 0, {count} * sizeof {array}[0]);",
            f"{following} = {following} + {count} < {size} ? {following} + {count} : {size};",
        ]

    def _pop(self, args: Sequence[Value], source: Source | None) -> list[str]:
        array, following, size = self._stack(args[0], source)
        count = self._stack_move(args[1], size, source)
        return [
            f"memmove({array}, {array} + {count}, {size - count} * sizeof {array}[0]);",
            f"memset(&{array}[{size - count}], 0, {count} * sizeof {array}[0]);",
            f"{following} = {following} > {count} ? {following} - {count} : 0;",
        ]

    def _stack_move(self, value: Value, size: int, source: Source | None) -> int:
        if not isinstance(value, Const) or value.value < 0:
            raise refuse("push or pop by a count that is not a constant", source)
        return min(value.value, size)

    # --- the fate of the packet

    def _mark_to_drop(self, args: Sequence[Value], source: Source | None) -> list[str]:
        """Into the header named: p4c may pass a copy of standard_metadata that it copies back."""
        header = args[0]
        if not isinstance(header, HeaderRef):
            raise refuse("mark_to_drop of something that is no header", source)
        lines = [f"{self._layout.field(header.name, 'egress_spec', source).code} = DROP_PORT;"]
        if self._layout.has_field(header.name, "mcast_grp"):
            lines.append(f"{self._layout.field(header.name, 'mcast_grp', source).code} = 0;")
        return lines

    def _drop(self, args: Sequence[Value], source: Source | None) -> list[str]:
        lines = []
        for name, value in (("egress_spec", "DROP_PORT"), ("mcast_grp", "0")):
            place = standard_field(self._layout, name)
            if place is not None:
                lines.append(f"{place.code} = {value};")
        return lines

    def _exit(self, args: Sequence[Value], source: Source | None) -> list[str]:
        return ["p->exit_ = true;"]

    def _nothing(self, args: Sequence[Value], source: Source | None) -> list[str]:
        return []

    def _assert(self, args: Sequence[Value], source: Source | None) -> list[str]:
        """BMv2 stops the switch; we drop the packet's way on: exit, and nowhere to go."""
        lines = self._drop((), source)
        condition = self._expr.truth(args[0], source)
        return [f"if (!{condition}) {{", *_indent([*lines, "p->exit_ = true;"]), "}"]

    def _truncate(self, args: Sequence[Value], source: Source | None) -> list[str]:
        length = to_field(self._expr, Place("", 32), args[0], source)
        return [f"truncate_packet(p, {length});"]

    def _clone(self, half: str, args: Sequence[Value], source: Source | None) -> list[str]:
        session = to_field(self._expr, Place("", 16), args[0], source)
        return [
            f"p->clone_{half} = true;",
            f"p->clone_session = ({session}) & 0x7fffu;",
            f"p->clone_fields = {self._field_list(args[1], source)};",
        ]

    def _clone_ingress(self, args: Sequence[Value], source: Source | None) -> list[str]:
        return self._clone("ingress", args, source)

    def _clone_egress(self, args: Sequence[Value], source: Source | None) -> list[str]:
        return self._clone("egress", args, source)

    def _resubmit(self, args: Sequence[Value], source: Source | None) -> list[str]:
        number = self._field_list(args[0], source)
        return [
            f"p->resubmit = {'true' if number else 'false'};",
            f"p->resubmit_fields = {number};",
        ]

    def _recirculate(self, args: Sequence[Value], source: Source | None) -> list[str]:
        number = self._field_list(args[0], source)
        return [
            f"p->recirculate = {'true' if number else 'false'};",
            f"p->recirculate_fields = {number};",
        ]

    def _field_list(self, value: Value, source: Source | None) -> int:
        if not isinstance(value, Const) or value.value not in (0, *self._externs.field_lists):
            raise refuse("a field list that is not declared", source)
        return value.value

    # --- externs

    def _random(self, args: Sequence[Value], source: Source | None) -> list[str]:
        place = self.target(args[0], source)
        low, high = (self._number64(a, source) for a in args[1:])
        body = f"{place.code} = {_cut(place, 'random_between(sw, low, high)')};"
        return [
            "{",
            f"    const uint64_t low = {low}, high = {high};",
            f"    if (low <= high) {body}",
            "}",
        ]

    def _number64(self, value: Value, source: Source | None) -> str:
        """As BMv2's Data::get<uint64_t>()."""
        return cast(self._expr.low(value, 64, source), "uint64_t").operand

    def _hash(self, args: Sequence[Value], source: Source | None) -> list[str]:
        place, calculation = self.target(args[0], source), args[2]
        if not isinstance(calculation, Named) or calculation.name not in self._externs.hashes:
            raise refuse("a hash that is not declared", source)
        base, size = (self._number64(args[i], source) for i in (1, 3))
        call = f"{self._externs.hashes[calculation.name]}(p, h)"
        if place.wide or place.varbit:
            raise refuse(f"a hash into a field of {place.bits} bits", source)
        value = f"{base} + {call} % (size ? size : 1)"
        return [
            "{",
            f"    const uint64_t size = {size};",
            f"    {place.code} = {_cut(place, value)};",
            "}",
        ]

    def _index(self, value: Value, source: Source | None) -> str:
        part = self._expr.exact(value, source)
        if part.low < 0 or part.high >= 1 << 64:
            raise refuse("an index of more than 64 bits", source)
        return part.code

    def _count(self, args: Sequence[Value], source: Source | None) -> list[str]:
        array = args[0]
        if not isinstance(array, Named) or array.name not in self._externs.counters:
            raise refuse("a counter that is not declared", source)
        name, _ = self._externs.counters[array.name]
        return [f"counter_count(sw, {name}, {self._index(args[1], source)}, p->length);"]

    def _register(self, value: Value, source: Source | None) -> tuple[str, int, int]:
        if not isinstance(value, Named) or value.name not in self._externs.registers:
            raise refuse("a register that is not declared", source)
        return self._externs.registers[value.name]

    def _register_read(self, args: Sequence[Value], source: Source | None) -> list[str]:
        place = self.target(args[0], source)
        name, size, bits = self._register(args[1], source)
        if place.wide or place.varbit:
            raise refuse(f"a register read into a field of {place.bits} bits", source)
        cells = f"REGISTER_CELLS({word_type(bits)}, sw, {name})"
        value = f"{cells}[i]" if bits <= place.bits else _cut(place, f"{cells}[i]")
        return [
            "{",
            f"    const uint64_t i = {self._index(args[2], source)};",
            f"    if (i < {size}) {place.code} = {value};",
            "}",
        ]

    def _register_write(self, args: Sequence[Value], source: Source | None) -> list[str]:
        name, size, bits = self._register(args[0], source)
        value = args[2]
        if is_truth(value):
            value = Operation("b2d", (value,))
        stored = to_field(self._expr, Place("", bits), value, source)
        return [
            "{",
            f"    const uint64_t i = {self._index(args[1], source)};",
            f"    if (i < {size}) REGISTER_CELLS({word_type(bits)}, sw, {name})[i] = {stored};",
            "}",
        ]


def standard_field(layout: Layout, name: str) -> Place | None:
    """A field of v1model's standard metadata, by its own name or by the target's alias."""
    for alias, ref in layout.program.aliases.items():
        if alias.rpartition(".")[2] == name and layout.has_field(ref.header, ref.field):
            return layout.field(ref.header, ref.field)
    if layout.has_field("standard_metadata", name):
        return layout.field("standard_metadata", name)
    return None


def header_bytes(where: str, layout: TypeLayout) -> str:
    """The length of a valid header on the wire, in C."""
    varbit = layout.varbit
    if varbit is None:
        return f"{layout.fixed_bytes}"
    return f"({layout.fixed_bytes} + {where}.{layout.fields[varbit.name]}_bytes)"


def _is_cut(value: Value, bits: int) -> TypeGuard[Operation]:
    """Whether a value is p4c's cut of another to the width it has anyway."""
    return (
        isinstance(value, Operation)
        and value.op == "&"
        and value.operands[1] == Const((1 << bits) - 1)
    )


def _copy_wide(place: Place, other: Place, source: Source | None) -> list[str]:
    if place.bits < other.bits:
        if place.bits % 8:
            raise refuse(f"a cut to {place.bits} bits", source)
        return [f"memcpy({place.code}, {other.code} + {other.bytes - place.bytes}, {place.bytes});"]
    pad = place.bytes - other.bytes
    lines = [f"memset({place.code}, 0, {pad});"] if pad else []
    target = f"{place.code} + {pad}" if pad else place.code
    return [*lines, f"memmove({target}, {other.code}, {other.bytes});"]


def _cut(place: Place, code: str) -> str:
    """A C expression of a wider type, cut to the field."""
    if word_type(place.bits).endswith(f"{place.bits}_t") or place.bits == WORD_BITS:
        return code
    return f"({code}) & {literal((1 << place.bits) - 1)}"


def _indent(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
