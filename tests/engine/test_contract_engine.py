"""The contract of a switch, held by the embedded engine."""

from collections.abc import Iterator

import pytest

from switches import compile_p4
from switches.api import DATA_PRIORITY
from switches.engine.build import build
from switches.engine.library import EngineSwitch
from tests.engine.contract import PORT_COUNT, Sent, SwitchContract


class EngineRig:
    """The engine in virtual time: nothing happens between one call and the next."""

    hold_slack = 0

    def __init__(self, engine: EngineSwitch) -> None:
        self.switch = engine.device
        self._engine = engine
        self._now_ns = 0
        self._held: list[int] = []

    def send(self, port: int, frame: bytes) -> None:
        self._engine.receive_frame(port, frame, self._now_ns)

    def collect(self) -> list[Sent]:
        for port in self._held:
            self.switch.pause_queue(port, DATA_PRIORITY, False)
        self._held.clear()
        out = self._taken()
        while (next_ns := self._engine.next_timeout()) is not None:
            self._now_ns = max(self._now_ns, next_ns)
            self._engine.handle_timeout(self._now_ns)
            out += self._taken()
        return out

    def hold(self, port: int) -> None:
        self.switch.pause_queue(port, DATA_PRIORITY, True)
        self._held.append(port)

    def _taken(self) -> list[Sent]:
        out = []
        while (sent := self._engine.poll_transmit(self._now_ns)) is not None:
            out.append(sent)
        return out


class TestEngine(SwitchContract):
    @pytest.fixture
    def rig(self) -> Iterator[EngineRig]:
        built = build(compile_p4.ROOT / compile_p4.BUILD / compile_p4.JSON)
        engine = EngineSwitch(built.library, "p0t0n0", PORT_COUNT, seed=1)
        yield EngineRig(engine)
        engine.close()
