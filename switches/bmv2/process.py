"""One running simple_switch_grpc: started, loaded, connected to, ended."""

import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from switches.api import SwitchError, SwitchErrorCode
from switches.bmv2 import program
from switches.bmv2.device import Bmv2Switch
from switches.bmv2.interfaces import Interfaces
from switches.bmv2.thrift import ThriftClient
from switches.p4rt.client import P4RuntimeClient

START_S = 20.0
"""For a switch to open its Thrift port, on a machine busy with starting others."""

ANSWER_S = 5.0
"""For one answer over Thrift."""

PRIVATE_UMASK = 0o077
"""Its sockets are for its user alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bmv2Settings:
    """What to start.

    interfaces: name by switch port, in the network namespace that `inside` enters (the calling
    thread, and what it starts meanwhile).  socket_folder: where its P4Runtime socket goes.  log:
    what it says is appended there.  data_frame_bytes: a full data frame, for rates.  election_id:
    of P4Runtime; the highest wins.
    """

    name: str
    device_id: int
    interfaces: Mapping[int, str]
    socket_folder: Path
    log: Path
    inside: Callable[[], AbstractContextManager[None]]
    data_frame_bytes: int
    election_id: int

    @property
    def socket_name(self) -> str:
        """In `socket_folder`, where the switch runs: its own path to it is as short as can be."""
        return f"{self.name}.p4rt"


class Bmv2Process:
    """Started by the constructor; `device` is its control side once `load` has returned.

    Raises Bmv2Missing, SwitchError (UNAVAILABLE: it did not start), OSError.
    """

    def __init__(self, settings: Bmv2Settings) -> None:
        self._settings = settings
        self._client: P4RuntimeClient | None = None
        self._thrift: ThriftClient | None = None
        argv = program.command(
            program.find(),
            device_id=settings.device_id,
            interfaces=settings.interfaces,
            p4runtime_address=f"unix:{settings.socket_name}",
        )
        with settings.log.open("ab") as output, settings.inside():
            self._interfaces = Interfaces(settings.interfaces)
            self._interfaces.loopback_up()
            self.process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=settings.socket_folder,
                umask=PRIVATE_UMASK,
            )

    @property
    def device(self) -> Bmv2Switch:
        """The control side.  Raises AssertionError before `load`."""
        assert self._thrift is not None, "load comes first"
        return Bmv2Switch(
            self.client,
            self._thrift,
            data_frame_bytes=self._settings.data_frame_bytes,
            interfaces=lambda: self._interfaces.states(self.process.pid),
        )

    @property
    def client(self) -> P4RuntimeClient:
        """For writes in batches.  Raises AssertionError before `load`."""
        assert self._client is not None, "load comes first"
        return self._client

    def load(self, p4info: str, program_json: bytes) -> None:
        """Become primary and give it the program; its tables are empty then."""
        settings = self._settings
        self._thrift = ThriftClient(self._dial())
        address = f"unix:{settings.socket_folder}/{settings.socket_name}"
        client = P4RuntimeClient(address, settings.device_id, settings.election_id)
        client.connect()
        self._client = client
        client.set_pipeline(p4info, program_json)

    def died(self) -> str | None:
        """How the process ended, or None while it runs."""
        status = self.process.poll()
        if status is None:
            return None
        return f"killed by signal {-status}" if status < 0 else f"exit status {status}"

    def kill(self) -> None:
        """As a power cut: SIGKILL, and wait until the process is gone.  Idempotent."""
        self.process.kill()
        self.process.wait()
        self._disconnect()

    def close(self) -> None:
        """BMv2 has nothing to save: as `kill`, but the connections end first.  Idempotent."""
        self._disconnect()
        self.kill()

    def _disconnect(self) -> None:
        for connection in (self._client, self._thrift, self._interfaces):
            if connection is not None:
                connection.close()
        self._client = self._thrift = None

    def _dial(self) -> socket.socket:
        deadline = time.monotonic() + START_S
        while True:
            try:
                with self._settings.inside():
                    return socket.create_connection(("127.0.0.1", program.THRIFT_PORT), ANSWER_S)
            except OSError as error:
                self._check_starting(error, time.monotonic() > deadline)
                time.sleep(0.05)

    def _check_starting(self, error: OSError, too_late: bool) -> None:
        name, ended = self._settings.name, self.died()
        if ended is not None:
            raise SwitchError(
                SwitchErrorCode.UNAVAILABLE,
                f"{program.EXECUTABLE} of {name} was not ready before it ended: {ended}; what it "
                f"said is in {self._settings.log}",
            )
        if too_late:
            raise SwitchError(
                SwitchErrorCode.UNAVAILABLE,
                f"{program.EXECUTABLE} of {name} was not ready within {START_S:.0f} s: {error}",
            )
