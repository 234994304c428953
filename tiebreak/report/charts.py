"""Charts as SVG, drawn here and not in the browser: pure functions from numbers to mark-up.

Colours come from the page's style by class, so that one drawing serves a light page, a dark one and paper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10

from markupsafe import Markup, escape

WIDTH = 480
_LEFT, _RIGHT = 148, 14
_ROW = 26
_TOP, _BOTTOM = 10, 40
_FRONT_LEFT, _FRONT_HEIGHT = 46, 320
_CHARACTER = 6.9
"""About the width of a character of a chart's text."""
_LONGEST = 20
_LOG_FROM = 8.0
"""From this ratio of largest to smallest on, a scale goes by ratios."""

_Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """A score with its interval, on a line of its own."""

    label: str
    name: str
    """The label, as short as tells it apart."""
    value: float | None
    low: float = 0.0
    high: float = 1.0
    tier: int | None = None
    reference: bool = False
    shown: str = ""
    """The value in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A model between what it takes and what it scores."""

    label: str
    name: str
    x: float
    x_interval: tuple[float, float] | None
    y: float
    y_interval: tuple[float, float]
    in_front: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """How long a model's answers took."""

    label: str
    name: str
    bins: Sequence[int]
    median_s: float
    p95_s: float
    tier: int | None = None
    reference: bool = False


@dataclass(frozen=True, slots=True)
class Scale:
    """From numbers to places."""

    low: float
    high: float
    start: float
    end: float
    ratios: bool = False

    def __call__(self, value: float) -> float:
        """Where a value stands."""
        if self.ratios:
            value = max(value, self.low)
            share = log10(value / self.low) / log10(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + min(1.02, max(-0.02, share)) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """A few round values within the scale."""
        return _ratio_ticks(self.low, self.high) if self.ratios else _even_ticks(self.low, self.high)


def score_chart(dots: Sequence[Dot]) -> Markup:
    """Scores with their intervals, a line per model, tiers by shade."""
    shown = [dot for dot in dots if dot.value is not None]
    scale = _score_scale([(dot.low, dot.high) for dot in shown], _LEFT, WIDTH - _RIGHT)
    height = _TOP + _ROW * len(shown) + _BOTTOM
    parts = _axis(scale, _TOP, height - _BOTTOM, "Score, with its 95 % interval", two_digits)
    for row, dot in enumerate(shown):
        y = _TOP + _ROW * row + _ROW / 2
        if row and (dot.tier, dot.reference) != (shown[row - 1].tier, shown[row - 1].reference):
            parts.append(_line(0, y - _ROW / 2, WIDTH - _RIGHT, y - _ROW / 2, "between"))
        parts.append(_dot(dot, y, scale))
    best = ", ".join(f"{dot.label} {dot.shown}" for dot in shown)
    return _svg(height, "Scores", f"Scores with 95 % intervals: {best}.", parts)


def _score_scale(intervals: Sequence[tuple[float, float]], start: float, end: float) -> Scale:
    """Whole tenths that hold all intervals."""
    low = max(0.0, floor(min((low for low, _ in intervals), default=0.0) * 10) / 10)
    high = min(1.0, ceil(max((high for _, high in intervals), default=1.0) * 10) / 10)
    return Scale(low, high if high > low else low + 0.1, start, end)


def _dot(dot: Dot, y: float, scale: Scale) -> Markup:
    kind = _shade(dot.tier, reference=dot.reference)
    assert dot.value is not None
    return _tag(
        "g",
        _tag("title", f"{dot.label}: {dot.shown}"),
        _text(_LEFT - 10, y + 4, _short(dot.name), "name end"),
        _line(scale(dot.low), y, scale(dot.high), y, f"interval {kind}"),
        _tag("circle", cx=_n(scale(dot.value)), cy=_n(y), r="4.5", class_=f"dot {kind}"),
    )


def front_chart(points: Sequence[Point], *, title: str, x_label: str, x_words: Callable[[float], str]) -> Markup:
    """What models take against what they score; the front is the line nobody is better than."""
    height = _FRONT_HEIGHT
    x = _front_scale(points)
    y = _score_scale([p.y_interval for p in points], height - _BOTTOM, _TOP)
    parts = [*_axis(x, _TOP, height - _BOTTOM, x_label, x_words), *_side_axis(y)]
    front = sorted((p for p in points if p.in_front), key=lambda p: p.x)
    if len(front) > 1:
        steps = "".join(f"H{_n(x(p.x))}V{_n(y(p.y))}" for p in front[1:])
        parts.append(_tag("path", d=f"M{_n(x(front[0].x))} {_n(y(front[0].y))}{steps}", class_="front"))
    placed = [(x(p.x) - 6, y(p.y) - 6, x(p.x) + 6, y(p.y) + 6) for p in points]
    parts += [_point(point, x, y, placed) for point in sorted(points, key=lambda p: (not p.in_front, -p.y))]
    told = "; ".join(f"{p.label} {x_words(p.x)}, score {p.y:.2f}{', on the front' if p.in_front else ''}" for p in points)
    return _svg(height, title, f"{title}: {told}.", parts)


def _front_scale(points: Sequence[Point]) -> Scale:
    values = [v for p in points for v in (p.x, *(p.x_interval or ())) if v > 0]
    low, high = min(values, default=0.1), max(values, default=1.0)
    ratios = high / low >= _LOG_FROM and all(p.x > 0 for p in points)
    edges = (low / 1.3, high * 1.3) if ratios else (0.0, high * 1.1)
    return Scale(*edges, _FRONT_LEFT, WIDTH - _RIGHT, ratios=ratios)


def _point(point: Point, x: Scale, y: Scale, placed: list[_Box]) -> Markup:
    kind = "best" if point.in_front else "behind"
    across, down = x(point.x), y(point.y)
    low, high = point.y_interval
    parts = [
        _tag("title", f"{point.label}: score {point.y:.2f} [{low:.2f}, {high:.2f}]"),
        _line(across, y(low), across, y(high), f"error {kind}"),
    ]
    if point.x_interval is not None:
        parts.append(_line(x(point.x_interval[0]), down, x(point.x_interval[1]), down, f"error {kind}"))
    parts.append(_tag("circle", cx=_n(across), cy=_n(down), r="5", class_=f"dot {kind}"))
    parts.append(_point_label(_short(point.name), across, down, placed, kind))
    return _tag("g", *parts)


def _point_label(label: str, x: float, y: float, placed: list[_Box], kind: str) -> Markup:
    """The label where it hides nothing, as far as there is such a place; else none: the table has it."""
    width = len(label) * _CHARACTER
    for down in (-7, 14, -20, 27, -33, 40):
        for start in (x + 8, x - 8 - width, x - width / 2):
            box = (start, y + down - 10, start + width, y + down + 3)
            inside = box[0] >= _FRONT_LEFT and box[2] <= WIDTH and box[1] >= 0 and box[3] <= _FRONT_HEIGHT - _BOTTOM
            if inside and not any(_overlap(box, other) for other in placed):
                placed.append(box)
                return _text(start, y + down, label, f"name {kind}")
    return Markup("")


def _overlap(one: _Box, other: _Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def latency_chart(rows: Sequence[Times], fastest_s: float, slowest_s: float) -> Markup:
    """How long answers took: a hill per model, a line at its median and a mark at its 95th percentile."""
    high = slowest_s if slowest_s > fastest_s * 1.2 else fastest_s * 1.2
    scale = Scale(fastest_s, high, _LEFT, WIDTH - _RIGHT, ratios=True)
    row_height = 34
    height = _TOP + row_height * len(rows) + _BOTTOM
    parts = _axis(scale, _TOP, height - _BOTTOM, "Seconds per answer: line = median, ring = 95th percentile", seconds)
    parts += [_hill(row, _TOP + row_height * number - 4, row_height - 8, scale) for number, row in enumerate(rows, start=1)]
    told = "; ".join(f"{row.label} median {row.median_s:.2f} s, p95 {row.p95_s:.2f} s" for row in rows)
    return _svg(height, "Time of an answer", f"Time of an answer: {told}.", parts)


def _hill(row: Times, base: float, tall: float, scale: Scale) -> Markup:
    kind = _shade(row.tier, reference=row.reference)
    step = (scale.end - scale.start) / max(1, len(row.bins))
    smooth = [
        (row.bins[max(0, i - 1)] + 2 * row.bins[i] + row.bins[min(len(row.bins) - 1, i + 1)]) / 4 for i in range(len(row.bins))
    ]
    most = max(smooth, default=1.0) or 1.0
    curve = "".join(f"L{_n(scale.start + (i + 0.5) * step)} {_n(base - tall * c / most)}" for i, c in enumerate(smooth))
    return _tag(
        "g",
        _tag("title", f"{row.label}: median {row.median_s:.2f} s, p95 {row.p95_s:.2f} s"),
        _text(_LEFT - 10, base - 4, _short(row.name), "name end"),
        _tag("path", d=f"M{_n(scale.start)} {_n(base)}{curve}L{_n(scale.end)} {_n(base)}Z", class_=f"hill {kind}"),
        _line(scale(row.median_s), base - tall, scale(row.median_s), base, f"median {kind}"),
        _tag("circle", cx=_n(scale(row.p95_s)), cy=_n(base - 3), r="3", class_=f"ring {kind}"),
    )


# --- words of the scales ----------------------------------------------------------------------------


def two_digits(value: float) -> str:
    """0.85."""
    return f"{value:.2f}".removesuffix("0") if abs(value * 10 - round(value * 10)) < 1e-9 else f"{value:.2f}"


def seconds(value: float) -> str:
    """0.25 s, 3 s, 2 min."""
    return f"{value:.3g} s" if value < 120 else f"{value / 60:.3g} min"


# --- parts ------------------------------------------------------------------------------------------


def _shade(tier: int | None, *, reference: bool) -> str:
    return "reference" if reference or tier is None else f"tier{min(tier, 4)}"


def _axis(scale: Scale, top: float, bottom: float, label: str, words: Callable[[float], str]) -> list[Markup]:
    parts = []
    reached = -1e9
    for tick in scale.ticks():
        x = scale(tick)
        parts.append(_line(x, top, x, bottom, "grid"))
        half = len(words(tick)) * _CHARACTER / 2
        if x - half > reached:
            parts.append(_text(x, bottom + 15, words(tick), "tick middle"))
            reached = x + half + 6
    return [*parts, _text((scale.start + scale.end) / 2, bottom + 33, label, "caption middle")]


def _side_axis(scale: Scale) -> list[Markup]:
    parts = []
    for tick in scale.ticks():
        y = scale(tick)
        parts.append(_line(_FRONT_LEFT, y, WIDTH - _RIGHT, y, "grid"))
        parts.append(_text(_FRONT_LEFT - 8, y + 4, two_digits(tick), "tick end"))
    return parts


def _even_ticks(low: float, high: float) -> list[float]:
    rough = (high - low) / 5
    unit = 10.0 ** floor(log10(rough))
    step = next(unit * m for m in (1, 2, 5, 10) if unit * m >= rough * 0.999)
    first = ceil(low / step - 1e-9)
    return [round(n * step, 10) for n in range(first, floor(high / step + 1e-9) + 1)]


def _ratio_ticks(low: float, high: float) -> list[float]:
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    found = [m * 10.0**e for e in decades for m in (1, 2, 5) if low <= m * 10.0**e <= high]
    whole = [t for t in found if abs(log10(t) - round(log10(t))) < 1e-9]
    if len(found) < 3:
        return _even_ticks(low, high)
    return whole if len(whole) >= 4 else found


def _svg(height: float, title: str, told: str, parts: Sequence[Markup]) -> Markup:
    head, box = (_tag("title", title), _tag("desc", told)), f"0 0 {WIDTH} {_n(height)}"
    return _tag("svg", *head, *parts, viewBox=box, role="img", aria_label=told, class_="chart")


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    return _tag("line", x1=_n(x1), y1=_n(y1), x2=_n(x2), y2=_n(y2), class_=kind)


def _text(x: float, y: float, text: str, kind: str) -> Markup:
    return _tag("text", text, x=_n(x), y=_n(y), class_=kind)


def _tag(name: str, *children: str | Markup, **attributes: str) -> Markup:
    """An element; all text in it that is not mark-up of ours is escaped."""
    spelled = "".join(f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items())
    return Markup(f"<{name}{spelled}>{''.join(escape(child) for child in children)}</{name}>")  # noqa: S704 -- escaped just here


def _short(label: str) -> str:
    """A long name without its middle: both ends tell models apart."""
    return label if len(label) <= _LONGEST else f"{label[: _LONGEST - 10]}…{label[-9:]}"


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0") if isfinite(value) else "0"
