"""Data files, opened by their ending."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from histogp.sources.csv_file import CsvSource
from histogp.sources.numpy_files import NpySource, NpzSource
from histogp.sources.parquet import parquet_source
from histogp.sources.source import Chunk, Source, ending, readable
from histogp.sources.svmlight import SvmlightSource
from histogp.sources.wanted import Wanted

__all__ = ["Chunk", "Source", "open_source"]

_KINDS: dict[str, Callable[[Path, Wanted], Source]] = {
    ".csv": CsvSource,
    ".csv.gz": CsvSource,
    ".parquet": parquet_source,
    ".npz": NpzSource,
    ".npy": NpySource,
    ".svm": SvmlightSource,
    ".svmlight": SvmlightSource,
    ".libsvm": SvmlightSource,
}


def open_source(
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    ignore: Sequence[str] = (),
    features: Sequence[str] | None = None,
    n_features: int | None = None,
) -> Source:
    """The rows of a data file.

    ``label`` names the column with the labels, or gives its position, or its key in an npz file; ``ignore``
    lists columns to leave out. ``features`` are the columns a model was trained with: just these are read, in
    this order. ``n_features`` is the width of the model.
    """
    path = readable(path)
    return _KINDS[ending(path, _KINDS)](path, Wanted(label, ignore, features, n_features))
