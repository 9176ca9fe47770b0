"""Writes and reads through the shim: each refused by its code, nothing half-applied."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from switches.api import ActionCall, CounterValue
from switches.p4rt.protos import p4runtime, text_format
from tests.support.p4rt_bench import (
    DEVICE,
    DROP,
    FORWARD,
    OTHER,
    Bench,
    a_row,
    batch,
    refused,
    route,
    update,
)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.close()


# --- writes


def test_a_batch_reports_each_update_and_applies_the_good_ones(bench: Bench) -> None:
    bench.ready()
    text = (
        update("INSERT", route("a"))
        + update("INSERT", route("a"))
        + update("MODIFY", route("b"))
        + update("DELETE", route("c"))
        + update("UNSPECIFIED", route("d"))
        + "updates { type: INSERT }"
        + update("INSERT", "table_entry { table_id: 77 }")
        + update("INSERT", route("e", FORWARD))
    )
    assert batch(lambda: bench.write(text)) == [
        "OK",
        "ALREADY_EXISTS",
        "NOT_FOUND",
        "NOT_FOUND",
        "INVALID_ARGUMENT",
        "INVALID_ARGUMENT",
        "INVALID_ARGUMENT",
        "OK",
    ]
    assert bench.switch.read_entries("ingress.route") == [
        a_row("a", ActionCall("ingress.drop")),
        a_row("e", ActionCall("ingress.forward", {"port": 3, "mac": 0x41})),
    ]


def test_an_empty_batch_is_no_error(bench: Bench) -> None:
    bench.ready()
    bench.write("")


@pytest.mark.parametrize("atomicity", ["ROLLBACK_ON_ERROR", "DATAPLANE_ATOMIC"])
def test_other_atomicities_are_unimplemented(bench: Bench, atomicity: str) -> None:
    bench.ready()
    text = f"atomicity: {atomicity} " + update("INSERT", route("a"))
    assert refused(lambda: bench.write(text)) == "UNIMPLEMENTED"
    assert bench.switch.writes == 0


def test_a_full_table_is_said_to_be_full(bench: Bench) -> None:
    bench.ready()
    bench.write("".join(update("INSERT", route(dst)) for dst in "abcd"))
    assert batch(lambda: bench.write(update("INSERT", route("e")))) == ["RESOURCE_EXHAUSTED"]


def test_modify_without_an_action_keeps_it(bench: Bench) -> None:
    bench.ready()
    bench.write(update("INSERT", route("a", FORWARD)))
    bench.write(update("MODIFY", route("a", "metadata: 'note'")))
    [found] = bench.read("entities { table_entry { table_id: 0x02000001 } }")
    assert found.table_entry.action.action.action_id == 0x01000001
    assert found.table_entry.metadata == b"note"
    assert batch(lambda: bench.write(update("MODIFY", route("b", "")))) == ["NOT_FOUND"]


def test_delete_looks_at_the_key_alone(bench: Bench) -> None:
    bench.ready()
    bench.write(update("INSERT", route("a")))
    nonsense = "action { action { action_id: 1 } } idle_timeout_ns: 5 meter_config { }"
    bench.write(update("DELETE", route("a", nonsense)))
    assert bench.switch.read_entries("ingress.route") == []


DEFAULT = "table_entry { table_id: 0x02000003 is_default_action: true %s }"
NO_ACTION = "action { action { action_id: 0x01000009 } }"


def test_the_default_action_can_be_set_and_reset(bench: Bench) -> None:
    bench.ready()
    read = f"entities {{ {DEFAULT % ''} }}"
    original = bench.read(read)
    assert original[0].table_entry.action.action.action_id == 0x01000001
    bench.write(update("MODIFY", DEFAULT % (NO_ACTION + " controller_metadata: 7")))
    [changed] = bench.read(read)
    assert changed.table_entry.action.action.action_id == 0x01000009
    assert changed.table_entry.controller_metadata == 7
    assert changed.table_entry.is_default_action
    bench.write(update("MODIFY", DEFAULT % ""))
    assert bench.read(read) == original


@pytest.mark.parametrize(
    ("kind", "entity", "code"),
    [
        ("INSERT", DEFAULT % NO_ACTION, "INVALID_ARGUMENT"),
        ("DELETE", DEFAULT % NO_ACTION, "INVALID_ARGUMENT"),
        ("MODIFY", DEFAULT % (NO_ACTION + " priority: 1"), "INVALID_ARGUMENT"),
        (
            "MODIFY",
            DEFAULT % (NO_ACTION + " match { field_id: 1 lpm { value: 'a' prefix_len: 32 } }"),
            "INVALID_ARGUMENT",
        ),
        ("MODIFY", DEFAULT % (NO_ACTION + " idle_timeout_ns: 1"), "INVALID_ARGUMENT"),
        (
            "MODIFY",
            f"table_entry {{ table_id: 0x02000006 is_default_action: true {NO_ACTION} }}",
            "PERMISSION_DENIED",
        ),
        ("INSERT", f"table_entry {{ table_id: 0x02000005 {NO_ACTION} }}", "INVALID_ARGUMENT"),
        ("DELETE", "table_entry { table_id: 0x02000005 }", "NOT_FOUND"),
        ("INSERT", route("a", DROP + " is_const: true"), "INVALID_ARGUMENT"),
        ("INSERT", route("a", DROP + " idle_timeout_ns: 1"), "INVALID_ARGUMENT"),
        ("INSERT", route("a", DROP + " time_since_last_hit { }"), "INVALID_ARGUMENT"),
        ("INSERT", route("a", DROP + " meter_config { }"), "INVALID_ARGUMENT"),
        ("INSERT", route("a", DROP + " counter_data { byte_count: -1 }"), "INVALID_ARGUMENT"),
        ("INSERT", route("a", "action { action_profile_group_id: 1 }"), "INVALID_ARGUMENT"),
        (
            "INSERT",
            "counter_entry { counter_id: 0x12000001 index { } data { } }",
            "INVALID_ARGUMENT",
        ),
        ("MODIFY", "counter_entry { counter_id: 0x12000009 }", "INVALID_ARGUMENT"),
        ("MODIFY", "counter_entry { counter_id: 0x12000001 index { index: 4 } }", "OUT_OF_RANGE"),
        (
            "MODIFY",
            "counter_entry { counter_id: 0x12000001 index { index: -1 } }",
            "INVALID_ARGUMENT",
        ),
        ("DELETE", "register_entry { register_id: 0x16000001 }", "INVALID_ARGUMENT"),
        ("MODIFY", "register_entry { register_id: 0x16000001 index { } }", "INVALID_ARGUMENT"),
        (
            "MODIFY",
            "register_entry { register_id: 0x16000001 index { index: 8 } data { bitstring: 'a' } }",
            "OUT_OF_RANGE",
        ),
        (
            "MODIFY",
            "direct_counter_entry { table_entry { table_id: 0x02000005 } }",
            "INVALID_ARGUMENT",
        ),
        ("MODIFY", f"direct_counter_entry {{ {route('z', '')} }}", "NOT_FOUND"),
        ("INSERT", f"direct_counter_entry {{ {route('z', '')} }}", "INVALID_ARGUMENT"),
        ("INSERT", "meter_entry { meter_id: 1 }", "UNIMPLEMENTED"),
        ("INSERT", "action_profile_member { member_id: 1 }", "UNIMPLEMENTED"),
        ("INSERT", "packet_replication_engine_entry { }", "UNIMPLEMENTED"),
        ("INSERT", "digest_entry { digest_id: 1 }", "UNIMPLEMENTED"),
    ],
)
def test_an_update_that_may_not_be_is_refused(
    bench: Bench, kind: str, entity: str, code: str
) -> None:
    bench.ready()
    assert batch(lambda: bench.write(update(kind, entity))) == [code]
    assert bench.switch.writes == 0


FIXED = 'table_entry { table_id: 0x02000004 match { field_id: 1 exact { value: "%s" } } %s }'


@pytest.mark.parametrize(
    ("kind", "entity"),
    [
        ("INSERT", FIXED % ("\\002", NO_ACTION)),
        ("MODIFY", FIXED % ("\\001", NO_ACTION)),
        ("DELETE", FIXED % ("\\001", "")),
    ],
)
def test_the_programs_own_entries_are_protected(bench: Bench, kind: str, entity: str) -> None:
    bench.ready()
    assert batch(lambda: bench.write(update(kind, entity))) == ["PERMISSION_DENIED"]
    [entry] = bench.read("entities { table_entry { table_id: 0x02000004 } }")
    assert entry.table_entry.is_const


def test_a_switch_that_is_gone_is_unavailable(bench: Bench) -> None:
    bench.ready()
    bench.switch.gone = True
    assert batch(lambda: bench.write(update("INSERT", route("a")))) == ["UNAVAILABLE"]
    assert batch(lambda: bench.read("entities { table_entry { } }")) == ["UNAVAILABLE"]


def test_writes_of_several_clients_do_not_mix(bench: Bench) -> None:
    bench.ready()
    failures: list[BaseException] = []

    def toggle(dst: str) -> None:
        try:
            for _ in range(20):
                bench.write(update("INSERT", route(dst)) + update("DELETE", route(dst)))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=toggle, args=("a",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert bench.switch.writes == 160


# --- reads


def keys(entities: list[Any]) -> list[bytes]:
    return [entity.table_entry.match[0].exact.value for entity in entities]


def test_entries_can_be_filtered(bench: Bench) -> None:
    bench.ready()
    bench.write(
        update("INSERT", route("a", DROP + " controller_metadata: 5"))
        + update("INSERT", route("b", DROP + " metadata: 'm'"))
        + update("INSERT", route("c", FORWARD))
    )
    everything = bench.read("entities { table_entry { } }")
    assert len(everything) == 4
    assert {entity.table_entry.table_id for entity in everything} == {0x02000001, 0x02000004}
    for what, expected in [
        ("", [b"a", b"b", b"c"]),
        (
            "match { field_id: 1 exact { value: 'b' } }"
            "match { field_id: 2 exact { value: '\\007' } }",
            [b"b"],
        ),
        ("controller_metadata: 5", [b"a"]),
        ("metadata: 'm'", [b"b"]),
        ("action { action { action_id: 0x01000001 } }", [b"c"]),
        ("action { action { action_id: 0x01000002 } } metadata: 'm'", [b"b"]),
        ("metadata: 'other'", []),
    ]:
        found = bench.read(f"entities {{ table_entry {{ table_id: 0x02000001 {what} }} }}")
        assert keys(found) == expected


def test_entries_are_found_by_priority(bench: Bench) -> None:
    bench.ready()
    acl = "table_entry { table_id: 0x02000002 priority: %d %s }"
    bench.write("".join(update("INSERT", acl % (p, DROP)) for p in (1, 2)))
    found = bench.read("entities { %s }" % (acl % (2, "")))
    assert [entity.table_entry.priority for entity in found] == [2]


@pytest.mark.parametrize(
    "entity",
    [
        "",
        "table_entry { table_id: 77 }",
        "table_entry { priority: 3 }",
        "table_entry { table_id: 0x02000001 match { field_id: 1 exact { value: 'a' } } }",
        "table_entry { table_id: 0x02000001 priority: 1 }",
        "table_entry { table_id: 0x02000001 action { action { action_id: 5 } } }",
        "table_entry { table_id: 0x02000002 counter_data { } }",
        "table_entry { table_id: 0x02000001 meter_config { } }",
        "table_entry { table_id: 0x02000001 time_since_last_hit { } }",
        "table_entry { table_id: 0x02000003 is_default_action: true priority: 1 }",
        "counter_entry { counter_id: 0x16000001 }",
        "counter_entry { index { index: 1 } }",
        "counter_entry { counter_id: 0x12000001 index { index: -1 } }",
        "register_entry { index { } }",
        "direct_counter_entry { table_entry { table_id: 0x02000002 } }",
    ],
)
def test_a_malformed_read_is_an_invalid_argument(bench: Bench, entity: str) -> None:
    bench.ready()
    assert batch(lambda: bench.read(f"entities {{ {entity} }}")) == ["INVALID_ARGUMENT"]


def test_a_read_answers_what_it_can_and_says_what_it_cannot(bench: Bench) -> None:
    bench.ready()
    request = text_format.Parse(
        "entities { counter_entry { counter_id: 0x12000002 } }"
        "entities { meter_entry { meter_id: 5 } }"
        "entities { register_entry { register_id: 0x16000001 index { index: 8 } } }",
        p4runtime.ReadRequest(device_id=DEVICE),
    )
    found: list[Any] = []

    def read() -> None:
        for response in bench.stub.read(request, timeout=5):
            found.extend(response.entities)

    assert batch(read) == ["OK", "UNIMPLEMENTED", "OUT_OF_RANGE"]
    assert len(found) == 2


def test_counters_are_read_one_by_one_by_array_and_all(bench: Bench) -> None:
    bench.ready()
    bench.switch.count("ingress.drops", 2, CounterValue(packets=3, bytes=300))
    [one] = bench.read("entities { counter_entry { counter_id: 0x12000001 index { index: 2 } } }")
    assert one.counter_entry.index.index == 2
    assert (one.counter_entry.data.packet_count, one.counter_entry.data.byte_count) == (3, 300)
    [zero] = bench.read("entities { counter_entry { counter_id: 0x12000001 index { } } }")
    assert zero.counter_entry.HasField("data")
    assert len(bench.read("entities { counter_entry { counter_id: 0x12000001 } }")) == 4
    assert len(bench.read("entities { counter_entry { } }")) == 6


def test_counters_can_be_set_where_the_switch_can(bench: Bench) -> None:
    bench.ready()
    data = "data { packet_count: 1 byte_count: 2 }"
    bench.write(update("MODIFY", f"counter_entry {{ counter_id: 0x12000002 {data} }}"))
    assert bench.switch.read_counter("egress.sent") == [CounterValue(1, 2)] * 2
    bench.write(update("INSERT", route("a", DROP + " counter_data { packet_count: 5 }")))
    bench.write(update("INSERT", route("b")))
    bench.write(update("MODIFY", f"direct_counter_entry {{ {route('b', '')} {data} }}"))
    counted = "entities { table_entry { table_id: 0x02000001 counter_data { } } }"
    values = [entity.table_entry.counter_data.packet_count for entity in bench.read(counted)]
    assert values == [5, 1]


def test_counters_cannot_be_set_where_the_switch_cannot(bench: Bench) -> None:
    bench.primary(device=OTHER)
    bench.pipeline(device_id=OTHER)
    text = (
        update("MODIFY", "counter_entry { counter_id: 0x12000002 data { packet_count: 1 } }")
        + update("MODIFY", "counter_entry { counter_id: 0x12000002 }")
        + update("INSERT", route("a", DROP + " counter_data { packet_count: 5 }"))
        + update("INSERT", route("b", DROP + " counter_data { }"))
    )
    assert batch(lambda: bench.write(text, device=OTHER)) == [
        "UNIMPLEMENTED",
        "OK",
        "UNIMPLEMENTED",
        "OK",
    ]
    assert bench.plain.read_entries("ingress.route") == [a_row("b", ActionCall("ingress.drop"))]


def test_direct_counters_are_read_by_row_by_table_and_all(bench: Bench) -> None:
    bench.ready()
    bench.write(update("INSERT", route("a")) + update("INSERT", route("b")))
    bench.switch.hit(a_row("b", ActionCall("ingress.drop")), CounterValue(9, 99))
    [one] = bench.read(f"entities {{ direct_counter_entry {{ {route('b', '')} }} }}")
    assert one.direct_counter_entry.data.packet_count == 9
    assert one.direct_counter_entry.table_entry.table_id == 0x02000001
    table = "entities { direct_counter_entry { table_entry { table_id: 0x02000001 } } }"
    assert len(bench.read(table)) == 2
    assert len(bench.read("entities { direct_counter_entry { } }")) == 2
    default = "table_entry { table_id: 0x02000001 is_default_action: true }"
    assert len(bench.read(f"entities {{ direct_counter_entry {{ {default} }} }}")) == 1
    missing = f"entities {{ direct_counter_entry {{ {route('z', '')} }} }}"
    assert batch(lambda: bench.read(missing)) == ["NOT_FOUND"]
    plain = bench.read("entities { table_entry { table_id: 0x02000001 } }")
    assert not any(entity.table_entry.HasField("counter_data") for entity in plain)


def test_registers_are_written_and_read(bench: Bench) -> None:
    bench.ready()
    cell = "register_entry { register_id: 0x16000001 index { index: 3 } %s }"
    bench.write(update("MODIFY", cell % "data { bitstring: '\\001\\002' }"))
    [one] = bench.read(f"entities {{ {cell % ''} }}")
    assert one.register_entry.data.bitstring == b"\x01\x02"
    negative = "register_entry { register_id: 0x16000002 index { } data { bitstring: '\\376' } }"
    bench.write(update("MODIFY", negative))
    assert bench.switch.read_register("ingress.offset") == [0xFFE, 0]
    [again, _] = bench.read("entities { register_entry { register_id: 0x16000002 } }")
    assert again.register_entry.data.bitstring == b"\xfe"
    bench.write(update("MODIFY", "register_entry { register_id: 0x16000003 data { bool: true } }"))
    assert bench.switch.read_register("ingress.seen") == [1, 1]
    assert len(bench.read("entities { register_entry { } }")) == 12


def test_everything_can_be_asked_for(bench: Bench) -> None:
    """The specification's example of a read of the whole state; what we have none of is empty."""
    bench.ready()
    everything = """
        entities { extern_entry { } } entities { table_entry { } }
        entities { action_profile_member { } } entities { action_profile_group { } }
        entities { meter_entry { } } entities { direct_meter_entry { } }
        entities { counter_entry { } } entities { direct_counter_entry { } }
        entities { packet_replication_engine_entry { multicast_group_entry { } } }
        entities { packet_replication_engine_entry { clone_session_entry { } } }
        entities { value_set_entry { } } entities { register_entry { } }
        entities { digest_entry { } }"""
    kinds = {entity.WhichOneof("entity") for entity in bench.read(everything)}
    assert kinds == {"table_entry", "counter_entry", "register_entry"}
