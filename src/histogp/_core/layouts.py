"""Where functions of one dimension each are tabulated: grids in octaves, nodes at training values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from histogp._core import threads
from histogp._core._numba import table_loops
from histogp._core.data import Array, Rows, SortedColumns
from histogp.io.schema import Reader, Writer

if TYPE_CHECKING:
    from histogp._core.operators.sorted_columns import Intersection


Reading = Literal["linear", "nearest"]

# Buckets of a dimension, at most, in which the search for a node begins, equal in the root of the height: 64 take a
# third off the time of a search in 200 nodes (orientation histograms), and a guide to them stays in the cache.
GUIDE_BUCKETS = 64


@dataclass(frozen=True, eq=False)
class Grid:
    """Where a predictor is tabulated: n_bins + 1 nodes a dimension, from 0 to ``upper``.

    upper : (D,), in units of the features, or None for the largest training value of each dimension.
    uniform : equal bins, as in the papers; otherwise smaller ones where the training data are dense.
    """

    n_bins: int
    upper: Array | None = None
    uniform: bool = False


@dataclass(frozen=True, eq=False)
class Located:
    """Where test rows lie between the nodes of a layout.

    nodes, shares : (nnz,), the node below each non-zero, and how far towards the next it lies, from 0 to 1
    beyond : (n,), what tables cannot know of K(x, x), whatever the targets are: by how much the heights of a row exceed
        the last nodes, and the variance of Brownian bridges over gaps without training values
    """

    rows: Rows
    nodes: Array
    shares: Array
    beyond: Array

    def gaps(self, spreads: Array, n_threads: int = 1) -> Array:
        """``s (1 - s)`` times the spread (n_nodes,) of each bin, summed over a row, (n,)."""
        out, rows = np.empty(self.rows.n_rows), self.rows
        threads.run(
            lambda first, last: table_loops.gap_sums(rows.indptr, self.nodes, self.shares, spreads, first, last, out),
            rows.parts(n_threads),
        )
        return out


class Layout(Protocol):
    """Nodes in every dimension, for tables of sums of functions of one dimension each."""

    @property
    def kernel(self) -> Intersection:
        """The hyperparameters."""
        ...

    def to_state(self, writer: Writer) -> None:
        """Write where the nodes are into a model file."""
        ...

    @property
    def n_nodes(self) -> int:
        """Rows of a table."""
        ...

    @property
    def gaps(self) -> Array:
        """The width from a node to the next where no training value lies between, else zero, (n_nodes,)."""
        ...

    def locate(self, rows: Rows, n_threads: int = 1) -> Located:
        """Where test rows lie."""
        ...

    def read(self, table: Array, located: Located, n_threads: int = 1) -> Array:
        """The functions for n test rows, (n, M), interpolated; table (n_nodes, M)."""
        ...


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

    kernel: Intersection
    n_bins: int
    upper: Array
    starts: Array

    @classmethod
    def build(
        cls, data: SortedColumns, heights: Array, importance: Array, kernel: Intersection, grid: Grid, n_threads: int
    ) -> GridLayout:
        """Nodes up to the end of the grid; more of them where samples of much ``importance`` (N,) are."""
        if grid.upper is None:
            upper = kernel.transformed_row(last_of_each_column(data, data.values))
        else:
            upper = kernel.transformed_row(kernel.seen(Rows.from_array(grid.upper[None])).to_dense()[0])
        top = upper if kernel.weights is None else upper * kernel.weights
        if not np.all(np.isfinite(top)):
            raise ValueError("The range of the grid is not finite: choose a smaller value_range.")
        octaves = _octaves(data, heights, importance, top, grid, n_threads)
        return cls(kernel, grid.n_bins, upper, np.concatenate([[0], np.cumsum(octaves * grid.n_bins + 1)]))

    @classmethod
    def checked(cls, kernel: Intersection, n_bins: int, upper: Array, starts: Array) -> GridLayout:
        """From arrays of unknown origin, of the right types and lengths; compiled loops trust what they are given."""
        # Compared, not subtracted: differences may overflow and hide a wrong order.
        if starts[0] == 0 and np.all(starts[1:] > starts[:-1]):
            octaves, rest = np.divmod(np.diff(starts) - 1, n_bins)
            if not rest.any() and octaves.max() <= MOST_OCTAVES:
                return cls(kernel, n_bins, upper, starts)
        raise ValueError("the nodes of its table are damaged")

    def to_state(self, writer: Writer) -> None:
        """Write where the nodes are into a model file."""
        writer.put("upper", self.upper)
        writer.put("starts", self.starts)

    @classmethod
    def from_state(cls, reader: Reader, kernel: Intersection, n_bins: int, n_features: int) -> GridLayout:
        """The layout in a model file; believes nothing."""
        starts = reader.array("starts", np.int64, (n_features + 1,))
        return cls.checked(kernel, n_bins, reader.array("upper", np.float64, (n_features,), lowest=0), starts)

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
        n_outputs = nodes.shape[1]
        rows = self.kernel.seen(rows)
        out = np.empty((rows.n_rows, n_outputs), nodes.dtype)
        places = self._located(rows)

        def read(first: int, last: int) -> None:
            options = (self.n_bins, *_SHIFT_AND_BLEND[how], first, last)
            if n_outputs == 1:
                table_loops.read_one(*places, nodes[:, 0], *options, out[:, 0])
            else:
                table_loops.read_block(*places, nodes, *options, np.empty(n_outputs, nodes.dtype), out)

        threads.run(read, rows.parts(n_threads, work_per_nonzero=1 + n_outputs // 8))
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


def _gaps(data: SortedColumns, heights: Array, starts: Array, nodes: Array) -> Array:
    """The width from each node to the next one of its column where no training height lies between, else zero."""
    gaps = np.zeros(len(nodes))
    for column in np.flatnonzero(data.counts):
        own = heights[data.indptr[column] : data.indptr[column + 1]]
        places = slice(starts[column], starts[column + 1])
        here = nodes[places]
        n_between = np.searchsorted(own, here[1:], "left") - np.searchsorted(own, here[:-1], "right")
        gaps[places][:-1] = np.where(n_between == 0, np.diff(here), 0.0)
    return gaps


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
        lambda first, last: table_loops.crowding(
            data.indptr, data.row_of, heights, importance, top, grid.n_bins, first, last, crowding
        ),
        data.parts(n_threads),
    )
    return np.where(filled, 1 + (crowding * np.arange(1, MOST_OCTAVES + 1)).argmin(axis=1), 0)


@dataclass(frozen=True, eq=False)
class NodeLayout:
    """Nodes for functions ``f_d(x_d)`` of every dimension, at heights ``w g(x)`` of training data. Immutable.

    A column of few distinct values has a node at each of them, so that nothing is lost; others have some at equal
    distances and some at equal numbers of samples. Where a value lies takes a look at a guide and a short search.

    starts : (D + 1,), where the nodes of each dimension begin
    heights : (n_nodes,), of the nodes, ascending from 0 in each dimension; one zero more at the end
    gaps : (n_nodes,), the width from a node to the next where no training value lies between, else zero
    """

    kernel: Intersection
    starts: Array
    heights: Array
    gaps: Array

    @classmethod
    def build(cls, data: SortedColumns, heights: Array, kernel: Intersection, most: int, n_threads: int) -> NodeLayout:
        """At most ``most`` nodes a dimension beside zero."""
        room = np.concatenate([[0], np.cumsum(1 + np.minimum(data.counts, most))])
        counts, found = np.empty(data.n_columns, np.int64), np.empty(room[-1])
        threads.run(
            lambda first, last: table_loops.choose_nodes(data.indptr, heights, most, room, first, last, counts, found),
            data.parts(n_threads),
        )
        starts = np.concatenate([[0], np.cumsum(counts)])
        used = np.arange(starts[-1]) + np.repeat(room[:-1] - starts[:-1], counts)
        nodes = np.append(found[used], 0.0)
        return cls(kernel, starts, nodes, _gaps(data, heights, starts, nodes))

    @classmethod
    def checked(cls, kernel: Intersection, starts: Array, heights: Array, gaps: Array) -> NodeLayout:
        """From arrays of unknown origin, of the right types; compiled loops trust what they are given."""
        # Compared, not subtracted: differences may overflow and hide a wrong order.
        if starts[0] == 0 and np.all(starts[1:] > starts[:-1]) and starts[-1] + 1 == len(heights):
            ascending = heights[1:] > heights[:-1]
            ascending[starts[1:] - 1] = True
            if np.all(heights[starts] == 0) and np.all(ascending):
                return cls(kernel, starts, heights, gaps)
        raise ValueError("the nodes of its table are damaged")

    def to_state(self, writer: Writer) -> None:
        """Write where the nodes are into a model file."""
        writer.put("starts", self.starts)
        writer.put("heights", self.heights)
        writer.put("gaps", self.gaps)

    @classmethod
    def from_state(cls, reader: Reader, kernel: Intersection, n_features: int) -> NodeLayout:
        """The layout in a model file; believes nothing."""
        starts = reader.array("starts", np.int64, (n_features + 1,))
        heights = reader.array("heights", np.float64, (None,), lowest=0)
        has_gaps = reader.has("gaps")  # files from before they were known do without
        gaps = reader.array("gaps", np.float64, heights.shape, lowest=0) if has_gaps else np.zeros(len(heights))
        return cls.checked(kernel, starts, heights, gaps)

    @property
    def n_nodes(self) -> int:
        """Rows of a table, with the one at its end."""
        return len(self.heights)

    @cached_property
    def _guide(self) -> tuple[Array, Array]:
        """``B^2`` over the last height, (D,), and the last node before each of B buckets in its root, (D, B + 1)."""
        first, last = self.starts[:-1], self.starts[1:] - 1
        n_columns, n_nodes = len(first), last + 1 - first
        n_buckets = min(max(len(self.heights) // max(n_columns, 1), 1), GUIDE_BUCKETS)  # no larger than the nodes
        with np.errstate(divide="ignore", over="ignore"):
            per_bucket = n_buckets**2 / self.heights[last]
        per_bucket[~np.isfinite(per_bucket)] = 0.0  # all in the first bucket
        # Buckets of nodes are rounded as those of the values that are looked up.
        buckets = np.sqrt(self.heights[:-1] * np.repeat(per_bucket, n_nodes)).astype(np.int64)
        columns = np.arange(n_columns) * (n_buckets + 2)
        keys = np.repeat(columns, n_nodes) + buckets
        before = np.searchsorted(keys, columns[:, None] + np.arange(n_buckets + 1)) - 1
        before[:, -1] = last - 1  # the last bucket ends with the last node, however that is rounded
        return per_bucket, np.maximum(before, first[:, None]).astype(np.uint32)

    def locate(self, rows: Rows, n_threads: int = 1) -> Located:
        """Where test rows lie between the nodes."""
        rows = self.kernel.transform_rows(rows)
        values, nodes = rows.values, (self.starts, self.heights, self.gaps > 0, *self._guide)
        number, share, beyond = np.empty(len(values), np.int64), np.empty(len(values)), np.empty(rows.n_rows)
        threads.run(
            lambda first, last: table_loops.locate(
                rows.indptr, rows.column_of, values, *nodes, first, last, number, share, beyond
            ),
            rows.parts(n_threads),
        )
        return Located(rows, number, share, beyond)

    def read(self, table: Array, located: Located, n_threads: int = 1) -> Array:
        """``sum_d f_d(x_d)`` for n test rows, (n, M), from values at the nodes (n_nodes, M), in their precision."""
        rows, width = located.rows, table.shape[1]
        out = np.empty((rows.n_rows, width), table.dtype)
        shares = located.shares.astype(table.dtype, copy=False)

        def read(first: int, last: int) -> None:
            scratch = np.empty(width, table.dtype)
            table_loops.read_located(rows.indptr, located.nodes, shares, table, first, last, scratch, out)

        threads.run(read, rows.parts(n_threads, work_per_nonzero=1 + width // 8))
        return out
