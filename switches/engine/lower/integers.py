"""Numbers in C: code, type, and the least and greatest value it can have."""

from dataclasses import dataclass

from switches.engine.lower.bits import literal
from switches.engine.lower.layout import WORD_BITS
from switches.program import UnsupportedProgram


@dataclass(frozen=True, slots=True)
class Int:
    """C code of a number: its C type, and the least and greatest value it can have.

    From `low` the value is only right modulo 2**bits, and `high` bounds what the C code gives.
    atom: needs no parentheses as an operand.
    """

    code: str
    type: str
    low: int
    high: int
    atom: bool = True

    @property
    def operand(self) -> str:
        return self.code if self.atom else f"({self.code})"


def unsigned_type(bits: int) -> str | None:
    """The working type for unsigned numbers of so many bits."""
    if bits <= 32:
        return "uint32_t"
    if bits <= 64:
        return "uint64_t"
    return "u128" if bits <= WORD_BITS else None


def range_type(low: int, high: int) -> str | None:
    """The working type that holds a range, or None."""
    if low >= 0:
        return unsigned_type(high.bit_length())
    bits = max((-low - 1).bit_length(), high.bit_length()) + 1
    return "int64_t" if bits <= 64 else "i128" if bits <= WORD_BITS else None


TYPE_BITS = {
    "uint8_t": 8,
    "uint16_t": 16,
    "uint32_t": 32,
    "uint64_t": 64,
    "u128": 128,
    "int64_t": 64,
    "i128": 128,
}


def cast(value: Int, kind: str) -> Int:
    if value.type == kind:
        return value
    return Int(f"({kind}){value.operand}", kind, value.low, value.high)


def greatest(kind: str) -> int:
    return (1 << TYPE_BITS[kind]) - 1


def constant(value: int) -> Int:
    """Raises UnsupportedProgram above 128 bits."""
    if value < 0:
        kind = range_type(value, value)
        if kind is None:
            raise UnsupportedProgram("a constant of more than 128 bits")
        return Int(f"~({kind}){constant(-value - 1).code}", kind, value, value, atom=False)
    found = unsigned_type(value.bit_length())
    if found is None:
        raise UnsupportedProgram("a constant of more than 128 bits")
    return Int(literal(value), found, value, value)


def known_comparison(op: str, a: Int, b: Int) -> bool | None:
    """What a comparison gives whatever the values, or None."""
    below, above = a.high < b.low, a.low > b.high
    if op in ("==", "!="):
        return (op == "!=") if below or above else None
    if op in (">", "<="):
        if a.high <= b.low:
            return op == "<="
        return (op == ">") if above else None
    if a.low >= b.high:
        return op == ">="
    return (op == "<") if below else None


def combine(op: str, a: Int, b: Int, kind: str, low: int, high: int) -> Int:
    """a op b, computed in `kind`."""
    signed = kind in ("int64_t", "i128")
    if signed or TYPE_BITS[b.type] > TYPE_BITS[kind]:
        b = cast(b, kind)
    if signed or TYPE_BITS[a.type] > TYPE_BITS[kind] or kind not in (a.type, b.type):
        a = cast(a, kind)
    return Int(f"{a.operand} {op} {b.operand}", kind, low, high, atom=False)


def ring_high(op: str, a: Int, b: Int, kind: str) -> int:
    """A bound on what a ring operation of unsigned words gives."""
    most = greatest(kind)
    if op == "+" and a.high + b.high <= most:
        return a.high + b.high
    if op == "*" and a.high * b.high <= most:
        return a.high * b.high
    return most


def shifted_right(a: Int, by: Int) -> tuple[int, int]:
    corners = [v >> min(n, WORD_BITS) for v in (a.low, a.high) for n in (by.low, by.high)]
    return min(corners), max(corners)
