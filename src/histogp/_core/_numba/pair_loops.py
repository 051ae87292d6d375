"""Sums over pairs of samples."""

from __future__ import annotations

from histogp._core.threads import leaf


@leaf
def sums_above(weights, columns, first, last, out):
    """``out[d, i] = sum_j weights[i, j] ([x_id < x_jd] + [x_id <= x_jd]) / 2`` for the samples ``first..last``.

    weights (N, N); columns, out (D, N): the samples' features, one row each.
    """
    half = weights.dtype.type(0.5)
    zero = weights.dtype.type(0)
    for i in range(first, last):
        for d in range(columns.shape[0]):
            own = columns[d, i]
            below = zero
            upto = zero
            for j in range(columns.shape[1]):
                weight = weights[i, j]
                below += weight if own < columns[d, j] else zero
                upto += weight if own <= columns[d, j] else zero
            out[d, i] = half * (below + upto)
