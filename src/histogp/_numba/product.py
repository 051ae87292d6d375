"""Sums of minima: products of a histogram intersection kernel with vectors, and its columns.

For one column of the data with heights ``h_1 <= ... <= h_n`` and the suffix sums
``B_k = sum_{j >= k} v_j``::

    out_k = sum_j min(h_k, h_j) v_j = out_{k-1} + (h_k - h_{k-1}) B_k

so two sweeps give the exact product in time linear in the non-zeros (gp-hik-ijcv2016, eq. 9).

The loops carry `LANES` numbers at a time in vector registers. Numba has no type for that, and its
automatic vectorisation keeps the sums in memory, which takes more than twice as long; hence the few
intrinsics below.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

from histogp._numba.jit import leaf
from histogp._numba.memory import address_of, prefetch

LANES = 16
PREFETCH_DISTANCE = 8
STRETCH = 256


class _Lanes(types.Type):
    """`LANES` floating-point numbers in vector registers."""

    def __init__(self, dtype):
        self.dtype = dtype
        super().__init__(name=f"Lanes({dtype})")


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, lanes):
        number = manager.lookup(lanes.dtype).get_value_type()
        super().__init__(manager, lanes, ir.VectorType(number, LANES))


@intrinsic
def _load(typing_context, array, row, column):
    """The `LANES` numbers from ``array[row, column]`` on."""
    lanes = _Lanes(array.dtype)

    def generate(context, builder, signature, arguments):
        address = address_of(context, builder, array, *arguments)
        pointer = builder.bitcast(address, context.get_value_type(lanes).as_pointer())
        return builder.load(pointer, align=array.dtype.bitwidth // 8)

    return lanes(array, types.intp, types.intp), generate


@intrinsic
def _store(typing_context, lanes, array, row, column):
    """Write the lanes to ``array[row, column]`` and after."""

    def generate(context, builder, signature, arguments):
        address = address_of(context, builder, array, *arguments[1:])
        pointer = builder.bitcast(address, arguments[0].type.as_pointer())
        builder.store(arguments[0], pointer, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(lanes, array, types.intp, types.intp), generate


@intrinsic
def _broadcast(typing_context, number):
    """`LANES` copies of a number."""
    lanes = _Lanes(number)

    def generate(context, builder, signature, arguments):
        int32 = ir.IntType(32)
        vector = ir.Constant(context.get_value_type(lanes), ir.Undefined)
        vector = builder.insert_element(vector, arguments[0], ir.Constant(int32, 0))
        zeros = ir.Constant(ir.VectorType(int32, LANES), [0] * LANES)
        return builder.shuffle_vector(vector, vector, zeros)

    return lanes(number), generate


@intrinsic
def _add(typing_context, a, b):
    return a(a, b), lambda context, builder, signature, arguments: builder.fadd(*arguments)


@intrinsic
def _subtract(typing_context, a, b):
    return a(a, b), lambda context, builder, signature, arguments: builder.fsub(*arguments)


@intrinsic
def _multiply(typing_context, a, b):
    return a(a, b), lambda context, builder, signature, arguments: builder.fmul(*arguments)


@intrinsic
def _minimum(typing_context, a, b):
    def generate(context, builder, signature, arguments):
        return builder.select(builder.fcmp_ordered("<", *arguments), *arguments)

    return a(a, b), generate


@leaf
def multiply_block(indptr, row_of, heights, vectors, first, last, suffix, out):
    """``out += sum over columns first..last of K_d @ vectors``.

    indptr (D + 1,), row_of (nnz,), heights (nnz,) ascending within a column; vectors, out (N, LANES).
    suffix (N // STRETCH + 1, LANES) is scratch: the sums B_k at every STRETCH-th position, added up from
    the top. From there on they are only taken down by a stretch, which keeps the sums above a few
    large heights exact also in single precision.
    """
    final = row_of.shape[0] - 1
    zero = heights.dtype.type(0)
    for column in range(first, last):
        begin, end = indptr[column], indptr[column + 1]
        n_stretches = (end - begin + STRETCH - 1) // STRETCH
        for stretch in range(n_stretches):
            total = _broadcast(zero)
            for k in range(begin + stretch * STRETCH, min(begin + (stretch + 1) * STRETCH, end)):
                prefetch(vectors, row_of[min(k + PREFETCH_DISTANCE, final)])
                total = _add(total, _load(vectors, row_of[k], 0))
            _store(total, suffix, stretch, 0)
        for step in range(1, n_stretches):
            stretch = n_stretches - 1 - step
            _store(_add(_load(suffix, stretch, 0), _load(suffix, stretch + 1, 0)), suffix, stretch, 0)
        below = zero
        value = _broadcast(zero)
        for stretch in range(n_stretches):
            remaining = _load(suffix, stretch, 0)
            for k in range(begin + stretch * STRETCH, min(begin + (stretch + 1) * STRETCH, end)):
                ahead = row_of[min(k + PREFETCH_DISTANCE, final)]
                prefetch(vectors, ahead)
                prefetch(out, ahead)
                row = row_of[k]
                value = _add(value, _multiply(_broadcast(heights[k] - below), remaining))
                below = heights[k]
                remaining = _subtract(remaining, _load(vectors, row, 0))
                _store(_add(_load(out, row, 0), value), out, row, 0)


@leaf
def multiply_vector(indptr, row_of, heights, vector, first, last, suffix, out):
    """`multiply_block` for a single vector: vector, out (N,); suffix (N // STRETCH + 1,)."""
    zero = heights.dtype.type(0)
    for column in range(first, last):
        begin, end = indptr[column], indptr[column + 1]
        n_stretches = (end - begin + STRETCH - 1) // STRETCH
        for stretch in range(n_stretches):
            k = begin + stretch * STRETCH
            stop = min(k + STRETCH, end)
            # Four sums side by side: one alone would wait for each addition to finish.
            sum_0, sum_1, sum_2, sum_3 = zero, zero, zero, zero
            while k + 4 <= stop:
                sum_0 += vector[row_of[k]]
                sum_1 += vector[row_of[k + 1]]
                sum_2 += vector[row_of[k + 2]]
                sum_3 += vector[row_of[k + 3]]
                k += 4
            while k < stop:
                sum_0 += vector[row_of[k]]
                k += 1
            suffix[stretch] = (sum_0 + sum_1) + (sum_2 + sum_3)
        for step in range(1, n_stretches):
            stretch = n_stretches - 1 - step
            suffix[stretch] += suffix[stretch + 1]
        below = zero
        value = zero
        for stretch in range(n_stretches):
            remaining = suffix[stretch]
            for k in range(begin + stretch * STRETCH, min(begin + (stretch + 1) * STRETCH, end)):
                row = row_of[k]
                value += (heights[k] - below) * remaining
                below = heights[k]
                remaining -= vector[row]
                out[row] += value


@leaf
def add_to_levels(indptr, level_of, vector, first, last, out):
    """``out[level] += vector[i]`` for every level of the rows ``first..last``; vector (N,), out (n_levels,)."""
    for i in range(first, last):
        value = vector[i]
        for k in range(indptr[i], indptr[i + 1]):
            out[level_of[k]] += value


@leaf
def add_block_to_levels(indptr, level_of, vectors, first, last, out):
    """The same for a block: vectors (N, LANES), out (n_levels, LANES)."""
    for i in range(first, last):
        value = _load(vectors, i, 0)
        for k in range(indptr[i], indptr[i + 1]):
            level = level_of[k]
            _store(_add(_load(out, level, 0), value), out, level, 0)


@leaf
def read_levels(indptr, level_of, values, first, last, out):
    """``out[i] = sum of values[level]`` over the levels of the rows ``first..last``; values (n_levels,), out (N,)."""
    zero = values.dtype.type(0)
    for i in range(first, last):
        k, stop = indptr[i], indptr[i + 1]
        sum_0, sum_1, sum_2, sum_3 = zero, zero, zero, zero
        while k + 4 <= stop:
            sum_0 += values[level_of[k]]
            sum_1 += values[level_of[k + 1]]
            sum_2 += values[level_of[k + 2]]
            sum_3 += values[level_of[k + 3]]
            k += 4
        while k < stop:
            sum_0 += values[level_of[k]]
            k += 1
        out[i] = (sum_0 + sum_1) + (sum_2 + sum_3)


@leaf
def read_block_of_levels(indptr, level_of, values, first, last, out):
    """The same for a block: values (n_levels, LANES), out (N, LANES)."""
    zero = values.dtype.type(0)
    for i in range(first, last):
        total = _broadcast(zero)
        for k in range(indptr[i], indptr[i + 1]):
            total = _add(total, _load(values, level_of[k], 0))
        _store(total, out, i, 0)


@leaf
def intersect(indptr, column_of, heights, table, first, last, out):
    """``out[i, b] = sum_d min(heights_id, table[d, b])`` for the rows ``first..last``.

    indptr (N + 1,), column_of, heights (nnz,) compressed rows; table (D, 2 LANES); out (N, 2 LANES).
    """
    zero = heights.dtype.type(0)
    for i in range(first, last):
        left = _broadcast(zero)
        right = _broadcast(zero)
        for k in range(indptr[i], indptr[i + 1]):
            column = column_of[k]
            height = _broadcast(heights[k])
            left = _add(left, _minimum(height, _load(table, column, 0)))
            right = _add(right, _minimum(height, _load(table, column, LANES)))
        _store(left, out, i, 0)
        _store(right, out, i, LANES)


@leaf
def quadratic_forms(indptr, row_of, profiles, left, right, sums, first, last, totals, out):
    """``out[d, p, g] += sum_s sums[s, g] left_s^T Q_dp right_s`` with ``Q_dp[i, j] = profile_p(min(x_id, x_jd))``.

    Because a profile is zero at zero, a form is ``sum_k (q_k - q_{k-1}) L_k R_k`` with the suffix sums L, R of
    left and right. profiles (P, nnz); left, right (N, LANES); sums (LANES, G); out (D, P, G).
    totals (P, LANES) is scratch.
    """
    zero = profiles.dtype.type(0)
    for column in range(first, last):
        begin, end = indptr[column], indptr[column + 1]
        for p in range(profiles.shape[0]):
            _store(_broadcast(zero), totals, p, 0)
        suffix_left = _broadcast(zero)
        suffix_right = _broadcast(zero)
        for step in range(end - begin):
            k = end - 1 - step
            row, ahead = row_of[k], row_of[max(k - PREFETCH_DISTANCE, 0)]
            prefetch(left, ahead)
            prefetch(right, ahead)
            suffix_left = _add(suffix_left, _load(left, row, 0))
            suffix_right = _add(suffix_right, _load(right, row, 0))
            form = _multiply(suffix_left, suffix_right)
            for p in range(profiles.shape[0]):
                below = profiles[p, k - 1] if k > begin else zero
                weighted = _multiply(_broadcast(profiles[p, k] - below), form)
                _store(_add(_load(totals, p, 0), weighted), totals, p, 0)
        for p in range(profiles.shape[0]):
            for s in range(LANES):
                for g in range(sums.shape[1]):
                    out[column, p, g] += totals[p, s] * sums[s, g]
