"""The product of a histogram intersection kernel with vectors, by sweeps over sorted columns.

For one column with heights ``h_1 <= ... <= h_n`` and the suffix sums ``B_k = sum_{j >= k} v_j``::

    out_k = sum_j min(h_k, h_j) v_j = out_{k-1} + (h_k - h_{k-1}) B_k

so two sweeps give the exact product in time linear in the non-zeros (gp-hik-ijcv2016, eq. 9).
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from histogp._numba.jit import leaf

PREFETCH_DISTANCE = 8


@intrinsic
def _prefetch_row(typing_context, array, row):
    """Ask the processor for ``array[row]``, a few steps before it is read."""

    def generate(context, builder, signature, arguments):
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        stride = cgutils.unpack_tuple(builder, view.strides)[0]
        index = context.cast(builder, arguments[1], signature.args[1], types.intp)
        start = builder.bitcast(view.data, ir.IntType(8).as_pointer())
        address = builder.gep(start, [builder.mul(index, stride)])
        int32 = ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [address.type, int32, int32, int32])
        function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
        read, keep, data = (ir.Constant(int32, value) for value in (0, 3, 1))
        builder.call(function, [address, read, keep, data])
        return context.get_dummy_value()

    return types.void(array, row), generate


@leaf
def multiply_block(indptr, row_of, heights, vectors, first, last, out):
    """``out += sum over columns first..last of K_d @ vectors``.

    indptr (D + 1,), row_of (nnz,), heights (nnz,) ascending within a column; vectors, out (N, W).
    """
    width = vectors.shape[1]
    remaining = np.zeros(width, vectors.dtype)
    value = np.zeros(width, vectors.dtype)
    final = row_of.shape[0] - 1
    for column in range(first, last):
        begin, end = indptr[column], indptr[column + 1]
        for m in range(width):
            remaining[m] = 0
            value[m] = 0
        for k in range(begin, end):
            _prefetch_row(vectors, row_of[min(k + PREFETCH_DISTANCE, final)])
            row = row_of[k]
            for m in range(width):
                remaining[m] += vectors[row, m]
        below = heights.dtype.type(0)
        for k in range(begin, end):
            ahead = row_of[min(k + PREFETCH_DISTANCE, final)]
            _prefetch_row(vectors, ahead)
            _prefetch_row(out, ahead)
            row = row_of[k]
            step = heights[k] - below
            below = heights[k]
            for m in range(width):
                value[m] += step * remaining[m]
                remaining[m] -= vectors[row, m]
                out[row, m] += value[m]


@leaf
def multiply_vector(indptr, row_of, heights, vector, first, last, out):
    """`multiply_block` for a single vector: vector, out (N,)."""
    for column in range(first, last):
        begin, end = indptr[column], indptr[column + 1]
        zero = vector.dtype.type(0)
        # Four sums side by side: one alone would wait for each addition to finish.
        sum_0, sum_1, sum_2, sum_3 = zero, zero, zero, zero
        k = begin
        while k + 4 <= end:
            sum_0 += vector[row_of[k]]
            sum_1 += vector[row_of[k + 1]]
            sum_2 += vector[row_of[k + 2]]
            sum_3 += vector[row_of[k + 3]]
            k += 4
        while k < end:
            sum_0 += vector[row_of[k]]
            k += 1
        remaining = (sum_0 + sum_1) + (sum_2 + sum_3)
        below = heights.dtype.type(0)
        value = zero
        for k in range(begin, end):
            row = row_of[k]
            value += (heights[k] - below) * remaining
            below = heights[k]
            remaining -= vector[row]
            out[row] += value


@leaf
def quadratic_forms(indptr, row_of, profiles, left, right, first, last, out):
    """``out[d, p] = sum_s left_s^T Q_dp right_s`` with ``Q_dp[i, j] = profile_p(min(x_id, x_jd))``.

    Because a profile is zero at zero, the form is ``sum_k (q_k - q_{k-1}) sum_s L_ks R_ks`` with the
    suffix sums L, R of left and right. profiles (P, nnz); left, right (N, S); out (D, P).
    """
    width = left.shape[1]
    count = profiles.shape[0]
    suffix_left = np.zeros(width)
    suffix_right = np.zeros(width)
    for column in range(first, last):
        begin, end = indptr[column], indptr[column + 1]
        for s in range(width):
            suffix_left[s] = 0
            suffix_right[s] = 0
        for step in range(end - begin):
            k = end - 1 - step
            row = row_of[k]
            inner = 0.0
            for s in range(width):
                suffix_left[s] += left[row, s]
                suffix_right[s] += right[row, s]
                inner += suffix_left[s] * suffix_right[s]
            for p in range(count):
                below = profiles[p, k - 1] if k > begin else 0.0
                out[column, p] += (profiles[p, k] - below) * inner
