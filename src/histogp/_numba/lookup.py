"""Exact evaluation of ``sum_i min(h_i, x) alpha_i`` by binary search and prefix tables.

In one column the sum is ``A_k + x B_k`` with ``A_k = sum_{j < k} h_j alpha_j``,
``B_k = sum_{j >= k} alpha_j`` and k the number of heights below x (gp-hik-ijcv2016, eq. 7 and 8).
Only every ``stride``-th pair (A_k, B_k) is stored; the few terms in between are summed directly.
"""

from __future__ import annotations

import numpy as np

from histogp._numba.jit import leaf


@leaf
def fill_checkpoints(indptr, row_of, heights, alpha, stride, starts, first, last, out):
    """Write the pairs (A, B) of every ``stride``-th position of the columns ``first..last``.

    alpha (N, M); starts (D + 1,) where a column's checkpoints begin; out (n_checkpoints, 2, M).
    """
    width = alpha.shape[1]
    prefix = np.zeros(width)
    suffix = np.zeros(width)
    for column in range(first, last):
        begin, end = indptr[column], indptr[column + 1]
        for m in range(width):
            prefix[m] = 0
            suffix[m] = 0
        for k in range(begin, end):
            row = row_of[k]
            for m in range(width):
                suffix[m] += alpha[row, m]
        checkpoint = starts[column]
        for k in range(begin, end + 1):
            if (k - begin) % stride == 0:
                for m in range(width):
                    out[checkpoint, 0, m] = prefix[m]
                    out[checkpoint, 1, m] = suffix[m]
                checkpoint += 1
            if k < end:
                row = row_of[k]
                for m in range(width):
                    prefix[m] += heights[k] * alpha[row, m]
                    suffix[m] -= alpha[row, m]


@leaf
def look_up(
    indptr, row_of, heights, alpha, stride, starts, checkpoints, x_indptr, x_column_of, x_heights, first, last, out
):
    """``out[i] = sum_d (A + x B)`` for the compressed test rows ``first..last``; out (n, M)."""
    width = alpha.shape[1]
    for i in range(first, last):
        for e in range(x_indptr[i], x_indptr[i + 1]):
            column = x_column_of[e]
            x = x_heights[e]
            begin = indptr[column]
            low, high = begin, indptr[column + 1]
            if low == high:
                continue
            while low < high:
                middle = (low + high) >> 1
                if heights[middle] < x:
                    low = middle + 1
                else:
                    high = middle
            block = (low - begin) // stride
            checkpoint = starts[column] + block
            for m in range(width):
                out[i, m] += checkpoints[checkpoint, 0, m] + x * checkpoints[checkpoint, 1, m]
            for k in range(begin + block * stride, low):
                row = row_of[k]
                below = heights[k] - x
                for m in range(width):
                    out[i, m] += below * alpha[row, m]
