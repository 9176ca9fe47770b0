"""Overlapping faults: what two hold down comes back with the last."""

from typing import Any

from scenarios.conditions import Conditions
from scenarios.faults import (
    AddLoss,
    KillSwitch,
    Primitive,
    RemoveLoss,
    RestartSwitch,
    SetLink,
)
from switches.entries import fault
from topologies.model import PortRef

END = PortRef("p0t0n0", 0)
ROW = fault()


class Recorder:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *args: self.calls.append(name)


def test_a_link_two_faults_hold_down_comes_up_with_the_last() -> None:
    world = Recorder()
    now = Conditions(world)
    done = [now.carry_out(SetLink(END, up)) for up in (False, False, True, True)]
    assert done == [True, False, False, True]
    assert world.calls == ["set_link", "set_link"]


def test_a_row_is_gone_with_the_switch_and_none_is_written_while_it_is_away() -> None:
    world = Recorder()
    now = Conditions(world)
    steps: list[Primitive] = [
        AddLoss("s", ROW), KillSwitch("s"), KillSwitch("s"), AddLoss("s", ROW),
        RestartSwitch("s"), RestartSwitch("s"), RemoveLoss("s", ROW),
        AddLoss("s", ROW), RemoveLoss("s", ROW),
    ]  # fmt: skip
    done = [now.carry_out(step) for step in steps]
    assert done == [True, True, False, False, False, True, False, True, True]
    assert world.calls == [
        "write_switch", "kill_switch", "restart_switch", "write_switch", "write_switch",
    ]  # fmt: skip
