"""Tables answer as a list of rows searched from the front would, whatever is done to them."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from switches.api import (
    ActionCall,
    Exact,
    Lpm,
    Match,
    Range,
    SwitchError,
    SwitchErrorCode,
    TableEntry,
    Ternary,
    UpdateType,
)
from switches.engine.build import BuildError, build, find_compiler
from switches.engine.library import EngineSwitch
from tests.engine import p4json
from tests.engine.p4json import Json, assign, key

FIELDS = [("a", 8, False), ("b", 12, False), ("c", 32, False), ("d", 128, False)]
KEYS = {
    "exact": [("a", "exact"), ("b", "exact")],
    "long": [("d", "exact")],
    "lpm": [("c", "lpm")],
    "mixed": [("b", "exact"), ("d", "lpm")],
    "ternary": [("b", "ternary"), ("c", "ternary")],
    "range": [("a", "exact"), ("c", "range")],
    "all": [("a", "range"), ("b", "lpm"), ("c", "ternary"), ("d", "exact")],
}
BITS = {name: bits for name, bits, _ in FIELDS}
SIZE = 200


def document() -> Json:
    outputs = [(name, 16, False) for name in KEYS]
    actions, tables = [p4json.action(0, "bounce", p4json.bounce())], []
    for index, (name, fields) in enumerate(KEYS.items()):
        hit, miss = 2 * index + 1, 2 * index + 2
        store = [assign(p4json.field("out", name), {"type": "runtime_data", "value": 0})]
        actions += [
            p4json.action(hit, f"set_{name}", store, value=16),
            p4json.action(miss, f"miss_{name}", []),
        ]
        later = [*KEYS][index + 1 :]
        tables.append(
            p4json.table(
                name,
                [(hit, f"set_{name}"), (miss, f"miss_{name}")],
                later[0] if later else None,
                [key(("in", f), kind) for f, kind in fields],
                default=miss,
                size=SIZE,
                with_counters=name == "lpm",
            )
        )
    tables.insert(0, p4json.call(0, "bounce", tables[0]["name"]))
    counter = {"name": "hits", "id": 0, "is_direct": True, "binding": "lpm"}
    return p4json.program(FIELDS, outputs, actions, tables, counter_arrays=[counter])


OUTPUTS = [(name, 16, False) for name in KEYS]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        find_compiler()
    except BuildError as error:
        pytest.skip(str(error))
    path = p4json.write(document(), tmp_path_factory.mktemp("tables"))
    return build(path, opt="-O1", werror=True).library


@pytest.fixture
def switch(library: Path) -> Iterator[EngineSwitch]:
    made = EngineSwitch(library, "tables", 2, seed=1)
    yield made
    made.close()


def row(table: str, match: dict[str, Match], value: int = 1, priority: int = 0) -> TableEntry:
    return TableEntry(table, match, ActionCall(f"set_{table}", {"value": value}), priority)


def lookup(switch: EngineSwitch, frame: dict[str, int]) -> dict[str, int]:
    """What every table made of a frame; 0 is a miss."""
    switch.receive_frame(1, p4json.pack(FIELDS, frame), 0)
    sent = switch.poll_transmit(0)
    assert sent is not None
    return p4json.unpack(OUTPUTS, sent[1])


# --- the model: rows in a list


def matches(match: Match, value: int, bits: int) -> bool:
    match match:
        case Exact(wanted):
            return value == wanted
        case Lpm(wanted, length):
            return value >> (bits - length) == wanted >> (bits - length)
        case Ternary(wanted, mask):
            return value & mask == wanted
        case Range(low, high):
            return low <= value <= high
    raise AssertionError(match)


@dataclass
class Model:
    rows: dict[tuple[object, ...], TableEntry] = field(default_factory=dict)

    @staticmethod
    def identity(entry: TableEntry) -> tuple[object, ...]:
        return (tuple(sorted(entry.match.items(), key=lambda item: item[0])), entry.priority)

    def best(self, frame: dict[str, int]) -> int:
        """The value of the row that wins: by priority, then prefix, then age."""
        found = [
            entry
            for entry in self.rows.values()
            if all(matches(m, frame[name], BITS[name]) for name, m in entry.match.items())
        ]
        if not found:
            return 0
        return max(found, key=self.rank).action.params["value"]

    @staticmethod
    def rank(entry: TableEntry) -> tuple[int, int]:
        prefixes = [m.prefix_len for m in entry.match.values() if isinstance(m, Lpm)]
        return entry.priority, prefixes[0] if prefixes and not entry.priority else 0


def random_match(rng: random.Random, kind: str, bits: int) -> Match | None:
    """None is the wildcard.  Few values, so that rows meet frames and each other."""
    ones = (1 << bits) - 1
    value = rng.choice([0, 1, 5, ones, ones ^ 1, 1 << (bits - 1)])
    if kind == "exact":
        return Exact(value)
    if kind == "lpm":
        length = rng.choice([0, 1, 3, bits - 1, bits])
        return Lpm(value & ~(ones >> length), length) if length else None
    if kind == "ternary":
        mask = rng.choice([0, 1, ones, ones >> 1, 0b101])
        return Ternary(value & mask, mask) if mask else None
    low, high = sorted([value, rng.choice([0, 3, ones])])
    return Range(low, high) if (low, high) != (0, ones) else None


def random_row(rng: random.Random, table: str) -> TableEntry:
    found = {name: random_match(rng, kind, BITS[name]) for name, kind in KEYS[table]}
    match = {name: m for name, m in found.items() if m is not None}
    prioritised = any(kind in ("ternary", "range") for _, kind in KEYS[table])
    priority = rng.randrange(1, 5000) if prioritised else 0
    return row(table, match, rng.randrange(1, 1 << 16), priority)


def random_frame(rng: random.Random) -> dict[str, int]:
    edges = {b: [0, 1, 2, 5, (1 << b) - 1, (1 << b) - 2, 1 << (b - 1)] for b in BITS.values()}
    return {name: rng.choice(edges[bits]) for name, bits in BITS.items()}


@pytest.mark.parametrize("seed", range(6))
def test_rows_answer_as_a_list_would(switch: EngineSwitch, seed: int) -> None:
    rng = random.Random(seed)
    models = {name: Model() for name in KEYS}
    priorities: dict[str, set[int]] = {name: set() for name in KEYS}
    for _ in range(600):
        table = rng.choice([*KEYS])
        model, entry = models[table], random_row(rng, table)
        if entry.priority in priorities[table]:
            continue  # rows of one priority that overlap: the order is not ours to promise
        if model.rows and rng.random() < 0.4:
            entry = rng.choice([*model.rows.values()])
        step(rng, switch, model, entry)
        priorities[table] = {e.priority for e in model.rows.values() if e.priority}
        frame = random_frame(rng)
        wanted = {name: m.best(frame) for name, m in models.items()}
        assert lookup(switch, frame) == wanted, f"seed {seed}, frame {frame}"
    read = switch.device.read_entries()
    kept = [entry for model in models.values() for entry in model.rows.values()]
    assert sorted(map(repr, read)) == sorted(map(repr, kept))


def step(rng: random.Random, switch: EngineSwitch, model: Model, entry: TableEntry) -> None:
    """One change, to the switch and to the model; errors are those the model expects."""
    there = model.identity(entry) in model.rows
    kind = rng.choice([UpdateType.INSERT, UpdateType.INSERT, UpdateType.MODIFY, UpdateType.DELETE])
    wanted = SwitchErrorCode.ALREADY_EXISTS if kind is UpdateType.INSERT else None
    if (kind is UpdateType.INSERT) != there:
        wanted = None
    elif kind is not UpdateType.INSERT:
        wanted = SwitchErrorCode.NOT_FOUND
    if wanted is not None:
        assert code_of(switch, kind, entry) is wanted
        return
    switch.device.write(kind, entry)
    if kind is UpdateType.DELETE:
        del model.rows[model.identity(entry)]
    else:
        model.rows[model.identity(entry)] = entry


def code_of(switch: EngineSwitch, kind: UpdateType, entry: TableEntry) -> SwitchErrorCode:
    with pytest.raises(SwitchError) as caught:
        switch.device.write(kind, entry)
    return caught.value.code


def test_a_full_table_takes_no_more_and_a_deleted_row_makes_room(switch: EngineSwitch) -> None:
    rows = [row("lpm", {"c": Lpm(i << 8, 24)}) for i in range(SIZE + 1)]
    for entry in rows[:SIZE]:
        switch.device.write(UpdateType.INSERT, entry)
    full = code_of(switch, UpdateType.INSERT, rows[SIZE])
    assert full is SwitchErrorCode.RESOURCE_EXHAUSTED
    switch.device.write(UpdateType.DELETE, rows[3])
    switch.device.write(UpdateType.INSERT, rows[SIZE])
    assert len(switch.device.read_entries("lpm")) == SIZE


def test_a_row_modified_keeps_its_match_and_changes_its_action(switch: EngineSwitch) -> None:
    frame = {"a": 0, "b": 0, "c": 0x0A000001, "d": 0}
    match: dict[str, Match] = {"c": Lpm(0x0A000000, 8)}
    switch.device.write(UpdateType.INSERT, row("lpm", match, 7))
    assert lookup(switch, frame)["lpm"] == 7
    switch.device.write(UpdateType.MODIFY, row("lpm", match, 9))
    assert lookup(switch, frame)["lpm"] == 9


def test_the_default_action_can_be_set_and_given_back(switch: EngineSwitch) -> None:
    frame = {"a": 0, "b": 0, "c": 0, "d": 0}
    default = TableEntry("exact", {}, ActionCall("set_exact", {"value": 77}), is_default=True)
    switch.device.write(UpdateType.MODIFY, default)
    assert lookup(switch, frame)["exact"] == 77
    switch.device.write(UpdateType.DELETE, default)
    assert lookup(switch, frame)["exact"] == 0


def test_a_direct_counter_counts_the_frames_of_its_row(switch: EngineSwitch) -> None:
    near, far = row("lpm", {"c": Lpm(0, 1)}), row("lpm", {"c": Lpm(1 << 31, 1)})
    for entry in (near, far):
        switch.device.write(UpdateType.INSERT, entry)
    frame = {"a": 0, "b": 0, "c": 5, "d": 0}
    for _ in range(3):
        lookup(switch, frame)
    count = switch.device.read_direct_counter("lpm", near)
    assert (count.packets, count.bytes) == (3, 3 * len(p4json.pack(FIELDS, frame)))
    assert switch.device.read_direct_counter("lpm", far).packets == 0


@pytest.mark.parametrize(
    "entry",
    [
        row("ternary", {"b": Ternary(1, 1)}),  # no priority
        row("lpm", {"c": Lpm(0, 8)}, priority=5),  # one too many
        row("lpm", {"c": Lpm(1, 8)}),  # bits outside the prefix
        row("ternary", {"b": Ternary(2, 1)}, priority=1),  # bits outside the mask
        row("range", {"a": Exact(1), "c": Range(9, 3)}, priority=1),  # nothing is in it
        row("exact", {"a": Exact(1)}),  # an exact key left out
        TableEntry("lpm", {"c": Lpm(0, 1)}, ActionCall("set_exact", {"value": 1})),
        TableEntry("lpm", {"c": Lpm(0, 1)}, ActionCall("set_lpm", {})),
    ],
)
def test_a_row_that_makes_no_sense_is_refused(switch: EngineSwitch, entry: TableEntry) -> None:
    assert code_of(switch, UpdateType.INSERT, entry) is SwitchErrorCode.INVALID_ARGUMENT
    assert switch.device.read_entries() == []
