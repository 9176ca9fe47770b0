"""Control messages end to end: what was written is read back, what is wrong is refused by code."""

import pytest

from switches.api import (
    ActionCall,
    CounterValue,
    Exact,
    Lpm,
    Match,
    OptionalMatch,
    PortConfig,
    QueueLimit,
    Range,
    SwitchError,
    SwitchErrorCode,
    TableEntry,
    Ternary,
    UpdateType,
)
from switches.engine.device import Device
from switches.engine.messages import Op, ask
from tests.engine.conftest import MakeSwitch
from tests.engine.drive import send
from tests.engine.tiny import frame

FORWARD = "Tiny.forward"
ACL = "Tiny.acl"
DROP = ActionCall("Tiny.drop")


def to_port(port: int) -> ActionCall:
    return ActionCall("Tiny.set_port", {"port": port})


def row(key: int, call: ActionCall) -> TableEntry:
    return TableEntry(FORWARD, {"key": Exact(key)}, call)


@pytest.fixture
def device(make_switch: MakeSwitch) -> Device:
    return make_switch().device


def refused(code: SwitchErrorCode) -> "pytest.RaisesExc[SwitchError]":
    return pytest.raises(SwitchError, check=lambda error: error.code is code)


def test_the_switch_says_what_it_runs(device: Device) -> None:
    program = device.program
    assert (program.name, program.ports) == ("tiny", 4)
    assert [table.name for table in program.tables] == [FORWARD, ACL]
    assert [field.name for field in program.table_by_name[ACL].fields] == [
        "prefix",
        "some",
        "span",
        "maybe",
    ]
    assert program.register_by_name["wide"].bits == 128


def test_rows_decide_where_frames_go(make_switch: MakeSwitch) -> None:
    switch = make_switch()
    ask_for_row = frame(255, key=9)
    assert send(switch, 0, ask_for_row, 0) == []
    switch.device.write(UpdateType.INSERT, row(9, to_port(2)))
    assert [s.port for s in send(switch, 0, ask_for_row, 1)] == [2]
    switch.device.write(UpdateType.MODIFY, row(9, to_port(3)))
    assert [s.port for s in send(switch, 0, ask_for_row, 2)] == [3]
    switch.device.write(UpdateType.DELETE, row(9, to_port(3)))
    assert send(switch, 0, ask_for_row, 3) == []


def test_a_default_action_is_set_and_given_back(make_switch: MakeSwitch) -> None:
    switch = make_switch()
    default = TableEntry(FORWARD, {}, to_port(1), is_default=True)
    switch.device.write(UpdateType.MODIFY, default)
    assert switch.device.read_entries() == [default]
    assert [s.port for s in send(switch, 0, frame(255), 0)] == [1]
    switch.device.write(UpdateType.DELETE, default)
    assert switch.device.read_entries() == []
    assert send(switch, 0, frame(255), 1) == []


MATCHES: list[dict[str, Match]] = [
    {},
    {"prefix": Lpm(0x0A000000, 8)},
    {"prefix": Lpm(0xFFFFFFFF, 32), "some": Ternary(0xF0F, 0xF0F)},
    {"some": Ternary(0, 0x800), "span": Range(1, 0xFFFF)},
    {"span": Range(0, 0), "maybe": OptionalMatch(0)},
    {"span": Range(1000, 2000), "maybe": OptionalMatch(255), "prefix": Lpm(0, 1)},
]


def test_rows_of_every_match_kind_are_read_back_as_written(device: Device) -> None:
    entries = [TableEntry(ACL, match, to_port(5), i + 1) for i, match in enumerate(MATCHES)]
    for entry in entries:
        device.write(UpdateType.INSERT, entry)
    assert device.read_entries(ACL) == entries


def test_long_lists_take_several_replies(device: Device) -> None:
    entries = [
        TableEntry(ACL, {"span": Range(i, i)}, to_port(i % 512), priority=i + 1)
        for i in range(1000)
    ]
    for entry in entries:
        device.write(UpdateType.INSERT, entry)
    assert device.read_entries(ACL) == entries
    with refused(SwitchErrorCode.RESOURCE_EXHAUSTED):
        device.write(UpdateType.INSERT, TableEntry(ACL, {}, DROP, priority=5000))
    device.write_register("wide", 4999, 7 << 120)
    cells = device.read_register("wide")
    assert (len(cells), cells[4999], sum(cells[:4999])) == (5000, 7 << 120, 0)
    assert len(device.read_counter("Tiny.seen")) == 300


INVALID = SwitchErrorCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("kind", "entry", "code"),
    [
        (UpdateType.INSERT, row(1, DROP), SwitchErrorCode.ALREADY_EXISTS),
        (UpdateType.MODIFY, row(2, DROP), SwitchErrorCode.NOT_FOUND),
        (UpdateType.DELETE, row(2, DROP), SwitchErrorCode.NOT_FOUND),
        (UpdateType.INSERT, row(256, DROP), INVALID),
        (UpdateType.INSERT, row(2, to_port(512)), INVALID),
        (UpdateType.INSERT, row(2, ActionCall("Tiny.drop", {"x": 1})), INVALID),
        (UpdateType.INSERT, row(2, ActionCall("no_such")), INVALID),
        (UpdateType.INSERT, TableEntry("no_such", {}, DROP), SwitchErrorCode.NOT_FOUND),
        (UpdateType.INSERT, TableEntry(FORWARD, {}, DROP), INVALID),
        (UpdateType.INSERT, TableEntry(FORWARD, {"key": Lpm(1, 8)}, DROP), INVALID),
        (UpdateType.INSERT, TableEntry(FORWARD, {"key": Exact(2)}, DROP, 1), INVALID),
        (UpdateType.INSERT, TableEntry(ACL, {}, DROP), INVALID),
        (UpdateType.INSERT, TableEntry(ACL, {"span": Range(2, 1)}, DROP, 1), INVALID),
        (UpdateType.INSERT, TableEntry(ACL, {"prefix": Lpm(1, 8)}, DROP, 1), INVALID),
        (UpdateType.INSERT, TableEntry(ACL, {"some": Ternary(3, 2)}, DROP, 1), INVALID),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_and_changes_nothing(
    device: Device, kind: UpdateType, entry: TableEntry, code: SwitchErrorCode
) -> None:
    device.write(UpdateType.INSERT, row(1, to_port(1)))
    with refused(code):
        device.write(kind, entry)
    assert device.read_entries() == [row(1, to_port(1))]


def test_counters_are_read_and_written(make_switch: MakeSwitch) -> None:
    switch = make_switch()
    device = switch.device
    device.write(UpdateType.INSERT, row(9, to_port(1)))
    for now in range(3):
        send(switch, 0, frame(255, key=9, size=100), now)
    assert device.read_counter("Tiny.seen")[9] == CounterValue(3, 300)
    assert device.read_direct_counter(FORWARD, row(9, DROP)) == CounterValue(3, 300)
    device.write_counter("Tiny.seen", 9, CounterValue(1, 2))
    device.write_direct_counter(FORWARD, row(9, DROP), CounterValue(5, 6))
    assert device.read_counter("Tiny.seen")[9] == CounterValue(1, 2)
    assert device.read_direct_counter(FORWARD, row(9, DROP)) == CounterValue(5, 6)
    with refused(SwitchErrorCode.OUT_OF_RANGE):
        device.write_counter("Tiny.seen", 300, CounterValue(0, 0))
    with refused(SwitchErrorCode.INVALID_ARGUMENT):
        device.write_counter("Tiny.seen", 0, CounterValue(1 << 64, 0))
    with refused(SwitchErrorCode.NOT_FOUND):
        device.read_counter("no_such")
    with refused(SwitchErrorCode.NOT_FOUND):
        device.read_direct_counter(FORWARD, row(8, DROP))


def test_a_register_refuses_what_does_not_fit(device: Device) -> None:
    device.write_register("nine", 1, 511)
    assert device.read_register("nine") == [0, 511]
    with refused(SwitchErrorCode.INVALID_ARGUMENT):
        device.write_register("nine", 1, 512)
    with refused(SwitchErrorCode.OUT_OF_RANGE):
        device.write_register("nine", 2, 0)


def test_ports_and_queues_that_do_not_exist_are_refused(device: Device) -> None:
    with refused(SwitchErrorCode.NOT_FOUND):
        device.configure_port(4, PortConfig(rate_bps=1))
    with refused(SwitchErrorCode.NOT_FOUND):
        device.pause_queue(0, 2, True)
    with refused(SwitchErrorCode.NOT_FOUND):
        device.set_port(9, True)
    with refused(SwitchErrorCode.INVALID_ARGUMENT):
        device.configure_port(0, PortConfig(rate_bps=-1))
    with refused(SwitchErrorCode.INVALID_ARGUMENT):
        device.configure_port(0, PortConfig(rate_bps=1, queues=()))
    with refused(SwitchErrorCode.INVALID_ARGUMENT):
        device.configure_port(0, PortConfig(rate_bps=1, queues=(QueueLimit(1, 1),) * 9))


def test_reset_is_as_at_load_but_for_ports_and_packets(make_switch: MakeSwitch) -> None:
    switch = make_switch()
    device = switch.device
    device.write(UpdateType.INSERT, row(9, to_port(1)))
    device.set_multicast_group(1, [(1, 1)])
    device.write_register("nine", 0, 5)
    device.configure_port(1, PortConfig(rate_bps=8_000_000))
    for _ in range(3):
        send(switch, 0, frame(255, key=9, size=1000), 0)
    device.reset()
    assert device.read_entries() == []
    assert device.read_register("nine") == [0, 0]
    assert device.read_counter("Tiny.seen")[9] == CounterValue(0, 0)
    stats = device.port_stats()
    assert (stats[0].rx_packets, stats[1].queues[0].depth_packets) == (3, 2)


def test_the_library_is_never_late(device: Device) -> None:
    with refused(SwitchErrorCode.UNIMPLEMENTED):
        device.lateness()


@pytest.mark.parametrize(
    "message", [b"", b"\0", b"\xff", b"\x02", b"\x03\0\0", b"\x0e\x09\0\0\0\0\0"]
)
def test_what_does_not_parse_is_refused(make_switch: MakeSwitch, message: bytes) -> None:
    reply = make_switch().request(message)
    assert reply[0] in (1, 2, 7)
    assert reply[1:].decode()


def test_bytes_left_over_are_refused(device: Device, make_switch: MakeSwitch) -> None:
    with refused(SwitchErrorCode.INVALID_ARGUMENT):
        ask(make_switch(), Op.HELLO, b"\0")
