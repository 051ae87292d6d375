"""Rows of Parquet files."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from histogp.exceptions import DataError
from histogp.sources.base import Chunk, Source, float_type
from histogp.sources.parquet_file import batches, decoding, number_type, numbers, open_parquet, plain_labels
from histogp.sources.parquet_lists import ParquetListSource, is_list
from histogp.sources.wanted import Wanted
from histogp.storage import Array

# Row groups that are no larger than that when decoded are decoded as a whole.
SMALL_BYTES = 64 * 2**20
# The decoder of a column holds up to two pages, of 1 MiB each as a rule: so few columns are decoded side by side.
COLUMNS_AT_ONCE = 16
ROWS_AT_ONCE = 65_536
# Rows assembled from columns at a time, so that they stay in the cache meanwhile.
STACKED_ROWS = 8192
# pandas writes its index under such names; it is no feature.
PANDAS_INDEX = "__index_level_"

# Gives the rows from the first number to before the last, column by column.
Rows = Callable[[int, int], list[Array]]


def parquet_source(path: Path, wanted: Wanted) -> Source:
    """A Parquet file: one column a feature, or one column with the features as a list."""
    file = open_parquet(path)
    schema = file.schema_arrow
    index = [name for name in schema.names if name.startswith(PANDAS_INDEX) and name != wanted.label]
    wanted = Wanted(wanted.label, [*wanted.ignore, *index], wanted.features, wanted.n_features)
    features, position = wanted.choose(path, schema.names, len(schema.names))
    names = [schema.names[k] for k in features]
    label = None if position is None else schema.names[position]
    if len(names) == 1 and is_list(schema.field(names[0]).type):
        return ParquetListSource(path, wanted, file, names[0], label)
    return ParquetSource(path, wanted, file, names, label)


class ParquetSource(Source):
    """A Parquet file with one column a feature."""

    def __init__(self, path: Path, wanted: Wanted, file: Any, features: list[str], label: str | None):
        super().__init__(path)
        self._file, self._features, self._label = file, features, label
        self.feature_names = features
        self.n_features = len(features)
        self.n_rows = file.metadata.num_rows
        wanted.check_width(path, self.n_features)
        self._dtype = np.dtype(float_type({number_type(path, file.schema_arrow.field(name)) for name in features}))

    def chunks(self, n_rows: int) -> Iterator[Chunk]:
        for groups, first, last in self._runs():
            labels = self._read_labels(groups)
            with self._decoded(groups, first, last) as rows:
                for start in range(0, last - first, n_rows):
                    stop = min(start + n_rows, last - first)
                    X = self._stacked(rows, start, stop)
                    yield Chunk(X, None if labels is None else plain_labels(labels[start:stop]))

    def _runs(self) -> Iterator[tuple[list[int], int, int]]:
        """Row groups to decode together, and the rows they hold: some small ones, or a single large one."""
        groups: list[int] = []
        first = last = 0
        for group in range(self._file.num_row_groups):
            n_rows = self._file.metadata.row_group(group).num_rows
            if groups and not self._is_small(last + n_rows - first):
                yield groups, first, last
                groups, first = [], last
            groups.append(group)
            last += n_rows
        if groups:
            yield groups, first, last

    def _is_small(self, n_rows: int) -> bool:
        return n_rows * len(self._features) * self._dtype.itemsize <= SMALL_BYTES

    def _read_labels(self, groups: list[int]) -> Any:
        if self._label is None:
            return None
        with decoding(self.path):
            return self._file.read_row_groups(groups, columns=[self._label]).column(self._label)

    @contextmanager
    def _decoded(self, groups: list[int], first: int, last: int) -> Iterator[Rows]:
        """The rows of some row groups: in memory, or in a temporary file if they are many.

        Streaming all columns side by side would take no file, but two pages of memory a column.
        """
        if self._is_small(last - first):
            with decoding(self.path):
                table = self._file.read_row_groups(groups, columns=self._features)
            columns = [self._numbers(table, name, first) for name in self._features]
            yield lambda start, stop: [column[start:stop] for column in columns]
            return
        with tempfile.TemporaryFile() as file:
            scratch = _Scratch(file, len(self._features), last - first, self._dtype)
            for column in range(0, len(self._features), COLUMNS_AT_ONCE):
                names = self._features[column : column + COLUMNS_AT_ONCE]
                row = 0
                for batch in batches(self.path, self._file, ROWS_AT_ONCE, row_groups=groups, columns=names):
                    for k, name in enumerate(names, column):
                        scratch.put(k, row, self._numbers(batch, name, first + row))
                    row += batch.num_rows
            yield scratch.rows

    def _numbers(self, table: Any, name: str, first: int) -> Array:
        return numbers(self.path, name, table.column(name), self._dtype, (first, first + table.num_rows))

    def _stacked(self, rows: Rows, start: int, stop: int) -> Array:
        X = np.empty((stop - start, len(self._features)), self._dtype)
        for first in range(start, stop, STACKED_ROWS):
            last = min(first + STACKED_ROWS, stop)
            np.stack(rows(first, last), axis=1, out=X[first - start : last - start])
        return X


class _Scratch:
    """Columns (D, N) in a temporary file: written one after the other, read side by side."""

    def __init__(self, file: Any, n_columns: int, n_rows: int, dtype: Any):
        self._file, self._shape, self._dtype = file, (n_columns, n_rows), dtype

    def put(self, column: int, row: int, values: Array) -> None:
        try:
            self._seek(column, row)
            self._file.write(values.data)
        except OSError as error:
            n_bytes = self._shape[0] * self._shape[1] * self._dtype.itemsize
            raise DataError(
                f"{tempfile.gettempdir()} cannot take the {n_bytes / 1e9:.1f} GB of a row group ({error.strerror}); "
                "set TMPDIR to another folder, or write the file with smaller row groups."
            ) from None

    def rows(self, start: int, stop: int) -> list[Array]:
        block = np.empty((self._shape[0], stop - start), self._dtype)
        for column, values in enumerate(block):
            self._seek(column, start)
            self._file.readinto(values.data)
        return list(block)

    def _seek(self, column: int, row: int) -> None:
        self._file.seek((column * self._shape[1] + row) * self._dtype.itemsize)
