"""What may stand in a scenario file: one file, one claim (design section 10).

Only shape and units are checked here; whether a name exists in the fabric is `scenarios.check`.
"""

from typing import Annotated, Literal

from pydantic import (
    BeforeValidator,
    Field,
    StringConstraints,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from topologies import units
from topologies.schema import Count, Duration, Size, Strict, Topology

SEED_MAX = (1 << 64) - 1

Share = Annotated[
    float,
    BeforeValidator(units.fraction),
    WithJsonSchema(
        {
            "oneOf": [
                {"type": "number", "minimum": 0, "maximum": 1},
                {"type": "string", "pattern": r"^\d+(\.\d+)? ?%$"},
            ]
        }
    ),
]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,39}$")]
Node = Annotated[str, StringConstraints(min_length=1, max_length=15)]
Nodes = Annotated[tuple[Node, ...], Field(min_length=1, max_length=4096)]
Seed = Annotated[int, Field(strict=True, ge=0, le=SEED_MAX)]


class Transport(Strict):
    """How the NICs talk."""

    kind: Literal["mrc"] = Field(default="mrc", description="the protocol")
    routing: Literal["srv6", "structured", "ecmp"] = Field(
        default="srv6", description="who picks the path: a uSID list, bits of the EV, or a hash"
    )
    evs_per_plane: Count = Field(
        default=4, description="active EVs of a QP in each plane, as far as there are paths"
    )
    udp_port: Annotated[Count, Field(le=65535)] = Field(default=4971, description="4971 or 4791")
    rto: Duration | None = Field(
        default=None, description="least retransmission timeout; derived, never below what is safe"
    )
    hold_down: Duration = Field(
        default=10**9, description="how long a returned NIC port must stay up before it is used"
    )
    cc: Literal["nscc", "fixed"] = Field(
        default="nscc",
        description="congestion control, or a window that never moves, whatever is lost",
    )
    window: Annotated[Size, Field(ge=1)] | None = Field(
        default=None, description="bytes in flight of a QP, with `cc: fixed` only; derived"
    )
    path_policy: Literal["mrc", "oblivious", "bitmap", "reps"] = Field(
        default="mrc", description="who picks the EV: MRC's EV machine, or one to compare it with"
    )
    mpr: Count | None = Field(
        default=None, description="maximum PSN range in packets, a multiple of 128; derived"
    )

    @field_validator("mpr")
    @classmethod
    def _multiple_of_128(cls, value: int | None) -> int | None:
        if value is not None and (value % 128 or value > 128 * 255):
            raise ValueError(f"expected a multiple of 128 up to 32640, got {value}")
        return value


class Switches(Strict):
    """How the switches queue, mark and trim."""

    trimming: Annotated[bool, Field(strict=True)] = Field(
        default=True, description="cut what does not fit instead of losing it"
    )
    trim_size: Annotated[int, Field(strict=True, ge=122, le=65535)] = Field(
        default=144, description="bytes of frame a trimmed packet keeps"
    )
    ecn: Annotated[bool, Field(strict=True)] = Field(
        default=True, description="mark between switches; never on the last hop"
    )


class RingAllreduce(Strict):
    """Ring all-reduce: every rank ends with the XOR of all, checked chunk by chunk."""

    kind: Literal["ring_allreduce"] = Field(description="the kind of job")
    ranks: Annotated[Nodes, Field(min_length=2)] = Field(description="hosts, in ring order")
    bytes: Size = Field(description="of the buffer every rank reduces")
    steps: Count = Field(default=1, description="all-reduces, one after the other")


class Write(Strict):
    """One host writes into the memory of another."""

    kind: Literal["write"] = Field(description="the kind of job")
    src: Node = Field(description="the writing host")
    dst: Node = Field(description="the host written to")
    bytes: Size = Field(description="in total")
    message_bytes: Size | None = Field(default=None, description="of one message; all in one")


class Incast(Strict):
    """Many hosts write to one at the same time."""

    kind: Literal["incast"] = Field(description="the kind of job")
    sources: Nodes = Field(description="the writing hosts")
    dst: Node = Field(description="the host written to")
    bytes: Size = Field(description="from each source")
    message_bytes: Size | None = Field(default=None, description="of one message; all in one")


class Permutation(Strict):
    """Every host of the list writes to the host `shift` places further on."""

    kind: Literal["permutation"] = Field(description="the kind of job")
    hosts: Annotated[Nodes, Field(min_length=2)] = Field(description="the hosts taking part")
    shift: Count = Field(default=1, description="how far along the list each one writes")
    bytes: Size = Field(description="from each host")
    message_bytes: Size | None = Field(default=None, description="of one message; all in one")


Workload = Annotated[RingAllreduce | Write | Incast | Permutation, Field(discriminator="kind")]


class Fault(Strict):
    """What every verb has: when, and a name for expectations if a verb is used twice."""

    at: Duration = Field(description="time since the job started")
    label: Name | None = Field(default=None, description="its name in expectations; the verb")

    @property
    def verb(self) -> str:
        return str(getattr(self, "fault"))  # noqa: B009 - every verb has it, with its own type

    @property
    def name(self) -> str:
        return self.label or self.verb


class _Links(Fault):
    switch: Node = Field(description="the switch at whose ports it happens")
    links: Nodes = Field(description="the neighbours the links lead to: hosts or switches")


class LinkDown(_Links):
    """Links go dark, for a time or for good."""

    fault: Literal["link_down"] = Field(description="the verb")
    for_: Duration | None = Field(default=None, alias="for", description="how long; for good")


class LinkFlap(_Links):
    """Links go down and come back, all together."""

    fault: Literal["link_flap"] = Field(description="the verb")
    flaps: Count = Field(default=1, description="how often")
    down: Duration = Field(description="how long each time")
    up: Duration = Field(default=300_000_000, description="pause between two flaps")


class Optic(_Links):
    """The links of one transceiver flap in quick succession, one shortly after the other."""

    fault: Literal["optic"] = Field(description="the verb")
    flaps: Count = Field(default=1, description="how often each link flaps")
    down: Duration = Field(description="how long each time")
    up: Duration = Field(default=300_000_000, description="pause between two flaps of a link")
    stagger: Duration = Field(default=0, description="from one link to the next")


class _Reboot(Fault):
    switch: Node = Field(description="the switch")
    down: Duration = Field(description="how long it is away")
    dark: Duration = Field(
        default=0, description="how long before that it forwards nothing while its links are up"
    )


class T1Reboot(_Reboot):
    """A T1 switch goes, its tables with it, and comes back."""

    fault: Literal["t1_reboot"] = Field(description="the verb")


class T0Reboot(_Reboot):
    """A T0 switch goes, its tables with it, and comes back."""

    fault: Literal["t0_reboot"] = Field(description="the verb")


class Blackhole(Fault):
    """A switch drops all it should forward, with its links up."""

    fault: Literal["blackhole"] = Field(description="the verb")
    switch: Node = Field(description="the switch")
    for_: Duration | None = Field(default=None, alias="for", description="how long; for good")


class GrayLoss(Fault):
    """A switch loses a share of the packets to one neighbour, or of one EV, and says nothing."""

    fault: Literal["gray_loss"] = Field(description="the verb")
    switch: Node = Field(description="the switch")
    probability: Share = Field(description="share of the packets lost")
    link: Node | None = Field(default=None, description="only towards this neighbour")
    ev: Annotated[int, Field(strict=True, ge=0, le=0xFFFF_FFFF)] | None = Field(
        default=None, description="only of this entropy value"
    )
    for_: Duration | None = Field(default=None, alias="for", description="how long; for good")


class OneWayLoss(_Links):
    """Links lose in the direction away from the switch only."""

    fault: Literal["one_way_loss"] = Field(description="the verb")
    probability: Share = Field(default=1.0, description="share of the packets lost")
    for_: Duration | None = Field(default=None, alias="for", description="how long; for good")


class Corrupt(_Links):
    """Links flip bits in a share of the packets, which the receiver's iCRC finds."""

    fault: Literal["corrupt"] = Field(description="the verb")
    probability: Share = Field(description="share of the packets damaged")
    for_: Duration | None = Field(default=None, alias="for", description="how long; for good")


class NicPortDown(Fault):
    """A NIC loses its port in one plane."""

    fault: Literal["nic_port_down"] = Field(description="the verb")
    host: Node = Field(description="the host")
    plane: Annotated[int, Field(strict=True, ge=0, le=7)] = Field(description="the port, from 0")
    for_: Duration | None = Field(default=None, alias="for", description="how long; for good")


class PlaneDown(Fault):
    """Every NIC loses one plane at once."""

    fault: Literal["plane_down"] = Field(description="the verb")
    plane: Annotated[int, Field(strict=True, ge=0, le=7)] = Field(description="from 0")
    for_: Duration | None = Field(default=None, alias="for", description="how long; for good")


class DenyEv(Fault):
    """The operator takes EVs out of use on a host."""

    fault: Literal["deny_ev"] = Field(description="the verb")
    host: Node = Field(description="the host that no longer sends on it")
    ev: Annotated[int, Field(strict=True, ge=0, le=0xFFFF_FFFF)] = Field(
        description="the entropy value, as `explain ev` shows it"
    )
    for_: Duration | None = Field(default=None, alias="for", description="how long; for good")


AnyFault = (
    LinkDown
    | LinkFlap
    | Optic
    | T1Reboot
    | T0Reboot
    | Blackhole
    | GrayLoss
    | OneWayLoss
    | Corrupt
    | NicPortDown
    | PlaneDown
    | DenyEv
)


class Windows(Strict):
    """What `before`, `during` and `after` a fault mean."""

    before: Duration = Field(default=3 * 10**9, description="length of `before`")
    warm_up: Duration = Field(default=10**9, description="start of the job left out of `before`")
    settle: Duration = Field(
        default=2 * 10**9, description="from the end of a fault to the start of `after`"
    )


class Scenario(Strict):
    """A fabric, a job, what breaks, and what must hold."""

    name: Name = Field(description="lower-case words joined by hyphens")
    claim: Annotated[str, StringConstraints(min_length=1)] = Field(
        description="what this file shows, with its source"
    )
    topology: Topology = Field(description="the fabric, or the name of a catalog file")
    transport: Transport = Field(default=Transport(), description="how the NICs talk")
    switches: Switches = Field(default=Switches(), description="how the switches queue")
    workload: Workload = Field(description="the job")
    timeline: Annotated[
        tuple[Annotated[AnyFault, Field(discriminator="fault")], ...], Field(max_length=1000)
    ] = Field(default=(), description="what breaks, and when")
    expect: Annotated[
        tuple[Annotated[str, StringConstraints(max_length=500)], ...],
        Field(min_length=1, max_length=200),
    ] = Field(description="what must hold at the end; see docs/scenarios.md")
    windows: Windows = Field(default=Windows(), description="for goodput around faults")
    bin: Duration | None = Field(default=None, description="step of the goodput series; derived")
    seed: Seed = Field(default=1, description="of every random stream of the run")
    max_duration: Annotated[Duration, Field(ge=1)] = Field(
        default=120 * 10**9, description="a job longer than this is ended and fails"
    )

    @model_validator(mode="after")
    def _names_are_unique(self) -> "Scenario":
        names = [fault.name for fault in self.timeline]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"the timeline has {name!r} twice: give each a label of its own")
        return self
