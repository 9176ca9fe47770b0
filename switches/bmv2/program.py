"""Where simple_switch_grpc is and how it is started; starting it is the business of a world."""

import shutil
from collections.abc import Mapping

EXECUTABLE = "simple_switch_grpc"

HOW_TO_GET = (
    f"{EXECUTABLE} is not on the PATH: BMv2 comes with the p4lang-bmv2 package of the P4 language "
    "consortium or its p4lang/behavioral-model container image (the embedded engine, "
    "--switch engine, needs neither)"
)

QUEUES_PER_PORT = 2
THRIFT_PORT = 9090
"""In a namespace of its own every switch can have BMv2's usual one."""


class Bmv2Missing(Exception):
    """BMv2 is not installed; the message says in one sentence how to get it."""


def find() -> str:
    """The path of simple_switch_grpc.  Raises Bmv2Missing."""
    path = shutil.which(EXECUTABLE)
    if path is None:
        raise Bmv2Missing(HOW_TO_GET)
    return path


def command(
    executable: str,
    *,
    device_id: int,
    interfaces: Mapping[int, str],
    p4runtime_address: str,
    thrift_port: int = THRIFT_PORT,
    packet_address: str | None = None,
) -> list[str]:
    """The argument list; the switch starts without a program and waits for one.

    interfaces: network interface by switch port.  p4runtime_address: as gRPC writes it
    (`unix:PATH`).  packet_address: takes frames from a gRPC stream there instead of interfaces.
    """
    ports = [word for port, name in interfaces.items() for word in ("-i", f"{port}@{name}")]
    target = ["--priority-queues", str(QUEUES_PER_PORT), "--grpc-server-addr", p4runtime_address]
    if packet_address is not None:
        target += ["--dp-grpc-server-addr", packet_address]
    device = ["--device-id", str(device_id), "--thrift-port", str(thrift_port)]
    return [executable, "--no-p4", *device, *ports, "--", *target]
