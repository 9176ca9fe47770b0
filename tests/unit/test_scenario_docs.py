"""docs/scenarios.md is complete: its tables are those the code makes."""

from pathlib import Path
from typing import get_args

from scenarios import metrics, reference, schema, schema_json
from tests.support.scenario_text import TEXT
from topologies.strict_yaml import parse

PAGE = Path(__file__).resolve().parents[2] / "docs" / "scenarios.md"


def test_the_tables_are_up_to_date() -> None:
    """If not: `mrc-testbed reference`."""
    prose, _, tables = PAGE.read_text().partition(reference.BEGIN)
    assert tables.strip() == reference.markdown().strip()
    assert "exit" in prose


def test_every_verb_metric_and_kind_is_there() -> None:
    page = PAGE.read_text()
    for model in get_args(schema.AnyFault):
        assert f"### `{get_args(model.model_fields['fault'].annotation)[0]}`" in page
    for metric in metrics.METRICS:
        assert f"| `{metric.name}" in page


def test_the_json_schema_names_every_key_of_a_scenario() -> None:
    document = schema_json.document()
    assert set(parse(TEXT, "f").data) <= set(document["properties"])
    assert document["additionalProperties"] is False
    assert {"type": "string"}.items() <= document["properties"]["topology"]["anyOf"][1].items()
