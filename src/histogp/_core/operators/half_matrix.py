"""One half of a symmetric matrix in single precision, as tiles: 2 bytes for each pair of samples."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from histogp._core.data import Array, Rows, mirrored
from histogp._core.threads import run, single_threaded_blas

# Samples of a side of a tile, 16 MB, and rows of it that serve both of its products while they are in cache, 0.5 MB.
SIDE = 2048
PIECE_ROWS = 64


def half_bytes(n_samples: int) -> int:
    """What half of a matrix takes, without what tiles on the diagonal have above it."""
    return 2 * n_samples**2


class HalfMatrix:
    """Tiles on the diagonal and below it. Immutable.

    bounds : where tiles begin and end, (n_tiles + 1,)
    tiles : by rows, (n_i, n_j) each; the i-th row has those of j = 0 to i
    """

    def __init__(self, bounds: Array, tiles: list[list[Array]]):
        self.bounds = bounds
        self.tiles = tiles

    @classmethod
    def of(cls, kernel: Any, rows: Rows, n_threads: int = 1) -> HalfMatrix:
        """The kernel matrix of samples."""
        bounds = np.append(np.arange(0, rows.n_rows, SIDE), rows.n_rows)
        blocks = [rows.block(*ends) for ends in pairwise(bounds)]
        points = [kernel.points(block, np.float32, n_threads) for block in blocks]
        tiles: list[list[Array]] = []
        for i, block in enumerate(blocks):
            row = [np.zeros((block.n_rows, other.n_rows), np.float32) for other in blocks[: i + 1]]
            for j, tile in enumerate(row):
                kernel.add_cross(points[i], points[j], tile, n_threads)
            mirrored(row[-1])
            np.fill_diagonal(row[-1], kernel.own(block))  # distances of zero come out as roundings
            tiles.append(row)
        return cls(bounds, tiles)

    @property
    def n_samples(self) -> int:
        return int(self.bounds[-1])

    def times(self, vectors: Array, n_threads: int = 1) -> Array:
        """The matrix times vectors (n, M), computed in their precision, summed up in double precision."""
        vectors = np.ascontiguousarray(vectors)
        pieces = list(self._pieces())
        n_parts = max(1, min(n_threads, len(pieces)))
        sums = np.zeros((n_parts, *vectors.shape))

        def add(out: Array, tile: Array, rows: slice, columns: slice) -> None:
            tile = tile.astype(vectors.dtype, copy=False)
            out[rows] += tile @ vectors[columns]
            if rows.start >= columns.stop:  # below the diagonal
                out[columns] += tile.T @ vectors[rows]

        with single_threaded_blas():
            run(add, [[(sums[k], *piece) for piece in pieces[k::n_parts]] for k in range(n_parts)])
        return sums.sum(axis=0)

    def columns(self, index: Array) -> Array:
        """Columns of the matrix, (n, len(index))."""
        index = np.arange(self.n_samples)[index]
        out = np.empty((self.n_samples, len(index)), np.float32)
        for tile, rows, columns in self._tiles():
            in_columns, in_rows = (
                np.flatnonzero((index >= some.start) & (index < some.stop)) for some in (columns, rows)
            )
            out[rows, in_columns] = tile[:, index[in_columns] - columns.start]
            out[columns, in_rows] = tile[index[in_rows] - rows.start].T
        return out

    def whole(self) -> Array:
        """The matrix, (n, n)."""
        out = np.empty((self.n_samples, self.n_samples), np.float32)
        for tile, rows, columns in self._tiles():
            out[rows, columns], out[columns, rows] = tile, tile.T
        return out

    def _tiles(self) -> Iterator[tuple[Array, slice, slice]]:
        """Tiles with the rows and columns where they are."""
        places = [slice(*ends) for ends in pairwise(self.bounds)]
        for row, rows in zip(self.tiles, places, strict=True):
            for tile, columns in zip(row, places, strict=False):
                yield tile, rows, columns

    def _pieces(self) -> Iterator[tuple[Array, slice, slice]]:
        """Some rows of a tile at a time, with where they are."""
        for tile, rows, columns in self._tiles():
            for begin in range(0, len(tile), PIECE_ROWS):
                piece = tile[begin : begin + PIECE_ROWS]
                yield piece, slice(rows.start + begin, rows.start + begin + len(piece)), columns
