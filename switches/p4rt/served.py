"""One switch behind the shim: its pipeline configuration, its writes and its reads.

No gRPC here: requests are messages, refusals are SwitchErrors.  Every method may be called from any
thread; one lock a switch makes writes and reads strictly one after the other.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from switches.api import Resettable, Switch, SwitchError, SwitchErrorCode, TableEntry, UpdateType
from switches.p4rt import queries, updates
from switches.p4rt.p4info import P4Info, model, text_model
from switches.p4rt.protos import p4runtime
from switches.p4rt.translate import refuse
from switches.p4rt.updates import NO_CALL, Running

Loader = Callable[[bytes], Callable[[], Switch]]
"""Builds a program (p4c's BMv2 JSON) or raises SwitchError naming what it cannot do.  What it
returns puts the program into the switch, with nothing in its tables, and gives the switch."""


Check = Callable[[], None]
"""Raises where the request does not come from the primary.  Called with the lock of the switch
held, so that whoever was primary before has finished."""


class ServedDevice(NamedTuple):
    """A switch to serve: p4c's two outputs for the program it runs, and its control side.

    p4info: text proto.  program: BMv2 JSON.  switch: as its program left it at load, safe to call
    from any thread.  loader: None where the program cannot be exchanged.
    """

    p4info: str
    program: bytes
    switch: Switch
    loader: Loader | None = None


@dataclass(frozen=True, slots=True)
class _Config:
    """A configuration that was verified.  start: None where the running program is meant."""

    message: Any
    info: P4Info
    start: Callable[[], Switch] | None


class ServedSwitch:
    def __init__(self, device: ServedDevice) -> None:
        self.lock = Lock()
        """Held while writes and reads are under way."""
        self._loader = device.loader
        self._info = text_model(device.p4info)
        self._program = device.program
        self._switch = device.switch
        self._untouched = True
        self._config: _Config | None = None
        self._saved: _Config | None = None
        self._running: Running | None = None

    def replace(self, switch: Switch) -> None:
        """The switch was restarted: no pipeline is set any more."""
        with self.lock:
            self._switch = switch
            self._untouched = True
            self._config = self._saved = self._running = None

    # --- pipeline

    def set_pipeline(self, request: Any, check: Check) -> None:
        """A SetForwardingPipelineConfigRequest.  Raises SwitchError, and then all is as before."""
        with self.lock:
            check()
            step = _STEPS.get(request.action)
            if step is None:
                refuse(f"there is no action {request.action}")
            step(self, request.config if request.HasField("config") else None)

    def get_pipeline(self, response_type: int) -> Any:
        """The GetForwardingPipelineConfigResponse; without a config where none was set."""
        response = p4runtime.GetForwardingPipelineConfigResponse()
        with self.lock:
            current = self._saved or self._config
        if current is None:
            return response
        kinds = p4runtime.GetForwardingPipelineConfigRequest
        parts = {
            kinds.ALL: ("p4info", "p4_device_config", "cookie"),
            kinds.COOKIE_ONLY: ("cookie",),
            kinds.P4INFO_AND_COOKIE: ("p4info", "cookie"),
            kinds.DEVICE_CONFIG_AND_COOKIE: ("p4_device_config", "cookie"),
        }.get(response_type)
        if parts is None:
            refuse(f"there is no response type {response_type}")
        response.config.CopyFrom(current.message)
        for absent in {"p4info", "p4_device_config", "cookie"} - set(parts):
            response.config.ClearField(absent)
        return response

    def _verify(self, config: Any | None) -> _Config:
        if config is None:
            refuse("the request has no config")
        info = model(config.p4info)
        if _same_program(config.p4_device_config, self._program):
            if info != self._info:
                refuse("the p4info is not that of the program beside it")
            return _Config(config, info, None)
        if self._loader is None:
            raise SwitchError(
                SwitchErrorCode.UNIMPLEMENTED,
                "this switch runs one program and the config holds another",
            )
        return _Config(config, info, self._loader(config.p4_device_config))

    def _verify_only(self, config: Any | None) -> None:
        self._verify(config)

    def _save(self, config: Any | None) -> None:
        self._saved = self._verify(config)

    def _verify_and_commit(self, config: Any | None) -> None:
        self._realise(self._verify(config))

    def _commit(self, config: Any | None) -> None:
        if config is not None:
            refuse("COMMIT takes the saved config and no other")
        if self._saved is None:
            raise SwitchError(SwitchErrorCode.NOT_FOUND, "no config was saved")
        self._realise(self._saved)

    def _reconcile(self, config: Any | None) -> None:
        verified = self._verify(config)
        if verified.start is not None:
            raise SwitchError(
                SwitchErrorCode.UNIMPLEMENTED, "entries cannot be carried over to another program"
            )
        running = self._running or Running(verified.info, self._switch)
        self._config, self._running, self._saved = verified, running, None
        self._untouched = False

    def _realise(self, config: _Config) -> None:
        """From here on the tables are empty and the config is the one in force."""
        if config.start is not None:
            self._switch = config.start()
            self._info, self._program = config.info, config.message.p4_device_config
        elif not self._untouched:
            _clear(self._switch, self._info)
        self._untouched = False
        self._config = _Config(config.message, config.info, None)
        self._saved = None
        self._running = Running(config.info, self._switch)

    # --- entities

    def write(self, request: Any, check: Check) -> list[SwitchError | None]:
        """A WriteRequest: what became of each update, in order.

        Raises SwitchError for the batch as a whole, and then no update was tried.
        """
        with self.lock:
            check()
            running = self._programmed()
            if request.atomicity != p4runtime.WriteRequest.CONTINUE_ON_ERROR:
                raise SwitchError(
                    SwitchErrorCode.UNIMPLEMENTED, "batches are applied one update at a time"
                )
            return [_result(updates.apply, running, update)[1] for update in request.updates]

    def read(self, request: Any) -> tuple[list[Any], list[SwitchError | None]]:
        """A ReadRequest: the Entity messages, and what became of each element, in order."""
        with self.lock:
            running = self._programmed()
            results = [_result(queries.answer, running, entity) for entity in request.entities]
        found = [entity for entities, _ in results for entity in entities or ()]
        return found, [error for _, error in results]

    def _programmed(self) -> Running:
        if self._saved is not None:
            raise SwitchError(
                SwitchErrorCode.UNIMPLEMENTED,
                "a saved config cannot be written to or read from before it is committed",
            )
        if self._running is None:
            raise SwitchError(SwitchErrorCode.FAILED_PRECONDITION, "no pipeline has been set")
        return self._running


_STEPS: dict[int, Callable[[ServedSwitch, Any | None], None]] = {
    p4runtime.SetForwardingPipelineConfigRequest.VERIFY: ServedSwitch._verify_only,
    p4runtime.SetForwardingPipelineConfigRequest.VERIFY_AND_SAVE: ServedSwitch._save,
    p4runtime.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT: ServedSwitch._verify_and_commit,
    p4runtime.SetForwardingPipelineConfigRequest.COMMIT: ServedSwitch._commit,
    p4runtime.SetForwardingPipelineConfigRequest.RECONCILE_AND_COMMIT: ServedSwitch._reconcile,
}


Answer = TypeVar("Answer")


def _result(
    function: Callable[[Running, Any], Answer], running: Running, item: Any
) -> tuple[Answer | None, SwitchError | None]:
    try:
        return function(running, item), None
    except SwitchError as error:
        return None, error


def _same_program(given: bytes, running: bytes) -> bool:
    """Equal as JSON: white space and the order of keys do not make another program."""
    if given == running:
        return True
    try:
        return bool(json.loads(given) == json.loads(running))
    except ValueError:
        refuse("the device config is not BMv2 JSON")


def _clear(switch: Switch, info: P4Info) -> None:
    """Forget all forwarding state, by the switch's own means or by what the contract offers."""
    if isinstance(switch, Resettable):
        switch.reset()
        return
    tables = {table.name: table for table in info.tables}
    for entry in switch.read_entries():
        table = tables[entry.table]
        if entry.is_default and table.initial_default is not None:
            original = TableEntry(entry.table, {}, table.initial_default, is_default=True)
            switch.write(UpdateType.MODIFY, original)
        elif not entry.is_default and not table.const_entries:
            named = TableEntry(entry.table, entry.match, NO_CALL, priority=entry.priority)
            switch.write(UpdateType.DELETE, named)
    for register in info.registers:
        for index in range(register.size):
            switch.write_register(register.name, index, 0)
