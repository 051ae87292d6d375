"""Data with few distinct values, such as counts: products by levels instead of by non-zeros."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from histogp._core import threads
from histogp._core._numba import column_loops
from histogp._core.data import Array, Compressed, Rows, SortedColumns, aligned_zeros

# Levels whose sums of 16 single-precision numbers fit into a cache, and non-zeros for each that make it worth while.
MOST_LEVELS = 2**14
NONZEROS_A_LEVEL = 8
# Rows that are added up in single precision before the sum goes on in double.
ROWS_IN_SINGLE = 4096
# Numbers to add that take about as long as it takes to wake a thread up.
NUMBERS_A_THREAD = 2**20


@dataclass(frozen=True, eq=False)
class Levels(Compressed):
    """Compressed rows that hold numbers of levels: equal values of a column are one level.

    ``K = S^T K_L S``: S adds the entries of a vector up by levels, and K_L is the kernel matrix of rows with one
    non-zero, one for each level. The numbers are in the order in which levels appeared, so that an extension keeps
    those that are there.

    indptr : (N + 1,); level_of : (nnz,) uint16
    columns : the rows of K_L as sorted columns
    frequencies : (n_levels,), the non-zeros of each level
    """

    indptr: Array
    level_of: Array
    columns: SortedColumns
    frequencies: Array
    _known_parts: dict[int, list[list[tuple[int, int]]]] = field(default_factory=dict)

    @classmethod
    def build(cls, data: SortedColumns, n_threads: int) -> Levels | None:
        """The levels of sorted columns; None if there are too many."""
        is_first = np.empty(len(data.values), bool)
        is_first[:1] = True
        np.not_equal(data.values[1:], data.values[:-1], out=is_first[1:])
        is_first[data.indptr[:-1][data.counts > 0]] = True
        n_levels = int(np.count_nonzero(is_first))
        if _are_too_many(n_levels, len(data.values)):
            return None
        first = np.flatnonzero(is_first)
        counts = np.diff(first, append=len(is_first))
        levels = np.arange(n_levels)
        rows = data.to_rows(np.repeat(levels.astype(np.uint16), counts), n_threads)
        indptr = np.searchsorted(first, data.indptr)
        columns = SortedColumns(indptr, levels.astype(np.uint32), data.values[first], n_levels)
        return cls(rows.indptr, rows.values, columns, counts)

    def extend(self, rows: Rows) -> Levels | None:
        """The levels with further rows; None if these bring too many."""
        known = self.columns
        n_known = known.n_rows
        column_of = np.concatenate([known.expand(np.arange(known.n_columns)), rows.column_of])
        values = np.concatenate([known.values, rows.values])
        # Known levels come before new values that equal them.
        order = np.lexsort((values, column_of))
        is_first = np.ones(len(order), bool)
        is_first[1:] = (np.diff(column_of[order]) != 0) | (np.diff(values[order]) != 0)
        group = np.cumsum(is_first) - 1
        leaders = order[is_first]
        is_new = leaders >= n_known
        numbers = np.empty(len(leaders), int)
        numbers[~is_new] = known.row_of[leaders[~is_new]]
        numbers[is_new] = n_known + np.arange(np.count_nonzero(is_new))
        if _are_too_many(len(leaders), len(self.level_of) + len(rows.values)):
            return None
        level_of = np.empty(len(order), np.uint16)
        level_of[order] = numbers[group]
        indptr = np.searchsorted(column_of[leaders], np.arange(known.n_columns + 1))
        columns = SortedColumns(indptr, numbers.astype(np.uint32), values[leaders], len(leaders))
        frequencies = np.bincount(level_of[n_known:], minlength=len(leaders))
        frequencies[:n_known] += self.frequencies
        return Levels(
            np.concatenate([self.indptr, self.indptr[-1] + rows.indptr[1:]]),
            np.concatenate([self.level_of, level_of[n_known:]]),
            columns,
            frequencies,
        )

    def gather(self, vectors: Array, n_threads: int) -> Array:
        """``S v``, (n_levels, M) for a block of vectors (N, M), or (n_levels,) for one; in double precision.

        Sums of many single-precision numbers are made of sums of a few.
        """
        parts = self._parts_for(vectors, n_threads)
        shape = (self.columns.n_rows, *vectors.shape[1:])
        totals = [np.zeros(shape) for _ in parts]
        leaf = column_loops.add_to_levels if vectors.ndim == 1 else column_loops.add_block_to_levels

        def add(first: int, last: int, total: Array) -> None:
            if vectors.dtype == np.float64:
                leaf(self.indptr, self.level_of, vectors, first, last, total)
                return
            for begin in range(first, last, ROWS_IN_SINGLE):
                some = aligned_zeros(shape, vectors.dtype)
                leaf(self.indptr, self.level_of, vectors, begin, min(begin + ROWS_IN_SINGLE, last), some)
                total += some

        threads.run(add, [[(*bounds, out) for bounds in part] for part, out in zip(parts, totals, strict=True)])
        return sum(totals[1:], start=totals[0])

    def spread(self, values: Array, dtype: Any, n_threads: int) -> Array:
        """``S^T w``, the inverse direction, in the precision ``dtype``."""
        table, leaf, shape = values, column_loops.read_levels, (len(self.indptr) - 1, *values.shape[1:])
        if values.ndim == 2:
            table, leaf = aligned_zeros(values.shape, dtype), column_loops.read_block_of_levels
            table[:] = values
        out = np.empty(shape, dtype)
        threads.run(
            lambda first, last: leaf(self.indptr, self.level_of, table, first, last, out),
            self._parts_for(out, n_threads),
        )
        return out

    def _parts_for(self, vectors: Array, n_threads: int) -> list[list[tuple[int, int]]]:
        """Parts of the rows for as many threads as are worth waking up for these vectors."""
        work = len(self.level_of) * vectors.size // len(vectors)
        n_parts = min(n_threads, 1 + work // NUMBERS_A_THREAD)
        if n_parts not in self._known_parts:
            self._known_parts[n_parts] = self.parts(n_parts)
        return self._known_parts[n_parts]


def _are_too_many(n_levels: int, n_nonzeros: int) -> bool:
    return n_levels > MOST_LEVELS or n_levels * NONZEROS_A_LEVEL > n_nonzeros
