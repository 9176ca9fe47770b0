"""Where a packet's headers and metadata are: one C struct a header type, all in `struct phv`."""

from dataclasses import dataclass

from switches.engine.lower.names import Scope, comment
from switches.program import Field, HeaderType, HeaderUnion, Program, Source, refuse

WORD_BITS = 128
"""The widest integer of the C compilers we use."""

VALID = "is_valid"


def word_type(bits: int) -> str:
    """The unsigned C type a field of so many bits is kept in; at most WORD_BITS."""
    for width in (8, 16, 32, 64):
        if bits <= width:
            return f"uint{width}_t"
    return "u128"


def word_bits(bits: int) -> int:
    """The width in bits of word_type."""
    return next(width for width in (8, 16, 32, 64, 128) if bits <= width)


@dataclass(frozen=True, slots=True)
class Place:
    """A field in C.  A varbit and a field over WORD_BITS are byte arrays, big-endian."""

    code: str
    bits: int
    signed: bool = False
    varbit: bool = False

    @property
    def wide(self) -> bool:
        return self.bits > WORD_BITS and not self.varbit

    @property
    def bytes(self) -> int:
        return (self.bits + 7) // 8

    @property
    def count(self) -> str:
        """The present length of a varbit, in bytes."""
        return f"{self.code}_bytes"


@dataclass(frozen=True, slots=True)
class TypeLayout:
    """C names of a header type."""

    type: HeaderType
    struct: str
    fields: dict[str, str]
    """C member by field name."""

    @property
    def varbit(self) -> Field | None:
        return next((f for f in self.type.fields if f.bits is None), None)

    @property
    def fixed_bits(self) -> int:
        return sum(f.bits or 0 for f in self.type.fields)

    @property
    def fixed_bytes(self) -> int:
        return (self.fixed_bits + 7) // 8

    @property
    def varbit_bytes_max(self) -> int:
        return (self.type.max_bytes or 0) - self.fixed_bytes if self.varbit else 0

    @property
    def bytes_max(self) -> int:
        return self.fixed_bytes + self.varbit_bytes_max


class Layout:
    """Answers where things of a program are.  `h` is a pointer to `struct phv` everywhere."""

    def __init__(self, program: Program) -> None:
        self.program = program
        scope = Scope(("phv",))
        self.types = {name: _type_layout(t, scope) for name, t in program.header_types.items()}
        self._headers: dict[str, str] = {}
        self._stacks: dict[str, str] = {}
        self._unions = {h: union for union in program.unions for h in union.headers}
        members = Scope()
        self._place_stacks(members)
        for name in program.headers:
            if name not in self._headers:
                self._headers[name] = f"h->{members.take(name)}"

    def _place_stacks(self, members: Scope) -> None:
        for name, stack in self.program.stacks.items():
            array = members.take(name)
            self._stacks[name] = array
            members.take(f"{array}_next")
            for index, header in enumerate(stack.headers):
                self._headers[header] = f"h->{array}[{index}]"

    def type_of(self, header: str) -> TypeLayout:
        return self.types[self.program.headers[header].type]

    def header(self, name: str, source: Source | None = None) -> str:
        """The header as an lvalue."""
        if name not in self._headers:
            raise refuse(f"header {name!r} is not declared", source)
        return self._headers[name]

    def is_metadata(self, header: str) -> bool:
        return self.program.headers[header].metadata

    def has_field(self, header: str, field: str) -> bool:
        return header in self.program.headers and field in self.type_of(header).fields

    def field(self, header: str, name: str, source: Source | None = None) -> Place:
        where = self.header(header, source)
        return self.member(where, self.type_of(header), name, source)

    def member(
        self, where: str, layout: TypeLayout, name: str, source: Source | None = None
    ) -> Place:
        """A field of the header that the lvalue `where` names."""
        if name == "$valid$":
            return Place(f"{where}.{VALID}", 1)
        if name not in layout.fields:
            raise refuse(f"header type {layout.type.name!r} has no field {name!r}", source)
        field = next(f for f in layout.type.fields if f.name == name)
        code = f"{where}.{layout.fields[name]}"
        if field.bits is None:
            return Place(code, layout.varbit_bytes_max * 8, varbit=True)
        return Place(code, field.bits, field.signed)

    def stack(self, name: str, source: Source | None = None) -> tuple[str, str, int]:
        """The array of a stack, its count of extracted headers, its size."""
        if name not in self._stacks:
            raise refuse(f"header stack {name!r}", source)
        array = f"h->{self._stacks[name]}"
        return array, f"{array}_next", len(self.program.stacks[name].headers)

    def stack_type(self, name: str) -> TypeLayout:
        return self.types[self.program.stacks[name].type]

    def union_of(self, header: str) -> HeaderUnion | None:
        return self._unions.get(header)

    def emit(self) -> list[str]:
        """The structs, as C."""
        used = {h.type for h in self.program.headers.values()}
        lines: list[str] = []
        for name, layout in self.types.items():
            if name in used:
                lines += _emit_struct(layout)
        lines += ["struct phv {"]
        stacked = {h for s in self.program.stacks.values() for h in s.headers}
        for name, stack in self.program.stacks.items():
            array, size = self._stacks[name], len(stack.headers)
            struct = self.stack_type(name).struct
            lines.append(f"    struct {struct} {array}[{size} + 1];  /* and a spare one */")
            lines.append(f"    uint32_t {array}_next;")
        for name, where in self._headers.items():
            if name not in stacked:
                lines.append(f"    struct {self.type_of(name).struct} {where.removeprefix('h->')};")
        return [*lines, "};", ""]


def _type_layout(header_type: HeaderType, scope: Scope) -> TypeLayout:
    members = Scope((VALID,))
    fields: dict[str, str] = {}
    for field in header_type.fields:
        fields[field.name] = members.take(field.name)
        if field.bits is None:
            members.take(f"{fields[field.name]}_bytes")
    return TypeLayout(header_type, scope.take(header_type.name), fields)


def _emit_struct(layout: TypeLayout) -> list[str]:
    lines = [f"struct {layout.struct} {{"]
    for field in layout.type.fields:
        lines.append(f"    {_declaration(layout, field)};")
    return [*lines, f"    bool {VALID};", "};", ""]


def _declaration(layout: TypeLayout, field: Field) -> str:
    name = layout.fields[field.name]
    note = "" if name == field.name else f"  /* {comment(field.name)} */"
    if field.bits is None:
        size = max(layout.varbit_bytes_max, 1)
        return f"uint8_t {name}[{size}]; uint32_t {name}_bytes{note}"
    if field.bits > WORD_BITS:
        return f"uint8_t {name}[{(field.bits + 7) // 8}]{note}"
    return f"{word_type(field.bits)} {name}{note}"
