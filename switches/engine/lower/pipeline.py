"""The whole program: standard metadata, the two halves, clones, and `const struct program`."""

from switches.engine.lower.actions import Actions, unused
from switches.engine.lower.bits import mask
from switches.engine.lower.controls import ControlLowering
from switches.engine.lower.deparser import DeparserLowering
from switches.engine.lower.externs import ExternsLowering
from switches.engine.lower.layout import Layout, Place
from switches.engine.lower.names import c_string, comment
from switches.engine.lower.parser import ParserLowering
from switches.engine.lower.primitives import standard_field
from switches.engine.lower.tables import Tables
from switches.program import (
    Const,
    Control,
    FieldList,
    FieldRef,
    Program,
    UnsupportedProgram,
    refuse,
)
from switches.program.reader import WRONG_SHAPE

_BEGIN = """\
static void begin(struct packet *p)
{
    memset(p->phv, 0, sizeof(struct phv));
    p->parsed = p->truncate_to = 0;
    p->clone_ingress = p->clone_egress = p->resubmit = p->recirculate = false;
    p->exit_ = p->dropped = false;
    p->parser_error = p->checksum_error = 0;
    p->egress_spec = p->mcast_grp = 0;
    p->priority = 0;
}
"""

_COPIES = """\
static void clone_ingress(struct sw *sw, struct packet *copy, const struct packet *from,
                          uint32_t fields)
{
    struct phv *h = copy->phv;
    copy->packet_length = copy->length;
    parse_and_verify(sw, copy, h);
    clear_metadata(h);
    keep(h, from->phv, fields);
}

static void clone_egress(struct packet *copy, const struct packet *from, uint32_t fields)
{
    struct phv *h = copy->phv;
    memcpy(h, from->phv, sizeof *h);
    clear_metadata(h);
    keep(h, from->phv, fields);
}

static void restart(struct packet *p, uint32_t fields)
{
    const struct phv before = *(struct phv *)p->phv;
    begin(p);
    keep(p->phv, &before, fields);
    p->packet_length = p->length;
}
"""

# (field of standard metadata, what it takes), when a packet comes in, after parsing, at egress.
# Times are in microseconds, as BMv2 gives them.
_FROM_WIRE = (  # a packet that comes round again has neither, as in BMv2
    ("ingress_port", "p->ingress_port"),
    ("ingress_global_timestamp", "p->ingress_ns / 1000"),
)
_AT_ARRIVAL = (("packet_length", "p->packet_length"), ("instance_type", "p->instance_type"))
_AFTER_PARSER = (("parser_error", "p->parser_error"), ("checksum_error", "p->checksum_error"))
_AT_EGRESS = (
    ("egress_port", "p->egress_port"),
    ("egress_spec", "0"),  # BMv2 sets drop port + 1, which is 0 in 9 bits
    ("egress_rid", "p->egress_rid"),
    ("instance_type", "p->instance_type"),
    ("packet_length", "p->packet_length"),
    ("enq_qdepth", "p->enq_qdepth"),
    ("deq_qdepth", "p->deq_qdepth"),
    ("enq_timestamp", "p->enq_ns / 1000"),
    ("deq_timedelta", "p->deq_ns / 1000 - p->enq_ns / 1000"),
    ("egress_global_timestamp", "p->deq_ns / 1000"),
    ("qid", "p->priority"),
)
_AFTER_INGRESS = (
    ("egress_spec", "p->egress_spec"),
    ("mcast_grp", "p->mcast_grp"),
    ("priority", "p->priority"),
)
_KEEPERS = ("clone_ingress_pkt_to_egress", "clone_egress_pkt_to_egress", "resubmit", "recirculate")
_REQUIRED = ("ingress_port", "egress_spec", "egress_port", "instance_type", "packet_length")


class _Pipeline:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._layout = Layout(program)
        for name in _REQUIRED:
            if standard_field(self._layout, name) is None:
                raise UnsupportedProgram(f"no standard_metadata.{name}: not a v1model program")
        self._externs = ExternsLowering(self._layout)
        self._actions = Actions(self._layout, self._externs.names, program.actions)
        self._tables = Tables(self._layout, self._actions)

    def emit(self) -> list[str]:
        program = self._program
        applied = [
            *self._tables.emit(),
            *self._control(program.ingress),
            *self._control(program.egress),
        ]
        return [
            f"/* {comment(program.name)}, lowered to C.  Do not edit: change the P4. */",
            "/* expressions.py has seen to operands of comparisons that can be negative. */",
            '#pragma GCC diagnostic ignored "-Wsign-compare"',
            '#include "bytes.h"',
            '#include "frame.h"',
            '#include "state.h"',
            "",
            *self._layout.emit(),
            *self._tables.constants(),
            *self._externs.emit(self._tables.numbers()),
            *ParserLowering(self._layout, self._externs.names).emit(),
            *self._used_actions("\n".join(applied)),
            *applied,
            *DeparserLowering(self._layout).emit(),
            *_BEGIN.splitlines(),
            "",
            *self._ingress(),
            *self._egress(),
            *self._copies(),
            *self._description(),
        ]

    def _control(self, control: Control) -> list[str]:
        return ControlLowering(self._layout, self._actions, self._tables, control).emit()

    def _used_actions(self, text: str) -> list[str]:
        """The functions of the actions that some table or control calls."""
        lines: list[str] = []
        for action in self._actions.by_id.values():
            if f" {action.function}(" in text:
                lines += action.lines
        return lines

    # --- the two halves

    def _set(self, fields: tuple[tuple[str, str], ...]) -> list[str]:
        lines = []
        for name, value in fields:
            place = standard_field(self._layout, name)
            if place is not None:
                lines.append(f"    {place.code} = {_cut(place, value)};")
        return lines

    def _get(self, fields: tuple[tuple[str, str], ...]) -> list[str]:
        lines = []
        for name, target in fields:
            place = standard_field(self._layout, name)
            if place is not None:
                lines.append(f"    {target} = {place.code};")
        return lines

    def _ingress(self) -> list[str]:
        return [
            "static void parse_and_verify(struct sw *sw, struct packet *p, struct phv *h)",
            "{",
            "    const uint32_t type = p->instance_type;",
            "    if (type != INSTANCE_RESUBMIT && type != INSTANCE_RECIRC) {",
            *[f"    {line}" for line in self._set(_FROM_WIRE)],
            "    }",
            *self._set(_AT_ARRIVAL),
            "    p->checksum_error = 0;",
            "    parse(sw, p, h);",
            "    verify_checksums(p, h);",
            *self._set(_AFTER_PARSER),
            "}",
            "",
            "static void ingress(struct sw *sw, struct packet *p)",
            "{",
            "    struct phv *h = p->phv;",
            "    parse_and_verify(sw, p, h);",
            "    p->exit_ = false;",
            "    control_ingress(sw, p, h);",
            *self._get(_AFTER_INGRESS),
            "    if (p->egress_spec == DROP_PORT) p->dropped = true;",
            "}",
            "",
        ]

    def _egress(self) -> list[str]:
        return [
            "static void egress(struct sw *sw, struct packet *p)",
            "{",
            "    struct phv *h = p->phv;",
            *self._set(_AT_EGRESS),
            "    p->exit_ = p->dropped = false;",
            "    control_egress(sw, p, h);",
            *self._get((("egress_spec", "p->egress_spec"),)),
            "    if (p->egress_spec == DROP_PORT) p->dropped = true;",
            "}",
            "",
        ]

    # --- clones and second rounds

    def _copies(self) -> list[str]:
        return [
            *self._keep(),
            *self._clear_metadata(),
            *_COPIES.splitlines(),
            "",
        ]

    def _keep(self) -> list[str]:
        """keep(to, from, fields): the metadata that a field list names."""
        body = []
        for fields in self._program.field_lists:
            if statements := self._keep_list(fields):
                body += [f"case {fields.id}:  /* {comment(fields.name)} */"]
                body += [*[f"    {s}" for s in statements], "    break;"]
        body = ["switch (fields) {", *body, "default: break;", "}"] if body else []
        return [
            "static void keep(struct phv *to, const struct phv *from, uint32_t fields)",
            "{",
            *[f"    {x}" for x in [*unused(body, ("to", "from", "fields")), *body]],
            "}",
            "",
        ]

    def _keep_list(self, fields: FieldList) -> list[str]:
        statements = []
        for element in fields.elements:
            if not isinstance(element, FieldRef):
                if fields.id in self._used_lists:
                    raise refuse(f"field list {fields.name!r} of other than fields", fields.source)
                return []
            place = self._layout.field(element.header, element.field, fields.source)
            member = place.code.removeprefix("h->")
            if place.wide or place.varbit:
                statements.append(f"memcpy(to->{member}, from->{member}, sizeof to->{member});")
            else:
                statements.append(f"to->{member} = from->{member};")
        return statements

    @property
    def _used_lists(self) -> set[int]:
        """Lists that a clone, resubmission or recirculation keeps."""
        found = set()
        for action in self._program.actions:
            for call in action.primitives:
                last = call.args[-1] if call.args else None
                if call.op in _KEEPERS and isinstance(last, Const):
                    found.add(last.value)
        return found

    def _clear_metadata(self) -> list[str]:
        lines = ["static void clear_metadata(struct phv *h)", "{"]
        for name, header in self._program.headers.items():
            if header.metadata:
                where = self._layout.header(name)
                lines.append(f"    memset(&{where}, 0, sizeof {where});")
        return [*lines, "}", ""]

    # --- the description

    def _description(self) -> list[str]:
        program = self._program
        tables = [*program.ingress.tables, *program.egress.tables]
        return [
            "const struct program PROGRAM = {",
            f"    .name = {c_string(program.name)},",
            "    .phv_size = sizeof(struct phv),",
            *_array("tables", "table_count", len(tables)),
            *_array("actions", "action_count", len(program.actions)),
            *_array("counters", "counter_count", len(program.counters)),
            *_array("registers", "register_count", len(program.registers)),
            "    .init = init_entries,",
            "    .begin = begin,",
            "    .ingress = ingress,",
            "    .egress = egress,",
            "    .deparse = deparse,",
            "    .frame_length = frame_length,",
            "    .clone_ingress = clone_ingress,",
            "    .clone_egress = clone_egress,",
            "    .restart = restart,",
            "};",
        ]


def _array(name: str, count: str, length: int) -> list[str]:
    if length == 0:
        return []
    return [f"    .{name} = {name}, .{count} = {length},"]


def _cut(place: Place, value: str) -> str:
    if place.bits in (8, 16, 32, 64):
        return f"(uint{place.bits}_t)({value})"
    return f"({value}) & {mask(place.bits)}"


def lower(program: Program) -> str:
    """The C of a program: one translation unit that defines PROGRAM (runtime/pipeline.h).

    Raises UnsupportedProgram for what cannot be run exactly.
    """
    try:
        return "\n".join(_Pipeline(program).emit()) + "\n"
    except (KeyError, IndexError) as error:
        raise UnsupportedProgram(f"{program.name}: something is not declared: {error}") from error
    except WRONG_SHAPE as error:
        raise UnsupportedProgram(f"{program.name}: not as p4c writes it: {error!r}") from error
