"""The runner of p4c's packet tests: that it can tell right from wrong, and the tests themselves."""

import os
import shutil
from pathlib import Path

import pytest

from switches.engine.build import BuildError, build, find_compiler
from switches.program import load_program
from tests.engine import p4json, stf
from tests.engine.p4json import Json, assign, field

IN = [("a", 8, False), ("b", 16, False)]
CHECKOUT = os.environ.get("P4C_CHECKOUT", "")
"""Set it to a checkout of p4c to run its tests; p4c-bm2-ss is looked for on the PATH."""


def document() -> Json:
    forward = [
        assign(field("standard_metadata", "egress_spec"), {"type": "runtime_data", "value": 0}),
        assign(field("out", "b"), field("in", "b")),
    ]
    actions = [
        p4json.action(0, "bounce", p4json.bounce()),
        p4json.action(1, "ingress.forward", forward, port=9),
    ]
    keyed = p4json.table(
        "ingress.t", [(1, "ingress.forward")], None, [p4json.key(("in", "a"), "ternary")]
    )
    return p4json.program(IN, IN, actions, [p4json.call(0, "bounce", "ingress.t"), keyed])


def run(text: str, folder: Path) -> str | None:
    try:
        find_compiler()
    except BuildError as error:
        pytest.skip(str(error))
    path = p4json.write(document(), folder)
    return stf.run(load_program(path), build(path, opt="-O1").library, text)


ROWS = """
# one row a port; the second wins where both match
add t 1 a:0x*1 forward(port:2)
add ingress.t 9 a:0x11 forward(port:0x3)
"""


@pytest.mark.parametrize(
    ("packets", "wrong"),
    [
        ("expect 2 00 **34\npacket 1 21 1234", None),
        ("packet 1 11 1234\nexpect 3 001234", None),
        ("packet 1 11 1234\nexpect 3", None),
        ("packet 1 21 1234 ff\nexpect 2 00 1234", None),
        ("packet 1 21 1234 ff\nexpect 2 00 1234 $", "port 2, frame 0"),
        ("packet 1 21 1234\nexpect 2 00 1235", "port 2, frame 0"),
        ("packet 1 21 1234\nexpect 3 00 1234\npacket 2 22 0000", "port 2: 0 frames expected, 2"),
        ("expect 2", "port 2: nothing came"),
        ("dance 1", "statement 'dance' is not known"),
    ],
)
def test_right_is_told_from_wrong(packets: str, wrong: str | None, tmp_path: Path) -> None:
    said = run(ROWS + packets, tmp_path)
    assert (said is None) if wrong is None else (said or "").startswith(wrong), said


def test_digits_left_out_of_a_ternary_value_are_anything() -> None:
    assert stf.ternary("0x0202****") == (0x02020000, 0xFFFF0000)
    assert stf.ternary("0b1*0") == (0b100, 0b101)


@pytest.mark.skipif(
    not CHECKOUT or shutil.which("p4c-bm2-ss") is None,
    reason="P4C_CHECKOUT is not set, or p4c-bm2-ss is not on the PATH",
)
def test_none_of_p4cs_programs_runs_wrong(tmp_path: Path) -> None:
    checkout = Path(CHECKOUT).resolve()
    kinds: dict[str, list[str]] = {"passed": [], "failed": [], "refused": [], "uncompiled": []}
    for source in stf.tests_of(checkout):
        found = stf.outcome(source, checkout, "p4c-bm2-ss", tmp_path, "-O0")
        kinds[found.kind].append(f"{found.name}: {found.detail}")
    assert kinds["failed"] == []
    assert len(kinds["passed"]) >= 9 * len(kinds["refused"])
