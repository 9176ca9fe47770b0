"""Who may write: P4Runtime's client arbitration for one device, without I/O.

Specification, section "Client Arbitration and Controller Replication".  Per role the client with
the highest election id ever seen is primary, as long as its stream lives; when it goes there is
none until somebody comes with an id at least as high.  A client without an id is always a backup.

Roles other than the default one are told apart by name and each sees the whole pipeline, as an
unset role.config means; a role.config is refused, since no scheme for it has been agreed.
"""

from dataclasses import dataclass, field
from typing import Any

from switches.api import SwitchError, SwitchErrorCode
from switches.p4rt.protos import p4runtime

STREAMS_PER_ROLE_MAX = 16
ROLES_MAX = 16
"""A role is remembered for good (its highest election id is), so their number is bounded."""

OK, NOT_FOUND, ALREADY_EXISTS = 0, 5, 6  # google.rpc.Code


@dataclass(eq=False, slots=True)
class Session:
    """One stream.  `device_id` and `role` are None until its first arbitration update."""

    device_id: int | None = None
    role: str | None = None
    election_id: int | None = None


@dataclass(slots=True)
class _Role:
    highest: int | None = None
    primary: Session | None = None
    live: list[Session] = field(default_factory=list)


Notices = list[tuple[Session, Any]]
"""Sessions and the MasterArbitrationUpdate each is to get."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """`now`: send at once.  `after_writes`: send when every write already begun is finished."""

    now: Notices
    after_writes: Notices


def uint128(message: Any) -> int:
    return int(message.high) << 64 | int(message.low)


def to_uint128(value: int) -> Any:
    return p4runtime.Uint128(high=value >> 64, low=value & (1 << 64) - 1)


class Arbiter:
    """The roles of one device.  Not thread-safe: the caller holds one lock around every call."""

    def __init__(self, device_id: int) -> None:
        self._device_id = device_id
        self._roles = {"": _Role()}

    def update(self, session: Session, message: Any) -> Outcome:
        """A MasterArbitrationUpdate from a stream.  A SwitchError ends that stream."""
        role = self._admit(session, message)
        was_primary = role.primary is session
        past = role.highest
        mine = session.election_id
        if mine is not None and (past is None or mine >= past):
            role.highest, role.primary = mine, session
            everyone = self._notices(role, role.live)
            return Outcome(
                now=[(to, notice) for to, notice in everyone if to is not session],
                after_writes=[(to, notice) for to, notice in everyone if to is session],
            )
        if was_primary:
            role.primary = None
            return Outcome(self._notices(role, role.live), [])
        return Outcome(self._notices(role, [session]), [])

    def leave(self, session: Session) -> Notices:
        """The stream is gone."""
        if session.role is None:
            return []
        role = self._roles[session.role]
        role.live.remove(session)
        session.role = None
        if role.primary is not session:
            return []
        role.primary = None
        return self._notices(role, role.live)

    def is_primary(self, session: Session) -> bool:
        return session.role is not None and self._roles[session.role].primary is session

    def check_writer(self, role_name: str, election_id: Any) -> None:
        """Raise unless the primary of that role is who the request says it comes from.

        election_id: the Uint128 message of the request, or None where it was not set.
        """
        role = self._roles.get(role_name)
        if role is None:
            raise SwitchError(SwitchErrorCode.NOT_FOUND, f"there is no role {role_name!r}")
        primary = role.primary
        if election_id is None or primary is None or primary.election_id != uint128(election_id):
            raise SwitchError(
                SwitchErrorCode.PERMISSION_DENIED, "only the primary client may do this"
            )

    def _admit(self, session: Session, message: Any) -> _Role:
        name = message.role.name
        known = session.role is not None
        if known and session.role != name:
            raise SwitchError(
                SwitchErrorCode.FAILED_PRECONDITION,
                f"this stream has role {session.role!r}; another needs a new stream",
            )
        role = self._roles.get(name) or _Role()
        election_id = uint128(message.election_id) if message.HasField("election_id") else None
        if election_id is not None and any(
            other.election_id == election_id for other in role.live if other is not session
        ):
            raise SwitchError(
                SwitchErrorCode.INVALID_ARGUMENT,
                f"election id {election_id} is in use by another client",
            )
        if message.role.HasField("config"):
            raise SwitchError(
                SwitchErrorCode.INVALID_ARGUMENT, "no scheme for role.config has been agreed"
            )
        if not known:
            if len(role.live) >= STREAMS_PER_ROLE_MAX:
                raise SwitchError(SwitchErrorCode.RESOURCE_EXHAUSTED, "too many clients")
            if name not in self._roles and len(self._roles) >= ROLES_MAX:
                raise SwitchError(SwitchErrorCode.RESOURCE_EXHAUSTED, "too many roles")
            self._roles[name] = role
            role.live.append(session)
            session.role = name
        session.election_id = election_id
        return role

    def _notices(self, role: _Role, to: list[Session]) -> Notices:
        return [(session, self._notice(role, session)) for session in to]

    def _notice(self, role: _Role, session: Session) -> Any:
        notice = p4runtime.MasterArbitrationUpdate(device_id=self._device_id)
        if session.role:
            notice.role.name = session.role
        if role.highest is not None:
            notice.election_id.CopyFrom(to_uint128(role.highest))
        if role.primary is session:
            notice.status.code, notice.status.message = OK, "you are primary"
        elif role.primary is not None:
            notice.status.code, notice.status.message = ALREADY_EXISTS, "another is primary"
        else:
            notice.status.code, notice.status.message = NOT_FOUND, "there is no primary"
        return notice
