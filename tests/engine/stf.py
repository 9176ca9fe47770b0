"""Runs p4c's own packet tests (STF) for v1model on the engine.

    python -m tests.engine.stf --p4c CHECKOUT [--compiler p4c-bm2-ss] [NAME...]

CHECKOUT is a tree of p4c's sources: the tests are the .p4 and .stf files below its testdata.  Each
program is compiled by p4c and run as BMv2's own runner does (backends/bmv2/bmv2stf.py).  Printed:
passed, failed, refused at load (with the reason), not compiled by p4c.  Exit code 1 on a failure.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from switches.api import (
    ActionCall,
    Exact,
    Lpm,
    Match,
    SwitchError,
    TableEntry,
    Ternary,
    UpdateType,
)
from switches.engine.build import BuildError, build
from switches.engine.library import EngineSwitch
from switches.program import Action, Key, Program, Table, UnsupportedProgram, load_program

T = TypeVar("T")

PORTS = 511
STEPS_MAX = 10_000
"""Frames and deadlines that one packet may cause: programs may recirculate for ever."""


# --- the language


@dataclass(frozen=True, slots=True)
class Statement:
    verb: str
    words: tuple[str, ...]
    text: str


def statements(text: str) -> Iterator[Statement]:
    """The statements of an STF file, one a line."""
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if words:
            rest = line.partition("#")[0].strip()[len(words[0]) :].strip()
            yield Statement(words[0].lower(), tuple(words[1:]), rest)


def number(text: str) -> int:
    return int(text, 0)


_DIGIT_BITS = {"0x": 4, "0b": 1, "0o": 3}


def ternary(text: str) -> tuple[int, int]:
    """Value and mask of digits in which `*` is anything.  Digits left out are anything too."""
    prefix, digits = text[:2].lower(), text[2:]
    if prefix not in _DIGIT_BITS:
        raise ValueError(f"decimal value {text} in a ternary key")
    bits = _DIGIT_BITS[prefix]
    value = mask = 0
    for digit in digits:
        value = value << bits | (0 if digit == "*" else int(digit, 1 << bits))
        mask = mask << bits | (0 if digit == "*" else (1 << bits) - 1)
    return value & mask, mask


def prefix_of(text: str, bits: int) -> tuple[int, int]:
    """Value and prefix length, as the simple_switch command line reads them."""
    if "/" in text:
        value, _, length = text.partition("/")
        return number(value), number(length)
    digits = len(text) - 2 - text.count("*")
    return number(text.replace("*", "0")), digits * _DIGIT_BITS.get(text[:2].lower(), bits)


# --- names: STF writes them short


def by_suffix(items: dict[str, T], name: str, what: str) -> T:
    """The item of that name, or the only one whose name ends so."""
    if name in items:
        return items[name]
    found = [item for full, item in items.items() if full.endswith(name)]
    if len(found) != 1:
        raise LookupError(f"{what} {name!r}: {len(found)} found")
    return found[0]


def key_named(table: Table, name: str) -> Key:
    """A match field by one of the spellings STF allows."""
    name = re.sub(r"\$([0-9]+)", r"[\1]", name, count=1)
    keys = {key.name: key for key in table.keys}
    spellings = [name, f"{name}$", f"{name}.$valid$"]
    if name.endswith(".valid"):
        spellings.append(f"{name[:-5]}$valid$")
    for spelling in spellings:
        if spelling in keys:
            return keys[spelling]
    for full, key in keys.items():
        if full.endswith((f".{name}", f".{name}$")) or (name == "valid" and "$valid$" in full):
            return key
    raise LookupError(f"table {table.name!r} has no key {name!r}")


# --- one test on one switch


@dataclass(slots=True)
class Bench:
    """A switch, what came out of it, and the replication set up so far."""

    program: Program
    switch: EngineSwitch
    now_ns: int = 0
    sent: dict[int, list[bytes]] = field(default_factory=dict)
    nodes: list[list[tuple[int, int]]] = field(default_factory=list)
    groups: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def tables(self) -> dict[str, Table]:
        controls = (self.program.ingress, self.program.egress)
        return {table.name: table for control in controls for table in control.tables}

    def action(self, table: Table, name: str) -> Action:
        actions = {a.id: a for a in self.program.actions}
        return by_suffix({actions[i].name: actions[i] for i in table.actions}, name, "action")

    def packet(self, port: int, frame: bytes) -> None:
        self.now_ns += 1_000_000
        self.switch.receive_frame(port, frame, self.now_ns)
        for _ in range(STEPS_MAX):
            out = self.switch.poll_transmit(self.now_ns)
            if out is not None:
                self.sent.setdefault(out[0], []).append(out[1])
                continue
            due = self.switch.next_timeout()
            if due is None:
                return
            self.now_ns = max(self.now_ns, due)
            self.switch.handle_timeout(self.now_ns)
        raise RuntimeError("the packet never ends")

    # --- control

    def add(self, text: str) -> None:
        call = re.search(r"([\w$.]+)\s*\(([^)]*)\)\s*(=.*)?$", text)
        if call is None:
            raise ValueError(f"add {text}")
        words = text[: call.start()].split()
        table = by_suffix(self.tables(), words[0], "table")
        priority = words.pop(1) if len(words) > 1 and ":" not in words[1] else None
        match = self._match(table, words[1:])
        has_priority = any(key.kind not in ("exact", "lpm") for key in table.keys)
        entry = TableEntry(
            table.name,
            match,
            self._call(table, call.group(1), call.group(2)),
            priority=int(priority or 0) + 1 if has_priority else 0,
        )
        self.switch.device.write(UpdateType.INSERT, entry)

    def _match(self, table: Table, words: list[str]) -> dict[str, Match]:
        given = {}
        for word in words:
            name, _, value = word.rpartition(":")
            given[key_named(table, name).name] = value
        match: dict[str, Match] = {}
        for key in table.keys:
            found = self._field(key, given.get(key.name))
            if found is not None:
                match[key.name] = found
        return match

    def _field(self, key: Key, text: str | None) -> Match | None:
        bits = self._bits(key)
        ones = (1 << bits) - 1
        if key.kind == "exact":
            return Exact(number(text or "0") & ones)
        if text is None:
            return None
        if key.kind == "lpm":
            value, length = prefix_of(text, bits)
            return Lpm(value & (ones ^ ones >> length), length)
        value, mask = ternary(text)
        return Ternary(value & ones, mask & ones) if mask & ones else None

    def _bits(self, key: Key) -> int:
        info = self.switch.device.program
        for table in info.tables:
            for candidate in table.fields:
                if candidate.name == key.name:
                    return candidate.bits
        raise LookupError(key.name)

    def _call(self, table: Table, name: str, args: str) -> ActionCall:
        action = self.action(table, name)
        params = {}
        for part in filter(None, (a.strip() for a in args.split(","))):
            param, _, value = part.partition(":")
            params[param.strip()] = number(value.strip())
        widths = {p.name: p.bits for p in action.params}
        return ActionCall(action.name, {n: v & (1 << widths[n]) - 1 for n, v in params.items()})

    def set_default(self, text: str) -> None:
        call = re.search(r"(\S+)\s+([\w$.]+)\s*\(([^)]*)\)", text)
        if call is None:
            raise ValueError(f"setdefault {text}")
        table = by_suffix(self.tables(), call.group(1), "table")
        action = self._call(table, call.group(2), call.group(3))
        entry = TableEntry(table.name, {}, action, is_default=True)
        self.switch.device.write(UpdateType.MODIFY, entry)

    def replicate(self, verb: str, words: tuple[str, ...]) -> None:
        """Multicast groups and clone sessions, as simple_switch's command line has them."""
        device, numbers = self.switch.device, [int(word) for word in words]
        if verb == "mc_node_create":
            self.nodes.append([(port, numbers[0]) for port in numbers[1:]])
        elif verb == "mc_mgrp_create":
            self.groups[numbers[0]] = []
        elif verb == "mc_node_associate":
            self.groups[numbers[0]] += self.nodes[numbers[1]]
            device.set_multicast_group(numbers[0], self.groups[numbers[0]])
        elif verb == "mirroring_add":
            device.set_clone_session(numbers[0], [(numbers[1], 0)])
        elif verb == "mirroring_add_mc":
            device.set_clone_session(numbers[0], self.groups[numbers[1]])


_REPLICATION = (
    "mc_node_create",
    "mc_mgrp_create",
    "mc_node_associate",
    "mirroring_add",
    "mirroring_add_mc",
)
_IGNORED = ("wait", "mirroring_get", "register_read", "counter_read", "no_packet")


def compare(expected: str, frame: bytes) -> bool:
    """Whether a frame begins with the digits expected; `*` is any, `$` at the end is the end."""
    exact = expected.endswith("$")
    digits, got = expected.removesuffix("$").upper(), frame.hex().upper()
    if len(got) < len(digits) or (exact and len(got) > len(digits)):
        return False
    return all(want in ("*", have) for want, have in zip(digits, got, strict=False))


def run(program: Program, library: Path, text: str) -> str | None:
    """Runs one STF file.  What went wrong, or None."""
    switch = EngineSwitch(library, "stf", PORTS, seed=1)
    try:
        return _run(Bench(program, switch), text)
    finally:
        switch.close()


def _run(bench: Bench, text: str) -> str | None:
    expected: dict[int, list[str]] = {}
    ports: set[int] = set()
    for statement in statements(text):
        words = statement.words
        if statement.verb == "packet":
            ports.add(int(words[0]))
            bench.packet(int(words[0]), bytes.fromhex("".join(words[1:])))
        elif statement.verb == "expect":
            ports.add(int(words[0]))
            expected.setdefault(int(words[0]), []).append("".join(words[1:]))
        elif statement.verb == "add":
            bench.add(statement.text)
        elif statement.verb == "setdefault":
            bench.set_default(statement.text)
        elif statement.verb in _REPLICATION:
            bench.replicate(statement.verb, words)
        elif statement.verb not in _IGNORED:
            return f"statement {statement.verb!r} is not known"
    return _check(expected, {p: f for p, f in bench.sent.items() if p in ports})


def _check(expected: dict[int, list[str]], sent: dict[int, list[bytes]]) -> str | None:
    for port in sorted({*expected, *sent}):
        wanted, got = expected.get(port, []), sent.get(port, [])
        if "" in wanted:  # a packet, whatever it is
            if not got:
                return f"port {port}: nothing came"
            continue
        if len(wanted) != len(got):
            return f"port {port}: {len(wanted)} frames expected, {len(got)} came"
        for index, (want, have) in enumerate(zip(wanted, got, strict=True)):
            if not compare(want, have):
                return f"port {port}, frame {index}: expected {want}\n    got {have.hex()}"
    return None


# --- all tests


@dataclass(frozen=True, slots=True)
class Outcome:
    name: str
    kind: str
    """passed, failed, refused or uncompiled."""
    detail: str = ""


def tests_of(checkout: Path) -> list[Path]:
    """The .p4 files for v1model that have packets beside them."""
    found = []
    for stf in sorted((checkout / "testdata").rglob("*.stf")):
        source = stf.with_suffix(".p4")
        if not source.is_file():
            continue
        old = "p4_14_samples" in stf.parts
        if old or "v1model.p4" in source.read_text(encoding="utf-8", errors="replace"):
            found.append(source)
    return found


def compile_p4(source: Path, checkout: Path, compiler: str, folder: Path) -> Path | str:
    """The BMv2 JSON, or p4c's complaint."""
    output = folder / f"{source.stem}.json"
    standard = ["--std", "p4-14"] if "p4_14_samples" in source.parts else []
    command = [compiler, *standard, "-o", str(output), str(source.relative_to(checkout))]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    return output if done.returncode == 0 else done.stderr.strip().partition("\n")[0]


def outcome(source: Path, checkout: Path, compiler: str, folder: Path, opt: str) -> Outcome:
    name = source.stem
    compiled = compile_p4(source, checkout, compiler, folder)
    if isinstance(compiled, str):
        return Outcome(name, "uncompiled", compiled)
    try:
        program = load_program(compiled)
        library = build(compiled, opt=opt).library
    except UnsupportedProgram as error:
        return Outcome(name, "refused", str(error))
    except BuildError as error:
        return Outcome(name, "failed", str(error))
    try:
        wrong = run(program, library, source.with_suffix(".stf").read_text(encoding="utf-8"))
    except (LookupError, ValueError, RuntimeError, SwitchError) as error:
        wrong = f"{type(error).__name__}: {error}"
    return Outcome(name, "failed" if wrong else "passed", wrong or "")


def main() -> int:
    parser = argparse.ArgumentParser(description="p4c's STF tests on the engine")
    parser.add_argument("--p4c", type=Path, required=True, help="a checkout of p4c")
    parser.add_argument("--compiler", default="p4c-bm2-ss")
    parser.add_argument("--opt", default="-O1", help="optimisation of the C compiler")
    parser.add_argument("names", nargs="*", help="programs to run; all without")
    args = parser.parse_args()
    checkout = args.p4c.resolve()
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for source in tests_of(checkout):
            if args.names and source.stem not in args.names:
                continue
            result = outcome(source, checkout, args.compiler, Path(folder), args.opt)
            counts[result.kind] += 1
            if result.kind != "passed":
                print(f"{result.kind:10} {result.name}: {result.detail}", flush=True)
    total = counts["passed"] + counts["failed"] + counts["refused"]
    print(
        f"passed {counts['passed']} of {total}, failed {counts['failed']}, "
        f"refused {counts['refused']}; {counts['uncompiled']} not compiled by this p4c"
    )
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
