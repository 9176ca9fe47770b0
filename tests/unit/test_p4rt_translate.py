"""Entries to messages and back, and every way in which a message can be malformed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switches.api import (
    ActionCall,
    Exact,
    Lpm,
    Match,
    OptionalMatch,
    Range,
    SwitchError,
    SwitchErrorCode,
    TableEntry,
    Ternary,
)
from switches.p4rt.p4info import model, parse_text
from switches.p4rt.protos import p4data, p4runtime, text_format
from switches.p4rt.translate import (
    decode_cell,
    decode_entry,
    decode_int,
    decode_uint,
    encode_cell,
    encode_entry,
    encode_int,
    encode_uint,
)
from tests.support.small_program import P4INFO

INFO = model(parse_text(P4INFO))


def message(text: str) -> Any:
    return text_format.Parse(text, p4runtime.TableEntry())


def refusal(text: str) -> SwitchError:
    with pytest.raises(SwitchError) as caught:
        decode_entry(INFO, message(text))
    return caught.value


# --- byte strings.  The tables are those of the specification, section Bytestrings.


@pytest.mark.parametrize(
    ("bits", "value", "data"),
    [
        (8, 99, b"\x63"),
        (16, 99, b"\x00\x63"),
        (16, 99, b"\x63"),
        (16, 12388, b"\x30\x64"),
        (16, 12388, b"\x00\x30\x64"),
        (12, 99, b"\x00\x00\x63"),
    ],
)
def test_any_number_of_leading_zeros_is_accepted(bits: int, value: int, data: bytes) -> None:
    assert decode_uint(data, bits, "x") == value


@pytest.mark.parametrize(
    ("bits", "data"),
    [
        (8, b"\x01\x63"),
        (8, b""),
        (16, b"\x01\x00\x63"),
        (12, b"\x10\x63"),
        (12, b"\x01\x00\x63"),
        (12, b"\x00\x40\x63"),
    ],
)
def test_a_value_too_wide_or_absent_is_refused(bits: int, data: bytes) -> None:
    with pytest.raises(SwitchError) as caught:
        decode_uint(data, bits, "x")
    assert caught.value.code is SwitchErrorCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("bits", "value", "data", "shortest"),
    [
        (8, 99, b"\x63", True),
        (8, -99, b"\x9d", True),
        (8, -99, b"\xff\x9d", False),
        (12, -739, b"\xfd\x1d", True),
        (16, 0, b"\x00\x00", False),
        (16, 0, b"\x00", True),
    ],
)
def test_signed_values_are_sign_extended(
    bits: int, value: int, data: bytes, shortest: bool
) -> None:
    assert decode_int(data, bits, "x") == value
    assert (encode_int(value) == data) is shortest


@pytest.mark.parametrize(("bits", "data"), [(8, b"\x00\x9d"), (12, b"\x8d\x1d"), (16, b"")])
def test_a_signed_value_out_of_range_is_refused(bits: int, data: bytes) -> None:
    with pytest.raises(SwitchError):
        decode_int(data, bits, "x")


@given(st.integers(min_value=0, max_value=(1 << 128) - 1))
def test_the_shortest_bytes_come_back_as_the_number(value: int) -> None:
    data = encode_uint(value)
    assert decode_uint(data, 128, "x") == value
    assert len(data) == 1 or data[0] != 0


@given(st.integers(min_value=-(1 << 31), max_value=(1 << 31) - 1))
def test_the_shortest_signed_bytes_come_back_as_the_number(value: int) -> None:
    data = encode_int(value)
    assert decode_int(data, 32, "x") == value
    assert len(data) == 1 or decode_int(data[1:], 32, "x") != value


# --- whole entries


def uints(bits: int) -> st.SearchStrategy[int]:
    return st.integers(min_value=0, max_value=(1 << bits) - 1)


@st.composite
def acl_entries(draw: st.DrawFn) -> TableEntry:
    match: dict[str, Match] = {}
    if mask := draw(uints(128)):
        match["hdr.src"] = Ternary(draw(uints(128)) & mask, mask)
    low, high = sorted((draw(uints(16)), draw(uints(16))))
    if (low, high) != (0, 0xFFFF):
        match["hdr.sport"] = Range(low, high)
    if draw(st.booleans()):
        match["hdr.proto"] = OptionalMatch(draw(uints(8)))
    action = draw(
        st.sampled_from([ActionCall("ingress.drop"), ActionCall("ingress.mark", {"level": 5})])
    )
    return TableEntry("ingress.acl", match, action, priority=draw(uints(30)) + 1)


@st.composite
def fib_entries(draw: st.DrawFn) -> TableEntry:
    prefix_len = draw(st.integers(min_value=0, max_value=32))
    value = draw(uints(32)) >> 32 - prefix_len << 32 - prefix_len
    call = ActionCall("ingress.forward", {"port": draw(uints(9)), "mac": draw(uints(48))})
    match = {"hdr.ip": Lpm(value, prefix_len)} if prefix_len else {}
    return TableEntry("ingress.fib", match, call)


@given(st.one_of(acl_entries(), fib_entries()))
def test_an_entry_comes_back_as_it_was(entry: TableEntry) -> None:
    encoded = encode_entry(INFO.table(entry.table), entry)
    assert decode_entry(INFO, encoded) == entry
    again = encode_entry(INFO.table(entry.table), decode_entry(INFO, encoded))
    assert again == encoded


def test_wildcards_are_left_out_of_the_message() -> None:
    match: dict[str, Match] = {"hdr.src": Ternary(0, 0), "hdr.sport": Range(0, 0xFFFF)}
    entry = TableEntry("ingress.acl", match, ActionCall("ingress.drop"), priority=1)
    assert len(encode_entry(INFO.table("ingress.acl"), entry).match) == 0
    route = TableEntry("ingress.fib", {"hdr.ip": Lpm(0, 0)}, ActionCall("NoAction"))
    assert len(encode_entry(INFO.table("ingress.fib"), route).match) == 0


FORWARD = """action { action {
    action_id: 0x01000001
    params { param_id: 1 value: "\\003" } params { param_id: 2 value: "A" } } }
"""
DROP = "action { action { action_id: 0x01000002 } }"
ROUTE = """table_id: 0x02000001
    match { field_id: 1 exact { value: "\\001" } } match { field_id: 2 exact { value: "\\007" } }
"""


def test_a_well_formed_message_is_an_entry() -> None:
    assert decode_entry(INFO, message(ROUTE + FORWARD)) == TableEntry(
        "ingress.route",
        {"hdr.dst": Exact(1), "meta.plane": Exact(7)},
        ActionCall("ingress.forward", {"port": 3, "mac": 0x41}),
    )


ACL = "table_id: 0x02000002 priority: 1 "
FIB = "table_id: 0x02000003 "


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("table_id: 0 " + DROP, id="no table"),
        pytest.param("table_id: 0x0200ffff " + DROP, id="unknown table"),
        pytest.param("table_id: 0x01000001 " + DROP, id="the number of an action"),
        pytest.param(
            'table_id: 0x02000001 match { field_id: 1 exact { value: "a" } }' + DROP,
            id="an exact field left out",
        ),
        pytest.param(
            ROUTE + 'match { field_id: 2 exact { value: "\\001" } }' + DROP, id="a field twice"
        ),
        pytest.param(
            ROUTE + 'match { field_id: 3 exact { value: "\\001" } }' + DROP, id="unknown field"
        ),
        pytest.param(ROUTE.replace("\\007", "\\010") + DROP, id="a value too wide"),
        pytest.param(ROUTE.replace("\\007", "") + DROP, id="an empty value"),
        pytest.param(ROUTE + "priority: 1 " + DROP, id="a priority where there is none"),
        pytest.param("table_id: 0x02000002 " + DROP, id="no priority where there must be"),
        pytest.param("table_id: 0x02000002 priority: -1 " + DROP, id="a negative priority"),
        pytest.param(ACL + 'match { field_id: 3 exact { value: "a" } }' + DROP, id="other kind"),
        pytest.param(ACL + "match { field_id: 3 }" + DROP, id="a field without a match"),
        pytest.param(
            ACL + 'match { field_id: 1 ternary { value: "\\000" mask: "\\000" } }' + DROP,
            id="a ternary wildcard",
        ),
        pytest.param(
            ACL + 'match { field_id: 1 ternary { value: "\\003" mask: "\\001" } }' + DROP,
            id="bits outside the mask",
        ),
        pytest.param(
            ACL + 'match { field_id: 2 range { low: "\\002" high: "\\001" } }' + DROP,
            id="a range backwards",
        ),
        pytest.param(
            ACL + 'match { field_id: 2 range { low: "\\000" high: "\\377\\377" } }' + DROP,
            id="a range of everything",
        ),
        pytest.param(
            FIB + 'match { field_id: 1 lpm { value: "\\000" prefix_len: 0 } }' + FORWARD,
            id="a prefix of everything",
        ),
        pytest.param(
            FIB + 'match { field_id: 1 lpm { value: "\\000" prefix_len: 33 } }' + FORWARD,
            id="a prefix too long",
        ),
        pytest.param(
            FIB + 'match { field_id: 1 lpm { value: "\\001" prefix_len: 31 } }' + FORWARD,
            id="bits beyond the prefix",
        ),
        pytest.param(ROUTE, id="no action"),
        pytest.param(ROUTE + "action { action_profile_member_id: 1 }", id="a member"),
        pytest.param(ROUTE + "action { action { action_id: 0x01000003 } }", id="not its action"),
        pytest.param(ROUTE + FORWARD.replace("param_id: 2", "param_id: 1"), id="parameter twice"),
        pytest.param(ROUTE + FORWARD.replace("param_id: 2", "param_id: 3"), id="no such parameter"),
        pytest.param(
            ROUTE + FORWARD.replace('params { param_id: 2 value: "A" }', ""), id="one missing"
        ),
        pytest.param(ROUTE + FORWARD.replace("\\003", "\\002\\000"), id="parameter too wide"),
        pytest.param(ROUTE + FORWARD.replace("\\003", ""), id="parameter empty"),
    ],
)
def test_what_the_specification_calls_malformed_is_refused(text: str) -> None:
    assert refusal(text).code is SwitchErrorCode.INVALID_ARGUMENT


def test_an_action_outside_its_scope_is_denied() -> None:
    only_default = ROUTE + "action { action { action_id: 0x01000009 } }"
    assert refusal(only_default).code is SwitchErrorCode.PERMISSION_DENIED
    only_entries = """table_id: 0x02000002 is_default_action: true
        action { action { action_id: 0x01000003 params { param_id: 1 value: "1" } } }"""
    assert refusal(only_entries).code is SwitchErrorCode.PERMISSION_DENIED


@pytest.mark.parametrize(
    "entry",
    [
        TableEntry("ingress.route", {}, ActionCall("ingress.fly")),
        TableEntry("ingress.route", {}, ActionCall("ingress.forward", {"port": 1})),
        TableEntry("ingress.route", {"hdr.dst": Lpm(0, 3)}, ActionCall("ingress.drop")),
        TableEntry("ingress.route", {"hdr.nose": Exact(0)}, ActionCall("ingress.drop")),
        TableEntry("ingress.route", {"hdr.dst": Exact(-1)}, ActionCall("ingress.drop")),
    ],
)
def test_an_entry_that_is_not_of_the_program_has_no_message(entry: TableEntry) -> None:
    with pytest.raises(SwitchError):
        encode_entry(INFO.table("ingress.route"), entry)


# --- cells


@pytest.mark.parametrize(
    ("register", "value"),
    [("ingress.depth", 0x7FFFF), ("ingress.offset", -2048), ("ingress.seen", 1)],
)
def test_a_cell_comes_back_as_it_was(register: str, value: int) -> None:
    item = INFO.register(register)
    assert decode_cell(item, encode_cell(item, value)) == value


def test_the_bits_of_a_negative_cell_are_that_number() -> None:
    offset = INFO.register("ingress.offset")
    assert encode_cell(offset, 0xFFF).bitstring == b"\xff"


@pytest.mark.parametrize(
    ("register", "data"),
    [
        ("ingress.depth", p4data.P4Data()),
        ("ingress.depth", p4data.P4Data(bool=True)),
        ("ingress.depth", p4data.P4Data(bitstring=b"\x08\x00\x00")),
        ("ingress.offset", p4data.P4Data(bitstring=b"\x08\x00")),
        ("ingress.seen", p4data.P4Data(bitstring=b"\x01")),
    ],
)
def test_a_cell_of_another_type_is_refused(register: str, data: Any) -> None:
    with pytest.raises(SwitchError) as caught:
        decode_cell(INFO.register(register), data)
    assert caught.value.code is SwitchErrorCode.INVALID_ARGUMENT


# --- the p4info itself


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("0x02000002", "0x02000001", id="a number twice"),
        pytest.param("0x12000001", "0x13000009", id="a number of another kind"),
        pytest.param(
            "action_refs { id: 0x01000001 }", "action_refs { id: 5 }", id="no such action"
        ),
        pytest.param('id: 2 name: "mac"', 'id: 1 name: "mac"', id="a parameter twice"),
        pytest.param("tables {", "tables [", id="no text proto"),
    ],
)
def test_a_p4info_that_contradicts_itself_is_refused(old: str, new: str) -> None:
    with pytest.raises(SwitchError) as caught:
        model(parse_text(P4INFO.replace(old, new, 1)))
    assert caught.value.code is SwitchErrorCode.INVALID_ARGUMENT


def test_a_match_kind_we_do_not_know_is_refused_by_name() -> None:
    text = P4INFO.replace("match_type: LPM", 'other_match_type: "fuzzy"')
    with pytest.raises(SwitchError, match="fuzzy") as caught:
        model(parse_text(text))
    assert caught.value.code is SwitchErrorCode.UNIMPLEMENTED


def test_the_default_action_is_known_with_its_arguments() -> None:
    assert INFO.table("ingress.fib").initial_default == ActionCall(
        "ingress.forward", {"port": 511, "mac": 0}
    )
