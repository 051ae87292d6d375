"""Where functions of one dimension each are tabulated, so that their sum is read in time independent of N."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from histogp import threads
from histogp._numba import quantized, reading
from histogp.kernels import ResolvedKernel
from histogp.operators.base import Grid, Reading
from histogp.storage import Array, Rows, SortedColumns

_SHIFT_AND_BLEND: dict[Reading, tuple[float, float]] = {"linear": (0.0, 1.0), "nearest": (0.5, 0.0)}
# With 10 octaves the first bins are a thousandth as wide as those of a uniform grid.
MOST_OCTAVES = 10


@dataclass(frozen=True, eq=False)
class GridLayout:
    """Nodes for functions ``f_d(x_d)`` of every dimension (gp-hik-ijcv2016, section 4.2). Immutable.

    They lie in ``g(x)``, where ``f_d`` is piecewise linear, between 0 and ``g(u_d)``; larger values are read at the
    last node. A grid consists of octaves of q bins: the first is some unit wide, the next twice as wide, and so on,
    because histograms crowd near zero; one octave makes a uniform grid. Where a value lies can be read off the
    exponent and the mantissa of ``1 + g(x) / unit``, without a search. Tables hold values at the nodes of all
    dimensions, one after the other, and one row more.

    kernel : for its transform and weights
    n_bins : q
    upper : (D,), ``g(u_d)``
    starts : (D + 1,), where the nodes of each dimension begin
    """

    kernel: ResolvedKernel
    n_bins: int
    upper: Array
    starts: Array

    @classmethod
    def build(
        cls, data: SortedColumns, heights: Array, importance: Array, kernel: ResolvedKernel, grid: Grid, n_threads: int
    ) -> GridLayout:
        """Nodes up to the end of the grid; more of them where examples of much ``importance`` (N,) are."""
        upper = kernel.transformed_row(last_of_each_column(data, data.values) if grid.upper is None else grid.upper)
        top = upper if kernel.weights is None else upper * kernel.weights
        if not np.all(np.isfinite(top)):
            raise ValueError("The range of the grid is not finite: choose a smaller value_range.")
        octaves = _octaves(data, heights, importance, top, grid, n_threads)
        return cls(kernel, grid.n_bins, upper, np.concatenate([[0], np.cumsum(octaves * grid.n_bins + 1)]))

    @classmethod
    def checked(cls, kernel: ResolvedKernel, n_bins: int, upper: Array, starts: Array) -> GridLayout:
        """From arrays of unknown origin, of the right types and lengths; compiled loops trust what they are given."""
        # Compared, not subtracted: differences may overflow and hide a wrong order.
        if starts[0] == 0 and np.all(starts[1:] > starts[:-1]):
            octaves, rest = np.divmod(np.diff(starts) - 1, n_bins)
            if not rest.any() and octaves.max() <= MOST_OCTAVES:
                return cls(kernel, n_bins, upper, starts)
        raise ValueError("the nodes of its table are damaged")

    @property
    def octaves(self) -> Array:
        return (np.diff(self.starts) - 1) // self.n_bins

    @property
    def n_nodes(self) -> int:
        """Rows of a table, with the one at its end."""
        return int(self.starts[-1]) + 1

    def places(self) -> Array:
        """The heights ``w g(x)`` of the nodes, (n_nodes,)."""
        shapes = [_shape(self.n_bins, count) for count in range(MOST_OCTAVES + 1)]
        top = self.upper if self.kernel.weights is None else self.upper * self.kernel.weights
        parts = [shapes[count] * end for count, end in zip(self.octaves, top, strict=True)]
        return np.concatenate([*parts, [0.0]])

    def read(self, nodes: Array, rows: Rows, n_threads: int = 1, how: Reading = "linear") -> Array:
        """``sum_d f_d(x_d)`` for n test rows, (n, M), from values at the nodes (n_nodes, M), in their precision."""
        n_problems = nodes.shape[1]
        out = np.empty((rows.n_rows, n_problems), nodes.dtype)
        places = self._located(rows)

        def read(first: int, last: int) -> None:
            options = (self.n_bins, *_SHIFT_AND_BLEND[how], first, last)
            if n_problems == 1:
                reading.read_one(*places, nodes[:, 0], *options, out[:, 0])
            else:
                reading.read_block(*places, nodes, *options, np.empty(n_problems, nodes.dtype), out)

        threads.run(read, rows.parts(n_threads, work_per_nonzero=1 + n_problems // 8))
        return out

    def _located(self, rows: Rows) -> tuple[Array, ...]:
        ends = np.diff(self.starts) - 1.0
        return rows.indptr, rows.column_of, self.kernel.transformed(rows), self._per_unit, self.starts, ends

    @cached_property
    def _per_unit(self) -> Array:
        """One over the width of the first octave, in ``g(x)``, (D,)."""
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            per_unit = (2.0**self.octaves - 1) / self.upper
        per_unit[~np.isfinite(per_unit)] = 0.0  # nothing above zero was seen there
        return per_unit


def last_of_each_column(data: SortedColumns, entries: Array) -> Array:
    """The last of the entries (nnz,) of each column, (D,); zero where there are none."""
    filled = data.counts > 0
    out = np.zeros(data.n_columns)
    out[filled] = entries[data.indptr[1:][filled] - 1]
    return out


def _shape(n_bins: int, n_octaves: int) -> Array:
    """The nodes of a grid from 0 to 1; of no octaves the 0 alone."""
    octave, bin_in_octave = np.divmod(np.arange(n_octaves * n_bins + 1), n_bins)
    return (2.0**octave * (1 + bin_in_octave / n_bins) - 1) / max(2.0**n_octaves - 1, 1.0)


def _octaves(data: SortedColumns, heights: Array, importance: Array, top: Array, grid: Grid, n_threads: int) -> Array:
    """How many octaves the training values of each dimension deserve, (D,); none where there are none.

    One more must lower the squared error at least in proportion to the bins that it adds.
    """
    filled = data.counts > 0
    if grid.uniform:
        return filled.astype(np.int64)
    crowding = np.empty((data.n_columns, MOST_OCTAVES))
    threads.run(
        lambda first, last: quantized.crowding(
            data.indptr, data.row_of, heights, importance, top, grid.n_bins, first, last, crowding
        ),
        data.parts(n_threads),
    )
    return np.where(filled, 1 + (crowding * np.arange(1, MOST_OCTAVES + 1)).argmin(axis=1), 0)
