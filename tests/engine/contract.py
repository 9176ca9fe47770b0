"""What every switch back end must do with p4/mrc.p4, whatever it is made of.

A back end subclasses `SwitchContract` and gives it a `rig`.  Packets in, packets out and counters
are compared byte for byte; what is random is compared with its distribution.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from math import sqrt
from typing import Protocol
from zlib import crc32

import pytest

from switches import entries as rows
from switches.api import (
    CounterValue,
    Exact,
    Switch,
    SwitchError,
    SwitchErrorCode,
    TableEntry,
    UpdateType,
    write_all,
)
from switches.entries import Routing, SwitchSettings, entries
from tests.engine.frames import Frame, encapsulated, parse, parse_ipv6, plain
from topologies import addressing
from topologies.addressing import UsidRole, usid
from topologies.builders import clos
from topologies.model import FabricSpec
from topologies.thresholds import Thresholds

FABRIC = clos(FabricSpec(planes=1, t0=2, t1=2, hosts_per_t0=2))
SWITCH = FABRIC.switch("p0t0n0")
HOST_PORT, OTHER_HOST_PORT, UPLINK_PORT, OTHER_UPLINK_PORT = range(4)
PORT_COUNT = 4

OWN = addressing.switch_usid(SWITCH)
T1 = usid(UsidRole.T1, 0, 0)
FAR_T0 = usid(UsidRole.T0, 0, 1)
NIC = usid(UsidRole.NIC, 0, 0)

DEPTHS = Thresholds(ecn_low=0, ecn_high=0, trim=4, trim_last_hop=6)
TRIM_SIZE = 144

NO_TRIM, TRIMMABLE, RETX, TRIMMED, TRIMMED_LASTHOP, CONTROL = 0, 4, 8, 12, 16, 46
NOT_ECT, ECT1, ECT0, CE = range(4)

Sent = tuple[int, bytes]
"""Port and frame."""


class Rig(Protocol):
    """A running switch with the program loaded and no rows, and hands on its wires."""

    switch: Switch
    hold_slack: int
    """Packets that may leave a held queue before it holds."""

    def send(self, port: int, frame: bytes) -> None: ...

    def collect(self) -> list[Sent]:
        """What left since the last call, in order, once nothing more comes."""

    def hold(self, port: int) -> None:
        """Let packets gather in the data queue of that port until `collect` is called."""


def up_list(*after: int) -> bytes:
    return addressing.usid_address([OWN, T1, FAR_T0, NIC, *after])


def down_list() -> bytes:
    return addressing.usid_address([OWN, NIC])


def program(rig: Rig, settings: SwitchSettings | None = None) -> None:
    settings = settings or SwitchSettings(thresholds=DEPTHS, ecn=False)
    write_all(rig.switch, UpdateType.INSERT, entries(FABRIC, SWITCH, settings))


def insert(rig: Rig, entry: TableEntry) -> None:
    rig.switch.write(UpdateType.INSERT, entry)


def drops(rig: Rig) -> dict[str, int]:
    cells = rig.switch.read_counter(rows.DROPS_COUNTER)
    named = zip(rows.DROP_REASONS, cells, strict=True)
    return {name: cell.packets for name, cell in named if cell.packets}


def counted(rig: Rig, name: str) -> list[int]:
    """Packets by port."""
    return [cell.packets for cell in rig.switch.read_counter(name)[:PORT_COUNT]]


def through(rig: Rig, frame: Frame, port: int = HOST_PORT) -> list[Sent]:
    rig.send(port, frame.emit())
    return rig.collect()


def macs(port: int) -> tuple[bytes, bytes]:
    """Destination and source of what leaves by that port, from the addressing alone."""
    if port < 2:
        peer = addressing.host_mac(FABRIC.hosts[port], 0)
    else:
        peer = addressing.switch_mac(FABRIC.switch(f"p0t1n{port - 2}"), 0)
    return peer, addressing.switch_mac(SWITCH, port)


def forwarded(frame: Frame, port: int, dst: bytes | None = None) -> Frame:
    """What must come out of that port."""
    ip = replace(frame.ip, hop_limit=frame.ip.hop_limit - 1, dst=dst or frame.ip.dst)
    return Frame(*macs(port), ip, frame.rest)


def within(count: int, trials: int, probability: float) -> bool:
    """Five standard deviations: once in two million runs it is chance."""
    spread = sqrt(trials * probability * (1 - probability))
    return abs(count - trials * probability) <= 5 * spread


class SwitchContract:
    @pytest.fixture
    def rig(self) -> Iterable[Rig]:
        raise NotImplementedError

    # --- routing

    def test_the_own_usid_goes_and_the_rest_moves_up(self, rig: Rig) -> None:
        program(rig)
        frame = encapsulated(up_list(0x1234, 0x5678), ev=0x1C008, payload=bytes(range(251)))
        after = addressing.usid_address([T1, FAR_T0, NIC, 0x1234, 0x5678])
        want = forwarded(frame, UPLINK_PORT, after)
        assert through(rig, frame) == [(UPLINK_PORT, want.emit())]
        assert drops(rig) == {}

    def test_the_last_hop_delivers_to_the_nic(self, rig: Rig) -> None:
        program(rig)
        frame = encapsulated(down_list())
        want = forwarded(frame, HOST_PORT, addressing.usid_address([NIC]))
        assert through(rig, frame, UPLINK_PORT) == [(HOST_PORT, want.emit())]

    def test_a_packet_in_transit_keeps_its_list(self, rig: Rig) -> None:
        program(rig)
        frame = encapsulated(addressing.usid_address([T1, FAR_T0, NIC]))
        assert through(rig, frame) == [(UPLINK_PORT, forwarded(frame, UPLINK_PORT).emit())]

    def test_a_usid_of_a_link_leads_over_it(self, rig: Rig) -> None:
        program(rig)
        insert(rig, rows.adjacency(FABRIC, SWITCH, OTHER_UPLINK_PORT, 0x0777))
        frame = encapsulated(addressing.usid_address([OWN, 0x0777, FAR_T0, NIC]))
        want = forwarded(frame, OTHER_UPLINK_PORT, addressing.usid_address([FAR_T0, NIC]))
        assert through(rig, frame) == [(OTHER_UPLINK_PORT, want.emit())]

    @pytest.mark.parametrize(
        ("dst", "hop_limit", "reason"),
        [
            ([OWN], 64, "argument_zero"),
            ([OWN], 1, "argument_zero"),
            ([OWN, T1, NIC], 1, "hop_limit"),
            ([OWN, T1, NIC], 0, "hop_limit"),
            ([T1, NIC], 1, "hop_limit"),
            ([OWN, FAR_T0, NIC], 64, "no_route"),
            ([0x7000, NIC], 64, "no_route"),
            ([OWN, usid(UsidRole.NIC, 1, 0)], 64, "no_route"),
        ],
    )
    def test_what_cannot_go_on_is_counted(
        self, rig: Rig, dst: list[int], hop_limit: int, reason: str
    ) -> None:
        program(rig)
        frame = encapsulated(addressing.usid_address(dst), hop_limit=hop_limit)
        assert through(rig, frame) == []
        assert drops(rig) == {reason: 1}

    def test_hop_limit_two_is_the_last_to_pass(self, rig: Rig) -> None:
        program(rig)
        [(_, out)] = through(rig, encapsulated(up_list(), hop_limit=2))
        assert parse(out).ip.hop_limit == 1

    def test_other_protocols_and_stumps_are_counted(self, rig: Rig) -> None:
        program(rig)
        rig.send(HOST_PORT, bytes(12) + b"\x08\x06" + bytes(46))
        rig.send(HOST_PORT, encapsulated(up_list()).emit()[:60])
        assert rig.collect() == []
        assert drops(rig) == {"not_ipv6": 1, "malformed": 1}

    def test_multicast_has_no_route(self, rig: Rig) -> None:
        program(rig)
        assert through(rig, encapsulated(b"\xff\x02" + bytes(13) + b"\x01")) == []
        assert drops(rig) == {"no_route": 1}

    def test_a_routing_header_is_carried_unread(self, rig: Rig) -> None:
        """SRH (next header 43): the address decides, as its first segment is there already."""
        program(rig)
        frame = encapsulated(up_list())
        frame = replace(frame, ip=replace(frame.ip, next_header=43))
        want = forwarded(frame, UPLINK_PORT, shifted(frame.ip.dst))
        assert through(rig, frame) == [(UPLINK_PORT, want.emit())]

    def test_a_udp_checksum_is_neither_checked_nor_made(self, rig: Rig) -> None:
        program(rig)
        frame = encapsulated(up_list())
        rest = frame.rest[:46] + b"\x12\x34" + frame.rest[48:]
        frame = replace(frame, rest=rest)
        want = forwarded(frame, UPLINK_PORT, shifted(frame.ip.dst))
        assert through(rig, frame) == [(UPLINK_PORT, want.emit())]

    def test_a_structured_entropy_value_picks_the_uplink(self, rig: Rig) -> None:
        program(rig, SwitchSettings(routing=Routing.STRUCTURED))
        src, dst = addressing.gid(FABRIC.hosts[0]), addressing.gid(FABRIC.hosts[3])
        for uplink in range(2):
            frame = plain(src, dst, ev=0x5_0000 | addressing.ev(0, uplink))
            want = forwarded(frame, UPLINK_PORT + uplink)
            assert through(rig, frame) == [(UPLINK_PORT + uplink, want.emit())]
        assert through(rig, plain(src, dst, ev=addressing.ev(0, 2))) == []
        assert drops(rig) == {"no_uplink": 1}

    def test_the_hash_is_the_salted_crc32_of_what_it_says(self, rig: Rig) -> None:
        program(rig, SwitchSettings(routing=Routing.ECMP))
        salt = crc32(b"0 p0t0n0")
        src, dst = addressing.gid(FABRIC.hosts[0]), addressing.gid(FABRIC.hosts[3])
        for ev in range(0x2C000, 0x2C000 + 32):
            data = salt.to_bytes(4) + src + dst + ev.to_bytes(4)
            port = UPLINK_PORT + crc32(data) % 2
            frame = plain(src, dst, ev=ev)
            assert through(rig, frame) == [(port, forwarded(frame, port).emit())]

    def test_down_goes_by_the_whole_address(self, rig: Rig) -> None:
        program(rig, SwitchSettings(routing=Routing.ECMP))
        for port in (HOST_PORT, OTHER_HOST_PORT):
            frame = plain(addressing.gid(FABRIC.hosts[3]), addressing.gid(FABRIC.hosts[port]))
            assert through(rig, frame, UPLINK_PORT) == [(port, forwarded(frame, port).emit())]

    def test_frames_are_counted_where_they_come_and_where_they_go(self, rig: Rig) -> None:
        program(rig)
        for _ in range(3):
            rig.send(HOST_PORT, encapsulated(up_list()).emit())
        rig.send(UPLINK_PORT, encapsulated(down_list()).emit())
        rig.send(UPLINK_PORT, encapsulated(addressing.usid_address([OWN])).emit())
        assert len(rig.collect()) == 4
        assert counted(rig, rows.RECEIVED_COUNTER) == [3, 0, 2, 0]
        assert counted(rig, rows.SENT_COUNTER) == [1, 0, 3, 0]
        assert drops(rig) == {"argument_zero": 1}

    # --- trimming

    def burst(self, rig: Rig, frames: Sequence[Frame], port: int = HOST_PORT) -> list[Sent]:
        for frame in frames:
            rig.send(port, frame.emit())
        return rig.collect()

    @pytest.mark.parametrize(
        ("dst", "port", "threshold", "mark"),
        [
            (up_list(), UPLINK_PORT, DEPTHS.trim, TRIMMED),
            (down_list(), HOST_PORT, DEPTHS.trim_last_hop, TRIMMED_LASTHOP),
        ],
        ids=["between-switches", "last-hop"],
    )
    def test_beyond_the_threshold_packets_are_trimmed_and_overtake(
        self, rig: Rig, dst: bytes, port: int, threshold: int, mark: int
    ) -> None:
        program(rig)
        rig.hold(port)
        frames = [encapsulated(dst, ev=n, dscp=(TRIMMABLE, RETX)[n % 2]) for n in range(20)]
        out = self.burst(rig, frames)
        assert len(out) == 20
        assert {p for p, _ in out} == {port}
        trims = [f for _, f in out if len(f) == TRIM_SIZE]
        whole = [f for _, f in out if len(f) == len(frames[0].emit())]
        assert threshold <= len(whole) <= threshold + rig.hold_slack
        assert len(trims) == 20 - len(whole)
        self.check_trims(frames, trims, port, mark)
        self.check_order([len(f) for _, f in out], rig.hold_slack)
        self.check_trim_counters(rig, port, len(trims), len(frames[0].emit()))

    def check_trims(self, frames: list[Frame], trims: list[bytes], port: int, mark: int) -> None:
        """Cut at the size, outer code point rewritten, all else as a whole packet has it."""
        by_ev = {
            frame.ip.flow_label << 16 | frame.rest[40] << 8 | frame.rest[41]: frame
            for frame in frames
        }
        for trim in trims:
            got = parse(trim)
            sent = by_ev[got.ip.flow_label << 16 | got.rest[40] << 8 | got.rest[41]]
            want = forwarded(sent, port, shifted(sent.ip.dst))
            want = replace(want, ip=replace(want.ip, dscp=mark))
            assert trim == want.emit()[:TRIM_SIZE]

    def check_order(self, lengths: list[int], slack: int) -> None:
        """Trims leave first, but for what was gone before."""
        runs = [(length, len(list(run))) for length, run in groupby(lengths)]
        if runs[0][0] != TRIM_SIZE:
            assert runs[0][1] <= slack
            runs = runs[1:]
        assert [length for length, _ in runs] in ([TRIM_SIZE], [TRIM_SIZE, max(lengths)])

    def check_trim_counters(self, rig: Rig, port: int, count: int, length: int) -> None:
        """Packets, and bytes as they were before the cut."""
        for name in (rows.TRIM_COUNTER, rows.TRIM_SENT_COUNTER):
            cells = rig.switch.read_counter(name)
            assert cells[port] == CounterValue(count, count * length), name
            assert sum(cell.packets for cell in cells) == count, name

    @pytest.mark.parametrize("size", [128, 256])
    def test_the_trim_size_is_a_setting(self, rig: Rig, size: int) -> None:
        program(rig, SwitchSettings(thresholds=DEPTHS, trim_size=size))
        rig.hold(UPLINK_PORT)
        out = self.burst(rig, [encapsulated(up_list(), payload=bytes(400))] * 12)
        assert {len(f) for _, f in out} == {size, 102 + 400}

    def test_length_fields_stay_unless_told(self, rig: Rig) -> None:
        settings = SwitchSettings(thresholds=DEPTHS, rewrite_length=True)
        program(rig, settings)
        rig.hold(UPLINK_PORT)
        frame = encapsulated(up_list())
        trims = [f for _, f in self.burst(rig, [frame] * 12) if len(f) == TRIM_SIZE]
        assert trims
        for trim in trims:
            assert parse(trim).ip.payload_length == TRIM_SIZE - 54
            assert parse_ipv6(trim[54:]).payload_length == frame.ip.payload_length - 40

    def test_a_packet_with_nothing_to_lose_stays_whole_and_overtakes(self, rig: Rig) -> None:
        program(rig)
        rig.hold(UPLINK_PORT)
        long = [encapsulated(up_list())] * 8
        short = encapsulated(up_list(), payload=bytes(TRIM_SIZE - 102))
        out = self.burst(rig, [*long, short])
        want = forwarded(short, UPLINK_PORT, shifted(short.ip.dst)).emit()
        assert len(want) == TRIM_SIZE
        assert (UPLINK_PORT, want) in out
        assert out.index((UPLINK_PORT, want)) < len(out) - DEPTHS.trim
        trimmed = sum(cell.packets for cell in rig.switch.read_counter(rows.TRIM_COUNTER))
        assert trimmed == sum(parse(f).ip.dscp == TRIMMED for _, f in out)

    @pytest.mark.parametrize("dscp", [NO_TRIM, 10, TRIMMED, TRIMMED_LASTHOP, CONTROL])
    def test_nothing_else_is_ever_trimmed(self, rig: Rig, dscp: int) -> None:
        program(rig)
        rig.hold(UPLINK_PORT)
        frame = encapsulated(up_list(), dscp=dscp)
        out = self.burst(rig, [frame] * 12)
        want = forwarded(frame, UPLINK_PORT, shifted(frame.ip.dst)).emit()
        assert out == [(UPLINK_PORT, want)] * 12

    @pytest.mark.parametrize("dscp", [TRIMMED, TRIMMED_LASTHOP, CONTROL])
    def test_control_overtakes_data(self, rig: Rig, dscp: int) -> None:
        program(rig)
        rig.hold(UPLINK_PORT)
        data = [encapsulated(up_list(), dscp=NO_TRIM)] * 6
        out = self.burst(rig, [*data, encapsulated(up_list(), dscp=dscp)])
        order = [parse(f).ip.dscp for _, f in out]
        assert order.index(dscp) <= rig.hold_slack
        assert len(order) == 7

    def test_trimming_can_be_off(self, rig: Rig) -> None:
        program(rig, SwitchSettings(trimming=False, ecn=False))
        rig.hold(UPLINK_PORT)
        out = self.burst(rig, [encapsulated(up_list())] * 30)
        assert {len(f) for _, f in out} == {302}

    def test_the_depth_is_the_truth_again_when_the_queue_is_empty(self, rig: Rig) -> None:
        program(rig)
        for _ in range(2):
            rig.hold(UPLINK_PORT)
            self.burst(rig, [encapsulated(up_list())] * 9)
        assert rig.switch.read_register(rows.DATA_DEPTH_REGISTER)[:PORT_COUNT] == [0, 0, 0, 0]
        assert len(through(rig, encapsulated(up_list()))[0][1]) == 302

    # --- marking

    def marking(self, rig: Rig, low: int, high: int) -> None:
        depths = Thresholds(ecn_low=low, ecn_high=high, trim=0, trim_last_hop=0)
        program(rig, SwitchSettings(thresholds=depths, trimming=False))

    def test_marks_follow_the_depth_left_behind(self, rig: Rig) -> None:
        self.marking(rig, 2, 5)
        rig.hold(UPLINK_PORT)
        out = self.burst(rig, [encapsulated(up_list(), ecn=ECT0)] * 12)
        marks = [parse(f).ip.ecn for _, f in out]
        assert marks[-3:] == [ECT0] * 3  # 2, 1, 0 packets behind them
        assert marks[rig.hold_slack : 7] == [CE] * (7 - rig.hold_slack)  # 5 and more
        [cell] = [c for c in rig.switch.read_counter(rows.ECN_MARKED_COUNTER) if c.packets]
        assert cell.packets == marks.count(CE)

    def test_in_between_the_probability_is_linear(self, rig: Rig) -> None:
        self.marking(rig, 0, 50)
        marked = trials = 0
        for _ in range(6):
            rig.hold(UPLINK_PORT)
            out = self.burst(rig, [encapsulated(up_list(), ecn=ECT1)] * 50)
            assert len(out) == 50
            marked += sum(parse(f).ip.ecn == CE for _, f in out[rig.hold_slack :])
            trials += 50 - rig.hold_slack
        # Mean share is a half; the variance of a sum of unequal odds is below that of equal ones.
        assert within(marked, trials, sum(range(50 - rig.hold_slack)) / 50 / (50 - rig.hold_slack))

    @pytest.mark.parametrize("ecn", [NOT_ECT, CE])
    def test_only_capable_packets_are_marked(self, rig: Rig, ecn: int) -> None:
        self.marking(rig, 0, 1)
        rig.hold(UPLINK_PORT)
        out = self.burst(rig, [encapsulated(up_list(), ecn=ecn)] * 8)
        assert {parse(f).ip.ecn for _, f in out} == {ecn}
        assert all(c.packets == 0 for c in rig.switch.read_counter(rows.ECN_MARKED_COUNTER))

    def test_neither_the_last_hop_nor_control_is_marked(self, rig: Rig) -> None:
        self.marking(rig, 0, 1)
        rig.hold(HOST_PORT)
        rig.hold(UPLINK_PORT)
        down = [encapsulated(down_list(), ecn=ECT0)] * 6
        data = [encapsulated(up_list(), ecn=NOT_ECT)] * 6
        control = [encapsulated(up_list(), ecn=ECT0, dscp=CONTROL)] * 3
        out = self.burst(rig, [*down, *data, *control], OTHER_HOST_PORT)
        assert len(out) == 15
        assert all(parse(f).ip.ecn != CE for _, f in out)

    # --- faults

    def test_a_blackhole_takes_everything(self, rig: Rig) -> None:
        program(rig)
        insert(rig, rows.fault())
        assert self.burst(rig, [encapsulated(up_list())] * 5) == []
        assert drops(rig) == {"fault": 5}
        rig.switch.write(UpdateType.DELETE, rows.fault())
        assert len(through(rig, encapsulated(up_list()))) == 1

    @pytest.mark.parametrize(
        ("keys", "survivors"),
        [
            ({"ingress_port": HOST_PORT}, {(OTHER_HOST_PORT, 1), (OTHER_HOST_PORT, 2)}),
            ({"egress_port": UPLINK_PORT}, set[tuple[int, int]]()),
            ({"egress_port": HOST_PORT}, {(p, e) for p in (0, 1) for e in (1, 2)}),
            ({"ev": 2}, {(HOST_PORT, 1), (OTHER_HOST_PORT, 1)}),
            (
                {"ev": 2, "ingress_port": HOST_PORT},
                {(HOST_PORT, 1), (OTHER_HOST_PORT, 1), (OTHER_HOST_PORT, 2)},
            ),
        ],
    )
    def test_a_fault_hits_what_it_names(
        self, rig: Rig, keys: dict[str, int], survivors: set[tuple[int, int]]
    ) -> None:
        program(rig)
        insert(rig, rows.fault(**keys))
        for port in (HOST_PORT, OTHER_HOST_PORT):
            for ev in (1, 2):
                out = through(rig, encapsulated(up_list(), ev=ev), port)
                assert bool(out) == ((port, ev) in survivors)

    def test_grey_loss_takes_its_share(self, rig: Rig) -> None:
        program(rig)
        row = rows.fault(per_million=200_000, ev=7)
        insert(rig, row)
        arrived = 0
        for _ in range(40):
            arrived += len(self.burst(rig, [encapsulated(up_list(), ev=7, dscp=CONTROL)] * 25))
        assert within(1000 - arrived, 1000, 0.2)
        assert drops(rig) == {"fault": 1000 - arrived}
        matched = rig.switch.read_direct_counter(rows.FAULT, row)
        assert matched == CounterValue(1000, 1000 * 302)

    # --- control

    def test_rows_are_read_back_as_written(self, rig: Rig) -> None:
        program(rig)
        insert(rig, rows.fault(ingress_port=1, per_million=5, priority=9))
        wanted = entries(FABRIC, SWITCH, SwitchSettings(thresholds=DEPTHS, ecn=False))
        read = rig.switch.read_entries()
        assert sorted(map(repr, read)) == sorted(
            map(repr, [*wanted, rows.fault(ingress_port=1, per_million=5, priority=9)])
        )
        assert len(rig.switch.read_entries(rows.FIB)) == PORT_COUNT

    def test_a_row_can_be_changed_and_only_once_inserted(self, rig: Rig) -> None:
        program(rig)
        [own] = [e for e in rig.switch.read_entries(rows.PORT) if e.match == {"port": Exact(2)}]
        with pytest.raises(SwitchError) as refused:
            rig.switch.write(UpdateType.INSERT, own)
        assert refused.value.code is SwitchErrorCode.ALREADY_EXISTS
        rig.switch.write(UpdateType.DELETE, own)
        with pytest.raises(SwitchError) as missing:
            rig.switch.write(UpdateType.DELETE, own)
        assert missing.value.code is SwitchErrorCode.NOT_FOUND

    def test_a_register_can_be_written(self, rig: Rig) -> None:
        program(rig)
        rig.switch.write_register(rows.DATA_DEPTH_REGISTER, UPLINK_PORT, DEPTHS.trim)
        [(_, out)] = through(rig, encapsulated(up_list()))
        assert len(out) == TRIM_SIZE
        assert rig.switch.read_register(rows.DATA_DEPTH_REGISTER)[UPLINK_PORT] == DEPTHS.trim


def shifted(dst: bytes) -> bytes:
    return dst[:4] + dst[6:] + bytes(2)
