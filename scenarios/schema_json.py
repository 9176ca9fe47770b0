"""The JSON schema of scenario files: completion and checking in editors."""

from typing import Any

from scenarios.schema import Scenario


def document() -> dict[str, Any]:
    """Draft 2020-12.  A topology may also be the name of a catalog file."""
    schema = Scenario.model_json_schema(by_alias=True)
    topology = schema["properties"]["topology"]
    schema["properties"]["topology"] = {
        "description": topology.pop("description"),
        "anyOf": [topology, {"type": "string", "description": "a name in topologies/catalog"}],
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "MRC testbed scenario",
        **{key: value for key, value in schema.items() if key != "title"},
    }
