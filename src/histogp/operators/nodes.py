"""Nodes at training values, for tables that need not be read at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from histogp import threads
from histogp._numba import nodes
from histogp.kernels import ResolvedKernel
from histogp.operators.base import Located
from histogp.storage import Array, Rows, SortedColumns


@dataclass(frozen=True, eq=False)
class NodeLayout:
    """Nodes for functions ``f_d(x_d)`` of every dimension, at heights ``w g(x)`` of training data. Immutable.

    A column of few distinct values has a node at each of them, so that nothing is lost; others have some at equal
    distances and some at equal numbers of examples. Where a value lies takes a binary search.

    starts : (D + 1,), where the nodes of each dimension begin
    heights : (n_nodes,), of the nodes, ascending from 0 in each dimension; one zero more at the end
    """

    kernel: ResolvedKernel
    starts: Array
    heights: Array

    @classmethod
    def build(
        cls, data: SortedColumns, heights: Array, kernel: ResolvedKernel, most: int, n_threads: int
    ) -> NodeLayout:
        """At most ``most`` nodes a dimension beside zero."""
        room = np.concatenate([[0], np.cumsum(1 + np.minimum(data.counts, most))])
        counts, found = np.empty(data.n_columns, np.int64), np.empty(room[-1])
        threads.run(
            lambda first, last: nodes.choose_nodes(data.indptr, heights, most, room, first, last, counts, found),
            data.parts(n_threads),
        )
        starts = np.concatenate([[0], np.cumsum(counts)])
        used = np.arange(starts[-1]) + np.repeat(room[:-1] - starts[:-1], counts)
        return cls(kernel, starts, np.append(found[used], 0.0))

    @classmethod
    def checked(cls, kernel: ResolvedKernel, starts: Array, heights: Array) -> NodeLayout:
        """From arrays of unknown origin, of the right types; compiled loops trust what they are given."""
        # Compared, not subtracted: differences may overflow and hide a wrong order.
        if starts[0] == 0 and np.all(starts[1:] > starts[:-1]) and starts[-1] + 1 == len(heights):
            ascending = heights[1:] > heights[:-1]
            ascending[starts[1:] - 1] = True
            if np.all(heights[starts] == 0) and np.all(ascending):
                return cls(kernel, starts, heights)
        raise ValueError("the nodes of its table are damaged")

    @property
    def n_nodes(self) -> int:
        """Rows of a table, with the one at its end."""
        return len(self.heights)

    def locate(self, rows: Rows, n_threads: int = 1) -> Located:
        """Where test rows lie between the nodes."""
        values = self.kernel.heights(rows)
        number, share, beyond = np.empty(len(values), np.int64), np.empty(len(values)), np.empty(rows.n_rows)
        threads.run(
            lambda first, last: nodes.locate(
                rows.indptr, rows.column_of, values, self.starts, self.heights, first, last, number, share, beyond
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
            nodes.read_located(rows.indptr, located.nodes, shares, table, first, last, scratch, out)

        threads.run(read, rows.parts(n_threads, work_per_nonzero=1 + width // 8))
        return out


@dataclass(frozen=True, eq=False)
class NodeTable:
    """``x -> sum_d f_d(x_d)`` for functions that are linear between nodes. Immutable.

    values : (n_nodes, M), of the functions at the nodes
    """

    layout: NodeLayout
    values: Array

    def evaluate(self, rows: Rows, n_threads: int = 1) -> Array:
        return self.layout.read(self.values, self.layout.locate(rows, n_threads), n_threads)


@dataclass(frozen=True, eq=False)
class LowerTable:
    """``x -> K(x, x) - sum_d f_d``, with functions that do not decrease read at the next node below. Immutable.

    per_bin : (D,), one over the width of a bin, in heights; zero where there is nothing but the node 0
    values : (D, q + 1), of the functions at q + 1 equally spaced nodes, single precision
    """

    kernel: ResolvedKernel
    per_bin: Array
    values: Array

    def evaluate(self, rows: Rows, n_threads: int = 1) -> Array:
        heights = self.kernel.heights(rows)
        out = np.empty(rows.n_rows)
        threads.run(
            lambda first, last: nodes.subtract_lower(
                rows.indptr, rows.column_of, heights, self.per_bin, self.values, first, last, out
            ),
            rows.parts(n_threads),
        )
        return out
