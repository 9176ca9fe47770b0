"""One entropy value of one QP and the state machine of spec Fig. 5 (facts/mrc.md 3.5).

An EV stands for a path.  GOOD ones carry data.  SKIP is a short pause: the path is more loaded
than others, and the rotation passes it by once.  ASSUMED_BAD is out of use until probes that
took the same path come back.  DENIED is the controller's word and only the controller takes it
back.  The API shows SKIP as GOOD.

Losses retire, congestion only skips: a trimmed packet proves that its path works.  `cause` says
which evidence it was; a port that lost its carrier (ours, or the peer's by its own word) retires
all EVs of its plane at once, without waiting for a packet to be missed.
"""

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hosts.mrc.timers import Timer, TimerKind
from hosts.mrc.units import Ns
from hosts.wire.path import Path

if TYPE_CHECKING:
    from hosts.mrc.outstanding import Sent
    from hosts.mrc.requester import Requester


class EvState(enum.Enum):
    GOOD = "good"
    SKIP = "skip"
    ASSUMED_BAD = "assumed_bad"
    DENIED = "denied"


IN_USE = (EvState.GOOD, EvState.SKIP)
"""States in which an EV may carry packets."""


class EvEvent(enum.Enum):
    MARKED = "marked"
    """A SACK with m = SKIP_ONCE: a packet on this EV was CE-marked."""
    TRIMMED = "trimmed"
    """A NACK TRIMMED.  TRIMMED_LASTHOP is no event: every path ends in that hop."""
    PASSED = "passed"
    """The rotation came by."""
    LOST = "lost"
    """A packet was lost without a trace."""
    ALWAYS_SKIP = "always_skip"
    """A SACK with m = ALWAYS_SKIP."""
    PORT_DOWN = "port_down"
    """Our port or the peer's in this plane is gone."""
    PROBED = "probed"
    """Enough probes came back."""
    PROBED_MARKED = "probed_marked"
    """The same, the last with m = SKIP_ONCE."""
    DENY = "deny"
    ALLOW = "allow"


TRANSITIONS: dict[tuple[EvState, EvEvent], EvState] = {
    (EvState.GOOD, EvEvent.MARKED): EvState.SKIP,
    (EvState.GOOD, EvEvent.TRIMMED): EvState.SKIP,
    (EvState.GOOD, EvEvent.LOST): EvState.ASSUMED_BAD,
    (EvState.GOOD, EvEvent.ALWAYS_SKIP): EvState.ASSUMED_BAD,
    (EvState.GOOD, EvEvent.PORT_DOWN): EvState.ASSUMED_BAD,
    (EvState.GOOD, EvEvent.DENY): EvState.DENIED,
    (EvState.SKIP, EvEvent.PASSED): EvState.GOOD,
    (EvState.SKIP, EvEvent.LOST): EvState.ASSUMED_BAD,
    (EvState.SKIP, EvEvent.ALWAYS_SKIP): EvState.ASSUMED_BAD,
    (EvState.SKIP, EvEvent.PORT_DOWN): EvState.ASSUMED_BAD,
    (EvState.SKIP, EvEvent.DENY): EvState.DENIED,
    (EvState.ASSUMED_BAD, EvEvent.PROBED): EvState.GOOD,
    (EvState.ASSUMED_BAD, EvEvent.PROBED_MARKED): EvState.SKIP,
    (EvState.ASSUMED_BAD, EvEvent.DENY): EvState.DENIED,
    (EvState.DENIED, EvEvent.ALLOW): EvState.GOOD,
}
"""Anything that is not here changes nothing: marks in SKIP do not stack, old news is old."""


class Cause(enum.Enum):
    """Why an EV changed state, as reports say it."""

    ORDER = "loss"
    """A later packet on the same path arrived and this one had not."""
    TIMEOUT = "timeout"
    """Neither the packet nor the probes sent after it were heard of."""
    ALWAYS_SKIP = "always_skip"
    PORT = "port"
    PEER_PORT = "peer_port"
    PROBE = "probe"
    CONTROLLER = "controller"


@dataclass(frozen=True, slots=True)
class EvSpec:
    """An EV as it is handed to a QP.  `outer_dst` None: native encapsulation (no uSID list)."""

    ev: int
    plane: int
    outer_dst: bytes | None


class Doubt:
    """A suspicion against an EV that is not yet a verdict; the EV rests meanwhile.

    `seq` is the packet that raised it, sent at `sent_ns`.  ORDER is a loss for certain unless
    the NACK of a trim is still on its way (it may be overtaken by SACKs on other planes), so it
    waits for that.  TIMEOUT may be the loss of SACKs rather than of data, so it is tried by
    probes on the same path.
    """

    __slots__ = ("cause", "probes_left", "sent_ns", "seq")

    def __init__(self, cause: Cause, seq: int, probes_left: int, sent_ns: Ns) -> None:
        self.sent_ns = sent_ns
        self.cause = cause
        self.seq = seq
        self.probes_left = probes_left


class Care:
    """What only an EV that gave cause for worry needs."""

    __slots__ = ("doubt", "probe_id", "probe_successes", "probes", "timer")

    def __init__(self, ev: "Ev") -> None:
        self.timer = Timer(TimerKind.EV, ev)
        """For its probes and doubts."""
        self.doubt: Doubt | None = None
        self.probe_id: int | None = None
        """The last probe since it was retired, while unanswered."""
        self.probe_successes = 0
        self.probes = 0
        """Reliability probes sent on it, ever."""


class Trail:
    """What a packet on an EV touches: with an object's head just one line of a cache.

    A packet uses one EV of hundreds of one QP of hundreds, so it is in no cache; what else an EV
    has lies behind it.  `oldest`, `newest`: ends of the chain of transmissions on this path in
    order of sending (by `Sent.follower`; a queue would be most of what an EV takes); `serial`
    numbers them, probes included.
    """

    __slots__ = ("newest", "oldest", "path", "plane", "serial", "state")

    def __init__(self, plane: int) -> None:
        self.plane = plane
        self.state = EvState.GOOD
        self.oldest: Sent | None = None
        self.newest: Sent | None = None
        self.serial = 0
        self.path: Path | None = None
        """Found when first needed, by `QueuePair.path`."""

    def drop_oldest(self) -> None:
        """The oldest transmission is in flight no more."""
        oldest = self.oldest
        assert oldest is not None
        self.oldest = follower = oldest.follower
        oldest.follower = None
        if follower is None:
            self.newest = None


class Ev(Trail):
    """One EV of one QP.  `EvSet` owns its state; the requester owns what was sent on it."""

    __slots__ = ("_care", "is_active", "outer_dst", "requester", "resting", "value")

    def __init__(self, spec: EvSpec) -> None:
        super().__init__(spec.plane)
        self.value = spec.ev
        self.outer_dst = spec.outer_dst
        self.is_active = False
        """In the rotation's set (even if it rests), not in the backup set."""
        self.resting = False
        """Kept out of the rotation while a doubt is being settled."""
        self._care: Care | None = None
        self.requester: Requester

    @property
    def care(self) -> Care:
        if self._care is None:
            self._care = Care(self)
        return self._care

    @property
    def has_care(self) -> bool:
        return self._care is not None

    @property
    def doubt(self) -> Doubt | None:
        return None if self._care is None else self._care.doubt

    @property
    def sent(self) -> int:
        """Data packets sent on it, repeats included."""
        return self.serial if self._care is None else self.serial - self._care.probes

    def __repr__(self) -> str:
        return f"<Ev {self.value:#x} plane {self.plane} {self.state.value}>"
