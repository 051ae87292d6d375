"""Tables of ``f(x) = sum_i min(h_i, x) alpha_i`` on a grid, one column of the data after the other.

Column d has q + 1 nodes, in the rows ``d (q + 1) + k`` of the table, k = 0..q. The table ends with one row
more, so that the node after any other may be read. Places are those of the nodes, (D, q + 1), ascending from 0.
"""

from __future__ import annotations

import numpy as np

from histogp._numba.jit import leaf

# float64 as integers: between two powers of two they are linear in the number.
_BITS_OF_ONE = int(np.float64(1).view(np.int64))
_PER_OCTAVE = 2.0**-52


@leaf
def crowding(indptr, row_of, heights, importance, top, grids, first, last, out):
    """``sum_k (c_k (b_k - a_k))^2`` over the bins [a_k, b_k] with c_k the importance in there: small is good.

    A bin cuts kinks off, about ``c_k (b_k - a_k)`` of them, and does so for about c_k of the data.
    importance (N,), of each example; top (D,), where the grid of each column ends; grids (C, q + 1), from 0
    to 1; out (D, C).
    """
    for column in range(first, last):
        begin, end = indptr[column], indptr[column + 1]
        inside = heights[begin:end]
        before = np.zeros(end - begin + 1)
        for e in range(begin, end):
            before[e - begin + 1] = before[e - begin] + importance[row_of[e]]
        for grid in range(grids.shape[0]):
            total = 0.0
            below = 0
            for k in range(1, grids.shape[1]):
                upto = np.searchsorted(inside, grids[grid, k] * top[column], side="right")
                total += ((before[upto] - before[below]) * (grids[grid, k] - grids[grid, k - 1])) ** 2
                below = upto
            out[column, grid] = total


@leaf
def fill_nodes(indptr, row_of, heights, alpha, places, first, last, out):
    """Write ``f`` at the nodes of the columns ``first..last`` (gp-hik-ijcv2016, eq. 10).

    alpha (N, M); out (D (q + 1) + 1, M). No terms cancel: the examples above a node are added up from the
    top, those below it from the bottom.
    """
    width, n_nodes = alpha.shape[1], places.shape[1]
    total = np.zeros(width)
    for column in range(first, last):
        begin, end = indptr[column], indptr[column + 1]
        nodes = out[column * n_nodes : (column + 1) * n_nodes]
        total[:] = 0
        e = end - 1
        for k in range(n_nodes - 1, -1, -1):
            while e >= begin and heights[e] > places[column, k]:
                row = row_of[e]
                for m in range(width):
                    total[m] += alpha[row, m]
                e -= 1
            for m in range(width):
                nodes[k, m] = places[column, k] * total[m]
        total[:] = 0
        e = begin
        for k in range(n_nodes):
            while e < end and heights[e] <= places[column, k]:
                row = row_of[e]
                for m in range(width):
                    total[m] += heights[e] * alpha[row, m]
                e += 1
            for m in range(width):
                nodes[k, m] += total[m]


@leaf
def weigh_bins(indptr, row_of, heights, alpha, places, first, last, out):
    """Bound the error of interpolation in the columns ``first..last`` by the sums of ``|alpha|`` in a bin.

    out (D, M): the largest ``(b - a) / 4 sum |alpha_i|`` over the bins [a, b], plus the sum of
    ``(h_last - b) |alpha_i|`` over the examples beyond the last node b.
    """
    width, n_bins = alpha.shape[1], places.shape[1] - 1
    total = np.zeros(width)
    beyond = np.zeros(width)
    for column in range(first, last):
        begin, end = indptr[column], indptr[column + 1]
        total[:] = 0
        beyond[:] = 0
        for m in range(width):
            out[column, m] = 0
        e = begin
        for k in range(n_bins):
            total[:] = 0
            while e < end and heights[e] <= places[column, k + 1]:
                row = row_of[e]
                for m in range(width):
                    total[m] += abs(alpha[row, m])
                e += 1
            quarter = (places[column, k + 1] - places[column, k]) / 4
            for m in range(width):
                out[column, m] = max(out[column, m], quarter * total[m])
        while e < end:
            row = row_of[e]
            for m in range(width):
                beyond[m] += (heights[end - 1] - places[column, n_bins]) * abs(alpha[row, m])
            e += 1
        for m in range(width):
            out[column, m] += beyond[m]


@leaf
def extreme_errors(indptr, row_of, heights, alpha, places, nodes, first, last, out):
    """Write the largest and the smallest error of interpolation in each of the columns ``first..last``.

    Both ``f`` and its interpolant are linear between neighbours among nodes and examples, and they agree
    at the nodes, so the extremes are at examples. nodes as `fill_nodes` gives them; out (D, 2, M).
    """
    width, n_nodes = alpha.shape[1], places.shape[1]
    below = np.zeros(width)
    above = np.zeros(width)
    for column in range(first, last):
        begin, end = indptr[column], indptr[column + 1]
        below[:] = 0
        above[:] = 0
        for m in range(width):
            out[column, 0, m] = 0
            out[column, 1, m] = 0
        for e in range(begin, end):
            row = row_of[e]
            for m in range(width):
                above[m] += alpha[row, m]
        k = 0
        for e in range(begin, end):
            x = heights[e]
            while k < n_nodes - 1 and x > places[column, k + 1]:
                k += 1
            node = column * n_nodes + k
            share = 0.0
            if k < n_nodes - 1 and places[column, k + 1] > places[column, k]:
                share = (x - places[column, k]) / (places[column, k + 1] - places[column, k])
            row = row_of[e]
            for m in range(width):
                below[m] += x * alpha[row, m]
                above[m] -= alpha[row, m]
                interpolated = (1 - share) * nodes[node, m] + share * nodes[node + 1, m]
                error = below[m] + x * above[m] - interpolated
                out[column, 0, m] = max(out[column, 0, m], error)
                out[column, 1, m] = min(out[column, 1, m], error)


@leaf
def read_block(indptr, column_of, values, per_unit, per_octave, nodes, n_bins, shift, blend, first, last, total, out):
    """Add up the table over the non-zeros of the rows ``first..last``, several problems at once.

    With ``v = 1 + per_unit x`` between the powers of two ``2^l`` and ``2^(l + 1)``, the value x lies at
    ``t = per_octave (l + v / 2^l - 1)`` on the grid, between 0 and q. It is read as
    ``(1 - s) node_k + s node_(k + 1)`` with ``k = floor(t + shift)``, ``s = blend (t - k)``: shift 0 and
    blend 1 interpolate, shift 1/2 and blend 0 take the nearest node.
    per_unit, per_octave (D,); nodes (D (q + 1) + 1, M); total (M,) is scratch; out (n, M).
    """
    # Unsigned numbers throughout: Numba would test signed ones for indices below zero.
    one, per_column, width = np.uint64(1), np.uint64(n_bins + 1), np.uint64(nodes.shape[1])
    for i in range(np.uint64(first), np.uint64(last)):
        total[:] = 0
        for e in range(np.uint64(indptr[i]), np.uint64(indptr[i + one])):
            column = np.uint64(column_of[e])
            bits = np.float64(1 + values[e] * per_unit[column]).view(np.int64)
            t = max(min((bits - _BITS_OF_ONE) * _PER_OCTAVE * per_octave[column], float(n_bins)), 0.0)
            k = np.int64(t + shift)
            s = blend * (t - k)
            node = column * per_column + np.uint64(k)
            below, above = nodes[node], nodes[node + one]
            for m in range(width):
                total[m] += (1 - s) * below[m] + s * above[m]
        for m in range(width):
            out[i, m] = total[m]


@leaf
def read_one(indptr, column_of, values, per_unit, per_octave, nodes, n_bins, shift, blend, first, last, out):
    """Like `read_block` for a single problem, twice as fast there; nodes (D (q + 1) + 1,), out (n,)."""
    one, per_column = np.uint64(1), np.uint64(n_bins + 1)
    for i in range(np.uint64(first), np.uint64(last)):
        total = 0.0
        for e in range(np.uint64(indptr[i]), np.uint64(indptr[i + one])):
            column = np.uint64(column_of[e])
            bits = np.float64(1 + values[e] * per_unit[column]).view(np.int64)
            t = max(min((bits - _BITS_OF_ONE) * _PER_OCTAVE * per_octave[column], float(n_bins)), 0.0)
            k = np.int64(t + shift)
            s = blend * (t - k)
            node = column * per_column + np.uint64(k)
            total += (1 - s) * nodes[node] + s * nodes[node + one]
        out[i] = total
