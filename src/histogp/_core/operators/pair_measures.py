"""Measures of pairs of samples that kernels are functions of, and their derivatives for the heights of the samples.

    minima      sum_d min(h_d, h'_d)                       heights that are not negative
    harmonic    sum_d 2 h_d h'_d / (h_d + h'_d)            heights that are not negative
    absolute    sum_d |h_d - h'_d|
    squared     sum_d (h_d - h'_d)^2
    chi2        sum_d (h_d - h'_d)^2 / (h_d + h'_d) / 2    heights that are not negative

As ``min(a, b) = (a + b - |a - b|) / 2``, one sweep over pairs serves the first and the third, another one the second
and the last. Of dense samples differences are added up, which lose no digits; of sparse ones what two have in common,
which takes time in proportion to their non-zeros.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from histogp._core._numba import pair_loops
from histogp._core.data import Array, Rows, dense
from histogp._core.operators.sorted_columns import intersections
from histogp._core.threads import over_rows, run, suited_blas

Measure = Literal["minima", "harmonic", "absolute", "squared", "chi2"]
# Numbers in a block of measures, 8 MB: several of them are at work at once.
BLOCK_NUMBERS = 2**20
# Rows of a block where each pair is wanted once: those that meet in it are computed twice.
MOST_HALVED = 128
# Samples with a smaller part of non-zeros stay sparse.
SPARSE_SHARE = 0.1
# Samples of the right side that a loop takes at a time: their values stay in the second level of the cache. Of 441
# features in float64 64, 128 and 256 samples take 0.21, 0.09 and 0.12 ns a difference.
TILE = 128
# Differences that a loop computes in one call: some milliseconds.
SLICE_NUMBERS = 2**26


@dataclass(frozen=True, eq=False)
class Points:
    """Samples given by their heights.

    rows : the heights
    values : (n, D) of them, or None for samples that stay sparse
    sums : (n,), of the absolute heights
    """

    rows: Rows
    values: Array | None
    sums: Array

    @classmethod
    def of(cls, rows: Rows, dtype: Any = np.float64, n_threads: int = 1) -> Points:
        """Dense or sparse, as their non-zeros suggest."""
        sums = rows.row_sums(np.abs(rows.values)).astype(dtype)
        is_sparse = len(rows.values) < SPARSE_SHARE * rows.n_rows * rows.n_columns
        values = None if is_sparse else rows.to_dense(n_threads).astype(dtype, copy=False)
        return cls(rows.with_values(rows.values.astype(dtype, copy=False)), values, sums)

    @property
    def n_points(self) -> int:
        return len(self.sums)

    @property
    def dtype(self) -> np.dtype:
        return self.sums.dtype

    def block(self, begin: int, end: int) -> Points:
        """The samples ``begin..end``."""
        values = None if self.values is None else self.values[begin:end]
        return Points(self.rows.block(begin, end), values, self.sums[begin:end])

    def dense(self) -> Array:
        """All heights, (n, D)."""
        return self.rows.to_dense().astype(self.dtype, copy=False) if self.values is None else self.values


class Pairs:
    """Measures of all pairs of samples of a left and a right side, (n, m), each computed when it is first needed."""

    def __init__(self, left: Points, right: Points, n_threads: int = 1):
        self.left, self.right = left, right
        self._n_threads = n_threads
        self._found: dict[Measure, Array] = {}
        self._exponentials: dict[Measure, tuple[float, Array]] = {}

    def measure(self, name: Measure) -> Array:
        """One of the measures, which nobody may change."""
        if name not in self._found:
            self._found[name] = self._compute(name)
        return self._found[name]

    def exponential(self, name: Measure, rate: float) -> Array:
        """``exp(-rate m)`` of a measure, which nobody may change; that of the last rate is kept."""
        found = self._exponentials.get(name)
        if found is None or found[0] != rate:
            measure = self.measure(name)
            with np.errstate(over="ignore", under="ignore"):  # which is zero
                values = measure * measure.dtype.type(-rate)
                found = self._exponentials[name] = rate, np.exp(values, out=values)
        return found[1]

    def _compute(self, name: Measure) -> Array:
        """A measure by a sum over features, or from another one."""
        is_dense = self.left.values is not None and self.right.values is not None
        if name == "squared" or name in (("absolute", "chi2") if is_dense else ("minima", "harmonic")):
            return self._added_up(name)
        sums = self.left.sums[:, None] + self.right.sums
        if name == "minima":
            return (sums - self.measure("absolute")) / 2
        if name == "harmonic":
            return sums / 2 - self.measure("chi2")
        if name == "absolute":
            return np.maximum(sums - 2 * self.measure("minima"), 0)
        return np.maximum(sums / 2 - self.measure("harmonic"), 0)

    def _added_up(self, name: Measure) -> Array:
        """A measure by a sum over features."""
        if name == "squared":
            return self._squared()
        if name == "minima":
            return self._common_minima()
        if name == "harmonic":
            return self._common_harmonic()
        return self._swept(pair_loops.absolute_differences if name == "absolute" else pair_loops.chi2_differences)

    def _swept(self, leaf: Any) -> Array:
        """A sum over features of pairs of dense samples."""
        assert self.left.values is not None
        assert self.right.values is not None
        left, out = np.ascontiguousarray(self.left.values), self._empty()
        for begin in range(0, self.right.n_points, TILE):
            table = np.ascontiguousarray(self.right.values[begin : begin + TILE].T)
            over_rows(
                lambda some: leaf(left, table, some.start, some.stop, begin, out),  # noqa: B023
                len(left),
                self._n_threads,
                max(1, SLICE_NUMBERS // max(1, table.size)),
            )
        return out

    def _common_minima(self) -> Array:
        """Sums of minima; of absolute values with the same sign where some are negative."""
        left, right = self.left.rows, self.right.rows
        if min(left.values.min(initial=0), right.values.min(initial=0)) < 0:
            left, right = left.by_sign(), right.by_sign()
        # The loop takes 32 rows of the right side at a time: fewer times, if that is the shorter one.
        swap = left.n_rows < right.n_rows
        out = self._empty().T if swap else self._empty()
        left, right = (right, left) if swap else (left, right)
        for some, block in intersections(left, right, n_threads=self._n_threads, dtype=self.left.dtype):
            out[:, some] = block
        return out.T if swap else out

    def _common_harmonic(self) -> Array:
        """Sums over what two sparse samples have in common."""
        rows, out = self.left.rows, self._empty()
        for begin in range(0, self.right.n_points, TILE):
            right = self.right.rows.block(begin, min(begin + TILE, self.right.n_points))
            table = np.ascontiguousarray(right.to_dense().T, self.left.dtype)

            def fill(first: int, last: int, table: Array = table, begin: int = begin) -> None:
                pair_loops.harmonic_sums(rows.indptr, rows.column_of, rows.values, table, first, last, begin, out)

            run(fill, rows.parts(self._n_threads, work_per_nonzero=4))
        return out

    def _squared(self) -> Array:
        """Squared distances by a product of matrices."""
        left, right = self.left, self.right
        if left.values is None or right.values is None:
            sizes = [points.rows.row_sums(points.rows.values**2) for points in (left, right)]
            products = dense(left.rows.to_csr() @ right.rows.to_csr().T)
        else:
            # From the value of the right side that is closest to zero: a common offset of a feature costs no digits.
            lowest, highest = right.values.min(axis=0, initial=np.inf), right.values.max(axis=0, initial=-np.inf)
            offset = np.where(lowest > 0, lowest, np.minimum(highest, 0))
            near = [points.values - np.where(np.isfinite(offset), offset, 0) for points in (left, right)]
            sizes = [np.einsum("ij,ij->i", values, values) for values in near]
            with suited_blas(2.0 * near[0].size * len(near[1])):
                products = near[0] @ near[1].T
        out = sizes[0][:, None] + sizes[1] - 2 * products
        return np.maximum(out, 0, out=out)

    def _empty(self) -> Array:
        return np.empty((self.left.n_points, self.right.n_points), self.left.dtype)


class AllPairs(Pairs):
    """Measures of all pairs of one set of samples: symmetric, so that half of them are computed."""

    def __init__(self, points: Points, n_threads: int = 1):
        super().__init__(points, points, n_threads)

    def _added_up(self, name: Measure) -> Array:
        out = self._empty()
        for some, others, pairs in halves(self.left, self._n_threads):
            out[some, others] = pairs.measure(name)
            out[others, some] = out[some, others].T
        return out


def halves(points: Points, n_threads: int) -> Iterator[tuple[slice, slice, Pairs]]:
    """Pairs of some samples with those from there on, in pieces of bounded size: each pair once, or twice nearby."""
    step = min(MOST_HALVED, max(32, BLOCK_NUMBERS // max(1, points.n_points)))
    for begin in range(0, points.n_points, step):
        some, others = slice(begin, min(begin + step, points.n_points)), slice(begin, points.n_points)
        yield some, others, Pairs(points.block(some.start, some.stop), points.block(begin, points.n_points), n_threads)


def row_blocks(left: Points, right: Points, n_threads: int) -> Iterator[tuple[slice, Pairs]]:
    """Pairs of some samples of the left side with all of the right one, in pieces of bounded size."""
    step = max(32, BLOCK_NUMBERS // max(1, right.n_points))
    for begin in range(0, left.n_points, step):
        some = slice(begin, min(begin + step, left.n_points))
        yield some, Pairs(left.block(some.start, some.stop), right, n_threads)


def height_slopes(pairs: Pairs, slopes: Mapping[Measure, Array], n_threads: int = 1) -> Array:
    """The derivative of ``sum_ij S_ij m_ij``, summed over measures m, for the heights of the left samples, (D, n).

    slopes : S of each measure, (n, m), which are overwritten
    """
    own, others = (np.ascontiguousarray(points.dense().T) for points in (pairs.left, pairs.right))
    out = np.zeros_like(own)
    # The derivative of a minimum is whether the other is above, that of |a - b| one minus twice that; that of a
    # harmonic term is twice the squared share of the other, that of chi2 a half minus that.
    for plain, distance, factor, leaf in (
        ("minima", "absolute", 2, pair_loops.sums_above),
        ("harmonic", "chi2", 1, pair_loops.sums_of_shares),
    ):
        weights = slopes.get(plain)  # type: ignore[call-overload]
        if (slope := slopes.get(distance)) is not None:  # type: ignore[call-overload]
            out += factor * slope.sum(axis=1) / 2
            slope *= -factor
            weights = slope if weights is None else np.add(weights, slope, out=slope)
        if weights is not None:
            out += _tiled(leaf, weights, others, own, n_threads)
    if (slope := slopes.get("squared")) is not None:
        with suited_blas(2.0 * own.size * others.shape[1]):
            out += 2 * (own * slope.sum(axis=1) - others @ slope.T)
    return out


def _tiled(leaf: Any, weights: Array, others: Array, own: Array, n_threads: int) -> Array:
    """A sum over the right samples, for all heights of the left ones, (D, n); weights (n, m)."""
    out = np.empty_like(own)

    def fill(some: slice) -> None:
        found = np.empty((len(own), some.stop - some.start), own.dtype)
        leaf(np.ascontiguousarray(weights[some].T), others, np.ascontiguousarray(own[:, some]), found)
        out[:, some] = found

    over_rows(fill, own.shape[1], n_threads, TILE)
    return out
