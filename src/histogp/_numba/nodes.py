"""Tables whose nodes lie at training values, found by binary search."""

from __future__ import annotations

import numpy as np

from histogp._numba.jit import leaf
from histogp._numba.memory import prefetch


@leaf
def choose_nodes(indptr, heights, most, starts, first, last, counts, out):
    """Write nodes for the columns ``first..last``: zero, then all distinct heights, or at most ``most`` of them.

    If there are more, one half is spread evenly over the examples and the other half over the range.
    starts (D + 1,), where there is room for the nodes of each column; counts (D,) is written, too; out (starts[D],).
    """
    half = most // 2
    for column in range(first, last):
        begin, end = indptr[column], indptr[column + 1]
        n = end - begin
        distinct = 0
        previous = 0.0
        for e in range(begin, end):
            if heights[e] > previous:
                distinct += 1
                previous = heights[e]
        node = starts[column]
        out[node] = 0.0
        i = j = 1
        for e in range(begin, end):
            take = distinct <= most
            while i <= half and (e - begin + 1) * half >= i * n:
                take = True
                i += 1
            while j <= half and heights[e] * half >= j * heights[end - 1]:
                take = True
                j += 1
            if take and heights[e] > out[node]:
                node += 1
                out[node] = heights[e]
        counts[column] = node + 1 - starts[column]


@leaf
def locate(indptr, column_of, values, starts, places, first, last, nodes, shares, out):
    """Find the last node at or below each value of the rows ``first..last``.

    starts (D + 1,); places (starts[D] + 1,), ascending from 0 in each column. Written are nodes (nnz,), the number of
    the node, shares (nnz,), the place between it and the next one, from 0 to 1, or 0 beyond the last node, and out
    (n,), by how much the values of a row exceed the last nodes, in all.
    """
    for i in range(first, last):
        beyond = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            column, x = column_of[e], values[e]
            low, high = starts[column], starts[column + 1] - 1
            if x >= places[high]:
                nodes[e] = high
                shares[e] = 0.0
                beyond += x - places[high]
            else:
                while low + 1 < high:
                    middle = (low + high) >> 1
                    if places[middle] <= x:
                        low = middle
                    else:
                        high = middle
                nodes[e] = low
                shares[e] = (x - places[low]) / (places[low + 1] - places[low])
        out[i] = beyond


@leaf
def read_located(indptr, nodes, shares, table, first, last, total, out):
    """Add up a table over the non-zeros of the rows ``first..last``, interpolated between neighbouring nodes.

    nodes, shares (nnz,) as `locate` finds them; table (n_nodes, M); total (M,), of the same precision, is scratch;
    out (n, M).
    """
    one, ahead, width = np.uint64(1), np.uint64(16), np.uint64(table.shape[1])
    for i in range(np.uint64(first), np.uint64(last)):
        total[:] = 0
        begin, end = np.uint64(indptr[i]), np.uint64(indptr[i + one])
        for e in range(begin, end):
            if e + ahead < end:
                prefetch(table, nodes[e + ahead])
            node, s = np.uint64(nodes[e]), shares[e]
            below, above = table[node], table[node + one]
            for m in range(width):
                total[m] += below[m] + s * (above[m] - below[m])
        for m in range(width):
            out[i, m] = total[m]


@leaf
def subtract_lower(indptr, column_of, heights, per_bin, table, first, last, out):
    """Write ``sum_d (h_d - table[d, k])`` with ``k = floor(h_d per_bin_d)`` for the rows ``first..last``.

    per_bin (D,); table (D, q + 1) in single precision, whose last entries also serve larger heights; out (n,).
    """
    one, end = np.uint64(1), np.float64(table.shape[1] - 1)
    for i in range(np.uint64(first), np.uint64(last)):
        total = 0.0
        for e in range(np.uint64(indptr[i]), np.uint64(indptr[i + one])):
            column, h = np.uint64(column_of[e]), heights[e]
            total += h - table[column, np.uint64(min(h * per_bin[column], end))]
        out[i] = total
