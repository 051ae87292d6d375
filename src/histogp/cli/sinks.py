"""Predictions, written to a file by its ending or to standard output."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np

from histogp.errors import DataError
from histogp.io.atomic import replacing
from histogp.sources.parquet import import_parquet
from histogp.sources.source import ending

STDOUT = "-"
# Rows of one row group in a Parquet file.
GROUP_ROWS = 2**17

Cells = Callable[[np.ndarray], Iterable[str]]
Line = Callable[[tuple[str, ...]], str]


class Sink(Protocol):
    """Takes rows."""

    def write(self, columns: Mapping[str, np.ndarray]) -> None:
        """Add rows: one array a column, all of the same length."""


@contextmanager
def open_sink(path: str | os.PathLike[str] | None, columns: Sequence[str]) -> Iterator[Sink]:
    """Rows with these columns as CSV, Parquet or JSON lines; None and "-" are CSV on standard output.

    The file appears when all is written: if anything fails before, an older one stays as it was.
    """
    if path is None or path == STDOUT:
        printed = _csv_sink(sys.stdout.write, columns)
        yield printed
        printed.finish()
        sys.stdout.flush()
        return
    path = Path(path)
    kind = _KINDS[ending(path, _KINDS)]
    with _opened(path) as file, kind(file, columns) as sink:
        yield sink


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    with ExitStack() as stack:
        try:
            file = stack.enter_context(stack.enter_context(replacing(path)).open("wb"))
        except OSError as error:
            reason = f"{path} cannot be written: {error.strerror.lower()}." if error.strerror else str(error)
            raise DataError(reason) from None
        yield file


class _TextSink:
    """Rows as text: cells column by column, which is much faster than row by row, then lines."""

    def __init__(self, write: Callable[[str], Any], columns: Sequence[str], cells: Cells, line: Line, header: str):
        self._write, self._columns, self._cells, self._line, self._header = write, columns, cells, line, header

    def write(self, columns: Mapping[str, np.ndarray]) -> None:
        self.finish()
        cells = [self._cells(np.asarray(columns[name])) for name in self._columns]
        self._write("".join(map(self._line, zip(*cells, strict=True))))

    def finish(self) -> None:
        """Write the header if no row has brought it along: before the first row nothing is known to go well."""
        self._write(self._header)
        self._header = ""


class _ParquetSink:
    """Rows as Parquet, in row groups of a fair size whatever the size of the pieces."""

    def __init__(self, file: BinaryIO, columns: Sequence[str]):
        self._parquet = import_parquet()
        self._file, self._columns = file, columns
        self._writer: Any = None
        self._pending: list[Any] = []

    def __enter__(self) -> _ParquetSink:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            if self._writer is None and not self._pending:
                self.write({name: np.empty(0, object) for name in self._columns})
            self._flush()
        # Also after a failure: the writer would do it later, when the file is closed.
        if self._writer is not None:
            self._writer.close()

    def write(self, columns: Mapping[str, np.ndarray]) -> None:
        import pyarrow as pa

        self._pending.append(pa.table({name: pa.array(columns[name]) for name in self._columns}))
        if sum(table.num_rows for table in self._pending) >= GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        if not self._pending:
            return
        table = pa.concat_tables(self._pending)
        self._pending = []
        if self._writer is None:
            self._writer = self._parquet.ParquetWriter(self._file, table.schema)
        self._writer.write_table(table)


def _csv_sink(write: Callable[[str], Any], columns: Sequence[str]) -> _TextSink:
    header = _csv_line(tuple(map(_csv_text, columns)))
    return _TextSink(write, columns, lambda column: _cells(column, _csv_text), _csv_line, header)


@contextmanager
def _csv_file(file: BinaryIO, columns: Sequence[str]) -> Iterator[Sink]:
    sink = _csv_sink(lambda text: file.write(text.encode()), columns)
    yield sink
    sink.finish()


@contextmanager
def _json_file(file: BinaryIO, columns: Sequence[str]) -> Iterator[Sink]:
    pairs = [f"{_json_text(name)}: ".replace("%", "%%") + "%s" for name in columns]
    line = "{" + ", ".join(pairs) + "}\n"
    yield _TextSink(lambda text: file.write(text.encode()), columns, _json_cells, line.__mod__, "")


def _csv_line(cells: tuple[str, ...]) -> str:
    return ",".join(cells) + "\n"


def _csv_text(value: Any) -> str:
    """Quoted if need be; the empty text is, so that a row of nothing else is no blank line."""
    text = str(value)
    if not text or any(character in text for character in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text


def _json_cells(column: np.ndarray) -> Iterable[str]:
    cells = _cells(column, _json_text)
    if column.dtype.kind == "f" and not np.isfinite(column).all():  # JSON has no word for them
        return [cell if finite else "null" for cell, finite in zip(cells, np.isfinite(column).tolist(), strict=True)]
    return cells


def _json_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _cells(column: np.ndarray, encode: Callable[[Any], str]) -> Iterable[str]:
    """Text of all values; floats in the fewest digits that give the same number again."""
    if column.dtype.kind in "iu":
        return map(str, column.tolist())
    if column.dtype == np.float64:
        return map(repr, column.tolist())
    if column.dtype.kind == "f":
        return map(str, column)
    values = column.tolist()
    encoded = {value: encode(value) for value in set(values)}
    return [encoded[value] for value in values]


_KINDS: dict[str, Callable[[BinaryIO, Sequence[str]], AbstractContextManager[Sink]]] = {
    ".csv": _csv_file,
    ".parquet": _ParquetSink,
    ".jsonl": _json_file,
    ".ndjson": _json_file,
}
