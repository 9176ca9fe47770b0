"""Profiles of mrc_ctl.h as values: what they hold, what each step of their life needs.

    INIT -> OFFLINE -> ONLINE -> OFFLINE -> INIT

INIT: nothing is configured.  OFFLINE: configured, may be changed.  ONLINE: usable, and here not to
be changed but for the states of EVs, since neither MODIFY_ONLINE capability is offered.
"""

import errno
import random
from dataclasses import dataclass, field, replace

from hosts.control.constants import EV_BYTES, EvFmtMode, EvMode, EvState, ProfileState
from hosts.control.fields import EvField, check, expand, generate
from hosts.mrc.ev import EvSpec
from hosts.verbs.errors import ApiError

INIT, OFFLINE, ONLINE = ProfileState.INIT, ProfileState.OFFLINE, ProfileState.ONLINE
STEPS = frozenset({(INIT, OFFLINE), (OFFLINE, ONLINE), (ONLINE, OFFLINE), (OFFLINE, INIT)})

WIDTH_MAX = {EvFmtMode.STEV: 32, EvFmtMode.UDP: 16, EvFmtMode.SRV6: 128}
"""Bits of an EV by format.  SRv6 with an SRH (256) is not there: no switch of ours reads one."""

SRV6_EV_BASE = 0xC000
SRV6_INDEX_MAX = 1 << 11
"""In SRv6 mode the path is in the address; the 32-bit EV that is reflected is the place in the
profile's array, above three bits of plane, in the dynamic port range."""

AUTO_EV_BITS = 30


def check_step(state: ProfileState, target: ProfileState) -> None:
    """Raises ApiError(EINVAL)."""
    if (state, target) not in STEPS:
        raise ApiError(errno.EINVAL, f"no way from {state.name} to {target.name}")


@dataclass(frozen=True, slots=True)
class Ev:
    """struct mrc_ctl_ev: 32 bytes and a port, 1-based; port 0: unpopulated."""

    val: bytes = bytes(EV_BYTES)
    port: int = 0

    def __post_init__(self) -> None:
        if len(self.val) != EV_BYTES:
            raise ApiError(errno.EINVAL, f"an EV of {len(self.val)} bytes: it has {EV_BYTES}")


EV_UNPOPULATED = Ev()


@dataclass(slots=True)
class FmtProfile:
    """An EV format: how an EV is cut into fields, and where it rides."""

    state: ProfileState = INIT
    mode: EvFmtMode | None = None
    widths: tuple[int, ...] | None = None

    def set_widths(self, widths: tuple[int, ...]) -> None:
        """Raises ApiError(E2BIG, EINVAL)."""
        assert self.mode is not None
        if not widths or any(not 1 <= width <= 32 for width in widths):
            raise ApiError(errno.EINVAL, "a format field has 1 to 32 bits")
        if sum(widths) > WIDTH_MAX[self.mode]:
            most = WIDTH_MAX[self.mode]
            raise ApiError(errno.E2BIG, f"{sum(widths)} bits; {self.mode.name} carries {most}")
        self.widths = widths


@dataclass(slots=True)
class EvProfile:
    """The EVs of QPs.  `evs`: the array, compact; `denied`: the controller's word on entries."""

    state: ProfileState = INIT
    mode: EvMode | None = None
    fmt_id: int | None = None
    count: int = 0
    min_active: int | None = None
    event_mask: EvState | None = None
    fields: tuple[EvField, ...] | None = None
    evs: list[Ev] = field(default_factory=list)
    states: dict[Ev, EvState] = field(default_factory=dict)
    bad_in: dict[Ev, set[int]] = field(default_factory=dict)
    """QPs in which an EV is ASSUMED_BAD, by number."""

    def state_of(self, ev: Ev) -> EvState:
        """DENIED by the controller, ASSUMED_BAD in any QP, else GOOD.  Raises ApiError(ENOENT)."""
        if ev not in self.states:
            raise ApiError(errno.ENOENT, "the profile has no such EV")
        if self.states[ev] is EvState.DENIED:
            return EvState.DENIED
        return EvState.ASSUMED_BAD if self.bad_in.get(ev) else EvState.GOOD

    def fill(self, rng: random.Random, port_count: int) -> None:
        """Make the array: unpopulated, generated, or the vendor's own."""
        ports = [1 + i % port_count for i in range(self.count)]
        if self.mode is EvMode.EXP:
            self.evs = [EV_UNPOPULATED] * self.count
        elif self.mode is EvMode.GEN:
            assert self.fields is not None
            self.evs = [Ev(generate(self.fields, rng), port) for port in ports]
        else:
            values = [rng.getrandbits(AUTO_EV_BITS) | SRV6_EV_BASE for _ in ports]
            self.evs = [
                Ev(value.to_bytes(4).ljust(EV_BYTES, b"\0"), port)
                for value, port in zip(values, ports, strict=True)
            ]
        self.states = {ev: EvState.GOOD for ev in self.evs if ev.port}

    def replace_ev(self, old: Ev, new: Ev, state: EvState, *, all_copies: bool) -> None:
        """Raises ApiError(ENOENT)."""
        places = [i for i, ev in enumerate(self.evs) if ev == old]
        if not places:
            raise ApiError(errno.ENOENT, "the profile has no such EV")
        for place in places if all_copies else places[:1]:
            self.evs[place] = new
        if old not in self.evs:
            self.states.pop(old, None)
        if new.port:
            self.states[new] = state

    def check_fields(self, fmt: FmtProfile) -> None:
        assert self.fields is not None
        assert fmt.widths is not None
        check(self.fields, fmt.widths)

    def specs(self, fmt: FmtProfile | None) -> dict[int, tuple[Ev, EvSpec]]:
        """What a QP gets, by 32-bit EV; entries of one value are one."""
        out: dict[int, tuple[Ev, EvSpec]] = {}
        for index, ev in enumerate(self.evs):
            spec = self._spec(index, ev, fmt)
            out.setdefault(spec.ev, (ev, spec))
        return out

    def _spec(self, index: int, ev: Ev, fmt: FmtProfile | None) -> EvSpec:
        plane = ev.port - 1
        if fmt is None:
            return EvSpec(int.from_bytes(ev.val[:4]), plane, None)
        assert self.fields is not None
        assert fmt.widths is not None
        value = expand(self.fields, fmt.widths, ev.val)
        if fmt.mode is EvFmtMode.SRV6:
            return EvSpec(SRV6_EV_BASE | index << 3 | plane, plane, value[:16])
        size = 4 if fmt.mode is EvFmtMode.STEV else 2
        return EvSpec(int.from_bytes(value[:size]), plane, None)


@dataclass(frozen=True, slots=True)
class NsccCfg:
    """struct mrc_ctl_cc_nscc_cfg.  Times in ns, sizes in bytes."""

    disable_qa: bool = False
    adjust_bytes_threshold: int = 0
    adjust_period_threshold: int = 0
    base_rtt: int = 0
    eta: float = 0.0
    fi: float = 0.0
    fi_scale: float = 0.0
    gamma: float = 0.0
    max_md_jump: float = 0.0
    max_cwnd: int = 0
    qa_gate: int = 0
    qa_threshold: int = 0
    target_delay: int = 0


@dataclass(slots=True)
class CcProfile:
    """`algorithm` None disables congestion control: a window that never moves."""

    state: ProfileState = INIT
    algorithm: str | None = None
    has_algorithm: bool = False
    config: NsccCfg | None = None


def copy_of(profile: EvProfile) -> EvProfile:
    """To try changes on, so that a refused call changes nothing."""
    return replace(profile, evs=list(profile.evs), states=dict(profile.states))
