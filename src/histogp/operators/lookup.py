"""The exact predictor: binary search in sorted columns and prefix tables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from histogp import threads
from histogp._numba import lookup
from histogp.storage import Array, Rows, SortedColumns, plain

# Positions between two stored prefix sums: a sixteenth of the memory for a few more additions a look-up.
STRIDE = 16


class LookupTable:
    """``x -> sum_d sum_i min(heights_id, h_d(x)) alpha_i``, in time logarithmic in N. Immutable.

    Parameters
    ----------
    data : SortedColumns
    heights : array (nnz,), ascending within each column of ``data``
    alpha : array (N, M)
    height_of : function from test `Rows` to the heights of their non-zeros (nnz,)
    n_threads : int
    """

    def __init__(
        self, data: SortedColumns, heights: Array, alpha: Array, height_of: Callable[[Rows], Array], n_threads: int
    ):
        self._data = data
        self._heights = heights
        self._alpha = plain(alpha, np.float64)
        self._height_of = height_of
        self._n_threads = n_threads
        self._starts = np.concatenate([[0], np.cumsum(data.counts // STRIDE + 1)])
        self._checkpoints = np.empty((self._starts[-1], 2, alpha.shape[1]))
        threads.run(
            lambda first, last: lookup.fill_checkpoints(
                data.indptr, data.row_of, heights, self._alpha, STRIDE, self._starts, first, last, self._checkpoints
            ),
            data.parts(n_threads, work_per_nonzero=1 + alpha.shape[1] // 16),
        )

    def evaluate(self, rows: Rows) -> Array:
        data = self._data
        heights = self._height_of(rows)
        out = np.zeros((rows.n_rows, self._alpha.shape[1]))
        threads.run(
            lambda first, last: lookup.look_up(
                data.indptr,
                data.row_of,
                self._heights,
                self._alpha,
                STRIDE,
                self._starts,
                self._checkpoints,
                rows.indptr,
                rows.column_of,
                heights,
                first,
                last,
                out,
            ),
            rows.parts(self._n_threads, work_per_nonzero=10 + self._alpha.shape[1]),
        )
        return out
