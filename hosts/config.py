"""The `configure` message's config, JSON, as the endpoint's EndpointConfig.

Byte strings are hexadecimal.  Besides EndpointConfig's own fields there are `host`, `seed` and
`bin_ns` (step of the goodput series).
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from hosts.errors import UsageError
from hosts.mrc.config import EndpointConfig, NicPort

HOST_KEYS = ("host", "seed", "bin_ns")


def endpoint_config(config: Mapping[str, Any]) -> EndpointConfig:
    """Raises UsageError for a key that is not known or one that is missing or of the wrong kind."""
    known = {field.name for field in fields(EndpointConfig)}
    given = {key: value for key, value in config.items() if key not in HOST_KEYS}
    unknown = sorted(set(given) - known)
    if unknown:
        raise UsageError(f"configure: unknown key {unknown[0]!r}")
    try:
        given["gid"] = bytes.fromhex(given["gid"])
        given["ports"] = tuple(_port(port) for port in given["ports"])
        return EndpointConfig(**given)
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"configure: {error}") from error


def _port(port: Mapping[str, Any]) -> NicPort:
    return NicPort(
        mac=bytes.fromhex(port["mac"]),
        gateway_mac=bytes.fromhex(port["gateway_mac"]),
        rate_bps=int(port["rate_bps"]),
    )
