"""The directive ``mermaid``: draws lines ``a --> b`` as boxes in rows, each below all that point to it."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from html import escape
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive

WIDTH, HEIGHT, GAP = 118, 30, 46


def drawn(arrows: list[tuple[str, str]]) -> str:
    """An SVG picture of boxes with arrows."""
    sources = defaultdict(list)
    for start, end in arrows:
        sources[end].append(start)

    @cache
    def row(name: str) -> int:
        return max((row(one) + 1 for one in sources[name]), default=0)

    rows = defaultdict(list)
    for name in dict.fromkeys(name for arrow in arrows for name in arrow):
        rows[row(name)].append(name)
    most = max(map(len, rows.values()))
    width, height = most * (WIDTH + 16), len(rows) * (HEIGHT + GAP)
    places = {
        name: ((k + 0.5) * width / len(names), number * (HEIGHT + GAP) + 20)
        for number, names in rows.items()
        for k, name in enumerate(names)
    }
    found = [
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="Packages, each above those that it imports" '
        'style="max-width: 100%; color: var(--pst-color-text-base)"><defs><marker id="head" viewBox="0 0 8 8" refX="7" '
        'refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="gray"/></marker></defs>'
    ]
    for start, end in arrows:
        (x, y), (to_x, to_y) = places[start], places[end]
        found.append(
            f'<line x1="{x:.0f}" y1="{y + HEIGHT / 2:.0f}" x2="{to_x:.0f}" y2="{to_y - HEIGHT / 2:.0f}" stroke="gray" '
            'stroke-opacity="0.6" marker-end="url(#head)"/>'
        )
    for name, (x, y) in places.items():
        found.append(
            f'<rect x="{x - WIDTH / 2:.0f}" y="{y - HEIGHT / 2:.0f}" width="{WIDTH}" height="{HEIGHT}" rx="6" '
            'fill="var(--pst-color-surface)" stroke="currentColor"/>'
            f'<text x="{x:.0f}" y="{y + 4:.0f}" text-anchor="middle" font-size="13" fill="currentColor">{escape(name)}'
            "</text>"
        )
    return "".join([*found, "</svg>"])


class FlowChart(Directive):
    """A picture of the arrows in its content."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """The picture as HTML."""
        arrows = [tuple(found) for line in self.content if (found := re.findall(r"\w+", line)) and "-->" in line]
        return [nodes.raw("", drawn(arrows), format="html")]


def setup(app: Any) -> dict[str, bool]:
    """Tell Sphinx of the directive."""
    app.add_directive("mermaid", FlowChart)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
