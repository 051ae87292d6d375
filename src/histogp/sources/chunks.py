"""Samples and labels in chunks of bounded size, from whatever holds them."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from histogp.errors import DataError
from histogp.sources.parquet import number_type, numbers, plain_labels
from histogp.sources.source import READ_ROWS, Source, float_type, open_source

# In double precision and dense. With features that are three times as large, as those of chi2, a chunk takes 256 MB.
CHUNK_BYTES = 2**26


def read_chunks(
    data: Any,
    *,
    label: str | None = None,
    ignore: Sequence[str] = (),
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[tuple[Any, Any]]:
    """Read samples and labels in chunks, for `partial_fit`.

    Parameters
    ----------
    data : one of
        - a path, a pattern such as ``"data/*.parquet"``, or a list of them: csv, csv.gz, parquet, npz, npy, svm,
          svmlight or libsvm files, one after the other in the order of their names, with the columns of the first;
        - a matrix X, dense, ``np.memmap``, scipy.sparse or a data frame, or a pair (X, y);
        - a table, record batch, dataset, scanner, reader or Parquet file of Arrow;
        - an iterable of paths, record batches, or pairs (X, y), which are passed on, cut where they are too large.
    label : str or None, default=None
        The column with the labels, of files, data frames and Arrow's tables.
    ignore : list of str, default=()
        Columns of these to leave out.
    chunk_bytes : int, default=2**26
        The size of a chunk in double precision, dense, at most.

    Returns
    -------
    chunks : iterator of (X, y)
        X has the shape (n, n_features): an ndarray, CSR, or rows of the data frame that was given. y has the labels of
        these rows, (n,); it is None if there are no labels.

    Examples
    --------
    >>> import numpy as np
    >>> from histogp.streaming import read_chunks
    >>> [len(y) for X, y in read_chunks((np.ones((10, 4)), np.arange(10)), chunk_bytes=128)]
    [4, 4, 2]
    """
    if not (isinstance(chunk_bytes, Integral) and chunk_bytes >= 1):
        raise ValueError(f"chunk_bytes must be a whole number above 0; got {chunk_bytes!r}.")
    if isinstance(ignore, str):
        raise ValueError(f"ignore must be a list of columns; got the text {ignore!r}.")
    return _chunks(data, label, ignore, int(chunk_bytes))


def _chunks(data: Any, label: str | None, ignore: Sequence[str], chunk_bytes: int) -> Iterator[tuple[Any, Any]]:
    """What `read_chunks` yields, by what ``data`` are; an iterator is asked for its first item."""
    if isinstance(data, Iterator):
        first = next(data, None)
        if isinstance(first, str | os.PathLike):
            data = [first, *data]
        elif first is not None and _is_arrow(first):
            for batch in chain([first], data):
                yield from _arrow(batch, label, ignore, chunk_bytes)
            return
        else:
            data = chain([] if first is None else [first], data)
    has_columns = hasattr(data, "columns") and hasattr(data, "shape")
    if isinstance(data, str | os.PathLike) or (
        isinstance(data, list | tuple) and data and all(isinstance(one, str | os.PathLike) for one in data)
    ):
        for source in Files.matching(data, label, ignore):
            for chunk in source.chunks(_n_samples(source.n_features, chunk_bytes)):
                yield chunk.X, chunk.labels
    elif _is_arrow(data):
        yield from _arrow(data, label, ignore, chunk_bytes)
    elif isinstance(data, list) and data and all(map(_is_arrow, data)):
        for batch in data:
            yield from _arrow(batch, label, ignore, chunk_bytes)
    elif has_columns and (label is not None or ignore):
        yield from _cut_pairs([_without_label(data, label, ignore)], chunk_bytes)
    elif label is not None or ignore:
        raise ValueError(
            f"label and ignore name columns, which a {type(data).__name__} does not have; leave them out, or give a "
            "file, a data frame or a table of Arrow."
        )
    elif hasattr(data, "shape"):
        yield from _cut_pairs([(data, None)], chunk_bytes)
    elif isinstance(data, tuple) and len(data) == 2 and not isinstance(data[0], tuple):
        yield from _cut_pairs([data], chunk_bytes)
    elif isinstance(data, Iterable):
        yield from _cut_pairs(data, chunk_bytes)
    else:
        raise ValueError(f"Files, matrices, tables or pairs (X, y) are needed; got {type(data).__name__}.")


def _is_arrow(data: Any) -> bool:
    return type(data).__module__.partition(".")[0] == "pyarrow"


def _without_label(frame: Any, label: str | None, ignore: Sequence[str]) -> tuple[Any, Any]:
    """The features of a data frame, and its column of labels."""
    unknown = [name for name in [*([] if label is None else [label]), *ignore] if name not in frame.columns]
    if unknown:
        raise DataError(f"The data frame has no column {unknown[0]!r}.")
    names = [name for name in frame.columns if name != label and name not in ignore]
    return frame[names], None if label is None else frame[label]


def matching(patterns: Any) -> list[Path]:
    """The files that paths and patterns name, each in the order of their names."""
    found: list[Path] = []
    for pattern in patterns if isinstance(patterns, list | tuple) else [patterns]:
        name = os.fspath(pattern)
        paths = [name] if os.path.exists(name) else sorted(glob.glob(name, recursive=True))
        if not paths:
            raise DataError(f"There is no file {name!r}.")
        found += map(Path, paths)
    return found


@dataclass(frozen=True)
class Files:
    """Files with the same columns, those of the first. Each is opened in its turn, as some are in memory then."""

    paths: list[Path]
    label: str | None
    ignore: Sequence[str]
    feature_names: list[str] | None
    n_features: int | None

    @classmethod
    def matching(cls, patterns: Any, label: str | None, ignore: Sequence[str]) -> Files:
        """The files that paths and patterns name."""
        paths = matching(patterns)
        first = open_source(paths[0], label=label, ignore=ignore)
        found = cls(paths, label, ignore, first.feature_names, first.n_features)
        if first.n_features is not None:
            return found
        # Of svmlight files only their largest index tells.
        widths = (chunk.X.shape[1] for source in found for chunk in source.chunks(READ_ROWS))
        return cls(paths, label, ignore, first.feature_names, max(widths, default=None))

    def __iter__(self) -> Iterator[Source]:
        for path in self.paths:
            yield open_source(
                path, label=self.label, ignore=self.ignore, features=self.feature_names, n_features=self.n_features
            )


def _n_samples(n_features: int | None, chunk_bytes: int) -> int:
    """The samples of a chunk."""
    return max(1, chunk_bytes // (8 * max(1, n_features or 1)))


def _cut_pairs(pairs: Iterable[Any], chunk_bytes: int) -> Iterator[tuple[Any, Any]]:
    """Pairs of samples and labels, those that are too large in chunks."""
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(pair) == 2):
            raise ValueError(f"Chunks are pairs of samples and labels (X, y); got {type(pair).__name__}.")
        X, y = pair
        X = X.tocsr() if sparse.issparse(X) else X
        if not hasattr(X, "shape"):
            X = np.asarray(X)
        if len(X.shape) != 2:
            raise ValueError(f"X must be a matrix with one row a sample; its shape is {X.shape}.")
        n_samples, step = X.shape[0], _n_samples(X.shape[1], chunk_bytes)
        if y is not None and len(y) != n_samples:
            raise ValueError(f"X has {n_samples} rows, but there are {len(y)} labels.")
        if n_samples <= step:
            yield X, y
            continue
        for begin in range(0, n_samples, step):
            some = slice(begin, begin + step)
            part = X.iloc[some] if hasattr(X, "iloc") else X[some]
            yield part, None if y is None else y.iloc[some] if hasattr(y, "iloc") else y[some]


def _arrow(data: Any, label: str | None, ignore: Sequence[str], chunk_bytes: int) -> Iterator[tuple[Any, Any]]:
    """The samples and labels of a table, record batch, dataset or reader in chunks."""
    where = Path("The Arrow data")
    schema = data.schema_arrow if hasattr(data, "schema_arrow") else _first(data, "schema", "dataset_schema")
    for name in [*([] if label is None else [label]), *ignore]:
        if name not in schema.names:
            raise DataError(f"{where} have no column {name!r}.")
    fields = [field for field in schema if field.name != label and field.name not in ignore]
    if not fields:
        raise DataError(f"{where} have no feature column.")
    dtype = np.dtype(float_type({number_type(where, field) for field in fields}))
    step, row = _n_samples(len(fields), chunk_bytes), 0
    for batch in _batches(data, step):
        for begin in range(0, batch.num_rows, step):
            part = batch.slice(begin, step)
            rows = row + begin, row + begin + part.num_rows
            X = np.stack([numbers(where, field.name, part.column(field.name), dtype, rows) for field in fields], axis=1)
            yield X, None if label is None else plain_labels(part.column(label))
        row += batch.num_rows


def _batches(data: Any, n_rows: int) -> Any:
    """Record batches of anything of Arrow, of so many rows where it can cut them."""
    if hasattr(data, "scanner"):
        return data.to_batches(batch_size=n_rows)
    if hasattr(data, "iter_batches"):
        return data.iter_batches(batch_size=n_rows)
    return data.to_batches() if hasattr(data, "to_batches") else [data] if hasattr(data, "num_columns") else data


def _first(data: Any, *names: str) -> Any:
    """The first of these attributes that there is."""
    found = next((getattr(data, name) for name in names if hasattr(data, name)), None)
    if found is None:
        raise ValueError(f"Rows cannot be read from a {type(data).__name__} of Arrow; a table, dataset or reader can.")
    return found
