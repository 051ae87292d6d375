"""Tables of ``f(x) = sum_i min(h_i, x) alpha_i`` on a grid, one column of the data after the other.

Column d has its nodes in the rows ``starts[d]..starts[d + 1]`` of the table. The table ends with one row more,
so that the node after any other may be read (see `reading`). Places are those of the nodes, (starts[D],),
ascending from 0 within a column.
"""

from __future__ import annotations

import numpy as np

from histogp._numba.jit import leaf


@leaf
def crowding(indptr, row_of, heights, importance, top, n_bins, first, last, out):
    """``sum_k (c_k (b_k - a_k))^2`` over the bins [a_k, b_k] with c_k the importance in there: small is good.

    A bin cuts kinks off, about ``c_k (b_k - a_k)`` of them, and does so for about c_k of the data.
    importance (N,), of each example; top (D,), where the grid of each column ends; out (D, C), for grids of
    1..C octaves of n_bins bins, in units of ``top^2``.
    """
    for column in range(first, last):
        begin, end = indptr[column], indptr[column + 1]
        inside = heights[begin:end]
        before = np.zeros(end - begin + 1)
        for e in range(begin, end):
            before[e - begin + 1] = before[e - begin] + importance[row_of[e]]
        for c in range(out.shape[1]):
            width = 1 / (n_bins * (2.0 ** (c + 1) - 1))
            total = 0.0
            below = 0
            place = 0.0
            for _ in range(c + 1):
                for k in range(n_bins):
                    upto = np.searchsorted(inside, (place + (k + 1) * width) * top[column], side="right")
                    total += ((before[upto] - before[below]) * width) ** 2
                    below = upto
                place += n_bins * width
                width *= 2
            out[column, c] = total


@leaf
def fill_nodes(indptr, row_of, heights, alpha, starts, places, first, last, out):
    """Write ``f`` at the nodes of the columns ``first..last`` (gp-hik-ijcv2016, eq. 10).

    alpha (N, M); out (starts[D] + 1, M). No terms cancel: the examples above a node are added up from the
    top, those below it from the bottom.
    """
    width = alpha.shape[1]
    total = np.zeros(width)
    for column in range(first, last):
        begin, end = indptr[column], indptr[column + 1]
        total[:] = 0
        e = end - 1
        for k in range(starts[column + 1] - 1, starts[column] - 1, -1):
            while e >= begin and heights[e] > places[k]:
                row = row_of[e]
                for m in range(width):
                    total[m] += alpha[row, m]
                e -= 1
            for m in range(width):
                out[k, m] = places[k] * total[m]
        total[:] = 0
        e = begin
        for k in range(starts[column], starts[column + 1]):
            while e < end and heights[e] <= places[k]:
                row = row_of[e]
                for m in range(width):
                    total[m] += heights[e] * alpha[row, m]
                e += 1
            for m in range(width):
                out[k, m] += total[m]


@leaf
def weigh_bins(indptr, row_of, heights, alpha, starts, places, first, last, out):
    """Bound the error of interpolation in the columns ``first..last`` by the sums of ``|alpha|`` in a bin.

    out (D, M): the largest ``(b - a) / 4 sum |alpha_i|`` over the bins [a, b], plus the sum of
    ``(h_last - b) |alpha_i|`` over the examples beyond the last node b.
    """
    width = alpha.shape[1]
    total = np.zeros(width)
    for column in range(first, last):
        end = indptr[column + 1]
        for m in range(width):
            out[column, m] = 0
        e = indptr[column]
        last_node = starts[column + 1] - 1
        for k in range(starts[column], last_node):
            total[:] = 0
            while e < end and heights[e] <= places[k + 1]:
                row = row_of[e]
                for m in range(width):
                    total[m] += abs(alpha[row, m])
                e += 1
            quarter = (places[k + 1] - places[k]) / 4
            for m in range(width):
                out[column, m] = max(out[column, m], quarter * total[m])
        while e < end:
            row = row_of[e]
            for m in range(width):
                out[column, m] += (heights[end - 1] - places[last_node]) * abs(alpha[row, m])
            e += 1


@leaf
def extreme_errors(indptr, row_of, heights, alpha, starts, places, nodes, first, last, out):
    """Write the largest and the smallest error of interpolation in each of the columns ``first..last``.

    Both ``f`` and its interpolant are linear between neighbours among nodes and examples, and they agree
    at the nodes, so the extremes are at examples. nodes as `fill_nodes` gives them; out (D, 2, M).
    """
    width = alpha.shape[1]
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
        k, last_node = starts[column], starts[column + 1] - 1
        for e in range(begin, end):
            x = heights[e]
            while k < last_node and x > places[k + 1]:
                k += 1
            share = 0.0
            if k < last_node and places[k + 1] > places[k]:
                share = (x - places[k]) / (places[k + 1] - places[k])
            row = row_of[e]
            for m in range(width):
                below[m] += x * alpha[row, m]
                above[m] -= alpha[row, m]
                interpolated = (1 - share) * nodes[k, m] + share * nodes[k + 1, m]
                error = below[m] + x * above[m] - interpolated
                out[column, 0, m] = max(out[column, 0, m], error)
                out[column, 1, m] = min(out[column, 1, m], error)


@leaf
def smooth_nodes(indptr, row_of, heights, noise, starts, places, first, last, out):
    """Write the variance of Brownian motion at the nodes, given noisy observations of it at the heights of a column.

    One filter upwards and one downwards: the variance given the observations below, then the precision that those
    above add. noise (N,), the variance of each; out (starts[D] + 1,).
    """
    for column in range(first, last):
        begin, end = indptr[column], indptr[column + 1]
        variance, place = 0.0, 0.0
        e = begin
        for k in range(starts[column], starts[column + 1]):
            while e < end and heights[e] <= places[k]:
                variance += heights[e] - place
                place = heights[e]
                s = noise[row_of[e]]
                variance *= s / (variance + s)
                e += 1
            out[k] = variance + places[k] - place
        precision, place = 0.0, 0.0
        e = end - 1
        for k in range(starts[column + 1] - 1, starts[column] - 1, -1):
            while e >= begin and heights[e] > places[k]:
                precision /= 1 + precision * (place - heights[e])
                precision += 1 / noise[row_of[e]]
                place = heights[e]
                e -= 1
            above = precision / (1 + precision * (place - places[k]))
            out[k] /= 1 + out[k] * above
