"""Measures of pairs of samples, and what their derivatives come to.

Inner loops run over samples, not over features, so that they need no order of summation and become vector instructions.
"""

from __future__ import annotations

import numpy as np

from histogp._core.threads import leaf


@leaf
def absolute_differences(left, table, first, last, begin, out):
    """``out[i, begin + j] = sum_d |left_id - table_dj|`` for the rows ``first..last`` of the left.

    left (n, D); table (D, m); out (n, >= begin + m).
    """
    total = np.empty(table.shape[1], out.dtype)
    for i in range(first, last):
        total[:] = 0
        for d in range(table.shape[0]):
            own = left[i, d]
            for j in range(table.shape[1]):
                total[j] += abs(own - table[d, j])
        out[i, begin : begin + len(total)] = total


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
