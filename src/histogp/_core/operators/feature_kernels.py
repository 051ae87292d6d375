"""Kernels that are products of features, ``K = Phi Phi^T``: their frozen values, and the operator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from scipy import sparse

from histogp._core.data import Array, Rows, SortedColumns, dense
from histogp._core.kernel_values import KernelValue
from histogp._core.layouts import Grid
from histogp._core.operators.contract import KernelOperator, Precision


@dataclass(frozen=True, eq=False)
class FeatureKernel(KernelValue):
    """``K(x, y) = phi(x)^T W phi(y)`` for the features phi of a map.

    ``map`` is a `Direct` or a `RandomWaves`. An additive one has a weight for each feature of the data, which its terms
    share; others have one for all.
    """

    map: Any

    @property
    def n_weights(self) -> int:
        return self.n_features if self.map.is_additive else 1

    @property
    def n_components(self) -> int:
        """The number of features."""
        return self.map.n_components

    def by_feature(self, by_weight: Array) -> Array:
        """The weight of every feature, (n_weights,) to (n_components,): they take turns."""
        return np.resize(by_weight, self.n_components)

    def by_weight(self, by_feature: Array) -> Array:
        """Sums over the features that share a weight, (n_components, ...) to (n_weights, ...)."""
        return by_feature.reshape(-1, self.n_weights, *by_feature.shape[1:]).sum(axis=0)

    def to_state(self) -> dict[str, Array]:
        return self.map.to_state()


# Numbers in a block of features, or of kernel values.
BLOCK = 2**22
# More features than that are kept sparse, and those of data with a smaller part of non-zeros.
MOST_DENSE = 2**15
SPARSE = 0.05
# Bytes of features of the training rows that are kept.
MOST_KEPT = 2**31


@dataclass(frozen=True, eq=False)
class Features:
    """The features of rows, times the roots of their weights; dense, or CSR if they are many."""

    kernel: FeatureKernel
    n_threads: int
    is_sparse: bool = False

    @property
    def rank(self) -> int:
        return self.kernel.n_components

    def of(self, rows: Rows) -> Any:
        """(n, rank)"""
        return self.weighted(self.kernel.map.transform(self._matrix(rows), self.n_threads))

    def weighted(self, Z: Any) -> Any:
        if self.kernel.weights is None:
            return Z
        roots = self.kernel.by_feature(np.sqrt(self.kernel.weights))
        return Z.multiply(roots).tocsr() if sparse.issparse(Z) else Z * roots

    def _matrix(self, rows: Rows) -> Any:
        if self.is_sparse:
            entries = (rows.values, rows.column_of.astype(np.int64), rows.indptr)
            return sparse.csr_array(entries, shape=(rows.n_rows, rows.n_columns))
        return rows.to_dense(self.n_threads)

    def blocks(self, rows: Rows) -> Iterator[tuple[slice, Any]]:
        """The same in pieces of bounded size."""
        step = max(1, BLOCK // min(self.kernel.map.width, MOST_DENSE))
        for begin in range(0, rows.n_rows, step):
            some = slice(begin, min(begin + step, rows.n_rows))
            yield some, self.of(rows.block(some.start, some.stop))


class LowRankOperator(KernelOperator):
    """A kernel by its features, which are made from the rows when they are needed.

    Those of the training rows are kept until `release` if they take long to make and not too much memory.

    Parameters
    ----------
    rows : Rows
        The training rows, raw values.
    kernel : FeatureKernel
    n_threads : int
    """

    def __init__(self, rows: Rows, kernel: FeatureKernel, n_threads: int = 1):
        self.rows = rows
        self.kernel: FeatureKernel = kernel
        self.n_threads = n_threads
        n_values = rows.n_rows * rows.n_columns
        few = len(rows.values) < SPARSE * n_values
        is_sparse = few or kernel.map.width > MOST_DENSE
        self._features = Features(kernel, n_threads, is_sparse)
        # Of one, which operators with other weights share; None if nothing is to be kept any more.
        self._kept: list[list[tuple[slice, Any]]] | None = []
        largest = 1.0 if kernel.map.is_normalized else rows.values.max(initial=0.0)
        largest *= 1.0 if kernel.weights is None else kernel.weights.max(initial=0.0)
        self.scale = 2.0 ** np.clip(np.ceil(np.log2(largest)), -1000, 1000) if largest > 0 else 1.0

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_kept": None}

    def release(self) -> None:
        self._kept = None

    block_width = 16

    @property
    def n_rows(self) -> int:
        return self.rows.n_rows

    @property
    def n_columns(self) -> int:
        return self.rows.n_columns

    @property
    def product_cost(self) -> int:
        return len(self.rows.values)

    @property
    def rank(self) -> int:
        return self._features.rank

    def training_rows(self) -> Rows:
        return self.rows

    def sorted_columns(self) -> SortedColumns:
        return SortedColumns.from_rows(self.rows, self.n_threads)

    def features(self, rows: Rows) -> Iterator[tuple[slice, Any]]:
        takes_long = self.kernel.map.is_random
        kept = self._kept  # another thread may release them meanwhile
        if kept is None or rows is not self.rows or not takes_long or 8 * rows.n_rows * self.rank > MOST_KEPT:
            return self._features.blocks(rows)
        # Without weights, so that they serve with others as well.
        if not kept:
            kept[:] = [list(replace(self._features, kernel=self._plain()).blocks(rows))]
        return ((some, self._features.weighted(Z)) for some, Z in kept[0])

    def project(self, vectors: Array) -> Array:
        out = np.zeros((self.rank, vectors.shape[1]))
        for some, Z in self.features(self.rows):
            out += Z.T @ vectors[some]
        return out

    def combine(self, weights: Array) -> Array:
        return _combined(self.features(self.rows), self.n_rows, weights)

    def matmat(self, vectors: Array, precision: Precision = "double") -> Array:
        return self.combine(self.project(vectors))

    def matrix(self) -> Array:
        return self.cross_matrix(self.rows, self.rows)

    def diagonal(self) -> Array:
        return self.cross_diagonal(self.rows)

    def columns(self, index: Array, precision: Precision = "double") -> Array:
        out = self.cross_matrix(self.rows, self.rows.take(index))
        return out if precision == "double" else (out / self.scale).astype(np.float32)

    def cross(self, rows: Rows) -> Iterator[tuple[slice, Array]]:
        step = max(1, BLOCK // max(1, self.n_rows))
        for begin in range(0, rows.n_rows, step):
            some = slice(begin, min(begin + step, rows.n_rows))
            yield some, self.cross_matrix(rows.block(some.start, some.stop), self.rows)

    def cross_diagonal(self, rows: Rows) -> Array:
        if self.kernel.map.is_normalized:
            return np.full(rows.n_rows, 1.0 if self.kernel.weights is None else self.kernel.weights[0])
        out = np.empty(rows.n_rows)
        for some, Z in self.features(rows):
            out[some] = _squares(Z).sum(axis=1)
        return out

    def cross_matrix(self, rows: Rows, others: Rows) -> Array:
        out = np.empty((rows.n_rows, others.n_rows))
        for some, left in self.features(rows):
            for more, right in self.features(others):
                block = left @ right.T
                out[some, more] = dense(block)
        return out

    def with_kernel(self, kernel: KernelValue) -> LowRankOperator:
        if not isinstance(kernel, FeatureKernel):
            raise ValueError("A model with a chi-squared kernel cannot take one of another kind: fit another.")
        other = LowRankOperator(self.rows, kernel, self.n_threads)
        if other.kernel.map is self.kernel.map:
            other._kept = self._kept
        return other

    def unweighted(self) -> LowRankOperator:
        return self.with_kernel(self._plain())

    def _plain(self) -> FeatureKernel:
        return replace(self.kernel, weights=None)

    def gradient(self, left: Array, right: Array, sums: Array | None = None) -> dict[str, Array]:
        plain = self.unweighted()
        products = plain.project(left) * plain.project(right)
        return {"weights": self.by_weight(products.sum(axis=1) if sums is None else products @ sums)}

    def by_weight(self, by_feature: Array) -> Array:
        return self.kernel.by_weight(by_feature)

    def by_feature(self, by_weight: Array) -> Array:
        return self.kernel.by_feature(by_weight)

    def traces(self) -> Array:
        total = np.zeros(self.rank)
        for _, Z in self.features(self.rows):
            total += _squares(Z).sum(axis=0)
        return self.by_weight(total)

    def shares(self) -> Array:
        feature_map = self.kernel.map
        return super().shares() if feature_map.is_additive else feature_map.relevance(self.rows)

    def trace_gradient(self) -> dict[str, Array]:
        return {"weights": self.unweighted().traces()}

    def using(self, n_threads: int) -> LowRankOperator:
        return self if n_threads == self.n_threads else LowRankOperator(self.rows, self.kernel, n_threads)

    def extend(self, rows: Rows) -> LowRankOperator:
        return LowRankOperator(self.rows.followed_by(rows), self.kernel, self.n_threads)

    def remove(self, rows: Any) -> LowRankOperator:
        kept = np.delete(np.arange(self.n_rows), np.asarray(rows, int))
        return LowRankOperator(self.rows.take(kept), self.kernel, self.n_threads)

    def table(self, alpha: Array) -> LowRankTable:
        return self.predictor(self.project(alpha))

    def predictor(self, weights: Array) -> LowRankTable:
        return LowRankTable(self._features, weights)

    def split(self, n_parts: int) -> Sequence[KernelOperator]:
        _refuse("splitting by features")

    def grid_table(self, alpha: Array, grid: Grid) -> NoReturn:
        _refuse('prediction="quantized"')

    def norm_table(self) -> NoReturn:
        _refuse('the variance "coarse"')

    def lower_table(self, n_bins: int, ceiling: float) -> NoReturn:
        _refuse('the variance "coarse-quantized"')

    def layout(self, most: int) -> NoReturn:
        _refuse('the variance "sampled"')

    def tabulate(self, layout: Any, alpha: Array) -> NoReturn:
        _refuse("tables on a grid")

    def tabulate_smoothed(self, layout: Any, noise: Array) -> NoReturn:
        _refuse("tables on a grid")

    def prior_draws(self, layout: Any, rng: Any, n_draws: int) -> NoReturn:
        _refuse("tables on a grid")


@dataclass(frozen=True, eq=False)
class LowRankTable:
    """``x -> phi(x)^T weights``; weights (rank, M)."""

    features: Features
    weights: Array

    def evaluate(self, rows: Rows, n_threads: int = 1) -> Array:
        return _combined(replace(self.features, n_threads=n_threads).blocks(rows), rows.n_rows, self.weights)


def _combined(blocks: Iterator[tuple[slice, Any]], n_rows: int, weights: Array) -> Array:
    out = np.empty((n_rows, weights.shape[1]))
    for some, Z in blocks:
        out[some] = Z @ weights
    return out


def _squares(Z: Any) -> Any:
    return Z.multiply(Z) if sparse.issparse(Z) else Z * Z


def _refuse(what: str) -> NoReturn:
    raise ValueError(
        f"A chi-squared kernel does not need {what}: its exact prediction and its precise variance are from features "
        "already, in time independent of the number of examples."
    )
