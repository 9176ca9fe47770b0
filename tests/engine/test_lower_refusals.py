"""What the engine does not run is refused before a packet, by name and place in the P4 source."""

import copy
from typing import Any

import pytest

from switches.engine.lower import lower
from switches.program import UnsupportedProgram, parse_program
from tests.engine import p4json
from tests.engine.p4json import Json, const, field, primitive

IN = [("a", 8, False), ("b", 16, False)]


def base(*primitives: Json, **more: Json) -> Json:
    actions = [p4json.action(0, "work", [*p4json.bounce(), *primitives])]
    tables = [p4json.table("t", [(0, "work")], None, [p4json.key(("in", "a"), "exact")], default=0)]
    return p4json.program(IN, IN, actions, tables, **more)


def reason(document: Json) -> str:
    with pytest.raises(UnsupportedProgram) as caught:
        lower(parse_program(document))
    return str(caught.value)


def changed(path: tuple[Any, ...], value: Json) -> Json:
    """The base program with one thing in another way."""
    document = copy.deepcopy(base())
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return document


TABLE = ("pipelines", 0, "tables", 0)
SOURCE = {"filename": "test.p4", "line": 42, "column": 1, "source_fragment": "here"}


def test_the_base_program_is_supported() -> None:
    assert "const struct program PROGRAM" in lower(parse_program(base()))


@pytest.mark.parametrize(
    ("name", "args", "said"),
    [
        ("generate_digest", [const(1), const(1)], "primitive 'generate_digest'"),
        ("execute_meter", [const(1), const(1), const(1)], "primitive 'execute_meter'"),
        ("_Hash_get_hash", [], "primitive '_Hash_get_hash'"),
        ("resubmit", [const(7)], "a field list that is not declared"),
        ("push", [{"type": "header_stack", "value": "s"}, const(1)], "header stack 's'"),
        ("assign", [field("in", "nothing"), const(1)], "'in_t' has no field 'nothing'"),
    ],
)
def test_a_primitive_is_named_with_its_line(name: str, args: list[Json], said: str) -> None:
    message = reason(base(primitive(name, *args, line=42)))
    assert message.startswith("test.p4:42: ")
    assert said in message


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("type", "indirect", "'t': action profile"),
        ("type", "indirect_ws", "'t': action profile"),
        ("direct_meters", "m", "'t': direct meter 'm'"),
        ("key", [p4json.key(("in", "a"), "valid")], "match kind 'valid'"),
        ("key", [p4json.key(("in", f), "lpm") for f in "ab"], "two keys of kind lpm"),
    ],
)
def test_a_table_is_named_with_its_line(key: str, value: Json, said: str) -> None:
    message = reason(changed((*TABLE, key), value))
    assert message.startswith("test.p4:7: ")
    assert said in message


def test_two_rows_of_one_match_are_refused() -> None:
    row = {
        "match_key": [{"match_type": "exact", "key": "0x01"}],
        "action_entry": {"action_id": 0, "action_data": []},
        "source_info": SOURCE,
    }
    message = reason(changed((*TABLE, "entries"), [row, row]))
    assert message == "test.p4:42: table 't': two rows of one match"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"meter_arrays": [{"name": "m", "size": 4, "is_direct": False, "source_info": SOURCE}]},
            "test.p4:42: meter 'm'",
        ),
        (
            {"register_arrays": [{"name": "r", "size": 4, "bitwidth": 129, "source_info": SOURCE}]},
            "test.p4:42: register 'r' of 129 bits; 128 is the most",
        ),
        ({"extern_instances": [{"name": "e", "id": 0, "type": "t"}]}, "extern 'e'"),
        ({"__meta__": {"version": [3, 0]}}, "version"),
        ({"something_new": 1}, "unknown key 'something_new'"),
        ({"parsers": []}, "0 parsers"),
    ],
)
def test_a_declaration_is_named(more: dict[str, Json], said: str) -> None:
    assert said in reason(base(**more))


def test_an_unknown_hash_is_named() -> None:
    calc = {"name": "calc", "id": 0, "algo": "md5", "input": [], "source_info": SOURCE}
    assert reason(base(calculations=[calc])) == "test.p4:42: hash algorithm 'md5'"


def test_a_parser_that_may_never_end_is_refused() -> None:
    loop = {
        "name": "again",
        "id": 0,
        "parser_ops": [],
        "transitions": [{"type": "default", "value": None, "mask": None, "next_state": "again"}],
        "transition_key": [],
    }
    parsers = [{"name": "parser", "id": 0, "init_state": "again", "parse_states": [loop]}]
    assert "'again' comes back to itself without a byte" in reason(base(parsers=parsers))


def test_a_program_for_another_architecture_is_refused() -> None:
    other = changed(("pipelines",), [p4json.control("main_control", [])])
    assert "v1model has ingress and egress" in reason(other)


@pytest.mark.parametrize("path", [("actions", 0), TABLE, ("header_types", 0), ("headers", 0)])
def test_a_key_nobody_knows_is_refused_wherever_it_is(path: tuple[Any, ...]) -> None:
    assert "unknown key 'surprise'" in reason(changed((*path, "surprise"), 1))


def test_a_program_that_names_what_it_does_not_declare_is_refused() -> None:
    checksum = {
        "name": "c",
        "id": 0,
        "type": "generic",
        "target": ["in", "b"],
        "calculation": "nowhere",
        "if_cond": None,
    }
    assert "not declared: 'nowhere'" in reason(base(checksums=[checksum]))


def test_a_name_cannot_leave_its_string() -> None:
    name = 'a"b\\c??/d'
    document = changed((*TABLE, "name"), name)
    document["pipelines"][0]["init_table"] = name
    assert r'"a\"b\\c\?\?/d"' in lower(parse_program(document))
