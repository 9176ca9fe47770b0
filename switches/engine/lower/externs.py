"""Registers, counters, calculations and checksums: declarations, and one C function each hash."""

from switches.engine.lower.actions import unused
from switches.engine.lower.bits import Piece, literal, pieces_of, store_lines
from switches.engine.lower.expressions import Expressions
from switches.engine.lower.layout import VALID, WORD_BITS, Layout, Place
from switches.engine.lower.names import Scope, c_string, comment
from switches.engine.lower.primitives import Externs
from switches.program import (
    Calculation,
    Checksum,
    Const,
    FieldRef,
    HeaderRef,
    UnsupportedProgram,
    Value,
    refuse,
)

ALGORITHMS = {
    "crc32": "HASH_CRC32",
    "crc32_custom": "HASH_CRC32",  # BMv2's parameters until a controller sets others
    "crc16": "HASH_CRC16",
    "crc16_custom": "HASH_CRC16",
    "csum16": "HASH_CSUM16",
    "xor16": "HASH_XOR16",
    "identity": "HASH_IDENTITY",
}


class ExternsLowering:
    """Lowers what lives beside the tables of a program."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._program = layout.program
        self._refuse_unknown()
        registers, counters, hashes = Scope(), Scope(), Scope()
        self.names = Externs(
            registers={
                r.name: (f"REGISTER_{registers.take(r.name)}", r.size, r.bits)
                for r in self._program.registers
            },
            counters={
                c.name: (f"COUNTER_{counters.take(c.name)}", c.size) for c in self._program.counters
            },
            hashes={n: f"hash_{hashes.take(n)}" for n in self._program.calculations},
            field_lists=frozenset(f.id for f in self._program.field_lists),
        )

    def _refuse_unknown(self) -> None:
        for meter in self._program.meters:
            raise refuse(f"meter {meter.name!r}", meter.source)
        for name in self._program.externs:
            raise UnsupportedProgram(f"extern {name!r}")
        for register in self._program.registers:
            if register.bits > WORD_BITS:
                what = f"register {register.name!r} of {register.bits} bits; 128 is the most"
                raise refuse(what, register.source)

    def emit(self, tables: dict[str, int]) -> list[str]:
        """Constants, arrays, hash functions, verify_checksums and update_checksums."""
        lines = [*self._constants(), *self._arrays(tables)]
        for calculation in self._program.calculations.values():
            lines += self._hash(calculation)
        return [*lines, *self._verify(), *self._update()]

    def _constants(self) -> list[str]:
        lines = []
        for group in (self.names.registers, self.names.counters):
            names = [entry[0] for entry in group.values()]
            if names:
                lines.append(f"enum {{ {', '.join(names)} }};")
        return [*lines, ""]

    def _arrays(self, tables: dict[str, int]) -> list[str]:
        lines = []
        if self._program.counters:
            lines.append("static const struct counter counters[] = {")
            for counter in self._program.counters:
                table = tables.get(counter.table, 0) if counter.table else 0
                direct = "true" if counter.table else "false"
                lines.append(
                    f"    {{{c_string(counter.name)}, {counter.size}, {direct}, {table}}},"
                )
            lines += ["};", ""]
        if self._program.registers:
            lines.append("static const struct reg registers[] = {")
            for register in self._program.registers:
                lines.append(
                    f"    {{{c_string(register.name)}, {register.size}, {register.bits}}},"
                )
            lines += ["};", ""]
        return lines

    # --- calculations

    def _hash(self, calculation: Calculation) -> list[str]:
        if calculation.algorithm not in ALGORITHMS:
            raise refuse(f"hash algorithm {calculation.algorithm!r}", calculation.source)
        body = _Buffer(self._layout, calculation).lines()
        body.append(f"return hash_bytes({ALGORITHMS[calculation.algorithm]}, buffer, length);")
        where = f"  {calculation.source}" if calculation.source else ""
        name = self.names.hashes[calculation.name]
        return [
            f"/* {calculation.algorithm} {comment(calculation.name)}{where} */",
            f"static inline uint64_t {name}(const struct packet *p, const struct phv *h)",
            "{",
            *[f"    {line}" for line in [*unused(body, ("p", "h")), *body]],
            "}",
            "",
        ]

    # --- checksums

    def _condition(self, checksum: Checksum, expressions: Expressions) -> str:
        if checksum.condition is None:
            return "true"
        return expressions.truth(checksum.condition, checksum.source)

    def _target(self, checksum: Checksum) -> Place:
        target = checksum.target
        place = self._layout.field(target.header, target.field, checksum.source)
        if place.wide or place.varbit:
            raise refuse(f"a checksum of {place.bits} bits", checksum.source)
        return place

    def _verify(self) -> list[str]:
        body = []
        for checksum in self._program.checksums:
            if not checksum.verify:
                continue
            place, expressions = self._target(checksum), Expressions(self._layout)
            conditions = [self._condition(checksum, expressions)]
            header = checksum.target.header
            if not self._layout.is_metadata(header):
                conditions.insert(0, f"{self._layout.header(header)}.{VALID}")
            call = f"{self.names.hashes[checksum.calculation]}(p, h)"
            body += [
                f"/* {checksum.source} */" if checksum.source else "",
                f"if ({' && '.join(conditions)} && {place.code} != {call}) p->checksum_error = 1;",
            ]
        return _function("static void verify_checksums(struct packet *p, struct phv *h)", body)

    def _update(self) -> list[str]:
        body = []
        for checksum in self._program.checksums:
            if not checksum.update:
                continue
            place, expressions = self._target(checksum), Expressions(self._layout)
            call = f"{self.names.hashes[checksum.calculation]}(p, h)"
            if place.bits < 64:
                call += f" & {literal((1 << place.bits) - 1)}"
            body += [
                f"/* {checksum.source} */" if checksum.source else "",
                f"if ({self._condition(checksum, expressions)}) {place.code} = {call};",
            ]
        return _function("static void update_checksums(struct packet *p, struct phv *h)", body)


def _function(head: str, body: list[str]) -> list[str]:
    body = [line for line in body if line]
    return [head, "{", *[f"    {x}" for x in [*unused(body, ("p", "h")), *body]], "}", ""]


class _Buffer:
    """Builds the bytes a calculation is made of; a header that is not valid is left out.

    Aligned where every header's share is whole bytes: then fields are stored as in a header.
    Otherwise bit by bit.
    """

    def __init__(self, layout: Layout, calculation: Calculation) -> None:
        self._layout = layout
        self._calculation = calculation
        self._groups: list[tuple[str | None, list[Place | Piece]]] = []
        self._payload = False
        for value, bits in calculation.input:
            self._add(value, bits)

    def _add(self, value: Value | None, bits: int) -> None:
        source = self._calculation.source
        if value is None:
            self._payload = True
        elif isinstance(value, Const):
            if bits > WORD_BITS:
                raise refuse(f"a constant of {bits} bits in a hash", source)
            self._group(None).append(Piece(literal(value.value & (1 << bits) - 1), bits))
        elif isinstance(value, FieldRef):
            guard = None if self._layout.is_metadata(value.header) else value.header
            self._group(guard).append(self._layout.field(value.header, value.field, source))
        elif isinstance(value, HeaderRef):
            fields = self._layout.type_of(value.name).type.fields
            guard = None if self._layout.is_metadata(value.name) else value.name
            self._group(guard).extend(
                self._layout.field(value.name, f.name, source) for f in fields
            )
        else:
            raise refuse(f"{type(value).__name__} in a hash", source)

    def _group(self, header: str | None) -> list[Place | Piece]:
        if not self._groups or self._groups[-1][0] != header:
            self._groups.append((header, []))
        return self._groups[-1][1]

    def lines(self) -> list[str]:
        most = sum(part.bits for _, parts in self._groups for part in parts) // 8 + 1
        room = f"{most} + FRAME_MAX" if self._payload else f"{most}"
        if self._aligned():
            lines = [f"uint8_t buffer[{room}];", "uint32_t length = 0;"]
            for header, parts in self._groups:
                lines += self._guarded(header, _aligned_lines(parts))
        else:
            lines = [f"uint8_t buffer[{room}] = {{0}};", "uint32_t bits = 0;"]
            for header, parts in self._groups:
                lines += self._guarded(header, [x for p in parts for x in _bit_lines(p)])
            lines.append("uint32_t length = (bits + 7) / 8;")
        if self._payload:
            lines += [
                "const uint32_t payload = truncated_length(p, p->length - p->parsed);",
                "memcpy(buffer + length, p->bytes + p->offset + p->parsed, payload);",
                "length += payload;",
            ]
        return lines

    def _aligned(self) -> bool:
        return all(
            sum(part.bits for part in parts if not _is_varbit(part)) % 8 == 0
            and all(not _is_varbit(part) for part in parts[:-1] or parts[:0])
            for _, parts in self._groups
        )

    def _guarded(self, header: str | None, lines: list[str]) -> list[str]:
        if header is None:
            return lines
        where = self._layout.header(header)
        return [f"if ({where}.{VALID}) {{", *[f"    {line}" for line in lines], "}"]


def _is_varbit(part: Place | Piece) -> bool:
    return isinstance(part, Place) and part.varbit


def _pieces(parts: list[Place | Piece]) -> list[Piece]:
    return [piece for part in parts for piece in pieces_of(part.code, part.bits)]


def _aligned_lines(parts: list[Place | Piece]) -> list[str]:
    fixed = [part for part in parts if not _is_varbit(part)]
    lines = store_lines(_pieces(fixed), "buffer + length")
    lines.append(f"length += {sum(part.bits for part in fixed) // 8};")
    for part in parts:
        if isinstance(part, Place) and part.varbit:
            lines += [
                f"memcpy(buffer + length, {part.code}, {part.count});",
                f"length += {part.count};",
            ]
    return lines


def _bit_lines(part: Place | Piece) -> list[str]:
    if isinstance(part, Place) and part.varbit:
        each = f"put_bits(buffer, &bits, {part.code}[i], 8);"
        return [f"for (uint32_t i = 0; i < {part.count}; i++) {each}"]
    return [
        f"put_bits(buffer, &bits, {piece.code}, {piece.bits});"
        for piece in pieces_of(part.code, part.bits)
    ]
