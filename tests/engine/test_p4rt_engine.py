"""P4Runtime in front of the embedded engine, running the program of this repository."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from switches import entries as rows
from switches.api import (
    ActionCall,
    CounterValue,
    Exact,
    Switch,
    SwitchError,
    SwitchErrorCode,
    TableEntry,
    UpdateType,
)
from switches.engine.build import BuildError, build
from switches.engine.library import EngineSwitch
from switches.entries import SwitchSettings, entries
from switches.p4rt.client import BatchError, P4RuntimeClient
from switches.p4rt.server import P4RuntimeServer, ServedDevice
from switches.program import UnsupportedProgram
from tests.engine import drive
from tests.engine.contract import FABRIC, HOST_PORT, PORT_COUNT, SWITCH, UPLINK_PORT, up_list
from tests.engine.frames import encapsulated

BUILD = Path(__file__).parents[2] / "p4" / "build"
PROGRAM = (BUILD / "mrc.json").read_bytes()
P4INFO = (BUILD / "mrc.p4info.txtpb").read_text()
DEVICE = 1


@pytest.fixture(scope="session")
def library() -> Path:
    try:
        return build(BUILD / "mrc.json").library
    except BuildError as error:
        pytest.skip(str(error))


@pytest.fixture
def engine(library: Path) -> Iterator[EngineSwitch]:
    switch = EngineSwitch(library, SWITCH.name, PORT_COUNT, seed=1)
    yield switch
    switch.close()


@pytest.fixture
def address(tmp_path: Path, engine: EngineSwitch) -> Iterator[str]:
    """A shim in front of the engine, which builds other programs when it is asked to."""
    made: list[EngineSwitch] = []

    def load(program: bytes) -> Callable[[], Switch]:
        source = tmp_path / "other.json"
        source.write_bytes(program)
        try:
            built = build(source)
        except (BuildError, UnsupportedProgram) as error:
            raise SwitchError(SwitchErrorCode.UNIMPLEMENTED, str(error)) from None

        def start() -> Switch:
            made.append(EngineSwitch(built.library, SWITCH.name, PORT_COUNT, seed=1))
            return made[-1].device

        return start

    address = f"unix:{tmp_path}/socket"
    device = ServedDevice(P4INFO, PROGRAM, engine.device, load)
    with P4RuntimeServer(address, {DEVICE: device}):
        yield address
    for switch in made:
        switch.close()


@pytest.fixture
def client(address: str) -> Iterator[P4RuntimeClient]:
    with P4RuntimeClient(address, DEVICE, 1) as client:
        client.set_pipeline(P4INFO, PROGRAM)
        yield client


def sent(engine: EngineSwitch, outer_dst: bytes) -> list[tuple[int, bytes]]:
    """Port and outer destination of what leaves when one packet comes from the host."""
    now_ns = engine.device.switch_stats().now_ns
    frame = encapsulated(outer_dst).emit()
    out = [*drive.send(engine, HOST_PORT, frame, now_ns), *drive.run_until(engine, now_ns + 10**9)]
    return [(each.port, each.frame[38:54]) for each in out]


@pytest.mark.parametrize("routing", list(rows.Routing))
def test_all_rows_of_a_switch_are_written_and_read_back(
    client: P4RuntimeClient, engine: EngineSwitch, routing: rows.Routing
) -> None:
    written = entries(FABRIC, SWITCH, SwitchSettings(routing=routing))
    written.append(rows.fault(per_million=5, ingress_port=1, ev=0xABCD, priority=7))
    client.write(UpdateType.INSERT, written)
    found = client.read_entries()
    assert sorted(map(repr, found)) == sorted(map(repr, written))
    assert sorted(map(repr, engine.device.read_entries())) == sorted(map(repr, written))


def test_rows_written_through_the_shim_route_packets(
    client: P4RuntimeClient, engine: EngineSwitch
) -> None:
    assert sent(engine, up_list()) == []
    client.write(UpdateType.INSERT, entries(FABRIC, SWITCH))
    [(port, outer_dst)] = sent(engine, up_list())
    assert port == UPLINK_PORT
    assert outer_dst == up_list()[:4] + up_list()[6:] + bytes(2)
    no_route = rows.DROP_REASONS.index("no_route")
    drops = client.read_counter(rows.DROPS_COUNTER)
    assert drops[no_route].packets == 1
    assert drops == engine.device.read_counter(rows.DROPS_COUNTER)


def test_a_fault_row_drops_and_its_counter_says_so(
    client: P4RuntimeClient, engine: EngineSwitch
) -> None:
    client.write(UpdateType.INSERT, entries(FABRIC, SWITCH))
    blackhole = rows.fault(egress_port=UPLINK_PORT)
    client.write(UpdateType.INSERT, [blackhole])
    assert sent(engine, up_list()) == []
    count = client.read_direct_counter(rows.FAULT, blackhole)
    assert count.packets == 1
    assert client.read_direct_counters(rows.FAULT) == [(blackhole, count)]
    client.write(UpdateType.DELETE, [blackhole])
    assert len(sent(engine, up_list())) == 1


def test_every_default_entry_can_be_read(client: P4RuntimeClient) -> None:
    for table in client.info.tables:
        assert client.read_default(table.name).action == table.initial_default


def test_a_default_entry_can_be_changed(client: P4RuntimeClient) -> None:
    table = client.info.table(rows.PORT)
    call = next(ref.action for ref in table.actions if ref.action.name.endswith("set_port"))
    changed = TableEntry(
        rows.PORT, {}, ActionCall(call.name, {p.name: 1 for p in call.params}), is_default=True
    )
    client.write(UpdateType.MODIFY, [changed])
    assert client.read_default(rows.PORT) == changed
    client.set_pipeline(P4INFO, PROGRAM)
    assert client.read_default(rows.PORT).action == table.initial_default


def test_registers_and_counters_reach_the_engine(
    client: P4RuntimeClient, engine: EngineSwitch
) -> None:
    client.write_register(rows.DATA_DEPTH_REGISTER, 3, 12)
    assert engine.device.read_register(rows.DATA_DEPTH_REGISTER)[3] == 12
    assert client.read_register(rows.DATA_DEPTH_REGISTER)[3] == 12
    engine.device.write_counter(rows.TRIM_COUNTER, 2, CounterValue(4, 5))
    assert client.read_counter(rows.TRIM_COUNTER)[2] == CounterValue(4, 5)


def test_setting_the_pipeline_again_leaves_nothing(
    client: P4RuntimeClient, engine: EngineSwitch
) -> None:
    client.write(UpdateType.INSERT, entries(FABRIC, SWITCH))
    client.write_register(rows.DATA_DEPTH_REGISTER, 3, 12)
    sent(engine, up_list())
    client.set_pipeline(P4INFO, PROGRAM)
    assert client.read_entries() == []
    assert set(client.read_register(rows.DATA_DEPTH_REGISTER)) == {0}
    assert set(client.read_counter(rows.DROPS_COUNTER)) == {CounterValue(0, 0)}


def test_what_the_engine_refuses_has_the_code_of_the_specification(
    client: P4RuntimeClient, engine: EngineSwitch
) -> None:
    own = entries(FABRIC, SWITCH)[0]
    client.write(UpdateType.INSERT, [own])
    table = client.info.table(rows.USID_NODE)
    for kind, written, code in [
        (UpdateType.INSERT, [own], SwitchErrorCode.ALREADY_EXISTS),
        (UpdateType.MODIFY, [_node(9)], SwitchErrorCode.NOT_FOUND),
        (UpdateType.DELETE, [_node(9)], SwitchErrorCode.NOT_FOUND),
        (UpdateType.INSERT, map(_node, range(table.size)), SwitchErrorCode.RESOURCE_EXHAUSTED),
    ]:
        with pytest.raises(BatchError) as caught:
            client.write(kind, written)
        assert caught.value.code is code
    assert len(engine.device.read_entries(rows.USID_NODE)) == table.size


def _node(sid: int) -> TableEntry:
    return TableEntry(rows.USID_NODE, {"sid": Exact(sid)}, ActionCall("MrcIngress.routing.uN"))


def test_another_program_takes_the_place_of_the_first(client: P4RuntimeClient) -> None:
    """The same program with the name of its source changed is built anew and starts empty."""
    client.write(UpdateType.INSERT, entries(FABRIC, SWITCH))
    other = json.dumps(json.loads(PROGRAM) | {"program": "other.p4"}).encode()
    client.set_pipeline(P4INFO, other)
    assert client.read_entries() == []
    client.write(UpdateType.INSERT, entries(FABRIC, SWITCH))


def test_a_program_the_engine_cannot_run_is_refused_by_name(client: P4RuntimeClient) -> None:
    client.write(UpdateType.INSERT, entries(FABRIC, SWITCH))
    strange = PROGRAM.replace(b'"op" : "mark_to_drop"', b'"op" : "mark_to_keep"', 1)
    assert strange != PROGRAM
    with pytest.raises(SwitchError, match="mark_to_keep") as caught:
        client.set_pipeline(P4INFO, strange)
    assert caught.value.code is SwitchErrorCode.UNIMPLEMENTED
    assert len(client.read_entries()) == len(entries(FABRIC, SWITCH))
