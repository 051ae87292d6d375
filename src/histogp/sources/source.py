"""Data files as sources of rows: what all formats share, and how a file is opened."""

from __future__ import annotations

import gzip
import os
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from histogp.errors import DataError
from histogp.sources.wanted import Wanted

# Rows read at a time when everything is wanted.
READ_ROWS = 8192
# By the ending of a file the module of this package that reads it, and what makes a source of it there.
_FORMATS = {
    ".csv": ("csv_file", "CsvSource"),
    ".csv.gz": ("csv_file", "CsvSource"),
    ".parquet": ("parquet", "parquet_source"),
    ".npz": ("numpy_files", "NpzSource"),
    ".npy": ("numpy_files", "NpySource"),
    ".svm": ("svmlight", "SvmlightSource"),
    ".svmlight": ("svmlight", "SvmlightSource"),
    ".libsvm": ("svmlight", "SvmlightSource"),
}
Item = TypeVar("Item")


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some rows: X (n, D) a C-contiguous float32 or float64 array, or CSR; labels (n,) as in the file."""

    X: Any
    labels: np.ndarray | None


class Source(ABC):
    """Rows of a file, in bounded pieces or all at once; what is unknown before reading is None."""

    feature_names: list[str] | None = None
    n_features: int | None = None
    n_rows: int | None = None

    def __init__(self, path: Path):
        self.path = path

    @abstractmethod
    def chunks(self, n_rows: int) -> Iterator[Chunk]:
        """All rows, at most ``n_rows`` at a time."""

    def read(self) -> Chunk:
        """All rows at once."""
        n_rows = self.n_rows
        chunks: Iterable[Chunk] = self.chunks(READ_ROWS)
        if n_rows is None:
            parts = list(chunks)
            n_rows = sum(len(chunk.X) for chunk in parts)
            chunks = _given_up(parts)
        if n_rows == 0:
            raise no_rows(self.path)
        X, labels, row = None, [], 0
        for chunk in chunks:
            if X is None:
                X = np.empty((n_rows, chunk.X.shape[1]), chunk.X.dtype)
            X[row : row + len(chunk.X)] = chunk.X
            row += len(chunk.X)
            labels.append(chunk.labels)
        return Chunk(X, joined(labels))


def open_source(
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    ignore: Sequence[str] = (),
    features: Sequence[str] | None = None,
    n_features: int | None = None,
) -> Source:
    """The rows of a data file, by its ending.

    ``label`` names the column with the labels, or gives its position, or its key in an npz file; ``ignore``
    lists columns to leave out. ``features`` are the columns a model was trained with: just these are read, in
    this order. ``n_features`` is the width of the model.
    """
    path = readable(path)
    module, name = _FORMATS[ending(path, _FORMATS)]
    make = getattr(import_module(f"histogp.sources.{module}"), name)
    return make(path, Wanted(label, ignore, features, n_features))


def joined(labels: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """The labels of consecutive chunks."""
    found = [some for some in labels if some is not None]
    return np.concatenate(found) if found else None


def no_rows(path: Path) -> DataError:
    """The error for a file without rows."""
    return DataError(f"{path} has no rows.")


def float_type(dtypes: Iterable[Any]) -> Any:
    """float32 if that holds numbers of all these types exactly, else float64."""
    return np.float32 if np.result_type(np.float32, *dtypes) == np.float32 else np.float64


def first_failing(items: Iterable[Item], parse: Callable[[Item], Any]) -> Item:
    """The first item that ``parse`` refuses with a ValueError; there must be one."""
    for item in items:
        try:
            parse(item)
        except ValueError:
            return item
    raise AssertionError("All items can be parsed one by one, but not together.")


def _given_up(parts: list[Chunk]) -> Iterator[Chunk]:
    """The chunks in turn, each forgotten before the next, so that copying them does not need twice the memory."""
    parts.reverse()
    while parts:
        yield parts.pop()


def readable(path: str | os.PathLike[str]) -> Path:
    """The path of a file that exists and can be opened."""
    path = Path(path)
    if path.is_dir():
        raise DataError(f"{path} is a folder, not a file.")
    try:
        with path.open("rb"):
            return path
    except OSError as error:
        raise DataError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}.") from None


def ending(path: Path, known: Iterable[str]) -> str:
    """Which of the known endings the file has, whatever its case."""
    known = list(known)
    for candidate in known:
        if path.name.lower().endswith(candidate):
            return candidate
    raise DataError(f"{path} has no known ending; known are {', '.join(known)}.")


def text_lines(path: Path) -> Generator[str]:
    """The lines of a text file, plain or gzipped, as they stand but for a byte order mark."""
    opener = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
            yield from file
    except UnicodeDecodeError:
        raise DataError(f"{path} is not text in UTF-8.") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is not a complete gzip file: {error}.") from None
