"""Our P4Runtime client: one for BMv2's own server and for the shim.

A client controls one device.  Everything it is refused is a SwitchError with the code the server
gave; a server that is gone or too slow is UNAVAILABLE.  A client belongs to one thread.
"""

from collections.abc import Iterable, Iterator
from queue import Empty, SimpleQueue
from threading import Thread
from types import TracebackType
from typing import Any, Self

from switches.api import CounterValue, SwitchError, SwitchErrorCode, TableEntry, UpdateType
from switches.p4rt import rpc
from switches.p4rt.arbitration import OK, to_uint128
from switches.p4rt.p4info import P4Info, Table, parse_text, text_model
from switches.p4rt.protos import p4runtime
from switches.p4rt.translate import (
    decode_cell,
    decode_entry,
    decode_match,
    encode_cell,
    encode_entry,
    encode_key,
)

TIMEOUT_S = 5.0
"""For a call, and for the server to appear."""
PIPELINE_TIMEOUT_S = 60.0
"""BMv2 reads and checks a whole program in this call."""


class BatchError(SwitchError):
    """Some updates of a batch were refused, the others applied.

    errors: what became of each update of the batch, in order; None where it was applied.
    first: index, among all updates of the call, of the batch's first.  Later batches were not sent.
    """

    def __init__(self, errors: list[SwitchError | None], first: int) -> None:
        failed = [(i, error) for i, error in enumerate(errors) if error is not None]
        index, worst = failed[0]
        super().__init__(
            worst.code,
            f"{len(failed)} of {len(errors)} updates refused; update {first + index}: {worst}",
        )
        self.errors = tuple(errors)
        self.first = first


class P4RuntimeClient:
    """Controls one device over one stream.

    address: `unix:PATH`.  election_id: the highest wins; 128 bits.
    channel: as from `rpc.open_channel(address)`, to share one among clients; not closed by them.
    """

    def __init__(
        self,
        address: str,
        device_id: int,
        election_id: int,
        *,
        timeout_s: float = TIMEOUT_S,
        channel: Any = None,
    ) -> None:
        self.device_id = device_id
        self.election_id = election_id
        self._timeout_s = timeout_s
        self._own_channel = channel is None
        self._channel = rpc.open_channel(address) if channel is None else channel
        self._stub = rpc.Stub(self._channel)
        self._info: P4Info | None = None
        self._outbox: SimpleQueue[Any] = SimpleQueue()
        self._inbox: SimpleQueue[Any] = SimpleQueue()
        self._stream: Any = None
        self._reader: Thread | None = None

    # --- session

    def connect(self, *, wait_for_server: bool = True) -> None:
        """Wait for the server, unless it is known to be there, and become primary.

        Raises SwitchError; FAILED_PRECONDITION: another client with a higher election id is
        primary.
        """
        if wait_for_server:
            self.api_version()
        self._stream = self._stub.stream_channel(iter(self._outbox.get, None))
        self._reader = Thread(target=self._receive, name="p4runtime-client", daemon=True)
        self._reader.start()
        self._send_arbitration()
        self._await_primary()

    def _send_arbitration(self) -> None:
        request = p4runtime.StreamMessageRequest()
        request.arbitration.device_id = self.device_id
        request.arbitration.election_id.CopyFrom(to_uint128(self.election_id))
        self._outbox.put(request)

    def _await_primary(self) -> None:
        try:
            answer = self._inbox.get(timeout=self._timeout_s)
        except Empty:
            self.close()
            raise SwitchError(
                SwitchErrorCode.UNAVAILABLE, f"no answer within {self._timeout_s} s"
            ) from None
        if isinstance(answer, SwitchError):
            self.close()
            raise answer
        if answer.arbitration.status.code != OK:
            self.close()
            raise SwitchError(
                SwitchErrorCode.FAILED_PRECONDITION,
                f"not primary of device {self.device_id}: {answer.arbitration.status.message}",
            )

    def _receive(self) -> None:
        """The stream must be read on; only the first arbitration answer is waited for."""
        try:
            for message in self._stream:
                if message.WhichOneof("update") == "arbitration":
                    self._inbox.put(message)
        except rpc.RpcError as error:
            self._inbox.put(rpc.error_of(error))

    def close(self) -> None:
        """End the stream, and with it mastership.  Idempotent."""
        if self._stream is not None:
            self._outbox.put(None)
            self._stream.cancel()
            self._stream = None
        if self._reader is not None:
            self._reader.join(self._timeout_s)
            self._reader = None
        if self._own_channel:
            self._channel.close()

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def api_version(self) -> str:
        """The server's P4Runtime version; waits for the server to appear."""
        response = self._call(
            self._stub.capabilities, p4runtime.CapabilitiesRequest(), wait_for_ready=True
        )
        return str(response.p4runtime_api_version)

    def _call(self, method: Any, request: Any, *, wait_for_ready: bool = False) -> Any:
        try:
            return method(request, timeout=self._timeout_s, wait_for_ready=wait_for_ready)
        except rpc.RpcError as error:
            raise rpc.error_of(error) from None

    # --- pipeline

    def set_pipeline(self, p4info: str, program: bytes, *, cookie: int = 0) -> None:
        """Verify and commit a program: p4c's p4info text and BMv2 JSON.  Tables are empty then."""
        message = parse_text(p4info)
        info = text_model(p4info)
        request = p4runtime.SetForwardingPipelineConfigRequest(
            device_id=self.device_id,
            election_id=to_uint128(self.election_id),
            action=p4runtime.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
        )
        request.config.p4info.CopyFrom(message)
        request.config.p4_device_config = program
        request.config.cookie.cookie = cookie
        try:
            self._stub.set_pipeline(request, timeout=max(self._timeout_s, PIPELINE_TIMEOUT_S))
        except rpc.RpcError as error:
            raise rpc.error_of(error) from None
        self._info = info

    def use_pipeline(self, p4info: str) -> None:
        """Take the pipeline as set by somebody else; `p4info` is its."""
        self._info = text_model(p4info)

    def get_cookie(self) -> int | None:
        """The cookie of the pipeline in force, or None where none is."""
        kinds = p4runtime.GetForwardingPipelineConfigRequest
        request = kinds(device_id=self.device_id, response_type=kinds.COOKIE_ONLY)
        try:
            response = self._call(self._stub.get_pipeline, request)
        except SwitchError as error:
            if error.code is SwitchErrorCode.FAILED_PRECONDITION:  # BMv2's way to say so
                return None
            raise
        return int(response.config.cookie.cookie) if response.HasField("config") else None

    @property
    def info(self) -> P4Info:
        """What the program has.  Raises SwitchError before a pipeline is set or taken."""
        if self._info is None:
            raise SwitchError(SwitchErrorCode.FAILED_PRECONDITION, "no pipeline has been set")
        return self._info

    # --- writes

    def write(self, kind: UpdateType, entries: Iterable[TableEntry]) -> None:
        """Write entries, in batches, in order.  Raises BatchError where updates were refused."""
        self._write_batches([self._entry_update(kind, entry) for entry in entries])

    def _entry_update(self, kind: UpdateType, entry: TableEntry) -> Any:
        table = self.info.table(entry.table)
        encode = encode_key if kind is UpdateType.DELETE else encode_entry
        update = p4runtime.Update(type=p4runtime.Update.Type.Value(kind.name))
        update.entity.table_entry.CopyFrom(encode(table, entry))
        return update

    def write_register(self, name: str, index: int, value: int) -> None:
        """Set one cell.  BMv2's server cannot: UNIMPLEMENTED."""
        register = self.info.register(name)
        update = p4runtime.Update(type=p4runtime.Update.MODIFY)
        message = update.entity.register_entry
        message.register_id = register.id
        message.index.index = index
        message.data.CopyFrom(encode_cell(register, value))
        self._write_batches([update])

    def _write_batches(self, updates: list[Any]) -> None:
        for first in range(0, len(updates), rpc.UPDATES_PER_WRITE):
            request = p4runtime.WriteRequest(
                device_id=self.device_id,
                election_id=to_uint128(self.election_id),
                updates=updates[first : first + rpc.UPDATES_PER_WRITE],
            )
            try:
                self._stub.write(request, timeout=self._timeout_s)
            except rpc.RpcError as error:
                errors = rpc.unpack_details(error)
                if any(errors):
                    raise BatchError(errors, first) from None
                raise rpc.error_of(error) from None

    # --- reads

    def read_entries(self, table: str | None = None) -> list[TableEntry]:
        """Rows of one table or of all, without default entries."""
        entity = p4runtime.Entity()
        entity.table_entry.table_id = self.info.table(table).id if table is not None else 0
        return [decode_entry(self.info, found.table_entry) for found in self._read(entity)]

    def read_default(self, table: str) -> TableEntry:
        """The default entry of a table."""
        entity = p4runtime.Entity()
        entity.table_entry.table_id = self.info.table(table).id
        entity.table_entry.is_default_action = True
        for found in self._read(entity):
            return decode_entry(self.info, found.table_entry)
        raise SwitchError(SwitchErrorCode.NOT_FOUND, f"{table} has no default entry")

    def read_counter(self, name: str) -> list[CounterValue]:
        """All cells of an indexed counter."""
        counter = self.info.counter(name)
        entity = p4runtime.Entity()
        entity.counter_entry.counter_id = counter.id
        cells = [CounterValue(0, 0)] * counter.size
        for found in self._read(entity):
            cells[found.counter_entry.index.index] = _count(found.counter_entry.data)
        return cells

    def read_direct_counters(self, table: str) -> list[tuple[TableEntry, CounterValue]]:
        """Every row of a table with its direct counter."""
        model = self._counted(table)
        entity = p4runtime.Entity()
        entity.table_entry.table_id = model.id
        entity.table_entry.counter_data.SetInParent()
        return [
            (decode_entry(self.info, found.table_entry), _count(found.table_entry.counter_data))
            for found in self._read(entity)
        ]

    def read_direct_counter(self, table: str, entry: TableEntry) -> CounterValue:
        """The direct counter of one row, or of the default entry.

        A row that matches everything cannot be asked for alone, so the answer is searched.
        """
        model = self._counted(table)
        wanted = encode_key(model, entry)
        entity = p4runtime.Entity()
        entity.direct_counter_entry.table_entry.CopyFrom(wanted)
        for found in self._read(entity):
            if _same_row(model, wanted, found.direct_counter_entry.table_entry):
                return _count(found.direct_counter_entry.data)
        raise SwitchError(SwitchErrorCode.NOT_FOUND, f"{table} has no such entry")

    def _counted(self, table: str) -> Table:
        found = self.info.table(table)
        if found.direct_counter is None:
            raise SwitchError(SwitchErrorCode.INVALID_ARGUMENT, f"{table} has no direct counter")
        return found

    def read_register(self, name: str) -> list[int]:
        """All cells of a register.  BMv2's server cannot: UNIMPLEMENTED."""
        register = self.info.register(name)
        entity = p4runtime.Entity()
        entity.register_entry.register_id = register.id
        cells = [0] * register.size
        for found in self._read(entity):
            data = decode_cell(register, found.register_entry.data)
            cells[found.register_entry.index.index] = data
        return cells

    def _read(self, entity: Any) -> Iterator[Any]:
        request = p4runtime.ReadRequest(device_id=self.device_id, entities=[entity])
        try:
            for response in self._stub.read(request, timeout=self._timeout_s):
                yield from response.entities
        except rpc.RpcError as error:
            raise next(
                (e for e in rpc.unpack_details(error) if e is not None), rpc.error_of(error)
            ) from None


def _same_row(table: Table, one: Any, other: Any) -> bool:
    if one.is_default_action or other.is_default_action:
        return bool(one.is_default_action == other.is_default_action)
    return bool(
        one.priority == other.priority and decode_match(table, one) == decode_match(table, other)
    )


def _count(message: Any) -> CounterValue:
    return CounterValue(packets=message.packet_count, bytes=message.byte_count)
