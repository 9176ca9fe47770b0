"""The shim: its socket, its sessions, its pipeline; the codes of the specification."""

import os
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from switches.api import ActionCall, CounterValue
from switches.p4rt import rpc
from switches.p4rt.arbitration import uint128
from switches.p4rt.protos import any_pb2, p4runtime
from switches.p4rt.server import P4RuntimeServer, ServedDevice
from tests.support.fake_switch import FakeSwitch, ResettableFakeSwitch
from tests.support.p4rt_bench import (
    DEVICE,
    FORWARD,
    INFO,
    OTHER,
    Bench,
    a_row,
    refused,
    route,
    update,
)
from tests.support.small_program import P4INFO, PROGRAM

OTHER_PROGRAM = b'{"program": "other.p4"}'


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.close()


# --- the socket


def test_the_socket_is_its_users_alone(bench: Bench) -> None:
    path = rpc.socket_path(bench.address)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700


def test_the_socket_is_gone_after_close(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.close()
    assert list(tmp_path.rglob("socket")) == []


@pytest.mark.parametrize(
    "address",
    ["unix-abstract:x", "127.0.0.1:9559", "unix:", "dns:///x", "unix:/" + "a" * 107],
)
def test_other_addresses_are_refused(address: str) -> None:
    with pytest.raises(ValueError, match=r"unix:PATH|bytes"):
        P4RuntimeServer(address, {})


def test_a_folder_with_odd_characters_will_do(tmp_path: Path) -> None:
    folder = tmp_path / "50% of #1 ü?"
    folder.mkdir()
    bench = Bench(folder)
    assert bench.stub.capabilities(p4runtime.CapabilitiesRequest(), timeout=5)
    bench.close()


def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        P4RuntimeServer(f"unix:{tmp_path}/file/socket", {}).start()


def test_zero_is_no_device_id(tmp_path: Path) -> None:
    device = ServedDevice(P4INFO, PROGRAM, FakeSwitch(INFO))
    with pytest.raises(ValueError, match="0"):
        P4RuntimeServer(f"unix:{tmp_path}/s", {0: device})


def test_the_process_is_left_with_its_umask(tmp_path: Path) -> None:
    before = os.umask(0o022)
    os.umask(before)
    Bench(tmp_path).close()
    after = os.umask(before)
    assert after == before


# --- arbitration on the wire


def test_the_first_answer_says_who_is_primary(bench: Bench) -> None:
    stream = bench.stream()
    stream.arbitrate(5)
    answer = stream.next().arbitration
    assert (answer.device_id, answer.status.code, uint128(answer.election_id)) == (DEVICE, 0, 5)
    assert not answer.HasField("role")


def test_a_higher_id_takes_over_and_all_are_told(bench: Bench) -> None:
    old, new = bench.primary(1), bench.stream()
    new.arbitrate(2)
    assert new.status() == 0
    assert old.status() == 6
    assert refused(bench.pipeline) == "PERMISSION_DENIED"


def test_the_former_primary_may_not_write(bench: Bench) -> None:
    bench.ready()
    newer = bench.stream()
    newer.arbitrate(2)
    assert newer.status() == 0
    assert refused(lambda: bench.write(update("INSERT", route("a")))) == "PERMISSION_DENIED"
    bench.write(update("INSERT", route("a")), election_id=2)
    assert len(bench.switch.read_entries("ingress.route")) == 1


def test_mastership_ends_with_the_stream(bench: Bench) -> None:
    first = bench.ready()
    backup = bench.stream()
    backup.arbitrate(0)
    assert backup.status() == 6
    first.close()
    assert backup.status() == 5
    assert refused(lambda: bench.write(update("INSERT", route("a")))) == "PERMISSION_DENIED"


def test_a_client_that_says_no_more_is_gone(bench: Bench) -> None:
    first, backup = bench.primary(1), bench.stream()
    backup.arbitrate(0)
    backup.next()
    first.finish()
    assert backup.status() == 5


def test_a_second_client_with_the_same_id_is_turned_away(bench: Bench) -> None:
    bench.ready()
    second = bench.stream()
    second.arbitrate(1)
    assert second.code() == "INVALID_ARGUMENT"
    bench.write(update("INSERT", route("a")))


def test_a_stream_for_an_unknown_device_ends(bench: Bench) -> None:
    for device in (0, 99):
        stream = bench.stream()
        stream.arbitrate(1, device)
        assert stream.code() == "NOT_FOUND"


def test_a_stream_cannot_change_its_device(bench: Bench) -> None:
    stream = bench.primary(1)
    stream.arbitrate(1, OTHER)
    assert stream.code() == "FAILED_PRECONDITION"


def test_devices_have_their_own_primaries(bench: Bench) -> None:
    bench.ready()
    bench.primary(9, OTHER)
    bench.write(update("INSERT", route("a")))


def test_streams_are_bounded(bench: Bench) -> None:
    streams = [bench.stream() for _ in range(9)]
    for stream in streams:
        stream.arbitrate(None)
    codes = set()
    for stream in streams:
        try:
            stream.next()
        except rpc.RpcError as error:
            codes.add(error.code().name)
    assert codes == {"RESOURCE_EXHAUSTED"}


def test_packets_and_digests_are_refused_on_the_stream(bench: Bench) -> None:
    stream = bench.stream()
    stream.arbitrate(None)
    stream.next()
    packet = p4runtime.StreamMessageRequest(packet=p4runtime.PacketOut(payload=b"frame"))
    stream.send(packet)
    error = stream.next().error
    assert error.canonical_code == 7
    assert error.packet_out.packet_out.payload == b"frame"
    stream.arbitrate(5)
    stream.next()
    stream.send(packet)
    assert stream.next().error.canonical_code == 12
    stream.send(p4runtime.StreamMessageRequest(digest_ack=p4runtime.DigestListAck(digest_id=1)))
    error = stream.next().error
    assert (error.canonical_code, error.WhichOneof("details")) == (3, "digest_list_ack")
    stream.send(p4runtime.StreamMessageRequest(other=any_pb2.Any(type_url="a/b")))
    assert stream.next().error.WhichOneof("details") == "other"
    stream.send(p4runtime.StreamMessageRequest())
    assert stream.next().error.canonical_code == 3


# --- requests that are none


def drain(method: Any, request: Any) -> list[Any]:
    return list(method(request, timeout=5))


def test_bytes_that_are_no_message_are_an_invalid_argument(bench: Bench) -> None:
    bench.ready()
    for name in ("Write", "Read", "SetForwardingPipelineConfig", "Capabilities"):
        method = bench.channel.unary_stream(f"/{rpc.SERVICE}/{name}")
        assert refused(partial(drain, method, b"\xff\xff")) == "INVALID_ARGUMENT"
    raw = bench.channel.stream_stream(f"/{rpc.SERVICE}/StreamChannel")
    assert refused(lambda: drain(raw, iter([b"\xff\xff"]))) == "INVALID_ARGUMENT"


def test_an_unknown_method_is_unimplemented(bench: Bench) -> None:
    method = bench.channel.unary_unary(f"/{rpc.SERVICE}/Fly")
    assert refused(lambda: method(b"", timeout=5)) == "UNIMPLEMENTED"


def test_capabilities_name_the_version(bench: Bench) -> None:
    answer = bench.stub.capabilities(p4runtime.CapabilitiesRequest(device_id=DEVICE), timeout=5)
    assert answer.p4runtime_api_version == "1.5.0"
    unknown = p4runtime.CapabilitiesRequest(device_id=99)
    assert refused(lambda: bench.stub.capabilities(unknown, timeout=5)) == "NOT_FOUND"


# --- the pipeline


def test_nothing_is_written_or_read_before_a_pipeline(bench: Bench) -> None:
    bench.primary()
    assert refused(lambda: bench.write(update("INSERT", route("a")))) == "FAILED_PRECONDITION"
    assert refused(lambda: bench.read("entities { table_entry { } }")) == "FAILED_PRECONDITION"
    assert not bench.get().HasField("config")
    assert bench.switch.writes == 0


def test_the_checks_come_in_the_order_of_the_specification(bench: Bench) -> None:
    bad = update("INSERT", route("a"))
    assert refused(lambda: bench.write(bad, device=99)) == "NOT_FOUND"
    assert refused(lambda: bench.write('role: "x" ' + bad)) == "NOT_FOUND"
    assert refused(lambda: bench.write(bad)) == "PERMISSION_DENIED"
    assert refused(lambda: bench.write(bad, election_id=None)) == "PERMISSION_DENIED"
    assert refused(bench.pipeline) == "PERMISSION_DENIED"
    assert refused(lambda: bench.pipeline(role="x")) == "NOT_FOUND"
    assert refused(lambda: bench.pipeline(device_id=99)) == "NOT_FOUND"
    assert refused(lambda: bench.read("entities { table_entry { } }", device=99)) == "NOT_FOUND"


def test_the_running_program_is_accepted_and_given_back(bench: Bench) -> None:
    bench.ready()
    config = bench.get().config
    assert config.p4_device_config == PROGRAM
    assert config.cookie.cookie == 0xC00C1E
    assert len(config.p4info.tables) == len(INFO.tables)
    assert bench.loaded == []


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("COOKIE_ONLY", {"cookie"}),
        ("P4INFO_AND_COOKIE", {"p4info", "cookie"}),
        ("DEVICE_CONFIG_AND_COOKIE", {"p4_device_config", "cookie"}),
    ],
)
def test_parts_of_the_config_can_be_asked_for(bench: Bench, kind: str, parts: set[str]) -> None:
    bench.ready()
    assert {field.name for field, _ in bench.get(kind).config.ListFields()} == parts


def test_white_space_does_not_make_another_program(bench: Bench) -> None:
    bench.primary()
    bench.pipeline(program=PROGRAM.replace(b" ", b"\n  "))
    assert bench.loaded == []


def test_verifying_changes_nothing(bench: Bench) -> None:
    bench.primary()
    bench.pipeline("VERIFY")
    bench.pipeline("VERIFY", program=OTHER_PROGRAM)
    assert not bench.get().HasField("config")
    assert bench.loaded == []


def test_another_program_is_built_and_put_in(bench: Bench) -> None:
    bench.ready()
    bench.write(update("INSERT", route("a")))
    bench.pipeline(program=OTHER_PROGRAM)
    assert bench.loaded == [OTHER_PROGRAM]
    assert bench.read("entities { table_entry { table_id: 0x02000001 } }") == []
    bench.write(update("INSERT", route("b")))
    assert bench.switch.read_entries("ingress.route") == [a_row("b", ActionCall("ingress.drop"))]


def test_another_program_is_refused_where_it_cannot_be_put_in(bench: Bench) -> None:
    bench.primary(device=OTHER)
    assert (
        refused(lambda: bench.pipeline(device_id=OTHER, program=OTHER_PROGRAM)) == "UNIMPLEMENTED"
    )
    bench.pipeline(device_id=OTHER)


def test_a_program_that_cannot_be_built_is_refused_by_name(bench: Bench) -> None:
    bench.ready()
    bench.write(update("INSERT", route("a")))
    with pytest.raises(rpc.RpcError, match="strange"):
        bench.pipeline(program=b'{"strange": 1}')
    assert len(bench.read("entities { table_entry { table_id: 0x02000001 } }")) == 1


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"config": False}, id="no config"),
        pytest.param({"program": b"no json"}, id="no JSON"),
        pytest.param({"action": "UNSPECIFIED"}, id="no action"),
        pytest.param({"p4info": P4INFO.replace("bitwidth: 48", "bitwidth: 47")}, id="other p4info"),
        pytest.param({"p4info": P4INFO.replace("0x02000002", "0x02000001")}, id="bad p4info"),
        pytest.param({"action": "COMMIT"}, id="commit with a config"),
        pytest.param({"action": "RECONCILE_AND_COMMIT", "config": False}, id="nothing to keep"),
    ],
)
def test_a_config_that_cannot_be_realised_changes_nothing(
    bench: Bench, changes: dict[str, Any]
) -> None:
    bench.ready()
    bench.write(update("INSERT", route("a")))
    assert refused(lambda: bench.pipeline(**changes)) == "INVALID_ARGUMENT"
    assert len(bench.read("entities { table_entry { table_id: 0x02000001 } }")) == 1


def test_committing_again_clears_the_state(bench: Bench) -> None:
    bench.ready()
    bench.write(update("INSERT", route("a", FORWARD + " metadata: 'x'")))
    bench.write(
        update("MODIFY", "register_entry { register_id: 0x16000001 data { bitstring: 'a' } }")
    )
    bench.switch.count("ingress.drops", 1, CounterValue(2, 3))
    bench.pipeline()
    assert bench.switch.read_entries("ingress.route") == []
    assert set(bench.switch.read_register("ingress.depth")) == {0}
    assert bench.switch.read_counter("ingress.drops")[1] == CounterValue(0, 0)
    bench.write(update("INSERT", route("a")))
    [found] = bench.read("entities { table_entry { table_id: 0x02000001 } }")
    assert found.table_entry.metadata == b""


def test_a_switch_that_cannot_reset_itself_is_cleared_entry_by_entry(bench: Bench) -> None:
    bench.primary(device=OTHER)
    bench.pipeline(device_id=OTHER)
    default = "table_entry { table_id: 0x02000003 is_default_action: true %s }"
    bench.write(
        update("INSERT", route("a"))
        + update("MODIFY", default % "action { action { action_id: 0x01000009 } }")
        + update(
            "MODIFY", "register_entry { register_id: 0x16000002 data { bitstring: '\\377' } }"
        ),
        device=OTHER,
    )
    assert bench.plain.read_register("ingress.offset") == [0xFFF, 0xFFF]
    bench.pipeline(device_id=OTHER)
    assert bench.plain.read_entries("ingress.route") == []
    [entry] = bench.plain.read_entries("ingress.fib")
    assert entry.action.name == "ingress.forward"
    assert len(bench.plain.read_entries("ingress.fixed")) == 1
    assert bench.plain.read_register("ingress.offset") == [0, 0]


def test_a_saved_config_is_realised_by_commit_and_not_before(bench: Bench) -> None:
    bench.ready()
    bench.write(update("INSERT", route("a")))
    assert refused(lambda: bench.pipeline("COMMIT", config=False)) == "NOT_FOUND"
    bench.pipeline("VERIFY_AND_SAVE", program=OTHER_PROGRAM)
    assert bench.loaded == []
    assert refused(lambda: bench.write(update("INSERT", route("b")))) == "UNIMPLEMENTED"
    bench.pipeline("COMMIT", config=False)
    assert bench.loaded == [OTHER_PROGRAM]
    assert refused(lambda: bench.pipeline("COMMIT", config=False)) == "NOT_FOUND"


def test_reconciling_keeps_the_entries_of_the_same_program(bench: Bench) -> None:
    bench.ready()
    bench.write(update("INSERT", route("a")))
    bench.pipeline("RECONCILE_AND_COMMIT")
    assert len(bench.switch.read_entries("ingress.route")) == 1
    assert (
        refused(lambda: bench.pipeline("RECONCILE_AND_COMMIT", program=OTHER_PROGRAM))
        == "UNIMPLEMENTED"
    )


def test_a_restarted_switch_needs_its_pipeline_again(bench: Bench) -> None:
    bench.ready()
    fresh = ResettableFakeSwitch(INFO)
    bench.server.replace_switch(DEVICE, fresh)
    assert refused(lambda: bench.write(update("INSERT", route("a")))) == "FAILED_PRECONDITION"
    bench.pipeline()
    bench.write(update("INSERT", route("a")))
    assert len(fresh.read_entries("ingress.route")) == 1
