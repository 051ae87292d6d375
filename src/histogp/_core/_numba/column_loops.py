"""Moving non-zeros between dense rows, sparse rows and columns."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

from histogp._core.threads import leaf


@leaf
def count_in_rows(dense, first, last, out):
    """``out[i] =`` number of non-zeros of ``dense[i]`` for the rows ``first..last``; dense (N, D), out (N,)."""
    for i in range(first, last):
        count = 0
        for d in range(dense.shape[1]):
            count += dense[i, d] != 0
        out[i] = count


@leaf
def gather_rows(dense, indptr, first, last, column_of, values):
    """Write the non-zeros of the rows ``first..last``; indptr (N + 1,), column_of, values (nnz,)."""
    for i in range(first, last):
        k = indptr[i]
        for d in range(dense.shape[1]):
            if dense[i, d] != 0:
                column_of[k] = d
                values[k] = dense[i, d]
                k += 1


@leaf
def scatter_rows(indptr, column_of, values, first, last, dense):
    """The inverse of `gather_rows`; dense (N, D) is overwritten."""
    for i in range(first, last):
        for d in range(dense.shape[1]):
            dense[i, d] = 0
        for k in range(indptr[i], indptr[i + 1]):
            dense[i, column_of[k]] = values[k]


@leaf
def count_in_columns(dense, first, last, out):
    """``out[d] =`` number of non-zeros of the columns ``first..last``; dense (N, D), out (D,)."""
    for i in range(dense.shape[0]):
        for d in range(first, last):
            out[d] += dense[i, d] != 0


@leaf
def gather_columns(dense, first, last, cursor, row_of, values):
    """Write the non-zeros of the columns ``first..last``.

    cursor (D,) holds the start of each column and is consumed; row_of, values (nnz,).
    """
    for i in range(dense.shape[0]):
        for d in range(first, last):
            if dense[i, d] != 0:
                k = cursor[d]
                row_of[k] = i
                values[k] = dense[i, d]
                cursor[d] = k + 1


@leaf
def count(index, out):
    """``out[j] =`` how often j occurs in ``index`` (nnz,)."""
    for k in range(index.shape[0]):
        out[index[k]] += 1


@leaf
def add_up(index, values, out):
    """``out[j] +=`` the values whose index is j; index, values (nnz,)."""
    for k in range(index.shape[0]):
        out[index[k]] += values[k]


@leaf
def transpose(indptr, index, values, first, last, cursor, out_index, out_values):
    """Turn compressed rows into compressed columns, or back, keeping the order of the source.

    Fills the groups ``first..last`` of the result. indptr (n + 1,), index, values (nnz,); cursor (m,)
    holds the start of each group of the result and is consumed; out_index, out_values (nnz,).
    """
    for i in range(indptr.shape[0] - 1):
        for k in range(indptr[i], indptr[i + 1]):
            group = index[k]
            if first <= group < last:
                position = cursor[group]
                cursor[group] = position + 1
                out_index[position] = i
                out_values[position] = values[k]


@leaf
def merge_columns(indptr, row_of, values, more_indptr, more_row_of, more_values, out_indptr, out_row_of, out_values):
    """Merge two sets of sorted columns; on ties the first set comes first. All arrays as in the operator."""
    for column in range(indptr.shape[0] - 1):
        a, a_end = indptr[column], indptr[column + 1]
        b, b_end = more_indptr[column], more_indptr[column + 1]
        for k in range(out_indptr[column], out_indptr[column + 1]):
            if b == b_end or (a < a_end and values[a] <= more_values[b]):
                out_row_of[k] = row_of[a]
                out_values[k] = values[a]
                a += 1
            else:
                out_row_of[k] = more_row_of[b]
                out_values[k] = more_values[b]
                b += 1


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


def address_of(context, builder, array_type, array, row, column):
    """Pointer to ``array[row, column]``, in bytes; the array's rows are contiguous."""
    view = context.make_array(array_type)(context, builder, array)
    stride = cgutils.unpack_tuple(builder, view.strides)[0]
    start = builder.bitcast(view.data, ir.IntType(8).as_pointer())
    size = ir.Constant(stride.type, array_type.dtype.bitwidth // 8)
    return builder.gep(start, [builder.add(builder.mul(row, stride), builder.mul(column, size))])


@intrinsic
def prefetch(typing_context, array, row):
    """Ask the processor for ``array[row]``, a few steps before it is needed."""

    def generate(context, builder, signature, arguments):
        address = address_of(context, builder, array, *arguments, ir.Constant(arguments[1].type, 0))
        int32 = ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [address.type, int32, int32, int32])
        function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
        read, keep, data = (ir.Constant(int32, value) for value in (0, 3, 1))
        builder.call(function, [address, read, keep, data])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


# Hashes of rows are sums over their non-zeros, in any order, of numbers that look random: one with the bits b in column
# d counts as ``mix(b ^ (d + 1) STEP)``, all modulo 2^64. ``mix(z)`` is that of the generator SplitMix64 (Steele, Lea,
# and Flood, 2014): ``z ^= z >> 30``, ``z *= FIRST``, ``z ^= z >> 27``, ``z *= SECOND``, ``z ^= z >> 31``.
# As unsigned numbers: a signed one beside them would make them floats.
STEP, FIRST, SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_0, _1, _27, _30, _31 = (np.uint64(number) for number in (0, 1, 27, 30, 31))


@leaf
def hash_dense_rows(bits, out):
    """``out[i] = sum_d mix(bits[i, d] ^ (d + 1) STEP)`` over what is neither 0.0 nor -0.0; bits (N, D), out (N,)."""
    for i in range(bits.shape[0]):
        total = _0
        for d in range(bits.shape[1]):
            z = bits[i, d] ^ (np.uint64(d + 1) * STEP)
            z = (z ^ (z >> _30)) * FIRST
            z = (z ^ (z >> _27)) * SECOND
            # Without the sign; computed for zeros as well, so that nothing has to be guessed.
            total += (z ^ (z >> _31)) if bits[i, d] << _1 != _0 else _0
        out[i] = total


@leaf
def hash_sparse_rows(indptr, column_of, bits, first, last, out):
    """``out[i] = sum_k mix(bits[k] ^ (column_of[k] + 1) STEP)`` over the non-zeros of the rows ``first..last``.

    indptr (N + 1,); column_of, bits (nnz,); out (N,)
    """
    for i in range(first, last):
        total = _0
        for k in range(indptr[i], indptr[i + 1]):
            z = bits[k] ^ ((np.uint64(column_of[k]) + _1) * STEP)
            z = (z ^ (z >> _30)) * FIRST
            z = (z ^ (z >> _27)) * SECOND
            total += (z ^ (z >> _31)) if bits[k] << _1 != _0 else _0
        out[i] = total
