"""Dense blocks of the histogram intersection kernel between compressed rows of heights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from histogp import threads
from histogp._numba import product
from histogp.storage import Array, Rows

WIDTH = 2 * product.LANES  # columns that the leaf computes at once


def intersections(
    left: Rows, right: Rows, *, n_threads: int = 1, dtype: Any = np.float64
) -> Iterator[tuple[slice, Array]]:
    """Yield ``sum_d min(left_id, right_jd)``: slices of the right rows with blocks (n_left, <= 32)."""
    heights = left.values.astype(dtype, copy=False)
    parts = left.parts(n_threads, work_per_nonzero=4)
    for begin in range(0, right.n_rows, WIDTH):
        some = right.block(begin, min(begin + WIDTH, right.n_rows))
        table = np.zeros((left.n_columns, WIDTH), dtype)
        table[some.column_of, np.repeat(np.arange(some.n_rows), some.counts)] = some.values
        out = np.empty((left.n_rows, WIDTH), dtype)

        def fill(first: int, last: int, table: Array = table, out: Array = out) -> None:
            product.intersect(left.indptr, left.column_of, heights, table, first, last, out)

        threads.run(fill, parts)
        yield slice(begin, begin + some.n_rows), out[:, : some.n_rows]
