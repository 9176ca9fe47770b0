"""Tables: their descriptions, the rows a program brings, and one C function each to apply them."""

from dataclasses import dataclass

from switches.engine.lower.actions import Actions, source_comment, unused
from switches.engine.lower.bits import literal, store
from switches.engine.lower.layout import Layout, Place
from switches.engine.lower.names import Scope, c_string, comment
from switches.program import Entry, FieldRef, Key, Program, Table, refuse

KINDS = {
    "exact": "MATCH_EXACT",
    "lpm": "MATCH_LPM",
    "ternary": "MATCH_TERNARY",
    "range": "MATCH_RANGE",
    "optional": "MATCH_OPTIONAL",
}
KEY_BYTES_MAX = 512
"""TABLE_KEY_MAX of runtime/pipeline.h."""

PRIORITY_MAX = (1 << 24) - 1
"""BMv2 counts priorities the other way round: the least number first.  As P4Runtime's library for
it does, ours is this less BMv2's."""


@dataclass(frozen=True, slots=True)
class LoweredTable:
    """A table as a control applies it."""

    table: Table
    index: int
    function: str
    constant: str
    direct_action: int | None
    """The action's id if the table has no key and a constant default: then it is just a call."""


class Tables:
    """All tables of a program."""

    def __init__(self, layout: Layout, actions: Actions) -> None:
        self._layout = layout
        self._actions = actions
        self._program: Program = layout.program
        tables = [*self._program.ingress.tables, *self._program.egress.tables]
        scope = Scope()
        self.by_name: dict[str, LoweredTable] = {}
        for index, table in enumerate(tables):
            _refuse_unknown(table)
            name = scope.take(table.name)
            default = table.default
            direct = default.action if default and default.const and not table.keys else None
            self.by_name[table.name] = LoweredTable(
                table, index, f"apply_{name}", f"TABLE_{name}", direct
            )

    def action_name(self, action_id: int) -> str:
        return self._program.actions[self._actions.index[action_id]].name

    def numbers(self) -> dict[str, int]:
        """Table number by name."""
        return {name: lowered.index for name, lowered in self.by_name.items()}

    def emit(self) -> list[str]:
        """Descriptions of actions and tables, apply functions, and init_entries(sw)."""
        lines = [*self._action_descriptions(), *self._descriptions()]
        for lowered in self.by_name.values():
            if lowered.direct_action is None:
                lines += self._apply(lowered)
        return [*lines, *self._entries()]

    def constants(self) -> list[str]:
        """The numbers of tables and actions."""
        lines = []
        actions = [self._actions.by_id[a.id].constant for a in self._program.actions]
        if actions:
            lines.append(f"enum {{ {', '.join(actions)} }};")
        if self.by_name:
            lines.append(f"enum {{ {', '.join(t.constant for t in self.by_name.values())} }};")
        return [*lines, ""]

    # --- descriptions

    def _action_descriptions(self) -> list[str]:
        lines = []
        for index, action in enumerate(self._program.actions):
            if action.params:
                listed = ", ".join(f"{{{c_string(p.name)}, {p.bits}}}" for p in action.params)
                lines.append(f"static const struct param params_{index}[] = {{{listed}}};")
        if self._program.actions:
            lines.append("static const struct action actions[] = {")
            for index, action in enumerate(self._program.actions):
                params = f"params_{index}, {len(action.params)}" if action.params else "NULL, 0"
                lines.append(f"    {{{c_string(action.name)}, {params}}},")
            lines.append("};")
        return [*lines, ""]

    def _descriptions(self) -> list[str]:
        lines, rows = [], []
        for lowered in self.by_name.values():
            lines += self._parts(lowered)
            rows.append(f"    {{{self._description(lowered)}}},")
        if rows:
            lines += ["static const struct table tables[] = {", *rows, "};"]
        return [*lines, ""]

    def _parts(self, lowered: LoweredTable) -> list[str]:
        table, number, lines = lowered.table, lowered.index, []
        fields = []
        for position, key in enumerate(table.keys):
            bits, only = self._place(key, table).bits, "NULL"
            if key.mask is not None:
                only = f"only_{number}_{position}"
                data = _bytes_literal(key.mask, (bits + 7) // 8)
                lines.append(f"static const uint8_t {only}[] = {data};")
            fields.append(f"{{{c_string(key.name)}, {KINDS[key.kind]}, {bits}, {only}}}")
        if fields:
            listed = ", ".join(fields)
            lines.append(f"static const struct match_field fields_{number}[] = {{{listed}}};")
        if table.actions:
            listed = ", ".join(self._actions.by_id[a].constant for a in table.actions)
            lines.append(f"static const uint16_t actions_{number}[] = {{{listed}}};")
        if table.default is not None:
            data = self._args(table.default.action, table.default.args)
            lines.append(f"static const uint8_t default_{number}[] = {data};")
        return lines

    def _description(self, lowered: LoweredTable) -> str:
        table, number = lowered.table, lowered.index
        fields = f"fields_{number}" if table.keys else "NULL"
        actions = f"actions_{number}" if table.actions else "NULL"
        default, params, const = "NO_ACTION", "NULL", "false"
        if table.default is not None:
            default = self._actions.by_id[table.default.action].constant
            params = f"default_{number}"
            const = "true" if table.default.const else "false"
        size = table.size if table.entries is None else len(table.entries)
        return ", ".join(
            [
                c_string(table.name),
                f"{fields}, {len(table.keys)}",
                f"{actions}, {len(table.actions)}",
                f"{size}",
                f"{default}, {params}, {const}",
                "true" if table.counters else "false",
                "true" if table.entries is not None else "false",
            ]
        )

    def _args(self, action_id: int, args: tuple[int, ...]) -> str:
        """The parameters of a call as they lie in a row."""
        action = self._program.actions[self._actions.index[action_id]]
        if len(args) != len(action.params):
            raise refuse(f"action {action.name!r} with {len(args)} arguments", action.source)
        data = b""
        for param, value in zip(action.params, args, strict=True):
            data += (value & (1 << param.bits) - 1).to_bytes((param.bits + 7) // 8, "big")
        return _bytes_literal(int.from_bytes(data, "big"), max(len(data), 1))

    # --- rows the program brings

    def _entries(self) -> list[str]:
        lines: list[str] = []
        statements: list[str] = []
        for lowered in self.by_name.values():
            for entry in lowered.table.entries or ():
                number = len(statements)
                lines += self._row(number, lowered, entry)
                statements.append(
                    f"    table_insert_const(&state_of(sw)->tables, {lowered.constant}, "
                    f"&row_{number});"
                )
        body = statements or ["    (void)sw;"]
        return [*lines, "static void init_entries(struct sw *sw)", "{", *body, "}", ""]

    def _row(self, number: int, lowered: LoweredTable, entry: Entry) -> list[str]:
        table = lowered.table
        if len(entry.match) != len(table.keys):
            raise refuse(f"table {table.name!r}: a row of {len(entry.match)} keys", entry.source)
        value, mask = b"", b""
        for key, match in zip(table.keys, entry.match, strict=True):
            bits = self._place(key, table).bits
            count = (bits + 7) // 8
            one, two = _row_field(key, match, bits)
            value, mask = value + one.to_bytes(count, "big"), mask + two.to_bytes(count, "big")
        prioritised = has_priority(table)
        priority = PRIORITY_MAX - entry.priority if prioritised else 0
        action = self._actions.by_id[entry.action].constant
        data = [
            _bytes_literal(int.from_bytes(value, "big"), len(value)),
            _bytes_literal(int.from_bytes(mask, "big"), len(mask)),
            self._args(entry.action, entry.args),
        ]
        parts = [f"(const uint8_t[]){text}" for text in data]
        return [
            f"/* {entry.source} */" if entry.source else f"/* {comment(table.name)} */",
            f"static const struct row row_{number} = {{",
            f"    {parts[0]}, {parts[1]}, {priority}, {action}, {parts[2]}}};",
        ]

    # --- applying

    def _place(self, key: Key, table: Table) -> Place:
        assert isinstance(key.target, FieldRef)
        place = self._layout.field(key.target.header, key.target.field, table.source)
        if place.varbit:
            raise refuse(f"table {table.name!r}: a match on a varbit", table.source)
        return place

    def _key(self, table: Table) -> list[str]:
        """Statements that build the key of a lookup."""
        places = [self._place(key, table) for key in table.keys]
        total = sum(place.bytes for place in places)
        if total > KEY_BYTES_MAX:
            raise refuse(f"table {table.name!r}: a key of {total} bytes", table.source)
        words = max((total + 7) // 8, 1)
        lines = [
            f"union {{ uint64_t words[{words}]; uint8_t bytes[{words * 8}]; }} key = {{{{0}}}};"
        ]
        at = 0
        for key, place in zip(table.keys, places, strict=True):
            where = f"key.bytes + {at}" if at else "key.bytes"
            at += place.bytes
            if place.wide:
                lines.append(f"memcpy({where}, {place.code}, {place.bytes});")
                lines += _mask_bytes(where, key, place)
                continue
            code = place.code if key.mask is None else f"{place.code} & {literal(key.mask)}"
            lines.append(store(where, place.bytes, code))
        return lines

    def _apply(self, lowered: LoweredTable) -> list[str]:
        """The function gives the number of the action that ran."""
        table = lowered.table
        body = [
            *self._key(table),
            f"const struct entry *e = table_lookup(sw, {lowered.constant}, key.words, hit, "
            "p->length);",
            "switch (e->action) {",
        ]
        for action_id in table.actions:
            action = self._actions.by_id[action_id]
            body.append(f"case {action.constant}: {action.function}(sw, p, h, e->params); break;")
        body += ["}", "return e->action;"]
        body = [*unused(body, ("h",)), *body]
        note = source_comment(table.source)
        return [
            f"/* table {comment(table.name)} */ {note}".rstrip(),
            f"static unsigned {lowered.function}(struct sw *sw, struct packet *p, struct phv *h, "
            "bool *hit)",
            "{",
            *[f"    {line}" for line in body],
            "}",
            "",
        ]


def has_priority(table: Table) -> bool:
    """Whether rows of the table are ordered by priority."""
    return any(key.kind not in ("exact", "lpm") for key in table.keys)


def _refuse_unknown(table: Table) -> None:
    if table.kind != "simple":
        what = f"table {table.name!r}: action profile {table.action_profile!r}"
        raise refuse(what, table.source)
    if table.meter is not None:
        raise refuse(f"table {table.name!r}: direct meter {table.meter!r}", table.source)
    for key in table.keys:
        if key.kind not in KINDS:
            raise refuse(f"table {table.name!r}: match kind {key.kind!r}", table.source)
    _refuse_twins(table)
    if sum(key.kind == "lpm" for key in table.keys) > 1:
        raise refuse(f"table {table.name!r}: two keys of kind lpm", table.source)


def _refuse_twins(table: Table) -> None:
    """Two rows of one match; BMv2 does not load such a program either."""
    seen = set()
    for entry in table.entries or ():
        match = (entry.match, entry.priority if has_priority(table) else 0)
        if match in seen:
            raise refuse(f"table {table.name!r}: two rows of one match", entry.source)
        seen.add(match)


def _row_field(key: Key, match: tuple[int, int], bits: int) -> tuple[int, int]:
    """A row's value and mask, as tables.h wants them."""
    ones = (1 << bits) - 1
    if key.kind == "range":
        return match[0] & ones, match[1] & ones
    if key.kind == "lpm":
        mask = ones ^ (ones >> match[1])
    elif key.kind == "exact":
        mask = ones
    else:
        mask = match[1] & ones
    value = match[0] & mask
    return (value if key.mask is None else value & key.mask), mask


def _mask_bytes(where: str, key: Key, place: Place) -> list[str]:
    if key.mask is None:
        return []
    data = key.mask.to_bytes(place.bytes, "big")
    return [f"({where})[{i}] &= 0x{byte:02x};" for i, byte in enumerate(data) if byte != 0xFF]


def _bytes_literal(value: int, count: int) -> str:
    return "{" + ", ".join(f"0x{byte:02x}" for byte in value.to_bytes(count, "big")) + "}"
