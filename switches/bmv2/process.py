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
    thread, and what it starts meanwhile).  run_dir: socket and log go there.  data_frame_bytes: a
    full data frame, for rates.  election_id: of P4Runtime; the highest wins.
    """

    name: str
    device_id: int
    interfaces: Mapping[int, str]
    run_dir: Path
    inside: Callable[[], AbstractContextManager[None]]
    data_frame_bytes: int
    election_id: int

    @property
    def address(self) -> str:
        """Where P4Runtime is served."""
        return f"unix:{self.run_dir}/{self.name}.p4rt"


class Bmv2Process:
    """Started by the constructor; `switch` is its control side once `load` has returned.

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
            p4runtime_address=settings.address,
        )
        log = settings.run_dir / f"{settings.name}.log"
        with log.open("ab") as output, settings.inside():
            self._interfaces = Interfaces(settings.interfaces)
            self._interfaces.loopback_up()
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=settings.run_dir,
                umask=PRIVATE_UMASK,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def switch(self) -> Bmv2Switch:
        """Raises AssertionError before `load`."""
        assert self._client is not None, "load comes first"
        assert self._thrift is not None
        return Bmv2Switch(
            self._client,
            self._thrift,
            data_frame_bytes=self._settings.data_frame_bytes,
            interfaces=lambda: self._interfaces.states(self.pid),
        )

    def load(self, p4info: str, program_json: bytes) -> None:
        """Become primary and give it the program; its tables are empty then."""
        settings = self._settings
        self._thrift = ThriftClient(self._dial())
        client = P4RuntimeClient(settings.address, settings.device_id, settings.election_id)
        client.connect()
        client.set_pipeline(p4info, program_json)
        self._client = client

    def poll(self) -> int | None:
        """None while it runs, else how it ended (as Popen.poll)."""
        return self._process.poll()

    def kill(self) -> None:
        """End it as a power cut does.  Idempotent; connections are closed too."""
        for connection in (self._client, self._thrift):
            if connection is not None:
                connection.close()
        self._client = self._thrift = None
        self._interfaces.close()
        self._process.kill()
        self._process.wait()

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
        name, ended = self._settings.name, self.poll()
        if ended is not None:
            raise SwitchError(
                SwitchErrorCode.UNAVAILABLE,
                f"{name}: {program.EXECUTABLE} ended with {ended} before it was ready; its log is "
                f"{name}.log in the run folder",
            )
        if too_late:
            raise SwitchError(
                SwitchErrorCode.UNAVAILABLE,
                f"{name}: {program.EXECUTABLE} was not ready within {START_S:.0f} s: {error}",
            )
