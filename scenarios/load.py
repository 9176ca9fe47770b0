"""From a name or a file to a checked scenario; every complaint is one sentence with its place."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from scenarios import check, expect, schema
from topologies import load as topology_files
from topologies.builders import clos
from topologies.model import Fabric, TopologyError
from topologies.problems import first_problem
from topologies.strict_yaml import Document, InputError, Place, parse, parse_value
from topologies.strict_yaml import Path as KeyPath

CATALOG = Path(__file__).parent / "catalog"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A scenario, its fabric, and the values it was read from with all overrides in place."""

    scenario: schema.Scenario
    fabric: Fabric
    data: dict[str, Any]


def catalog_names() -> list[str]:
    return sorted(path.stem for path in CATALOG.glob("*.yaml"))


def load(name: str, overrides: Sequence[str] = ()) -> Loaded:
    """A catalog name, or the path of a file.  Raises InputError."""
    if name in catalog_names():
        shown = f"scenarios/catalog/{name}.yaml"
        return load_text(
            topology_files.read_text(CATALOG / f"{name}.yaml", shown), shown, overrides
        )
    if "/" not in name and not name.endswith((".yaml", ".yml")) and not Path(name).exists():
        raise InputError(f"no scenario {name!r}: the catalog has {', '.join(catalog_names())}")
    return load_text(topology_files.read_text(Path(name), name), name, overrides)


def load_text(text: str, source: str, overrides: Sequence[str] = ()) -> Loaded:
    """Raises InputError."""
    document = parse(text, source)
    if not isinstance(document.data, dict):
        raise InputError("expected keys and values, such as `name: my-test`", document.place(()))
    for override in overrides:
        _override(document, override)
    _insert_catalog_topology(document)
    try:
        scenario = schema.Scenario.model_validate(document.data)
    except ValidationError as error:
        raise first_problem(error, document, schema.Scenario) from None
    return Loaded(scenario, _checked_fabric(scenario, document), document.data)


def _checked_fabric(scenario: schema.Scenario, document: Document) -> Fabric:
    try:
        fabric = clos(scenario.topology.spec())
    except TopologyError as error:
        message = str(error).removeprefix("topology: ")
        raise InputError(message, document.place(("topology",)), ("topology",)) from None
    for path, message in check.findings(scenario, fabric):
        raise InputError(message, document.place(path), path)
    for index, text in enumerate(scenario.expect):
        try:
            expect.parse(text, expect.names_of(scenario))
        except expect.ExpectError as error:
            path = ("expect", index)
            raise InputError(str(error), document.place(path), path) from None
    return fabric


def _insert_catalog_topology(document: Document) -> None:
    name = document.data.get("topology")
    if not isinstance(name, str):
        return
    place = document.place(("topology",))
    try:
        topology = topology_files.read_catalog(name)
    except InputError as error:
        raise InputError(error.message, place, ("topology",)) from None
    document.data["topology"] = topology.data
    document.places.update({("topology", *p): at for p, at in topology.places.items() if p})


def _override(document: Document, override: str) -> None:
    """`key.path=value`, the value as it would stand in the file."""
    key, equals, text = override.partition("=")
    source = f"--set {key.strip()}"
    if not equals or not key.strip():
        raise InputError("expected key=value, such as topology.rate=20mbit", Place("--set"))
    path = tuple(int(part) if part.isdecimal() else part for part in key.strip().split("."))
    if path[0] == "topology" and len(path) > 1:
        _insert_catalog_topology(document)
    value = parse_value(text, source)
    node = document.data
    for depth, part in enumerate(path[:-1]):
        if isinstance(part, str) and isinstance(node, dict):
            node.setdefault(part, {})
        node = _child(node, part, path[: depth + 1], source)
    last = path[-1]
    if isinstance(node, list):
        _child(node, last, path, source)
    elif not isinstance(node, dict) or not isinstance(last, str):
        raise InputError("there is nothing below this key to set", Place(source))
    node[last] = copy.deepcopy(value.data)
    for old in [p for p in document.places if p[: len(path)] == path]:
        del document.places[old]
    document.places[path] = Place(source)
    document.places.update({(*path, *p): at for p, at in value.places.items()})


def _child(node: Any, part: str | int, path: KeyPath, source: str) -> Any:
    is_index = isinstance(node, list) and isinstance(part, int) and part < len(node)
    if not is_index and not (isinstance(node, dict) and part in node):
        shown = ".".join(map(str, path))
        raise InputError(f"the scenario has no {shown} to set something in", Place(source))
    return node[part]
