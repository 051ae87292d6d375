"""Charts as inline SVG and tables as HTML; `histogp.reports.page` holds their colors."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

N_COLORS = 6  # further lines begin again with the first
MOST_CLASSES = 30  # a larger confusion table is cut to the worst classes
WORST_CLASSES = 20
MOST_POINTS = 2000
MOST_MARKERS = 40  # a line of more points shows its markers under the pointer only
HUGE = 1e150  # numbers as large as that are infinite to a chart, and their inverses zero
NOTHING = '<p class="note">No data.</p>'

# In SVG user units. Text grows to 20 units on a phone, and the margins leave room for that.
_WIDTH, _HEIGHT, _SQUARE = 640, 370, 480
_RIGHT, _TOP, _BOTTOM, _CHARACTER = 30, 40, 72, 11
_NUMBER = re.compile(
    r"[-+\N{MINUS SIGN}]?\d[\d,._]*(e[-+]?\d+)?( ?± ?\d[\d,.]*)?( ?[^\s\d]{1,4})?|[-\N{EN DASH}]?", re.I
)


@dataclass(frozen=True)
class Series:
    """One line of a chart."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    dashed: bool = False


def line_chart(
    series: Sequence[Series],
    *,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    log_y: bool = False,
    y_range: tuple[float, float] | None = None,
    title: str,
) -> str:
    """Lines with markers; points without a place (not finite, or not positive on a log axis) are left out."""
    lines = [(one, *_drawable(one.x, one.y, log_x, log_y)) for one in series]
    lines = [line for line in lines if len(line[1])]
    if not lines:
        return NOTHING
    x_axis = Axis.around(np.concatenate([x for _, x, _ in lines]), log=log_x)
    y_axis = Axis.around(np.concatenate([y for _, _, y in lines]), log=log_y, limits=y_range)
    frame = _Frame(x_axis, y_axis, _WIDTH, _HEIGHT)
    drawn = "".join(_line(frame, one, x, y, k % N_COLORS + 1) for k, (one, x, y) in enumerate(lines))
    keys = "".join(_key(one, k % N_COLORS + 1) for k, (one, _, _) in enumerate(lines))
    legend = f'<ul class="legend">{keys}</ul>' if len(lines) > 1 else ""
    return _figure(title, legend, frame.draw(drawn, x_label, y_label, title))


def scatter_chart(truth: Any, predicted: Any, *, title: str) -> str:
    """Predictions against the truth, with the diagonal on which both agree."""
    x, y = _drawable(truth, predicted)
    if not len(x):
        return NOTHING
    axis = Axis.around(np.concatenate([x, y]))
    frame = _Frame(axis, axis, _SQUARE, _SQUARE)
    shown = np.unique(np.linspace(0, len(x) - 1, MOST_POINTS).astype(int))
    dots = "".join(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3"/>' for px, py in frame.place(x[shown], y[shown]))
    (x0, y0), (x1, y1) = frame.place([axis.low, axis.high], [axis.low, axis.high])
    drawn = f'<path class="diagonal" d="M{x0:.1f},{y0:.1f}L{x1:.1f},{y1:.1f}"/><g class="dots">{dots}</g>'
    note = f'<p class="note">{len(shown):,} of {len(x):,} points are drawn.</p>' if len(shown) < len(x) else ""
    return _figure(title, frame.draw(drawn, "truth", "predicted", title), note, kind="square")


def confusion_table(matrix: Any, labels: Sequence[str]) -> str:
    """Counts of truth (rows) and prediction (columns), with the recall of each class."""
    counts = np.asarray(matrix)
    if not counts.size:
        return NOTHING
    shown = list(range(len(labels)))
    caption = "Rows are the truth, columns the prediction; shade is the share of the row."
    if len(labels) > MOST_CLASSES:
        errors = counts.sum(axis=1) - counts.diagonal()
        shown = sorted(np.argsort(-errors, kind="stable")[:WORST_CLASSES].tolist())
        caption += (
            f" Only the {WORST_CLASSES} of {len(labels)} classes with the most errors are shown; recall counts all."
        )
    longest = max(len(labels[k]) for k in shown)
    upright = " upright" if longest > (4 if len(shown) > 12 else 14) else ""
    heads = "".join(f'<th scope="col"><span>{escape(labels[k])}</span></th>' for k in shown)
    rows = "".join(_confusion_row(counts[k], k, shown, labels) for k in shown)
    return (
        f'<figure><figcaption class="note">{caption}</figcaption><div class="scroll" tabindex="0">'
        f'<table class="confusion{upright}" style="--longest:{longest}"><thead><tr><td class="corner"></td>{heads}'
        f'<th scope="col"><span>recall</span></th></tr></thead><tbody>{rows}</tbody></table></div></figure>'
    )


def key_figures(figures: Sequence[tuple[str, str]]) -> str:
    """Cards of (value, label), the value in large type."""
    cards = "".join(f"<div><dt>{escape(label)}</dt><dd>{escape(value)}</dd></div>" for value, label in figures)
    return f'<dl class="figures">{cards}</dl>'


def data_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A plain table; columns of numbers, with or without a unit, are aligned to the right."""
    numeric = [bool(rows) and all(_NUMBER.fullmatch(row[k].strip()) for row in rows) for k in range(len(header))]
    style = [' class="number"' if number else "" for number in numeric]
    heads = "".join(f'<th scope="col"{s}>{escape(h)}</th>' for h, s in zip(header, style, strict=True))
    lines = ("".join(f"<td{s}>{escape(cell)}</td>" for cell, s in zip(row, style, strict=True)) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return (
        f'<div class="scroll" tabindex="0"><table class="data"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


@dataclass(frozen=True)
class Axis:
    """The range of an axis and its ticks."""

    low: float
    high: float
    ticks: list[float]
    labels: list[str]
    log: bool

    @classmethod
    def around(cls, values: np.ndarray, *, log: bool = False, limits: tuple[float, float] | None = None) -> Axis:
        """An axis with round ticks that spans the values, or exactly the limits."""
        low, high = limits or (float(values.min()), float(values.max()))
        low, high = _widened(low, high, log)
        ticks, labels, ends = (_log_ticks if log else _linear_ticks)(low, high)
        if limits is None:
            low, high = ends
        shown = [(t, text) for t, text in zip(ticks, labels, strict=True) if low <= t <= high]
        return cls(low, high, [t for t, _ in shown], [text for _, text in shown], log)

    def fraction(self, values: Any) -> np.ndarray:
        """Where values lie between the ends of the axis, 0 to 1."""
        low, high, at = (np.log10(v) if self.log else np.asarray(v, float) for v in (self.low, self.high, values))
        return (at - low) / (high - low)


def _widened(low: float, high: float, log: bool) -> tuple[float, float]:
    """A range wide enough for distinct ticks."""
    if high - low > max(1e-9 * abs(low), 1e-9 * abs(high), 1 / HUGE):
        return low, high
    if log:
        return low / 2, high * 2
    margin = 0.05 * abs(low) if abs(low) > 1 / HUGE else 1.0
    return low - margin, high + margin


def _linear_ticks(low: float, high: float) -> tuple[list[float], list[str], tuple[float, float]]:
    """Multiples of 1, 2 or 5 times a power of ten, about six; their texts; and the ends of the axis."""
    power = math.floor(math.log10((high - low) / 6))
    lead, power = next(
        (lead, p) for p in (power, power + 1) for lead in (1, 2, 5) if (high - low) / (lead * 10.0**p) <= 6
    )
    step = lead * 10.0**power
    # The slack keeps a bound that is a tick itself, such as 0.3 = 2.9999999999999996 * 0.1, from adding another.
    counts = range(math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9) + 1)
    # Read as decimals, ticks are the nearest floats to round numbers, which multiples of a float are not.
    ticks = [float(f"{k * lead}e{power}") for k in counts]
    largest = max(abs(t) for t in ticks)
    return ticks, [_tick_text(t, largest, power) for t in ticks], (min(ticks[0], low), max(ticks[-1], high))


def _log_ticks(low: float, high: float) -> tuple[list[float], list[str], tuple[float, float]]:
    """Powers of ten, with 1-2-5 within them if the range is short; their texts; and the ends of the axis."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    # One decade more at both ends, because logarithms are rounded.
    ticks = [(float(f"{lead}e{p}"), p) for p in range(first - 1, last + 2) for lead in (1, 2, 5)]
    ends = max(t for t, _ in ticks if t <= low), min(t for t, _ in ticks if t >= high)
    if sum(ends[0] <= t <= ends[1] for t, _ in ticks) > 8:
        every = math.ceil((last - first) / 7)
        ticks = [(float(f"1e{p}"), p) for p in range(first, last + 1) if p % every == 0]
    return [t for t, _ in ticks], [_tick_text(t, t, p) for t, p in ticks], ends


def _tick_text(value: float, largest: float, power: int) -> str:
    """A tick as short text; `largest` picks the unit for the axis, digits go down to ``10**power``."""
    if value == 0:
        return "0"
    if 1e-2 <= largest < 1e9:
        unit, suffix = (6, "M") if largest >= 1e6 else (3, "k") if largest >= 1e4 else (0, "")
    else:
        unit = math.floor(math.log10(largest) + 1e-9)
        suffix = f"e{unit}"
    number = f"{value / 10.0**unit:.{max(0, unit - power)}f}"
    if suffix and "." in number:
        number = number.rstrip("0").rstrip(".")
    return number.replace("-", "\N{MINUS SIGN}") + suffix


@dataclass(frozen=True)
class _Frame:
    """Axes on a canvas."""

    x: Axis
    y: Axis
    width: int
    height: int

    @property
    def left(self) -> int:
        return 14 + _CHARACTER * max(map(len, self.y.labels), default=0)

    def place(self, x: Any, y: Any) -> np.ndarray:
        """Canvas positions, (n, 2)."""
        across = self.left + self.x.fraction(x) * (self.width - self.left - _RIGHT)
        down = self.height - _BOTTOM - self.y.fraction(y) * (self.height - _BOTTOM - _TOP)
        return np.stack([across, down], axis=1)

    def draw(self, content: str, x_label: str, y_label: str, title: str) -> str:
        """The SVG of the axes with their ticks and labels, around the content."""
        right, bottom = self.width - _RIGHT, self.height - _BOTTOM
        x_at = self.place(self.x.ticks, np.full(len(self.x.ticks), self.y.low))[:, 0]
        y_at = self.place(np.full(len(self.y.ticks), self.x.low), self.y.ticks)[:, 1]
        grid = "".join(f"M{at:.1f},{_TOP}V{bottom}" for at in x_at) + "".join(
            f"M{self.left},{at:.1f}H{right}" for at in y_at
        )
        x_texts = "".join(
            f'<text x="{at:.1f}" y="{bottom}" dy="1.5em" text-anchor="middle">{text}</text>'
            for at, text in zip(x_at, self.x.labels, strict=True)
        )
        y_texts = "".join(
            f'<text x="{self.left - 8}" y="{at:.1f}" dy=".35em" text-anchor="end">{text}</text>'
            for at, text in zip(y_at, self.y.labels, strict=True)
        )
        # The inner svg clips lines that leave a fixed range, with room for markers on the very edge.
        x, y, w, h = self.left - 6, _TOP - 6, right - self.left + 12, bottom - _TOP + 12
        return (
            f'<svg viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{escape(title)}">'
            f'<path class="grid" d="{grid}"/><path class="axis" d="M{self.left},{bottom}H{right}"/>{x_texts}{y_texts}'
            f'<text class="label" x="{right}" y="{bottom}" dy="3.1em" text-anchor="end">{escape(x_label)}</text>'
            f'<text class="label" x="0" y="{_TOP - 22}">{escape(y_label)}</text>'
            f'<svg x="{x}" y="{y}" width="{w}" height="{h}" viewBox="{x} {y} {w} {h}">{content}</svg></svg>'
        )


def _figure(title: str, *parts: str, kind: str = "") -> str:
    return f'<figure class="chart {kind}"><figcaption>{escape(title)}</figcaption>{"".join(parts)}</figure>'


def _drawable(x: Any, y: Any, log_x: bool = False, log_y: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """The pairs of which both numbers have a place on their axis."""
    x, y = np.asarray(x, float).ravel(), np.asarray(y, float).ravel()
    keep = (abs(x) < HUGE) & (abs(y) < HUGE)
    keep &= ((x > 1 / HUGE) | (not log_x)) & ((y > 1 / HUGE) | (not log_y))
    return x[keep], y[keep]


def _line(frame: _Frame, series: Series, x: np.ndarray, y: np.ndarray, color: int) -> str:
    places = frame.place(x, y)
    path = "L".join(f"{px:.1f},{py:.1f}" for px, py in places)
    texts = (escape(f"{series.name}: {a:.10g}, {b:.10g}") for a, b in zip(x, y, strict=True))
    markers = "".join(
        f'<circle cx="{px:.1f}" cy="{py:.1f}" r="4"><title>{text}</title></circle>'
        for (px, py), text in zip(places, texts, strict=True)
    )
    dense = " dense" if len(x) > MOST_MARKERS else ""
    return f'<g class="{_line_class(series, color)}{dense}"><path d="M{path}"/>{markers}</g>'


def _key(series: Series, color: int) -> str:
    swatch = f'<g class="{_line_class(series, color)}"><path d="M1,6H31"/><circle cx="16" cy="6" r="4"/></g>'
    return f'<li><svg width="32" height="12" aria-hidden="true">{swatch}</svg>{escape(series.name)}</li>'


def _line_class(series: Series, color: int) -> str:
    return f"line color-{color}{' dashed' if series.dashed else ''}"


def _confusion_row(counts: np.ndarray, truth: int, shown: Sequence[int], labels: Sequence[str]) -> str:
    """One class of the confusion table: counts of what it was taken for, and its recall."""
    total = counts.sum()
    cells = []
    for k in shown:
        if not counts[k]:
            cells.append("<td></td>")
            continue
        share = counts[k] / total
        kind = "hit" if k == truth else "miss"
        about = escape(f"truth {labels[truth]}, predicted {labels[k]}: {share:.1%} of the row")
        # The root brings out small shares, which are what one looks for.
        cells.append(f'<td class="{kind}" style="--share:{share**0.5:.3f}" title="{about}">{counts[k]:,.10g}</td>')
    recall = f"{counts[truth] / total:.1%}" if total else "\N{EN DASH}"
    head = f'<th scope="row">{escape(labels[truth])}</th>'
    return f'<tr>{head}{"".join(cells)}<td class="recall">{recall}</td></tr>'
