"""The API of mrc.h and mrc_ctl.h between two NICs: profiles, states, work, events, refusals."""

import errno
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from hosts import control, verbs
from hosts.control import (
    EV_UNPOPULATED,
    CcMask,
    CcProfileAttr,
    Controller,
    EpOp,
    EpReq,
    Ev,
    EvField,
    EvFmtMode,
    EvMode,
    EvOp,
    EvOpEntry,
    EvProfileAttr,
    EvProfileMask,
    EvState,
    FmtMask,
    FmtProfileAttr,
    PortAdminState,
    ProfileState,
)
from hosts.mrc.config import EndpointConfig, NicPort
from hosts.mrc.endpoint import Endpoint
from hosts.verbs import (
    ApiError,
    Context,
    Cq,
    EventType,
    IbvQpAttr,
    IbvQpAttrMask,
    IbvQpState,
    Qp,
    QpAttr,
    QpAttrMask,
    QpInitAttr,
    SendFlags,
    SendWr,
    WcStatus,
    WrOpcode,
)
from hosts.wire.dscp import Dscp
from hosts.wire.packet import parse_frame
from worlds.rng import stream
from worlds.virtual.link import Impairment
from worlds.virtual.loop import VirtualLoop

PLANES = 2
MS = 1_000_000
FMT, EVS, CC = 7, 42, 9
INIT, OFFLINE, ONLINE = ProfileState.INIT, ProfileState.OFFLINE, ProfileState.ONLINE


def code(call: Callable[[], object]) -> str:
    with pytest.raises(ApiError) as caught:
        call()
    assert caught.value.errno is not None
    return errno.errorcode[caught.value.errno]


class Nic:
    """One end: endpoint, context, controller, and a QP with its queues."""

    def __init__(self, loop: VirtualLoop, index: int) -> None:
        port = NicPort(
            mac=bytes([2, 0, 0, 0, index, 0]), gateway_mac=b"\2\1\0\0\0\0", rate_bps=10**10
        )
        config = EndpointConfig(
            gid=bytes(15) + bytes([index + 1]), ports=(port,) * PLANES, base_rtt_ns=10_000,
            timeout=8, pmtu=1024, hold_down_ns=MS, window_bytes=200_000,
            mpr_units=16, max_wimm=8, cc="fixed",
        )  # fmt: skip
        self.endpoint = Endpoint(config, stream(1, f"nic{index}"))
        self.context = Context(self.endpoint, lambda: loop.now_ns)
        self.controller = Controller(self.context, random.Random(index))
        self.index = loop.add_node(f"nic{index}", self.endpoint)
        self.pd = self.context.alloc_pd()
        self.channel = self.context.create_comp_channel()
        self.cq: Cq = self.context.create_cq(64, "mine", self.channel)
        self.qp: Qp = self.context.create_qp(QpInitAttr(self.cq, self.cq, self.pd))

    def make_profiles(self, evs: int = 4, mode: EvFmtMode = EvFmtMode.SRV6) -> list[Ev]:
        """Explicit EVs, planes in turn."""
        widths = {EvFmtMode.SRV6: (32,) * 4, EvFmtMode.STEV: (16, 16), EvFmtMode.UDP: (16,)}[mode]
        c = self.controller
        c.modify_ev_fmt_profile(
            FMT, FmtProfileAttr(OFFLINE, ev_fmt_mode=mode), FmtMask.STATE | FmtMask.MODE
        )
        c.modify_ev_fmt_profile(
            FMT, FmtProfileAttr(ONLINE, fmt_fields=widths), FmtMask.STATE | FmtMask.OP
        )
        fields = tuple(EvField(width=width, mask=(1 << width) - 1) for width in widths)
        c.modify_ev_profile(
            EVS,
            EvProfileAttr(OFFLINE, ev_mode=EvMode.EXP, ev_fmt_profile_id=FMT, ev_count=evs,
                          fields=fields),
            _TO_OFFLINE,
        )  # fmt: skip
        array = [Ev((0xC100 + i).to_bytes(2) * 8 + bytes(16), 1 + i % PLANES) for i in range(evs)]
        c.modify_ev_profile(
            EVS,
            EvProfileAttr(
                ev_op=EvOp.REPLACE_EV, entries=tuple(EvOpEntry(EV_UNPOPULATED, ev) for ev in array)
            ),
            EvProfileMask.EV_OP,
        )
        c.modify_ev_profile(
            EVS,
            EvProfileAttr(ONLINE, ev_min_active=1,
                          ev_event_mask=EvState.GOOD | EvState.ASSUMED_BAD),
            _TO_ONLINE,
        )  # fmt: skip
        c.modify_cc_profile(CC, CcProfileAttr(OFFLINE), CcMask.STATE | CcMask.ALGORITHM)
        c.modify_cc_profile(CC, CcProfileAttr(ONLINE), CcMask.STATE | CcMask.CONFIG)
        return array

    def to_init(self) -> None:
        self.qp.modify(
            IbvQpAttr(IbvQpState.INIT), IbvQpAttrMask.STATE,
            QpAttr(ev_profile_id=EVS, cc_profile_id=CC), _INIT,
        )  # fmt: skip

    def to_rtr(self, peer: "Nic") -> None:
        self.qp.modify(
            IbvQpAttr(IbvQpState.RTR, dgid=peer.context.query_gid(), path_mtu=1024,
                      dest_qp_num=peer.qp.qpn, rq_psn=peer.qp.query()[0].sq_psn),
            _RTR_V, QpAttr(mpr_dest=16, max_wimm_dest=8), _RTR,
        )  # fmt: skip

    def to_rts(self) -> None:
        psn = self.qp.query()[0].sq_psn
        self.qp.modify(
            IbvQpAttr(IbvQpState.RTS, sq_psn=psn), IbvQpAttrMask.STATE | IbvQpAttrMask.SQ_PSN,
            QpAttr(mpr=16, max_wimm=8, timeout=8, linear_cnt=7, exp_cnt=5), _RTS,
        )  # fmt: skip


_TO_OFFLINE = (
    EvProfileMask.STATE | EvProfileMask.MODE | EvProfileMask.FMT_ID | EvProfileMask.COUNT
    | EvProfileMask.EV_FIELDS_OP
)  # fmt: skip
_TO_ONLINE = EvProfileMask.STATE | EvProfileMask.MIN_ACTIVE | EvProfileMask.EVENT_MASK
_INIT = QpAttrMask.HINT | QpAttrMask.EV_PROFILE_ID | QpAttrMask.CC_PROFILE_ID
_RTR = QpAttrMask.MAX_WIMM_DEST | QpAttrMask.MPR_DEST | QpAttrMask.CAP
_RTR_V = (
    IbvQpAttrMask.STATE | IbvQpAttrMask.AV | IbvQpAttrMask.PATH_MTU | IbvQpAttrMask.DEST_QPN
    | IbvQpAttrMask.RQ_PSN
)  # fmt: skip
_RTS = QpAttrMask.MAX_WIMM | QpAttrMask.MPR | QpAttrMask.RETRY_CNT | QpAttrMask.TIMEOUT


class Bench:
    def __init__(self, mode: EvFmtMode = EvFmtMode.SRV6) -> None:
        self.loop = VirtualLoop(lambda name: stream(1, name))
        self.a, self.b = Nic(self.loop, 0), Nic(self.loop, 1)
        for plane in range(PLANES):
            for wire in self.loop.connect(0, plane, 1, plane):
                wire.impairment = Impairment(delay_ns=2000)
        self.array = self.a.make_profiles(mode=mode)
        self.b.make_profiles(mode=mode)
        for nic in (self.a, self.b):
            nic.to_init()
        self.a.to_rtr(self.b)
        self.b.to_rtr(self.a)
        for nic in (self.a, self.b):
            nic.to_rts()

    def run(self, ns: int = 5 * MS) -> None:
        for nic in (self.a, self.b):
            self.loop.wake(nic.index)
        self.loop.run_until(self.loop.now_ns + ns)


def test_a_write_with_immediate_completes_on_both_sides() -> None:
    bench = Bench()
    a, b = bench.a, bench.b
    source, target = a.pd.reg_mr(10_000), b.pd.reg_mr(10_000)
    source.buffer[:] = random.Random(1).randbytes(10_000)
    b.qp.post_recv(77)
    a.qp.post_send(
        SendWr(5, source, 0, 10_000, target.va, target.rkey, WrOpcode.RDMA_WRITE_WITH_IMM, 0xAB,
               SendFlags.SIGNALED)
    )  # fmt: skip
    a.qp.post_send(SendWr(6, source, 0, 100, target.va, target.rkey))
    a.cq.req_notify()
    bench.run()
    assert target.buffer == source.buffer
    (sent,) = a.cq.poll(10)
    assert (sent.wr_id, sent.status, sent.byte_len) == (5, WcStatus.SUCCESS, 10_000)
    (received,) = b.cq.poll(10)
    assert (received.wr_id, received.imm_data, received.qp_num) == (77, 0xAB, b.qp.qpn)
    event = a.channel.get_cq_event()
    assert event is a.cq
    assert event.cq_context == "mine"
    assert code(a.cq.destroy) == "EBUSY"
    a.cq.ack_events(1)
    assert a.channel.get_cq_event() is None


@pytest.mark.parametrize("mode", [EvFmtMode.SRV6, EvFmtMode.STEV, EvFmtMode.UDP])
def test_packets_carry_the_evs_of_the_profile(mode: EvFmtMode) -> None:
    bench = Bench(mode)
    seen = set()

    def see(now_ns: int, node: int, port: int, frame: bytes) -> None:
        packet = parse_frame(frame)
        if node == 0 and len(packet.payload):
            seen.add((packet.ev, port, packet.outer_dst == packet.inner_dst))

    bench.loop.tap(see)
    source, target = bench.a.pd.reg_mr(60_000), bench.b.pd.reg_mr(60_000)
    bench.a.qp.post_send(SendWr(1, source, 0, 60_000, target.va, target.rkey))
    bench.run()
    if mode is EvFmtMode.SRV6:
        assert seen == {(0xC000 | i << 3 | i % 2, i % 2, False) for i in range(4)}
    elif mode is EvFmtMode.STEV:
        assert seen == {((0xC100 + i) * 0x10001, i % 2, True) for i in range(4)}
    else:
        assert seen == {(0xC100 + i, i % 2, True) for i in range(4)}


def test_each_step_needs_its_attributes() -> None:
    loop = VirtualLoop(lambda name: stream(1, name))
    a, b = Nic(loop, 0), Nic(loop, 1)
    a.make_profiles()
    b.make_profiles()
    qp = a.qp
    for bit in _INIT:
        attr = QpAttr(ev_profile_id=EVS, cc_profile_id=CC)
        step = IbvQpAttr(IbvQpState.INIT)
        assert code(lambda: qp.modify(step, IbvQpAttrMask.STATE, attr, _INIT & ~bit)) == "EINVAL"  # noqa: B023
    assert code(lambda: qp.qpn) == "EINVAL"
    assert code(lambda: a.to_rtr(b)) == "EINVAL"
    a.to_init()
    b.to_init()
    assert code(a.to_init) == "EINVAL"
    assert code(a.to_rts) == "EINVAL"
    good = IbvQpAttr(
        IbvQpState.RTR, dgid=b.context.query_gid(), path_mtu=1024, dest_qp_num=b.qp.qpn
    )
    attr = QpAttr(mpr_dest=16, max_wimm_dest=8)
    for vbit in _RTR_V & ~IbvQpAttrMask.STATE:
        assert code(lambda: qp.modify(good, _RTR_V & ~vbit, attr, _RTR)) == "EINVAL"  # noqa: B023
    assert code(lambda: qp.modify(replace(good, path_mtu=4096), _RTR_V, attr, _RTR)) == "EINVAL"
    timeout = _RTR_V | IbvQpAttrMask.TIMEOUT
    assert code(lambda: qp.modify(good, timeout, attr, _RTR)) == "EINVAL"
    cur = _RTR_V | IbvQpAttrMask.CUR_STATE
    assert code(lambda: qp.modify(good, cur, attr, _RTR)) == "EINVAL"
    a.to_rtr(b)
    assert qp.state is IbvQpState.RTR
    mr = a.pd.reg_mr(10)
    assert code(lambda: qp.post_send(SendWr(1, mr, 0, 10, 0, 0))) == "EINVAL"
    a.to_rts()
    assert qp.query()[1].mpr == 16


def test_work_outside_the_rules_is_refused() -> None:
    bench = Bench()
    a = bench.a
    mr, foreign = a.pd.reg_mr(100), a.context.alloc_pd().reg_mr(100)
    assert code(lambda: a.qp.post_send(SendWr(1, mr, 50, 51, 0, 0))) == "EINVAL"
    assert code(lambda: a.qp.post_send(SendWr(1, foreign, 0, 10, 0, 0))) == "EINVAL"
    for wr_id in range(128):
        a.qp.post_recv(wr_id)
    assert code(lambda: a.qp.post_recv(128)) == "ENOMEM"


def test_a_wrong_key_is_a_remote_access_error_and_a_fatal_event() -> None:
    bench = Bench()
    a = bench.a
    mr = a.pd.reg_mr(100)
    a.qp.post_send(SendWr(1, mr, 0, 100, 0x1000, 0xBAD, send_flags=SendFlags.SIGNALED))
    a.qp.post_recv(2)
    bench.run()
    statuses = {wc.wr_id: wc.status for wc in a.cq.poll(10)}
    assert statuses == {1: WcStatus.REM_ACCESS_ERR, 2: WcStatus.WR_FLUSH_ERR}
    assert a.qp.state is IbvQpState.ERR
    event = a.context.get_async_event()
    assert event is not None
    assert (event.event_type, event.element) == (EventType.QP_FATAL, a.qp)
    a.context.ack_async_event(event)
    assert code(lambda: a.context.ack_async_event(event)) == "EINVAL"


def test_an_immediate_without_a_receive_ends_the_qp() -> None:
    bench = Bench()
    a, b = bench.a, bench.b
    source, target = a.pd.reg_mr(10), b.pd.reg_mr(10)
    a.qp.post_send(
        SendWr(1, source, 0, 10, target.va, target.rkey, WrOpcode.RDMA_WRITE_WITH_IMM, 1)
    )
    bench.run(MS)
    assert b.cq.poll(1) == []
    assert b.qp.state is IbvQpState.ERR
    assert b.qp.half.reason == "no_receive_posted"


def test_a_full_queue_is_overrun_once() -> None:
    bench = Bench()
    a, b = bench.a, bench.b
    cq = a.context.create_cq(1)
    wc = verbs.Wc(1, WcStatus.SUCCESS, verbs.WcOpcode.RDMA_WRITE, 0, b.qp.qpn)
    for _ in range(3):
        cq.complete(wc)
    event = a.context.get_async_event()
    assert event is not None
    assert (event.event_type, event.element) == (EventType.CQ_ERR, cq)
    assert a.context.get_async_event() is None
    assert cq.poll(5) == [wc]
    assert code(lambda: a.context.create_cq(0)) == "EINVAL"
    assert code(cq.req_notify) == "EINVAL"


def test_a_dead_plane_is_told_as_ev_events_and_port_events() -> None:
    bench = Bench()
    a = bench.a
    events = a.controller.create_ev_event_cq(1)
    bench.loop.set_link(0, 1, False)
    first = events.poll(10)
    assert [(e.profile_id, e.ev.port, e.drop_count, e.state) for e in first] == [
        (EVS, 2, 0, EvState.ASSUMED_BAD)
    ]
    told = {e.ev.port: e.state for e in a.controller.query_ev_profile(EVS).entries}
    assert told == {1: EvState.GOOD, 2: EvState.ASSUMED_BAD}
    bench.loop.set_link(0, 1, True)
    bench.run(20 * MS)
    (again,) = events.poll(10)
    assert (again.state, again.drop_count) == (EvState.GOOD, 1)
    kinds = []
    while (event := a.context.get_async_event()) is not None:
        kinds.append((event.event_type, event.element))
    assert kinds == [(EventType.PORT_ERR, 2), (EventType.PORT_ACTIVE, 2)]


def test_a_denied_ev_and_a_disabled_port_carry_nothing() -> None:
    bench = Bench()
    a, denied = bench.a, bench.array[0]
    entry = EvOpEntry(denied, state=EvState.DENIED)
    deny = EvProfileAttr(ev_op=EvOp.MODIFY_EV_STATE, entries=(entry,))
    a.controller.modify_ev_profile(EVS, deny, EvProfileMask.EV_OP)
    assert a.qp.half.evs.counts()["denied"] == 1
    states = a.controller.query_ev_profile(EVS, (EvOpEntry(denied),)).entries
    assert [e.state for e in states] == [EvState.DENIED]
    a.controller.modify_port(2, PortAdminState.DISABLED)
    assert a.controller.query_port(2) is PortAdminState.DISABLED
    seen = set()

    def see(now_ns: int, node: int, port: int, frame: bytes) -> None:
        packet = parse_frame(frame)
        if node == 0 and len(packet.payload):
            seen.add((packet.ev, port))

    bench.loop.tap(see)
    source, target = a.pd.reg_mr(50_000), bench.b.pd.reg_mr(50_000)
    a.qp.post_send(SendWr(1, source, 0, 50_000, target.va, target.rkey))
    bench.run()
    assert seen == {(0xC000 | 2 << 3, 0)}
    allow = replace(deny, entries=(EvOpEntry(denied, state=EvState.GOOD),))
    a.controller.modify_ev_profile(EVS, allow, EvProfileMask.EV_OP)
    assert a.qp.half.evs.counts()["denied"] == 0
    bad = replace(deny, entries=(EvOpEntry(Ev(bytes([9] * 32), 1)),))
    assert code(lambda: a.controller.modify_ev_profile(EVS, bad, EvProfileMask.EV_OP)) == "ENOENT"
    assert code(lambda: a.controller.query_port(3)) == "EINVAL"


def test_profiles_live_as_the_header_says() -> None:
    loop = VirtualLoop(lambda name: stream(1, name))
    nic = Nic(loop, 0)
    c = nic.controller
    s, m, o = FmtMask.STATE, FmtMask.MODE, FmtMask.OP

    def fmt(attr: FmtProfileAttr, mask: FmtMask) -> str:
        return code(lambda: c.modify_ev_fmt_profile(FMT, attr, mask))

    assert fmt(FmtProfileAttr(ONLINE), s) == "EINVAL"
    assert fmt(FmtProfileAttr(OFFLINE), s) == "EINVAL"
    c.modify_ev_fmt_profile(FMT, FmtProfileAttr(OFFLINE, ev_fmt_mode=EvFmtMode.STEV), s | m)
    assert fmt(FmtProfileAttr(ONLINE), s) == "EINVAL"
    assert fmt(FmtProfileAttr(fmt_fields=(20, 20)), o) == "E2BIG"
    c.modify_ev_fmt_profile(FMT, FmtProfileAttr(ONLINE, fmt_fields=(16, 16)), s | o)
    assert fmt(FmtProfileAttr(fmt_fields=(8,)), o) == "EINVAL"
    assert c.query_ev_fmt_profile(FMT).fmt_fields == (16, 16)

    def evs(attr: EvProfileAttr, mask: EvProfileMask) -> str:
        return code(lambda: c.modify_ev_profile(EVS, attr, mask))

    fields = (
        EvField(width=16, mask=0xFFFF),
        EvField(width=16, init_val=0xC000, mask=0x3FFF),
    )
    offline = EvProfileAttr(
        OFFLINE, ev_mode=EvMode.GEN, ev_fmt_profile_id=FMT, ev_count=6, fields=fields
    )
    for bit in _TO_OFFLINE & ~EvProfileMask.STATE:
        assert evs(offline, _TO_OFFLINE & ~bit) == "EINVAL"
    assert evs(replace(offline, ev_count=10**6), _TO_OFFLINE) == "E2BIG"
    assert evs(replace(offline, ev_fmt_profile_id=3), _TO_OFFLINE) == "EINVAL"
    assert evs(offline, _TO_OFFLINE | EvProfileMask.EV_OP) == "EINVAL"
    c.modify_ev_profile(EVS, offline, _TO_OFFLINE)
    generated = c.query_ev_profile(EVS)
    assert [e.ev.port for e in generated.entries] == [1, 2] * 3
    online = EvProfileAttr(ONLINE, ev_min_active=2, ev_event_mask=EvState.ASSUMED_BAD)
    assert evs(online, EvProfileMask.STATE) == "EINVAL"
    assert evs(replace(online, ev_min_active=7), _TO_ONLINE) == "EINVAL"
    assert evs(replace(online, ev_min_active=-1), _TO_ONLINE) == "EINVAL"
    assert evs(replace(online, ev_event_mask=EvState.DENIED), _TO_ONLINE) == "EINVAL"
    c.modify_ev_profile(EVS, online, _TO_ONLINE)
    assert evs(replace(offline, ev_count=3), EvProfileMask.COUNT) == "EINVAL"
    down = FmtProfileAttr(OFFLINE)
    assert fmt(down, s) == "EBUSY"
    c.modify_cc_profile(CC, CcProfileAttr(OFFLINE), CcMask.STATE | CcMask.ALGORITHM)
    c.modify_cc_profile(CC, CcProfileAttr(ONLINE), CcMask.STATE | CcMask.CONFIG)
    nic.to_init()
    evs_of_qp = nic.qp.half.evs.by_value
    assert all(value & 0xC000 == 0xC000 for value in evs_of_qp)
    assert evs(EvProfileAttr(OFFLINE), EvProfileMask.STATE) == "EBUSY"
    nic.qp.destroy()
    c.modify_ev_profile(EVS, EvProfileAttr(OFFLINE), EvProfileMask.STATE)
    c.modify_ev_fmt_profile(FMT, down, s)
    c.modify_ev_fmt_profile(FMT, FmtProfileAttr(INIT), s)
    assert c.query_ev_fmt_profile(FMT).fmt_fields == ()


def test_automatic_evs_need_no_format() -> None:
    loop = VirtualLoop(lambda name: stream(1, name))
    c = Nic(loop, 0).controller
    attr = EvProfileAttr(OFFLINE, ev_mode=EvMode.AUTO, ev_count=5)
    mask = EvProfileMask.STATE | EvProfileMask.MODE | EvProfileMask.COUNT
    c.modify_ev_profile(1, attr, mask)
    c.modify_ev_profile(1, EvProfileAttr(ONLINE), _TO_ONLINE)
    assert len({entry.ev for entry in c.query_ev_profile(1).entries}) == 5


def test_cc_profiles_name_the_one_algorithm() -> None:
    loop = VirtualLoop(lambda name: stream(1, name))
    nic = Nic(loop, 0)
    c, mask = nic.controller, CcMask.STATE | CcMask.ALGORITHM
    bad = CcProfileAttr(OFFLINE, algorithm="swift")
    assert code(lambda: c.modify_cc_profile(CC, bad, mask)) == "EINVAL"
    c.modify_cc_profile(CC, CcProfileAttr(OFFLINE, algorithm="uet-1.0-nscc"), mask)
    assert code(lambda: c.modify_cc_profile(CC, CcProfileAttr(ONLINE), CcMask.STATE)) == "EINVAL"
    odd = CcProfileAttr(cc_config=control.NsccCfg(eta=0.5))
    assert code(lambda: c.modify_cc_profile(CC, odd, CcMask.CONFIG)) == "EINVAL"
    c.modify_cc_profile(CC, CcProfileAttr(ONLINE), CcMask.STATE | CcMask.CONFIG)
    config = c.query_cc_profile(CC).cc_config
    assert config is not None
    assert config.base_rtt == 10_000
    assert code(lambda: c.check_cc(CC)) == "EINVAL"  # this endpoint runs a fixed window
    assert code(lambda: c.check_cc(CC + 1)) == "EINVAL"


def test_a_batch_of_ev_probes_tells_which_paths_work() -> None:
    bench = Bench()
    a, b = bench.a, bench.b
    requests = [
        EpReq(i, a.context.query_gid(), b.context.query_gid(), EvFmtMode.SRV6, ev)
        for i, ev in enumerate(bench.array)
    ]
    batch = a.controller.ep_batch_send(Dscp.NO_TRIM, EpOp.EV_PROBE, requests, MS)
    assert batch.wait() is None
    bench.run(MS // 2)
    responses = batch.wait()
    assert responses is not None
    assert sorted(response.req_id for response in responses) == [0, 1, 2, 3]
    assert {response.port for response in responses} <= {1, 2}
    assert all(4000 <= response.rtt < 20_000 for response in responses)

    def lose(frame: bytes, now_ns: int) -> bool:
        return parse_frame(frame).outer_dst == bench.array[2].val[:16]

    bench.loop.impair(0, 0, Impairment(delay_ns=2000, drop_if=lose))
    batch = a.controller.ep_batch_send(Dscp.NO_TRIM, EpOp.EV_PROBE, requests, MS)
    bench.run(2 * MS)
    assert code(batch.wait) == "ETIMEDOUT"
    assert sorted(response.req_id for response in batch.responses) == [0, 1, 3]


def test_a_port_status_update_moves_the_peer_off_that_plane() -> None:
    bench = Bench()
    a, b = bench.a, bench.b
    gids = a.context.query_gid(), b.context.query_gid()
    request = EpReq(1, *gids, EvFmtMode.SRV6, bench.array[0], port_status=0b010)
    batch = a.controller.ep_batch_send(Dscp.CONTROL, EpOp.PORT_STATUS_UPDATE, [request], MS)
    bench.run(MS // 2)
    assert batch.wait() is not None
    told = {e.ev.port: e.state for e in b.controller.query_ev_profile(EVS).entries}
    assert told == {1: EvState.GOOD, 2: EvState.ASSUMED_BAD}


def test_endpoint_requests_that_cannot_be_are_refused() -> None:
    bench = Bench()
    a = bench.a
    us, them = a.context.query_gid(), bench.b.context.query_gid()
    good = EpReq(1, us, them, EvFmtMode.SRV6, bench.array[0])
    for bad, why in (
        (replace(good, sgid=them), "EINVAL"),
        (replace(good, dgid=bytes(16)), "ENOTSUP"),
        (replace(good, req_ev=EV_UNPOPULATED), "EINVAL"),
        (replace(good, req_id=1 << 16), "EINVAL"),
    ):
        assert code(lambda: a.controller.ep_batch_send(0, EpOp.EV_PROBE, [bad], MS)) == why  # noqa: B023
    twice = [good, good]
    assert code(lambda: a.controller.ep_batch_send(0, EpOp.EV_PROBE, twice, MS)) == "EINVAL"


def test_devices_hints_and_contexts_tell_what_they_are() -> None:
    loop = VirtualLoop(lambda name: stream(1, name))
    nic = Nic(loop, 0)
    device = nic.context.query_device()
    assert (device.max_mpr, device.max_wimm_dest, device.mpr_resolution) == (16, 8, 1)
    assert verbs.query_version() == ((1, 0, 1), (1, 0, 0))
    ctl = nic.controller.query_device()
    assert ctl.phy_port_mask == 0b110
    assert ctl.algorithms == ("uet-1.0-nscc",)
    hint = nic.context.create_qp_hint(verbs.QpHintAttr(num_qps_per_peer=2))
    hint.modify(verbs.QpHintAttr(9, 8, 7), verbs.HintMask.NUM_SEND_PEERS)
    assert hint.query(verbs.HintMask.NUM_SEND_PEERS) == verbs.QpHintAttr(2, 8, 0)
    assert code(lambda: hint.query(verbs.HintMask.VENDOR_CFG)) == "EINVAL"
    assert code(nic.context.destroy) == "EBUSY"
    hint.destroy()
    assert code(nic.cq.destroy) == "EBUSY"
    nic.qp.destroy()
    nic.cq.destroy()
    nic.channel.destroy()
    nic.context.destroy()
