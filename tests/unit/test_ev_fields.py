"""EV fields as the controller's API sees them: drawn EVs stay in bounds, misfits are refused."""

import errno
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosts.control import EvField, expand
from hosts.control.fields import check, generate
from hosts.verbs import ApiError


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
