"""Two small SVG charts over time with faults marked.  Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10
from typing import Any

from topologies import units

WIDTH, HEIGHT = 900, 250
LEFT, RIGHT, TOP, BOTTOM = 70, 12, 34, 26
POINTS_MAX = 2000
"""Points drawn of a line; more bins than that are averaged."""

COLOURS = {
    "good": "var(--good)",
    "skip": "var(--warn)",
    "assumed_bad": "var(--bad)",
    "denied": "var(--dim)",
}
_TICKS = 5


@dataclass(frozen=True, slots=True)
class _Frame:
    """Data coordinates to pixels."""

    t_max: float
    y_max: float

    def x(self, t: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * min(max(t / self.t_max, 0), 1)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / self.y_max


def lines(
    t_ns: Sequence[int],
    series: Mapping[str, Sequence[int]],
    *,
    t_max_ns: int,
    windows: Sequence[Mapping[str, Any]] = (),
    ceiling: float | None = None,
) -> str:
    """Rates over time.  `windows`: {name, start_ns, end_ns}; `ceiling`: a dashed line."""
    step = t_ns[1] - t_ns[0] if len(t_ns) > 1 else 1
    top = max([*(max(values) for values in series.values()), ceiling or 0, 1])
    frame = _Frame(max(t_max_ns, 1), top * 1.05)
    parts = [_windows(frame, windows), _axes(frame, units.show_rate)]
    if ceiling:
        y = frame.y(ceiling)
        parts.append(
            f"<line x1={LEFT} x2={WIDTH - RIGHT} y1={y:.1f} y2={y:.1f} stroke='var(--dim)' "
            f"stroke-dasharray='4 4'/><text x={WIDTH - RIGHT - 4} y={y - 5:.1f} "
            "text-anchor=end>ceiling</text>"
        )
    for name, values in series.items():
        points = " ".join(
            f"{frame.x(t):.1f},{frame.y(v):.1f}" for t, v in _thinned(t_ns, values, step)
        )
        parts.append(
            f"<polyline points='{points}' fill=none stroke='var(--blue)' stroke-width=1.6>"
            f"<title>{escape(name)}</title></polyline>"
        )
    return _svg(parts)


def stack(
    t_ns: Sequence[int],
    series: Mapping[str, Sequence[int]],
    *,
    t_max_ns: int,
    windows: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Counts by state over time, one on top of the other."""
    totals = [sum(values[i] for values in series.values()) for i in range(len(t_ns))]
    frame = _Frame(max(t_max_ns, 1), max(*totals, 1) * 1.05 if totals else 1)
    parts = []
    base = [0] * len(t_ns)
    for name, values in series.items():
        upper = [b + v for b, v in zip(base, values, strict=True)]
        edge = [(frame.x(t), frame.y(v)) for t, v in zip(t_ns, upper, strict=True)]
        back = [(frame.x(t), frame.y(v)) for t, v in zip(t_ns, base, strict=True)][::-1]
        if any(values):
            points = " ".join(f"{x:.1f},{y:.1f}" for x, y in edge + back)
            parts.append(
                f"<polygon points='{points}' fill='{COLOURS.get(name, 'var(--blue)')}' "
                f"fill-opacity=.7><title>{escape(name)}</title></polygon>"
            )
        base = upper
    parts += [_windows(frame, windows, filled=False), _axes(frame, lambda v: f"{v:.0f}")]
    return _svg([*parts, _legend(series)])


def _thinned(t_ns: Sequence[int], values: Sequence[int], step: int) -> list[tuple[float, float]]:
    """Bin centres, averaged in groups where there are too many."""
    group = -(-len(values) // POINTS_MAX)
    out = []
    for start in range(0, len(values), group):
        part = values[start : start + group]
        out.append((t_ns[start] + step * len(part) / 2, sum(part) / len(part)))
    return out


def _svg(parts: Sequence[str]) -> str:
    body = "\n".join(part for part in parts if part)
    return f"<svg viewBox='0 0 {WIDTH} {HEIGHT}' role=img>{body}</svg>"


def _windows(frame: _Frame, windows: Sequence[Mapping[str, Any]], *, filled: bool = True) -> str:
    out = []
    dashed = "fill=none stroke='var(--fg)' stroke-dasharray='3 3'"
    look = "fill='var(--shade)'" if filled else dashed
    for window in windows:
        left = frame.x(window["start_ns"])
        right = frame.x(frame.t_max if window["end_ns"] is None else window["end_ns"])
        out.append(
            f"<rect x={left:.1f} y={TOP} width={max(right - left, 1.5):.1f} "
            f"height={HEIGHT - TOP - BOTTOM} {look}/>"
            f"<text x={left + 3:.1f} y={TOP - 6}>{escape(str(window['name']))}</text>"
        )
    return "".join(out)


def _axes(frame: _Frame, show: Callable[[float], str]) -> str:
    floor_y = HEIGHT - BOTTOM
    out = [f"<line x1={LEFT} x2={WIDTH - RIGHT} y1={floor_y} y2={floor_y} stroke='var(--dim)'/>"]
    for value in _ticks(frame.y_max):
        y = frame.y(value)
        out.append(
            f"<line x1={LEFT} x2={WIDTH - RIGHT} y1={y:.1f} y2={y:.1f} stroke='var(--line)'/>"
            f"<text x={LEFT - 6} y={y + 4:.1f} text-anchor=end>{show(value)}</text>"
        )
    for t in _ticks(frame.t_max):
        anchor = "end" if frame.x(t) > WIDTH - RIGHT - 20 else "middle"
        label = units.show_duration(t) if t else "0"
        out.append(f"<text x={frame.x(t):.1f} y={HEIGHT - 8} text-anchor={anchor}>{label}</text>")
    return "".join(out)


def _ticks(top: float) -> list[float]:
    """From 0, in steps of 1, 2 or 5 times a power of ten, about five of them."""
    raw = top / _TICKS
    scale = 10.0 ** floor(log10(raw))
    step = next(m * scale for m in (1, 2, 5, 10) if m * scale >= raw)
    return [step * i for i in range(int(top / step) + 1)]


def _legend(series: Mapping[str, Sequence[int]]) -> str:
    out = []
    x = LEFT
    for name in series:
        if any(series[name]):
            out.append(
                f"<rect x={x} y=1 width=10 height=10 fill='{COLOURS.get(name, 'var(--blue)')}'/>"
                f"<text x={x + 14} y=10>{escape(name.upper())}</text>"
            )
            x += 30 + 8 * len(name)
    return "".join(out)
