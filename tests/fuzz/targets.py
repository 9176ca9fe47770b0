"""What is fed to the parsers, and what they may answer: a value, or an error of our own types.

A target takes bytes and returns; whatever else it does (another exception, a hang, memory without
bound) is a bug.  The same targets run under atheris (`python -m tests.fuzz.run`) and, over the
corpus and seeded changes of it, in the normal tests.
"""

# ruff: noqa: PT017 - these are no tests: an error of our own types is one possible answer

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, cast

from hosts.control import (
    CcMask,
    CcProfileAttr,
    Controller,
    Ev,
    EvField,
    EvFmtMode,
    EvMode,
    EvOp,
    EvOpEntry,
    EvProfileAttr,
    EvProfileMask,
    EvState,
    FmtMask,
    FmtProfileAttr,
    ProfileState,
    expand,
)
from hosts.control.constants import EV_BYTES, NSCC
from hosts.errors import UsageError, WireError
from hosts.host import Host
from hosts.verbs import (
    Context,
    IbvQpAttr,
    IbvQpAttrMask,
    IbvQpState,
    QpAttr,
    QpAttrMask,
    QpInitAttr,
)
from hosts.verbs.errors import ApiError
from hosts.wire import icrc
from hosts.wire.packet import parse_frame
from scenarios import load
from switches.engine.lower import lower
from switches.program import UnsupportedProgram, load_program
from tests.virtual.pair import Pair
from topologies.strict_yaml import InputError

Target = Callable[[bytes], None]
TRACE_MAX = 10_000

IP_OFFSETS = (14, 54)
"""Of the NICs' IPv6 header, without and with an outer one."""


class Bytes:
    """Numbers taken from the input one by one; zeros when it is used up."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return max(len(self._data) - self._at, 0)

    def take(self, count: int) -> bytes:
        piece = self._data[self._at : self._at + count]
        self._at += count
        return piece.ljust(count, b"\0")

    def number(self, count: int = 1) -> int:
        return int.from_bytes(self.take(count), "big")

    def below(self, limit: int) -> int:
        return self.number() % limit


# -- frames ------------------------------------------------------------------------------------


def frames(data: bytes) -> None:
    """[length 2, how 1, frame]...: to an endpoint with one QP and work of its own to do.

    `how`: port in bit 0; bit 1: the iCRC is put right, so that what lies behind it is reached; in
    bits 4 to 7 how long the endpoint is left alone afterwards.
    """
    source = Bytes(data)
    pair = Pair(planes=2, evs_per_plane=2, record=False)
    endpoint = pair.a.endpoint
    pair.write(8192, imm=7)
    now = pair.loop.now_ns
    while source.left > 3:
        length, how = source.number(2) % 4300, source.number()
        frame = source.take(min(length, source.left))
        if how & 2:
            frame = with_icrc(frame)
        try:
            parse_frame(frame)
        except WireError as error:
            assert error.reason
        endpoint.receive_frame(how & 1, frame, now)
        now += 1 << (how >> 4) + 4
        endpoint.handle_timeout(now)
        for _ in range(64):
            if endpoint.poll_transmit(now) is None:
                break
        assert len(endpoint.poll_trace()) < TRACE_MAX
        endpoint.poll_completions()
        endpoint.next_timeout()


def with_icrc(frame: bytes) -> bytes:
    """As if the sender had meant it: for the first header that could be the NICs'."""
    if len(frame) < IP_OFFSETS[0] + icrc.STATE_LENGTH + icrc.LENGTH:
        return frame
    inner = len(frame) > IP_OFFSETS[1] + icrc.STATE_LENGTH + icrc.LENGTH and frame[20] == 41
    at = IP_OFFSETS[1] if inner else IP_OFFSETS[0]
    end = len(frame) - icrc.LENGTH
    return frame[:end] + icrc.icrc(frame, at, end).to_bytes(4, "little")


# -- text --------------------------------------------------------------------------------------


def scenario_yaml(data: bytes) -> None:
    """A scenario file."""
    try:
        load.load_text(data.decode("utf-8", "replace"), "fuzz")
    except InputError as error:
        assert str(error)


class _Text:
    """Stands for the path of a file that holds these bytes."""

    name = "fuzz.json"

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read_text(self, encoding: str) -> str:
        return self._data.decode(encoding)


def p4_json(data: bytes) -> None:
    """A program as p4c writes it, read and lowered to C."""
    try:
        lower(load_program(cast(Path, _Text(data))))
    except UnsupportedProgram as error:
        assert str(error)


JOB_BYTES_MAX = 1 << 20

# -- messages of the runner --------------------------------------------------------------------

CONFIG: dict[str, Any] = {
    "host": "h0", "seed": 1, "bin_ns": 1_000_000, "gid": "fd" + 30 * "0", "timeout": 14,
    "ports": [{"mac": "02" + 10 * "0", "gateway_mac": "02" + 8 * "0" + "01", "rate_bps": 10**10}],
    "pmtu": 4096, "base_rtt_ns": 10_000, "hold_down_ns": 1000, "window_bytes": 1 << 16,
}  # fmt: skip


def control_messages(data: bytes) -> None:
    """One JSON object a line: to a host, which does between them what it then has to do.

    The first line may be the config itself, if it begins with `configure`.
    """
    config, lines = CONFIG, data.split(b"\n")
    if lines[0].startswith(b"configure"):
        config = {**CONFIG, **(_object(lines.pop(0)[9:]) or {})}
    try:
        host = Host(config, Random(1))
    except UsageError:
        return
    now = 0
    for line in lines[:64]:
        message = _object(line)
        if message is None or _asks_for_much(message):
            continue
        now += 1000
        try:
            json.dumps(host.control(message, now))
        except UsageError as error:
            assert str(error)


def _asks_for_much(message: dict[str, Any]) -> bool:
    """A job of many bytes is not hostile, only long."""
    job = message.get("job")
    numbers = [n for n in job.values() if isinstance(n, int)] if isinstance(job, dict) else []
    return any(n > JOB_BYTES_MAX for n in numbers)


def _object(text: bytes) -> dict[str, Any] | None:
    """A message as the channel gives it to a host, or None for what is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


# -- EV profiles -------------------------------------------------------------------------------


def ev_profiles(data: bytes) -> None:
    """Profiles made, configured and used by QPs as the bytes say, after some that are in order."""
    source = Bytes(data)
    context = Context(Host(CONFIG, Random(1)).endpoint, lambda: 0)
    controller = Controller(context, Random(1))
    _make_in_order(controller)
    for _ in range(200):
        if not source.left:
            break
        try:
            _step(context, controller, source)
        except (ApiError, UsageError) as error:
            assert str(error)


def _make_in_order(controller: Controller) -> None:
    """Format 0 and CC profile 0 ONLINE, EV profile 0 OFFLINE."""
    offline, online = ProfileState.OFFLINE, ProfileState.ONLINE
    stev = FmtProfileAttr(offline, ev_fmt_mode=EvFmtMode.STEV, fmt_fields=(16, 16))
    controller.modify_ev_fmt_profile(0, stev, FmtMask.STATE | FmtMask.MODE | FmtMask.OP)
    controller.modify_ev_fmt_profile(0, FmtProfileAttr(online), FmtMask.STATE)
    nscc = CcProfileAttr(offline, algorithm=NSCC)
    controller.modify_cc_profile(0, nscc, CcMask.STATE | CcMask.ALGORITHM)
    controller.modify_cc_profile(0, CcProfileAttr(online), CcMask.STATE | CcMask.CONFIG)
    drawn = EvProfileAttr(
        offline,
        ev_mode=EvMode.GEN,
        ev_count=4,
        ev_min_active=1,
        fields=(EvField(width=16, mask=0xFFFF),) * 2,
    )
    controller.modify_ev_profile(
        0,
        drawn,
        EvProfileMask.STATE
        | EvProfileMask.MODE
        | EvProfileMask.FMT_ID
        | EvProfileMask.COUNT
        | EvProfileMask.MIN_ACTIVE
        | EvProfileMask.EVENT_MASK
        | EvProfileMask.EV_FIELDS_OP,
    )


def _step(context: Context, controller: Controller, source: Bytes) -> None:
    number = source.below(2)
    match source.below(5):
        case 0:
            controller.modify_ev_fmt_profile(number, _format(source), FmtMask(source.number()))
        case 1 | 2:
            mask = EvProfileMask(source.number(2))
            controller.modify_ev_profile(number, _profile(source), mask)
        case 3:
            cq, pd = context.create_cq(1), context.alloc_pd()
            context.create_qp(QpInitAttr(cq, cq, pd)).modify(
                IbvQpAttr(IbvQpState.INIT),
                IbvQpAttrMask.STATE,
                QpAttr(ev_profile_id=number),
                QpAttrMask.EV_PROFILE_ID | QpAttrMask.CC_PROFILE_ID | QpAttrMask.HINT,
            )
        case 4:
            widths = [source.number() for _ in range(source.below(9))]
            wire = expand([_field(source) for _ in widths], widths, source.take(EV_BYTES))
            assert len(wire) == EV_BYTES
    told = controller.query_ev_profile(number)
    assert len(told.entries) in (0, told.ev_count)


def _format(source: Bytes) -> FmtProfileAttr:
    state, now = (ProfileState(source.below(3)) for _ in range(2))
    widths = tuple(source.below(66) for _ in range(source.below(6)))
    return FmtProfileAttr(state, now, EvFmtMode(source.below(9)), widths)


def _profile(source: Bytes) -> EvProfileAttr:
    state, now = (ProfileState(source.below(3)) for _ in range(2))
    return EvProfileAttr(
        state,
        now,
        ev_mode=EvMode(source.below(9)),
        ev_fmt_profile_id=source.below(3),
        ev_count=source.below(9),
        ev_min_active=source.below(9) - 1,
        ev_event_mask=source.below(9),
        ev_op=EvOp(source.below(4)),
        entries=tuple(_entry(source) for _ in range(source.below(5))),
        fields=tuple(_field(source) for _ in range(source.below(6))),
    )


def _entry(source: Bytes) -> EvOpEntry:
    old, new = (Ev(source.take(EV_BYTES), source.below(3)) for _ in range(2))
    return EvOpEntry(old, new, EvState(1 << source.below(4)), source.below(3))


def _field(source: Bytes) -> EvField:
    signed = [source.number(size) - source.below(2) for size in (4, 2, 2, 4)]
    init_val, min_val, max_val, mask = signed
    return EvField(
        width=source.below(140) - 1,
        init_val=init_val,
        min_val=min_val,
        max_val=max_val,
        mask=mask,
    )


TARGETS: dict[str, Target] = {
    "frames": frames,
    "scenario_yaml": scenario_yaml,
    "control_messages": control_messages,
    "ev_profiles": ev_profiles,
    "p4_json": p4_json,
}
