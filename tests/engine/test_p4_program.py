"""The committed output of p4c belongs to the committed program, and Python agrees with both."""

import json
import re
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from hosts.wire.dscp import Dscp, Ecn
from switches import compile_p4, entries
from switches.api import TableEntry
from switches.entries import Routing, SwitchSettings
from topologies.builders import clos
from topologies.model import FabricSpec

BUILD = compile_p4.ROOT / compile_p4.BUILD
HEADERS = (compile_p4.ROOT / "p4/include/headers.p4").read_text()

needs_p4c = pytest.mark.skipif(
    shutil.which(compile_p4.COMPILER) is None, reason=f"{compile_p4.COMPILER} is not on the PATH"
)


def load(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((BUILD / name).read_text())
    return loaded


def test_the_outputs_were_made_from_these_sources() -> None:
    recorded = load(compile_p4.PROVENANCE)
    sources = {
        str(path): compile_p4.sha256(compile_p4.ROOT / path) for path in compile_p4.sources()
    }
    assert recorded["sources"] == sources, "p4 sources changed: run `make p4`"


def test_the_outputs_are_as_the_compiler_left_them() -> None:
    outputs = load(compile_p4.PROVENANCE)["outputs"]
    assert sorted(outputs) == ["p4/build/mrc.json", "p4/build/mrc.p4info.txtpb"]
    for name, digest in outputs.items():
        assert compile_p4.sha256(compile_p4.ROOT / name) == digest, f"{name} was edited by hand"


def test_the_outputs_name_no_place_on_a_machine() -> None:
    for name in (compile_p4.JSON, compile_p4.PROVENANCE):
        absolute = re.findall(r'"(/[^"/]+/[^"]*)"', (BUILD / name).read_text())
        assert absolute == []
    files = re.findall(r'"(?:filename|program)" : "([^"]+)"', (BUILD / compile_p4.JSON).read_text())
    assert {Path(name).parts[0] for name in files} == {"p4"}


@needs_p4c
def test_compiling_again_gives_the_same_bytes() -> None:
    recorded = load(compile_p4.PROVENANCE)["compiler"]
    if compile_p4.compiler_version() != recorded:
        pytest.skip(f"the outputs are of p4c {recorded['version']}, another one is on the PATH")
    assert compile_p4.differences() == []


@needs_p4c
def test_the_program_compiles_without_a_warning(tmp_path: Path) -> None:
    assert compile_p4.compile_to(tmp_path) == ""


def test_without_a_compiler_one_sentence_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("sys.argv", ["compile_p4", "--check"])
    assert compile_p4.main() == 2
    assert capsys.readouterr().err == compile_p4.HOW_TO_GET + "\n"


def constants(prefix: str) -> dict[str, int]:
    pattern = rf"const bit<\d+> {prefix}(\w+)\s*= (\d+);"
    return {name: int(value) for name, value in re.findall(pattern, HEADERS)}


def test_code_points_are_those_of_the_hosts() -> None:
    assert constants("DSCP_") == {point.name: point.value for point in Dscp}
    assert constants("ECN_").items() <= {point.name: point.value for point in Ecn}.items()


def test_queues_are_numbered_as_the_traffic_manager_does() -> None:
    assert re.findall(r"_QUEUE\s*= (\d);", HEADERS) == ["0", "1"]


def test_drop_reasons_have_the_names_of_the_program() -> None:
    body = re.search(r"enum bit<8> drop_t \{(.*?)\}", HEADERS, re.DOTALL)
    assert body is not None
    reasons = re.findall(r"(\w+)\s*= (\d+)", body[1])
    assert reasons == [(r.upper(), str(i)) for i, r in enumerate(entries.DROP_REASONS)]
    drops = {c["name"]: c.get("size") for c in load(compile_p4.JSON)["counter_arrays"]}
    assert drops[entries.DROPS_COUNTER] == len(entries.DROP_REASONS)


def test_counters_and_registers_are_in_the_program() -> None:
    program = load(compile_p4.JSON)
    names = {c["name"] for c in program["counter_arrays"] if not c["is_direct"]}
    assert names == {
        entries.RECEIVED_COUNTER,
        entries.SENT_COUNTER,
        entries.DROPS_COUNTER,
        entries.TRIM_COUNTER,
        entries.TRIM_SENT_COUNTER,
        entries.ECN_MARKED_COUNTER,
    }
    registers = [r["name"] for r in program["register_arrays"]]
    assert registers == [entries.DATA_DEPTH_REGISTER]


def written() -> list[TableEntry]:
    fabric = clos(FabricSpec(planes=2, t0=2, t1=2, hosts_per_t0=2))
    rows = [
        row
        for routing, switch in product(Routing, fabric.switches)
        for row in entries.entries(fabric, switch, SwitchSettings(routing=routing))
    ]
    link = entries.adjacency(fabric, fabric.switches[0], 2, 0x0001)
    return [*rows, link, entries.fault(ingress_port=0, egress_port=1, ev=2)]


def test_every_row_names_what_the_program_has() -> None:
    program = load(compile_p4.JSON)
    tables = {t["name"]: t for p in program["pipelines"] for t in p["tables"]}
    params = {a["name"]: {p["name"] for p in a["runtime_data"]} for a in program["actions"]}
    for row in written():
        table = tables[row.table]
        assert row.action.name in table["actions"]
        assert set(row.action.params) == params[row.action.name]
        assert set(row.match) <= {key["name"] for key in table["key"]}


def test_every_table_of_the_program_gets_rows() -> None:
    program = load(compile_p4.JSON)
    with_keys = {t["name"] for p in program["pipelines"] for t in p["tables"] if t["key"]}
    assert {row.table for row in written()} == with_keys
