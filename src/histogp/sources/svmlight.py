"""Rows of svmlight files."""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from histogp.errors import DataError
from histogp.sources.source import READ_ROWS, Chunk, Source, first_failing, joined, no_rows
from histogp.sources.wanted import Wanted


class SvmlightSource(Source):
    """An svmlight file: sparse rows with their labels; an index is the number of a column, counted from 0.

    Unless the width is given, chunks are as wide as their largest index asks for.
    """

    def __init__(self, path: Path, wanted: Wanted):
        super().__init__(path)
        if wanted.label is not None:
            raise DataError(f"{path}: svmlight files hold their labels themselves, so that --label has no meaning.")
        if wanted.ignore:
            raise DataError(f"{path}: columns of svmlight files have no names, so that --ignore has no meaning.")
        self.n_features = wanted.width

    def chunks(self, n_rows: int) -> Iterator[Chunk]:
        with self.path.open("rb") as file:
            start = 1
            while lines := list(islice(file, n_rows)):
                X, labels = self._parse(start, lines)
                start += len(lines)
                if len(labels):
                    yield Chunk(self._widened(X), labels)

    def read(self) -> Chunk:
        parts = list(self.chunks(READ_ROWS))
        if not parts:
            raise no_rows(self.path)
        width = max(chunk.X.shape[1] for chunk in parts)
        X = sparse.vstack([_with_width(chunk.X, width) for chunk in parts], format="csr")
        return Chunk(X, joined([chunk.labels for chunk in parts]))

    def _parse(self, start: int, lines: list[bytes]) -> tuple[Any, np.ndarray]:
        try:
            return _loaded(lines)
        except ValueError:
            line, text = first_failing(enumerate(lines, start), lambda numbered: _loaded([numbered[1]]))
        shown = text.decode(errors="replace").strip()
        raise DataError(
            f"{self.path}, line {line}: {shown[:40]!r} is not of the form 'label index:value index:value ...' with "
            "ascending indices."
        )

    def _widened(self, X: Any) -> Any:
        if self.n_features is None:
            return X
        if X.shape[1] > self.n_features:
            raise DataError(
                f"{self.path} has the index {X.shape[1] - 1}, but the model was trained with {self.n_features} "
                "features, counted from 0."
            )
        return _with_width(X, self.n_features)


def _loaded(lines: list[bytes]) -> tuple[Any, np.ndarray]:
    try:
        return load_svmlight_file(io.BytesIO(b"".join(lines)), zero_based=True)
    except OverflowError as error:  # an index too large for any matrix
        raise ValueError(str(error)) from None


def _with_width(X: Any, width: int) -> Any:
    return sparse.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], width))
