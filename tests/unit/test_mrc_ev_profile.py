"""EV profiles: expansion equal to the official sample program, life cycle, operations."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hosts.errors import UsageError
from hosts.mrc.ev import EvState
from hosts.mrc.ev_profile import (
    EvField,
    EvFormat,
    EvFormatProfile,
    EvMask,
    EvMode,
    EvProfile,
    ProfileState,
    expand,
)

VECTORS = json.loads(
    (Path(__file__).parents[1] / "vectors" / "ev" / "expansion.json").read_text()
)


@pytest.mark.parametrize("vector", VECTORS, ids=[v["name"] for v in VECTORS])
def test_expansion_equals_the_official_sample(vector: dict[str, Any]) -> None:
    fields = [EvField(**item) for item in vector["fields"]]
    for ev, wanted in zip(vector["evs"], vector["expanded"], strict=True):
        got = expand(fields, vector["fmt_field_widths"], bytes.fromhex(ev[2:]))
        assert got.hex() == wanted[2:]


def ev(*values: int) -> bytes:
    return b"".join(value.to_bytes(2, "big") for value in values).ljust(32, b"\0")


def srv6(count: int = 8, **how: Any) -> EvProfile:
    profile = EvProfile(0x1234, port_count=4)
    profile.set_state(ProfileState.OFFLINE)
    profile.configure(
        mode=EvMode.EXPLICIT,
        format=EvFormatProfile(EvFormat.SRV6, (32, 16, 16)),
        fields=[EvField(width=32, init_val=0x5F000000), EvField(width=16, mask=0xFFFF),
                EvField(width=16, mask=0xFFFF)],
        entries=[(ev(0x4000 + i, i), i % 4 + 1) for i in range(count)],
        **how,
    )  # fmt: skip
    return profile


def online(profile: EvProfile) -> EvProfile:
    profile.set_state(ProfileState.ONLINE)
    return profile


def test_explicit_evs_become_uSID_lists() -> None:
    specs = online(srv6()).specs(Random(1))
    assert len(specs) == 8
    assert specs[3].plane == 3
    assert specs[3].outer_dst is not None
    assert specs[3].outer_dst.hex() == "5f000000400300030000000000000000"
    assert len({spec.ev for spec in specs}) == 8


def test_generated_evs_stay_within_their_bounds_and_planes_are_equal() -> None:
    profile = EvProfile(1, port_count=2)
    profile.set_state(ProfileState.OFFLINE)
    profile.configure(
        mode=EvMode.GENERATED, format=EvFormatProfile(EvFormat.STEV, (16, 16)),
        fields=[EvField(width=16, init_val=0x100, min_val=1, max_val=15, mask=0xF),
                EvField(width=16, init_val=0x200, min_val=1, max_val=15, mask=0xF)],
        ev_count=32,
    )  # fmt: skip
    specs = online(profile).specs(Random(1))
    assert len(specs) == 32
    assert {spec.plane for spec in specs} == {0, 1}
    for spec in specs:
        assert spec.outer_dst is None
        assert 0x101 <= spec.ev >> 16 <= 0x10F
        assert 0x201 <= spec.ev & 0xFFFF <= 0x20F


def test_auto_finds_its_own_for_every_format_but_srv6() -> None:
    for fmt, width in ((EvFormat.UDP, 16), (EvFormat.STEV, 32)):
        profile = EvProfile(1, port_count=4)
        profile.set_state(ProfileState.OFFLINE)
        profile.configure(mode=EvMode.AUTO, format=EvFormatProfile(fmt, (width,)), ev_count=64)
        specs = online(profile).specs(Random(1))
        assert len({spec.ev for spec in specs}) == 64
        assert max(spec.ev for spec in specs) < 1 << width
    profile = EvProfile(1, port_count=4)
    profile.set_state(ProfileState.OFFLINE)
    with pytest.raises(UsageError, match="auto"):
        profile.configure(
            mode=EvMode.AUTO, format=EvFormatProfile(EvFormat.SRV6, (128,)), ev_count=4
        )


def test_the_life_cycle() -> None:
    profile = srv6()
    for wrong in (ProfileState.OFFLINE,):
        with pytest.raises(UsageError):
            profile.set_state(wrong)
    with pytest.raises(UsageError, match="not online"):
        profile.specs(Random(1))
    online(profile)
    with pytest.raises(UsageError, match="offline"):
        profile.configure(mode=EvMode.AUTO, format=EvFormatProfile(EvFormat.UDP, (16,)), ev_count=1)
    with pytest.raises(UsageError):
        profile.set_state(ProfileState.INIT)
    profile.users = 1
    with pytest.raises(UsageError, match="in use"):
        profile.set_state(ProfileState.OFFLINE)
    profile.users = 0
    profile.set_state(ProfileState.OFFLINE)
    profile.set_state(ProfileState.INIT)
    assert (profile.entries, profile.format) == ([], None)
    profile.set_state(ProfileState.OFFLINE)
    with pytest.raises(UsageError, match="no format"):
        profile.set_state(ProfileState.ONLINE)


@pytest.mark.parametrize(
    "how",
    [{"ev_count": 9}, {"ev_count": 2000}, {"ev_min_active": 9, "ev_count": 8}, {"ev_count": -1}],
)
def test_numbers_that_cannot_be_are_refused_and_change_nothing(how: dict[str, Any]) -> None:
    profile = srv6()
    before = profile.query_ev_array()
    with pytest.raises(UsageError):
        profile.configure(
            mode=EvMode.EXPLICIT, format=EvFormatProfile(EvFormat.STEV, (32,)),
            fields=[EvField(width=32, mask=0xFFFFFFFF)], entries=[(ev(1), 1)] * 8, **how,
        )  # fmt: skip
    assert profile.query_ev_array() == before


def test_fields_that_do_not_fit_are_refused() -> None:
    for make in (
        lambda: EvField(width=4, init_val=16),
        lambda: EvField(width=4, min_val=3, max_val=2),
        lambda: EvFormatProfile(EvFormat.UDP, (17,)),
        lambda: EvFormatProfile(EvFormat.STEV, (32,), with_srh=True),
        lambda: expand([EvField(width=8)], [4], bytes(32)),
        lambda: expand([EvField(width=8)] * 2, [8], bytes(32)),
    ):
        with pytest.raises(UsageError):
            make()
    EvFormatProfile(EvFormat.SRV6, (128, 128), with_srh=True)


def test_denied_evs_are_not_given_out_until_allowed() -> None:
    profile = srv6(ev_event_mask=EvMask.ASSUMED_BAD)
    profile.modify_ev_state(2, EvState.DENIED)
    online(profile)
    planes = [spec.plane for spec in profile.specs(Random(1))]
    assert len(planes) == 7
    with pytest.raises(UsageError):
        profile.modify_ev_state(2, EvState.ASSUMED_BAD)
    profile.modify_ev_state(2, EvState.GOOD)
    assert len(profile.specs(Random(1))) == 8
    profile.replace_ev(2, ev(9, 9), 1)
    assert profile.query_ev_state(2).port == 1
    with pytest.raises(UsageError):
        profile.replace_ev(8, ev(9), 1)
    with pytest.raises(UsageError):
        profile.replace_ev(0, ev(9), 5)


def test_events_are_told_as_the_mask_says() -> None:
    profile = online(srv6(ev_event_mask=EvMask.ASSUMED_BAD))
    event = profile.observe(1, EvState.ASSUMED_BAD, drop_count=3)
    assert event is not None
    assert (event.profile_id, event.port, event.drop_count) == (0x1234, 2, 3)
    assert profile.observe(1, EvState.ASSUMED_BAD, drop_count=4) is None
    assert profile.observe(1, EvState.GOOD, drop_count=4) is None
    assert profile.query_ev_state(1).state is EvState.GOOD
