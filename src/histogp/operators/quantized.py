"""The approximate predictor: a table on a grid, read in time independent of N."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from histogp import threads
from histogp._numba import quantized
from histogp.kernels import ResolvedKernel
from histogp.operators.base import Grid, Reading
from histogp.operators.grid import GridLayout, last_of_each_column
from histogp.storage import Array, Rows, SortedColumns, plain


@dataclass(frozen=True, eq=False)
class QuantizedTable:
    """``x -> k(x)^T alpha`` on a grid, and how far that may be from the exact value.

    layout : where the nodes are
    nodes : (layout.n_nodes, M)
    errors : (D,), the largest distance of a height, up to that of the training data, to its nearest node
    linear_bounds : (M,), bound of the error of interpolation by sums of ``|alpha|``
    linear_worst : (M,), the largest error of interpolation of all x
    """

    layout: GridLayout
    nodes: Array
    errors: Array
    linear_bounds: Array
    linear_worst: Array

    @classmethod
    def build(
        cls, data: SortedColumns, heights: Array, alpha: Array, kernel: ResolvedKernel, grid: Grid, n_threads: int
    ) -> QuantizedTable:
        """Tabulate in a few sweeps over the sorted columns; heights (nnz,), alpha (N, M)."""
        # Examples count by |alpha|: what matters are kinks, and a row may stand for several of less weight.
        layout = GridLayout.build(data, heights, np.abs(alpha).sum(axis=1), kernel, grid, n_threads)
        starts, places = layout.starts, layout.places()
        alpha = plain(alpha, np.float64)
        n_problems = alpha.shape[1]
        parts = data.parts(n_threads, work_per_nonzero=2 + n_problems // 8)

        def sweep(leaf: Callable[..., None], out: Array, *tables: Array) -> Array:
            threads.run(
                lambda first, last: leaf(
                    data.indptr, data.row_of, heights, alpha, starts, places, *tables, first, last, out
                ),
                parts,
            )
            return out

        nodes = sweep(quantized.fill_nodes, np.zeros((layout.n_nodes, n_problems)))
        extremes = sweep(quantized.extreme_errors, np.empty((data.n_columns, 2, n_problems)), nodes).sum(axis=0)
        bounds = sweep(quantized.weigh_bins, np.empty((data.n_columns, n_problems))).sum(axis=0)
        # The last bin of a grid is the widest.
        top = places[starts[1:] - 1]
        widths = np.where(layout.octaves > 0, top - places[starts[1:] - 2], 0.0)
        errors = np.maximum(widths / 2, last_of_each_column(data, heights) - top)
        # All that is added up is rounded, too.
        rounding = 8 * np.finfo(np.float64).eps * top.sum() * np.abs(alpha).sum(axis=0)
        worst = np.abs(extremes).max(axis=0) + rounding
        return cls(layout, nodes, errors, bounds + rounding, worst)

    def evaluate(self, rows: Rows, n_threads: int = 1, reading: Reading = "linear") -> Array:
        return self.layout.read(self.nodes, rows, n_threads, reading)
