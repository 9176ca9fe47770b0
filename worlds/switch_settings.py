"""How a world reads what a scenario says about switches."""

from collections.abc import Mapping
from typing import Any

from switches.entries import Routing, SwitchSettings


def switch_settings(given: SwitchSettings | Mapping[str, Any]) -> SwitchSettings:
    """WorldSettings.switch: settings, or their fields, in which routing may be a name."""
    if isinstance(given, SwitchSettings):
        return given
    values = dict(given)
    if "routing" in values:
        values["routing"] = Routing(values["routing"])
    return SwitchSettings(**values)
