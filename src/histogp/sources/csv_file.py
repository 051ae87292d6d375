"""Rows of CSV files, plain or gzipped, with a header or without."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from histogp.errors import DataError
from histogp.sources.source import Chunk, Source, first_failing, text_lines
from histogp.sources.wanted import Wanted

# A quoted cell over more lines than that is a quote that was never closed.
LONGEST_RECORD = 1000


class CsvSource(Source):
    """A CSV file: commas, double quotes, UTF-8; there is no header if the first line is all numbers."""

    def __init__(self, path: Path, wanted: Wanted):
        """Read the first two lines, and choose columns."""
        super().__init__(path)
        with closing(text_lines(path)) as lines:
            start = [cells(record.text) for record in islice(_records(path, lines), 2)]
        if not start:
            raise DataError(f"{path} is empty.")
        first = [cell.strip() for cell in start[0]]
        self._has_header = _is_header(first, start[1] if len(start) > 1 else [], wanted)
        names = first if self._has_header else None
        self._features, self._label = wanted.choose(path, names, len(first))
        self._names = names if names is not None else [str(k) for k in range(len(first))]
        self.n_features = len(self._features)
        wanted.check_width(path, self.n_features)
        if names is not None:
            self.feature_names = [names[k] for k in self._features]

    def chunks(self, n_rows: int) -> Iterator[Chunk]:
        with closing(text_lines(self.path)) as lines:
            records = _records(self.path, lines)
            if self._has_header:
                next(records)
            while block := list(islice(records, n_rows)):
                yield self._parse(block)

    def _parse(self, block: list[_Record]) -> Chunk:
        self._refuse_ragged(block)
        texts = [record.text for record in block]
        try:
            X = _numbers(texts, self._features)
        except ValueError:
            raise self._not_a_number(block) from None
        labels = None if self._label is None else _parsed(texts, usecols=[self._label], dtype=str, ndmin=1)
        return Chunk(X, labels)

    def _refuse_ragged(self, block: list[_Record]) -> None:
        """Rows of another length: the parser would not see cells too many."""
        n_columns = len(self._names)
        for line, text in block:
            if text.count(",") == n_columns - 1 and '"' not in text:
                continue
            found = len(cells(text))
            if found != n_columns:
                missing = f", and column {self._names[found]!r} is missing" if found < n_columns else ""
                raise DataError(f"{self.path}, line {line}: {found} cells in place of {n_columns}{missing}.")

    def _not_a_number(self, block: list[_Record]) -> DataError:
        record = first_failing(block, lambda record: _numbers([record.text], self._features))
        column = first_failing(self._features, lambda column: _numbers([record.text], [column]))
        cell = cells(record.text)[column]
        found = f"{cell!r} is not a number" if cell.strip() else "a number is missing"
        return DataError(
            f"{self.path}, line {record.line}, column {self._names[column]!r}: {found}; all columns but the label "
            "(--label) and those left out (--ignore) must hold numbers."
        )


def cells(record: str) -> list[str]:
    """The cells of one record."""
    try:
        return next(csv.reader([record]), [])
    except csv.Error:  # a cell longer than the module allows
        return record.split(",")


class _Record(NamedTuple):
    line: int
    text: str


def _records(path: Path, lines: Iterable[str]) -> Iterator[_Record]:
    """Records with the line they begin on: mostly lines, but a quoted cell may hold line breaks."""
    blank = None
    numbered = enumerate(lines, 1)
    for start, text in numbered:
        if not text.strip():
            blank = blank or start
            continue
        if blank:
            raise DataError(f"{path}, line {blank}: the line is blank, but more rows follow.")
        if _is_open(text):
            text += _rest(path, start, numbered)
        yield _Record(start, text)


def _is_open(text: str) -> bool:
    """Whether a quoted cell goes on in the next line; a quote within a plain cell is just a character."""
    return text.count('"') % 2 == 1 and (text.startswith('"') or ',"' in text)


def _rest(path: Path, start: int, numbered: Iterator[tuple[int, str]]) -> str:
    parts = []
    for _, text in islice(numbered, LONGEST_RECORD):
        parts.append(text)
        if text.count('"') % 2 == 1:
            return "".join(parts)
    raise DataError(f"{path}, line {start}: a quote is opened, but not closed.")


def _is_header(first: list[str], second: list[str], wanted: Wanted) -> bool:
    """Whether the first line names the columns: some cell is no number, other than those found by position."""
    words = {k for k, cell in enumerate(first) if not _is_number(cell)}
    names = filter(None, [wanted.label, *wanted.ignore])
    by_position = {int(name) % len(first) for name in names if name.lstrip("-").isdecimal() and name not in first}
    # Words may stand in such columns in the first line of data; above a number a word is a name.
    above_numbers = {k for k in words if k < len(second) and _is_number(second[k])}
    return bool(words - by_position or above_numbers)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


_parsed: Any = partial(np.loadtxt, delimiter=",", quotechar='"', comments=None)


def _numbers(texts: list[str], columns: list[int]) -> np.ndarray:
    return _parsed(texts, usecols=columns, ndmin=2)
