"""The page around the charts: one HTML file that asks nothing of the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

FOOTER = "Made by histogp: exact Gaussian processes for histogram-like data."
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True)
class Section:
    """A part of the page: plain text and an HTML body."""

    title: str
    text: str
    body: str


def render(*, title: str, subtitle: str, sections: Sequence[Section], footer: str = FOOTER) -> str:
    """The complete HTML document."""
    parts = "\n".join(
        f'<section>\n<div class="about"><h2>{escape(part.title)}</h2>{_paragraph(part.text)}</div>\n'
        f'<div class="body">{part.body}</div>\n</section>'
        for part in sections
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(title)}</title>
<style>{CSS}</style>
</head>
<body>
<header><h1>{escape(title)}</h1><p>{escape(subtitle)}</p></header>
<main>
{parts}
</main>
<footer>{escape(footer)}</footer>
</body>
</html>
"""


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>" if text else ""


# The colors of series stay apart, and off the background, for all common kinds of color vision.
CSS = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --panel: #f5f7fa; --ink: #1b2430; --soft: #586374; --rule: #dfe4ea;
  --accent: #1f5fb4; --hit: 31 95 180; --miss: 194 65 12; --wrong: #b4380a;
  --color-1: #1f5fb4; --color-2: #c2410c; --color-3: #12938d;
  --color-4: #4a2454; --color-5: #bd8a19; --color-6: #595959;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --paper: #14181f; --panel: #1c222b; --ink: #e7ebf0; --soft: #a3aebd; --rule: #2e3742;
    --accent: #6aa8f5; --hit: 84 150 235; --miss: 239 108 60; --wrong: #ff936a;
    --color-1: #6aa8f5; --color-2: #ef7d4f; --color-3: #36c29c;
    --color-4: #b06cb6; --color-5: #ecd444; --color-6: #eaeef0;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0 auto; max-width: 76rem; padding: 0 1.25rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
p, h1, h2, dl, ul, figure { margin: 0; padding: 0; }
header { padding: 4rem 0 3rem; }
header::before { content: ""; display: block; width: 3rem; height: 4px; margin-bottom: 1.5rem;
  background: var(--accent); }
h1 { font-size: clamp(1.9rem, 1.3rem + 2.4vw, 3rem); line-height: 1.15; letter-spacing: -0.022em; font-weight: 650;
  text-wrap: balance; overflow-wrap: anywhere; }
header p { margin-top: 0.9rem; max-width: 44rem; font-size: 1.15rem; color: var(--soft); text-wrap: balance; }
section { padding: 2.5rem 0; border-top: 1px solid var(--rule); }
h2 { font-size: 1.2rem; line-height: 1.3; letter-spacing: -0.01em; font-weight: 650; }
.about { margin-bottom: 1.4rem; }
.about p { margin-top: 0.5rem; max-width: 40rem; color: var(--soft); white-space: pre-line; }
.body > * + * { margin-top: 2rem; }
.note { font-size: 0.85rem; color: var(--soft); }
figcaption.note { margin-bottom: 0.75rem; }
footer { padding: 2rem 0 4rem; border-top: 1px solid var(--rule); font-size: 0.85rem; color: var(--soft); }
@media (min-width: 64rem) {
  body { padding: 0 2.5rem; }
  header { padding: 6rem 0 4rem; }
  section { display: grid; grid-template-columns: 14rem minmax(0, 1fr); gap: 3rem; padding: 3.5rem 0; }
}

.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: 0.75rem; }
.figures div { display: flex; flex-direction: column-reverse; justify-content: flex-end; padding: 1.1rem 1.25rem;
  border-radius: 10px; background: var(--panel); }
.figures dd { margin: 0; font-size: 2rem; line-height: 1.2; font-weight: 600; letter-spacing: -0.02em;
  font-variant-numeric: tabular-nums; white-space: nowrap; }
.figures div:first-child dd { color: var(--accent); }
.figures dt { margin-top: 0.25rem; font-size: 0.9rem; line-height: 1.35; color: var(--soft); }

.chart { max-width: 42rem; }
.chart.square { max-width: 30rem; }
.chart figcaption { margin-bottom: 0.6rem; font-weight: 600; }
.chart > svg { display: block; width: 100%; height: auto; overflow: visible; }
.chart text { font-size: 13px; fill: var(--soft); font-variant-numeric: tabular-nums; }
.chart .label { fill: var(--ink); }
.grid { stroke: var(--rule); fill: none; }
.axis { stroke: var(--soft); fill: none; }
.diagonal { stroke: var(--soft); stroke-dasharray: 5 5; fill: none; }
.dots { fill: var(--accent); fill-opacity: 0.45; }
.line { stroke: var(--color); fill: var(--color); }
.line path { fill: none; stroke-width: 2.25; stroke-linejoin: round; stroke-linecap: round;
  vector-effect: non-scaling-stroke; }
.line circle { stroke: var(--paper); stroke-width: 1.5; }
.line.dashed path { stroke-width: 1.75; stroke-dasharray: 2 6; }
.line.dashed circle { fill: var(--paper); stroke: var(--color); r: 3px; }
.line.dense circle { opacity: 0; }
.line circle:hover { opacity: 1; stroke: var(--ink); }
.color-1 { --color: var(--color-1); }
.color-2 { --color: var(--color-2); }
.color-3 { --color: var(--color-3); }
.color-4 { --color: var(--color-4); }
.color-5 { --color: var(--color-5); }
.color-6 { --color: var(--color-6); }
.legend { display: flex; flex-wrap: wrap; gap: 0.25rem 1.4rem; margin-bottom: 0.6rem; list-style: none;
  font-size: 0.9rem; }
.legend li { display: flex; align-items: center; gap: 0.5rem; }
.legend svg { flex: none; }

.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.9rem; line-height: 1.35; font-variant-numeric: tabular-nums; }
.data { width: 100%; }
.data th, .data td { padding: 0.55rem 0.9rem; text-align: left; vertical-align: baseline;
  border-bottom: 1px solid var(--rule); }
.data th { font-weight: 600; color: var(--soft); border-bottom-color: var(--soft); }
.data .number { text-align: right; white-space: nowrap; }
.data :first-child { padding-left: 0; }
.data :last-child { padding-right: 0; }
.confusion th { padding: 0.3rem 0.25rem; font-weight: 500; color: var(--soft); }
.confusion thead th { font-size: 0.8rem; vertical-align: bottom; white-space: nowrap; }
.confusion tbody th { position: sticky; left: 0; max-width: 9rem; padding: 0 0.6rem 0 0; background: var(--paper);
  text-align: right; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.confusion td { min-width: clamp(2.9rem, var(--longest) * 0.5rem, 4.1rem); height: 2.3rem; padding: 0 0.3rem;
  text-align: center; border: 2px solid var(--paper); background: var(--panel); }
.confusion .hit { background: rgb(var(--hit) / calc(var(--share) * 0.5)); font-weight: 600; }
.confusion .miss { background: rgb(var(--miss) / calc(0.05 + var(--share) * 0.65)); }
.confusion .corner, .confusion .recall { min-width: 0; background: none; }
.confusion .recall { padding-left: 0.8rem; }
.upright { font-size: 0.8rem; }
.upright td { min-width: 2.1rem; height: 2.1rem; }
.upright thead span { writing-mode: vertical-rl; transform: rotate(180deg); max-height: 9rem; overflow: hidden;
  text-overflow: ellipsis; }

.gallery { display: flex; flex-wrap: wrap; gap: 1rem 0.75rem; }
.card { position: relative; width: 12rem; padding: 0.75rem; border: 1px solid var(--rule); border-radius: 10px; }
.card img, .card > svg { display: block; width: 100%; height: auto; border-radius: 4px; background: #fff; }
.card > svg { background: none; }
.bars { fill: var(--accent); }
.card figcaption { margin-top: 0.6rem; font-size: 0.85rem; line-height: 1.4; overflow-wrap: anywhere; }
.card strong, .card figcaption span { display: block; font-weight: 600; }
.card figcaption span { font-weight: 400; color: var(--soft); }
.card.wrong { border: 2px solid var(--wrong); padding: calc(0.75rem - 1px); }
.card figcaption .mark { position: absolute; top: -0.7rem; right: 0.6rem; padding: 0 0.4rem; background: var(--paper);
  color: var(--wrong); font-weight: 600; }

@media (max-width: 44rem) { .chart:not(.square) text { font-size: 15px; } }
@media (max-width: 30rem) {
  .chart:not(.square) text { font-size: 20px; }
  .chart > svg .line circle { r: 5px; }
  .chart.square text { font-size: 16px; }
  .card { width: calc(50% - 0.375rem); }
  .figures { grid-template-columns: 1fr 1fr; }
  .figures dd { font-size: 1.6rem; }
}
@media print {
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  header { padding: 0 0 2rem; }
  section { padding: 1.5rem 0; }
  figure, tr, .figures { break-inside: avoid; }
  .about { break-after: avoid; }
  .scroll { overflow: visible; }
  table { font-size: 0.75rem; }
  .confusion td { min-width: 1.6rem; height: 1.8rem; }
}
"""
