"""What the faults that are on at a moment add up to, where several touch the same thing.

Two faults may hold the same link down, or the same switch; it comes back with the last of them.  A
row of the fault table is gone with the tables of a switch that reboots, and none can be written
to a switch that is away.
"""

from typing import Any

from scenarios import faults
from switches.api import TableEntry, UpdateType
from topologies.model import PortRef


class Conditions:
    """Carries primitives out on a world, once each as far as the world can tell."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self._links: dict[PortRef, int] = {}
        self._switches: dict[str, int] = {}
        self._rows: dict[str, list[TableEntry]] = {}

    def carry_out(self, what: faults.Primitive) -> bool:
        """False if this changed nothing, as another fault has seen to it."""
        match what:
            case faults.SetLink(end, up):
                changed = _count(self._links, end, up)
                if changed:
                    self._world.set_link(end, up)
                return changed
            case faults.KillSwitch(switch):
                changed = _count(self._switches, switch, False)
                if changed:
                    self._rows.pop(switch, None)
                    self._world.kill_switch(switch)
                return changed
            case faults.RestartSwitch(switch):
                changed = _count(self._switches, switch, True)
                if changed:
                    self._world.restart_switch(switch)
                return changed
            case faults.AddLoss(switch, row):
                return self._add_row(switch, row)
            case faults.RemoveLoss(switch, row):
                return self._remove_row(switch, row)
            case faults.SetCorruption(end, probability):
                self._world.set_corruption(end, probability)
            case faults.SetDenied(host, ev, denied):
                self._world.control(host, {"op": "deny", "ev": ev, "denied": denied})
            case faults.Impair():
                self._world.set_impairment(what)
            case faults.PauseQueue(end, paused):
                self._world.pause_queue(end, paused)
        return True

    def _add_row(self, switch: str, row: TableEntry) -> bool:
        if self._switches.get(switch):
            return False
        self._rows.setdefault(switch, []).append(row)
        self._world.write_switch(switch, UpdateType.INSERT, [row])
        return True

    def _remove_row(self, switch: str, row: TableEntry) -> bool:
        if row not in self._rows.get(switch, []):
            return False
        self._rows[switch].remove(row)
        self._world.write_switch(switch, UpdateType.DELETE, [row])
        return True


def _count(down: dict[Any, int], key: Any, up: bool) -> bool:
    """Faults that hold `key` down, one more or one less; True at the first and after the last."""
    before = down.get(key, 0)
    down[key] = before + (-1 if up else 1)
    assert down[key] >= 0
    return 0 in (before, down[key])
