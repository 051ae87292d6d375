"""The approximate predictor: a table on a grid, read in time independent of N."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from histogp import threads
from histogp._numba import quantized
from histogp.kernels import ResolvedKernel
from histogp.operators.base import Grid, Reading
from histogp.storage import Array, Rows, SortedColumns, plain

_SHIFT_AND_BLEND: dict[Reading, tuple[float, float]] = {"linear": (0.0, 1.0), "nearest": (0.5, 0.0)}
# In how many octaves a grid may be cut; 1 is uniform, with 10 the first bin is a thousandth of a uniform one.
OCTAVES = (1, 2, 3, 4, 5, 6, 7, 8, 10)


@dataclass(frozen=True, eq=False)
class QuantizedTable:
    """``x -> sum_d f_d(x_d)`` with every ``f_d`` tabulated at q + 1 nodes (gp-hik-ijcv2016, section 4.2).

    The nodes lie in ``g(x)``, where ``f_d`` is piecewise linear, between 0 and ``g(u_d)``; larger values are
    read at the last node. They are cut into octaves of b bins each: the first is some unit wide, the next
    twice as wide, and so on, because histograms crowd near zero. Where a value lies can be read off the
    exponent and the mantissa of ``1 + g(x) / unit``, without a search.
    Weights of the kernel are in the table and not needed to read it.

    kernel : for its transform
    n_bins : q
    per_unit : (D,), one over the width of the first octave, in ``g(x)``
    per_octave : (D,), b
    nodes : (D (q + 1) + 1, M)
    errors : (D,), the largest distance of a height, up to that of the training data, to its nearest node
    linear_bounds : (M,), bound of the error of interpolation by sums of ``|alpha|``
    linear_worst : (M,), the largest error of interpolation of all x
    """

    kernel: ResolvedKernel
    n_bins: int
    per_unit: Array
    per_octave: Array
    nodes: Array
    errors: Array
    linear_bounds: Array
    linear_worst: Array

    @classmethod
    def build(
        cls, data: SortedColumns, heights: Array, alpha: Array, kernel: ResolvedKernel, grid: Grid, n_threads: int
    ) -> QuantizedTable:
        """Tabulate in a few sweeps over the sorted columns; heights (nnz,), alpha (N, M)."""
        largest, largest_height = (_last_of_each_column(data, entries) for entries in (data.values, heights))
        upper = kernel.transformed_row(largest if grid.upper is None else grid.upper)
        top = upper if kernel.weights is None else upper * kernel.weights
        bins = _bins_per_octave(data, heights, alpha, top, grid, n_threads)
        used, grid_of = np.unique(bins, return_inverse=True)
        grids = np.array([_octaves(grid.n_bins, per_octave) for per_octave in used])
        places = grids[grid_of] * top[:, None]
        with np.errstate(divide="ignore", over="ignore"):
            per_unit = 1 / (grids[grid_of, bins] * upper)
        per_unit[~np.isfinite(per_unit)] = 0.0  # nothing above zero was seen there

        alpha = plain(alpha, np.float64)
        n_problems = alpha.shape[1]
        parts = data.parts(n_threads, work_per_nonzero=2 + n_problems // 8)

        def sweep(leaf: Callable[..., None], out: Array, *tables: Array) -> Array:
            threads.run(
                lambda *columns: leaf(data.indptr, data.row_of, heights, alpha, places, *tables, *columns, out), parts
            )
            return out

        nodes = sweep(quantized.fill_nodes, np.zeros((places.size + 1, n_problems)))
        extremes = sweep(quantized.extreme_errors, np.empty((len(places), 2, n_problems)), nodes).sum(axis=0)
        bounds = sweep(quantized.weigh_bins, np.empty((len(places), n_problems))).sum(axis=0)
        errors = np.maximum(np.diff(places).max(axis=1) / 2, largest_height - top)
        return cls(
            kernel, grid.n_bins, per_unit, bins.astype(float), nodes, errors, bounds, np.abs(extremes).max(axis=0)
        )

    def evaluate(self, rows: Rows, n_threads: int = 1, reading: Reading = "linear") -> Array:
        n_problems = self.nodes.shape[1]
        out = np.empty((rows.n_rows, n_problems))
        values = (rows.indptr, rows.column_of, self.kernel.transformed(rows), self.per_unit, self.per_octave)

        def read(first: int, last: int) -> None:
            options = (self.n_bins, *_SHIFT_AND_BLEND[reading], first, last)
            if n_problems == 1:
                quantized.read_one(*values, self.nodes[:, 0], *options, out[:, 0])
            else:
                quantized.read_block(*values, self.nodes, *options, np.empty(n_problems), out)

        threads.run(read, rows.parts(n_threads, work_per_nonzero=1 + n_problems // 8))
        return out


def _last_of_each_column(data: SortedColumns, entries: Array) -> Array:
    filled = data.counts > 0
    out = np.zeros(data.n_columns)
    out[filled] = entries[data.indptr[1:][filled] - 1]
    return out


def _octaves(n_bins: int, per_octave: int) -> Array:
    """The nodes of a grid from 0 to 1 that begins with octaves of ``per_octave`` bins, (n_bins + 1,)."""
    octave, bin_in_octave = np.divmod(np.arange(n_bins + 1), per_octave)
    nodes = 2.0**octave * (1 + bin_in_octave / per_octave) - 1
    return nodes / nodes[-1]


def _bins_per_octave(
    data: SortedColumns, heights: Array, alpha: Array, top: Array, grid: Grid, n_threads: int
) -> Array:
    """For each dimension the grid that suits its training values best, (D,).

    Examples count by ``|alpha|``: what matters are kinks, and a row may stand for several of less weight.
    """
    if grid.uniform:
        return np.full(data.n_columns, grid.n_bins)
    candidates = np.unique([max(grid.n_bins // octaves, 1) for octaves in OCTAVES])[::-1]
    grids = np.array([_octaves(grid.n_bins, per_octave) for per_octave in candidates])
    importance = np.abs(alpha).sum(axis=1)
    crowding = np.empty((data.n_columns, len(candidates)))
    threads.run(
        lambda first, last: quantized.crowding(
            data.indptr, data.row_of, heights, importance, top, grids, first, last, crowding
        ),
        data.parts(n_threads),
    )
    return candidates[crowding.argmin(axis=1)]
