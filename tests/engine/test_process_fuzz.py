"""The switch process under the sanitizers: random control messages, random and truncated frames."""

import contextlib
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from switches import compile_p4
from switches.api import SwitchError
from switches.engine.build import build
from switches.engine.messages import Op
from switches.engine.process import SwitchProcess, start
from tests.engine import tiny
from tests.engine.contract import up_list
from tests.engine.frames import encapsulated
from tests.engine.namespace import Namespace, eventually

STEPS = 1500
SEED = 20_261_129


@pytest.fixture(scope="module")
def executable() -> Path:
    if tiny.COMPILER is None or tiny.why_no_sanitizers():
        pytest.skip("no C compiler with sanitizers on the PATH")
    return build(compile_p4.ROOT / compile_p4.BUILD / compile_p4.JSON, sanitize=True).executable


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    made = Namespace()
    for port in range(2):
        made.veth(f"s{port}", f"w{port}")
    yield made
    made.close()


def random_frame(rng: random.Random) -> bytes:
    good = encapsulated(up_list(), ev=rng.randrange(1 << 20)).emit()
    size = rng.choice([rng.randrange(14, 200), rng.randrange(14, 9000)])
    frame = bytearray(good[:size].ljust(size, b"\x5a"))
    for _ in range(rng.randrange(4)):
        frame[rng.randrange(14, len(frame) + 1) - 1] = rng.randrange(256)
    return bytes(frame)


def random_message(rng: random.Random) -> bytes:
    op = rng.randrange(max(Op) + 3)
    return bytes([op]) + rng.randbytes(rng.choice([0, 1, 4, 7, 20, 60, 1000]))


@pytest.mark.root
def test_nothing_that_comes_over_a_socket_ends_the_process(
    executable: Path, namespace: Namespace, tmp_path: Path
) -> None:
    rng = random.Random(SEED)
    log = tmp_path / "stderr"
    spec = SwitchProcess(executable=executable, name="p0t0n0", seed=1, ports={0: "s0", 1: "s1"})
    with log.open("wb") as stderr, contextlib.ExitStack() as stack:
        running = start(spec, prefix=namespace.prefix, stderr=stderr)
        stack.callback(running.close)
        wires = [stack.enter_context(namespace.raw_socket(f"w{port}")) for port in range(2)]
        channel = running.channel
        for _ in range(STEPS):
            wires[rng.randrange(2)].send(random_frame(rng))
            assert channel.request(random_message(rng))
            if rng.randrange(200) == 0:
                state = rng.choice(["up", "down"])
                namespace.run("ip", "link", "set", "w1", state)
                with contextlib.suppress(OSError):  # ENETDOWN is told once
                    wires[1].recv(1, socket.MSG_DONTWAIT)
                namespace.run("ip", "link", "set", "w1", "up")
        assert running.device.program.ports == 2
        running.close()
    assert running.died() == "exit status 0", f"seed {SEED}: {log.read_text()}"
    assert log.read_text() == ""
    with pytest.raises(SwitchError):
        running.device.port_stats()


@pytest.mark.root
def test_a_switch_ends_with_the_one_who_started_it(executable: Path, namespace: Namespace) -> None:
    """Killed without a chance to say goodbye: the switch is gone all the same."""
    code = (
        "import sys, time; from pathlib import Path;"
        "from switches.engine.process import SwitchProcess, start;"
        f"spec = SwitchProcess(executable=Path({str(executable)!r}), name='p0t0n0', seed=1,"
        " ports={0: 's0'});"
        f"running = start(spec, prefix={namespace.prefix!r});"
        "running.device.port_stats(); print(running.process.pid, flush=True); time.sleep(60)"
    )
    starter = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    pid = int(starter.stdout.readline())
    assert Path(f"/proc/{pid}/comm").read_text() == "switch\n"
    starter.kill()
    starter.communicate()
    assert eventually(lambda: _is_gone(pid))


def _is_gone(pid: int) -> bool:
    """No such process, or a zombie that nobody has asked for yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")
    except OSError:
        return True
