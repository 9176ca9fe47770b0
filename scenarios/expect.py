"""Expectations: a small language of its own, parsed and checked at load, never `eval`ed.

    expectation := ["not"] sum [("==" | "!=" | "<=" | ">=" | "<" | ">") sum]
    sum         := product {("+" | "-") product}
    product     := atom {("*" | "/") atom}
    atom        := number [unit] | name ["(" fault ")"] | "(" sum ")"

Every value has a kind (number, rate, time, flag, set) and kinds are checked before anything runs:
a rate compares with a rate, `0.6 * rate` is a rate, a flag or a set is not added.  Between sets
`<=` means "is part of".
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import NoReturn, assert_never

from scenarios import metrics, schema
from topologies import units

Kind = metrics.Kind
Value = metrics.Value

DEPTH_MAX = 20
"""Parentheses within parentheses."""

LISTED_MAX = 6
"""Members of a set shown in a finding; the rest is a number."""


class ExpectError(ValueError):
    """An expectation that cannot be understood; the message says what was expected."""


@dataclass(frozen=True, slots=True)
class Literal:
    kind: Kind
    value: Fraction


@dataclass(frozen=True, slots=True)
class Name:
    kind: Kind
    name: str


@dataclass(frozen=True, slots=True)
class Binary:
    kind: Kind
    op: str
    left: "Node"
    right: "Node"


Node = Literal | Name | Binary


@dataclass(frozen=True, slots=True)
class Expectation:
    """Either a flag alone (`op` is "" or "not"), or a comparison."""

    text: str
    left: Node
    op: str
    right: Node | None

    @property
    def is_of_speed(self) -> bool:
        """Whether a rate or a time that was measured is part of it."""
        return any(
            isinstance(node, Name) and node.kind in (Kind.RATE, Kind.TIME)
            for side in (self.left, self.right)
            for node in _nodes(side)
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """What was wanted and what was measured, in words, and whether it holds."""

    expr: str
    wanted: str
    measured: str
    ok: bool


def names_of(scenario: schema.Scenario) -> dict[str, Kind]:
    """Every name an expectation of that scenario may use."""
    return metrics.names([fault.name for fault in scenario.timeline])


def parse(text: str, names: Mapping[str, Kind]) -> Expectation:
    """Raises ExpectError."""
    return _Parser(text, names).expectation()


def judge(expectation: Expectation, measure: Callable[[str], Value]) -> Finding:
    """`measure` gives the value of a name or raises metrics.Undefined with the reason."""
    try:
        return _judge(expectation, measure)
    except metrics.Undefined as error:
        return Finding(expectation.text, _wanted_shape(expectation), str(error), False)


class _Token(Enum):
    NUMBER = r"\d+(?:\.\d+)?(?:[A-Za-z]+|%)?"
    NAME = r"[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)*(?:\( *[a-z][a-z0-9_-]* *\))?"
    OP = r"==|!=|<=|>=|<|>|[-+*/()]"


_TOKENS = re.compile(
    "|".join(f"(?P<{t.name}>{t.value})" for t in _Token) + r"|(?P<SPACE>\s+)", re.ASCII
)
_COMPARISONS = ("==", "!=", "<=", ">=", "<", ">")
_UNITS = {
    **dict.fromkeys(units.RATE_UNITS, Kind.RATE),
    **dict.fromkeys(units.TIME_UNITS, Kind.TIME),
    **dict.fromkeys(units.SIZE_UNITS, Kind.NUMBER),
}
_SCALES = {**units.RATE_UNITS, **units.TIME_UNITS, **units.SIZE_UNITS, "%": Fraction(1, 100)}


class _Parser:
    def __init__(self, text: str, names: Mapping[str, Kind]) -> None:
        self._text = text
        self._names = names
        self._tokens = self._split(text)
        self._next = 0
        self._depth = 0

    def expectation(self) -> Expectation:
        negated = self._take("not")
        left = self._sum()
        op = self._peek()
        if op in _COMPARISONS:
            self._next += 1
            right = self._sum()
            self._end()
            if negated:
                raise ExpectError("`not` stands before a flag, not before a comparison")
            self._comparable(left, op, right)
            return Expectation(self._text, left, op, right)
        self._end()
        if left.kind is not Kind.FLAG:
            shown = (
                "a comparison, such as `job.bytes_corrupt == 0`, or a flag, such as `job.completed`"
            )
            raise ExpectError(f"expected {shown}, got {self._text!r}")
        return Expectation(self._text, left, "not" if negated else "", None)

    def _split(self, text: str) -> list[str]:
        tokens = []
        position = 0
        while position < len(text):
            match = _TOKENS.match(text, position)
            if match is None:
                raise ExpectError(f"{text[position:][:20]!r} is not understood here")
            position = match.end()
            if match.lastgroup != "SPACE":
                tokens.append(match[0])
        return tokens

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _take(self, token: str) -> bool:
        found = self._peek() == token
        self._next += found
        return found

    def _end(self) -> None:
        if self._peek():
            raise ExpectError(f"{self._peek()!r} is not expected after a complete expectation")

    def _sum(self) -> Node:
        node = self._product()
        while (op := self._peek()) in ("+", "-") and op:
            self._next += 1
            node = self._combine(op, node, self._product())
        return node

    def _product(self) -> Node:
        node = self._atom()
        while (op := self._peek()) in ("*", "/") and op:
            self._next += 1
            node = self._combine(op, node, self._atom())
        return node

    def _atom(self) -> Node:
        if self._take("("):
            self._depth += 1
            if self._depth > DEPTH_MAX:
                raise ExpectError(f"more than {DEPTH_MAX} parentheses within each other")
            node = self._sum()
            if not self._take(")"):
                raise ExpectError("a closing parenthesis is missing")
            self._depth -= 1
            return node
        token = self._peek()
        if not token or not token[0].isalnum():
            raise ExpectError(f"expected a number or a name, got {token or 'the end'!r}")
        self._next += 1
        return self._number(token) if token[0].isdecimal() else self._name(token)

    def _number(self, token: str) -> Literal:
        match = re.fullmatch(r"([\d.]+)(.*)", token)
        assert match is not None
        unit = match[2]
        if unit in ("", "%"):
            return Literal(Kind.NUMBER, Fraction(match[1]) * _SCALES.get(unit, 1))
        if unit not in _UNITS:
            raise ExpectError(f"unknown unit {unit!r}: there are {', '.join(_SCALES)}")
        return Literal(_UNITS[unit], Fraction(match[1]) * _SCALES[unit])

    def _name(self, token: str) -> Name:
        name = token.replace(" ", "")
        if name not in self._names:
            raise ExpectError(f"unknown name {name!r}: there are {', '.join(self._names)}")
        return Name(self._names[name], name)

    def _combine(self, op: str, left: Node, right: Node) -> Binary:
        kinds = (left.kind, right.kind)
        if Kind.FLAG in kinds or Kind.SET in kinds:
            raise ExpectError(f"{op!r} works on numbers, rates and times only")
        number = Kind.NUMBER
        if op in "+-" and left.kind is right.kind:
            return Binary(left.kind, op, left, right)
        if op == "*" and number in kinds:
            return Binary(right.kind if left.kind is number else left.kind, op, left, right)
        if op == "/" and right.kind is number:
            return Binary(left.kind, op, left, right)
        if op == "/" and left.kind is right.kind:
            return Binary(number, op, left, right)
        raise ExpectError(f"a {left.kind.value} {op} a {right.kind.value} has no meaning here")

    def _comparable(self, left: Node, op: str, right: Node) -> None:
        exact = {left.kind, right.kind} & {Kind.FLAG, Kind.SET}
        zero = not exact and (_is_zero(left) or _is_zero(right))
        if left.kind is not right.kind and not zero:
            raise ExpectError(f"a {left.kind.value} cannot be compared with a {right.kind.value}")
        flag_order = left.kind is Kind.FLAG and op not in ("==", "!=")
        if flag_order or (left.kind is Kind.SET and op in ("<", ">")):
            raise ExpectError(f"{op!r} does not work on a {left.kind.value}")


def _nodes(node: Node | None) -> Iterator[Node]:
    if node is not None:
        yield node
    if isinstance(node, Binary):
        yield from _nodes(node.left)
        yield from _nodes(node.right)


def _is_zero(node: Node) -> bool:
    return isinstance(node, Literal) and node.value == 0


def _judge(expectation: Expectation, measure: Callable[[str], Value]) -> Finding:
    left = _evaluate(expectation.left, measure)
    if expectation.right is None:
        ok = bool(left) is (expectation.op != "not")
        return Finding(expectation.text, _wanted_shape(expectation), show(left, Kind.FLAG), ok)
    right = _evaluate(expectation.right, measure)
    ok = _holds(left, expectation.op, right)
    kind = expectation.left.kind if not _is_zero(expectation.left) else expectation.right.kind
    wanted = f"{expectation.op} {show(right, kind)}"
    measured = show(left, kind)
    if not ok and isinstance(left, frozenset) and isinstance(right, frozenset):
        measured += _difference(left, right)
    return Finding(expectation.text, wanted, measured, ok)


def _wanted_shape(expectation: Expectation) -> str:
    if expectation.right is None:
        return "no" if expectation.op == "not" else "yes"
    return expectation.text[expectation.text.index(expectation.op) :]


def _evaluate(node: Node, measure: Callable[[str], Value]) -> Value:
    match node:
        case Literal():
            return node.value
        case Name():
            return measure(node.name)
        case Binary():
            left, right = _evaluate(node.left, measure), _evaluate(node.right, measure)
            assert isinstance(left, Fraction | int)
            assert isinstance(right, Fraction | int)
            return _arithmetic(Fraction(left), node.op, Fraction(right))
    assert_never(node)


def _arithmetic(left: Fraction, op: str, right: Fraction) -> Fraction:
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/" if right == 0:
            raise metrics.Undefined("a division by zero")
        case "/":
            return left / right
    _unreachable(op)


def _holds(left: Value, op: str, right: Value) -> bool:
    match op:
        case "==":
            return left == right
        case "!=":
            return left != right
        case "<=":
            return left <= right  # type: ignore[operator]
        case ">=":
            return left >= right  # type: ignore[operator]
        case "<":
            return left < right  # type: ignore[operator]
        case ">":
            return left > right  # type: ignore[operator]
    _unreachable(op)


def _unreachable(op: str) -> NoReturn:
    raise AssertionError(op)


def show(value: Value, kind: Kind) -> str:
    """A value in the words of a report."""
    if isinstance(value, frozenset):
        return f"{len(value)} EVs"
    if kind is Kind.FLAG:
        return "yes" if value else "no"
    if kind is Kind.RATE:
        return units.show_rate(float(value))
    if kind is Kind.TIME:
        return units.show_duration(float(value))
    exact = Fraction(value)
    return str(exact.numerator) if exact.denominator == 1 else f"{float(exact):.6g}"


def _difference(left: frozenset[str], right: frozenset[str]) -> str:
    parts = []
    for what, members in (("too many", left - right), ("missing", right - left)):
        if members:
            names = sorted(members)
            rest = f" and {len(names) - LISTED_MAX} more" if len(names) > LISTED_MAX else ""
            parts.append(f"{what}: {', '.join(names[:LISTED_MAX])}{rest}")
    return f" ({'; '.join(parts)})"
