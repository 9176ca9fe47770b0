"""The controller's API (mrc_ctl.h): formats, EV and CC profiles, EV events, ports.

One controller a node.  It makes the profiles that QPs name when they leave RESET, hears of the EVs
they retire, and may deny EVs and disable ports.  The C functions have a bit mask of the attributes
that a call is about; so have these.
"""

import errno
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from hosts.control.constants import (
    NSCC,
    CcMask,
    EpOp,
    EvFmtMode,
    EvMode,
    EvOp,
    EvOpFlags,
    EvProfileMask,
    EvState,
    FmtMask,
    OptCap,
    PortAdminState,
    ProfileState,
)
from hosts.control.endpoint_ops import EpBatch, EpReq
from hosts.control.events import EvEvent, EvEventCq
from hosts.control.fields import EvField
from hosts.control.profiles import (
    EV_UNPOPULATED,
    SRV6_INDEX_MAX,
    WIDTH_MAX,
    CcProfile,
    Ev,
    EvProfile,
    FmtProfile,
    NsccCfg,
    check_step,
    copy_of,
)
from hosts.mrc.ev import EvSpec
from hosts.mrc.trace import TraceEvent
from hosts.verbs.context import Context
from hosts.verbs.cq import CompChannel
from hosts.verbs.errors import ApiError
from hosts.verbs.qp import Qp

PROFILES_MAX = 1024
EV_COUNT_MAX = SRV6_INDEX_MAX
INIT, OFFLINE, ONLINE = ProfileState.INIT, ProfileState.OFFLINE, ProfileState.ONLINE


@dataclass(frozen=True, slots=True)
class CtlDeviceAttr:
    """struct mrc_ctl_device_attr."""

    ev_max_fmt_profiles: int
    ev_max_profiles: int
    ev_max_count: int
    ev_free_count: int
    ev_max_count_profile: int
    ev_count_align: int
    ev_max_width: int
    ev_fmt_mode_mask: EvFmtMode
    ev_mode_mask: EvMode
    ev_op_max_entries: int
    cc_max_profiles: int
    algorithms: tuple[str, ...]
    phy_port_mask: int
    opt_attr: OptCap


@dataclass(frozen=True, slots=True)
class FmtProfileAttr:
    """struct mrc_ctl_ev_fmt_profile_attr; `fmt_fields`: widths in bits, of OP MODIFY_FIELDS."""

    profile_state: ProfileState = INIT
    cur_profile_state: ProfileState = INIT
    ev_fmt_mode: EvFmtMode = EvFmtMode.STEV
    fmt_fields: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class EvOpEntry:
    """struct mrc_ctl_ev_op_entry."""

    ev: Ev
    ev_new: Ev = EV_UNPOPULATED
    state: EvState = EvState.GOOD
    flags: EvOpFlags | int = 0


@dataclass(frozen=True, slots=True)
class EvProfileAttr:
    """struct mrc_ctl_ev_profile_attr.  `ev_op` with `entries`; `fields` is EV_FIELDS_OP's."""

    profile_state: ProfileState = INIT
    cur_profile_state: ProfileState = INIT
    ev_mode: EvMode = EvMode.AUTO
    ev_fmt_profile_id: int = 0
    ev_count: int = 0
    ev_min_active: int = 0
    ev_event_mask: EvState | int = 0
    ev_op: EvOp = EvOp.QUERY_EV_ARRAY
    entries: tuple[EvOpEntry, ...] = ()
    fields: tuple[EvField, ...] = ()


@dataclass(frozen=True, slots=True)
class CcProfileAttr:
    """struct mrc_ctl_cc_profile_attr."""

    profile_state: ProfileState = INIT
    cur_profile_state: ProfileState = INIT
    algorithm: str | None = None
    cc_config: NsccCfg | None = None


class Controller:
    """Profiles are named by numbers of the caller's choice and begin in INIT.

    `rng`: generated and automatic EVs are drawn from it.  Every call raises ApiError with an errno
    that the header documents, and then has changed nothing (REPLACE_EV and MODIFY_EV_STATE of many
    entries included).
    """

    def __init__(self, context: Context, rng: random.Random) -> None:
        self._context = context
        self._endpoint = context.endpoint
        self._rng = rng
        self._fmts: dict[int, FmtProfile] = {}
        self._evs: dict[int, EvProfile] = {}
        self._ccs: dict[int, CcProfile] = {}
        self._users: dict[Qp, tuple[int, dict[int, tuple[Ev, EvSpec]]]] = {}
        self._queues: list[EvEventCq] = []
        context.profiles = self

    # -- device and ports ----------------------------------------------------------------------

    def query_device(self) -> CtlDeviceAttr:
        """mrc_ctl_query_device_ex."""
        used = sum(profile.count for profile in self._evs.values())
        most = PROFILES_MAX * EV_COUNT_MAX
        return CtlDeviceAttr(
            ev_max_fmt_profiles=PROFILES_MAX,
            ev_max_profiles=PROFILES_MAX,
            ev_max_count=most,
            ev_free_count=most - used,
            ev_max_count_profile=EV_COUNT_MAX,
            ev_count_align=1,
            ev_max_width=max(WIDTH_MAX.values()),
            ev_fmt_mode_mask=EvFmtMode.STEV | EvFmtMode.SRV6 | EvFmtMode.UDP,
            ev_mode_mask=EvMode.AUTO | EvMode.EXP | EvMode.GEN,
            ev_op_max_entries=0,
            cc_max_profiles=PROFILES_MAX,
            algorithms=(NSCC,),
            phy_port_mask=sum(2 << plane for plane in range(self._port_count)),
            opt_attr=OptCap.EV_EVENT | OptCap.EV_EVENT_PRECISE_DROP_CNT | OptCap.EP_OP_EV_PROBE,
        )

    @property
    def _port_count(self) -> int:
        return len(self._endpoint.config.ports)

    def query_port(self, port_num: int) -> PortAdminState:
        """mrc_ctl_query_port; ports are 1-based (plane + 1)."""
        up = self._endpoint.port_admin_up(self._plane(port_num))
        return PortAdminState.ENABLED if up else PortAdminState.DISABLED

    def modify_port(self, port_num: int, state: PortAdminState) -> None:
        """mrc_ctl_modify_port: a disabled port is treated as one without carrier."""
        up = state is PortAdminState.ENABLED
        self._endpoint.set_port_admin(self._plane(port_num), up, self._context.clock())

    def _plane(self, port_num: int) -> int:
        if not 1 <= port_num <= self._port_count:
            raise ApiError(errno.EINVAL, f"port {port_num}: there are 1 to {self._port_count}")
        return port_num - 1

    # -- EV formats ----------------------------------------------------------------------------

    def modify_ev_fmt_profile(self, profile_id: int, attr: FmtProfileAttr, mask: FmtMask) -> None:
        """mrc_ctl_modify_ev_fmt_profile: EINVAL, EBUSY (an EV profile is ONLINE), E2BIG."""
        now = self._fmts.get(profile_id, FmtProfile())
        self._check_call(now.state, attr.cur_profile_state, mask, self._fmts, profile_id)
        new = replace(now)
        target = attr.profile_state if FmtMask.STATE in mask else now.state
        if target is not now.state:
            check_step(now.state, target)
        if now.state is ONLINE and mask & (FmtMask.MODE | FmtMask.OP):
            raise ApiError(errno.EINVAL, "an ONLINE format is not changed")
        if now.state is ONLINE and target is OFFLINE and self._fmt_is_busy(profile_id):
            raise ApiError(errno.EBUSY, "an EV profile of this format is ONLINE")
        if FmtMask.MODE in mask:
            if attr.ev_fmt_mode not in WIDTH_MAX:
                raise ApiError(errno.EINVAL, f"mode {attr.ev_fmt_mode!r} is not one mode")
            new.mode, new.widths = attr.ev_fmt_mode, None
        if target is not INIT and new.mode is None:
            raise ApiError(errno.EINVAL, "OFFLINE needs MODE")
        if FmtMask.OP in mask:
            if new.mode is None:
                raise ApiError(errno.EINVAL, "MODIFY_FIELDS comes after MODE")
            new.set_widths(attr.fmt_fields)
        if target is ONLINE and new.widths is None:
            raise ApiError(errno.EINVAL, "ONLINE needs MODIFY_FIELDS")
        new.state = target
        self._fmts[profile_id] = FmtProfile() if target is INIT else new

    def query_ev_fmt_profile(self, profile_id: int) -> FmtProfileAttr:
        """mrc_ctl_query_ev_fmt_profile, all attributes."""
        profile = self._fmts.get(profile_id, FmtProfile())
        mode = profile.mode or EvFmtMode.STEV
        return FmtProfileAttr(profile.state, profile.state, mode, profile.widths or ())

    def _fmt_is_busy(self, profile_id: int) -> bool:
        return any(p.fmt_id == profile_id and p.state is ONLINE for p in self._evs.values())

    # -- EV profiles ---------------------------------------------------------------------------

    def modify_ev_profile(self, profile_id: int, attr: EvProfileAttr, mask: EvProfileMask) -> None:
        """mrc_ctl_modify_ev_profile: E2BIG, EINVAL, ENOENT, EBUSY (QPs use it)."""
        now = self._evs.get(profile_id, EvProfile())
        self._check_call(now.state, attr.cur_profile_state, mask, self._evs, profile_id)
        both = EvProfileMask.EV_OP | EvProfileMask.EV_FIELDS_OP
        if mask & both == both:
            raise ApiError(errno.EINVAL, "EV_OP and EV_FIELDS_OP exclude each other")
        target = attr.profile_state if EvProfileMask.STATE in mask else now.state
        if target is not now.state:
            check_step(now.state, target)
        if now.state is ONLINE:
            self._modify_online(profile_id, now, attr, mask, target)
            return
        new = copy_of(now)
        self._configure(new, attr, mask)
        if target is not INIT:
            self._check_offline(new)
        if now.state is INIT and target is OFFLINE:
            new.fill(self._rng, self._port_count)
        if EvProfileMask.EV_OP in mask:
            self._ev_op(profile_id, new, attr)
        if target is ONLINE:
            self._check_online(new)
        new.state = target
        self._evs[profile_id] = EvProfile() if target is INIT else new

    def _configure(self, new: EvProfile, attr: EvProfileAttr, mask: EvProfileMask) -> None:
        refill = EvProfileMask.MODE | EvProfileMask.COUNT | EvProfileMask.EV_FIELDS_OP
        if EvProfileMask.MODE in mask:
            if attr.ev_mode not in (EvMode.AUTO, EvMode.EXP, EvMode.GEN):
                raise ApiError(errno.EINVAL, f"mode {attr.ev_mode!r} is not one mode")
            new.mode = attr.ev_mode
        if EvProfileMask.FMT_ID in mask:
            new.fmt_id = attr.ev_fmt_profile_id
        if EvProfileMask.COUNT in mask:
            if not 1 <= attr.ev_count <= EV_COUNT_MAX:
                raise ApiError(errno.E2BIG, f"ev_count {attr.ev_count}: 1 to {EV_COUNT_MAX}")
            new.count = attr.ev_count
        if EvProfileMask.MIN_ACTIVE in mask:
            new.min_active = attr.ev_min_active
        if EvProfileMask.EVENT_MASK in mask:
            if int(attr.ev_event_mask) & ~int(EvState.GOOD | EvState.ASSUMED_BAD):
                raise ApiError(errno.EINVAL, "events are for GOOD and ASSUMED_BAD only")
            new.event_mask = EvState(attr.ev_event_mask)
        if EvProfileMask.EV_FIELDS_OP in mask:
            new.fields = attr.fields
        if new.min_active is not None and not 0 <= new.min_active <= new.count:
            raise ApiError(errno.EINVAL, f"ev_min_active {new.min_active}: 0 to ev_count")
        if new.state is OFFLINE and mask & refill:
            self._check_offline(new)
            new.fill(self._rng, self._port_count)

    def _check_offline(self, profile: EvProfile) -> None:
        missing = [
            name
            for name, absent in (
                ("MODE", profile.mode is None),
                ("COUNT", not profile.count),
                ("FMT_ID", profile.fmt_id is None and profile.mode is not EvMode.AUTO),
                ("MODIFY_FIELDS", profile.fields is None and profile.mode is not EvMode.AUTO),
            )
            if absent
        ]
        if missing:
            raise ApiError(errno.EINVAL, f"OFFLINE needs {', '.join(missing)}")
        if profile.mode is not EvMode.AUTO:
            profile.check_fields(self._fmt_of(profile))

    def _fmt_of(self, profile: EvProfile) -> FmtProfile:
        fmt = None if profile.fmt_id is None else self._fmts.get(profile.fmt_id)
        if fmt is None or fmt.widths is None:
            raise ApiError(errno.EINVAL, f"EV format {profile.fmt_id} is not configured")
        return fmt

    def _check_online(self, profile: EvProfile) -> None:
        if profile.min_active is None or profile.event_mask is None:
            raise ApiError(errno.EINVAL, "ONLINE needs MIN_ACTIVE and EVENT_MASK")
        if EV_UNPOPULATED in profile.evs:
            raise ApiError(errno.EINVAL, "an EV is unpopulated: REPLACE_EV it first")
        if profile.mode is not EvMode.AUTO and self._fmt_of(profile).state is not ONLINE:
            raise ApiError(errno.EINVAL, f"EV format {profile.fmt_id} is not ONLINE")

    def _modify_online(
        self,
        profile_id: int,
        profile: EvProfile,
        attr: EvProfileAttr,
        mask: EvProfileMask,
        target: ProfileState,
    ) -> None:
        allowed = EvProfileMask.STATE | EvProfileMask.CUR_STATE | EvProfileMask.EV_OP
        if mask & ~allowed:
            raise ApiError(errno.EINVAL, "an ONLINE profile is not changed")
        if target is OFFLINE and any(used == profile_id for used, _ in self._users.values()):
            raise ApiError(errno.EBUSY, "QPs use this profile")
        if EvProfileMask.EV_OP in mask:
            if attr.ev_op is EvOp.REPLACE_EV:
                raise ApiError(errno.EINVAL, "an ONLINE profile keeps its EVs")
            self._ev_op(profile_id, profile, attr)
        profile.state = target

    def _ev_op(self, profile_id: int, profile: EvProfile, attr: EvProfileAttr) -> None:
        for entry in attr.entries:
            if entry.state not in (EvState.GOOD, EvState.DENIED):
                raise ApiError(errno.EINVAL, "a controller sets GOOD or DENIED")
        if attr.ev_op is EvOp.REPLACE_EV:
            if profile.mode is not EvMode.EXP:
                raise ApiError(errno.EINVAL, "REPLACE_EV is for explicit EVs")
            for entry in attr.entries:
                self._plane(entry.ev_new.port)
                every = bool(int(entry.flags) & EvOpFlags.ALL_COPIES)
                profile.replace_ev(entry.ev, entry.ev_new, entry.state, all_copies=every)
        elif attr.ev_op is EvOp.MODIFY_EV_STATE:
            for entry in attr.entries:
                profile.state_of(entry.ev)
            for entry in attr.entries:
                profile.states[entry.ev] = entry.state
                self._tell_qps(profile_id, entry.ev, entry.state)
        else:
            raise ApiError(errno.EINVAL, f"{attr.ev_op.name} is a query")

    def _tell_qps(self, profile_id: int, ev: Ev, state: EvState) -> None:
        now = self._context.clock()
        for qp, (used, specs) in self._users.items():
            if used != profile_id:
                continue
            for value, (entry, _) in specs.items():
                if entry == ev:
                    denied = state is EvState.DENIED
                    self._endpoint.deny_ev(qp.number, value, denied, now)

    def query_ev_profile(
        self, profile_id: int, entries: tuple[EvOpEntry, ...] | None = None
    ) -> EvProfileAttr:
        """mrc_ctl_query_ev_profile, all attributes; entries: the array, or (QUERY_EV_STATE) those
        asked for, each with its state."""
        self._context.collect()
        profile = self._evs.get(profile_id, EvProfile())
        asked = [entry.ev for entry in entries] if entries is not None else profile.evs
        told = tuple(
            EvOpEntry(ev, state=profile.state_of(ev) if ev.port else EvState.UNKNOWN)
            for ev in asked
        )
        return EvProfileAttr(
            profile_state=profile.state,
            cur_profile_state=profile.state,
            ev_mode=profile.mode or EvMode.AUTO,
            ev_fmt_profile_id=profile.fmt_id or 0,
            ev_count=profile.count,
            ev_min_active=profile.min_active or 0,
            ev_event_mask=profile.event_mask or 0,
            entries=told,
            fields=profile.fields or (),
        )

    # -- CC profiles ---------------------------------------------------------------------------

    def modify_cc_profile(self, profile_id: int, attr: CcProfileAttr, mask: CcMask) -> None:
        """mrc_ctl_modify_cc_profile: EINVAL, EBUSY.

        Parameters of NSCC follow from rate and base RTT (docs/wire.md); a configuration is
        accepted if its base_rtt is 0 or the endpoint's, and nothing else of it is set.
        """
        now = self._ccs.get(profile_id, CcProfile())
        self._check_call(now.state, attr.cur_profile_state, mask, self._ccs, profile_id)
        target = attr.profile_state if CcMask.STATE in mask else now.state
        if target is not now.state:
            check_step(now.state, target)
        if now.state is ONLINE and mask & (CcMask.ALGORITHM | CcMask.CONFIG):
            raise ApiError(errno.EINVAL, "an ONLINE profile is not changed")
        users = (qp for qp in self._users if qp.attr.cc_profile_id == profile_id)
        if now.state is ONLINE and target is OFFLINE and any(True for _ in users):
            raise ApiError(errno.EBUSY, "QPs use this profile")
        new = replace(now)
        if CcMask.ALGORITHM in mask:
            if attr.algorithm not in (NSCC, None):
                raise ApiError(errno.EINVAL, f"no algorithm {attr.algorithm!r}")
            new.algorithm, new.has_algorithm = attr.algorithm, True
        if CcMask.CONFIG in mask:
            config = attr.cc_config or NsccCfg()
            rtt = self._endpoint.config.base_rtt_ns
            if replace(config, base_rtt=0) != NsccCfg() or config.base_rtt not in (0, rtt):
                raise ApiError(errno.EINVAL, f"base_rtt is {rtt} here, and the rest follows")
            new.config = replace(config, base_rtt=rtt)
        if target is not INIT and not new.has_algorithm:
            raise ApiError(errno.EINVAL, "OFFLINE needs ALGORITHM")
        if target is ONLINE and new.config is None:
            raise ApiError(errno.EINVAL, "ONLINE needs CONFIG")
        new.state = target
        self._ccs[profile_id] = CcProfile() if target is INIT else new

    def query_cc_profile(self, profile_id: int) -> CcProfileAttr:
        """mrc_ctl_query_cc_profile."""
        profile = self._ccs.get(profile_id, CcProfile())
        return CcProfileAttr(profile.state, profile.state, profile.algorithm, profile.config)

    # -- EV events -----------------------------------------------------------------------------

    def create_ev_event_cq(
        self, cqe: int, cq_context: object = None, channel: CompChannel | None = None
    ) -> EvEventCq:
        """mrc_ctl_create_ev_event_cq: every queue hears every event."""
        queue = EvEventCq(self._context, cqe, cq_context, channel)
        self._queues.append(queue)
        return queue

    def ev_changed(self, event: TraceEvent) -> None:
        """A QP moved one of its EVs: an event if that moves the EV of the profile."""
        qp = self._context.qps.get(event.fields["qpn"])
        if qp is None or qp not in self._users:
            return
        profile_id, specs = self._users[qp]
        profile = self._evs[profile_id]
        ev = specs[event.fields["ev"]][0]
        before = profile.state_of(ev)
        bad = profile.bad_in.setdefault(ev, set())
        if event.fields["to"] == "assumed_bad":
            bad.add(qp.qpn)
        else:
            bad.discard(qp.qpn)
        after = profile.state_of(ev)
        if after is not before and profile.event_mask and after in profile.event_mask:
            for queue in self._queues:
                queue.tell(EvEvent(profile_id, ev, 0, after))

    # -- endpoint operations --------------------------------------------------------------------

    def ep_batch_send(
        self, req_tc: int, op_type: EpOp, requests: Sequence[EpReq], rsp_timeout: int
    ) -> EpBatch:
        """mrc_ctl_ep_batch_send_wait without the waiting: see EpBatch.wait.

        req_tc: DSCP.  rsp_timeout in ns.  Raises ApiError(EINVAL, ENOTSUP).
        """
        return EpBatch(self._context, req_tc, op_type, requests, rsp_timeout)

    # -- what contexts ask (hosts.verbs.context.Profiles) --------------------------------------

    def evs_for_qp(self, ev_profile_id: int, qp: Qp) -> tuple[list[EvSpec], list[EvSpec]]:
        profile = self._evs.get(ev_profile_id)
        if profile is None or profile.state is not ONLINE:
            raise ApiError(errno.EINVAL, f"EV profile {ev_profile_id} is not ONLINE")
        fmt = None if profile.mode is EvMode.AUTO else self._fmt_of(profile)
        specs = profile.specs(fmt)
        self._users[qp] = ev_profile_id, specs
        return [spec for _, spec in specs.values()], []

    def qp_made(self, qp: Qp) -> None:
        profile_id, specs = self._users[qp]
        profile, now = self._evs[profile_id], self._context.clock()
        qp.half.evs.keep_active(profile.min_active or 0)
        for value, (ev, _) in specs.items():
            if profile.states.get(ev) is EvState.DENIED:
                self._endpoint.deny_ev(qp.number, value, True, now)

    def check_cc(self, cc_profile_id: int) -> None:
        profile = self._ccs.get(cc_profile_id)
        if profile is None or profile.state is not ONLINE:
            raise ApiError(errno.EINVAL, f"CC profile {cc_profile_id} is not ONLINE")
        wanted = "nscc" if profile.algorithm == NSCC else "fixed"
        if self._endpoint.config.cc != wanted:
            raise ApiError(errno.EINVAL, f"this endpoint runs {self._endpoint.config.cc}")

    def release(self, qp: Qp) -> None:
        used = self._users.pop(qp, None)
        if used is not None:
            for bad in self._evs[used[0]].bad_in.values():
                bad.discard(qp.number)

    # -- common to the three -------------------------------------------------------------------

    @staticmethod
    def _check_call(
        state: ProfileState,
        cur_state: ProfileState,
        mask: FmtMask | EvProfileMask | CcMask,
        known: Collection[int],
        profile_id: int,
    ) -> None:
        if int(mask) & 1 << 31:
            raise ApiError(errno.EINVAL, "there is no vendor configuration")
        if int(mask) & 2 and cur_state is not state:
            raise ApiError(errno.EINVAL, f"the profile is {state.name}")
        if profile_id not in known and len(known) >= PROFILES_MAX:
            raise ApiError(errno.EINVAL, f"{PROFILES_MAX} profiles is the most")
