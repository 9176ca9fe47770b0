"""Two results side by side.  Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One thing both runs have, or one of them."""

    what: str
    before: str
    after: str
    change: str

    def as_json(self) -> dict[str, str]:
        return asdict(self)


def rows(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Row]:
    return [*_heads(before, after), *_expectations(before, after), *_metrics(before, after)]


def text(table: list[Row]) -> str:
    cells = [
        ("", "before", "after", "change"),
        *((r.what, r.before, r.after, r.change) for r in table),
    ]
    widths = [max(len(row[i]) for row in cells) for i in range(4)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )


def _heads(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Row]:
    for key in ("scenario", "verdict", "world", "switch", "seed"):
        a, b = str(before[key]), str(after[key])
        yield Row(key, a, b, "" if a == b else "differs")


def _expectations(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Row]:
    old = {e["expr"]: e for e in before["expectations"]}
    new = {e["expr"]: e for e in after["expectations"]}
    for expr in dict.fromkeys([*old, *new]):
        a, b = old.get(expr), new.get(expr)
        change = ""
        if a is None or b is None:
            change = "only in one"
        elif a["ok"] != b["ok"]:
            change = "now holds" if b["ok"] else "no longer holds"
        yield Row(expr, _shown(a), _shown(b), change)


def _shown(expectation: Mapping[str, Any] | None) -> str:
    if expectation is None:
        return "-"
    return f"{'ok' if expectation['ok'] else 'NO'} {expectation['measured']}"


def _metrics(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Row]:
    old, new = before["metrics"], after["metrics"]
    for name in dict.fromkeys([*old, *new]):
        a, b = old.get(name), new.get(name)
        yield Row(name, _value(a), _value(b), _change(a, b))


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"{len(value)} EVs"
    return "-" if value is None else str(value)


def _change(a: Any, b: Any) -> str:
    if a == b:
        return ""
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (a, b))
    if numbers and a:
        return f"{100 * (b - a) / abs(a):+.1f} %"
    return "differs"
