"""The same frames through real BMv2 (simple_switch) and through the engine.

    python -m tests.engine.reference --p4c CHECKOUT [--compiler C] [--switch S] [--seed N] [NAME...]

Takes the programs of p4c's STF tests without their table rows, and their packets with bytes
changed, cut off and added.  What differs is printed: look at it, since BMv2 leaves in a header that
is not valid what an earlier packet left there, and runs ingress and egress in two threads.
"""

import argparse
import random
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from switches.engine.build import build
from switches.engine.library import EngineSwitch
from switches.program import Const, Program, UnsupportedProgram, load_program
from tests.engine import stf

PORTS = 8
FRAMES = 60
QUIET_S = 1.5
"""BMv2 is done when its files have not grown for so long."""
START_S, PATIENCE_S = 8.0, 20.0

Sent = dict[int, list[bytes]]

_FILE = struct.Struct("<IHHiIII")
_RECORD = struct.Struct("<IIII")


def write_pcap(path: Path, frames: Sequence[bytes]) -> None:
    parts = [_FILE.pack(0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)]
    for index, frame in enumerate(frames):
        parts += [_RECORD.pack(index, 0, len(frame), len(frame)), frame]
    path.write_bytes(b"".join(parts))


def read_pcap(path: Path) -> list[bytes]:
    data = path.read_bytes() if path.exists() else b""
    frames, at = [], _FILE.size
    while at + _RECORD.size <= len(data):
        length = _RECORD.unpack_from(data, at)[2]
        at += _RECORD.size
        frames.append(data[at : at + length])
        at += length
    return frames


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def through_bmv2(program_json: Path, frames: Sequence[bytes], switch: str) -> Sent:
    """What simple_switch sends for frames that come in at port 0.  RuntimeError if it dies."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for port in range(PORTS):
            write_pcap(folder / f"p{port}_in.pcap", frames if port == 0 else ())
        thrift = _free_port()
        command = [switch, "--use-files", "0", "--thrift-port", str(thrift)]
        command += ["--device-id", str(thrift)]
        command += [word for port in range(PORTS) for word in ("-i", f"{port}@p{port}")]
        running = subprocess.Popen(
            [*command, str(program_json)],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait_until_quiet(running, folder)
        finally:
            running.terminate()
            running.wait()
        sent = {port: read_pcap(folder / f"p{port}_out.pcap") for port in range(PORTS)}
    return {port: found for port, found in sent.items() if found}


def _wait_until_quiet(running: subprocess.Popen[bytes], folder: Path) -> None:
    started = changed = time.monotonic()
    size = 0
    while (now := time.monotonic()) - started < PATIENCE_S:
        if running.poll() is not None:
            raise RuntimeError(f"simple_switch ended with {running.returncode}")
        found = sum(path.stat().st_size for path in folder.glob("*_out.pcap"))
        if found != size:
            size, changed = found, now
        begun = size > PORTS * _FILE.size or now - started > START_S
        if begun and now - changed > QUIET_S:
            return
        time.sleep(0.1)


def through_engine(program_json: Path, frames: Sequence[bytes]) -> Sent:
    library = build(program_json, opt="-O1").library
    switch = EngineSwitch(library, "reference", stf.PORTS, seed=1)
    sent: Sent = {}
    for index, frame in enumerate(frames):
        now_ns = index * 1_000_000
        switch.receive_frame(0, frame, now_ns)
        while (out := switch.poll_transmit(now_ns)) is not None:
            if out[0] < PORTS:
                sent.setdefault(out[0], []).append(out[1])
    switch.close()
    return sent


def difference(ours: Sent, theirs: Sent) -> str | None:
    """The first difference, in words."""
    for port in sorted({*ours, *theirs}):
        mine, other = ours.get(port, []), theirs.get(port, [])
        if len(mine) != len(other):
            return f"port {port}: {len(mine)} frames, {len(other)} from BMv2"
        for index, (a, b) in enumerate(zip(mine, other, strict=True)):
            if a != b:
                return f"port {port}, frame {index}:\n    ours {a.hex()}\n    BMv2 {b.hex()}"
    return None


def changed_frame(rng: random.Random, frame: bytes) -> bytes:
    """Bytes changed, cut off or added."""
    data = bytearray(frame)
    for _ in range(rng.randrange(5)):
        if data:
            data[rng.randrange(len(data))] = rng.choice([0, 1, 0x80, 255, rng.randrange(256)])
    kind = rng.random()
    if kind < 0.3:
        return bytes(data[: rng.randrange(1, len(data) + 1)])
    return bytes(data) + (rng.randbytes(rng.randrange(1, 80)) if kind < 0.5 else b"")


def packets_of(text: str) -> list[bytes]:
    return [bytes.fromhex("".join(s.words[1:])) for s in stf.statements(text) if s.verb == "packet"]


def is_comparable(program: Program) -> bool:
    """Not one that draws at random, nor one with loops, whose length a random packet may say."""
    for action in program.actions:
        for index, call in enumerate(action.primitives):
            if call.op == "modify_field_rng_uniform":
                return False
            target = call.args[-1] if call.op.startswith("_jump") else None
            if isinstance(target, Const) and target.value <= index:
                return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description="the engine against BMv2")
    parser.add_argument("--p4c", type=Path, required=True, help="a checkout of p4c")
    parser.add_argument("--compiler", default="p4c-bm2-ss")
    parser.add_argument("--switch", default="simple_switch")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("names", nargs="*", help="programs to run; all without")
    args = parser.parse_args()
    checkout = args.p4c.resolve()
    same = differ = 0
    with tempfile.TemporaryDirectory() as folder:
        for source in stf.tests_of(checkout):
            if args.names and source.stem not in args.names:
                continue
            compiled = stf.compile_p4(source, checkout, args.compiler, Path(folder))
            if isinstance(compiled, str) or not is_comparable(load_program(compiled)):
                continue
            packets = packets_of(source.with_suffix(".stf").read_text(encoding="utf-8"))
            rng = random.Random(f"{args.seed} {source.stem}")
            frames = [changed_frame(rng, rng.choice(packets or [bytes(64)])) for _ in range(FRAMES)]
            try:
                ours = through_engine(compiled, frames)
                found = difference(ours, through_bmv2(compiled, frames, args.switch))
            except UnsupportedProgram:
                continue
            except RuntimeError as error:
                found = str(error)
            same, differ = same + (found is None), differ + (found is not None)
            if found is not None:
                print(f"{source.stem}: {found}", flush=True)
    print(f"same {same}, different {differ}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
