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
# With 10 octaves the first bins are a thousandth as wide as those of a uniform grid.
MOST_OCTAVES = 10


@dataclass(frozen=True, eq=False)
class QuantizedTable:
    """``x -> sum_d f_d(x_d)`` with every ``f_d`` tabulated on a grid (gp-hik-ijcv2016, section 4.2).

    The nodes lie in ``g(x)``, where ``f_d`` is piecewise linear, between 0 and ``g(u_d)``; larger values are
    read at the last node. A grid consists of octaves of q bins: the first is some unit wide, the next twice
    as wide, and so on, because histograms crowd near zero; one octave makes a uniform grid. Where a value
    lies can be read off the exponent and the mantissa of ``1 + g(x) / unit``, without a search.
    Weights of the kernel are in the table and not needed to read it.

    kernel : for its transform
    n_bins : q
    per_unit : (D,), one over the width of the first octave, in ``g(x)``
    starts : (D + 1,), where the nodes of each dimension begin
    nodes : (starts[D] + 1, M)
    errors : (D,), the largest distance of a height, up to that of the training data, to its nearest node
    linear_bounds : (M,), bound of the error of interpolation by sums of ``|alpha|``
    linear_worst : (M,), the largest error of interpolation of all x
    """

    kernel: ResolvedKernel
    n_bins: int
    per_unit: Array
    starts: Array
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
        if not np.all(np.isfinite(top)):
            raise ValueError("The range of the grid is not finite: choose a smaller value_range.")
        octaves = _octaves(data, heights, alpha, top, grid, n_threads)
        starts = np.concatenate([[0], np.cumsum(octaves * grid.n_bins + 1)])
        shapes = [_shape(grid.n_bins, count) for count in range(MOST_OCTAVES + 1)]
        places = np.concatenate([shapes[count] * end for count, end in zip(octaves, top, strict=True)])
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            per_unit = (2.0**octaves - 1) / upper
        per_unit[~np.isfinite(per_unit)] = 0.0  # nothing above zero was seen there

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

        nodes = sweep(quantized.fill_nodes, np.zeros((len(places) + 1, n_problems)))
        extremes = sweep(quantized.extreme_errors, np.empty((data.n_columns, 2, n_problems)), nodes).sum(axis=0)
        bounds = sweep(quantized.weigh_bins, np.empty((data.n_columns, n_problems))).sum(axis=0)
        # The last bin of a grid is the widest.
        widths = np.where(octaves > 0, places[starts[1:] - 1] - places[starts[1:] - 2], 0.0)
        errors = np.maximum(widths / 2, largest_height - top)
        # All that is added up is rounded, too.
        rounding = 8 * np.finfo(np.float64).eps * top.sum() * np.abs(alpha).sum(axis=0)
        worst = np.abs(extremes).max(axis=0) + rounding
        return cls(kernel, grid.n_bins, per_unit, starts, nodes, errors, bounds + rounding, worst)

    def evaluate(self, rows: Rows, n_threads: int = 1, reading: Reading = "linear") -> Array:
        n_problems = self.nodes.shape[1]
        out = np.empty((rows.n_rows, n_problems))
        ends = np.diff(self.starts) - 1.0
        values = (rows.indptr, rows.column_of, self.kernel.transformed(rows), self.per_unit, self.starts, ends)

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


def _shape(n_bins: int, n_octaves: int) -> Array:
    """The nodes of a grid from 0 to 1; of no octaves the 0 alone."""
    octave, bin_in_octave = np.divmod(np.arange(n_octaves * n_bins + 1), n_bins)
    return (2.0**octave * (1 + bin_in_octave / n_bins) - 1) / max(2.0**n_octaves - 1, 1.0)


def _octaves(data: SortedColumns, heights: Array, alpha: Array, top: Array, grid: Grid, n_threads: int) -> Array:
    """How many octaves the training values of each dimension deserve, (D,); none where there are none.

    One more must lower the squared error at least in proportion to the bins that it adds.
    Examples count by ``|alpha|``: what matters are kinks, and a row may stand for several of less weight.
    """
    filled = data.counts > 0
    if grid.uniform:
        return filled.astype(np.int64)
    importance = np.abs(alpha).sum(axis=1)
    crowding = np.empty((data.n_columns, MOST_OCTAVES))
    threads.run(
        lambda first, last: quantized.crowding(
            data.indptr, data.row_of, heights, importance, top, grid.n_bins, first, last, crowding
        ),
        data.parts(n_threads),
    )
    return np.where(filled, 1 + (crowding * np.arange(1, MOST_OCTAVES + 1)).argmin(axis=1), 0)
