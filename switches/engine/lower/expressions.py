"""Expressions: unbounded integers in the program, machine words in C.

BMv2 computes on integers without limit and cuts a result to width only where it is stored; p4c
writes the cuts of P4's fixed widths into the program.  Two ways of lowering keep that exact:

- `exact` follows the least and greatest value a part can have, and picks a C type that holds every
  one of them;
- `low` computes only the lowest bits that are asked for, which +, -, *, <<, &, | and ^ can do in
  any word at least that wide.

What neither can hold in 128 bits is refused.
"""

from collections.abc import Sequence

from switches.engine.lower.bits import literal, load_bits, mask
from switches.engine.lower.integers import (
    TYPE_BITS,
    Int,
    cast,
    combine,
    constant,
    greatest,
    known_comparison,
    range_type,
    ring_high,
    shifted_right,
    unsigned_type,
)
from switches.engine.lower.layout import (
    VALID,
    WORD_BITS,
    Layout,
    Place,
    TypeLayout,
    word_bits,
    word_type,
)
from switches.program import (
    AccessField,
    ActionParam,
    BoolConst,
    Const,
    FieldRef,
    HeaderRef,
    LastField,
    Named,
    Operation,
    Param,
    Source,
    StackRef,
    UnsupportedProgram,
    Value,
    refuse,
)

_BOOL_OPS = frozenset(
    ("==", "!=", "<", "<=", ">", ">=", "and", "or", "not", "d2b", "valid", "valid_union")
)
_COMPARISONS = frozenset(("==", "!=", "<", "<=", ">", ">="))
_RING_OPS = frozenset("+-*")


class Expressions:
    """Lowers the expressions of one action, parser state or control.

    params, param_codes: the enclosing action's, if any.
    """

    def __init__(
        self, layout: Layout, params: Sequence[ActionParam] = (), codes: Sequence[str] = ()
    ) -> None:
        self.layout = layout
        self._params = params
        self._codes = codes
        self.used_params: set[int] = set()

    # --- places

    def place(self, value: Value, source: Source | None) -> Place | None:
        """The field a value names, or None if it is no field."""
        if isinstance(value, FieldRef):
            return self.layout.field(value.header, value.field, source)
        if isinstance(value, LastField):
            array, following, size = self.layout.stack(value.stack, source)
            index = f"stack_index((uint64_t){following} - 1, {size})"
            layout = self.layout.stack_type(value.stack)
            return self.layout.member(f"{array}[{index}]", layout, value.field, source)
        if isinstance(value, AccessField):
            where, layout = self.header(value.header, source)
            return self.layout.member(where, layout, layout.type.fields[value.index].name, source)
        return None

    def header(self, value: Value, source: Source | None) -> tuple[str, TypeLayout]:
        """A header as an lvalue, and its type."""
        if isinstance(value, HeaderRef):
            if value.name not in self.layout.program.headers:
                raise refuse(f"{value.name!r} is not a header", source)
            return self.layout.header(value.name), self.layout.type_of(value.name)
        if isinstance(value, Operation) and value.op == "dereference_header_stack":
            stack, index = value.operands
            if isinstance(stack, StackRef):
                array, _, size = self.layout.stack(stack.name, source)
                at = cast(self.exact(index, source), "uint64_t")
                return f"{array}[stack_index({at.code}, {size})]", self.layout.stack_type(
                    stack.name
                )
        raise refuse(f"a header given by {_describe(value)}", source)

    def _param(self, index: int, source: Source | None) -> Int:
        bits = self._params[index].bits
        if bits > WORD_BITS:
            raise refuse(
                f"arithmetic on the {bits}-bit parameter {self._params[index].name!r}", source
            )
        self.used_params.add(index)
        return Int(self._codes[index], word_type(bits), 0, (1 << bits) - 1)

    def _field(self, place: Place, source: Source | None) -> Int:
        """The exact value of a field."""
        if place.varbit or place.wide:
            raise refuse(f"arithmetic on a field of {place.bits} bits ({place.code[3:]})", source)
        kind = word_type(place.bits)
        if not place.signed:
            return Int(place.code, kind, 0, (1 << place.bits) - 1)
        half = 1 << (place.bits - 1)
        wide = 64 if place.bits <= 64 else 128
        signed = "int64_t" if wide == 64 else "i128"
        return Int(f"sign{wide}({place.code}, {place.bits})", signed, -half, half - 1)

    # --- exact values

    def exact(self, value: Value, source: Source | None) -> Int:
        """A number as it is.  Raises UnsupportedProgram where 128 bits may not hold it."""
        if isinstance(value, Const):
            return self._with_source(value.value, source)
        if isinstance(value, Param):
            return self._param(value.index, source)
        place = self.place(value, source)
        if place is not None:
            return self._field(place, source)
        if not isinstance(value, Operation):
            raise refuse(f"a number given by {_describe(value)}", source)
        slice_ = self._wide_slice(value, WORD_BITS, source) if value.op == ">>" else None
        if slice_ is not None and self._slice_is_whole(value, source):
            return slice_
        return self._exact_operation(value, source)

    def _slice_is_whole(self, value: Operation, source: Source | None) -> bool:
        """Whether what is left of a wide field after a shift fits into 128 bits."""
        place, by = self.place(value.operands[0], source), value.operands[1]
        return place is not None and place.bits - _const(by, source) <= WORD_BITS

    def _with_source(self, value: int, source: Source | None) -> Int:
        try:
            return constant(value)
        except UnsupportedProgram as error:
            raise refuse(str(error), source) from None

    def _exact_operation(self, value: Operation, source: Source | None) -> Int:
        op, operands = value.op, value.operands
        if op in _RING_OPS:
            return self._exact_ring(op, operands, source)
        if op in ("&", "|", "^"):
            return self._exact_bitwise(op, operands, source)
        if op == "~":
            part = self.exact(operands[0], source)
            kind = self._range(-part.high - 1, -part.low - 1, source)
            code = f"~{cast(part, kind).operand}"
            return Int(code, kind, -part.high - 1, -part.low - 1, atom=False)
        if op in ("<<", ">>"):
            return self._exact_shift(op, operands, source)
        if op in ("/", "%"):
            return self._exact_division(op, operands, source)
        if op == "two_comp_mod":
            return self._exact_modulo(operands, source)
        if op in ("usat_cast", "sat_cast"):
            return self._exact_saturation(op, operands, source)
        if op == "?":
            return self._exact_choice(operands, source)
        if op == "b2d":
            return Int(f"(uint32_t)({self.truth(operands[0], source)})", "uint32_t", 0, 1)
        if op in ("last_stack_index", "size_stack"):
            return self._stack_count(op, operands, source)
        raise refuse(f"operator {op!r} in a number", source)

    def _range(self, low: int, high: int, source: Source | None) -> str:
        kind = range_type(low, high)
        if kind is None:
            raise refuse("arithmetic that needs more than 128 bits", source)
        return kind

    def _exact_ring(self, op: str, operands: Sequence[Value], source: Source | None) -> Int:
        a, b = (self.exact(o, source) for o in _binary(op, operands, source))
        if op == "+":
            low, high = a.low + b.low, a.high + b.high
        elif op == "-":
            low, high = a.low - b.high, a.high - b.low
        else:
            corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
            low, high = min(corners), max(corners)
        kind = self._range(min(low, a.low, b.low), max(high, a.high, b.high), source)
        return combine(op, a, b, kind, low, high)

    def _exact_bitwise(self, op: str, operands: Sequence[Value], source: Source | None) -> Int:
        left, right = _binary(op, operands, source)
        if op == "&":
            for bound, other in ((right, left), (left, right)):
                if isinstance(bound, Const) and bound.value >= 0:
                    return self._masked(other, bound.value, source)
        a, b = self.exact(left, source), self.exact(right, source)
        if a.low >= 0 and b.low >= 0:
            width = max(a.high, b.high).bit_length()
            high = min(a.high, b.high) if op == "&" else (1 << width) - 1
            kind = self._range(0, max(a.high, b.high), source)
            return combine(op, a, b, kind, 0, high)
        half = max(v.bit_length() for v in (a.low, a.high, b.low, b.high))
        kind = self._range(-(1 << half), (1 << half) - 1, source)
        a, b = cast(a, kind), cast(b, kind)
        low, high = -(1 << half), (1 << half) - 1
        if op == "&" and (a.low >= 0 or b.low >= 0):
            low, high = 0, max(a.high, b.high)
        return Int(f"{a.operand} {op} {b.operand}", kind, low, high, atom=False)

    def _masked(self, value: Value, bound: int, source: Source | None) -> Int:
        """value & bound, for a constant bound that is not negative."""
        bits = max(bound.bit_length(), 1)
        part = self.low(value, bits, source)
        if bound & (bound + 1) == 0 and part.high <= bound:
            return part
        kind = unsigned_type(bits)
        assert kind is not None
        high = min(bound, part.high)
        if TYPE_BITS[part.type] > TYPE_BITS[kind]:
            part = cast(part, kind)
        return Int(f"{part.operand} & {literal(bound)}", kind, 0, high, atom=False)

    def _exact_shift(self, op: str, operands: Sequence[Value], source: Source | None) -> Int:
        left, right = _binary(op, operands, source)
        a, by = self.exact(left, source), self.exact(right, source)
        if by.low < 0:
            raise refuse("a shift by a negative number", source)
        if op == "<<":
            if by.high > WORD_BITS:
                raise refuse("a shift whose result may need more than 128 bits", source)
            low, high = min(a.low << by.high, a.low), max(a.high << by.high, a.high)
            kind = self._range(low, high, source)
            if by.low == by.high:
                factor = Int(literal(1 << by.low), "", 1 << by.low, 1 << by.low)
                return combine("*", cast(a, kind), cast(factor, kind), kind, low, high)
            power = Int(f"({kind})1 << {by.operand}", kind, 1, 1 << by.high, atom=False)
            return combine("*", cast(a, kind), power, kind, low, high)
        kind = self._range(a.low, a.high, source)
        low, high = shifted_right(a, by)
        if by.low == by.high:
            if by.low >= TYPE_BITS[kind]:
                if a.low >= 0:
                    return constant(0)
                by = constant(TYPE_BITS[kind] - 1)
            a = cast(a, kind)
            return Int(f"{a.operand} >> {by.operand}", kind, low, high, atom=False)
        name = "shift_right_signed" if a.low < 0 else "shift_right"
        code = f"{name}{TYPE_BITS[kind]}({a.code}, {cast(by, 'uint64_t').code})"
        return Int(code, kind, low, high)

    def _exact_division(self, op: str, operands: Sequence[Value], source: Source | None) -> Int:
        a, b = (self.exact(o, source) for o in _binary(op, operands, source))
        if a.low < 0 or b.low < 0:
            raise refuse(f"operator {op!r} on numbers that may be negative", source)
        kind = self._range(0, max(a.high, b.high), source)
        high = a.high if op == "/" else min(a.high, max(b.high - 1, 0))
        a, b = cast(a, kind), cast(b, kind)
        code = f"{a.operand} {op} {b.operand}"
        if b.low == 0:  # by zero: BMv2 stops, we give zero
            code = f"{b.operand} == 0 ? 0 : {code}"
        return Int(code, kind, 0, high, atom=False)

    def _exact_modulo(self, operands: Sequence[Value], source: Source | None) -> Int:
        """The signed number in the low bits."""
        value, width = operands
        bits = _const(width, source)
        half = 1 << (bits - 1)
        part = self.low(value, bits, source)
        wide = 64 if bits <= 64 else 128
        kind = "int64_t" if wide == 64 else "i128"
        return Int(f"sign{wide}({part.code}, {bits})", kind, -half, half - 1)

    def _exact_saturation(self, op: str, operands: Sequence[Value], source: Source | None) -> Int:
        value, width = operands
        bits = _const(width, source)
        part = self.exact(value, source)
        least, most = (0, (1 << bits) - 1)
        if op == "sat_cast":
            least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        kind = self._range(min(least, part.low), max(most, part.high), source)
        part = cast(part, kind)
        below, above = cast(self._with_source(least, source), kind), cast(constant(most), kind)
        code = part.operand
        if part.high > most:
            code = f"({part.operand} > {above.operand} ? {above.operand} : {code})"
        if part.low < least:
            code = f"({part.operand} < {below.operand} ? {below.operand} : {code})"
        low, high = (max(least, min(most, bound)) for bound in (part.low, part.high))
        return Int(code, kind, low, high)

    def _exact_choice(self, operands: Sequence[Value], source: Source | None) -> Int:
        condition, left, right = operands
        a, b = self.exact(left, source), self.exact(right, source)
        low, high = min(a.low, b.low), max(a.high, b.high)
        kind = self._range(low, high, source)
        a, b = cast(a, kind), cast(b, kind)
        code = f"{self.truth(condition, source)} ? {a.operand} : {b.operand}"
        return Int(code, kind, low, high, atom=False)

    def _stack_count(self, op: str, operands: Sequence[Value], source: Source | None) -> Int:
        stack = operands[0]
        if not isinstance(stack, StackRef):
            raise refuse(f"{op} of {_describe(stack)}", source)
        _, following, size = self.layout.stack(stack.name, source)
        if op == "size_stack":
            return Int(following, "uint32_t", 0, size)
        return Int(f"(uint64_t){following} - 1", "uint64_t", 0, (1 << 64) - 1, atom=False)

    # --- lowest bits

    def low(self, value: Value, bits: int, source: Source | None) -> Int:
        """A number modulo 2**bits, in an unsigned type; higher bits of the code may be anything."""
        kind = unsigned_type(bits)
        if kind is None:
            raise refuse(f"arithmetic on {bits} bits; 128 is the most", source)
        if isinstance(value, Const):
            return constant(value.value & (1 << bits) - 1)
        place = self.place(value, source)
        if place is not None and _is_word(place) and (not place.signed or bits <= place.bits):
            return Int(place.code, word_type(place.bits), 0, (1 << place.bits) - 1)
        slice_ = self._wide_slice(value, bits, source)
        if slice_ is not None:
            return slice_
        if isinstance(value, Operation):
            found = self._low_operation(value, bits, kind, source)
            if found is not None:
                return found
        part = self.exact(value, source)
        if part.low >= 0:
            return part
        return Int(cast(part, kind).code, kind, 0, greatest(kind))

    def _wide_slice(self, value: Value, bits: int, source: Source | None) -> Int | None:
        """Bits of a field of more than 128 bits, shifted right by a constant or not at all."""
        shift = 0
        if isinstance(value, Operation) and value.op == ">>":
            value, by = value.operands
            if not isinstance(by, Const):
                return None
            shift = by.value
        place = self.place(value, source)
        if place is None or not place.wide:
            return None
        bits = min(bits, place.bits - shift)
        if bits <= 0:
            return constant(0)
        kind = unsigned_type(bits)
        assert kind is not None
        code = load_bits(place.code, place.bytes * 8 - shift - bits, bits)
        return Int(f"({kind})({code})", kind, 0, (1 << bits) - 1)

    def _low_operation(
        self, value: Operation, bits: int, kind: str, source: Source | None
    ) -> Int | None:
        op, operands = value.op, value.operands
        if op in _RING_OPS:
            a, b = (self.low(o, bits, source) for o in _binary(op, operands, source))
            return combine(op, a, b, kind, 0, ring_high(op, a, b, kind))
        if op in ("&", "|", "^"):
            return self._low_bitwise(op, operands, bits, kind, source)
        if op == "~":
            part = cast(self.low(operands[0], bits, source), kind)
            return Int(f"~{part.operand}", kind, 0, greatest(kind), atom=False)
        if op == "<<":
            return self._low_shift(operands, bits, kind, source)
        if op == "two_comp_mod" and bits <= _const(operands[1], source):
            return self.low(operands[0], bits, source)
        if op == "?":
            condition, left, right = operands
            a = cast(self.low(left, bits, source), kind)
            b = cast(self.low(right, bits, source), kind)
            code = f"{self.truth(condition, source)} ? {a.operand} : {b.operand}"
            return Int(code, kind, 0, max(a.high, b.high), atom=False)
        return None

    def _low_bitwise(
        self, op: str, operands: Sequence[Value], bits: int, kind: str, source: Source | None
    ) -> Int:
        left, right = _binary(op, operands, source)
        if op == "&":
            for bound, other in ((right, left), (left, right)):
                if isinstance(bound, Const):
                    return self._masked(other, bound.value & (1 << bits) - 1, source)
        a, b = self.low(left, bits, source), self.low(right, bits, source)
        high = (1 << max(a.high, b.high).bit_length()) - 1
        if op == "&":
            high = min(a.high, b.high)
        wide = max((a.type, b.type, kind), key=lambda t: TYPE_BITS[t])
        return combine(op, a, b, wide, 0, high)

    def _low_shift(
        self, operands: Sequence[Value], bits: int, kind: str, source: Source | None
    ) -> Int:
        left, right = _binary("<<", operands, source)
        by = self.exact(right, source)
        if by.low < 0:
            raise refuse("a shift by a negative number", source)
        if by.low >= bits:
            return constant(0)
        if by.low != by.high:
            part = cast(self.low(left, bits, source), kind)
            code = f"shift_left{TYPE_BITS[kind]}({part.code}, {cast(by, 'uint64_t').code})"
            return Int(code, kind, 0, greatest(kind))
        part = cast(self.low(left, bits - by.low, source), kind)
        if by.low == 0:
            return part
        high = min(part.high << by.low, greatest(kind))
        return Int(f"{part.operand} << {by.operand}", kind, 0, high, atom=False)

    # --- truth values

    def truth(self, value: Value, source: Source | None) -> str:
        """A condition as C, in parentheses where it needs them."""
        if isinstance(value, BoolConst):
            return "true" if value.value else "false"
        if not isinstance(value, Operation):
            part = self.exact(value, source)
            return f"({part.operand} != 0)"
        op, operands = value.op, value.operands
        if op in ("and", "or"):
            parts = [self.truth(o, source) for o in operands]
            return "(" + (" && " if op == "and" else " || ").join(parts) + ")"
        if op == "not":
            return f"!{self.truth(operands[0], source)}"
        if op == "d2b":
            return f"({self.exact(operands[0], source).operand} != 0)"
        if op == "valid":
            return f"{self.header(operands[0], source)[0]}.{VALID}"
        if op == "valid_union":
            return self._valid_union(operands[0], source)
        if op in _COMPARISONS:
            return self._comparison(op, operands, source)
        if op == "?":
            condition, left, right = (self.truth(o, source) for o in operands)
            return f"({condition} ? {left} : {right})"
        part = self.exact(value, source)
        return f"({part.operand} != 0)"

    def _valid_union(self, value: Value, source: Source | None) -> str:
        for union in self.layout.program.unions:
            if value == Named("union", union.name):
                parts = [f"{self.layout.header(name)}.{VALID}" for name in union.headers]
                return "(" + " || ".join(parts) + ")"
        raise refuse(f"validity of {_describe(value)}", source)

    def _comparison(self, op: str, operands: Sequence[Value], source: Source | None) -> str:
        left, right = _binary(op, operands, source)
        if _is_header(left):
            same = self._same_headers(left, right, source)
            return same if op == "==" else f"!{same}"
        if is_truth(left):
            return f"({self.truth(left, source)} {op} {self.truth(right, source)})"
        if op in ("==", "!="):
            wide = self._same_bytes(left, right, source)
            if wide is not None:
                return wide if op == "==" else f"!{wide}"
        a, b = self.exact(left, source), self.exact(right, source)
        known = known_comparison(op, a, b)
        if known is not None:
            return "true" if known else "false"
        kind = self._range(min(a.low, b.low), max(a.high, b.high), source)
        if a.low < 0 or b.low < 0:
            a, b = cast(a, kind), cast(b, kind)
        return f"({a.operand} {op} {b.operand})"

    def _same_bytes(self, left: Value, right: Value, source: Source | None) -> str | None:
        """Equality of two fields of more than 128 bits or two varbits; None for other operands."""
        a, b = self.place(left, source), self.place(right, source)
        if a is None or b is None or not (a.wide or a.varbit):
            return None
        return same_places(a, b)

    def _same_headers(self, left: Value, right: Value, source: Source | None) -> str:
        """BMv2's equality of headers: both valid and every field equal."""
        (a, layout), (b, other) = self.header(left, source), self.header(right, source)
        if layout.type.name != other.type.name:
            return "false"
        parts = [f"{a}.{VALID}", f"{b}.{VALID}"]
        for field in layout.type.fields:
            one = self.layout.member(a, layout, field.name, source)
            two = self.layout.member(b, layout, field.name, source)
            parts.append(same_places(one, two))
        return "(" + " && ".join(parts) + ")"


def same_places(a: Place, b: Place) -> str:
    """Equality of two fields of one width."""
    if a.varbit:
        return f"({a.count} == {b.count} && memcmp({a.code}, {b.code}, {a.count}) == 0)"
    if a.wide:
        return f"(memcmp({a.code}, {b.code}, {a.bytes}) == 0)"
    return f"{a.code} == {b.code}"


def _is_word(place: Place) -> bool:
    return not (place.varbit or place.wide)


def _binary(op: str, operands: Sequence[Value], source: Source | None) -> tuple[Value, Value]:
    if op == "-" and len(operands) == 1:
        return Const(0), operands[0]
    if op == "+" and len(operands) == 1:
        return Const(0), operands[0]
    if len(operands) != 2:
        raise refuse(f"operator {op!r} with {len(operands)} operands", source)
    return operands[0], operands[1]


def _const(value: Value, source: Source | None) -> int:
    if not isinstance(value, Const):
        raise refuse("a width that is not a constant", source)
    return value.value


def _is_header(value: Value) -> bool:
    return isinstance(value, HeaderRef) or (
        isinstance(value, Operation) and value.op == "dereference_header_stack"
    )


def is_truth(value: Value) -> bool:
    """Whether a value is a truth value rather than a number."""
    if isinstance(value, Operation) and value.op == "?":
        return is_truth(value.operands[1])
    return isinstance(value, BoolConst) or (isinstance(value, Operation) and value.op in _BOOL_OPS)


def _describe(value: Value) -> str:
    if isinstance(value, Operation):
        return f"operator {value.op!r}"
    return f"{type(value).__name__} {getattr(value, 'name', '')!r}".strip()


def to_field(expressions: Expressions, place: Place, value: Value, source: Source | None) -> str:
    """The C expression whose assignment to a field of at most 128 bits stores a value."""
    part = expressions.low(value, place.bits, source)
    if part.high < 1 << place.bits or word_bits(place.bits) == place.bits:
        return part.code
    return f"{part.operand} & {mask(place.bits)}"
