"""Kernels that are products of features, ``K = Phi Phi^T``: their frozen value, and the operator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from histogp._core.data import Array, Rows, SortedColumns, dense, power_of_two
from histogp._core.kernel_values import Hyperparameter, KernelValue
from histogp._core.operators.contract import KernelOperator, Precision, check_same_kind, sums_by_weight
from histogp._core.operators.pair_kernels import HeightsKernel, Linear
from histogp._core.threads import over_rows, run, suited_blas
from histogp.io.schema import Reader, Writer


@dataclass(frozen=True, eq=False)
class FeatureKernel(KernelValue):
    """``K(x, y) = phi(x)^T W phi(y)`` for the features phi of a map.

    ``map`` is a `Direct`, or that of an approximate kernel. An additive one has a weight for each feature of the data,
    which its terms share; others have one for all.
    """

    map: Any
    columns: Array | None = None

    def seen(self, rows: Rows) -> Rows:
        """Samples with the features that the kernel sees: those of ``columns``, or all."""
        return rows if self.columns is None else rows.select(self.columns)

    def hyperparameters(self, rows: Rows, noise: float, mean_square: float) -> list[Hyperparameter]:
        return super().hyperparameters(self.seen(rows), noise, mean_square)

    @property
    def n_weights(self) -> int:
        return self.n_features if self.map.is_additive else 1

    @property
    def n_components(self) -> int:
        """The number of features."""
        return self.map.n_components

    def own(self, rows: Rows) -> Array:
        """``K(x, x)`` of each sample, (n,)."""
        out = np.empty(rows.n_rows)
        for some, Z in FeatureMaker(self, 1, is_sparse=True).blocks(rows):
            out[some] = np.asarray(_squares(Z).sum(axis=1)).ravel()
        return out

    def by_feature(self, by_weight: Array) -> Array:
        """The weight of every feature, (n_weights,) to (n_components,): they take turns."""
        return np.resize(by_weight, self.n_components)

    def to_state(self, writer: Writer) -> None:
        self.map.to_state(writer)


# Numbers in a block of features, or of kernel values: 32 MB.
BLOCK_NUMBERS = 2**22
# More features than that are kept sparse, and those of data with a smaller part of non-zeros.
MOST_DENSE_FEATURES = 2**15
SPARSE_SHARE = 0.05
# Samples whose pairs give the error of an expansion.
ERROR_SAMPLES = 500
# Features of the training samples that are kept, in bytes.
MOST_KEPT_BYTES = 2**31
# Numbers in single precision that become double at a time, so that they stay in the cache. 60,000 x 6,000 features
# times ten vectors take 0.21 s, their transpose times ten 0.34 s; whole blocks at once take 0.68 and 1.2 s.
CONVERTED_NUMBERS = 2**19
# Rows of the matrix that a product of sparse features makes at a time, each with those before it: of 4,000 rows with
# 430 of 60,000 features 512 take 0.97 s, all of them at once 1.9 s, in which every pair comes twice.
MATRIX_ROWS = 512


@dataclass(frozen=True, eq=False)
class FeatureMaker:
    """Makes the features of rows, times the roots of their weights; dense, or CSR if they are many."""

    kernel: FeatureKernel
    n_threads: int
    is_sparse: bool = False

    @property
    def n_components(self) -> int:
        """The number of features."""
        return self.kernel.n_components

    def weight_of(self) -> Array:
        """The number of the kernel's weight that each feature has, (n_components,)."""
        return self.kernel.by_feature(np.arange(self.kernel.n_weights))

    def make(self, rows: Rows, dtype: Any = np.float64) -> Any:
        """The features of rows, (n, n_components)."""
        rows = self.kernel.seen(rows)
        X = rows.to_csr() if self.is_sparse else rows.to_dense(self.n_threads)
        if dtype == np.float64:
            return self.weighted(self.kernel.map.transform(X, self.n_threads))
        return self.weighted(self.kernel.map.rounded(X, self.n_threads))

    def weighted(self, Z: Any) -> Any:
        """Features without weights times the roots of these."""
        if self.kernel.weights is None:
            return Z
        roots = np.sqrt(self.kernel.weights)[self.weight_of()].astype(Z.dtype)
        return Z.multiply(roots).tocsr() if sparse.issparse(Z) else Z * roots

    def blocks(self, rows: Rows, dtype: Any = np.float64) -> Iterator[tuple[slice, Any]]:
        """The features of rows in pieces of bounded size."""
        # Products of blocks in single precision are added up in double, which pays for large ones.
        numbers = BLOCK_NUMBERS * (4 if dtype == np.float32 else 1)
        step = max(1, numbers // min(self.kernel.map.width, MOST_DENSE_FEATURES))
        for begin in range(0, rows.n_rows, step):
            some = slice(begin, min(begin + step, rows.n_rows))
            yield some, self.make(rows.block(some.start, some.stop), dtype)


class FeatureOperator(KernelOperator):
    """A kernel by its features, which are made from the rows when they are needed.

    Those of the training samples are kept until `release` if they take long to make and not too much memory. Offers
    `Updates`, `Tuning` of the weights, and `Features`.

    Parameters
    ----------
    rows : Rows
        The training samples, raw values.
    kernel : FeatureKernel
    n_threads : int
    dtype : float64, or float32 for features of training samples that are rounded; those of others never are
    """

    block_width = 16
    most_searched: int | None = None

    def __init__(self, rows: Rows, kernel: FeatureKernel, n_threads: int = 1, dtype: Any = np.float64):
        """Decide whether features are sparse, and what the unit of single precision is; no feature is made yet."""
        self.rows = rows
        self.n_samples, self.n_features = rows.n_rows, rows.n_columns
        self.cost = self.n_nonzeros = len(rows.values)
        self.kernel: Any = kernel
        self.n_threads = n_threads
        few = len(rows.values) < SPARSE_SHARE * rows.n_rows * rows.n_columns
        is_sparse = few or kernel.map.width > MOST_DENSE_FEATURES
        self._maker = FeatureMaker(kernel, n_threads, is_sparse)
        self.dtype = np.dtype(dtype)
        # Of one, which operators with other weights share; None if nothing is to be kept any more.
        self._kept: list[list[tuple[slice, Any]]] | None = []
        largest = 1.0 if kernel.map.is_normalized else rows.values.max(initial=0.0)
        largest *= 1.0 if kernel.weights is None else kernel.weights.max(initial=0.0)
        self.scale = power_of_two(largest)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_kept": None}

    def release(self) -> None:
        self._kept = None

    @property
    def n_components(self) -> int:
        return self._maker.n_components

    def weight_of(self) -> Array:
        return self._maker.weight_of()

    def blocks(self, rows: Rows | None = None) -> Iterator[tuple[slice, Any]]:
        """Features of test rows, or of the training samples: slices with blocks (n, n_components), dense or CSR."""
        if rows is not None:
            return self._maker.blocks(rows)
        kept = self._kept  # another thread may release them meanwhile
        if (
            kept is None
            or not self._maker.kernel.map.is_costly
            or self.dtype.itemsize * self.n_samples * self.n_components > MOST_KEPT_BYTES
        ):
            return self._maker.blocks(self.rows, self.dtype)
        # Without weights, so that they serve with others as well.
        if not kept:
            plain = replace(self._maker, kernel=replace(self._maker.kernel, weights=None))
            kept[:] = [list(plain.blocks(self.rows, self.dtype))]
        return ((some, self._maker.weighted(Z)) for some, Z in kept[0])

    def project(self, vectors: Array) -> Array:
        out = np.zeros((self.n_components, vectors.shape[1]))
        for some, Z in self.blocks():
            if Z.dtype == np.float32:
                out += _projected(Z, vectors[some], self.n_threads)
            else:
                out += Z.T @ vectors[some]
        return out

    def combine(self, weights: Array) -> Array:
        return _combined(self.blocks(), self.n_samples, weights, self.n_threads)

    def matmat(self, vectors: Array, precision: Precision = "double") -> Array:
        return self.combine(self.project(vectors))

    def columns(self, index: Array, precision: Precision = "double") -> Array:
        out = self._products(None, self.rows.take(index))
        return out if precision == "double" else (out / self.scale).astype(np.float32)

    def diagonal(self, rows: Rows | None = None) -> Array:
        n_rows = self.n_samples if rows is None else rows.n_rows
        if self._maker.kernel.map.is_normalized:
            return np.full(n_rows, 1.0 if self._maker.kernel.weights is None else self._maker.kernel.weights[0])
        out = np.empty(n_rows)
        for some, Z in self.blocks(rows):
            out[some] = _squares(Z).sum(axis=1)
        return out

    def cross(self, rows: Rows, others: Rows | None = None) -> Array:
        return self._products(rows, others)

    def matrix(self) -> Array:
        if not self._has_sparse_features:
            return self._products(None, None)
        Z, out = self._stacked(None), np.empty((self.n_samples, self.n_samples))
        for begin in range(0, self.n_samples, MATRIX_ROWS):
            end = min(begin + MATRIX_ROWS, self.n_samples)
            out[begin:end, :end] = dense(Z[begin:end] @ Z[:end].T)
            out[:begin, begin:end] = out[begin:end, :begin].T
        return out

    def _products(self, rows: Rows | None, others: Rows | None) -> Array:
        """Kernel values of all pairs, (n, m); None stands for the training samples."""
        out = np.empty([self.n_samples if some is None else some.n_rows for some in (rows, others)])
        stacked = [(slice(None), self._stacked(others))] if self._has_sparse_features else None
        for some, left in self.blocks(rows):
            for more, right in stacked or self.blocks(others):
                out[some, more] = dense(left @ right.T)
        return out

    @property
    def _has_sparse_features(self) -> bool:
        """Whether features are CSR: waves are dense, whatever the rows are."""
        return self._maker.is_sparse and self.kernel.map.is_additive

    def _stacked(self, rows: Rows | None) -> Any:
        """Sparse features of rows, or of the training samples, as one matrix: a few times as large as the data."""
        blocks = [Z for _, Z in self.blocks(rows)]
        return sparse.vstack(blocks, format="csr") if blocks else sparse.csr_array((0, self.n_components))

    def table(self, alpha: Array) -> FeatureTable:
        return self.from_weights(self.project(alpha))

    def from_weights(self, weights: Array) -> FeatureTable:
        return FeatureTable(self._maker, weights)

    def relevance(self) -> Array:
        if not self._maker.kernel.map.is_additive:
            return self._maker.kernel.map.relevance(self.rows)
        traces = self._weight_sums(self._squared_norms())
        out = np.zeros(self.n_features)
        out[slice(None) if self.kernel.columns is None else self.kernel.columns] = traces
        return out / max(out.sum(), np.finfo(float).tiny)

    def with_threads(self, n_threads: int) -> FeatureOperator:
        return self if n_threads == self.n_threads else FeatureOperator(self.rows, self.kernel, n_threads, self.dtype)

    def to_state(self, writer: Writer) -> None:
        SortedColumns.from_rows(self.rows, self.n_threads).to_state(writer)

    @classmethod
    def from_state(
        cls, reader: Reader, kernel: Any, n_samples: int, n_features: int, n_threads: int = 1
    ) -> FeatureOperator:
        data = SortedColumns.from_state(reader, n_samples, n_features)
        return cls(data.to_rows(data.values, n_threads), kernel, n_threads)

    def training_rows(self) -> Rows:
        return self.rows

    def extend(self, rows: Rows) -> FeatureOperator:
        return FeatureOperator(self.rows.followed_by(rows), self.kernel, self.n_threads, self.dtype)

    def remove(self, index: Any) -> FeatureOperator:
        kept = np.delete(np.arange(self.n_samples), np.asarray(index, int))
        return FeatureOperator(self.rows.take(kept), self.kernel, self.n_threads, self.dtype)

    def with_kernel(self, kernel: Any) -> FeatureOperator:
        check_same_kind(self.kernel, kernel)
        other = FeatureOperator(self.rows, kernel, self.n_threads, self.dtype)
        if other.kernel.map is self._maker.kernel.map:
            other._kept = self._kept
        return other

    def unweighted(self) -> FeatureOperator:
        plain = replace(self._maker.kernel, weights=None)
        other = FeatureOperator(self.rows, plain, self.n_threads, self.dtype)
        other._kept = self._kept
        return other

    def weights(self) -> Array | None:
        return self._maker.kernel.weights

    @property
    def approximated_by(self) -> str:
        return "expansion"

    def approximation_error(self) -> float:
        kernel = self.kernel
        exact = HeightsKernel(n_features=kernel.n_features, weights=self.weights(), parts=(Linear(measure="harmonic"),))
        few = self.rows.take(np.arange(0, self.n_samples, max(1, -(-self.n_samples // ERROR_SAMPLES))))
        matrix = exact.matrix(kernel.seen(few))
        error = float(np.linalg.norm(self.cross(few, few) - matrix))
        return error / max(float(np.linalg.norm(matrix)), np.finfo(float).tiny)

    def exactly(self) -> Any:
        return self

    def remainder(self, rows: Rows, others: Rows | None = None) -> Array | float:
        return 0.0

    def gradient(self, left: Array, right: Array, sums: Array | None = None) -> dict[str, Array]:
        plain = self.unweighted()
        products = plain.project(left) * plain.project(right)
        return {"weights": self._weight_sums(products.sum(axis=1) if sums is None else products @ sums)}

    def trace_gradient(self) -> dict[str, Array]:
        return {"weights": self._weight_sums(self.unweighted()._squared_norms())}

    def _squared_norms(self) -> Array:
        """The squared norm of each feature over the training samples, (n_components,)."""
        total = np.zeros(self.n_components)
        for _, Z in self.blocks():
            total += _squares(Z).sum(axis=0)
        return total

    def _weight_sums(self, by_feature: Array) -> Array:
        """Sums over the features that share a weight of the kernel, (n_components, ...) to (n_weights, ...)."""
        return sums_by_weight(self.weight_of(), by_feature)


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """``x -> phi(x)^T weights``; weights (n_components, M)."""

    maker: FeatureMaker
    weights: Array

    def evaluate(self, rows: Rows, n_threads: int = 1) -> Array:
        return _combined(replace(self.maker, n_threads=n_threads).blocks(rows), rows.n_rows, self.weights, n_threads)


def _combined(blocks: Iterator[tuple[slice, Any]], n_rows: int, weights: Array, n_threads: int) -> Array:
    """Features times weights, (n_rows, M), in double precision."""
    out = np.empty((n_rows, weights.shape[1]))
    for some, Z in blocks:
        if Z.dtype == np.float32:
            _multiply(Z, weights, n_threads, out[some])
        else:
            out[some] = Z @ weights
    return out


def _multiply(Z: Array, weights: Array, n_threads: int, out: Array) -> None:
    """``Z @ weights`` in double precision, of features in single."""

    def multiply(rows: slice) -> None:
        np.matmul(Z[rows].astype(np.float64), weights, out=out[rows])

    with suited_blas(0.0):
        over_rows(multiply, len(Z), n_threads, _converted_rows(Z))


def _projected(Z: Array, vectors: Array, n_threads: int) -> Array:
    """``Z^T @ vectors`` in double precision, of features in single."""
    sums, step = np.zeros((n_threads, Z.shape[1], vectors.shape[1])), _converted_rows(Z)

    def add(part: int, rows: slice) -> None:
        sums[part] += Z[rows].astype(np.float64).T @ vectors[rows]

    slices = [slice(begin, begin + step) for begin in range(0, len(Z), step)]
    with suited_blas(0.0):
        run(add, [[(part, rows) for rows in slices[part::n_threads]] for part in range(n_threads)])
    return sums.sum(axis=0)


def _converted_rows(Z: Array) -> int:
    """Rows of features in single precision that become double at a time."""
    return max(1, CONVERTED_NUMBERS // Z.shape[1])


def _squares(Z: Any) -> Any:
    return Z.multiply(Z) if sparse.issparse(Z) else Z * Z
