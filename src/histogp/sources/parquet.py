"""Parquet and Arrow files."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from histogp.errors import DataError
from histogp.sources.source import Chunk, Source, float_type
from histogp.sources.wanted import Wanted

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
Rows = Callable[[int, int], list[np.ndarray]]


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

    def _numbers(self, table: Any, name: str, first: int) -> np.ndarray:
        return numbers(self.path, name, table.column(name), self._dtype, (first, first + table.num_rows))

    def _stacked(self, rows: Rows, start: int, stop: int) -> np.ndarray:
        X = np.empty((stop - start, len(self._features)), self._dtype)
        for first in range(start, stop, STACKED_ROWS):
            last = min(first + STACKED_ROWS, stop)
            np.stack(rows(first, last), axis=1, out=X[first - start : last - start])
        return X


class _Scratch:
    """Columns (D, N) in a temporary file: written one after the other, read side by side."""

    def __init__(self, file: Any, n_columns: int, n_rows: int, dtype: Any):
        self._file, self._shape, self._dtype = file, (n_columns, n_rows), dtype

    def put(self, column: int, row: int, values: np.ndarray) -> None:
        try:
            self._seek(column, row)
            self._file.write(values.data)
        except OSError as error:
            n_bytes = self._shape[0] * self._shape[1] * self._dtype.itemsize
            raise DataError(
                f"{tempfile.gettempdir()} cannot take the {n_bytes / 1e9:.1f} GB of a row group ({error.strerror}); "
                "set TMPDIR to another folder, or write the file with smaller row groups."
            ) from None

    def rows(self, start: int, stop: int) -> list[np.ndarray]:
        block = np.empty((self._shape[0], stop - start), self._dtype)
        for column, values in enumerate(block):
            self._seek(column, start)
            self._file.readinto(values.data)
        return list(block)

    def _seek(self, column: int, row: int) -> None:
        self._file.seek((column * self._shape[1] + row) * self._dtype.itemsize)


def import_parquet() -> Any:
    """The module pyarrow.parquet."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise DataError("Parquet files need pyarrow: pip install 'histogp[parquet]'.") from None
    return pyarrow.parquet


def open_parquet(path: Path) -> Any:
    """The file, without reading ahead: whole column chunks would be buffered otherwise."""
    parquet = import_parquet()
    with decoding(path):
        return parquet.ParquetFile(path, pre_buffer=False, buffer_size=65_536)


@contextmanager
def decoding(path: Path) -> Iterator[None]:
    """What pyarrow says of a broken file, as a DataError."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise DataError(f"{path} cannot be read as Parquet: {reason}.") from None


def batches(path: Path, file: Any, n_rows: int, **options: Any) -> Iterator[Any]:
    """Record batches of at most ``n_rows`` rows."""
    with decoding(path):
        found = file.iter_batches(n_rows, **options)
    while True:
        with decoding(path):
            batch = next(found, None)
        if batch is None:
            return
        yield batch


def number_type(path: Path, field: Any) -> Any:
    """The NumPy type of a column of numbers."""
    from pyarrow import types

    if types.is_decimal(field.type):
        return np.float64
    if not (types.is_floating(field.type) or types.is_integer(field.type) or types.is_boolean(field.type)):
        raise DataError(
            f"{path}: column {field.name!r} holds {field.type}, not numbers; leave it out (--ignore {field.name!r}, "
            f"or ignore=[{field.name!r}]) or name it as the label (--label, or label=)."
        )
    return field.type.to_pandas_dtype()


def numbers(path: Path, name: str, column: Any, dtype: Any, rows: tuple[int, int]) -> np.ndarray:
    """The values of an Arrow column, of the rows first to last, counted from 0; a view if the type is the same."""
    import pyarrow as pa

    if column.null_count:
        raise DataError(
            f"{path}: column {name!r} has {column.null_count} missing values in the rows {rows[0] + 1} to {rows[1]}; "
            "numbers are needed."
        )
    return column.cast(pa.from_numpy_dtype(dtype), safe=False).to_numpy()


def plain_labels(column: Any) -> np.ndarray:
    """Labels of an Arrow column; text comes as objects, and so do missing values, or as NaN."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    return column.to_numpy(zero_copy_only=False)


class ParquetListSource(Source):
    """A Parquet file with one column of lists of numbers, all of the same length."""

    def __init__(self, path: Path, wanted: Wanted, file: Any, name: str, label: str | None):
        super().__init__(path)
        self._file, self._name, self._label = file, name, label
        self.n_rows = file.metadata.num_rows
        field = file.schema_arrow.field(name)
        self._dtype = np.dtype(float_type([number_type(path, field.with_type(field.type.value_type))]))
        if self.n_rows:
            first = next(batches(path, file, 1, columns=[name]))
            self.n_features = len(first.column(0).flatten())
            wanted.check_width(path, self.n_features)

    def chunks(self, n_rows: int) -> Iterator[Chunk]:
        columns = [self._name] if self._label is None else [self._name, self._label]
        row = 0
        for batch in batches(self.path, self._file, n_rows, columns=columns):
            X = self._matrix(batch.column(self._name), row)
            yield Chunk(X, None if self._label is None else plain_labels(batch.column(self._label)))
            row += batch.num_rows

    def _matrix(self, lists: Any, first: int) -> np.ndarray:
        """Lists as the rows of a matrix; ``first`` is the number of the first row, for errors."""
        import pyarrow.compute as pc

        lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
        wrong = np.flatnonzero(lengths != self.n_features)
        if len(wrong):
            raise DataError(
                f"{self.path}, row {first + wrong[0] + 1}: column {self._name!r} must hold lists of "
                f"{self.n_features} numbers, as in the first row."
            )
        values = numbers(self.path, self._name, lists.flatten(), self._dtype, (first, first + len(lists)))
        return np.array(values).reshape(len(lists), -1)


def is_list(kind: Any) -> bool:
    """Whether an Arrow type is a list of some kind."""
    from pyarrow import types

    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
