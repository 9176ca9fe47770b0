"""EV expansion against the official sample program's output, and the limits the header states."""

import errno
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosts.control.fields import EvField, check, expand, generate
from hosts.verbs import ApiError

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "ev" / "expansion.json").read_text())


def ev_bytes(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))


@pytest.mark.parametrize("profile", VECTORS, ids=lambda p: p["name"])
def test_expansion_equals_the_official_sample(profile: dict[str, Any]) -> None:
    fields = [EvField(**field) for field in profile["fields"]]
    widths = profile["fmt_field_widths"]
    check(fields, widths)
    for compact, expanded in zip(profile["evs"], profile["expanded"], strict=True):
        assert expand(fields, widths, ev_bytes(compact)) == ev_bytes(expanded)


@st.composite
def any_fields(draw: st.DrawFn) -> list[EvField]:
    fields = []
    for _ in range(draw(st.integers(1, 6))):
        width = draw(st.integers(1, 32))
        mask = draw(st.integers(0, (1 << width) - 1))
        high = draw(st.integers(0, (1 << mask.bit_count()) - 1))
        init = draw(st.integers(0, (1 << width) - 1))
        fields.append(EvField(width, init, draw(st.integers(0, high)), high, mask))
    return fields


@given(any_fields(), st.integers())
def test_generated_evs_expand_to_fixed_bits_and_values_in_range(
    fields: list[EvField], seed: int
) -> None:
    widths = [field.width for field in fields]
    check(fields, widths)
    value = int.from_bytes(expand(fields, widths, generate(fields, random.Random(seed))))
    value >>= 256 - sum(widths)
    for field in reversed(fields):
        part = value & (1 << field.width) - 1
        value >>= field.width
        assert part & ~field.mask == field.init_val & ~field.mask
        picked = 0
        for bit in reversed(range(field.width)):
            if field.mask >> bit & 1:
                picked = picked << 1 | part >> bit & 1
        assert field.min_val <= picked <= field.high
    assert value == 0


@pytest.mark.parametrize(
    ("fields", "widths", "code"),
    [
        ([EvField(8), EvField(8)], [16], errno.E2BIG),
        ([EvField(17)], [16], errno.E2BIG),
        ([EvField(8, init_val=256)], [16], errno.EINVAL),
        ([EvField(8, mask=0x100)], [16], errno.EINVAL),
        ([EvField(8, mask=0x3, max_val=4)], [16], errno.EINVAL),
        ([EvField(8, mask=0x3, min_val=2, max_val=1)], [16], errno.EINVAL),
    ],
)
def test_fields_that_cannot_be_are_refused(
    fields: list[EvField], widths: list[int], code: int
) -> None:
    with pytest.raises(ApiError) as caught:
        check(fields, widths)
    assert caught.value.errno == code
