"""The BMv2 back end without BMv2: its Thrift, its arithmetic, its refusals."""

import struct
from dataclasses import replace

import pytest

from switches.api import PortConfig, QueueLimit, SwitchError, SwitchErrorCode
from switches.bmv2 import program
from switches.bmv2.device import Bmv2Switch, packets_per_second
from switches.bmv2.interfaces import InterfaceCounters, parse_net_dev
from switches.bmv2.thrift import ThriftClient, ThriftError, encode_call, i32, i64, text

# One call as Apache Thrift 0.17's TBinaryProtocol under TMultiplexedProtocol writes it.
GOLDEN_CALL = bytes.fromhex(
    "80010001"  # strict version, CALL
    "00000008" "733a6d6574686f64"  # "s:method"
    "00000007"  # sequence
    "08" "0001" "ffffffff"  # 1: i32 -1
    "0b" "0002" "00000002" "6869"  # 2: string "hi"
    "0a" "0003" "0000000000000005"  # 3: i64 5
    "00"
)  # fmt: skip


class Recorded:
    """A stream that answers with bytes laid ready, a few at a time."""

    def __init__(self, answer: bytes) -> None:
        self.sent = b""
        self._answer = answer

    def sendall(self, data: bytes, /) -> None:
        self.sent += data

    def recv(self, size: int, /) -> bytes:
        size = min(size, 3)
        chunk, self._answer = self._answer[:size], self._answer[size:]
        return chunk

    def close(self) -> None: ...


def reply(body: str, *, kind: int = 2, name: bytes = b"m", sequence: int = 1) -> bytes:
    head = struct.pack(">Ii", 0x8001_0000 | kind, len(name)) + name
    return head + struct.pack(">i", sequence) + bytes.fromhex(body)


def call(answer: bytes) -> object:
    return ThriftClient(Recorded(answer)).call("s", "m")


def test_a_call_has_the_bytes_of_the_binary_protocol() -> None:
    assert encode_call("s:method", 7, (i32(-1), text("hi"), i64(5))) == GOLDEN_CALL


def test_results_of_every_type_used_are_read() -> None:
    assert call(reply("08 0000 00000005 00")) == 5
    assert call(reply("00")) is None
    assert call(reply("0f 0000 0a 00000002 0000000000000001 0000000000000002 00")) == [1, 2]
    port = "08 0001 00000003 0b 0002 00000001 61 02 0003 01 0d 0004 0b 0b 00000000 00"
    assert call(reply("0f 0000 0c 00000001" + port + "00")) == [{1: 3, 2: "a", 3: True, 4: {}}]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (reply("0b 0001 00000002 6e6f 08 0002 00000001 00", kind=3), "m: no"),
        (reply("0c 0001 08 0001 00000001 00 00"), "m: refused with {1: {1: 1}}"),
        (reply("00", name=b"x"), "the answer is that of x"),
        (reply("00", sequence=2), "the answer is that of m"),
        (b"HTTP/1.1", "not the strict binary protocol"),
        (reply("0f 0000 0a 7fffffff"), "a length of 2147483647"),
        (reply("08 0000 00"), "ended within an answer"),
    ],
)
def test_what_is_no_result_is_an_error(answer: bytes, message: str) -> None:
    with pytest.raises(ThriftError, match=message):
        call(answer)


class NoTables:
    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"{name} was called")


def switch(stream: Recorded) -> Bmv2Switch:
    return Bmv2Switch(
        NoTables(),  # type: ignore[arg-type]
        ThriftClient(stream),
        data_frame_bytes=4238,
        interfaces=dict,
    )


def test_a_port_gets_rates_in_packets_per_second_and_depths_by_priority() -> None:
    done = [
        reply("08 0000 00000000 00", name=name, sequence=sequence)
        for sequence, name in enumerate(
            [b"set_egress_priority_queue_depth", b"set_egress_priority_queue_rate"] * 2, start=1
        )
    ]
    stream = Recorded(b"".join(done))
    limits = (QueueLimit(32, 0), QueueLimit(500, 0))
    switch(stream).configure_port(3, PortConfig(rate_bps=5_000_000, queues=limits))
    place = (i32(3), i32(0))
    assert stream.sent.startswith(
        encode_call("simple_switch:set_egress_priority_queue_depth", 1, (*place, i32(32)))
        + encode_call("simple_switch:set_egress_priority_queue_rate", 2, (*place, i64(147)))
    )
    assert stream.sent.endswith(
        encode_call("simple_switch:set_egress_priority_queue_rate", 4, (i32(3), i32(1), i64(4058)))
    )


def test_a_rate_is_at_least_one_packet_a_second() -> None:
    assert packets_per_second(5_000_000, 4238) == 147  # 147.5 frames of 4238 B
    assert packets_per_second(1, 4238) == 1
    assert packets_per_second(0, 4238) == 0


def test_a_delay_is_refused_and_so_is_a_pause() -> None:
    bmv2 = switch(Recorded(b""))
    config = PortConfig(rate_bps=5_000_000)
    for delayed in (replace(config, egress_delay_ns=1), replace(config, ingress_delay_ns=1)):
        with pytest.raises(SwitchError, match="BMv2 has no delay") as refused:
            bmv2.configure_port(0, delayed)
        assert refused.value.code is SwitchErrorCode.UNIMPLEMENTED
    with pytest.raises(SwitchError, match="BMv2 cannot pause a queue"):
        bmv2.pause_queue(0, 0, True)


def test_a_register_that_is_not_there_is_a_switch_error() -> None:
    answer = reply("0c 0001 08 0001 00000001 00 00", name=b"bm_register_read_all")
    with pytest.raises(SwitchError):
        switch(Recorded(answer)).read_register("nothing")
    with pytest.raises(SwitchError, match="ended within an answer"):
        switch(Recorded(b"")).read_register("nothing")


def test_interface_counters_are_read_from_the_kernels_text() -> None:
    content = (
        "Inter-|   Receive                                                |  Transmit\n"
        " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs "
        "drop fifo colls carrier compressed\n"
        "    lo:       0       0    0    0    0     0          0         0        0       0    0 "
        "   0    0     0       0          0\n"
        "p0t0n0-eth1: 1270      5    0    2    0     0          0         0     4238       1    0 "
        "   3    0     0       0          0\n"
    )
    assert parse_net_dev(content)["p0t0n0-eth1"] == InterfaceCounters(
        rx_packets=5, rx_bytes=1270, rx_dropped=2, tx_packets=1, tx_bytes=4238, tx_dropped=3
    )


def test_the_command_line_has_two_queues_and_the_ports() -> None:
    words = program.command(
        "simple_switch_grpc",
        device_id=7,
        interfaces={0: "p0t0n0-eth0", 1: "p0t0n0-eth1"},
        p4runtime_address="unix:/run/x",
    )
    assert " ".join(words) == (
        "simple_switch_grpc --no-p4 --device-id 7 --thrift-port 9090 -i 0@p0t0n0-eth0 "
        "-i 1@p0t0n0-eth1 -- --priority-queues 2 --grpc-server-addr unix:/run/x"
    )


def test_without_bmv2_one_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(program.Bmv2Missing) as missing:
        program.find()
    assert "p4lang-bmv2" in str(missing.value)
    assert "\n" not in str(missing.value)
