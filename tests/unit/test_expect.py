"""Expectations are parsed, their kinds checked at load, and a finding says what was measured."""

import contextlib
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios import expect, metrics
from scenarios.expect import ExpectError, Finding
from scenarios.metrics import Undefined, Value

NAMES = metrics.names(["optic", "t1-reboot"])
VALUES: dict[str, Value] = {
    "job.completed": True,
    "job.bytes_corrupt": 0,
    "job.bytes_delivered": 4 << 20,
    "job.duration": 15 * 10**9,
    "goodput": Fraction(38_000_000),
    "goodput.ceiling": Fraction(40_000_000),
    "goodput.before(optic)": Fraction(40_000_000),
    "goodput.during(optic)": Fraction(30_000_000),
    "ev.retired": frozenset({"h0>h1:0xc000"}),
    "ev.affected": frozenset({"h0>h1:0xc000", "h1>h0:0xc000"}),
    "ev.all_good": False,
}


def measure(name: str) -> Value:
    if name not in VALUES:
        raise Undefined("no data: not measured")
    return VALUES[name]


def judged(text: str) -> Finding:
    return expect.judge(expect.parse(text, NAMES), measure)


@pytest.mark.parametrize(
    ("text", "ok", "measured", "wanted"),
    [
        ("job.completed", True, "yes", "yes"),
        ("not job.completed", False, "yes", "no"),
        ("ev.all_good", False, "no", "yes"),
        ("not ev.all_good", True, "no", "no"),
        ("job.bytes_corrupt == 0", True, "0", "== 0"),
        ("job.bytes_delivered == 4MiB", True, "4194304", "== 4194304"),
        ("goodput >= 0.9 * goodput.ceiling", True, "38 Mb/s", ">= 36 Mb/s"),
        ("goodput >= 39mbit", False, "38 Mb/s", ">= 39 Mb/s"),
        ("goodput > 0", True, "38 Mb/s", "> 0 b/s"),
        ("goodput.during(optic) / goodput.before( optic ) >= 60%", True, "0.75", ">= 0.6"),
        ("job.duration < 2 * (5s + 3s)", True, "15 s", "< 16 s"),
        ("job.duration - 5s == 10s", True, "10 s", "== 10 s"),
        ("ev.retired <= ev.affected", True, "1 EVs", "<= 2 EVs"),
        ("ev.retired != ev.affected", True, "1 EVs", "!= 2 EVs"),
        (
            "ev.retired == ev.affected",
            False,
            "1 EVs (missing: h1>h0:0xc000)",
            "== 2 EVs",
        ),
        (
            "goodput.after(optic) >= goodput",
            False,
            "no data: not measured",
            ">= goodput",
        ),
        ("goodput / (goodput - goodput) > 1", False, "a division by zero", "> 1"),
    ],
)
def test_a_finding(text: str, ok: bool, measured: str, wanted: str) -> None:
    assert judged(text) == Finding(text, wanted, measured, ok)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "expected a number or a name, got 'the end'"),
        ("goodput", "expected a comparison, such as"),
        ("goodputt > 1mbit", "unknown name 'goodputt': there are job.completed,"),
        ("goodput.during(optik) > 1mbit", "unknown name 'goodput.during(optik)'"),
        ("goodput > 1", "a rate cannot be compared with a number"),
        ("goodput > 1s", "a rate cannot be compared with a time"),
        ("goodput > 1parsec", "unknown unit 'parsec': there are bit,"),
        ("goodput * goodput > 1mbit", "a rate * a rate has no meaning here"),
        ("goodput + 1 > 1mbit", "a rate + a number has no meaning here"),
        ("1 / goodput > 1", "a number / a rate has no meaning here"),
        ("job.completed + 1 > 1", "'+' works on numbers, rates and times only"),
        ("job.completed > 0", "a flag cannot be compared with a number"),
        ("job.completed < ev.all_good", "'<' does not work on a flag"),
        ("ev.retired < ev.affected", "'<' does not work on a set"),
        ("ev.retired == 0", "a set cannot be compared with a number"),
        ("qp.errors == 0 0", "'0' is not expected after a complete expectation"),
        ("qp.errors == (0", "a closing parenthesis is missing"),
        ("not qp.errors == 0", "`not` stands before a flag"),
        ("__import__('os')", "\"__import__('os')\" is not understood here"),
        ("qp.errors == " + "(" * 30, "more than 20 parentheses"),
    ],
)
def test_what_makes_no_sense_is_refused_at_load(text: str, complaint: str) -> None:
    with pytest.raises(ExpectError) as caught:
        expect.parse(text, NAMES)
    assert str(caught.value).startswith(complaint)


@given(st.text(max_size=60))
def test_any_text_parses_or_is_our_own_error(text: str) -> None:
    with contextlib.suppress(ExpectError):
        expect.judge(expect.parse(text, NAMES), measure)


def test_every_metric_has_a_meaning() -> None:
    assert all(metric.meaning for metric in metrics.METRICS)
