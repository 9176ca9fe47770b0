"""The Wireshark dissector reads our captures: nothing malformed, every field equal to ours."""

import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hosts.wire.aeth import Aeth
from hosts.wire.dscp import Dscp, Ecn, traffic_class
from hosts.wire.eeth import Eeth
from hosts.wire.erth import Erth
from hosts.wire.nack import Nack, NackReason
from hosts.wire.opcode import WITH_IMMEDIATE, WRITES
from hosts.wire.packet import Packet, parse_frame
from hosts.wire.path import ControlHeader
from hosts.wire.peth import Peth
from hosts.wire.sack import Sack
from tests.unit.test_wire_packet import USIDS, ToQp, to_qp
from worlds.pcapng import PcapngWriter

TSHARK = shutil.which("tshark")
SCRIPT = Path(__file__).parents[2] / "docs" / "wireshark" / "mrc.lua"
pytestmark = pytest.mark.skipif(TSHARK is None, reason="tshark is not installed (apt: tshark)")

FRAMES = 300
COMMON = ("opcode", "pad", "p_key", "dest_qpn", "ack_req", "rtx", "ts_present", "psn", "ev")
WRITE_FIELDS = ("rqmsn", "msn", "va", "rkey", "dma_length", "payload_length", "icrc")
HEADER_FIELDS: dict[type, dict[str, str]] = {
    Aeth: {"aeth.syndrome": "syndrome", "msn": "msn"},
    Sack: {
        "sack.m": "m", "sack.pr": "pr", "entropy": "entropy", "spdcid": "spdcid",
        "dpdcid": "dpdcid", "sack.cack_psn": "cack_psn", "cc_type": "cc_type", "cc_fl": "cc_fl",
        "sack.mpr": "mpr", "sack.sack_offset": "sack_offset", "sack.bitmap": "bitmap",
        "tx_ticks": "tx_ticks", "sack.ooo_count": "ooo_count",
        "sack.restore_cwnd": "restore_cwnd", "sack.rcv_cwnd_pen": "rcv_cwnd_pen",
        "sack.rcvd_units": "rcvd_units",
    },
    Nack: {
        "nack.reason": "reason", "vendor_info": "vendor_info", "entropy": "entropy",
        "spdcid": "spdcid", "dpdcid": "dpdcid", "nack.psn": "nack_psn", "cc_type": "cc_type",
        "cc_fl": "cc_fl", "tx_ticks": "tx_ticks",
    },
    Peth: {
        "probe_id": "probe_id", "vendor_info": "vendor_info", "spdcid": "spdcid",
        "dpdcid": "dpdcid", "tx_ticks": "tx_ticks", "tsr": "tsr", "ftype": "ftype",
    },
    Erth: {
        "op": "op", "vendor_info": "vendor_info", "erth.port_status_mask": "port_status_mask",
        "tx_ticks": "tx_ticks", "tsr": "tsr", "ftype": "ftype",
    },
    Eeth: {"op": "op", "tx_ticks": "tx_ticks"},
}  # fmt: skip
NAMES = sorted(
    {
        *COMMON, *WRITE_FIELDS, "tx_ticks", "tsr", "imm", "trimmed", "probe_id",
        "sack.ack_psn_offset", *(name for names in HEADER_FIELDS.values() for name in names),
    }
)  # fmt: skip


def random_write(rng: random.Random, t: ToQp) -> bytes:
    opcode = rng.choice(sorted(WRITES))
    trimmed = rng.random() < 0.2
    dscp = rng.choice((Dscp.TRIMMED, Dscp.TRIMMED_LASTHOP)) if trimmed else Dscp.TRIMMABLE
    frame = t.emit_write(
        opcode,
        rng.getrandbits(24),
        rng.randbytes(rng.randrange(1, 300)),
        rqmsn=rng.getrandbits(16),
        msn=rng.getrandbits(16),
        va=rng.getrandbits(64),
        rkey=rng.getrandbits(32),
        dma_length=rng.getrandbits(32),
        imm=rng.getrandbits(32) if opcode in WITH_IMMEDIATE else None,
        tx_ticks=rng.getrandbits(16) if rng.random() < 0.8 else None,
        ack_req=rng.random() < 0.5,
        rtx=rng.random() < 0.5,
        traffic_class=traffic_class(dscp, Ecn.ECT0),
    )
    return frame[:144] if trimmed else frame


def random_header(rng: random.Random) -> ControlHeader:
    bits = rng.getrandbits
    pr = rng.random() < 0.5
    headers: list[ControlHeader] = [
        Aeth(bits(8), bits(24)),
        Sack(
            cack_psn=bits(24), entropy=bits(32), m=bits(2), pr=pr,
            ack_psn_offset=bits(16) if pr else bits(16) - 0x8000, spdcid=bits(16),
            dpdcid=bits(16), cc_type=bits(4), cc_fl=bits(4), mpr=bits(8),
            sack_offset=bits(16) - 0x8000, bitmap=bits(64), tx_ticks=bits(16),
            ooo_count=bits(15), restore_cwnd=bits(1) == 1, rcv_cwnd_pen=bits(7),
            rcvd_units=bits(24),
        ),
        Nack(
            reason=rng.choice(list(NackReason)), nack_psn=bits(24), entropy=bits(32),
            tx_ticks=bits(16), spdcid=bits(16), dpdcid=bits(16), cc_type=bits(4),
            cc_fl=bits(4), vendor_info=bits(8),
        ),
        Peth(
            probe_id=bits(16), tx_ticks=bits(16), spdcid=bits(16), dpdcid=bits(16),
            tsr=bits(1), ftype=bits(4), vendor_info=bits(8),
        ),
        Erth(
            op=bits(2), port_status_mask=bits(32), tx_ticks=bits(16), tsr=bits(1),
            ftype=bits(4), vendor_info=bits(8),
        ),
        Eeth(bits(2), bits(16)),
    ]  # fmt: skip
    return rng.choice(headers)


def random_frame(rng: random.Random) -> bytes:
    outer_dst = USIDS if rng.random() < 0.7 else None
    ev = rng.getrandbits(32) | 0xC000  # Wireshark asks the owner of the lower port first
    t = to_qp(ev, outer_dst, rng.choice((4971, 4791)), rng.getrandbits(24))
    if rng.random() < 0.6:
        return random_write(rng, t)
    return t.emit_control(random_header(rng), psn=rng.getrandbits(24))


def tshark(*arguments: str) -> str:
    assert TSHARK is not None
    command = [TSHARK, "-X", f"lua_script:{SCRIPT}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert "Lua" not in done.stderr, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def frames() -> list[bytes]:
    rng = random.Random(7)
    return [random_frame(rng) for _ in range(FRAMES)]


@pytest.fixture(scope="module")
def capture(frames: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("wireshark") / "mrc.pcapng"
    with path.open("wb") as file:
        writer = PcapngWriter(file, ["h0-eth0", "p0t0n0-eth1"])
        for number, frame in enumerate(frames):
            writer.write(number % 2, 10**18 + number, frame, outbound=number % 3 == 0)
    return str(path)


def wanted(packet: Packet, frame: bytes) -> dict[str, Any]:
    out: dict[str, Any] = {name: getattr(packet, name) for name in COMMON}
    out["trimmed"] = packet.trimmed
    if packet.trimmed:
        del out["pad"]
    for header, names in HEADER_FIELDS.items():
        value = getattr(packet, header.__name__.lower())
        if value is not None:
            out |= {name: getattr(value, ours) for name, ours in names.items()}
    if packet.sack is not None:
        name = "probe_id" if packet.sack.pr else "sack.ack_psn_offset"
        out[name] = packet.sack.ack_psn_offset
    if packet.opcode in WRITES:
        out |= {"rqmsn": packet.rqmsn, "msn": packet.msn}
        if packet.ts_present:
            out |= {"tx_ticks": packet.tx_ticks}
    if packet.opcode in WRITES and not packet.trimmed:
        out |= {name: getattr(packet, name) for name in ("va", "rkey", "dma_length")}
        out |= {"payload_length": len(packet.payload), "tsr": packet.tsr}
        if not packet.ts_present:
            del out["tsr"]
        if packet.imm is not None:
            out["imm"] = packet.imm
    if not packet.trimmed:
        out["icrc"] = int.from_bytes(frame[-4:], "little")
    return out


def number(text: str) -> int:
    return {"True": 1, "False": 0}[text] if text in ("True", "False") else int(text, 0)


def test_every_field_equals_ours(frames: list[bytes], capture: str) -> None:
    fields = [argument for name in NAMES for argument in ("-e", f"mrc.{name}")]
    out = tshark("-r", capture, "-T", "fields", "-E", "separator=|", "-E", "occurrence=a", *fields)
    rows = out.splitlines()
    assert len(rows) == len(frames)
    opcodes = set()
    for row, frame in zip(rows, frames, strict=True):
        theirs = dict(zip(NAMES, row.split("|"), strict=True))
        packet = parse_frame(frame)
        opcodes.add(packet.opcode)
        for name, value in wanted(packet, frame).items():
            assert theirs[name], (name, packet)
            assert number(theirs[name]) == int(value), (name, packet)
    assert len(opcodes) == 12


def test_nothing_is_malformed(capture: str) -> None:
    """Wireshark itself remarks that a trimmed packet is shorter than its UDP length says: it is."""
    bad = "(_ws.malformed && !(mrc.trimmed == 1)) || mrc.too_short || !mrc"
    assert tshark("-r", capture, "-Y", bad) == ""


def test_a_packet_that_ends_early_is_said_to(tmp_path: Path) -> None:
    frame = to_qp().emit_control(Sack(cack_psn=1, entropy=2), psn=1)
    path = tmp_path / "short.pcapng"
    with path.open("wb") as file:
        PcapngWriter(file, ["h0-eth0"]).write(0, 1, frame[:-20], outbound=True)
    assert "too_short" in tshark("-r", str(path), "-Y", "mrc.too_short", "-T", "json")


def test_rocev2_keeps_its_own_packets(tmp_path: Path) -> None:
    frame = bytearray(to_qp(dport=4791).emit_control(Aeth.ack(1), psn=1))
    frame[102] = 0x11  # RC Acknowledge
    path = tmp_path / "roce.pcapng"
    with path.open("wb") as file:
        PcapngWriter(file, ["h0-eth0"]).write(0, 1, bytes(frame), outbound=True)
    assert "infiniband" in tshark("-r", str(path), "-T", "fields", "-e", "frame.protocols")


def test_capinfos_accepts_the_file(capture: str, frames: list[bytes]) -> None:
    capinfos = shutil.which("capinfos")
    if capinfos is None:
        pytest.skip("capinfos is not installed (apt: wireshark-common)")
    done = subprocess.run([capinfos, capture], capture_output=True, text=True, check=True)
    assert re.search(rf"Number of packets:\s+{len(frames)}", done.stdout)
    assert "Name = p0t0n0-eth1" in done.stdout
    assert "nanoseconds (9)" in done.stdout
