"""Equal rows of data: a hash of their content, and numbers for the distinct ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from histogp._core._numba import hash_loops
from histogp._core.data import SLICE_NONZEROS, Array, Rows
from histogp._core.threads import over_rows, run

# Where the sum over the non-zeros of a row starts.
SEED = np.uint64(0x6A09E667F3BCC908)


def content_hash(X: Any, n_threads: int = 1) -> Array:
    """A number for each row of an array, CSR or `Rows`, (N,) uint64, that looks random.

    It depends on the columns and values of the non-zeros alone: not on the container, on whether the same numbers are
    in single or double precision, on zeros that are stored, or on the number of columns.
    """
    if sparse.issparse(X):
        X = Rows.from_array(X)
    out = np.empty(X.shape[0], np.uint64)
    if isinstance(X, Rows):
        bits = X.values.view(np.uint64)
        run(
            lambda first, last: hash_loops.hash_sparse_rows(X.indptr, X.column_of, bits, first, last, out),
            X.parts(n_threads),
        )
    else:

        def hash_rows(some: slice) -> None:
            bits = np.ascontiguousarray(X[some], np.float64).view(np.uint64)
            hash_loops.hash_dense_rows(bits, out[some])

        over_rows(hash_rows, len(X), n_threads, max(1, SLICE_NONZEROS // max(1, X.shape[1])))
    # As `mix` of the compiled loops: a sum of few numbers would look less random than they do.
    out += SEED
    out = (out ^ (out >> np.uint64(30))) * hash_loops.FIRST
    out = (out ^ (out >> np.uint64(27))) * hash_loops.SECOND
    return out ^ (out >> np.uint64(31))


@dataclass(frozen=True, eq=False)
class NumberedRows:
    """Samples with equal features have the same row.

    row_of : (n,), the number of the row of each sample
    first : (m,), the samples that have brought a new row, ascending
    hashes : (n_rows,), of the content of all rows
    """

    row_of: Array
    first: Array
    hashes: Array


def number_rows(X: Any, n_threads: int = 1) -> NumberedRows:
    """Numbers of the distinct rows of an array, CSR or `Rows`, in the order in which they first appear."""
    hashes = content_hash(X, n_threads)
    first = np.arange(len(hashes))
    in_order = np.sort(hashes)
    several = in_order[1:][in_order[1:] == in_order[:-1]]
    if len(several) == 0:
        return NumberedRows(first, first, hashes)
    some = np.flatnonzero(np.isin(hashes, several))
    first[some] = some[_first_equal(hashes[some], Rows.some_of(X, some))]
    distinct = np.flatnonzero(first == np.arange(len(first)))
    return NumberedRows(np.searchsorted(distinct, first), distinct, hashes[distinct])


def number_added(rows: Rows, hashes: Array, present: Callable[[], Rows]) -> NumberedRows:
    """Numbers of further rows after those that are there, of which some may be equal to them.

    hashes : of the rows that are there, (n_rows,), all distinct; present : gives these rows
    """
    n_present, own = len(hashes), content_hash(rows)
    known = np.flatnonzero(np.isin(hashes, own))
    n_known = len(known)
    everything = present().take(known).followed_by(rows) if n_known else rows
    first = _first_equal(np.concatenate([hashes[known], own]), everything)[n_known:]
    new = np.flatnonzero(first == n_known + np.arange(len(first)))
    row_of = n_present + np.searchsorted(new, first - n_known)
    is_known = first < n_known
    row_of[is_known] = known[first[is_known]]
    return NumberedRows(row_of, new, np.concatenate([hashes, own[new]]))


def _first_equal(hashes: Array, rows: Rows) -> Array:
    """The number of the first row that is equal to each row, (n,), given their hashes (n,).

    Rows with the same hash are compared; those that differ are compared among each other.
    """
    first = np.arange(len(hashes))
    open_ones = first.copy()
    while len(open_ones):
        _, leaders, place = np.unique(hashes[open_ones], return_index=True, return_inverse=True)
        first[open_ones] = open_ones[leaders[place]]
        others = open_ones[first[open_ones] != open_ones]
        open_ones = others[~_are_equal(rows, others, first[others])]
    return first


def _are_equal(rows: Rows, left: Array, right: Array) -> Array:
    """Whether the rows with the numbers ``left`` (n,) are equal to those with the numbers ``right``, one by one."""
    found = rows.counts[left] == rows.counts[right]
    one, other = rows.take(left[found]), rows.take(right[found])
    differ = (one.column_of != other.column_of) | (one.values != other.values)
    found[found] = one.row_sums(differ) == 0
    return found
