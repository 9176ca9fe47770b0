"""EV fields: expansion equal to the official sample, drawn EVs in bounds, misfits refused."""

import errno
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosts.control import EvField, expand
from hosts.control.fields import check, generate
from hosts.errors import UsageError
from hosts.verbs import ApiError

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "ev" / "expansion.json").read_text())


@pytest.mark.parametrize("vector", VECTORS, ids=[v["name"] for v in VECTORS])
def test_expansion_equals_the_official_sample(vector: dict[str, Any]) -> None:
    fields = [EvField(**item) for item in vector["fields"]]
    for ev, wanted in zip(vector["evs"], vector["expanded"], strict=True):
        got = expand(fields, vector["fmt_field_widths"], bytes.fromhex(ev[2:]))
        assert got.hex() == wanted[2:]


@st.composite
def any_fields(draw: st.DrawFn) -> list[EvField]:
    fields = []
    for _ in range(draw(st.integers(1, 6))):
        width = draw(st.integers(1, 32))
        mask = draw(st.integers(0, (1 << width) - 1))
        high = draw(st.integers(0, (1 << mask.bit_count()) - 1))
        init = draw(st.integers(0, (1 << width) - 1))
        low = draw(st.integers(0, high))
        fields.append(EvField(width=width, init_val=init, min_val=low, max_val=high, mask=mask))
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
        assert field.min_val <= picked <= (field.max_val or (1 << field.ev_bits) - 1)
    assert value == 0


EIGHT = EvField(width=8)


@pytest.mark.parametrize(
    ("fields", "widths", "code"),
    [
        ([EIGHT, EIGHT], [16], errno.E2BIG),
        ([EvField(width=17)], [16, 16], errno.E2BIG),
        ([EvField(width=8, mask=0x3, max_val=4)], [16], errno.EINVAL),
    ],
)
def test_fields_that_do_not_fit_are_refused(
    fields: list[EvField], widths: list[int], code: int
) -> None:
    with pytest.raises(ApiError) as caught:
        check(fields, widths)
    assert caught.value.errno == code


def test_values_that_do_not_fit_are_refused() -> None:
    for make in (
        lambda: EvField(width=4, init_val=16),
        lambda: EvField(width=4, min_val=3, max_val=2),
        lambda: expand([EvField(width=8)], [4], bytes(32)),
        lambda: expand([EvField(width=8)] * 2, [8], bytes(32)),
        lambda: expand([EvField(width=8)], [8], bytes(31)),
    ):
        with pytest.raises(UsageError):
            make()
