"""What the fuzzers found, each by name."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hosts.control.constants import EV_BYTES
from hosts.control.fields import EvField, expand
from hosts.errors import UsageError
from hosts.host import Host
from hosts.mrc.memory import REGION_BYTES_MAX, MemoryTable
from switches.engine.lower import lower
from switches.program import UnsupportedProgram, load_program
from tests.engine import p4json
from tests.fuzz.targets import CONFIG

EVERY_FIELD = ("init_val", "min_val", "max_val", "mask")


@pytest.mark.parametrize("message", [
    {"op": "job_create", "job": {"kind": "write"}, "qps": 3},
    {"op": "job_create", "job": 3, "qps": {}},
    {"op": "job_connect", "imports": []},
])  # fmt: skip
def test_a_message_with_a_number_for_an_object_is_refused(message: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Host(CONFIG, Random(1)).control(message, 0)


def test_an_all_reduce_of_one_is_refused() -> None:
    job = {"kind": "ring_allreduce", "rank": 0, "ranks": ["h0"], "bytes": 64}
    with pytest.raises(UsageError, match="1 ranks"):
        Host(CONFIG, Random(1)).control({"op": "job_create", "job": job, "qps": {}}, 0)


def test_memory_has_an_end() -> None:
    with pytest.raises(UsageError):
        MemoryTable(Random(1)).register(REGION_BYTES_MAX + 1)


@pytest.mark.parametrize("name", EVERY_FIELD)
def test_an_ev_field_holds_no_negative_number(name: str) -> None:
    values = {name: -1} | ({"max_val": -1} if name == "min_val" else {})
    with pytest.raises(UsageError):
        EvField(width=8, **values)


@pytest.mark.parametrize("width", [-1, 0, EV_BYTES * 8 + 1, 1 << 40])
def test_an_ev_field_is_as_wide_as_an_ev_at_most(width: int) -> None:
    with pytest.raises(UsageError):
        EvField(width=width)


def test_the_widest_ev_field_is_an_ev() -> None:
    bits = EV_BYTES * 8
    wide = EvField(width=bits, mask=(1 << bits) - 1)
    ev = bytes(range(EV_BYTES))
    assert expand([wide], [bits], ev) == ev


def program(**changes: Any) -> dict[str, Any]:
    fields: list[tuple[str, Any, bool]] = [("a", 32, False)]
    actions = [p4json.action(0, "work", p4json.bounce())]
    document = p4json.program(fields, fields, actions, [p4json.call(0, "work", None)])
    return {**document, **changes}


@pytest.mark.parametrize("changes", [
    {"__meta__": 2}, {"field_aliases": 3}, {"errors": [3]}, {"deparsers": 1}, {"headers": {}},
])  # fmt: skip
def test_a_program_of_another_shape_is_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "program.json"
    path.write_text(json.dumps(program(**changes)))
    with pytest.raises(UnsupportedProgram):
        lower(load_program(path))


def test_a_header_of_half_a_byte_is_refused(tmp_path: Path) -> None:
    document = program()
    document["header_types"][1]["fields"] = [["a", 12, False]]
    with pytest.raises(UnsupportedProgram):
        lower(load_program(p4json.write(document, tmp_path)))


def test_a_program_nested_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "program.json"
    path.write_text("[" * 100_000)
    with pytest.raises(UnsupportedProgram):
        load_program(path)


@pytest.mark.parametrize("bits", [-8, 1 << 20, 10**70])
def test_a_field_wider_than_any_frame_is_refused_at_once(bits: int, tmp_path: Path) -> None:
    """It was cut into bytes, each with a mask as wide as the field."""
    document = program()
    document["header_types"][0]["fields"] = [["a", bits, False]]
    with pytest.raises(UnsupportedProgram, match="a width of"):
        load_program(p4json.write(document, tmp_path))


@pytest.mark.parametrize("size", [-1, 1 << 40])
def test_a_register_array_larger_than_memory_is_refused(size: int, tmp_path: Path) -> None:
    array = {"name": "r", "id": 0, "size": size, "bitwidth": 32}
    with pytest.raises(UnsupportedProgram, match="an array of"):
        load_program(p4json.write(program(register_arrays=[array]), tmp_path))
