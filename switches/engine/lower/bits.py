"""From the bits of a header to the fields of a C struct, and back."""

from dataclasses import dataclass

from switches.engine.lower.layout import VALID, WORD_BITS, TypeLayout
from switches.program import UnsupportedProgram

_LOADS = (8, 16, 24, 32, 40, 48, 56, 64, 128)
_CHUNK_BITS = 64


def _load(base: str, byte: int, count: int) -> str:
    """`count` bytes as a number; at most 16."""
    at = base if byte == 0 else f"{base} + {byte}"
    if count * 8 in _LOADS:
        return f"load{count * 8}({at})"
    return f"load_bytes({at}, {count})"


def store(at: str, count: int, code: str) -> str:
    """The statement that puts the low `count` bytes of a number at a pointer; at most 16."""
    if count * 8 in _LOADS:
        return f"store{count * 8}({at}, {code});"
    return f"store_bytes({at}, {count}, {code});"


def load(at: str, bits: int) -> str:
    """A number of so many bits, padded to bytes, at a pointer; at most 128 bits."""
    return _load(at, 0, (bits + 7) // 8)


def load_bits(base: str, offset: int, bits: int) -> str:
    """Bits of a bit string that starts at `base`, as an unsigned number; at most 128."""
    first, last = offset // 8, (offset + bits - 1) // 8
    count = last - first + 1
    if count > 16:  # 128 bits across 17 bytes
        high = load_bits(base, offset, bits - _CHUNK_BITS)
        low = load_bits(base, offset + bits - _CHUNK_BITS, _CHUNK_BITS)
        return f"(u128)({high}) << {_CHUNK_BITS} | ({low})"
    code = _load(base, first, count)
    shift = (last + 1) * 8 - (offset + bits)
    if shift:
        code = f"{code} >> {shift}"
    if offset % 8:
        code = f"({code}) & {mask(bits)}" if shift else f"{code} & {mask(bits)}"
    return code


def mask(bits: int) -> str:
    """All ones."""
    return literal((1 << bits) - 1)


def literal(value: int) -> str:
    """A number from 0 to 2**128 - 1 as a C constant of unsigned type."""
    if value < 10:
        return f"{value}u"
    if value < 1 << 32:
        return f"0x{value:x}u"
    if value < 1 << 64:
        return f"UINT64_C(0x{value:x})"
    return f"U128(0x{value >> 64:x}, 0x{value & (1 << 64) - 1:x})"


def _load_wide(where: str, base: str, offset: int, bits: int) -> list[str]:
    """Statements that fill a byte array with a right-aligned bit string."""
    count = (bits + 7) // 8
    if offset % 8 == 0 and bits % 8 == 0:
        return [f"memcpy({where}, {base} + {offset // 8}, {count});"]
    first = bits - (count - 1) * 8
    lines = [f"{where}[0] = (uint8_t)({load_bits(base, offset, first)});"]
    for index in range(1, count):
        start = offset + first + (index - 1) * 8
        lines.append(f"{where}[{index}] = (uint8_t)({load_bits(base, start, 8)});")
    return lines


def extract_lines(layout: TypeLayout, f: str = "f", d: str = "d") -> list[str]:
    """Statements that read a header's fields from the bytes at `d`.

    For a type with a varbit, `varbit_bytes` is its length.
    """
    lines: list[str] = []
    base, offset = d, 0
    for field in layout.type.fields:
        where = f"{f}->{layout.fields[field.name]}"
        if field.bits is None:
            _require_aligned(layout, offset)
            lines += [
                f"memcpy({where}, {base} + {offset // 8}, varbit_bytes);",
                f"{where}_bytes = varbit_bytes;",
            ]
            base = f"({base} + varbit_bytes)"
        elif field.bits > WORD_BITS:
            lines += _load_wide(where, base, offset, field.bits)
            offset += field.bits
        else:
            lines.append(f"{where} = {load_bits(base, offset, field.bits)};")
            offset += field.bits
    return [*lines, f"{f}->{VALID} = true;"]


def _require_aligned(layout: TypeLayout, offset: int) -> None:
    if offset % 8:
        raise UnsupportedProgram(f"header type {layout.type.name!r}: varbit not at a whole byte")


@dataclass(frozen=True, slots=True)
class Piece:
    """A bit string to write: an unsigned number below 2**bits, or bytes of a big-endian array."""

    code: str
    bits: int


def pieces_of(code: str, bits: int) -> list[Piece]:
    """A field cut into numbers of at most 64 bits (a wide one into bytes)."""
    if bits > WORD_BITS:
        count = (bits + 7) // 8
        first = bits - (count - 1) * 8
        return [Piece(f"{code}[{i}]", 8 if i else first) for i in range(count)]
    if bits > _CHUNK_BITS:
        return [
            Piece(f"(uint64_t)({code} >> {_CHUNK_BITS})", bits - _CHUNK_BITS),
            Piece(f"(uint64_t){code}", _CHUNK_BITS),
        ]
    return [Piece(code, bits)]


def _split(piece: Piece, bits: int) -> tuple[Piece, Piece]:
    """The first so many bits of a piece, and the rest."""
    rest = piece.bits - bits
    return (
        Piece(f"({piece.code} >> {rest})", bits),
        Piece(f"({piece.code} & {mask(rest)})", rest),
    )


def _join(run: list[Piece]) -> str:
    if len(run) == 1:
        return run[0].code
    left = sum(p.bits for p in run)
    kind = "uint64_t" if left > 32 else "uint32_t"
    parts = []
    for piece in run:
        left -= piece.bits
        parts.append(f"({kind}){piece.code} << {left}" if left else piece.code)
    return " | ".join(parts)


def store_lines(pieces: list[Piece], d: str, start: int = 0) -> list[str]:
    """Statements that write pieces one after the other from `d`; together whole bytes."""
    lines: list[str] = []
    run: list[Piece] = []
    byte = start
    todo = list(pieces)
    while todo:
        piece = todo.pop(0)
        filled = sum(p.bits for p in run)
        if filled + piece.bits > _CHUNK_BITS:
            piece, rest = _split(piece, _CHUNK_BITS - filled)
            todo.insert(0, rest)
        run.append(piece)
        filled = sum(p.bits for p in run)
        if filled % 8 == 0:
            at = f"{d} + {byte}" if byte else d
            lines.append(store(at, filled // 8, _join(run)))
            byte, run = byte + filled // 8, []
    if run:
        raise AssertionError("pieces do not fill whole bytes")
    return lines


def emit_lines(layout: TypeLayout, f: str = "f", d: str = "d") -> list[str]:
    """Statements that write a header's fields to the bytes at `d`."""
    lines: list[str] = []
    pieces: list[Piece] = []
    base, offset, start = d, 0, 0
    for field in layout.type.fields:
        where = f"{f}->{layout.fields[field.name]}"
        if field.bits is None:
            _require_aligned(layout, offset)
            lines += store_lines(pieces, base, start)
            lines.append(f"memcpy({base} + {offset // 8}, {where}, {where}_bytes);")
            base, pieces, start = f"({base} + {where}_bytes)", [], offset // 8
        else:
            pieces += pieces_of(where, field.bits)
            offset += field.bits
    return lines + store_lines(pieces, base, start)
