"""Parquet files through pyarrow, which is an optional dependency."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from histogp.exceptions import DataError
from histogp.storage import Array


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
            f"{path}: column {field.name!r} holds {field.type}, not numbers; leave it out with --ignore "
            f"{field.name!r}, or name it as the label with --label."
        )
    return field.type.to_pandas_dtype()


def numbers(path: Path, name: str, column: Any, dtype: Any, rows: tuple[int, int]) -> Array:
    """The values of an Arrow column, of the rows first to last, counted from 0; a view if the type is the same."""
    import pyarrow as pa

    if column.null_count:
        raise DataError(
            f"{path}: column {name!r} has {column.null_count} missing values in the rows {rows[0] + 1} to {rows[1]}; "
            "numbers are needed."
        )
    return column.cast(pa.from_numpy_dtype(dtype), safe=False).to_numpy()


def plain_labels(column: Any) -> Array:
    """Labels of an Arrow column; text comes as objects, and so do missing values, or as NaN."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    return column.to_numpy(zero_copy_only=False)
