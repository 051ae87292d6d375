"""Tables whose nodes lie at training values, found by a guide and a short binary search."""

from __future__ import annotations

import numpy as np
from numba.extending import register_jitable

from histogp._core._numba.column_loops import prefetch
from histogp._core.threads import leaf


@leaf
def choose_nodes(indptr, heights, most, starts, first, last, counts, out):
    """Write nodes for the columns ``first..last``: zero, then all distinct heights, or at most ``most`` of them.

    If there are more, one half is spread evenly over the samples and the other half over the range; both ends of a gap
    that is twice as wide as an even spread are among them.
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
            if e + 1 < end and (heights[e + 1] - heights[e]) * half > 2 * heights[end - 1]:
                take = True  # one node after the gap serves for two places in it, so that there is room
            if take and heights[e] > out[node]:
                node += 1
                out[node] = heights[e]
        counts[column] = node + 1 - starts[column]


@leaf
def gap_sums(indptr, nodes, shares, spreads, first, last, out):
    """``out[i] = sum_e s_e (1 - s_e) spreads[nodes_e]`` over the entries e of the rows ``first..last``.

    indptr (n + 1,); nodes, shares (nnz,); spreads (n_nodes,); out (n,).
    """
    for i in range(first, last):
        total = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            total += shares[e] * (1 - shares[e]) * spreads[nodes[e]]
        out[i] = total


@leaf
def locate(indptr, column_of, values, starts, places, is_gap, per_bucket, guide, first, last, nodes, shares, out):
    """Find the last node at or below each value of the rows ``first..last``.

    starts (D + 1,); places, is_gap (starts[D] + 1,), ascending from 0 in each column, and whether no training value
    lies between a place and the next; guide (D, B + 1), the last node before each bucket of a column, where the bucket
    of x is the integer part of ``sqrt(x per_bucket)``. Written are nodes (nnz,), the number of the node, shares (nnz,),
    the place s between it and the next one, from 0 to 1, or 0 beyond the last node, and out (n,), by how much the
    values of a row exceed the last nodes, and ``s (1 - s)`` times the width of a gap.
    """
    last_bucket = guide.shape[1] - 2
    for i in range(first, last):
        beyond = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            column, x = column_of[e], values[e]
            high = starts[column + 1] - 1
            if x >= places[high]:
                nodes[e] = high
                shares[e] = 0.0
                beyond += x - places[high]
            else:
                bucket = min(int(np.sqrt(x * per_bucket[column])), last_bucket)
                low, high = np.int64(guide[column, bucket]), np.int64(guide[column, bucket + 1]) + 1
                while low + 1 < high:
                    middle = (low + high) >> 1
                    if places[middle] <= x:
                        low = middle
                    else:
                        high = middle
                width = places[low + 1] - places[low]
                share = (x - places[low]) / width
                nodes[e] = low
                shares[e] = share
                if is_gap[low]:
                    beyond += share * (1 - share) * width
        out[i] = beyond


@leaf
def read_located(indptr, nodes, shares, table, first, last, total, out):
    """Add up a table over the non-zeros of the rows ``first..last``, interpolated between neighboring nodes.

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


@leaf
def crowding(indptr, row_of, heights, importance, top, n_bins, first, last, out):
    """``sum_k (c_k (b_k - a_k))^2`` over the bins [a_k, b_k] with c_k the importance in there: small is good.

    A bin cuts kinks off, about ``c_k (b_k - a_k)`` of them, and does so for about c_k of the data.
    importance (N,), of each sample; top (D,), where the grid of each column ends; out (D, C), for grids of
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

    alpha (N, M); out (starts[D] + 1, M). No terms cancel: the samples above a node are added up from the
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
    ``(h_last - b) |alpha_i|`` over the samples beyond the last node b.
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

    Both ``f`` and its interpolant are linear between neighbors among nodes and samples, and they agree
    at the nodes, so the extremes are at samples. nodes as `fill_nodes` gives them; out (D, 2, M).
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


# float64 as integers: between two powers of two they are linear in the number.
_BITS_OF_ONE = int(np.float64(1).view(np.int64))
_PER_OCTAVE = 2.0**-52
# Places that are found before they are read, so that the reads do not wait for each other; they must fit into the
# fastest cache.
_AT_ONCE = 32


@register_jitable
def _position(value, per_unit, per_bit, end):
    bits = np.float64(1 + value * per_unit).view(np.int64)
    return max(min((bits - _BITS_OF_ONE) * per_bit, end), 0.0)


@leaf
def read_block(indptr, column_of, values, per_unit, starts, ends, nodes, n_bins, shift, blend, first, last, total, out):
    """Add up the table over the non-zeros of the rows ``first..last``, several outputs at once.

    A value at t is read as ``(1 - s) node_k + s node_(k + 1)`` with ``k = floor(t + shift)``, ``s = blend (t - k)``:
    shift 0 and blend 1 interpolate, shift 1/2 and blend 0 take the nearest node.
    nodes (starts[D] + 1, M), in double or single precision; total (M,), of the same, is scratch; out (n, M).
    """
    # Unsigned numbers throughout: Numba would test signed ones for indices below zero.
    one, at_once, width = np.uint64(1), np.uint64(_AT_ONCE), np.uint64(nodes.shape[1])
    per_bit = _PER_OCTAVE * n_bins
    node_of = np.empty(at_once, np.int64)
    share_of = np.empty(at_once, nodes.dtype)
    for i in range(np.uint64(first), np.uint64(last)):
        total[:] = 0
        begin, end = np.uint64(indptr[i]), np.uint64(indptr[i + one])
        while begin < end:
            count = min(end - begin, at_once)
            for e in range(count):
                column = np.uint64(column_of[begin + e])
                t = _position(values[begin + e], per_unit[column], per_bit, ends[column])
                k = np.floor(t + shift)
                share_of[e] = blend * (t - k)
                node_of[e] = starts[column] + np.int64(k)
                prefetch(nodes, node_of[e])
                prefetch(nodes, node_of[e] + 1)
            for e in range(count):
                node, s = np.uint64(node_of[e]), share_of[e]
                below, above = nodes[node], nodes[node + one]
                for m in range(width):
                    total[m] += below[m] + s * (above[m] - below[m])
            begin += count
        for m in range(width):
            out[i, m] = total[m]


@leaf
def read_one(indptr, column_of, values, per_unit, starts, ends, nodes, n_bins, shift, blend, first, last, out):
    """Like `read_block` for a single output, twice as fast there; nodes (starts[D] + 1,), out (n,)."""
    one, at_once = np.uint64(1), np.uint64(_AT_ONCE)
    per_bit = _PER_OCTAVE * n_bins
    node_of = np.empty(at_once, np.int64)
    share_of = np.empty(at_once)
    for i in range(np.uint64(first), np.uint64(last)):
        total = 0.0
        begin, end = np.uint64(indptr[i]), np.uint64(indptr[i + one])
        while begin < end:
            count = min(end - begin, at_once)
            for e in range(count):
                column = np.uint64(column_of[begin + e])
                t = _position(values[begin + e], per_unit[column], per_bit, ends[column])
                k = np.floor(t + shift)
                share_of[e] = blend * (t - k)
                node_of[e] = starts[column] + np.int64(k)
            for e in range(count):
                node, s = np.uint64(node_of[e]), share_of[e]
                total += (1 - s) * nodes[node] + s * nodes[node + one]
            begin += count
        out[i] = total
