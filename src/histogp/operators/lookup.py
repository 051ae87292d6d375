"""The exact predictor: binary search in sorted columns and prefix tables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from histogp import threads
from histogp._numba import lookup
from histogp.storage import Array, Rows, SortedColumns, plain

# Entries of a block: a sixteenth of the memory of full tables for a few more additions a look-up.
STRIDE = 16


class LookupTable:
    """``x -> sum_d sum_i min(heights_id, h_d(x)) alpha_i``, in time logarithmic in N. Immutable.

    Parameters
    ----------
    data : SortedColumns
    heights : array (nnz,), ascending within each column of ``data``
    alpha : array (N, M)
    height_of : function from test `Rows` to the heights of their non-zeros (nnz,)
    """

    def __init__(
        self,
        data: SortedColumns,
        heights: Array,
        alpha: Array,
        height_of: Callable[[Rows], Array],
        n_threads: int = 1,
    ):
        self._data = data
        self._heights = heights
        self._alpha = plain(alpha, np.float64)
        self._height_of = height_of
        self._starts = np.concatenate([[0], np.cumsum(-(-data.counts // STRIDE))])
        self._blocks = np.empty((self._starts[-1], 2, alpha.shape[1]))
        threads.run(
            lambda first, last: lookup.fill_blocks(
                data.indptr, data.row_of, heights, self._alpha, STRIDE, self._starts, first, last, self._blocks
            ),
            data.parts(n_threads, work_per_nonzero=1 + alpha.shape[1] // 16),
        )

    def evaluate(self, rows: Rows, n_threads: int = 1) -> Array:
        heights = self._height_of(rows)
        out = np.zeros((rows.n_rows, self._alpha.shape[1]))
        threads.run(
            lambda first, last: self._look_up(rows.with_values(heights).block(first, last), out[first:last]),
            rows.parts(n_threads, work_per_nonzero=10 + self._alpha.shape[1]),
        )
        return out

    def _look_up(self, rows: Rows, out: Array) -> None:
        data = self._data
        lookup.look_up(
            data.indptr,
            data.row_of,
            self._heights,
            self._alpha,
            STRIDE,
            self._starts,
            self._blocks,
            *rows.transpose(),
            out,
        )
