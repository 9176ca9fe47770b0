"""A switch that is nothing but its tables, for tests of what stands in front of one."""

from dataclasses import replace

from switches.api import (
    ActionCall,
    CounterValue,
    Exact,
    PortConfig,
    PortStats,
    SwitchError,
    SwitchErrorCode,
    TableEntry,
    UpdateType,
)
from switches.p4rt.p4info import P4Info
from switches.p4rt.translate import Key, key

NOTHING = CounterValue(0, 0)


class FakeSwitch:
    """Holds `size` entries a table, as the p4info says.  `writes` counts what it accepted.

    gone: every call is UNAVAILABLE, as when its process has ended.
    """

    def __init__(self, info: P4Info) -> None:
        self.gone = False
        self.writes = 0
        self._info = info
        self._entries: dict[Key, TableEntry] = {}
        self._counters = {item.name: [NOTHING] * item.size for item in info.counters}
        self._direct: dict[Key, CounterValue] = {}
        self._registers = {item.name: [0] * item.size for item in info.registers}
        for table in info.tables:
            if table.const_entries:
                match = {field.name: Exact(1) for field in table.fields}
                entry = TableEntry(table.name, match, ActionCall(table.actions[0].action.name))
                self._entries[key(entry)] = entry

    def write(self, kind: UpdateType, entry: TableEntry) -> None:
        self._check()
        table = self._info.table(entry.table)
        present = entry.is_default or key(entry) in self._entries
        if kind is UpdateType.INSERT and present:
            raise SwitchError(SwitchErrorCode.ALREADY_EXISTS, "there already")
        if kind is not UpdateType.INSERT and not present:
            raise SwitchError(SwitchErrorCode.NOT_FOUND, "not there")
        rows = sum(e.table == table.name and not e.is_default for e in self._entries.values())
        if kind is UpdateType.INSERT and rows >= table.size:
            raise SwitchError(SwitchErrorCode.RESOURCE_EXHAUSTED, "full")
        self.writes += 1
        if kind is UpdateType.DELETE:
            del self._entries[key(entry)]
            self._direct.pop(key(entry), None)
        else:
            self._entries[key(entry)] = entry

    def read_entries(self, table: str | None = None) -> list[TableEntry]:
        self._check()
        return [e for e in self._entries.values() if table in (None, e.table)]

    def read_counter(self, name: str) -> list[CounterValue]:
        self._check()
        return list(self._counters[name])

    def read_direct_counter(self, table: str, entry: TableEntry) -> CounterValue:
        self._check()
        return self._direct.get(key(replace(entry, table=table)), NOTHING)

    def read_register(self, name: str) -> list[int]:
        self._check()
        return list(self._registers[name])

    def write_register(self, name: str, index: int, value: int) -> None:
        self._check()
        self.writes += 1
        self._registers[name][index] = value

    def configure_port(self, port: int, config: PortConfig) -> None:
        raise NotImplementedError

    def pause_queue(self, port: int, priority: int, paused: bool) -> None:
        raise NotImplementedError

    def port_stats(self) -> list[PortStats]:
        return []

    def count(self, name: str, index: int, value: CounterValue) -> None:
        """What packets would do to an indexed counter."""
        self._counters[name][index] = value

    def hit(self, entry: TableEntry, value: CounterValue) -> None:
        """What packets would do to a direct counter."""
        self._direct[key(entry)] = value

    def _check(self) -> None:
        if self.gone:
            raise SwitchError(SwitchErrorCode.UNAVAILABLE, "the switch is gone")


class ResettableFakeSwitch(FakeSwitch):
    """With the optional abilities of `switches.api`."""

    def reset(self) -> None:
        self._check()
        FakeSwitch.__init__(self, self._info)

    def write_counter(self, name: str, index: int, value: CounterValue) -> None:
        self._check()
        self.writes += 1
        self._counters[name][index] = value

    def write_direct_counter(self, table: str, entry: TableEntry, value: CounterValue) -> None:
        self._check()
        self.writes += 1
        self._direct[key(replace(entry, table=table))] = value
