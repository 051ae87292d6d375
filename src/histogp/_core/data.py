"""Data as compressed rows and as sorted columns, and which rows are equal.

Both are immutable: an update makes a new object. Their arrays are contiguous, writable and of one
dtype each, so that every compiled leaf is compiled once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from histogp._core import threads
from histogp._core._numba import column_loops, pair_loops
from histogp.errors import ModelFileError
from histogp.io.schema import Reader, Writer

Array = np.ndarray
# Columns with fewer non-zeros are sorted by the stable sort.
SHORT_COLUMN_NONZEROS = 4096
# With fewer non-zeros in each column all columns are sorted together.
FEW_COLUMN_NONZEROS = 16
# What is left of a difference, as a part of what was subtracted, is rounding below this.
ROUNDED_SHARE = 1e-12
# Non-zeros handled between two looks for an interrupt; the slowest leaf spends about 50 ns on one.
SLICE_NONZEROS = 2_000_000


class Nonzeros(Protocol):
    """What kernels need to see of data: the non-zeros, and which dimension each belongs to."""

    @property
    def values(self) -> Array: ...

    def expand(self, per_column: Array) -> Array: ...


def plain(array: Array, dtype: Any = None) -> Array:
    """The array as leaves want it: contiguous, aligned and writable; a copy only if it must be."""
    return np.require(array, dtype, ["C", "A", "W"])


def dense(X: Any) -> Array:
    """An array of its own for a sparse matrix; any other as it is."""
    return X.toarray() if sparse.issparse(X) else X


def aligned_zeros(shape: tuple[int, ...], dtype: Any) -> Array:
    """Zeros whose rows of 16 float32 start at cache lines, which makes gathers about twice as fast."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    buffer = np.zeros(size + 64, np.uint8)
    start = -buffer.ctypes.data % 64
    return buffer[start : start + size].view(dtype).reshape(shape)


# Numbers that rows may have when they are shifted, which makes zeros non-zero; or in units of their non-zeros.
MOST_SHIFTED, DENSE_SHARE = 2**30, 4
# Rows of a matrix that are mirrored together.
MIRRORED_ROWS = 512


def mirrored(lower: Array) -> Array:
    """The symmetric matrix (n, n) whose lower half is given, in its place."""
    n = len(lower)
    threads.run(
        lambda first: pair_loops.mirror(first, min(first + MIRRORED_ROWS, n), lower),
        [[(first,) for first in range(0, n, MIRRORED_ROWS)]],
    )
    return lower


def power_of_two(largest: float) -> float:
    """A unit for single precision: the next power of two above, in the range of both precisions."""
    return float(2.0 ** np.clip(np.ceil(np.log2(largest)), -1000, 1000)) if largest > 0 else 1.0


class Compressed:
    """What compressed rows and columns share: groups of non-zeros, delimited by ``indptr``."""

    indptr: Array

    @property
    def counts(self) -> Array:
        """Non-zeros of each group."""
        return np.diff(self.indptr)

    def cuts(self, n_parts: int) -> list[int]:
        """Bounds of at most ``n_parts`` runs of groups with about as many non-zeros."""
        targets = self.indptr[-1] * np.arange(1, n_parts) / n_parts
        inner = np.searchsorted(self.indptr, targets)
        return sorted({0, *(int(cut) for cut in inner), len(self.indptr) - 1})

    def parts(self, n_parts: int, work_per_nonzero: int = 1) -> list[list[tuple[int, int]]]:
        """Ranges of groups for `threads.run`: at most ``n_parts`` parts, in slices of bounded work."""
        cuts = self.cuts(n_parts)
        budget = max(1, SLICE_NONZEROS // work_per_nonzero)
        return [list(self._slices(first, last, budget)) for first, last in pairwise(cuts)]

    def _slices(self, first: int, last: int, budget: int) -> Iterator[tuple[int, int]]:
        while first < last:
            end = int(np.searchsorted(self.indptr, self.indptr[first] + budget, side="right")) - 1
            end = min(max(end, first + 1), last)
            yield first, end
            first = end


class _Groups(Compressed):
    def __init__(self, indptr: Array):
        self.indptr = indptr


@dataclass(frozen=True, eq=False)
class Rows(Compressed):
    """Compressed rows without zeros.

    indptr (N + 1,) int64; column_of (nnz,) uint32, ascending within a row; values (nnz,) float64.
    """

    indptr: Array
    column_of: Array
    values: Array
    n_columns: int

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (N, D) of the rows as an array."""
        return len(self.indptr) - 1, self.n_columns

    @classmethod
    def from_array(cls, X: Any, n_threads: int = 1) -> Rows:
        """The non-zeros of a dense array or a scipy sparse matrix (N, D); arrays of the latter may be shared."""
        if sparse.issparse(X):
            return cls._from_sparse(X)
        X = plain(X)
        parts = _even_parts(X.shape[0], X.shape[1], n_threads)
        indptr = np.zeros(X.shape[0] + 1, np.int64)
        threads.run(lambda first, last: column_loops.count_in_rows(X, first, last, indptr[1:]), parts)
        np.cumsum(indptr, out=indptr)
        column_of = np.empty(indptr[-1], np.uint32)
        values = np.empty(indptr[-1], np.float64)
        threads.run(lambda first, last: column_loops.gather_rows(X, indptr, first, last, column_of, values), parts)
        return cls(indptr, column_of, values, X.shape[1])

    @classmethod
    def _from_sparse(cls, X: Any) -> Rows:
        """The non-zeros of a scipy sparse matrix (N, D), whose arrays are shared where they are in order."""
        X = X.tocsr()
        if not (X.has_canonical_format and X.data.all()):
            X = X.copy()
            X.sum_duplicates()
            X.eliminate_zeros()
        return cls(
            plain(X.indptr, np.int64),
            plain(X.indices.view(np.uint32) if X.indices.dtype == np.int32 else X.indices, np.uint32),
            plain(X.data, np.float64),
            X.shape[1],
        )

    @property
    def n_rows(self) -> int:
        return len(self.indptr) - 1

    def expand(self, per_column: Array) -> Array:
        """Repeat a value a column, (D,), for each non-zero, (nnz,)."""
        return per_column[self.column_of]

    def row_sums(self, values: Array) -> Array:
        """Sums of ``values`` (nnz,) over each row, (N,)."""
        return _sums(values, self.indptr)

    def with_values(self, values: Array) -> Rows:
        """Rows with non-zeros at these places, but with other values (nnz,)."""
        return Rows(self.indptr, self.column_of, values, self.n_columns)

    def transpose(self, n_threads: int = 1) -> tuple[Array, Array, Array]:
        """Compressed columns: indptr (D + 1,), row_of and values (nnz,), in the order of the rows."""
        return _transpose(self.indptr, self.column_of, self.values, self.n_columns, n_threads)

    def to_csr(self) -> Any:
        """A sparse array of SciPy."""
        entries = (self.values, self.column_of.astype(np.int64), self.indptr)
        return sparse.csr_array(entries, shape=(self.n_rows, self.n_columns))

    def to_dense(self, n_threads: int = 1) -> Array:
        """All values, (N, D)."""
        dense = np.empty((self.n_rows, self.n_columns))
        parts = _even_parts(self.n_rows, self.n_columns, n_threads)
        threads.run(
            lambda first, last: column_loops.scatter_rows(self.indptr, self.column_of, self.values, first, last, dense),
            parts,
        )
        return dense

    def take(self, index: Any) -> Rows:
        """The rows with these numbers, in this order."""
        index = np.asarray(index, int)
        counts = self.counts[index]
        indptr = np.concatenate([[0], np.cumsum(counts)])
        entries = np.arange(indptr[-1]) + np.repeat(self.indptr[:-1][index] - indptr[:-1], counts)
        return Rows(indptr, self.column_of[entries], self.values[entries], self.n_columns)

    @classmethod
    def some_of(cls, X: Any, index: Any) -> Rows:
        """The rows with these numbers of an array, CSR or `Rows`."""
        return X.take(index) if isinstance(X, cls) else cls.from_array(X[index])

    def followed_by(self, rows: Rows) -> Rows:
        """All rows of this object and, below them, those of ``rows``."""
        return Rows(
            np.concatenate([self.indptr, self.indptr[-1] + rows.indptr[1:]]),
            np.concatenate([self.column_of, rows.column_of]),
            np.concatenate([self.values, rows.values]),
            self.n_columns,
        )

    def select(self, columns: Any) -> Rows:
        """The columns with these numbers, each at most once, in this order."""
        place = np.full(self.n_columns, -1, np.int64)
        place[columns] = np.arange(len(columns))
        kept = place[self.column_of] >= 0
        indptr = np.concatenate([[0], np.cumsum(kept)])[self.indptr]
        found = Rows(indptr, place[self.column_of[kept]].astype(np.uint32), self.values[kept], len(columns))
        return found if np.all(np.diff(columns) > 0) else Rows._from_sparse(found.to_csr())

    def shifted(self, shift: Array, n_threads: int = 1) -> Rows:
        """Rows from whose columns the numbers ``shift`` (D,) are subtracted; what is left of equal ones is zero."""
        if not shift.any():
            return self
        numbers = self.n_rows * self.n_columns
        if numbers > max(MOST_SHIFTED, DENSE_SHARE * len(self.values)):
            raise ValueError(
                f"A shift makes zeros non-zero, and {self.n_rows:,} samples with {self.n_columns:,} features would "
                f"take at least {8 * numbers / 2**30:.0f} GiB: leave out the shift, or give fewer samples or features."
            )
        dense = self.to_dense(n_threads) - shift
        dense[np.abs(dense) <= ROUNDED_SHARE * np.abs(shift)] = 0.0
        return Rows.from_array(dense, n_threads)

    def divided_by_sums(self, counted: Array) -> Rows:
        """Rows whose absolute values in the columns ``counted``, a mask (D,), add up to one, unless all are zero."""
        sizes = np.abs(self.values)
        sums = self.row_sums(sizes if counted.all() else sizes * counted[self.column_of])
        return self.with_values(self.values / np.repeat(np.where(sums > 0, sums, 1.0), self.counts))

    def by_sign(self) -> Rows:
        """Rows of absolute values in twice as many columns: first those of positive values, then of negative ones."""
        negative = self.values < 0
        columns = np.where(negative, self.column_of + np.uint32(self.n_columns), self.column_of).astype(np.uint32)
        return Rows(self.indptr, columns, np.abs(self.values), 2 * self.n_columns)

    def to_state(self, writer: Writer) -> None:
        """Write the rows into a model file."""
        for name in ("indptr", "column_of", "values"):
            writer.put(name, getattr(self, name))

    @classmethod
    def from_state(cls, reader: Reader, n_rows: int, n_columns: int, dtype: Any = np.float64) -> Rows:
        """The rows in a model file, with values of this type there; believes nothing."""
        indptr = reader.array("indptr", np.int64, (n_rows + 1,), lowest=0)
        column_of = reader.array("column_of", np.uint32, (None,))
        values = reader.array("values", dtype, column_of.shape).astype(np.float64, copy=False)
        ascends = np.all(indptr[1:] >= indptr[:-1])
        if not ascends or indptr[0] != 0 or indptr[-1] != len(values) or not 1 <= n_columns < 2**31:
            raise ModelFileError("its samples do not fit together.")
        # Columns ascend within a row, so that none occurs twice.
        steps = np.diff(column_of.astype(np.int64))
        begins = np.zeros(len(column_of) + 1, bool)
        begins[indptr] = True
        if np.any(column_of >= n_columns) or np.any((steps <= 0) & ~begins[1:-1]) or np.any(values == 0):
            raise ModelFileError("its samples are damaged.")
        return cls(indptr, column_of, values, n_columns)

    def block(self, begin: int, end: int) -> Rows:
        """The rows ``begin..end`` without copying the non-zeros."""
        inside = slice(self.indptr[begin], self.indptr[end])
        indptr = self.indptr[begin : end + 1] - self.indptr[begin]
        return Rows(indptr, self.column_of[inside], self.values[inside], self.n_columns)


@dataclass(frozen=True, eq=False)
class SortedColumns(Compressed):
    """The non-zeros of each column, ascending by value.

    indptr (D + 1,) int64; row_of (nnz,) uint32; values (nnz,) float64.
    """

    indptr: Array
    row_of: Array
    values: Array
    n_rows: int

    @classmethod
    def from_array(cls, X: Any, n_threads: int = 1) -> SortedColumns:
        """Sort the columns of a dense array or a scipy sparse matrix of shape (N, D)."""
        if sparse.issparse(X):
            return cls.from_rows(Rows.from_array(X), n_threads)
        X = plain(X)
        parts = _even_parts(X.shape[1], X.shape[0], n_threads)
        indptr = np.zeros(X.shape[1] + 1, np.int64)
        threads.run(lambda first, last: column_loops.count_in_columns(X, first, last, indptr[1:]), parts)
        np.cumsum(indptr, out=indptr)
        row_of = np.empty(indptr[-1], np.uint32)
        values = np.empty(indptr[-1], np.float64)
        cursor = indptr[:-1].copy()
        threads.run(lambda first, last: column_loops.gather_columns(X, first, last, cursor, row_of, values), parts)
        return cls(indptr, row_of, values, X.shape[0])._sort(n_threads)

    @classmethod
    def checked(cls, indptr: Array, row_of: Array, values: Array, n_rows: int) -> SortedColumns:
        """Columns from arrays of unknown origin, of the right types; compiled loops trust what they are given."""
        nnz = len(row_of)
        # Compared, not subtracted: differences may overflow and hide a wrong order.
        ordered = np.all(indptr[1:] >= indptr[:-1])
        if len(indptr) < 2 or indptr[0] != 0 or indptr[-1] != nnz or not ordered or len(values) != nnz:
            raise ValueError("the columns of the training data do not fit together")
        if nnz and row_of.max() >= n_rows:
            raise ValueError("the training data name a row that does not exist")
        ascending = values[1:] >= values[:-1]
        starts = indptr[:-1][np.diff(indptr) > 0]
        ascending[starts[starts > 0] - 1] = True
        if not (np.all(values > 0) and np.all(np.isfinite(values)) and np.all(ascending)):
            raise ValueError("the training values are not positive and ascending within each column")
        return cls(plain(indptr), plain(row_of), plain(values), n_rows)

    @classmethod
    def from_rows(cls, rows: Rows, n_threads: int = 1) -> SortedColumns:
        return cls(*rows.transpose(n_threads), rows.n_rows)._sort(n_threads)

    def _sort(self, n_threads: int) -> SortedColumns:
        """Sort in place: only for arrays that nobody else has seen yet."""
        indptr, row_of, values = self.indptr, self.row_of, self.values
        if len(values) < FEW_COLUMN_NONZEROS * self.n_columns:
            order = np.lexsort((values, self.expand(np.arange(self.n_columns))))
            row_of[:], values[:] = row_of[order], values[order]
            return self

        def sort(first: int, last: int) -> None:
            for column in first + np.flatnonzero(self.counts[first:last] > 1):
                inside = slice(indptr[column], indptr[column + 1])
                # Short columns tend to be counts with many ties, on which the stable sort is quicker.
                short = inside.stop - inside.start < SHORT_COLUMN_NONZEROS
                order = np.argsort(values[inside], kind="stable" if short else None)
                row_of[inside] = row_of[inside][order]
                values[inside] = values[inside][order]

        threads.run(sort, self.parts(n_threads))
        return self

    @property
    def n_columns(self) -> int:
        return len(self.indptr) - 1

    @property
    def n_nonzeros(self) -> int:
        return len(self.row_of)

    def expand(self, per_column: Array) -> Array:
        """Repeat a value a column, (D,), for each non-zero, (nnz,)."""
        return np.repeat(per_column, self.counts)

    def row_sums(self, values: Array) -> Array:
        """Sums of ``values`` (nnz,) over each row, (N,)."""
        sums = np.zeros(self.n_rows)
        column_loops.add_up(self.row_of, values, sums)
        return sums

    def column_sums(self, values: Array) -> Array:
        """Sums of ``values`` (nnz,) over each column, (D,)."""
        return _sums(values, self.indptr)

    def to_rows(self, values: Array, n_threads: int = 1) -> Rows:
        """Compressed rows that hold ``values`` (nnz,), given in the order of the sorted columns."""
        indptr, column_of, row_values = _transpose(self.indptr, self.row_of, values, self.n_rows, n_threads)
        return Rows(indptr, column_of, row_values, self.n_columns)

    def extend(self, rows: Rows) -> SortedColumns:
        """The columns with further rows, numbered after the present ones; merged in when they are first needed."""
        return _Extended(self, rows)

    def merge(self, rows: Rows) -> SortedColumns:
        """The columns with further rows, merged in at once; nothing is sorted again."""
        more = SortedColumns.from_rows(rows)
        indptr = self.indptr + more.indptr
        row_of = np.empty(indptr[-1], np.uint32)
        values = np.empty(indptr[-1], np.float64)
        shifted = more.row_of + np.uint32(self.n_rows)
        column_loops.merge_columns(
            self.indptr, self.row_of, self.values, more.indptr, shifted, more.values, indptr, row_of, values
        )
        return SortedColumns(indptr, row_of, values, self.n_rows + more.n_rows)

    def remove(self, rows: Array) -> SortedColumns:
        """Drop the rows with these numbers; the others move up and keep their order."""
        keep = np.ones(self.n_rows, bool)
        keep[np.asarray(rows, int)] = False
        kept = keep[self.row_of]
        new_number = (np.cumsum(keep) - 1).astype(np.uint32)
        indptr = np.concatenate([[0], np.cumsum(kept)])[self.indptr]
        return SortedColumns(indptr, new_number[self.row_of[kept]], self.values[kept], int(keep.sum()))

    def to_state(self, writer: Writer) -> None:
        """Put the arrays into a file as they are."""
        for name in ("indptr", "row_of", "values"):
            writer.put(name, getattr(self, name))

    @classmethod
    def from_state(cls, reader: Reader, n_rows: int, n_columns: int) -> SortedColumns:
        """Read the arrays of a file, which may be damaged."""
        indptr = reader.array("indptr", np.int64, (n_columns + 1,))
        row_of = reader.array("row_of", np.uint32, (None,))
        return cls.checked(indptr, row_of, reader.array("values", np.float64, (None,)), n_rows)


class _Extended(SortedColumns):
    """Columns and rows that are to be merged in, of several extensions together."""

    _base: SortedColumns
    _rows: Rows

    def __init__(self, base: SortedColumns, rows: Rows):
        self.__dict__.update(_base=base, _rows=rows)

    def __reduce__(self) -> tuple[Any, ...]:
        return SortedColumns, (self.indptr, self.row_of, self.values, self.n_rows)

    @cached_property
    def _merged(self) -> SortedColumns:
        return self._base.merge(self._rows)

    @property
    def indptr(self) -> Array:  # type: ignore[override]
        return self._merged.indptr

    @property
    def row_of(self) -> Array:
        return self._merged.row_of

    @property
    def values(self) -> Array:
        return self._merged.values

    @property
    def n_rows(self) -> int:
        return self._base.n_rows + self._rows.n_rows

    @property
    def n_columns(self) -> int:
        return self._base.n_columns

    @property
    def n_nonzeros(self) -> int:
        return self._base.n_nonzeros + len(self._rows.values)

    def extend(self, rows: Rows) -> SortedColumns:
        if "_merged" in vars(self):
            return _Extended(self._merged, rows)
        return _Extended(self._base, self._rows.followed_by(rows))


def _transpose(indptr: Array, index: Array, values: Array, n_groups: int, n_threads: int) -> tuple[Array, Array, Array]:
    """Compressed rows to compressed columns, or back; scipy and bincount would first widen the indices."""
    new_indptr = np.zeros(n_groups + 1, np.int64)
    column_loops.count(index, new_indptr[1:])
    np.cumsum(new_indptr, out=new_indptr)
    new_index = np.empty(len(index), np.uint32)
    new_values = np.empty(len(index), values.dtype)
    cursor = new_indptr[:-1].copy()
    threads.run(
        lambda first, last: column_loops.transpose(indptr, index, values, first, last, cursor, new_index, new_values),
        [[part] for part in pairwise(_Groups(new_indptr).cuts(n_threads))],
    )
    return new_indptr, new_index, new_values


def _even_parts(length: int, elements_each: int, n_parts: int) -> list[list[tuple[int, int]]]:
    """Ranges of ``length`` groups of ``elements_each`` elements for each of ``n_parts`` threads, of equal work."""
    return _Groups(np.arange(length + 1, dtype=np.int64) * elements_each).parts(n_parts)


def _sums(values: Array, indptr: Array) -> Array:
    # reduceat would copy an element where a group is empty.
    occupied = np.flatnonzero(np.diff(indptr))
    out = np.zeros(len(indptr) - 1)
    if len(occupied):
        out[occupied] = np.add.reduceat(values, indptr[:-1][occupied])
    return out


# Numbers of rows that are compared at a time: they stay in the cache.
COMPARED_NUMBERS = 100_000
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
        threads.run(
            lambda first, last: column_loops.hash_sparse_rows(X.indptr, X.column_of, bits, first, last, out),
            X.parts(n_threads),
        )
    else:

        def hash_rows(some: slice) -> None:
            bits = np.ascontiguousarray(X[some], np.float64).view(np.uint64)
            column_loops.hash_dense_rows(bits, out[some])

        threads.over_rows(hash_rows, len(X), n_threads, max(1, SLICE_NONZEROS // max(1, X.shape[1])))
    # As `mix` of the compiled loops: a sum of few numbers would look less random than they do.
    out += SEED
    out = (out ^ (out >> np.uint64(30))) * column_loops.FIRST
    out = (out ^ (out >> np.uint64(27))) * column_loops.SECOND
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
    X = Rows.from_array(X) if sparse.issparse(X) else X
    hashes = content_hash(X, n_threads)
    first = np.arange(len(hashes))
    in_order = np.sort(hashes)
    several = in_order[1:][in_order[1:] == in_order[:-1]]
    if len(several) == 0:
        return NumberedRows(first, first, hashes)
    some = np.flatnonzero(np.isin(hashes, several))
    are_equal = _are_equal_sparse if isinstance(X, Rows) else _are_equal_dense
    first[some] = some[_first_equal(hashes[some], lambda left, right: are_equal(X, some[left], some[right]))]
    distinct = np.flatnonzero(first == np.arange(len(first)))
    return NumberedRows(np.searchsorted(distinct, first), distinct, hashes[distinct])


def number_added(rows: Rows, hashes: Array, present: Callable[[], Rows]) -> NumberedRows:
    """Numbers of further rows after those that are there, of which some may be equal to them.

    hashes : of the rows that are there, (n_rows,), all distinct; present : gives these rows
    """
    n_present, own = len(hashes), content_hash(rows)
    known = np.flatnonzero(np.isin(hashes, own))
    n_known = len(known)
    both = present().take(known).followed_by(rows) if n_known else rows
    first = _first_equal(
        np.concatenate([hashes[known], own]), lambda left, right: _are_equal_sparse(both, left, right)
    )[n_known:]
    new = np.flatnonzero(first == n_known + np.arange(len(first)))
    row_of = n_present + np.searchsorted(new, first - n_known)
    is_known = first < n_known
    row_of[is_known] = known[first[is_known]]
    return NumberedRows(row_of, new, np.concatenate([hashes, own[new]]))


def _first_equal(hashes: Array, are_equal: Callable[[Array, Array], Array]) -> Array:
    """The number of the first row that is equal to each row, (n,), given their hashes (n,).

    Rows with the same hash are compared, by ``are_equal(left, right)`` of their numbers; those that differ are
    compared among each other.
    """
    first = np.arange(len(hashes))
    open_ones = first.copy()
    while len(open_ones):
        _, leaders, place = np.unique(hashes[open_ones], return_index=True, return_inverse=True)
        first[open_ones] = open_ones[leaders[place]]
        others = open_ones[first[open_ones] != open_ones]
        open_ones = others[~are_equal(others, first[others])]
    return first


def _are_equal_dense(X: Array, left: Array, right: Array) -> Array:
    """Whether the rows of an array with the numbers ``left`` (n,) are equal to those of ``right``, one by one."""
    found = np.empty(len(left), bool)

    def compare(some: slice) -> None:
        found[some] = (X[left[some]] == X[right[some]]).all(axis=1)

    threads.over_rows(compare, len(left), 1, max(1, COMPARED_NUMBERS // max(1, X.shape[1])))
    return found


def _are_equal_sparse(rows: Rows, left: Array, right: Array) -> Array:
    """Whether rows with the numbers ``left`` (n,) are equal to those of ``right``, one by one."""
    found = rows.counts[left] == rows.counts[right]
    one, other = rows.take(left[found]), rows.take(right[found])
    differ = (one.column_of != other.column_of) | (one.values != other.values)
    found[found] = one.row_sums(differ) == 0
    return found
