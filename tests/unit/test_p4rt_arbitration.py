"""Who is primary: the rules of the specification, one claim each."""

from typing import Any

import pytest

from switches.api import SwitchError, SwitchErrorCode
from switches.p4rt.arbitration import (
    ALREADY_EXISTS,
    NOT_FOUND,
    OK,
    ROLES_MAX,
    STREAMS_PER_ROLE_MAX,
    Arbiter,
    Outcome,
    Session,
    to_uint128,
    uint128,
)
from switches.p4rt.protos import any_pb2, p4runtime


def update(election_id: int | None, role: str | None = None) -> Any:
    message = p4runtime.MasterArbitrationUpdate(device_id=7)
    if election_id is not None:
        message.election_id.CopyFrom(to_uint128(election_id))
    if role is not None:
        message.role.name = role
    return message


def codes(outcome: Outcome) -> list[tuple[Session, int]]:
    return [(session, notice.status.code) for session, notice in outcome.now + outcome.after_writes]


def may_write(arbiter: Arbiter, election_id: int, role: str = "") -> bool:
    try:
        arbiter.check_writer(role, to_uint128(election_id))
    except SwitchError as error:
        return error.code is not SwitchErrorCode.PERMISSION_DENIED
    return True


def test_the_highest_election_id_is_primary() -> None:
    arbiter, low, high = Arbiter(7), Session(), Session()
    assert codes(arbiter.update(low, update(1))) == [(low, OK)]
    outcome = arbiter.update(high, update(2 << 64))
    assert codes(outcome) == [(low, ALREADY_EXISTS), (high, OK)]
    assert [session for session, _ in outcome.after_writes] == [high]
    assert uint128(outcome.now[0][1].election_id) == 2 << 64
    assert not may_write(arbiter, 1)
    assert may_write(arbiter, 2 << 64)


def test_a_lower_id_is_a_backup_and_only_it_is_told() -> None:
    arbiter, high, low = Arbiter(7), Session(), Session()
    arbiter.update(high, update(5))
    assert codes(arbiter.update(low, update(4))) == [(low, ALREADY_EXISTS)]
    assert may_write(arbiter, 5)


def test_an_id_in_use_is_refused_and_free_when_its_holder_leaves() -> None:
    arbiter, first, second = Arbiter(7), Session(), Session()
    arbiter.update(first, update(5))
    with pytest.raises(SwitchError) as caught:
        arbiter.update(second, update(5))
    assert caught.value.code is SwitchErrorCode.INVALID_ARGUMENT
    assert may_write(arbiter, 5)
    arbiter.leave(first)
    assert codes(arbiter.update(second, update(5))) == [(second, OK)]


def test_mastership_ends_with_the_stream_and_waits_for_an_id_as_high() -> None:
    arbiter, primary, backup = Arbiter(7), Session(), Session()
    arbiter.update(primary, update(9))
    arbiter.update(backup, update(3))
    [(told, notice)] = arbiter.leave(primary)
    assert told is backup
    assert notice.status.code == NOT_FOUND
    assert uint128(notice.election_id) == 9
    assert not may_write(arbiter, 9)
    assert not may_write(arbiter, 3)
    assert codes(arbiter.update(backup, update(8))) == [(backup, NOT_FOUND)]
    assert codes(arbiter.update(backup, update(9))) == [(backup, OK)]


def test_leaving_twice_or_without_a_role_changes_nothing() -> None:
    arbiter, primary = Arbiter(7), Session()
    assert arbiter.leave(Session()) == []
    arbiter.update(primary, update(1))
    arbiter.leave(primary)
    assert arbiter.leave(primary) == []


def test_a_primary_can_step_down() -> None:
    arbiter, primary, backup = Arbiter(7), Session(), Session()
    arbiter.update(primary, update(9))
    arbiter.update(backup, update(3))
    assert codes(arbiter.update(primary, update(2))) == [(primary, NOT_FOUND), (backup, NOT_FOUND)]
    assert not may_write(arbiter, 2)


def test_without_an_election_id_a_client_is_never_primary() -> None:
    arbiter, quiet = Arbiter(7), Session()
    outcome = arbiter.update(quiet, update(None))
    assert codes(outcome) == [(quiet, NOT_FOUND)]
    assert not outcome.now[0][1].HasField("election_id")
    with pytest.raises(SwitchError):
        arbiter.check_writer("", None)


def test_zero_is_an_election_id() -> None:
    arbiter, primary = Arbiter(7), Session()
    assert codes(arbiter.update(primary, update(0))) == [(primary, OK)]
    assert may_write(arbiter, 0)


def test_roles_have_their_own_primaries() -> None:
    arbiter, one, other = Arbiter(7), Session(), Session()
    arbiter.update(one, update(1))
    outcome = arbiter.update(other, update(1, "telemetry"))
    assert codes(outcome) == [(other, OK)]
    assert outcome.after_writes[0][1].role.name == "telemetry"
    assert may_write(arbiter, 1)
    assert may_write(arbiter, 1, "telemetry")
    with pytest.raises(SwitchError) as caught:
        arbiter.check_writer("nobody", to_uint128(1))
    assert caught.value.code is SwitchErrorCode.NOT_FOUND


def test_a_stream_keeps_its_role() -> None:
    arbiter, session = Arbiter(7), Session()
    arbiter.update(session, update(1))
    with pytest.raises(SwitchError) as caught:
        arbiter.update(session, update(1, "telemetry"))
    assert caught.value.code is SwitchErrorCode.FAILED_PRECONDITION


def test_a_role_config_is_refused() -> None:
    arbiter, message = Arbiter(7), update(1, "x")
    message.role.config.CopyFrom(any_pb2.Any(type_url="a/b", value=b"c"))
    with pytest.raises(SwitchError) as caught:
        arbiter.update(Session(), message)
    assert caught.value.code is SwitchErrorCode.INVALID_ARGUMENT


def test_clients_and_roles_are_bounded() -> None:
    arbiter = Arbiter(7)
    for i in range(STREAMS_PER_ROLE_MAX):
        arbiter.update(Session(), update(i))
    with pytest.raises(SwitchError) as caught:
        arbiter.update(Session(), update(99))
    assert caught.value.code is SwitchErrorCode.RESOURCE_EXHAUSTED
    for i in range(ROLES_MAX - 1):
        arbiter.update(Session(), update(1, f"role {i}"))
    with pytest.raises(SwitchError) as caught:
        arbiter.update(Session(), update(1, "one more"))
    assert caught.value.code is SwitchErrorCode.RESOURCE_EXHAUSTED
