"""Rows of NumPy's own files."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from histogp.errors import DataError
from histogp.sources.source import Chunk, Source, float_type, no_rows
from histogp.sources.wanted import Wanted, listed


class NpySource(Source):
    """A matrix in an npy file, one row a sample; the labels may be one of its columns."""

    def __init__(self, path: Path, wanted: Wanted):
        super().__init__(path)
        array = _matrix(path, load_npy(path))
        self.n_rows = len(array)
        self._features, self._label = wanted.choose(path, None, array.shape[1])
        self.n_features = len(self._features)
        wanted.check_width(path, self.n_features)

    def chunks(self, n_rows: int) -> Iterator[Chunk]:
        assert self.n_rows is not None
        for first in range(0, self.n_rows, n_rows):
            # Mapped anew each time: pages once read would count as memory of this process as long as they are mapped.
            block = load_npy(self.path)[first : first + n_rows]
            yield Chunk(_floats(block, self._features), None if self._label is None else block[:, self._label].copy())


class NpzSource(Source):
    """Arrays in an npz file: X, or the only matrix; the labels are y, or another key. Or a sparse matrix of SciPy."""

    def __init__(self, path: Path, wanted: Wanted):
        """Read the arrays, and choose columns."""
        super().__init__(path)
        with opened_npz(path) as arrays:
            self._labels = _labels(path, arrays, wanted.label)
            self._X = _npz_matrix(path, arrays, wanted.label)
        self.n_rows = self._X.shape[0]
        if self._labels is not None and len(self._labels) != self.n_rows:
            raise DataError(f"{path} has {self.n_rows} rows, but {len(self._labels)} labels.")
        without_label = Wanted(None, wanted.ignore, wanted.features, wanted.n_features)
        self._features, _ = without_label.choose(path, None, self._X.shape[1])
        self.n_features = len(self._features)
        wanted.check_width(path, self.n_features)

    def chunks(self, n_rows: int) -> Iterator[Chunk]:
        assert self.n_rows is not None
        for first in range(0, self.n_rows, n_rows):
            rows = slice(first, first + n_rows)
            yield Chunk(_floats(self._X[rows], self._features), None if self._labels is None else self._labels[rows])

    def read(self) -> Chunk:
        if not self.n_rows:
            raise no_rows(self.path)
        return next(self.chunks(self.n_rows))


def load_npy(path: Path) -> np.ndarray:
    """The array of an npy file, mapped into memory."""
    try:
        return np.lib.format.open_memmap(path, "r")
    except (ValueError, OSError, EOFError) as error:
        raise _unreadable(path, "npy", error) from None


@contextmanager
def opened_npz(path: Path) -> Iterator[Mapping[str, np.ndarray]]:
    """The arrays of an npz file, each loaded when it is asked for."""
    if not zipfile.is_zipfile(path):
        raise DataError(f"{path} is not an npz file.")
    try:
        with np.load(path, allow_pickle=False) as arrays:
            yield arrays
    except DataError:
        raise
    except (ValueError, KeyError, OSError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        raise _unreadable(path, "npz", error) from None


def one_column(path: Path, array: np.ndarray) -> np.ndarray:
    """A vector, also if it comes as a matrix with one column."""
    if array.ndim == 1 or (array.ndim == 2 and array.shape[1] == 1):
        return np.array(array).reshape(-1)
    raise DataError(f"{path}: labels must be one column, but they have the shape {array.shape}.")


def _unreadable(path: Path, kind: str, error: Exception) -> DataError:
    if "object" in str(error).lower():
        return DataError(f"{path} holds Python objects, which are not loaded; save it with a numeric or text dtype.")
    return DataError(f"{path} is not a readable {kind} file: {str(error).rstrip('.')}.")


def _matrix(path: Path, array: np.ndarray) -> np.ndarray:
    if array.ndim != 2:
        raise DataError(f"{path}: a matrix with one row a sample is needed, but the shape is {array.shape}.")
    if array.dtype.kind not in "fiub":
        raise DataError(f"{path}: features must be numbers, but their dtype is {array.dtype}.")
    return array


def _npz_matrix(path: Path, arrays: Mapping[str, np.ndarray], label: str | None) -> Any:
    """The features of an npz file: a sparse matrix of SciPy, the array X, or the only matrix but for the labels."""
    if {"format", "shape", "data"} <= set(arrays):
        matrix = sparse.load_npz(path)
        try:
            # SciPy itself would follow an index out of range.
            if hasattr(matrix, "check_format"):
                matrix.check_format(full_check=True)
            return sparse.csr_array(matrix)
        except ValueError as error:
            raise DataError(f"{path} holds a damaged sparse matrix: {error}.") from None
    if "X" in arrays:
        return _matrix(path, arrays["X"])
    matrices = [key for key, array in arrays.items() if array.ndim == 2 and key not in ("y", label)]
    if len(matrices) != 1:
        raise DataError(f"{path} has neither a key 'X' nor a single matrix; its keys are {listed(list(arrays))}.")
    return _matrix(path, arrays[matrices[0]])


def _labels(path: Path, arrays: Mapping[str, np.ndarray], label: str | None) -> np.ndarray | None:
    if label is None and "y" not in arrays:
        return None
    key = "y" if label is None else label
    if key not in arrays:
        raise DataError(f"{path} has no key {key!r} for the labels; its keys are {listed(list(arrays))}.")
    return one_column(path, arrays[key])


def _floats(block: Any, columns: list[int]) -> Any:
    """Some columns of a dense or sparse block, copied, as float32 or float64."""
    if len(columns) < block.shape[1]:
        block = block[:, columns]
    dtype = float_type([block.dtype])
    if sparse.issparse(block):
        return block.astype(dtype)
    return np.array(block, dtype, order="C")
