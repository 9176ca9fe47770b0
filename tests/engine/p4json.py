"""Small v1model programs as p4c's BMv2 JSON, for tests of the lowering without p4c.

A program has one header `in`, parsed from the front of the frame, and one header `out` that the
deparser puts in its place.  The packet leaves by the port it came in.
"""

import json
from pathlib import Path
from typing import Any

Json = Any

STANDARD_METADATA = (
    ("ingress_port", 9),
    ("egress_spec", 9),
    ("egress_port", 9),
    ("instance_type", 32),
    ("packet_length", 32),
    ("mcast_grp", 16),
    ("egress_rid", 16),
    ("checksum_error", 1),
    ("parser_error", 32),
    ("priority", 3),
    ("_padding", 1),
)


def field(header: str, name: str) -> Json:
    return {"type": "field", "value": [header, name]}


def const(value: int) -> Json:
    return {"type": "hexstr", "value": hex(value)}


def op(name: str, *operands: Json) -> Json:
    left, right = operands if len(operands) == 2 else (None, operands[0])
    return {"type": "expression", "value": {"op": name, "left": left, "right": right}}


def choice(condition: Json, left: Json, right: Json) -> Json:
    body = {"op": "?", "left": left, "right": right, "cond": condition}
    return {"type": "expression", "value": body}


def primitive(name: str, *args: Json, line: int = 1) -> Json:
    info = {"filename": "test.p4", "line": line, "column": 1, "source_fragment": name}
    return {"op": name, "parameters": list(args), "source_info": info}


def assign(target: Json, value: Json) -> Json:
    return primitive("assign", target, {"type": "expression", "value": value})


def action(number: int, name: str, primitives: list[Json], **params: int) -> Json:
    data = [{"name": key, "bitwidth": bits} for key, bits in params.items()]
    return {"name": name, "id": number, "runtime_data": data, "primitives": primitives}


def key(target: tuple[str, str], kind: str, mask: str | None = None) -> Json:
    return {"match_type": kind, "name": target[1], "target": list(target), "mask": mask}


def table(
    name: str,
    actions: list[tuple[int, str]],
    following: str | None,
    keys: list[Json] | None = None,
    *,
    default: int | None = None,
    const_default: bool = False,
    size: int = 1024,
    **more: Json,
) -> Json:
    entry = None
    if default is not None:
        entry = {
            "action_id": default,
            "action_const": const_default,
            "action_data": [],
            "action_entry_const": const_default,
        }
    return {
        "name": name,
        "id": 0,
        "key": keys or [],
        "match_type": "exact",
        "type": "simple",
        "max_size": size,
        "with_counters": False,
        "support_timeout": False,
        "direct_meters": None,
        "action_ids": [number for number, _ in actions],
        "actions": [name for _, name in actions],
        "base_default_next": following,
        "next_tables": {name: following for _, name in actions},
        "default_entry": entry,
        "source_info": {"filename": "test.p4", "line": 7, "column": 1, "source_fragment": name},
        **more,
    }


def call(number: int, name: str, following: str | None) -> Json:
    """A table without key that just runs an action, as p4c makes them."""
    return table(f"tbl_{name}", [(number, name)], following, default=number, const_default=True)


def control(name: str, tables: list[Json], conditionals: list[Json] | None = None) -> Json:
    return {
        "name": name,
        "id": 0,
        "init_table": tables[0]["name"] if tables else None,
        "tables": tables,
        "action_profiles": [],
        "conditionals": conditionals or [],
    }


def padded(fields: list[tuple[str, Any, bool]]) -> list[Json]:
    """Fields as JSON, filled up to whole bytes."""
    total = sum(bits for _, bits, _ in fields if isinstance(bits, int))
    more = [["pad_", -total % 8, False]] if total % 8 else []
    return [*[list(f) for f in fields], *more]


def program(
    inputs: list[tuple[str, Any, bool]],
    outputs: list[tuple[str, Any, bool]],
    actions: list[Json],
    tables: list[Json],
    **more: Json,
) -> Json:
    """The document.  `more` replaces or adds keys at the top."""
    standard = [[name, bits, False] for name, bits in STANDARD_METADATA]
    types = {"in_t": padded(inputs), "out_t": padded(outputs), "standard_metadata": standard}
    instances = (("in", "in_t", 0), ("out", "out_t", 0), ("standard_metadata",) * 2 + (1,))
    state = {
        "name": "start",
        "id": 0,
        "parser_ops": [{"op": "extract", "parameters": [{"type": "regular", "value": "in"}]}],
        "transitions": [{"type": "default", "value": None, "mask": None, "next_state": None}],
        "transition_key": [],
    }
    return {
        "program": "test.p4",
        "__meta__": {"version": [2, 23]},
        "header_types": [
            {"name": name, "id": i, "fields": fields}
            for i, (name, fields) in enumerate(types.items())
        ],
        "headers": [
            {"name": name, "id": i, "header_type": kind, "metadata": bool(metadata)}
            for i, (name, kind, metadata) in enumerate(instances)
        ],
        "header_stacks": [],
        "errors": [["NoError", 0], ["PacketTooShort", 1]],
        "parsers": [{"name": "parser", "id": 0, "init_state": "start", "parse_states": [state]}],
        "deparsers": [{"name": "deparser", "id": 0, "order": ["out"]}],
        "actions": actions,
        "pipelines": [control("ingress", tables), control("egress", [])],
        **more,
    }


def bounce() -> list[Json]:
    """Primitives: back to where it came from, with `out` instead of `in`."""
    return [
        assign(
            field("standard_metadata", "egress_spec"), field("standard_metadata", "ingress_port")
        ),
        primitive("add_header", {"type": "header", "value": "out"}),
        primitive("remove_header", {"type": "header", "value": "in"}),
    ]


def number(document: Json) -> None:
    """Gives objects of a kind different ids, which BMv2 asks for."""
    controls = document["pipelines"]
    kinds = [
        controls,
        [table for control in controls for table in control["tables"]],
        [node for control in controls for node in control["conditionals"]],
        *[parser["parse_states"] for parser in document["parsers"]],
    ]
    for kind in kinds:
        for index, item in enumerate(kind):
            item["id"] = index


def write(document: Json, folder: Path, name: str = "program") -> Path:
    number(document)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def pack(fields: list[tuple[str, int, bool]], values: dict[str, int]) -> bytes:
    """A header as bytes."""
    bits = total = 0
    for name, width, _ in fields:
        bits = bits << width | values[name] & (1 << width) - 1
        total += width
    return (bits << -total % 8).to_bytes((total + 7) // 8, "big")


def unpack(fields: list[tuple[str, int, bool]], data: bytes) -> dict[str, int]:
    """Unsigned values by field."""
    left = sum(width for _, width, _ in fields)
    number = int.from_bytes(data[: (left + 7) // 8], "big") >> -left % 8
    values = {}
    for name, width, _ in fields:
        left -= width
        values[name] = number >> left & (1 << width) - 1
    return values
