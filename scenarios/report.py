"""report.html: one self-contained page.  No script, no network; SVG drawn here.  Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from scenarios import chart

EVENTS_SHOWN = 400
"""Rows of the event list; the file beside the report holds all."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run folder in memory."""

    result: Mapping[str, Any]
    claim: str
    scenario_text: str
    goodput: Mapping[str, Sequence[int]]
    evs: Mapping[str, Sequence[int]]
    events: Sequence[Mapping[str, Any]]


_STYLE = """
:root{color-scheme:light dark;--fg:#1d2329;--dim:#66707a;--bg:#fff;--line:#dfe3e8;--good:#1a7f4b;
--bad:#c0392b;--warn:#b7791f;--blue:#2b6cb0;--shade:#c0392b22}
@media(prefers-color-scheme:dark){:root{--fg:#e4e7ea;--dim:#9aa4ad;--bg:#14181c;--line:#333b43;
--good:#4cc38a;--bad:#ef6a5a;--warn:#e0a83c;--blue:#6cb0f0;--shade:#ef6a5a2a}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--fg);background:var(--bg);max-width:960px;
margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin:0}h2{font-size:1.05rem;margin:2rem 0 .5rem}
.badge{font-weight:700;padding:.1rem .6rem;border-radius:.3rem;color:#fff;margin-left:.6rem;
font-size:1rem;vertical-align:.12rem}
.pass{background:#1a7f4b}.fail{background:#c0392b}.invalid,.error{background:#b7791f}
.dim{color:var(--dim)}table{border-collapse:collapse;width:100%}
td,th{text-align:left;padding:.25rem .6rem .25rem 0;border-bottom:1px solid var(--line);
vertical-align:top}th{font-weight:600;color:var(--dim);font-size:.85rem}
td.n{text-align:right;font-variant-numeric:tabular-nums}
table+table{margin-top:1rem}
code,pre{font:13px/1.45 ui-monospace,monospace}pre{overflow:auto;border:1px solid var(--line);
padding:.6rem;border-radius:.3rem}.ok{color:var(--good);font-weight:700}
.no{color:var(--bad);font-weight:700}svg{width:100%;height:auto;display:block}
svg text{font:11px system-ui,sans-serif;fill:var(--dim)}details{margin:.5rem 0}
.wrap{overflow-x:auto}
"""


def html(run: Run) -> str:
    result = run.result
    verdict = escape(str(result["verdict"]))
    name = escape(str(result["scenario"]))
    parts = [
        f"<h1>{name}<span class='badge {verdict}'>{verdict.upper()}</span></h1>",
        f"<p class=dim>{_subtitle(result)}</p>",
        _claim(run.claim),
        _problems(result),
        _expectations(result),
        _goodput(run),
        _evs(run),
        _ledger(result),
        _fidelity(result),
        _events(run.events),
        "<details><summary>Scenario as run</summary>"
        f"<pre>{escape(run.scenario_text)}</pre></details>",
    ]
    body = "\n".join(part for part in parts if part)
    return (
        "<!doctype html>\n<html lang=en><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width,initial-scale=1'>"
        f"<title>{name}: {verdict}</title><style>{_STYLE}</style>\n<body>{body}</body></html>\n"
    )


def _subtitle(result: Mapping[str, Any]) -> str:
    parts = (f"{result['world']} world", f"{result['switch']} switches", f"seed {result['seed']}")
    return escape(", ".join(parts) + f". {result['twin']}.")


def _claim(claim: str) -> str:
    return f"<p>{escape(claim)}</p>" if claim else ""


def _problems(result: Mapping[str, Any]) -> str:
    hosts = [f"{host}: {text}" for host, text in result.get("host_errors", {}).items()]
    texts = [*result["problems"], *hosts, *([result["error"]] if result["error"] else [])]
    return "".join(f"<p class=no>{escape(str(text))}</p>" for text in dict.fromkeys(texts))


def _expectations(result: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><td class={'ok' if e['ok'] else 'no'}>{'ok' if e['ok'] else 'NO'}</td>"
        f"<td><code>{escape(e['expr'])}</code></td><td>{escape(e['measured'])}</td>"
        f"<td class=dim>{escape(e['wanted'])}</td></tr>"
        for e in result["expectations"]
    )
    head = "<tr><th></th><th>expectation</th><th>measured</th><th>wanted</th></tr>"
    return f"<h2>Expectations</h2><div class=wrap><table>{head}{rows}</table></div>" if rows else ""


def _end_ns(run: Run) -> int:
    """Both charts end where the longer series does."""
    return max(*run.goodput.get("t_ns", []), *run.evs.get("t_ns", []), 1)


def _goodput(run: Run) -> str:
    if not run.goodput.get("t_ns"):
        return ""
    ceiling = run.result["metrics"].get("goodput.ceiling")
    drawn = chart.lines(
        run.goodput["t_ns"],
        {"all receivers": run.goodput["total_bps"]},
        t_max_ns=_end_ns(run),
        windows=run.result["timeline"],
        ceiling=ceiling,
    )
    return f"<h2>Goodput over time</h2>{drawn}"


def _evs(run: Run) -> str:
    if not run.evs.get("t_ns"):
        return ""
    series = {name: run.evs[name] for name in run.evs if name != "t_ns"}
    drawn = chart.stack(
        run.evs["t_ns"], series, t_max_ns=_end_ns(run), windows=run.result["timeline"]
    )
    return f"<h2>Entropy values by state</h2>{drawn}"


_BOOK_TITLES = {
    "frames": "Frames sent by hosts, and where they are",
    "data": "Payload packets sent, and what became of them",
    "sent": "Frames sent, by kind",
    "received": "Frames received, by kind",
}
_FIRST_BOOKS = ("frames", "data")
"""Those a reader wants to see at once; the others are there to be opened."""


def _ledger(result: Mapping[str, Any]) -> str:
    books = result["ledger"].get("books", {})
    first = [name for name in books if name in _FIRST_BOOKS or books[name]["unexplained"]]
    rest = [name for name in books if name not in first]
    out = "".join(_book(name, books[name]) for name in first)
    if rest:
        more = "".join(_book(name, books[name]) for name in rest)
        out += f"<details><summary>{len(rest)} more books, all closed</summary>{more}</details>"
    return f"<h2>Ledger</h2>{out}" if out else ""


def _book(name: str, book: Mapping[str, Any]) -> str:
    title = escape(_BOOK_TITLES.get(name, name))
    rows = "".join(
        f"<tr><td>{escape(what)}</td><td class=n>{count:,}</td></tr>"
        for what, count in book["explained"].items()
    )
    css = "ok" if not book["unexplained"] else "no"
    return (
        f"<table><tr><th>{title}</th><td class=n>{book['sent']:,}</td></tr>{rows}"
        f"<tr><th>unexplained</th><td class='n {css}'>{book['unexplained']:,}</td></tr></table>"
    )


def _fidelity(result: Mapping[str, Any]) -> str:
    fidelity = result["fidelity"]
    rows = "".join(
        f"<tr><td>{escape(str(key))}</td><td>{escape(_plain(value))}</td></tr>"
        for key, value in fidelity.items()
    )
    return f"<h2>Fidelity</h2><table>{rows}</table>"


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_plain(item)}" for key, item in value.items()) or "none"
    if isinstance(value, list):
        return "; ".join(map(str, value)) or "none"
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _events(events: Sequence[Mapping[str, Any]]) -> str:
    if not events:
        return ""
    shown = events[:EVENTS_SHOWN]
    rows = "".join(
        f"<tr><td class=n>{event['t_ns'] / 1e9:.6f}</td><td>{escape(str(event['node']))}</td>"
        f"<td>{escape(str(event['kind']))}</td><td class=dim>{escape(_fields(event))}</td></tr>"
        for event in shown
    )
    rest = len(events) - len(shown)
    more = f"<p class=dim>{rest:,} more in events.jsonl</p>" if rest else ""
    head = "<tr><th>s</th><th>node</th><th>event</th><th></th></tr>"
    title = f"{len(events):,} events"
    return f"<details><summary>{title}</summary><table>{head}{rows}</table>{more}</details>"


def _fields(event: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in event.items() if key not in ("t_ns", "node", "kind")}
    return ", ".join(f"{key} {value}" for key, value in rest.items())
