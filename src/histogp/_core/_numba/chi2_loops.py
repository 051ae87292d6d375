"""Terms of the direct expansion of the chi-squared kernel, and the kernel itself."""

from __future__ import annotations

import numpy as np

from histogp._core.threads import leaf


@leaf
def expand_direct(values, points, roots, first, last, out):
    """Eq. 6 of chi2-linear-approximation for the rows ``first..last``.

    values (n, D); points and roots, ``2 sqrt(points)``, (T, D); out (n, T, D).
    """
    n_terms, width = points.shape
    carry = np.empty(width, values.dtype)
    for i in range(first, last):
        for d in range(width):
            carry[d] = values[i, d]
        for t in range(n_terms):
            for d in range(width):
                inverse = carry.dtype.type(1) / (values[i, d] + points[t, d])
                out[i, t, d] = carry[d] * inverse * roots[t, d]
                carry[d] *= (values[i, d] - points[t, d]) * inverse


@leaf
def chi2_sums(left, right, left_factors, right_factors, weights, first, last, out):
    """``out[i, j] = sum_d w_d f_id g_jd 2 x_id y_jd / (x_id + y_jd)`` for the rows ``first..last`` of the left.

    left, left_factors (n, D); right, right_factors (m, D); weights (D,); out (n, m).
    """
    width = left.shape[1]
    for i in range(first, last):
        for j in range(right.shape[0]):
            total = 0.0
            for d in range(width):
                x, y = left[i, d], right[j, d]
                if x > 0.0 and y > 0.0:
                    total += weights[d] * left_factors[i, d] * right_factors[j, d] * (2.0 * x * (y / (x + y)))
            out[i, j] = total
