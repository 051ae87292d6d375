"""Measures of pairs of samples, and what their derivatives come to.

Inner loops run over samples, not over features, so that they need no order of summation and become vector instructions.
"""

from __future__ import annotations

import numpy as np

from histogp._core.threads import leaf


@leaf
def absolute_differences(left, table, first, last, begin, out):
    """``out[i, begin + j] = sum_d |left_id - table_dj|`` for the rows ``first..last`` of the left.

    left (n, D); table (D, m); out (n, >= begin + m). Two rows and two features at a time, which takes three quarters of
    the time of one each: a number of the table that was read serves twice, and so does a sum.
    """
    n_features, m = table.shape
    one = np.empty(m, out.dtype)
    two = np.empty(m, out.dtype)
    for i in range(first, last, 2):
        k = min(i + 1, last - 1)
        one[:] = 0
        two[:] = 0
        for d in range(0, n_features - 1, 2):
            one_a, one_b, two_a, two_b = left[i, d], left[i, d + 1], left[k, d], left[k, d + 1]
            for j in range(m):
                a = table[d, j]
                b = table[d + 1, j]
                one[j] += abs(one_a - a) + abs(one_b - b)
                two[j] += abs(two_a - a) + abs(two_b - b)
        if n_features % 2:
            one_a, two_a = left[i, n_features - 1], left[k, n_features - 1]
            for j in range(m):
                a = table[n_features - 1, j]
                one[j] += abs(one_a - a)
                two[j] += abs(two_a - a)
        out[i, begin : begin + m] = one
        out[k, begin : begin + m] = two


@leaf
def chi2_differences(left, table, first, last, begin, out):
    """``out[i, begin + j] = sum_d (x - y)^2 / (x + y) / 2`` of non-negative ``x = left_id`` and ``y = table_dj``.

    left (n, D); table (D, m); out (n, >= begin + m).
    """
    half = out.dtype.type(0.5)
    tiny = out.dtype.type(1e-37)
    total = np.empty(table.shape[1], out.dtype)
    for i in range(first, last):
        total[:] = 0
        for d in range(table.shape[0]):
            own = left[i, d]
            for j in range(table.shape[1]):
                difference = own - table[d, j]
                total[j] += half * difference * (difference / max(own + table[d, j], tiny))
        out[i, begin : begin + len(total)] = total


@leaf
def harmonic_sums(indptr, column_of, values, table, first, last, begin, out):
    """``out[i, begin + j] = sum_d 2 x y / (x + y)`` of the compressed rows ``first..last`` with the table.

    indptr (n + 1,), column_of, values (nnz,), not negative; table (D, m); out (n, >= begin + m).
    """
    tiny = out.dtype.type(1e-37)
    total = np.empty(table.shape[1], out.dtype)
    for i in range(first, last):
        total[:] = 0
        for k in range(indptr[i], indptr[i + 1]):
            own = values[k]
            d = column_of[k]
            for j in range(table.shape[1]):
                total[j] += (own + own) * (table[d, j] / max(own + table[d, j], tiny))
        out[i, begin : begin + len(total)] = total


@leaf
def mirror(first, last, matrix):
    """``matrix[j, i] = matrix[i, j]`` for the rows ``first..last`` and j < i; matrix (n, n)."""
    for begin in range(0, last, 32):  # a few columns at a time, so that what is written stays in cache
        for i in range(max(first, begin + 1), last):
            for j in range(begin, min(begin + 32, i)):
                matrix[j, i] = matrix[i, j]


@leaf
def sums_above(weights, others, own, out):
    """``out[d, i] = sum_j weights[j, i] ([x_id < y_jd] + [x_id <= y_jd]) / 2``.

    weights (N, n); others (D, N), of the samples y; own, out (D, n), of the samples x: few, so that they stay in cache.
    """
    half = weights.dtype.type(0.5)
    zero = weights.dtype.type(0)
    out[:] = 0
    for j in range(weights.shape[0]):
        for d in range(own.shape[0]):
            other = others[d, j]
            for i in range(own.shape[1]):
                weight = weights[j, i]
                equal = half * weight if own[d, i] == other else zero
                out[d, i] += weight if own[d, i] < other else equal


@leaf
def sums_of_shares(weights, others, own, out):
    """``out[d, i] = sum_j weights[j, i] 2 y_jd^2 / (x_id + y_jd)^2`` for values that are not negative.

    weights (N, n); others (D, N), of the samples y; own, out (D, n), of the samples x: few, so that they stay in cache.
    """
    two = weights.dtype.type(2)
    tiny = weights.dtype.type(1e-37)
    out[:] = 0
    for j in range(weights.shape[0]):
        for d in range(own.shape[0]):
            other = others[d, j]
            for i in range(own.shape[1]):
                share = other / max(own[d, i] + other, tiny)
                out[d, i] += two * weights[j, i] * share * share
