"""Rows and labels in pieces of bounded size, from whatever holds them."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from histogp.sources.errors import DataError
from histogp.sources.open import open_source

CHUNK_BYTES = 2**26


def read_chunks(
    data: Any,
    *,
    label: str | None = None,
    ignore: Sequence[str] = (),
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[tuple[Any, Any]]:
    """Rows and labels in pieces, for `partial_fit`.

    Parameters
    ----------
    data : one of
        - a path, a pattern such as ``"data/*.parquet"``, or a list of them: csv, csv.gz, parquet, npz, npy, svm,
          svmlight or libsvm files, one after the other in the order of their names;
        - a matrix X, dense, ``np.memmap`` or scipy.sparse, or a pair (X, y);
        - a table, record batch, dataset or reader of Arrow;
        - an iterable of pairs (X, y), which are passed on, cut where they are too large.
    label : str or None, default=None
        The column with the labels, of files and of Arrow's tables.
    ignore : list of str, default=()
        Columns to leave out.
    chunk_bytes : int, default=2**26
        The size of a piece in double precision, dense, at most.

    Yields
    ------
    X : ndarray or CSR of shape (n, n_features)
    y : ndarray of shape (n,), or None if there are no labels

    Examples
    --------
    >>> import numpy as np
    >>> from histogp.streaming import read_chunks
    >>> [len(y) for X, y in read_chunks((np.ones((10, 4)), np.arange(10)), chunk_bytes=128)]
    [4, 4, 2]
    """
    if isinstance(data, str | os.PathLike) or (
        isinstance(data, list) and data and all(isinstance(one, str | os.PathLike) for one in data)
    ):
        for path in matching(data):
            source = open_source(path, label=label, ignore=ignore)
            yield from _cut(
                ((chunk.X, chunk.labels) for chunk in source.chunks(_rows(source, chunk_bytes))), chunk_bytes
            )
    elif hasattr(data, "schema") or hasattr(data, "to_batches"):
        yield from _cut(_arrow(data, label, ignore), chunk_bytes)
    elif sparse.issparse(data) or isinstance(data, np.ndarray):
        yield from _cut([(data, None)], chunk_bytes)
    elif isinstance(data, tuple) and len(data) == 2 and not isinstance(data[0], tuple):
        yield from _cut([data], chunk_bytes)
    else:
        yield from _cut(data, chunk_bytes)


def matching(patterns: Any) -> list[Path]:
    """The files that paths and patterns name, each in the order of their names."""
    found: list[Path] = []
    for pattern in patterns if isinstance(patterns, list) else [patterns]:
        name = os.fspath(pattern)
        paths = [name] if os.path.exists(name) else sorted(glob.glob(name, recursive=True))
        if not paths:
            raise DataError(f"There is no file {name!r}.")
        found += map(Path, paths)
    return found


def _rows(source: Any, chunk_bytes: int) -> int:
    """How many to ask for; a file whose width is not known yet is cut later."""
    return max(1, chunk_bytes // (8 * (source.n_features or 1024)))


def _cut(pairs: Iterable[Any], chunk_bytes: int) -> Iterator[tuple[Any, Any]]:
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(pair) == 2):
            raise ValueError(f"Chunks are pairs of rows and labels (X, y); got {type(pair).__name__}.")
        X, y = pair
        X = X.tocsr() if sparse.issparse(X) else X
        if not hasattr(X, "shape"):
            X = np.asarray(X)
        n_rows = X.shape[0]
        step = max(1, chunk_bytes // (8 * max(1, X.shape[1])))
        if n_rows <= step:
            yield X, y
            continue
        for begin in range(0, n_rows, step):
            some = slice(begin, begin + step)
            part = X.iloc[some] if hasattr(X, "iloc") else X[some]
            yield part, None if y is None else y.iloc[some] if hasattr(y, "iloc") else y[some]


def _arrow(data: Any, label: str | None, ignore: Sequence[str]) -> Iterator[tuple[Any, Any]]:
    """The record batches of a table, batch, dataset or reader."""
    batches = data.to_batches() if hasattr(data, "to_batches") else [data] if hasattr(data, "num_columns") else data
    for batch in batches:
        names = [name for name in batch.schema.names if name != label and name not in ignore]
        if label is not None and label not in batch.schema.names:
            raise DataError(f"There is no column {label!r} in the Arrow data.")
        columns = [batch.column(batch.schema.names.index(name)) for name in names]
        X = np.column_stack([column.to_numpy(zero_copy_only=False) for column in columns])
        y = None
        if label is not None:
            y = batch.column(batch.schema.names.index(label)).to_numpy(zero_copy_only=False)
        yield X, y
