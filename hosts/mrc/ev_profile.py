"""EV profiles of the control API (mrc_ctl.h): what EVs a QP may use, and how they are laid in
headers.

A *format profile* says how an EV appears on the wire: STEV (flow label and UDP source port),
SRV6 (uSID list), UDP (source port alone), each cut in fields.  An *EV profile* names its EVs:
EXPLICIT ones, one by one with their ports, GENERATED ones within the bounds of its fields, or
AUTO, the NIC's own choice. Ports are 1-based here as in the header, planes 0-based as everywhere
else: plane = port - 1.

Both kinds live INIT -> OFFLINE -> ONLINE -> OFFLINE -> INIT: configured while OFFLINE, used by
QPs while ONLINE, emptied in INIT.
"""

import enum
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from hosts.errors import UsageError
from hosts.mrc.ev import EvSpec, EvState

EV_BYTES = 32
"""An EV in the API: STEV uses the first 4, SRV6 16 for the address and 16 for a one-segment SRH."""

EV_BITS = EV_BYTES * 8
EV_COUNT_MAX = 1024


class EvFormat(enum.Enum):
    STEV = "stev"
    SRV6 = "srv6"
    UDP = "udp"


FORMAT_BITS = {EvFormat.STEV: 32, EvFormat.SRV6: 128, EvFormat.UDP: 16}
SRH_BITS = 256
"""SRV6 with a segment routing header of one segment."""


class EvMode(enum.Enum):
    AUTO = "auto"
    EXPLICIT = "exp"
    GENERATED = "gen"


class ProfileState(enum.Enum):
    INIT = "init"
    OFFLINE = "offline"
    ONLINE = "online"


TRANSITIONS = frozenset(
    {
        (ProfileState.INIT, ProfileState.OFFLINE),
        (ProfileState.OFFLINE, ProfileState.ONLINE),
        (ProfileState.ONLINE, ProfileState.OFFLINE),
        (ProfileState.OFFLINE, ProfileState.INIT),
    }
)


class EvMask(enum.IntFlag):
    """EV states in the API's event mask; only these two are told."""

    GOOD = 1 << 0
    ASSUMED_BAD = 1 << 1


NO_EVENTS = EvMask(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvField:
    """`width` bits starting as `init_val`, of which those in `mask` come from the EV.

    min_val, max_val bound the masked bits of a generated EV; both 0 means no bounds.
    """

    width: int
    init_val: int = 0
    min_val: int = 0
    max_val: int = 0
    mask: int = 0

    def __post_init__(self) -> None:
        values = (self.init_val, self.mask, self.min_val, self.max_val)
        if not 1 <= self.width <= EV_BITS or min(values) < 0 or max(values) >= 1 << self.width:
            raise UsageError(f"EV field of {self.width} bits: a value does not fit")
        if self.min_val > self.max_val:
            raise UsageError("EV field: min_val above max_val")

    @property
    def ev_bits(self) -> int:
        """How many bits of the EV this field takes."""
        return self.mask.bit_count()

    def fill(self, bits: int) -> int:
        """`init_val` with the masked bits, MSB first, overwritten by `bits`."""
        value, left = self.init_val, self.ev_bits
        for position in range(self.width - 1, -1, -1):
            if self.mask >> position & 1:
                left -= 1
                bit = bits >> left & 1
                value = value & ~(1 << position) | bit << position
        return value

    def draw(self, rng: Random) -> int:
        """Masked bits for a generated EV."""
        if self.min_val or self.max_val:
            return rng.randint(self.min_val, self.max_val)
        return rng.getrandbits(self.ev_bits) if self.ev_bits else 0


def expand(fields: Sequence[EvField], widths: Sequence[int], ev: bytes) -> bytes:
    """The EV as it goes on the wire, 32 bytes, left aligned (facts/mrc.md 1.4).

    `widths` are the format's fields; a narrower field of the profile is right aligned in its own.
    Raises UsageError where they do not fit together.
    """
    if len(fields) > len(widths) or sum(widths) > EV_BITS or len(ev) != EV_BYTES:
        raise UsageError("EV expansion: fields, format and EV do not fit together")
    source, taken = int.from_bytes(ev, "big"), 0
    value, used = 0, 0
    for item, width in zip(fields, widths, strict=False):
        if item.width > width:
            raise UsageError(f"EV expansion: a field of {item.width} bits in one of {width}")
        taken += item.ev_bits
        bits = source >> (EV_BITS - taken) & ((1 << item.ev_bits) - 1)
        value = value << width | item.fill(bits)
        used += width
    return (value << (EV_BITS - used)).to_bytes(EV_BYTES, "big")


@dataclass(frozen=True, slots=True)
class EvFormatProfile:
    """How EVs are laid in headers.  Raises UsageError if the fields are wider than the format."""

    format: EvFormat
    widths: tuple[int, ...]
    with_srh: bool = False

    def __post_init__(self) -> None:
        limit = SRH_BITS if self.with_srh else FORMAT_BITS[self.format]
        if self.with_srh and self.format is not EvFormat.SRV6:
            raise UsageError("only SRV6 has an SRH")
        if not self.widths or min(self.widths) < 1 or sum(self.widths) > limit:
            raise UsageError(f"{self.format.value}: fields of {sum(self.widths)} bits in {limit}")


AUTO_FIELDS = {
    EvFormat.STEV: ((32,), (EvField(width=32, mask=0xFFFF_FFFF),)),
    EvFormat.UDP: ((16,), (EvField(width=16, mask=0xFFFF),)),
}
"""What the NIC uses for AUTO.  It cannot invent SRv6 paths."""


@dataclass(frozen=True, slots=True)
class EvEntry:
    """An EV and the port (1-based) it leaves by; what is known of it."""

    ev: bytes
    port: int
    state: EvState = EvState.GOOD
    drop_count: int = 0


@dataclass(frozen=True, slots=True)
class EvEventRecord:
    """An EV became GOOD or ASSUMED_BAD (mrc_ctl_poll_ev_event)."""

    profile_id: int
    ev: bytes
    port: int
    drop_count: int
    state: EvState


@dataclass(slots=True)
class EvProfile:
    """One EV profile of a NIC with `port_count` ports; `profile_id` has 64 bits.

    Raises UsageError, and changes nothing, for whatever the state or the mode does not allow.
    """

    profile_id: int
    port_count: int
    state: ProfileState = ProfileState.INIT
    mode: EvMode = EvMode.AUTO
    format: EvFormatProfile | None = None
    fields: tuple[EvField, ...] = ()
    entries: list[EvEntry] = field(default_factory=list)
    ev_count: int = 0
    ev_min_active: int = 0
    ev_event_mask: EvMask = NO_EVENTS
    denied: set[bytes] = field(default_factory=set)
    """Expanded EVs on the denylist, whichever operation put them there."""
    users: int = 0
    """QPs that hold it; it cannot leave ONLINE before they are gone."""

    # -- life cycle --------------------------------------------------------------------------------

    def set_state(self, state: ProfileState) -> None:
        if (self.state, state) not in TRANSITIONS:
            raise UsageError(f"EV profile: {self.state.value} does not lead to {state.value}")
        if self.state is ProfileState.ONLINE and self.users:
            raise UsageError(f"EV profile: in use by {self.users} QPs")
        if state is ProfileState.ONLINE:
            self._check_complete()
        if state is ProfileState.INIT:
            self.mode, self.format, self.fields = EvMode.AUTO, None, ()
            self.entries, self.denied = [], set()
            self.ev_count = self.ev_min_active = 0
            self.ev_event_mask = NO_EVENTS
        self.state = state

    def configure(
        self,
        *,
        mode: EvMode,
        format: EvFormatProfile,
        fields: Sequence[EvField] = (),
        entries: Sequence[tuple[bytes, int]] = (),
        ev_count: int = 0,
        ev_min_active: int = 0,
        ev_event_mask: EvMask = NO_EVENTS,
    ) -> None:
        """mrc_ctl_modify_ev_profile.  `ev_count`: of EXPLICIT 0 means all that are listed."""
        if self.state is not ProfileState.OFFLINE:
            raise UsageError(f"EV profile: configured only while offline, not {self.state.value}")
        draft = replace(
            self, mode=mode, format=format, fields=tuple(fields), entries=[],
            ev_count=ev_count or len(entries), ev_min_active=ev_min_active,
            ev_event_mask=ev_event_mask,
        )  # fmt: skip
        draft.entries = [draft._checked(ev, port) for ev, port in entries]
        draft._check_complete()
        self.mode, self.format, self.fields = mode, format, draft.fields
        self.entries, self.ev_count = draft.entries, draft.ev_count
        self.ev_min_active, self.ev_event_mask = ev_min_active, ev_event_mask

    def _check_complete(self) -> None:
        if self.format is None:
            raise UsageError("EV profile: no format")
        if not 1 <= self.ev_count <= EV_COUNT_MAX:
            raise UsageError(f"EV profile: ev_count is not 1 to {EV_COUNT_MAX}")
        if not 0 <= self.ev_min_active <= self.ev_count:
            raise UsageError("EV profile: ev_min_active is not 0 to ev_count")
        if (self.mode is EvMode.EXPLICIT) != bool(self.entries):
            raise UsageError("EV profile: EVs are listed if and only if it is explicit")
        if self.mode is EvMode.EXPLICIT and self.ev_count > len(self.entries):
            raise UsageError("EV profile: ev_count is more than the EVs listed")
        if self.mode is EvMode.AUTO and self.format.format not in AUTO_FIELDS:
            raise UsageError("EV profile: auto has no way to find SRv6 paths")
        if self.mode is not EvMode.AUTO:
            expand(self.fields, self.format.widths, bytes(EV_BYTES))
        if self.mode is EvMode.GENERATED and not any(item.ev_bits for item in self.fields):
            raise UsageError("EV profile: nothing in the fields to generate")

    def _checked(self, ev: bytes, port: int) -> EvEntry:
        if len(ev) != EV_BYTES or not 1 <= port <= self.port_count:
            raise UsageError(f"EV profile: an EV has 32 bytes and a port of 1 to {self.port_count}")
        return EvEntry(ev, port)

    # -- operations on single EVs ------------------------------------------------------------------

    def replace_ev(self, index: int, ev: bytes, port: int) -> None:
        """REPLACE_EV: another EV in that place, GOOD."""
        self._explicit_at(index)
        self.entries[index] = self._checked(ev, port)

    def modify_ev_state(self, index: int, state: EvState) -> None:
        """MODIFY_EV_STATE: the controller may deny an EV, and allow it again."""
        entry = self._explicit_at(index)
        allowed = {
            (EvState.GOOD, EvState.DENIED), (EvState.ASSUMED_BAD, EvState.DENIED),
            (EvState.DENIED, EvState.GOOD),
        }  # fmt: skip
        if (entry.state, state) not in allowed:
            raise UsageError(f"EV profile: an EV does not go {entry.state.value} to {state.value}")
        self.entries[index] = replace(entry, state=state)
        if state is EvState.DENIED:
            self.denied.add(self.expanded(entry.ev))
        else:
            self.denied.discard(self.expanded(entry.ev))

    def query_ev_state(self, index: int) -> EvEntry:
        """QUERY_EV_STATE."""
        return self._explicit_at(index)

    def query_ev_array(self) -> tuple[EvEntry, ...]:
        """QUERY_EV_ARRAY."""
        return tuple(self.entries)

    def _explicit_at(self, index: int) -> EvEntry:
        if self.mode is not EvMode.EXPLICIT:
            raise UsageError("EV profile: only explicit EVs can be named")
        if not 0 <= index < len(self.entries):
            raise UsageError(f"EV profile: no EV {index}")
        return self.entries[index]

    def observe(self, index: int, state: EvState, drop_count: int) -> EvEventRecord | None:
        """What a QP found out about an EV; the event to be told, if the mask wants it."""
        entry = self._explicit_at(index)
        self.entries[index] = replace(entry, state=state, drop_count=drop_count)
        wanted = {EvState.GOOD: EvMask.GOOD, EvState.ASSUMED_BAD: EvMask.ASSUMED_BAD}.get(state)
        if wanted is None or not self.ev_event_mask & wanted or entry.state is state:
            return None
        return EvEventRecord(self.profile_id, entry.ev, entry.port, drop_count, state)

    # -- EVs for a QP ------------------------------------------------------------------------------

    def expanded(self, ev: bytes) -> bytes:
        assert self.format is not None
        return expand(self.fields, self.format.widths, ev)

    def specs(self, rng: Random, live_ports: Collection[int] = ()) -> list[EvSpec]:
        """EVs for a new QP: `ev_count` of them, an equal number per port, without the denied.

        `live_ports` (1-based; none given: all) bounds generated EVs.  The 32-bit value that the
        responder reflects is the EV itself where it has 32 bits or fewer; in SRV6, where the
        path is the address, it is the index of the EV above three bits of plane.
        """
        if self.state is not ProfileState.ONLINE:
            raise UsageError(f"EV profile: {self.state.value}, not online")
        found: list[EvSpec] = []
        seen: set[bytes] = set()
        for ev, port in self._candidates(rng, live_ports):
            wide = self._wire(ev)
            if wide in self.denied or (self.mode is not EvMode.EXPLICIT and wide in seen):
                continue
            seen.add(wide)
            found.append(self._spec(wide, port - 1, len(found)))
            if len(found) == self.ev_count:
                break
        return found

    def _candidates(
        self, rng: Random, live_ports: Collection[int]
    ) -> Sequence[tuple[bytes, int]]:
        if self.mode is EvMode.EXPLICIT:
            return [(e.ev, e.port) for e in self.entries if e.state is not EvState.DENIED]
        ports = sorted(live_ports) or list(range(1, self.port_count + 1))
        tries = 16 * self.ev_count  # small ranges hold few different EVs
        return [(self._generated(rng), ports[i % len(ports)]) for i in range(tries)]

    def _generated(self, rng: Random) -> bytes:
        value = bits = 0
        for item in self._effective()[1]:
            value = value << item.ev_bits | item.draw(rng) & ((1 << item.ev_bits) - 1)
            bits += item.ev_bits
        return (value << (EV_BITS - bits)).to_bytes(EV_BYTES, "big")

    def _effective(self) -> tuple[tuple[int, ...], tuple[EvField, ...]]:
        assert self.format is not None
        if self.mode is EvMode.AUTO:
            return AUTO_FIELDS[self.format.format]
        return self.format.widths, self.fields

    def _wire(self, ev: bytes) -> bytes:
        widths, fields = self._effective()
        return expand(fields, widths, ev)

    def _spec(self, wide: bytes, plane: int, index: int) -> EvSpec:
        assert self.format is not None
        match self.format.format:
            case EvFormat.SRV6:
                return EvSpec(index << 3 | plane, plane, wide[:16])
            case EvFormat.STEV:
                return EvSpec(int.from_bytes(wide[:4], "big"), plane, None)
            case EvFormat.UDP:
                return EvSpec(int.from_bytes(wide[:2], "big"), plane, None)
