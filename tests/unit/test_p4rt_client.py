"""Our client, through the shim to a fake switch and back."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from switches.api import (
    ActionCall,
    CounterValue,
    Exact,
    Lpm,
    SwitchError,
    SwitchErrorCode,
    TableEntry,
    Ternary,
    UpdateType,
)
from switches.p4rt import rpc
from switches.p4rt.client import BatchError, P4RuntimeClient
from switches.p4rt.p4info import model, parse_text
from switches.p4rt.server import P4RuntimeServer, ServedDevice
from tests.support.fake_switch import FakeSwitch
from tests.support.small_program import P4INFO, PROGRAM

INFO = model(parse_text(P4INFO))
DEVICE = 3
DROP = ActionCall("ingress.drop")


def fib(value: int, prefix_len: int, port: int = 1) -> TableEntry:
    call = ActionCall("ingress.forward", {"port": port, "mac": 0x02_00_00_00_00_01})
    match = {"hdr.ip": Lpm(value, prefix_len)} if prefix_len else {}
    return TableEntry("ingress.fib", match, call)


@pytest.fixture
def switch() -> FakeSwitch:
    return FakeSwitch(INFO)


@pytest.fixture
def address(tmp_path: Path, switch: FakeSwitch) -> Iterator[str]:
    address = f"unix:{tmp_path}/socket"
    with P4RuntimeServer(address, {DEVICE: ServedDevice(P4INFO, PROGRAM, switch)}):
        yield address


@pytest.fixture
def client(address: str) -> Iterator[P4RuntimeClient]:
    with P4RuntimeClient(address, DEVICE, 1) as client:
        client.set_pipeline(P4INFO, PROGRAM, cookie=77)
        yield client


def test_what_is_written_is_read(client: P4RuntimeClient, switch: FakeSwitch) -> None:
    entries = [fib(0x0A000000, 8), fib(0, 0), fib(0x0A010200, 24)]
    client.write(UpdateType.INSERT, entries)
    assert client.read_entries("ingress.fib") == entries == switch.read_entries("ingress.fib")
    client.write(UpdateType.MODIFY, [fib(0x0A000000, 8, port=5)])
    client.write(UpdateType.DELETE, entries[1:])
    assert client.read_entries("ingress.fib") == [fib(0x0A000000, 8, port=5)]
    assert len(client.read_entries()) == 2


def test_more_entries_than_a_batch_holds(client: P4RuntimeClient) -> None:
    entries = [fib(i << 8, 24) for i in range(rpc.UPDATES_PER_WRITE * 2 + 10)]
    client.write(UpdateType.INSERT, entries)
    assert client.read_entries("ingress.fib") == entries


def test_wildcards_may_be_written_out(client: P4RuntimeClient, switch: FakeSwitch) -> None:
    entry = TableEntry("ingress.acl", {"hdr.src": Ternary(0, 0)}, DROP, priority=9)
    client.write(UpdateType.INSERT, [entry])
    assert client.read_entries("ingress.acl") == [TableEntry("ingress.acl", {}, DROP, priority=9)]


def test_the_default_action(client: P4RuntimeClient) -> None:
    assert client.read_default("ingress.fib").action.params == {"port": 511, "mac": 0}
    drop_all = TableEntry("ingress.fib", {}, ActionCall("NoAction"), is_default=True)
    client.write(UpdateType.MODIFY, [drop_all])
    assert client.read_default("ingress.fib") == drop_all


def test_a_refused_batch_says_which_updates_and_why(client: P4RuntimeClient) -> None:
    known = fib(1 << 8, 24)
    client.write(UpdateType.INSERT, [known])
    with pytest.raises(BatchError, match="1 of 3 updates refused; update 1") as caught:
        client.write(UpdateType.INSERT, [fib(2 << 8, 24), known, fib(3 << 8, 24)])
    assert caught.value.code is SwitchErrorCode.ALREADY_EXISTS
    assert [error is None for error in caught.value.errors] == [True, False, True]
    assert len(client.read_entries("ingress.fib")) == 3


def test_all_errors_of_a_large_batch_arrive(client: P4RuntimeClient) -> None:
    entries = [fib(i << 8, 24) for i in range(rpc.UPDATES_PER_WRITE)]
    with pytest.raises(BatchError) as caught:
        client.write(UpdateType.DELETE, entries)
    assert all(error is not None for error in caught.value.errors)
    assert len(caught.value.errors) == len(entries)


def test_an_entry_not_of_the_program_is_refused_before_it_is_sent(
    client: P4RuntimeClient, switch: FakeSwitch
) -> None:
    strange = TableEntry("ingress.fib", {"hdr.ip": Exact(1)}, DROP)
    with pytest.raises(SwitchError, match="lpm"):
        client.write(UpdateType.INSERT, [fib(0x0A000000, 8), strange])
    assert switch.writes == 0


def test_counters(client: P4RuntimeClient, switch: FakeSwitch) -> None:
    switch.count("ingress.drops", 3, CounterValue(5, 500))
    assert client.read_counter("ingress.drops")[3] == CounterValue(5, 500)
    everything, subnet = fib(0, 0), fib(0x0A000000, 8)
    client.write(UpdateType.INSERT, [subnet, everything])
    switch.hit(everything, CounterValue(7, 70))
    assert client.read_direct_counter("ingress.fib", everything) == CounterValue(7, 70)
    assert client.read_direct_counter("ingress.fib", subnet) == CounterValue(0, 0)
    assert client.read_direct_counters("ingress.fib") == [
        (subnet, CounterValue(0, 0)),
        (everything, CounterValue(7, 70)),
    ]
    with pytest.raises(SwitchError, match="no direct counter"):
        client.read_direct_counters("ingress.acl")
    with pytest.raises(SwitchError) as caught:
        client.read_direct_counter("ingress.fib", fib(0x0B000000, 8))
    assert caught.value.code is SwitchErrorCode.NOT_FOUND


def test_registers(client: P4RuntimeClient) -> None:
    client.write_register("ingress.depth", 2, 0x7FFFF)
    client.write_register("ingress.offset", 1, -1)
    assert client.read_register("ingress.depth") == [0, 0, 0x7FFFF, 0, 0, 0, 0, 0]
    assert client.read_register("ingress.offset") == [0, -1]


def test_the_cookie_tells_pipelines_apart(address: str) -> None:
    with P4RuntimeClient(address, DEVICE, 1) as client:
        assert client.get_cookie() is None
        client.set_pipeline(P4INFO, PROGRAM, cookie=5)
        assert client.get_cookie() == 5


def test_nothing_goes_before_a_pipeline(address: str) -> None:
    with P4RuntimeClient(address, DEVICE, 1) as client:
        with pytest.raises(SwitchError) as caught:
            client.read_entries()
        assert caught.value.code is SwitchErrorCode.FAILED_PRECONDITION
        client.use_pipeline(P4INFO)
        with pytest.raises(SwitchError) as caught:
            client.write(UpdateType.INSERT, [fib(0, 0)])
        assert caught.value.code is SwitchErrorCode.FAILED_PRECONDITION


def test_a_later_election_id_takes_over(client: P4RuntimeClient, address: str) -> None:
    with P4RuntimeClient(address, DEVICE, 2) as newer:
        newer.use_pipeline(P4INFO)
        newer.write(UpdateType.INSERT, [fib(0, 0)])
        with pytest.raises(SwitchError) as caught:
            client.write(UpdateType.DELETE, [fib(0, 0)])
        assert caught.value.code is SwitchErrorCode.PERMISSION_DENIED


@pytest.mark.parametrize(
    ("election_id", "device", "code"),
    [
        (0, DEVICE, SwitchErrorCode.FAILED_PRECONDITION),
        (1, DEVICE, SwitchErrorCode.INVALID_ARGUMENT),
        (2, DEVICE + 1, SwitchErrorCode.NOT_FOUND),
    ],
)
def test_a_client_that_is_not_let_in_says_why(
    client: P4RuntimeClient,
    address: str,
    election_id: int,
    device: int,
    code: SwitchErrorCode,
) -> None:
    with pytest.raises(SwitchError) as caught:
        P4RuntimeClient(address, device, election_id).connect()
    assert caught.value.code is code


def test_a_server_that_never_comes_is_unavailable(tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(SwitchError) as caught:
        P4RuntimeClient(f"unix:{tmp_path}/nobody", DEVICE, 1, timeout_s=0.3).connect()
    assert caught.value.code is SwitchErrorCode.UNAVAILABLE
    assert time.monotonic() - started < 3


def test_a_server_that_comes_late_is_waited_for(tmp_path: Path, switch: FakeSwitch) -> None:
    address = f"unix:{tmp_path}/late"
    server = P4RuntimeServer(address, {DEVICE: ServedDevice(P4INFO, PROGRAM, switch)})
    timer = threading.Timer(0.3, server.start)
    timer.start()
    try:
        with P4RuntimeClient(address, DEVICE, 1) as client:
            assert client.api_version() == "1.5.0"
    finally:
        timer.join()
        server.close()


def test_a_server_that_goes_is_unavailable(tmp_path: Path, switch: FakeSwitch) -> None:
    address = f"unix:{tmp_path}/socket"
    server = P4RuntimeServer(address, {DEVICE: ServedDevice(P4INFO, PROGRAM, switch)})
    server.start()
    with P4RuntimeClient(address, DEVICE, 1, timeout_s=1) as client:
        client.set_pipeline(P4INFO, PROGRAM)
        server.close()
        with pytest.raises(SwitchError) as caught:
            client.read_entries()
        assert caught.value.code is SwitchErrorCode.UNAVAILABLE


def test_many_devices_share_a_channel_and_leave_no_thread(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    address = f"unix:{tmp_path}/socket"
    fakes = {id: FakeSwitch(INFO) for id in range(1, 25)}
    served = {id: ServedDevice(P4INFO, PROGRAM, fake) for id, fake in fakes.items()}
    with P4RuntimeServer(address, served):
        channel = rpc.open_channel(address)
        clients = [P4RuntimeClient(address, id, 1, channel=channel) for id in fakes]
        for client in clients:
            client.connect()
            client.set_pipeline(P4INFO, PROGRAM)
            client.write(UpdateType.INSERT, [fib(client.device_id << 8, 24)])
        for client in clients:
            client.close()
        channel.close()
    for id, fake in fakes.items():
        assert fake.read_entries("ingress.fib") == [fib(id << 8, 24)]
    deadline = time.monotonic() + 5
    while (left := set(threading.enumerate()) - before) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert left == set()


ROUND_TRIP = """
import subprocess, sys
from pathlib import Path
from switches.api import UpdateType
from switches.p4rt.client import P4RuntimeClient
from switches.p4rt.p4info import model, parse_text
from switches.p4rt.server import P4RuntimeServer, ServedDevice
from tests.support.fake_switch import FakeSwitch
from tests.support.small_program import P4INFO, PROGRAM

address = f"unix:{sys.argv[1]}/socket"
switch = FakeSwitch(model(parse_text(P4INFO)))
with P4RuntimeServer(address, {3: ServedDevice(P4INFO, PROGRAM, switch)}):
    with P4RuntimeClient(address, 3, 1) as client:
        client.set_pipeline(P4INFO, PROGRAM)
        subprocess.run(["true"], check=True)
        subprocess.run(["true"], check=True, preexec_fn=lambda: None)
        print(len(client.read_entries()))
server = P4RuntimeServer(address, {3: ServedDevice(P4INFO, PROGRAM, switch)})
server.start()
P4RuntimeClient(address, 3, 1).connect()  # and the process ends without a word to either
"""


def test_nothing_is_said_on_stderr_and_the_process_ends(tmp_path: Path) -> None:
    """With proxies in the environment, with children started meanwhile, and without a close."""
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "grpc_proxy"), "http://127.0.0.1:9")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", ROUND_TRIP, str(tmp_path)],
        env={**os.environ, **proxies, "PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")
