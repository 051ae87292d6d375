"""What stored results say: values against bars on the console, tables in the README."""

from __future__ import annotations

import math
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.registry import Case
from benchmarks.results import Result
from benchmarks.tables import PROVENANCE, TABLES, Table

BLOCK = re.compile(r"<!-- benchmark: (\w+) -->\n(.*?)<!-- end -->", re.DOTALL)
NAMES = {"python": "Python", "numpy": "NumPy", "scipy": "SciPy", "scikit-learn": "scikit-learn", "numba": "Numba"}
Results = Mapping[str, Result]


@dataclass
class Updated:
    """A text with tables that follow the results, and rows that are left out of it because a case was not run."""

    text: str
    unmeasured: list[str] = field(default_factory=list)


def updated(text: str, results: Results, tables: Mapping[str, Table] = TABLES) -> Updated:
    """Fill the blocks between ``<!-- benchmark: NAME -->`` and ``<!-- end -->`` from results.

    A row is left out as long as one of its cases has no result; nothing that was typed stays.
    """
    found = Updated("")
    names = [block[1] for block in BLOCK.finditer(text)]
    for name in {*names} ^ {*tables, PROVENANCE}:
        known = ", ".join([*tables, PROVENANCE])
        raise ValueError(f"Blocks of the text must be {known}, each once; {name!r} is missing or unknown.")

    def block(match: re.Match[str]) -> str:
        if match[1] == PROVENANCE:
            lines = [provenance(results, tables)]
        else:
            lines = _lines(match[1], tables[match[1]], results, found.unmeasured)
        return "\n".join([f"<!-- benchmark: {match[1]} -->", "", *lines, "", "<!-- end -->"])

    found.text = BLOCK.sub(block, text)
    return found


def _lines(name: str, table: Table, results: Results, unmeasured: list[str]) -> list[str]:
    """The lines of a table; a sentence if it has no rows."""
    lines = []
    for row in table.rows:
        if missing := sorted(cases_of(row) - results.keys()):
            unmeasured.append(f"{name}: {' '.join(_label(row))} ({', '.join(missing)})")
        else:
            lines.append(_line([_filled(cell, results) for cell in row]))
    if not lines:
        return [f"(Not measured yet: `python -m benchmarks list` has the cases of the table {name!r}.)"]
    return [_line(table.header), _line(["---"] * len(table.header)), *lines]


def cases_of(row: Sequence[str]) -> set[str]:
    """Names of the cases in the fields of a row."""
    return {case for cell in row for case, _ in fields_of(cell)}


def fields_of(cell: str) -> Iterator[tuple[str, str]]:
    """Case and value of each field of a template."""
    for _, name, _, _ in string.Formatter().parse(cell):
        if name is not None:
            found = re.fullmatch(r"(\w+)\[(.+)\]", name)
            if found is None:
                raise ValueError(f"A field is {{case[value]:format}}; got {{{name}}}.")
            yield found[1], found[2]


def _label(row: Sequence[str]) -> list[str]:
    return [cell for cell in row if cell and not cases_of([cell])]


class _Formatter(string.Formatter):
    def format_field(self, value: Any, spec: str) -> str:
        if spec == "time":
            return duration(value)
        if spec == "us":
            return duration(1e-6 * value)
        return super().format_field(value, spec)


def _filled(cell: str, results: Results) -> str:
    for case, value in fields_of(cell):
        if value not in results[case].values:
            raise ValueError(f"The stored result of {case} has no value {value!r}; run the case again.")
    return _Formatter().format(cell, **{name: one.values for name, one in results.items()})


def duration(seconds: float) -> str:
    """A time with two significant digits, or all digits before the point, in seconds, ms or us."""
    unit, factor = ("s", 1) if abs(seconds) >= 0.1 else ("ms", 1e3) if abs(seconds) >= 1e-3 else ("us", 1e6)
    value = seconds * factor
    decimals = 0 if value == 0 else max(0, 1 - math.floor(math.log10(abs(float(f"{value:.2g}")))))
    return f"{value:.{decimals}f} {unit}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def provenance(results: Results, tables: Mapping[str, Table] = TABLES) -> str:
    """A sentence on when, at which commits and on which machines the results of tables were measured."""
    rows = [cases for table in tables.values() for row in table.rows if (cases := cases_of(row))]
    measured = set().union(*(cases for cases in rows if cases <= results.keys()))
    if not measured:
        return "Nothing is measured yet."
    used = sorted((results[name] for name in measured), key=lambda one: (one.date, one.case))
    first, last = used[0].date, used[-1].date
    commits = dict.fromkeys(f"`{(one.commit or 'unknown')[:7]}`{' (modified)' * one.modified}" for one in used)
    machines = dict.fromkeys(
        f"{one.machine['processor']}, {one.machine['cores']} cores, {one.machine['memory_gb']} GB" for one in used
    )
    versions = dict.fromkeys(
        ", ".join(f"{title} {one.versions[name]}" for name, title in NAMES.items() if name in one.versions)
        for one in used
    )
    return (
        f"Measured {f'on {first}' if first == last else f'from {first} to {last}'} at {', '.join(commits)}, on "
        f"{' and '.join(machines)}, with {'; '.join(versions)}."
    )


def bars(cases: Mapping[str, Case], results: Results) -> list[tuple[str, ...]]:
    """Lines of a table of all values that have a bar: case, value, measured, bar, verdict, date, commit."""
    lines: list[tuple[str, ...]] = [("case", "value", "measured", "bar", "", "date", "commit")]
    for name, case in cases.items():
        if name in results:
            one = results[name]
            origin = one.date, f"{(one.commit or 'unknown')[:7]}{'+' * one.modified}"
            for value, bar in case.bars.items():
                measured = one.values[value]
                verdict = "met" if bar.is_met(measured) else "MISSED"
                lines.append((name, value, f"{measured:.4g}", str(bar), verdict, *origin))
    return lines


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Lines of cells as a text with columns."""
    widths = [max(len(cells[k]) for cells in lines) for k in range(len(lines[0]))]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip() for cells in lines
    )
