"""Rows of Parquet files that hold all features in one column."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from histogp.exceptions import DataError
from histogp.sources.base import Chunk, Source, float_type
from histogp.sources.parquet_file import batches, number_type, numbers, plain_labels
from histogp.sources.wanted import Wanted
from histogp.storage import Array


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

    def _matrix(self, lists: Any, first: int) -> Array:
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
