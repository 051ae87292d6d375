"""Exact evaluation of ``sum_i min(h_i, x) alpha_i`` by binary search and prefix tables.

A sorted column is cut into blocks of ``stride`` entries. With A the sum of ``h_j alpha_j`` before the
block that x falls into and B the sum of ``alpha_j`` after it, the sum is

    A + sum_{j in block} min(h_j, x) alpha_j + x B

(gp-hik-ijcv2016, eq. 7 and 8, where a block is a single entry). No terms cancel.
"""

from __future__ import annotations

import numpy as np

from histogp._numba.jit import leaf


@leaf
def fill_blocks(indptr, row_of, heights, alpha, stride, starts, first, last, out):
    """Write the pairs (A, B) of all blocks of the columns ``first..last``.

    alpha (N, M); starts (D + 1,) where a column's blocks begin; out (n_blocks, 2, M).
    """
    width = alpha.shape[1]
    total = np.zeros(width)
    for column in range(first, last):
        begin, end = indptr[column], indptr[column + 1]
        total[:] = 0
        for k in range(begin, end):
            if (k - begin) % stride == 0:
                out[starts[column] + (k - begin) // stride, 0] = total
            row = row_of[k]
            for m in range(width):
                total[m] += heights[k] * alpha[row, m]
        total[:] = 0
        for step in range(end - begin):
            k = end - 1 - step
            if k == end - 1 or (k - begin) % stride == stride - 1:
                out[starts[column] + (k - begin) // stride, 1] = total
            row = row_of[k]
            for m in range(width):
                total[m] += alpha[row, m]


@leaf
def look_up(indptr, row_of, heights, alpha, stride, starts, blocks, x_indptr, x_row_of, x_heights, out):
    """Add the sum over all columns to ``out``, (n, M), for n test rows given as compressed columns.

    Going through the test data by column keeps one column's tables in the cache.
    x_indptr (D + 1,); x_row_of, x_heights (nnz of the test rows,).
    """
    width = alpha.shape[1]
    for column in range(indptr.shape[0] - 1):
        begin, end = indptr[column], indptr[column + 1]
        if begin == end:
            continue
        for e in range(x_indptr[column], x_indptr[column + 1]):
            i = x_row_of[e]
            x = x_heights[e]
            # The last block that begins below x, or the first one.
            low, high = 0, (end - begin - 1) // stride
            while low < high:
                middle = (low + high + 1) >> 1
                if heights[begin + middle * stride] < x:
                    low = middle
                else:
                    high = middle - 1
            block = starts[column] + low
            for m in range(width):
                out[i, m] += blocks[block, 0, m] + x * blocks[block, 1, m]
            for k in range(begin + low * stride, min(begin + (low + 1) * stride, end)):
                row = row_of[k]
                smaller = min(heights[k], x)
                for m in range(width):
                    out[i, m] += smaller * alpha[row, m]
