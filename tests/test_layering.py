"""Who may import whom, what is pure, and where each outside library is at home.

The tables below are the architecture; docs/architecture.md says why.  Nothing is run or imported
here: the rules are read off the syntax of every file.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("hosts", "switches", "topologies", "worlds", "scenarios")

BELOW = ("scenarios", "worlds", "hosts", "switches", "topologies")
KNOWS_ITS_WORLD = ("worlds_choice", "doctor", "bench", "fuzz_check")
"""Of scenarios: who chooses a world, or is about one.  All others see `worlds.api` alone."""

# Module: what of ours it may import.  The longest name that fits decides; parts have the rule of
# the whole.  Scenario -> world -> switch and host -> topology; no arrow runs back.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "topologies": ("topologies",),
    "topologies.model": (),
    "hosts": ("hosts",),
    "hosts.errors": (),
    "hosts.wire": ("hosts.wire", "hosts.errors"),
    "hosts.mrc": ("hosts.mrc", "hosts.wire", "hosts.errors"),
    "hosts.roce": ("hosts.roce", "hosts.wire", "hosts.errors"),
    "hosts.workload": ("hosts.workload", "hosts.errors"),
    "switches": (),
    "switches.program": ("switches.program",),
    "switches.entries": ("switches.api", "topologies"),
    "switches.engine": ("switches.engine", "switches.api", "switches.program"),
    "switches.engine.bench": ("switches", "topologies"),
    "switches.p4rt": ("switches.p4rt", "switches.api"),
    "switches.bmv2": ("switches.bmv2", "switches.p4rt", "switches.api", "switches.entries"),
    "worlds": ("switches.api", "switches.entries", "topologies", "worlds.api", "worlds.node"),
    "worlds.node": (),
    "worlds.rng": (),
    "worlds.past": ("switches.api", "switches.engine.device"),
    "worlds.virtual": ("worlds", "hosts", "switches", "topologies"),
    "worlds.live": ("worlds", "hosts", "switches", "topologies"),
    "scenarios": ("scenarios", "worlds.api", "worlds.rng", "hosts", "switches", "topologies"),
    "scenarios.schema": ("scenarios", "topologies"),
    **{f"scenarios.{name}": BELOW for name in KNOWS_ITS_WORLD},
}
APART = (("worlds.virtual", "worlds.live"), ("hosts", "switches"))
"""Neither of the two knows the other, whatever the table above allows."""

# Same input, same output: no clock, no entropy of its own, no input, no output.
PURE = (
    "topologies",
    "hosts",
    "switches.api",
    "switches.program",
    "switches.entries",
    "switches.engine.lower",
    "switches.engine.rows",
    "switches.engine.messages",
    "switches.engine.device",
    "switches.p4rt.p4info",
    "switches.p4rt.translate",
    "switches.p4rt.arbitration",
    "switches.p4rt.updates",
    "switches.p4rt.queries",
    "worlds.node",
    "worlds.rng",
    "worlds.past",
    "worlds.pcapng",
    "worlds.switch_settings",
    "worlds.virtual",
    "scenarios.schema",
    "scenarios.faults",
    "scenarios.metrics",
    "scenarios.expect",
    "scenarios.verdict",
    "scenarios.ledger",
    "scenarios.flows",
    "scenarios.derive",
)
GIVEN_A_FILE = ("topologies.load", "switches.program", "worlds.virtual.capture")
"""Pure but for the file they are told to read or write."""
IMPURE = {
    *("asyncio", "concurrent", "ctypes", "datetime", "fcntl", "logging", "multiprocessing", "os"),
    *("secrets", "select", "selectors", "shutil", "signal", "socket", "subprocess", "sys"),
    *("tempfile", "threading", "time", "uuid"),
}
FILE_METHODS = {
    *("exists", "glob", "is_dir", "is_file", "iterdir", "mkdir", "open", "read_bytes"),
    *("read_text", "rglob", "stat", "touch", "unlink", "write_bytes", "write_text"),
}
"""Of a path: holding one is pure, asking the disk is not."""

# Top-level name: where it may be imported.
HOMES: dict[str, tuple[str, ...]] = {
    "mininet": ("worlds.live.wiring",),
    "pyroute2": ("worlds.live",),
    "p4": (),  # switches.p4rt.protos reads the package's files and imports nothing of it
    "grpc": ("switches.p4rt.rpc",),
    "google": ("switches.p4rt",),
    "yaml": ("topologies.strict_yaml",),
    "pydantic": ("topologies", "scenarios"),
    "typer": ("scenarios.cli",),
    "rich": ("scenarios",),
    "plotly": ("scenarios",),
    "scapy": ("hosts.scapy_mrc", "hosts.bench"),
    "ctypes": (
        "switches.engine.library",
        "switches.engine.network",
        "worlds.live.libc",
    ),
    "socket": ("switches.engine.process", "switches.bmv2", "worlds.live"),
    "select": ("switches.engine.process", "worlds.live"),
}

Import = tuple[int, str]
"""Line and full name: `from a import b` is a.b."""


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def within(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


def rule_of(module: str) -> tuple[str, ...]:
    row = max((name for name in MAY_IMPORT if within(module, (name,))), key=len)
    return (*MAY_IMPORT[row], module)


def imports(tree: ast.AST) -> Iterator[Import]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def layers(module: str, tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Imports that go against an arrow."""
    for line, name in imports(tree):
        if name.startswith("."):
            yield line, f"relative import {name}"
        if name.partition(".")[0] in PACKAGES and not within(name, rule_of(module)):
            yield line, f"{module} may not import {name}"
        for one, other in (*APART, *(pair[::-1] for pair in APART)):
            if within(module, (one,)) and within(name, (other,)):
                yield line, f"{one} does not know {other}"


def homes(module: str, tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Libraries imported away from home."""
    for line, name in imports(tree):
        top = name.partition(".")[0]
        if top in HOMES and not within(module, HOMES[top]):
            yield line, f"{top} is imported by {', '.join(HOMES[top]) or 'nobody'}, not by {module}"


def effects(module: str, tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Clocks, entropy, input and output in a module that is to be pure."""
    if not within(module, PURE):
        return
    allowed = within(module, GIVEN_A_FILE)
    for line, name in imports(tree):
        top = name.partition(".")[0]
        if top in IMPURE:
            yield line, f"{module} is pure and may not import {top}"
        if top == "random" and name not in ("random", "random.Random"):
            yield line, f"{name} draws from the global stream: take a random.Random"
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="open" | "print" | "input" as name)) if not allowed:
                yield node.lineno, f"{module} is pure and may not call {name}"
            case ast.Call(func=ast.Attribute(attr=name)) if name in FILE_METHODS and not allowed:
                yield node.lineno, f"{module} is pure and may not call {name}"
            case ast.Attribute(value=ast.Name(id="random"), attr=attr) if attr != "Random":
                if any(name == "random" for _, name in imports(tree)):
                    yield node.lineno, f"random.{attr} draws from the global stream"
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="random"), attr="Random")
                | ast.Name(id="Random"),
                args=[],
            ):
                yield node.lineno, "a Random without a seed"


RULES = (layers, homes, effects)
SOURCES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def broken(module: str, source: str) -> list[str]:
    tree = ast.parse(source)
    return [f"line {line}: {what}" for rule in RULES for line, what in rule(module, tree)]


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_the_layers_hold(path: Path) -> None:
    assert broken(module_name(path), path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("module", [*MAY_IMPORT, *PURE, *GIVEN_A_FILE])
def test_the_rules_name_what_is_there(module: str) -> None:
    """A rule for a module that has gone would guard nothing.  hosts.roce is still to come."""
    path = ROOT / module.replace(".", "/")
    assert path.is_dir() or path.with_suffix(".py").is_file() or module == "hosts.roce"


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("hosts.mrc.qp", "from hosts.workload import job", "may not import hosts.workload.job"),
        ("hosts.mrc.qp", "from worlds.node import Node", "may not import worlds.node.Node"),
        ("hosts.host", "from switches.api import Switch", "hosts does not know switches"),
        ("hosts.wire.bth", "from hosts import mrc", "may not import hosts.mrc"),
        ("topologies.model", "import topologies.load", "may not import topologies.load"),
        ("switches.engine.build", "import switches.entries", "may not import switches.entries"),
        ("switches.engine.device", "from hosts.wire import bth", "may not import hosts.wire.bth"),
        ("switches.p4rt.server", "import switches.engine", "may not import switches.engine"),
        ("worlds.virtual.loop", "import scenarios.load", "may not import scenarios.load"),
        ("worlds.live.world", "from worlds.virtual import loop", "does not know worlds.virtual"),
        ("scenarios.runner", "import worlds.live.world", "may not import worlds.live.world"),
        ("hosts.mrc.qp", "from . import psn", "relative import"),
        ("worlds.live.world", "import mininet.net", "mininet is imported by worlds.live.wiring"),
        ("switches.p4rt.protos", "from p4.v1 import p4runtime_pb2", "p4 is imported by nobody"),
        ("switches.p4rt.client", "import grpc", "grpc is imported by"),
        ("worlds.virtual.world", "import socket", "socket is imported by"),
        ("scenarios.load", "import yaml", "yaml is imported by"),
        ("hosts.wire.bth", "import scapy.all", "scapy is imported by"),
        ("hosts.mrc.timers", "import time", "pure and may not import time"),
        ("worlds.virtual.loop", "from time import monotonic", "pure and may not import time"),
        ("topologies.model", "path.read_text()", "pure and may not call read_text"),
        ("hosts.mrc.qp", "import random\nrandom.randrange(5)", "draws from the global stream"),
        ("hosts.mrc.qp", "from random import choice", "draws from the global stream"),
        ("hosts.mrc.qp", "from random import Random\nRandom()", "a Random without a seed"),
        ("hosts.host", "import random\nrandom.Random()", "a Random without a seed"),
        ("scenarios.expect", "open('x')", "may not call open"),
        ("hosts.mrc.qp", "print(1)", "may not call print"),
    ],
)
def test_a_planted_violation_is_found(module: str, source: str, complaint: str) -> None:
    assert any(complaint in found for found in broken(module, source))


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("hosts.mrc.qp", "from random import Random\nfrom hosts.mrc import psn"),
        ("worlds.virtual.loop", "import random\nrandom.Random(5)"),
        ("topologies.load", "from pathlib import Path\nPath('x').read_text()"),
        ("worlds.live.wiring", "from mininet.net import Mininet"),
        ("scenarios.worlds_choice", "from worlds.live.world import LiveWorld"),
    ],
)
def test_what_is_allowed_is_let_be(module: str, source: str) -> None:
    assert broken(module, source) == []
