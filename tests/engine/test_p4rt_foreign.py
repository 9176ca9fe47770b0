"""A P4Runtime client that is not ours programs our switch: finsy, in a venv and process of its own.

The venv lies in the cache of the checkout; where it cannot be made this is a stated skip.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from switches.engine.library import EngineSwitch
from switches.p4rt.server import P4RuntimeServer, ServedDevice
from tests.engine.contract import UPLINK_PORT, up_list
from tests.engine.test_p4rt_engine import (
    BUILD,
    DEVICE,
    P4INFO,
    PROGRAM,
    engine,
    library,
    sent,
)

__all__ = ["engine", "library"]

CACHE = Path(__file__).parents[2] / ".cache"
FINSY = "finsy==0.30.0"
"""Carries message classes of its own, so it shares no code with us but gRPC."""
PIP_OPTIONS = ("--quiet", "--retries", "1", "--timeout", "15")

SESSION = """
import asyncio, json, sys
from pathlib import Path
import finsy as fy

address, device, p4info, program, own, next_hop, port = sys.argv[1:]


def node():
    return fy.P4TableEntry("usid_node", match=fy.Match(sid=int(own, 16)), action=fy.Action("uN"))


def route():
    macs = {"src_mac": "02:00:00:00:00:01", "dst_mac": "02:00:00:00:00:02"}
    forward = fy.Action("forward", port=int(port), **macs)
    return fy.P4TableEntry("fib", match=fy.Match(dst=next_hop), action=forward)


def fault(per_million):
    return fy.P4TableEntry(
        "fault",
        match=fy.Match(ev="0xabcd/&0xffffffff"),
        priority=3,
        metadata=b"grey",
        action=fy.Action("lose", per_million=per_million),
    )


async def rows(switch, table=""):
    return [entry async for entry in switch.read(fy.P4TableEntry(table))]


async def main():
    said = {}
    options = fy.SwitchOptions(p4info=Path(p4info), p4blob=Path(program), device_id=int(device))
    async with fy.Switch("t0", address, options) as switch:
        said["primary"] = switch.is_primary
        await switch.write([+node(), +route(), +fault(10)])
        said["rows"] = sorted(row.table_id for row in await rows(switch))
        try:
            await switch.write([+node(), ~fault(20), -fy.P4TableEntry("fib")])
        except fy.P4ClientError as error:
            said["errors"] = {i: d.canonical_code.name for i, d in error.details.items()}
        [row] = await rows(switch, "fault")
        said["fault"] = [row.priority, row.metadata.decode(), row.action.args]
        hits = switch.read(fy.P4DirectCounterEntry("fault_matched"))
        said["hits"] = [entry.packet_count async for entry in hits]
        said["drops"] = len([entry async for entry in switch.read(fy.P4CounterEntry("drops"))])
        await switch.write([~fy.P4RegisterEntry("data_depth", index=5, data=9)])
        cells = switch.read(fy.P4RegisterEntry("data_depth", index=5))
        said["depth"] = [cell.data async for cell in cells]
        print(json.dumps(said), flush=True)
        sys.stdin.readline()
        await switch.delete_all()
        print(json.dumps(len(await rows(switch))), flush=True)


asyncio.run(main())
"""


def make_venv(folder: Path) -> str | None:
    """None when it is there; else why not.  Made beside and moved, so it is whole or absent."""
    if folder.is_dir():
        return None
    folder.parent.mkdir(exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=folder.parent, prefix="making-"))
    for command in (
        [sys.executable, "-m", "venv", str(made)],
        [str(made / "bin" / "python"), "-m", "pip", "install", *PIP_OPTIONS, FINSY],
    ):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
            error = done.stderr.strip() if done.returncode else None
        except (OSError, subprocess.TimeoutExpired) as failure:
            error = str(failure)
        if error is not None:
            shutil.rmtree(made)
            return error.splitlines()[-1] if error else command[-1]
    made.rename(folder)
    return None


@pytest.fixture(scope="session")
def foreign_python() -> Path:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = CACHE / f"{FINSY.replace('==', '-')}-python{version}"
    if why := make_venv(folder):
        pytest.skip(f"no venv with {FINSY}: {why}")
    return folder / "bin" / "python"


@pytest.fixture
def session(
    foreign_python: Path, engine: EngineSwitch, tmp_path: Path
) -> Iterator[subprocess.Popen[str]]:
    address = f"unix:{tmp_path}/socket"
    own, next_hop = up_list()[:6].hex(), (up_list()[:4] + up_list()[6:8] + bytes(10)).hex(":", 2)
    with P4RuntimeServer(address, {DEVICE: ServedDevice(P4INFO, PROGRAM, engine.device)}):
        process = subprocess.Popen(
            [
                *(foreign_python, "-c", SESSION, address, str(DEVICE)),
                *(BUILD / "mrc.p4info.txtpb", BUILD / "mrc.json"),
                *(own, f"{next_hop}/48", str(UPLINK_PORT)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with process:
            yield process
            process.kill()


def heard(session: subprocess.Popen[str]) -> object:
    """One line of what the client has to say; its complaint if it ended instead."""
    assert session.stdout is not None
    assert session.stderr is not None
    line = session.stdout.readline()
    assert line, session.stderr.read()
    return json.loads(line)


def test_a_client_that_is_not_ours_programs_the_switch(
    session: subprocess.Popen[str], engine: EngineSwitch
) -> None:
    assert heard(session) == {
        "primary": True,
        "rows": ["fault", "fib", "usid_node"],
        "errors": {"0": "ALREADY_EXISTS", "2": "NOT_FOUND"},
        "fault": [3, "grey", {"per_million": 20}],
        "hits": [0],
        "drops": 8,
        "depth": [9],
    }
    assert len(engine.device.read_entries()) == 3
    [(port, outer_dst)] = sent(engine, up_list())
    assert port == UPLINK_PORT
    assert outer_dst == up_list()[:4] + up_list()[6:] + bytes(2)

    assert session.stdin is not None
    session.stdin.write("go on\n")
    session.stdin.flush()
    assert heard(session) == 0
    assert session.wait(timeout=20) == 0
    assert [entry for entry in engine.device.read_entries() if not entry.is_default] == []
