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

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal

import numpy as np

from histogp._core._numba import pair_loops
from histogp._core.data import Array, Rows, dense, mirrored, power_of_two
from histogp._core.operators.sorted_columns import intersections
from histogp._core.threads import over_rows, run, suited_blas

Measure = Literal["minima", "harmonic", "absolute", "squared", "chi2"]
# Numbers in a block of measures, 8 MB: several of them are at work at once.
BLOCK_NUMBERS = 2**20
# Samples with a smaller part of non-zeros stay sparse.
SPARSE_SHARE = 0.1
# Samples of the right side that a loop takes at a time: their values stay in the second level of the cache. Of 441
# features in float64 64, 128 and 256 samples take 0.21, 0.09 and 0.12 ns a difference.
TILE = 128
# Samples of either side that are at work together, at most: their measures stay in the third level of the cache.
PIECE = 512
# Samples of a stripe of all pairs, which are at work together.
STRIPE = 128
# Samples of the left side that are worth tiles of their own, and the fewest of a block.
FEWEST_ROWS = 32
# Samples whose middle values are typical.
CENTER_SAMPLES = 256
# By how much samples may be larger than the unit that they are measured in.
LARGEST_RATIO = 1e15
# Differences that a loop computes in one call: some milliseconds.
SLICE_NUMBERS = 2**26


@dataclass(frozen=True, eq=False)
class Points:
    """Samples given by their heights.

    rows : the heights
    values : (n, D) of them, or None for samples that stay sparse
    sums : (n,), of the absolute heights
    center : (D,), a typical value of each feature of dense samples
    unit : of all of these; in single precision a power of two, because that cannot hold features of any magnitude
    """

    rows: Rows
    values: Array | None
    sums: Array
    center: Array | None = None
    unit: float = 1.0

    @classmethod
    def of(cls, rows: Rows, dtype: Any = np.float64, n_threads: int = 1) -> Points:
        """Dense or sparse, as their non-zeros suggest."""
        unit = 1.0
        if np.dtype(dtype) == np.float32:
            unit = power_of_two(float(np.abs(rows.values).max(initial=0.0)))
            rows = rows.with_values((rows.values / unit).astype(dtype))
        sums = rows.row_sums(np.abs(rows.values)).astype(dtype)
        is_sparse = len(rows.values) < SPARSE_SHARE * rows.n_rows * rows.n_columns
        values = None if is_sparse else rows.to_dense(n_threads).astype(dtype, copy=False)
        return cls(rows, values, sums, _center(values), unit)

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: what was derived comes back when it is needed."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def in_unit(self, unit: float) -> Points:
        """The samples in another unit; what is far above that counts as 1e15 of it."""
        if unit == self.unit:
            return self
        ratio = self.dtype.type(min(self.unit / unit, LARGEST_RATIO))
        values = None if self.values is None else self.values * ratio
        rows = self.rows.with_values(self.rows.values * ratio)
        return Points(rows, values, self.sums * ratio, None if self.center is None else self.center * ratio, unit)

    @property
    def n_points(self) -> int:
        return len(self.sums)

    @property
    def dtype(self) -> np.dtype:
        return self.sums.dtype

    def block(self, begin: int, end: int) -> Points:
        """The samples ``begin..end``."""
        values = None if self.values is None else self.values[begin:end]
        return Points(self.rows.block(begin, end), values, self.sums[begin:end], self.center, self.unit)

    def around(self, center: Any) -> tuple[Array, Array]:
        """Dense samples measured from a center (D,), (n, D), and their squared lengths, (n,); their own are kept."""
        return self._around_own if center is self.center else self._around(center)

    @cached_property
    def _around_own(self) -> tuple[Array, Array]:
        return self._around(self.center)

    def _around(self, center: Any) -> tuple[Array, Array]:
        values = self.dense() - center if center.any() else self.dense()
        return values, np.einsum("ij,ij->i", values, values)

    @cached_property
    def tables(self) -> list[Array]:
        """The heights of dense samples as loops want those of the right side: tiles (D, m), one after the other."""
        if len(self.pieces) > 1:
            return [table for _, piece in self.pieces for table in piece.tables]
        values = self.dense()
        return [np.ascontiguousarray(values[begin : begin + TILE].T) for begin in range(0, self.n_points, TILE)]

    @cached_property
    def pieces(self) -> list[tuple[slice, Points]]:
        """The samples, some at a time: whole tiles."""
        size = min(PIECE, math.isqrt(SLICE_NUMBERS // max(1, self.rows.n_columns)))
        size = max(1, size // TILE) * TILE
        if self.n_points <= size:
            return [(slice(0, self.n_points), self)]
        bounds = [(begin, min(begin + size, self.n_points)) for begin in range(0, self.n_points, size)]
        return [(slice(begin, end), self.block(begin, end)) for begin, end in bounds]

    def dense(self) -> Array:
        """All heights, (n, D)."""
        return self.rows.to_dense().astype(self.dtype, copy=False) if self.values is None else self.values


def _center(values: Array | None) -> Array | None:
    """A value of each feature from which to measure, (D,).

    In double precision that closest to zero, so that one large value costs the others nothing; in single precision a
    typical one of some samples, because all have few digits.
    """
    if values is None or len(values) == 0:
        return None if values is None else np.zeros(values.shape[1], values.dtype)
    if values.dtype == np.float64:
        return np.where(values.min(axis=0) > 0, values.min(axis=0), np.minimum(values.max(axis=0), 0))
    some = np.sort(values[:: max(1, len(values) // CENTER_SAMPLES)], axis=0)
    return some[(len(some) - 1) // 2]


class Pairs:
    """Measures of all pairs of samples of a left and a right side, (n, m), each computed when it is first needed.

    They are in units of `size`, which is one in double precision.
    """

    def __init__(self, left: Points, right: Points, n_threads: int = 1):
        self.left, self.right = left.in_unit(right.unit), right
        self._n_threads = n_threads
        self._found: dict[Measure, Array] = {}
        self._exponentials: dict[Measure, tuple[float, Array]] = {}

    def measure(self, name: Measure) -> Array:
        """One of the measures, which nobody may change."""
        if name not in self._found:
            self._found[name] = self._compute(name)
        return self._found[name]

    def size(self, name: Measure) -> float:
        """The unit of a measure."""
        return self.right.unit**2 if name == "squared" else self.right.unit

    def known(self, name: Measure) -> Array | None:
        """A measure if it was computed already."""
        return self._found.get(name)

    def exponential(self, name: Measure, rate: float) -> Array:
        """``exp(-rate m)`` of a measure, which nobody may change; that of the last rate is kept."""
        rate *= self.size(name)
        found = self._exponentials.get(name)
        if found is None or found[0] != rate:
            measure = self.measure(name)
            with np.errstate(over="ignore", under="ignore"):  # which is zero
                values = measure * measure.dtype.type(-rate)
                found = self._exponentials[name] = rate, np.exp(values, out=values)
        return found[1]

    def _compute(self, name: Measure) -> Array:
        """A measure by a sum over features, or from the other one of two that add up to the sums of both samples."""
        left, right = self.left, self.right
        is_dense = left.values is not None and right.values is not None
        if name == "squared":
            return self._squared()
        if name in ("absolute", "chi2") if is_dense else name == "harmonic":
            return self._swept(name, is_dense)
        if name == "minima" and not is_dense:
            return self._common_minima()
        out = left.sums[:, None] + right.sums
        if name in ("harmonic", "chi2"):
            out *= out.dtype.type(0.5)
            out -= self.measure("chi2" if name == "harmonic" else "harmonic")
        elif name == "minima":
            out -= self.measure("absolute")
            out *= out.dtype.type(0.5)
        else:
            out -= 2 * self.measure("minima")
        return np.maximum(out, 0, out=out)

    def _swept(self, name: Measure, is_dense: bool) -> Array:
        """A sum over features, or over the non-zeros of sparse samples, with tiles of the right side.

        Tiles of sparse samples are made for this once, so that these should be the few.
        """
        if not is_dense and self.left.n_points < self.right.n_points:
            return np.ascontiguousarray(Pairs(self.right, self.left, self._n_threads)._swept(name, is_dense).T)
        out = np.empty((self.left.n_points, self.right.n_points), self.left.dtype)
        self._sweep(name, is_dense, out, from_diagonal=False)
        return out

    def _sweep(self, name: Measure, is_dense: bool, out: Array, *, from_diagonal: bool) -> None:
        """Fill ``out``, (n, m); in each tile of columns all rows, or those from its first number on."""
        left, right, n_threads = self.left, self.right, self._n_threads
        leaf = pair_loops.absolute_differences if name == "absolute" else pair_loops.chi2_differences
        values, tables = (np.ascontiguousarray(left.values), right.tables) if is_dense else (None, [])
        tiles = range(0, right.n_points, TILE)
        # Pieces that take some milliseconds, and enough of them for all threads.
        work = TILE * max(1, left.rows.n_columns if is_dense else len(left.rows.values) // max(1, left.n_points))
        n_rows = min(max(1, SLICE_NUMBERS // work), -(-left.n_points * len(tiles) // n_threads) or 1)

        def fill(begin: int, first: int, last: int) -> None:
            if values is not None:
                leaf(values, tables[begin // TILE], first, last, begin, out)
            else:
                rows, table = left.rows, right.rows.block(begin, min(begin + TILE, right.n_points)).to_dense().T
                table = np.ascontiguousarray(table, out.dtype)
                pair_loops.harmonic_sums(rows.indptr, rows.column_of, rows.values, table, first, last, begin, out)

        pieces = [
            (begin, first, min(first + n_rows, left.n_points))
            for begin in tiles
            for first in range(begin if from_diagonal else 0, left.n_points, n_rows)
        ]
        run(fill, [pieces[k::n_threads] for k in range(min(n_threads, len(pieces)))])

    def _common_minima(self) -> Array:
        """Sums of minima; of absolute values with the same sign where some are negative."""
        left, right = self.left.rows, self.right.rows
        if min(left.values.min(initial=0), right.values.min(initial=0)) < 0:
            left, right = left.by_sign(), right.by_sign()
        # The loop takes 32 rows of the right side at a time: fewer times, if that is the shorter one.
        swap = left.n_rows < right.n_rows
        left, right = (right, left) if swap else (left, right)
        out = np.empty((left.n_rows, right.n_rows), self.left.dtype)
        for some, block in intersections(left, right, n_threads=self._n_threads, dtype=out.dtype):
            out[:, some] = block
        return np.ascontiguousarray(out.T) if swap else out

    def _squared(self) -> Array:
        """Squared distances by a product of matrices."""
        left, right = self.left, self.right
        sizes: Any
        if left.values is None or right.values is None:
            sizes = [points.rows.row_sums(points.rows.values**2) for points in (left, right)]
            out = dense(left.rows.to_csr() @ right.rows.to_csr().T)
        else:
            # From a value that both sides share: a common offset of a feature costs no digits.
            (near, size), (others, other_size) = left.around(right.center), right.around(right.center)
            sizes = size, other_size
            with suited_blas(2.0 * near.size * len(others)):
                out = near @ others.T
        out *= -2
        out += sizes[0][:, None]
        out += sizes[1]
        return np.maximum(out, 0, out=out)


class AllPairs(Pairs):
    """Measures of all pairs of one set of samples: symmetric, so that half of them are computed."""

    def __init__(self, points: Points, n_threads: int = 1):
        super().__init__(points, points, n_threads)

    def _swept(self, name: Measure, is_dense: bool) -> Array:
        out = np.empty((self.left.n_points, self.left.n_points), self.left.dtype)
        self._sweep(name, is_dense, out, from_diagonal=True)
        return mirrored(out)

    def prepare(self, names: Collection[Measure]) -> None:
        """Compute what measures have in common that stripes would compute for each pair twice."""
        is_dense = self.left.values is not None
        of_dense: dict[str, Measure] = {"minima": "absolute", "harmonic": "chi2"}
        for name in names:
            if not is_dense or name != "squared":
                self.measure(of_dense.get(name, name) if is_dense else name)

    @cached_property
    def stripes(self) -> list[tuple[slice, Stripe]]:
        """Pairs of some samples with all, one piece after the other; they keep what they have computed."""
        n = self.left.n_points
        bounds = [(begin, min(begin + STRIPE, n)) for begin in range(0, n, STRIPE)]
        return [(slice(begin, end), Stripe(self, begin, end)) for begin, end in bounds]


class Stripe(Pairs):
    """Some rows of all pairs, with what is known of these."""

    def __init__(self, whole: AllPairs, begin: int, end: int):
        super().__init__(whole.left.block(begin, end), whole.right)
        self._whole, self._rows = whole, slice(begin, end)

    def measure(self, name: Measure) -> Array:
        known = self._whole.known(name)
        return super().measure(name) if known is None else known[self._rows]


def over_tiles(
    work: Callable[[slice, slice, Pairs], None], left: Points, right: Points, n_threads: int, *, half: bool = False
) -> None:
    """Call ``work(rows, columns, pairs)`` for tiles that cover all pairs, or those on the diagonal and below it.

    Tiles of many dense samples are at work side by side; otherwise the loops inside of one are.
    """
    left = left.in_unit(right.unit)
    if left.n_points > FEWEST_ROWS and left.values is not None and right.values is not None:
        tiles = [
            (rows, columns, some, others)
            for rows, some in left.pieces
            for columns, others in right.pieces
            if not half or columns.start <= rows.start
        ]
        with suited_blas(0.0):
            run(
                lambda rows, columns, some, others: work(rows, columns, Pairs(some, others)),
                [tiles[k::n_threads] for k in range(min(n_threads, len(tiles)))],
            )
        return
    for some, pairs in row_blocks(left, right, n_threads, half=half):
        work(some, slice(0, pairs.right.n_points), pairs)


def row_blocks(left: Points, right: Points, n_threads: int, *, half: bool = False) -> Iterator[tuple[slice, Pairs]]:
    """Pairs of some samples of the left side with all of the right one, or those up to the last of them.

    In pieces of bounded size.
    """
    step = max(FEWEST_ROWS, BLOCK_NUMBERS // max(1, right.n_points))
    for begin in range(0, left.n_points, step):
        end = min(begin + step, left.n_points)
        others = right.block(0, end) if half else right
        yield slice(begin, end), Pairs(left.block(begin, end), others, n_threads)


def height_slopes(own: Array, others: Array, slopes: Mapping[Measure, Array], n_threads: int = 1) -> Array:
    """The derivative of ``sum_ij S_ij m_ij``, summed over measures m, for the heights of the left samples, (D, n).

    own : (D, n), the heights of the left samples; others : (D, m), those of the right ones
    slopes : S of each measure, (n, m), in the precision of the heights; they are overwritten
    """
    out = np.zeros_like(own)
    # The derivative of a minimum is whether the other is above, below zero one less, where it is that of sizes; that of
    # |a - b| is one minus twice that; that of a harmonic term is twice the squared share of the other, that of chi2 a
    # half minus that.
    if (slope := slopes.get("minima")) is not None and own.min(initial=0.0) < 0:
        out -= np.where(own < 0, slope.sum(axis=1), 0)
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
