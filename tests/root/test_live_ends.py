"""However a runner ends, nothing of it is left, and nothing else is touched."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.root.inside import ROOT, run
from tests.support import live

pytestmark = pytest.mark.root

GONE_WITHIN_S = 2.0
START_WITHIN_S = 60.0


class Held:
    """A runner with a world in its hands, started by us; `mark` names all its processes."""

    def __init__(self, folder: Path, *, prefix: Sequence[str] = ()) -> None:
        self.mark = uuid.uuid4().hex
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "tests.root.hold", str(folder)],
            cwd=ROOT,
            env={**os.environ, live.MARK: self.mark},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # as a terminal would: one process group
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line == b"ready\n", (line, self.process.communicate())
        self.namespaces = live.network_namespaces(self.pids()) - _own_namespaces()

    def pids(self) -> list[int]:
        return list(live.processes_marked(self.mark))

    def check_gone(self) -> None:
        gone = live.wait_until(lambda: not any(self._left()), GONE_WITHIN_S)
        assert gone, self._left()
        self.process.wait()

    def _left(self) -> tuple[dict[int, str], set[int]]:
        present = live.all_network_namespaces()
        return live.processes_marked(self.mark), self.namespaces & present

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def _own_namespaces() -> set[int]:
    return live.network_namespaces([os.getpid()])


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    runner = Held(tmp_path)
    yield runner
    runner.end()


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A namespace, a veth pair and a process that have names like ours and are not ours."""
    script = (
        "ip link add h0-eth0 type veth peer name p0t0n0-eth0 && ip link set h0-eth0 up && "
        "ip link set p0t0n0-eth0 up && echo ready && exec cat"
    )
    process = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    yield process
    process.kill()
    process.communicate()


def _links_of(process: "subprocess.Popen[bytes]") -> str:
    words = ["nsenter", f"--net=/proc/{process.pid}/ns/net", "ip", "-brief", "link"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def _root_links() -> set[str]:
    return set(os.listdir("/sys/class/net"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_nothing_is_left_after_a_signal_to_the_runner(held: Held, number: int) -> None:
    assert len(held.pids()) >= 3 + 1 + 4 + 8, "runner, parent of the NICs, hosts, switches"
    assert len(held.namespaces) == 1 + 12
    os.kill(held.process.pid, number)
    held.check_gone()
    assert held.process.returncode == (-number if number == signal.SIGKILL else 128 + number)


def test_nothing_is_left_after_ctrl_c_at_a_terminal(held: Held) -> None:
    os.killpg(held.process.pid, signal.SIGINT)
    held.check_gone()
    assert held.process.returncode == 128 + signal.SIGINT


def test_a_second_ctrl_c_does_not_break_off_the_tidying(held: Held, tmp_path: Path) -> None:
    for _ in range(3):
        os.killpg(held.process.pid, signal.SIGINT)
        time.sleep(0.02)
    held.check_gone()
    assert held.process.returncode == 128 + signal.SIGINT
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]


def test_an_interrupt_ends_also_a_run_in_the_background_of_a_script(tmp_path: Path) -> None:
    """Where a shell starts it with SIGINT ignored."""
    held = Held(tmp_path, prefix=["sh", "-c", 'trap "" INT; exec "$@"', "sh"])
    try:
        held.process.send_signal(signal.SIGINT)
        held.check_gone()
        assert held.process.returncode == 128 + signal.SIGINT
    finally:
        held.end()


def test_nothing_is_left_after_kill_9_of_the_process_inside(held: Held) -> None:
    children = Path(f"/proc/{held.process.pid}/task/{held.process.pid}/children").read_text()
    os.kill(int(children.split()[0]), signal.SIGKILL)
    held.check_gone()
    assert held.process.returncode == 128 + signal.SIGKILL


def test_nothing_is_left_after_an_exception(tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    os.environ[live.MARK] = mark
    try:
        done = run([sys.executable, "-m", "tests.root.hold", str(tmp_path), "raise"])
    finally:
        del os.environ[live.MARK]
    assert done.returncode == 4
    assert "as asked for" in done.stderr
    assert live.wait_until(lambda: not live.processes_marked(mark), GONE_WITHIN_S)
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]


def test_bystanders_survive_and_the_root_namespace_sees_nothing(
    tmp_path: Path, bystander: "subprocess.Popen[bytes]"
) -> None:
    theirs, ours = _links_of(bystander), _root_links()
    runner = Held(tmp_path)
    try:
        assert _root_links() == ours
        runner.process.kill()
        runner.check_gone()
    finally:
        runner.end()
    assert bystander.poll() is None
    assert _links_of(bystander) == theirs
    assert _root_links() == ours


def test_two_runners_side_by_side_do_not_see_each_other(held: Held, tmp_path: Path) -> None:
    other = Held(tmp_path / "other")
    try:
        assert not held.namespaces & other.namespaces
        other.process.send_signal(signal.SIGTERM)
        other.check_gone()
        assert held.process.poll() is None
        assert len(live.network_namespaces(held.pids()) & held.namespaces) == 13
    finally:
        other.end()


def test_a_run_after_kill_9_starts_clean(tmp_path: Path) -> None:
    first = Held(tmp_path)
    first.process.kill()
    first.check_gone()
    first.end()
    second = Held(tmp_path)
    second.process.send_signal(signal.SIGINT)
    second.check_gone()
    second.end()


def test_a_command_inside_is_ended_with_the_grace_it_has(tmp_path: Path) -> None:
    """A runner that will not end is killed when its time is up."""
    code = (
        "import signal, sys, time\n"
        "from worlds.live import private_namespace\n"
        "def main():\n"
        "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(60)\n"
        "sys.exit(private_namespace.run(main))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.terminate()
    started = time.monotonic()
    assert process.wait(timeout=10) == 128 + signal.SIGKILL
    assert time.monotonic() - started < GONE_WITHIN_S
    process.stdout.close()
