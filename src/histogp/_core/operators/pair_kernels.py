"""Kernels that are evaluated pair by pair: the frozen value of parts on one set of heights, and their matrix.

With heights ``h_d = w_d g(x_d)`` the parts are

    intersection   s sum_d min(h_d, h'_d)
    laplacian      s exp(-beta |h - h'|_1 / unit)
    gaussian       s exp(-beta |h - h'|_2^2 / unit)
    constant       s

and ``|a - b| = a + b - 2 min(a, b)``: one sweep over pairs serves the first two.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np

from histogp._core._numba import pair_loops
from histogp._core.data import Array, Rows, dense, power_of_two
from histogp._core.kernel_values import WIDEST_FACTOR, Hyperparameter, KernelValue
from histogp._core.operators.contract import KernelOperator, Precision, check_same_kind
from histogp._core.operators.sorted_columns import Heights, intersection_sums
from histogp._core.threads import over_rows, suited_blas
from histogp.io.schema import Reader, Writer

Kind = Literal["intersection", "laplacian", "gaussian", "constant"]
# Samples up to which there is a matrix, of 1.15 GB, and as much of a factor.
MOST_EXACT_SAMPLES = 12_000
# Numbers in a block of kernel values, 8 MB: several of them are at work at once.
BLOCK_NUMBERS = 2**20
# Products of samples with a smaller part of non-zeros are sparse.
SPARSE_SHARE = 0.1


class PairKernel(KernelValue):
    """A kernel that can be evaluated for any two samples."""

    @abstractmethod
    def pairs(self, left: Rows, right: Rows | None = None, n_threads: int = 1) -> Array:
        """``K(left, right)``, (n, m); without ``right`` that of all pairs of the left, (n, n), symmetric."""

    @abstractmethod
    def own(self, rows: Rows) -> Array:
        """``K(x, x)`` of each sample, (n,)."""

    @abstractmethod
    def pair_gradient(self, rows: Rows, upstream: Array, n_threads: int = 1) -> dict[str, Array]:
        """The derivative of ``sum_ij G_ij K_ij`` for each hyperparameter, given a symmetric G (n, n)."""

    @abstractmethod
    def own_gradient(self, rows: Rows) -> dict[str, Array]:
        """The derivative of ``sum_i K(x_i, x_i)`` for each hyperparameter."""

    @abstractmethod
    def relevance(self, rows: Rows) -> Array:
        """The share of each feature in what tells samples apart, (D,); they add up to one."""


@dataclass(frozen=True)
class Part:
    """A summand ``scale * f``; ``beta / unit`` is the inverse width of an exponential.

    prefix : of the names of its hyperparameters in a sum, for instance "laplacian__"; empty for a kernel alone
    """

    kind: Kind
    scale: float = 1.0
    beta: float = 1.0
    unit: float = 1.0
    prefix: str = ""

    @property
    def has_width(self) -> bool:
        """Whether it is an exponential."""
        return self.kind in ("laplacian", "gaussian")

    @property
    def rate(self) -> float:
        """What a distance is multiplied by."""
        return self.beta / self.unit


@dataclass(frozen=True, eq=False)
class HeightsKernel(Heights, PairKernel):
    """A sum of parts on one set of heights."""

    parts: tuple[Part, ...] = ()

    def pairs(self, left: Rows, right: Rows | None = None, n_threads: int = 1) -> Array:
        heights = [self.transform_rows(rows) for rows in (left, right) if rows is not None]
        out = np.empty((heights[0].n_rows, heights[-1].n_rows))
        for some, others, distances in _blocks(heights[0], heights[1] if right is not None else None, n_threads):
            block = sum(part.scale * distances.of(part) for part in self.parts)
            out[some, others] = block
            if right is None:
                out[others, some] = out[some, others].T
        return out

    def own(self, rows: Rows) -> Array:
        out = np.zeros(rows.n_rows)
        for part in self.parts:
            is_sum = part.kind == "intersection"
            out += part.scale * (rows.row_sums(self.heights(rows)) if is_sum else 1.0)
        return out

    def pair_gradient(self, rows: Rows, upstream: Array, n_threads: int = 1) -> dict[str, Array]:
        """The derivative of ``sum_ij G_ij K_ij`` for each hyperparameter, by those for all heights."""
        heights = self.transform_rows(rows)
        distances = Distances(heights, heights, n_threads)
        found: dict[str, Array] = {}
        n = rows.n_rows
        above, by_absolute, by_square = (np.zeros((n, n)) for _ in range(3))
        for part in self.parts:
            values = distances.of(part)
            found[f"{part.prefix}scale"] = np.asarray(np.sum(upstream * values))
            if part.kind == "intersection":
                above += part.scale * upstream
            elif part.has_width:
                slope = -part.scale * part.rate * upstream * values
                found[f"{part.prefix}beta"] = np.sum(slope * distances.between(part.kind)) / part.beta
                (by_absolute if part.kind == "laplacian" else by_square)[...] += slope
        # The sign of a difference is one minus twice whether the other is above.
        above -= 2 * by_absolute
        columns = np.ascontiguousarray(heights.to_dense(n_threads).T)
        by_height = np.empty_like(columns)
        over_rows(
            lambda some: pair_loops.sums_above(above, columns, some.start, some.stop, by_height), n, n_threads, 64
        )
        by_height = 2 * (by_height + by_absolute.sum(axis=1))
        by_height += 4 * (columns * by_square.sum(axis=1) - columns @ by_square)
        return found | self._by_name(rows, by_height)

    def own_gradient(self, rows: Rows) -> dict[str, Array]:
        """The derivative of ``sum_i K(x_i, x_i)``: distances of a sample to itself do not change."""
        found: dict[str, Array] = {}
        slope = 0.0
        for part in self.parts:
            is_sum = part.kind == "intersection"
            found[f"{part.prefix}scale"] = self.heights(rows).sum() if is_sum else np.asarray(float(rows.n_rows))
            slope += part.scale if is_sum else 0.0
            if part.has_width:
                found[f"{part.prefix}beta"] = np.zeros(())
        return found | self._by_name(rows, np.full((rows.n_columns, rows.n_rows), slope))

    def _by_name(self, rows: Rows, by_height: Array) -> dict[str, Array]:
        """Derivatives for weights and transform, from those for all heights, (D, n)."""
        row_of = np.repeat(np.arange(rows.n_rows), rows.counts)
        slopes = by_height[rows.column_of, row_of]
        found = {}
        for name, profile in self.profiles(self.transformed(rows), rows).items():
            each = np.bincount(rows.column_of, slopes * profile, minlength=rows.n_columns)
            found[name] = each if self.is_per_feature(name) else each.sum()
        return found

    def relevance(self, rows: Rows) -> Array:
        share = mean_differences(self.transform_rows(rows))
        return share / max(share.sum(), np.finfo(float).tiny)

    def hyperparameters(self, rows: Rows, noise: float, mean_square: float) -> list[Hyperparameter]:
        """What a search may change: of the heights, which all parts share, and of each part."""
        shared = super().hyperparameters(rows, noise, mean_square)
        own = []
        for part in self.parts:
            own.append(_positive(f"{part.prefix}scale", part.scale))
            if part.has_width:
                own.append(_positive(f"{part.prefix}beta", part.beta))
        # The common scale of weights is that of distances, which beta has already.
        return [*(one for one in shared if one.name != "scale"), *own]

    def at(self, values: Mapping[str, Any]) -> Self:
        """The kernel with other values by the names of `hyperparameters`; a scale replaces the present one."""
        shared = super().at({name: value for name, value in values.items() if name != "scale"})
        parts = [
            replace(
                part,
                scale=float(values.get(f"{part.prefix}scale", part.scale)),
                beta=float(values.get(f"{part.prefix}beta", part.beta)),
            )
            for part in self.parts
        ]
        return replace(shared, parts=tuple(parts))

    def scaled(self, factor: float) -> Self:
        return replace(self, parts=tuple(replace(part, scale=part.scale * factor) for part in self.parts))

    def log_gradient(self, derivatives: Mapping[str, Array]) -> dict[str, Array]:
        found = super().log_gradient(derivatives)
        for part in self.parts:
            found[f"{part.prefix}scale"] = derivatives[f"{part.prefix}scale"] * part.scale
            if part.has_width:
                found[f"{part.prefix}beta"] = derivatives[f"{part.prefix}beta"] * part.beta
        return found


def _positive(name: str, start: float) -> Hyperparameter:
    return Hyperparameter(name, np.array([start]), (start / WIDEST_FACTOR, start * WIDEST_FACTOR))


class Distances:
    """What parts need of pairs of samples, given by their heights, each computed once and only if it is needed."""

    def __init__(self, left: Rows, right: Rows, n_threads: int = 1):
        self._left, self._right = left, right
        self._n_threads = n_threads
        self._found: dict[str, Array] = {}

    def of(self, part: Part) -> Array | float:
        """A part without its scale, (n, m), or a number."""
        if part.kind == "constant":
            return 1.0
        if part.kind == "intersection":
            return self.between("intersection")
        return np.exp(-part.rate * self.between(part.kind))

    def between(self, kind: Kind) -> Array:
        """Sums of minima, absolute differences or squared differences, (n, m)."""
        makers = {"intersection": self._minima, "laplacian": self._absolute, "gaussian": self._squared}
        if kind not in self._found:
            self._found[kind] = makers[kind]()
        return self._found[kind]

    def _minima(self) -> Array:
        left, right = self._left, self._right
        if min(left.values.min(initial=0.0), right.values.min(initial=0.0)) < 0:
            # Of numbers with the same sign; others have nothing in common.
            left, right = left.by_sign(), right.by_sign()
        # The loop takes 32 rows of the right side at a time.
        if left.n_rows < right.n_rows:
            return intersection_sums(right, left, self._n_threads).T
        return intersection_sums(left, right, self._n_threads)

    def _absolute(self) -> Array:
        sizes = [rows.row_sums(np.abs(rows.values)) for rows in (self._left, self._right)]
        return np.maximum(sizes[0][:, None] + sizes[1] - 2 * self.between("intersection"), 0.0)

    def _squared(self) -> Array:
        sizes = [rows.row_sums(rows.values**2) for rows in (self._left, self._right)]
        share = len(self._right.values) / max(1, self._right.n_rows * self._right.n_columns)
        if share < SPARSE_SHARE:
            products = dense(self._left.to_csr() @ self._right.to_csr().T)
        else:
            left, right = self._left.to_dense(self._n_threads), self._right.to_dense(self._n_threads)
            with suited_blas(2.0 * left.size * len(right)):
                products = left @ right.T
        return np.maximum(sizes[0][:, None] + sizes[1] - 2 * products, 0.0)


def _blocks(left: Rows, right: Rows | None, n_threads: int) -> Iterator[tuple[slice, slice, Distances]]:
    """Distances of some samples and others, in pieces of bounded size; without ``right`` of each pair once."""
    n_others = left.n_rows if right is None else right.n_rows
    step = max(32, BLOCK_NUMBERS // max(1, n_others))
    for begin in range(0, left.n_rows, step):
        some = slice(begin, min(begin + step, left.n_rows))
        others = slice(begin if right is None else 0, n_others)
        rows = left.block(some.start, some.stop)
        yield some, others, Distances(rows, (left if right is None else right).block(others.start, n_others), n_threads)


def mean_differences(rows: Rows) -> Array:
    """The mean absolute difference of two different samples in each feature, (D,)."""
    values = np.sort(rows.to_dense(), axis=0)
    n = len(values)
    ranks = 2.0 * np.arange(n) - n + 1
    return 2 * ranks @ values / max(1, n * (n - 1))


def mean_squared_differences(rows: Rows) -> Array:
    """The mean squared difference of two different samples in each feature, (D,)."""
    values = rows.to_dense()
    return 2 * values.var(axis=0, ddof=1) if len(values) > 1 else np.zeros(rows.n_columns)


class DenseOperator(KernelOperator):
    """The matrix itself, for a kernel that can be evaluated: made when it is first needed, and kept until `release`.

    Offers `Updates`, `Tuning` and `Matrix`.

    Parameters
    ----------
    rows : Rows
        The training samples, raw values.
    kernel : PairKernel
    n_threads : int
    matrix : array (N, N), optional
        If it is there already.
    """

    block_width = 16

    def __init__(self, rows: Rows, kernel: PairKernel, n_threads: int = 1, matrix: Array | None = None):
        """Keep the samples; the matrix is not made yet."""
        if rows.n_rows > MOST_EXACT_SAMPLES:
            raise ValueError(
                f"This kernel is exact and needs its matrix, for which {rows.n_rows:,} samples are too many: learn "
                f"from at most {MOST_EXACT_SAMPLES:,} of them, or with another kernel."
            )
        self.rows = rows
        self.n_samples, self.n_features = rows.n_rows, rows.n_columns
        self.cost = self.n_samples**2
        self.kernel: PairKernel = kernel
        self.n_threads = n_threads
        self._lock = threading.Lock()
        self._matrix = matrix
        self.scale = power_of_two(float(kernel.own(rows).max(initial=0.0)))

    def __getstate__(self) -> dict[str, Any]:
        return {"rows": self.rows, "kernel": self.kernel, "n_threads": self.n_threads}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def release(self) -> None:
        self._matrix = None

    def matrix(self) -> Array:
        return self._kept().copy()

    def _kept(self) -> Array:
        """The matrix, which nobody may change."""
        with self._lock:
            if self._matrix is None:
                self._matrix = self.kernel.pairs(self.rows, None, self.n_threads)
            return self._matrix

    def matmat(self, vectors: Array, precision: Precision = "double") -> Array:
        with suited_blas(2.0 * self.cost * vectors.shape[1]):
            return self._kept() @ vectors

    def columns(self, index: Array, precision: Precision = "double") -> Array:
        matrix = self._matrix
        out = self.cross(self.rows, self.rows.take(index)) if matrix is None else matrix[:, index]
        return out if precision == "double" else (out / self.scale).astype(np.float32)

    def diagonal(self, rows: Rows | None = None) -> Array:
        return self.kernel.own(self.rows if rows is None else rows)

    def cross(self, rows: Rows, others: Rows | None = None) -> Array:
        return self.kernel.pairs(rows, self.rows if others is None else others, self.n_threads)

    def table(self, alpha: Array) -> PairTable:
        return PairTable(self.kernel, self.rows, alpha)

    def relevance(self) -> Array:
        return self.kernel.relevance(self.rows)

    def with_threads(self, n_threads: int) -> DenseOperator:
        if n_threads == self.n_threads:
            return self
        return DenseOperator(self.rows, self.kernel, n_threads, self._matrix)

    def to_state(self, writer: Writer) -> None:
        self.rows.to_state(writer)

    @classmethod
    def from_state(cls, reader: Reader, kernel: Any, n_samples: int, n_features: int, n_threads: int) -> DenseOperator:
        return cls(Rows.from_state(reader, n_samples, n_features), kernel, n_threads)

    def training_rows(self) -> Rows:
        return self.rows

    def extend(self, rows: Rows) -> DenseOperator:
        """The operator with further samples; a matrix that is there is bordered."""
        matrix = self._matrix
        if matrix is not None:
            n, n_all = self.n_samples, self.n_samples + rows.n_rows
            longer = np.empty((n_all, n_all))
            longer[:n, :n] = matrix
            longer[n:, :n] = self.cross(rows)
            longer[:n, n:] = longer[n:, :n].T
            longer[n:, n:] = self.kernel.pairs(rows, None, self.n_threads)
            matrix = longer
        return DenseOperator(self.rows.followed_by(rows), self.kernel, self.n_threads, matrix)

    def remove(self, index: Any) -> DenseOperator:
        kept = np.delete(np.arange(self.n_samples), np.asarray(index, int))
        matrix = None if self._matrix is None else self._matrix[np.ix_(kept, kept)]
        return DenseOperator(self.rows.take(kept), self.kernel, self.n_threads, matrix)

    def with_kernel(self, kernel: Any) -> DenseOperator:
        check_same_kind(self.kernel, kernel)
        return DenseOperator(self.rows, kernel, self.n_threads)

    def gradient(self, left: Array, right: Array, sums: Array | None = None) -> dict[str, Array]:
        if sums is None:
            return self._gradient(left, right)
        found = [self._gradient(left * some, right) for some in sums.T]
        return {name: np.stack([one[name] for one in found], axis=-1) for name in found[0]}

    def _gradient(self, left: Array, right: Array) -> dict[str, Array]:
        upstream = left @ right.T
        return self.matrix_gradient((upstream + upstream.T) / 2)

    def matrix_gradient(self, upstream: Array) -> dict[str, Array]:
        return self.kernel.pair_gradient(self.rows, upstream, self.n_threads)

    def trace_gradient(self) -> dict[str, Array]:
        return self.kernel.own_gradient(self.rows)


@dataclass(frozen=True, eq=False)
class PairTable:
    """``x -> k(x)^T alpha`` by kernel values with all training samples; alpha (N, M)."""

    kernel: PairKernel
    rows: Rows
    alpha: Array

    def evaluate(self, rows: Rows, n_threads: int = 1) -> Array:
        out = np.empty((rows.n_rows, self.alpha.shape[1]))
        step = max(32, BLOCK_NUMBERS // max(1, self.rows.n_rows))
        for begin in range(0, rows.n_rows, step):
            some = slice(begin, min(begin + step, rows.n_rows))
            out[some] = self.kernel.pairs(rows.block(some.start, some.stop), self.rows, n_threads) @ self.alpha
        return out
