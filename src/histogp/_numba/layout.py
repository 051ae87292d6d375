"""Moving non-zeros between dense rows, sparse rows and columns."""

from __future__ import annotations

from histogp._numba.jit import leaf


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
