"""What small programs do on the engine: parser, stacks, jumps, hashes, externs, the way out."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from switches.api import CounterValue
from switches.engine.build import BuildError, build, find_compiler
from switches.engine.library import EngineSwitch
from tests.engine import p4json
from tests.engine.p4json import Json, assign, const, field, op, primitive

IN = [("a", 8, False), ("b", 16, False), ("c", 32, False)]
OUT = [("x", 8, False), ("y", 16, False), ("z", 32, False)]
INGRESS_PORT = 1


@pytest.fixture(autouse=True)
def _compiler() -> None:
    try:
        find_compiler()
    except BuildError as error:
        pytest.skip(str(error))


@contextmanager
def switch_of(document: Json, folder: Path, seed: int = 1) -> Iterator[EngineSwitch]:
    library = build(p4json.write(document, folder), opt="-O1", werror=True).library
    switch = EngineSwitch(library, "test", 4, seed=seed)
    try:
        yield switch
    finally:
        switch.close()


def send(switch: EngineSwitch, frame: bytes, now_ns: int = 0) -> list[bytes]:
    """Everything that leaves when a frame comes in."""
    switch.receive_frame(INGRESS_PORT, frame, now_ns)
    sent = []
    while (out := switch.poll_transmit(now_ns)) is not None:
        sent.append(out[1])
    return sent


def action_program(primitives: list[Json], **more: Json) -> Json:
    """One action on `in`, then `out` goes back."""
    actions = [p4json.action(0, "work", [*p4json.bounce(), *primitives])]
    return p4json.program(IN, OUT, actions, [p4json.call(0, "work", None)], **more)


def result(document: Json, folder: Path, a: int = 0, b: int = 0, c: int = 0) -> dict[str, int]:
    frame = p4json.pack(IN, {"a": a, "b": b, "c": c})
    with switch_of(document, folder) as switch:
        (sent,) = send(switch, frame)
    return p4json.unpack(OUT, sent)


# --- parser


def transition(value: str | None, following: str | None, mask: str | None = None) -> Json:
    kind = "default" if value is None else "hexstr"
    return {"type": kind, "value": value, "mask": mask, "next_state": following}


def state(name: str, ops: list[Json], transitions: list[Json], key: list[Json]) -> Json:
    return {
        "name": name,
        "id": 0,
        "parser_ops": ops,
        "transitions": transitions,
        "transition_key": key,
    }


def parser(*states: Json) -> list[Json]:
    return [{"name": "parser", "id": 0, "init_state": "start", "parse_states": list(states)}]


def extract(kind: str, name: str) -> Json:
    return {"op": "extract", "parameters": [{"type": kind, "value": name}]}


def labels_program(after: list[Json]) -> Json:
    """A stack of three labels of 16 bits; the last has its lowest bit set."""
    document = action_program(
        [
            *[assign(field("out", o), field(f"labels[{i}]", "v")) for i, o in enumerate("xyz")],
            *after,
            assign(field("out", "x"), field("standard_metadata", "parser_error")),
        ]
    )
    document["header_types"].append({"name": "label_t", "id": 3, "fields": [["v", 15], ["s", 1]]})
    document["headers"] += [
        {"name": f"labels[{i}]", "id": 3 + i, "header_type": "label_t", "metadata": False}
        for i in range(3)
    ]
    document["header_stacks"] = [
        {"name": "labels", "id": 0, "header_type": "label_t", "size": 3, "header_ids": [3, 4, 5]}
    ]
    document["errors"] += [["StackOutOfBounds", 3]]
    last = [{"type": "stack_field", "value": ["labels", "s"]}]
    document["parsers"] = parser(
        state(
            "start",
            [extract("stack", "labels")],
            [transition("0x01", None), transition(None, "start")],
            last,
        )
    )
    document["deparsers"][0]["order"] = ["out", "labels[0]", "labels[1]", "labels[2]"]
    return document


def label(value: int, last: bool = False) -> bytes:
    return (value << 1 | last).to_bytes(2, "big")


def test_a_stack_is_filled_until_the_bottom(tmp_path: Path) -> None:
    frame = label(7) + label(9, last=True) + b"payload"
    with switch_of(labels_program([]), tmp_path) as switch:
        (sent,) = send(switch, frame)
    assert p4json.unpack(OUT, sent) == {"x": 0, "y": 9, "z": 0}
    assert sent[7:] == frame


def test_a_label_too_many_is_an_error_and_the_packet_goes_on(tmp_path: Path) -> None:
    frame = b"".join(label(i) for i in range(1, 6))
    with switch_of(labels_program([]), tmp_path) as switch:
        (sent,) = send(switch, frame)
    assert p4json.unpack(OUT, sent) == {"x": 3, "y": 2, "z": 3}
    assert sent[7:] == frame


def test_a_frame_that_ends_within_a_header_is_an_error(tmp_path: Path) -> None:
    with switch_of(labels_program([]), tmp_path) as switch:
        (sent,) = send(switch, label(1) + b"\x00")
    assert p4json.unpack(OUT, sent)["x"] == 1
    assert sent[7:] == label(1) + b"\x00"


def test_push_makes_room_in_front_and_pop_takes_from_it(tmp_path: Path) -> None:
    stack = {"type": "header_stack", "value": "labels"}
    first = {"type": "header", "value": "labels[0]"}
    push = [
        primitive("push", stack, const(1)),
        primitive("add_header", first),
        assign(field("labels[0]", "v"), const(100)),
    ]
    with switch_of(labels_program(push), tmp_path) as switch:
        (sent,) = send(switch, label(1) + label(2, last=True))
    assert sent[7:] == label(100) + label(1) + label(2, last=True)
    pop = [primitive("pop", stack, const(1))]
    with switch_of(labels_program(pop), tmp_path) as switch:
        (sent,) = send(switch, label(1) + label(2, last=True))
    assert sent[7:] == label(2, last=True)


def test_cases_are_tried_in_order_with_their_masks(tmp_path: Path) -> None:
    def mark(name: str, value: int) -> Json:
        store = {"op": "set", "parameters": [field("out", "x"), const(value)]}
        return state(name, [store], [transition(None, None)], [])

    document = action_program([])
    document["actions"][0]["primitives"] = [
        p4json.bounce()[0],
        primitive("remove_header", {"type": "header", "value": "in"}),
    ]
    document["parsers"] = parser(
        state(
            "start",
            [extract("regular", "in"), {"op": "primitive", "parameters": [add_out()]}],
            [
                transition("0x01ffff", "one", "0xff0000"),
                transition("0x010005", "two"),
                transition("0x000005", "three", "0x00ffff"),
                transition(None, "four"),
            ],
            [field("in", "a"), field("in", "b")],
        ),
        *[mark(name, i + 1) for i, name in enumerate(["one", "two", "three", "four"])],
    )
    with switch_of(document, tmp_path) as switch:
        for a, b, wanted in ((1, 9, 1), (1, 5, 1), (2, 5, 3), (2, 6, 4)):
            (sent,) = send(switch, p4json.pack(IN, {"a": a, "b": b, "c": 0}))
            assert p4json.unpack(OUT, sent)["x"] == wanted


def add_out() -> Json:
    return {"op": "add_header", "parameters": [{"type": "header", "value": "out"}]}


def test_lookahead_reads_without_moving_and_verify_ends_the_parser(tmp_path: Path) -> None:
    document = action_program(
        [
            assign(field("out", "y"), field("in", "b")),
            assign(field("out", "x"), field("standard_metadata", "parser_error")),
        ]
    )
    ahead = {"type": "lookahead", "value": [4, 12]}
    document["parsers"] = parser(
        state(
            "start",
            [
                {"op": "set", "parameters": [field("in", "b"), ahead]},
                {"op": "verify", "parameters": [op("!=", field("in", "b"), const(0)), const(9)]},
                extract("regular", "in"),
            ],
            [transition(None, None)],
            [],
        )
    )
    with switch_of(document, tmp_path) as switch:
        (sent,) = send(switch, b"\x0a\xbc\xde\x00\x00\x00\x00")
        assert p4json.unpack(OUT, sent) == {"x": 0, "y": 0xBCDE, "z": 0}
        (sent,) = send(switch, b"\xf0\x00\xde\x00\x00\x00\x00")
        assert p4json.unpack(OUT, sent) == {"x": 9, "y": 0, "z": 0}
        assert sent[7:] == b"\xf0\x00\xde\x00\x00\x00\x00"


def test_a_varbit_takes_the_length_it_is_given(tmp_path: Path) -> None:
    document = action_program([])
    document["header_types"][0] = {
        "name": "in_t",
        "id": 0,
        "fields": [["n", 8, False], ["v", "*"], ["tail", 8, False]],
        "max_length": 6,
    }
    length = op("&", op("<<", field("in", "n"), const(3)), const(0xFFFF))
    take = [{"type": "regular", "value": "in"}, {"type": "expression", "value": length}]
    first = state("start", [], [transition(None, "more")], [])
    peek = {"op": "set", "parameters": [field("in", "n"), {"type": "lookahead", "value": [0, 8]}]}
    more = state(
        "more",
        [peek, {"op": "extract_VL", "parameters": take}],
        [transition(None, None)],
        [],
    )
    document["parsers"] = parser(first, more)
    document["errors"] += [["HeaderTooShort", 4]]
    document["deparsers"][0]["order"] = ["out", "in"]
    document["actions"][0]["primitives"] = [
        *p4json.bounce()[:2],
        assign(field("out", "x"), field("standard_metadata", "parser_error")),
        assign(field("out", "y"), field("in", "tail")),
    ]
    with switch_of(document, tmp_path) as switch:
        (sent,) = send(switch, b"\x03abcZ-rest")
        assert p4json.unpack(OUT, sent) == {"x": 0, "y": ord("Z"), "z": 0}
        assert sent[7:] == b"\x03abcZ-rest"
        (sent,) = send(switch, b"\x05abcdefgh")
        assert p4json.unpack(OUT, sent)["x"] == 4, "longer than the header may be"
        (sent,) = send(switch, b"\x03abc")
        assert p4json.unpack(OUT, sent)["x"] == 1


# --- actions and control


def test_jumps_make_a_condition_in_an_action(tmp_path: Path) -> None:
    test = op("d2b", op("&", field("in", "a"), const(1)))
    body = [
        primitive("_jump_if_zero", {"type": "expression", "value": test}, const(6)),
        assign(field("out", "x"), const(11)),
        primitive("_jump", const(7)),
        assign(field("out", "x"), const(22)),
    ]
    document = action_program(body)  # three primitives of the bounce come first
    assert result(document, tmp_path, a=1)["x"] == 11
    assert result(document, tmp_path, a=2)["x"] == 22


def test_exit_ends_the_control_after_its_table(tmp_path: Path) -> None:
    actions = [
        p4json.action(0, "first", [*p4json.bounce(), primitive("exit")]),
        p4json.action(1, "second", [assign(field("out", "x"), const(1))]),
    ]
    tables = [p4json.call(0, "first", "tbl_second"), p4json.call(1, "second", None)]
    assert result(p4json.program(IN, OUT, actions, tables), tmp_path)["x"] == 0


def test_the_program_brings_rows_and_the_least_number_wins(tmp_path: Path) -> None:
    def entry(value: str, mask: str, argument: str, priority: int) -> Json:
        key = {"match_type": "ternary", "key": value, "mask": mask}
        call = {"action_id": 1, "action_data": [argument]}
        return {"match_key": [key], "action_entry": call, "priority": priority}

    store = [assign(field("out", "x"), {"type": "runtime_data", "value": 0})]
    actions = [p4json.action(0, "bounce", p4json.bounce()), p4json.action(1, "set", store, v=8)]
    rows = [entry("0x10", "0xf0", "0x2", 2), entry("0x11", "0xff", "0x1", 1)]
    keyed = p4json.table(
        "t", [(1, "set")], None, [p4json.key(("in", "a"), "ternary")], entries=rows
    )
    document = p4json.program(IN, OUT, actions, [p4json.call(0, "bounce", "t"), keyed])
    assert result(document, tmp_path, a=0x11)["x"] == 1
    assert result(document, tmp_path, a=0x12)["x"] == 2
    assert result(document, tmp_path, a=0x22)["x"] == 0


# --- hashes and checksums


def internet_checksum(data: bytes) -> int:
    data += b"\x00" * (len(data) % 2)
    total = sum(int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def crc16_arc(data: bytes) -> int:
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xA001 if crc & 1 else 0)
    return crc


def xor16(data: bytes) -> int:
    data += b"\x00" * (len(data) % 2)
    found = 0
    for index in range(0, len(data), 2):
        found ^= int.from_bytes(data[index : index + 2], "big")
    return found


@pytest.mark.parametrize(
    ("algorithm", "reference"),
    [
        ("crc32", zlib.crc32),
        ("crc16", crc16_arc),
        ("csum16", internet_checksum),
        ("xor16", xor16),
        ("identity", lambda data: int.from_bytes(data[:8], "big")),
    ],
)
def test_a_hash_is_what_bmv2_computes(algorithm: str, reference: object, tmp_path: Path) -> None:
    assert callable(reference)
    inputs = [field("in", "b"), {"type": "hexstr", "value": "0x1234", "bitwidth": 24}]
    calc = {"name": "calc", "id": 0, "algo": algorithm, "input": [*inputs, field("in", "c")]}
    hash_call = primitive(
        "modify_field_with_hash_based_offset",
        field("out", "z"),
        const(5),
        {"type": "calculation", "value": "calc"},
        const(1 << 31),
    )
    body = [hash_call]
    document = p4json.program(
        IN,
        OUT,
        [p4json.action(0, "work", [*p4json.bounce()[:2], *body, *p4json.bounce()[2:]])],
        [p4json.call(0, "work", None)],
        calculations=[calc],
    )
    data = b"\xab\xcd" + b"\x00\x12\x34" + b"\x01\x02\x03\x04"
    got = result(document, tmp_path, a=1, b=0xABCD, c=0x01020304)["z"]
    assert got == reference(data) % (1 << 31) + 5


def test_crc16_gives_the_check_value_of_its_catalogue_entry() -> None:
    assert crc16_arc(b"123456789") == 0xBB3D


def test_a_field_of_an_invalid_header_is_left_out_of_a_hash(tmp_path: Path) -> None:
    calc = {
        "name": "calc",
        "id": 0,
        "algo": "crc32",
        "input": [field("in", "c"), field("out", "z")],
    }
    call = primitive(
        "modify_field_with_hash_based_offset",
        field("out", "z"),
        const(0),
        {"type": "calculation", "value": "calc"},
        const(1 << 32),
    )
    document = action_program([], calculations=[calc])
    document["actions"][0]["primitives"] = [*p4json.bounce(), call]  # `in` is gone by then
    assert result(document, tmp_path, c=77)["z"] == zlib.crc32(bytes(4))


def test_checksums_are_verified_after_the_parser_and_updated_before_the_deparser(
    tmp_path: Path,
) -> None:
    calc = {"name": "calc", "id": 0, "algo": "csum16", "input": [field("in", "c")]}
    payload = {
        "name": "whole",
        "id": 1,
        "algo": "csum16",
        "input": [field("out", "z"), {"type": "payload", "value": None}],
    }
    base = {"id": 0, "type": "generic", "if_cond": None}
    checksums = [
        {
            **base,
            "name": "v",
            "target": ["in", "b"],
            "calculation": "calc",
            "verify": True,
            "update": False,
        },
        {
            **base,
            "name": "u",
            "target": ["out", "y"],
            "calculation": "whole",
            "verify": False,
            "update": True,
        },
    ]
    body = [
        assign(field("out", "x"), field("standard_metadata", "checksum_error")),
        assign(field("out", "z"), field("in", "c")),
    ]
    document = action_program(body, calculations=[calc, payload], checksums=checksums)
    good = internet_checksum(b"\x00\x01\x02\x03")
    with switch_of(document, tmp_path) as switch:
        for b, error in ((good, 0), (good ^ 1, 1)):
            frame = p4json.pack(IN, {"a": 0, "b": b, "c": 0x010203}) + b"odd"
            (sent,) = send(switch, frame)
            got = p4json.unpack(OUT, sent)
            assert got["x"] == error
            assert got["y"] == internet_checksum(b"\x00\x01\x02\x03odd")


# --- externs


def test_registers_and_counters_keep_and_ignore_what_is_out_of_bounds(tmp_path: Path) -> None:
    register = {"type": "register_array", "value": "r"}
    counter = {"type": "counter_array", "value": "n"}
    index = field("in", "a")
    body = [
        assign(field("out", "y"), const(0xEEEE)),
        primitive("register_read", field("out", "y"), register, index),
        primitive("register_write", register, index, field("in", "b")),
        primitive("count", counter, index),
    ]
    document = action_program(
        body,
        register_arrays=[{"name": "r", "id": 0, "size": 4, "bitwidth": 12}],
        counter_arrays=[{"name": "n", "id": 0, "size": 4, "is_direct": False}],
    )
    with switch_of(document, tmp_path) as switch:

        def step(a: int, b: int) -> int:
            (sent,) = send(switch, p4json.pack(IN, {"a": a, "b": b, "c": 0}) + b"!")
            return p4json.unpack(OUT, sent)["y"]

        assert step(2, 0xFABC) == 0
        assert step(2, 1) == 0xABC, "a cell has 12 bits"
        assert step(9, 5) == 0xEEEE, "a read out of bounds leaves the field alone"
        assert switch.device.read_register("r") == [0, 0, 1, 0]
        nothing, twice = CounterValue(0, 0), CounterValue(2, 16)
        assert switch.device.read_counter("n") == [nothing, nothing, twice, nothing]


def test_random_stays_in_its_bounds_and_follows_the_seed(tmp_path: Path) -> None:
    document = action_program(
        [primitive("modify_field_rng_uniform", field("out", "y"), const(10), const(14))]
    )

    def draw(seed: int) -> list[int]:
        with switch_of(document, tmp_path, seed) as switch:
            frames = [send(switch, bytes(7))[0] for _ in range(200)]
        return [p4json.unpack(OUT, frame)["y"] for frame in frames]

    first = draw(1)
    assert set(first) == {10, 11, 12, 13, 14}
    assert draw(1) == first
    assert draw(2) != first


# --- the fate of a packet


def test_truncation_keeps_the_shortest_length_asked_for(tmp_path: Path) -> None:
    body = [primitive("truncate", const(20)), primitive("truncate", const(9)), primitive("no_op")]
    with switch_of(action_program(body), tmp_path) as switch:
        (sent,) = send(switch, bytes(7) + b"abcdefgh")
        assert sent[7:] == b"ab"
        (sent,) = send(switch, bytes(7))
        assert len(sent) == 7, "a shorter frame stays whole"


def test_a_packet_marked_to_drop_is_gone(tmp_path: Path) -> None:
    header = {"type": "header", "value": "standard_metadata"}
    with switch_of(action_program([primitive("mark_to_drop", header)]), tmp_path) as switch:
        assert send(switch, bytes(7)) == []


def test_a_copy_of_the_metadata_marked_to_drop_counts_when_it_is_copied_back(
    tmp_path: Path,
) -> None:
    spec = "egress_spec"
    body = [
        assign(field("copy", spec), field("standard_metadata", spec)),
        primitive("mark_to_drop", {"type": "header", "value": "copy"}),
        assign(field("standard_metadata", spec), field("copy", spec)),
    ]
    document = action_program(body)
    document["headers"].append(
        {"name": "copy", "id": 3, "header_type": "standard_metadata", "metadata": True}
    )
    with switch_of(document, tmp_path) as switch:
        assert send(switch, bytes(7)) == []


def test_the_packet_length_at_egress_counts_headers_added_and_removed(tmp_path: Path) -> None:
    egress = p4json.action(
        1, "leave", [assign(field("out", "y"), field("standard_metadata", "packet_length"))]
    )
    document = action_program([primitive("remove_header", {"type": "header", "value": "in"})])
    document["actions"].append(egress)
    document["pipelines"][1] = p4json.control("egress", [p4json.call(1, "leave", None)])
    with switch_of(document, tmp_path) as switch:
        (sent,) = send(switch, bytes(7) + b"abc")
    assert p4json.unpack(OUT, sent)["y"] == 10


def test_a_resubmitted_packet_keeps_the_metadata_of_its_list_only(tmp_path: Path) -> None:
    count, other = field("meta", "count"), field("meta", "other")
    body = [
        *p4json.bounce()[:2],
        assign(field("out", "x"), field("standard_metadata", "instance_type")),
        assign(field("out", "y"), op("|", op("<<", count, const(8)), other)),
        assign(field("out", "z"), field("standard_metadata", "ingress_port")),
        primitive("_jump_if_zero", op("b2d", op("==", count, const(0))), const(9)),
        assign(count, const(3)),
        assign(other, const(5)),
        primitive("resubmit", const(1)),
    ]
    document = p4json.program(
        IN, OUT, [p4json.action(0, "work", body)], [p4json.call(0, "work", None)]
    )
    document["header_types"].append(
        {"name": "meta_t", "id": 3, "fields": [["count", 8, False], ["other", 8, False]]}
    )
    document["headers"].append({"name": "meta", "id": 3, "header_type": "meta_t", "metadata": True})
    document["field_lists"] = [{"id": 1, "name": "kept", "elements": [count]}]
    with switch_of(document, tmp_path) as switch:
        switch.receive_frame(INGRESS_PORT, bytes(7), 0)
        port, sent = switch.poll_transmit(0) or (None, b"")
    assert port == 0, "BMv2 does not keep the ingress port either"
    assert p4json.unpack(OUT, sent) == {"x": 6, "y": 0x300, "z": 0}


def test_a_field_of_more_than_128_bits_moves_and_is_cut(tmp_path: Path) -> None:
    wide = [("w", 200, False)]
    outputs = [("w", 200, False), ("top", 16, False), ("low", 32, False)]
    top = op("&", op(">>", field("in", "w"), const(184)), const(0xFFFF))
    body = [
        *p4json.bounce()[:2],
        assign(field("out", "w"), field("in", "w")),
        assign(field("out", "top"), top),
        assign(field("out", "low"), op("&", field("in", "w"), const(0xFFFFFFFF))),
        *p4json.bounce()[2:],
    ]
    document = p4json.program(
        wide, outputs, [p4json.action(0, "work", body)], [p4json.call(0, "work", None)]
    )
    value = 0xABCD << 184 | 0x1234 << 100 | 0xDEADBEEF
    with switch_of(document, tmp_path) as switch:
        (sent,) = send(switch, p4json.pack(wide, {"w": value}))
    assert p4json.unpack(outputs, sent) == {"w": value, "top": 0xABCD, "low": 0xDEADBEEF}
