"""YAML's traps are errors, or mean what they say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies.strict_yaml import InputError, dump, parse, parse_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("1:20", "1:20"),
        ("2026-01-01", "2026-01-01"),
        ("1_000", "1_000"),
        ("true", True),
        ("~", None),
        ("12", 12),
        ("0x1F", 31),
        ("0o17", 15),
        ("-3", -3),
        ("18446744073709551615", 2**64 - 1),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("'12'", "12"),
        ("10mbit", "10mbit"),
        ("<<", "<<"),
    ],
)
def test_a_plain_scalar_means_what_it_says(text: str, value: object) -> None:
    found = parse(f"key: {text}", "f").data["key"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: 010", "f:1: a: the number 010 has a leading zero: drop it, or quote it if it is text"),
        ("a: 1\nb: 2\na: 3", "f:3: a: this key was given before"),
        ("a: &x 1\nb: *x", "f:1: a: anchors and aliases are not used here"),
        ("a: !!python/object:os.system x", "f:1: a: tags such as tag:yaml.org"),
        ("a: 1\n---\nb: 2", "f:2: expected one document, found a second"),
        ("", "f: the file is empty"),
        ("a: [1, 2", "f:1: not valid YAML: expected ',' or ']'"),
        ("a: b: c", "f:1: not valid YAML: mapping values are not allowed here"),
        ("a:\n\t- 1", "f:2: not valid YAML: found character"),
        ("? [a]\n: 1", "f:1: expected a plain word as key"),
        ("[" * 50, "f:1: nested deeper than 20 levels"),
        ("a: \x00", "f: not valid YAML: unacceptable character"),
    ],
)
def test_a_trap_is_one_sentence_with_file_and_line(text: str, complaint: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text, "f")
    assert str(caught.value).startswith(complaint)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_too_large_is_refused() -> None:
    with pytest.raises(InputError, match="larger than"):
        parse("a" * (1 << 21), "f")


def test_every_value_has_its_place() -> None:
    document = parse("a:\n  - {b: 1}\n  - c\n", "f")
    assert str(document.place(("a", 0, "b"))) == "f:2"
    assert str(document.place(("a", 1))) == "f:3"
    assert str(document.place(("a", 0, "gone"))) == "f:2"


def test_a_value_from_the_command_line_is_read_as_in_a_file() -> None:
    assert parse_value("[h0, h1]", "--set x").data == ["h0", "h1"]
    assert parse_value("no", "--set x").data == "no"


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**15), 10**15)
    | st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "Zs"))),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.from_regex("[a-z]{1,5}", fullmatch=True), inner)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.from_regex("[a-m]{3,6}", fullmatch=True), _VALUES, min_size=1))
def test_what_is_dumped_is_read_back(value: dict[str, object]) -> None:
    assert parse(dump(value), "f").data == value


@pytest.mark.parametrize("text", ["08", "1e3", "no", "0o7", "", "null", "12", ".5", "a: b", "010"])
def test_text_that_looks_like_something_else_is_quoted(text: str) -> None:
    assert parse(dump({"key": text}), "f").data == {"key": text}


@given(st.text(max_size=200))
def test_any_text_is_a_document_or_our_own_error(text: str) -> None:
    try:
        parse(text, "f")
    except InputError as error:
        complaint = str(error)
    else:
        complaint = ""
    assert "\n" not in complaint
