"""JUnit XML: one test case an expectation, so that any CI shows which failed and by how much."""

from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr

EVENTS_SHOWN = 20


def xml(result: dict[str, Any], events: Sequence[str], seconds: float) -> str:
    """`events`: lines of events.jsonl, of which a failure shows the last ones."""
    cases = [_case(result, e["expr"], _complaint(e), events) for e in result["expectations"]]
    cases += [_case(result, "the run itself", text, events) for text in result["problems"]]
    error = result["error"] or "; ".join(result["fidelity"].get("reasons", []))
    if result["verdict"] in ("invalid", "error"):
        cases.append(_case(result, "the machine kept time", error, (), tag="error"))
    failures = sum("<failure" in case for case in cases)
    errors = sum("<error" in case for case in cases)
    name = quoteattr(result["scenario"])
    head = f'tests="{len(cases)}" failures="{failures}" errors="{errors}" time="{seconds:.3f}"'
    body = "\n".join(cases)
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites {head}>\n'
        f"<testsuite name={name} {head}>\n{body}\n</testsuite>\n</testsuites>\n"
    )


def _complaint(expectation: dict[str, Any]) -> str | None:
    if expectation["ok"]:
        return None
    return f"measured {expectation['measured']}, wanted {expectation['wanted']}"


def _case(
    result: dict[str, Any],
    name: str,
    complaint: str | None,
    events: Sequence[str],
    tag: str = "failure",
) -> str:
    group = quoteattr(f"{result['scenario']}.{result['world']}")
    head = f"  <testcase classname={group} name={quoteattr(name)}"
    if complaint is None:
        return f"{head}/>"
    body = escape(_printable("\n".join([complaint, *events[-EVENTS_SHOWN:]])))
    message = quoteattr(_printable(complaint))
    return f"{head}>\n    <{tag} message={message}>{body}</{tag}>\n  </testcase>"


def _printable(text: str) -> str:
    """XML 1.0 has no way to write most control characters."""
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)
