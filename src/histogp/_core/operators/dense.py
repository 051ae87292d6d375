"""The kernel matrix itself, for kernels that are evaluated pair by pair."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from histogp._core.data import Array, Rows, power_of_two
from histogp._core.operators.contract import CROSS_NUMBERS, KernelOperator, Precision, check_same_kind
from histogp._core.operators.pair_kernels import Measured, PairKernel
from histogp._core.threads import suited_blas
from histogp.io.schema import Reader, Writer

# Samples up to which there is a matrix, of 1.15 GB, and as much of a factor.
MOST_EXACT_SAMPLES = 12_000
# Samples that a search looks at: an evaluation takes time cubic in their number.
MOST_SEARCHED_SAMPLES = 2_000


class DenseOperator(KernelOperator):
    """The matrix itself: made when it is first needed, and kept until `release`.

    Offers `Updates`, `Tuning` and `Matrix`.

    Parameters
    ----------
    rows : Rows
        The training samples, raw values.
    kernel : PairKernel
    n_threads : int
    matrix : array (N, N), optional
        If it is there already.
    dtype : float64, or float32 for a matrix that is rounded
    """

    block_width = 16
    most_searched = MOST_SEARCHED_SAMPLES

    def __init__(
        self,
        rows: Rows,
        kernel: PairKernel,
        n_threads: int = 1,
        matrix: Array | None = None,
        dtype: Any = np.float64,
    ):
        """Keep the samples; the matrix is not made yet."""
        self.rows = rows
        self.n_samples, self.n_features = rows.n_rows, rows.n_columns
        self.cost = self.n_samples**2
        self.kernel: PairKernel = kernel
        self.n_threads = n_threads
        self.dtype = np.dtype(dtype)
        self._lock = threading.Lock()
        self._matrix = matrix
        self._measured: Measured | None = None
        self.scale = power_of_two(float(kernel.own(rows).max(initial=0.0)))

    def __getstate__(self) -> dict[str, Any]:
        return {"rows": self.rows, "kernel": self.kernel, "n_threads": self.n_threads, "dtype": self.dtype}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    @property
    def n_nonzeros(self) -> int:
        return len(self.rows.values)

    def release(self) -> None:
        self._matrix = self._measured = None

    def matrix(self) -> Array:
        return self._kept().copy()

    def _kept(self) -> Array:
        """The matrix, which nobody may change."""
        with self._lock:
            if self._matrix is None:
                self._matrix = self.measured().matrix()
            return self._matrix

    def measured(self) -> Measured:
        """The kernel on the training samples."""
        if self._measured is None:
            self._measured = self.kernel.measured(self.rows, self.n_threads, self.dtype)
        return self._measured

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
        return self.kernel.cross(rows, self.rows if others is None else others, self.n_threads)

    def table(self, alpha: Array) -> PairTable:
        return PairTable(self.kernel, self.kernel.points(self.rows, n_threads=self.n_threads), alpha)

    def relevance(self) -> Array:
        return self.kernel.relevance(self.rows)

    def with_threads(self, n_threads: int) -> DenseOperator:
        if n_threads == self.n_threads:
            return self
        return DenseOperator(self.rows, self.kernel, n_threads, self._matrix, self.dtype)

    def in_single(self) -> DenseOperator:
        """The operator with a matrix in single precision."""
        return DenseOperator(self.rows, self.kernel, self.n_threads, dtype=np.float32)

    def to_state(self, writer: Writer) -> None:
        self.rows.to_state(writer)

    @classmethod
    def from_state(cls, reader: Reader, kernel: Any, n_samples: int, n_features: int, n_threads: int) -> DenseOperator:
        return cls(Rows.from_state(reader, n_samples, n_features), kernel, n_threads)

    def training_rows(self) -> Rows:
        return self.rows

    def extend(self, rows: Rows) -> Any:
        """The operator with further samples; a matrix that is there is bordered.

        With more than 12,000 samples it is the one that the kernel's approximation calls for.
        """
        if self.n_samples + rows.n_rows > MOST_EXACT_SAMPLES:
            from histogp._core.operators.approximate import pair_operator  # which imports this module

            return pair_operator(self.rows.followed_by(rows), self.kernel, self.n_threads)
        matrix = self._matrix
        if matrix is not None:
            n, n_all = self.n_samples, self.n_samples + rows.n_rows
            longer = np.empty((n_all, n_all), self.dtype)
            longer[:n, :n] = matrix
            longer[n:, :n] = self.cross(rows)
            longer[:n, n:] = longer[n:, :n].T
            longer[n:, n:] = self.kernel.matrix(rows, self.n_threads)
            matrix = longer
        return DenseOperator(self.rows.followed_by(rows), self.kernel, self.n_threads, matrix, self.dtype)

    def remove(self, index: Any) -> DenseOperator:
        kept = np.delete(np.arange(self.n_samples), np.asarray(index, int))
        if len(kept) <= MOST_EXACT_SAMPLES < self.n_samples:  # few enough for double precision
            return DenseOperator(self.rows.take(kept), self.kernel, self.n_threads)
        matrix = None if self._matrix is None else self._matrix[np.ix_(kept, kept)]
        return DenseOperator(self.rows.take(kept), self.kernel, self.n_threads, matrix, self.dtype)

    def with_kernel(self, kernel: Any) -> DenseOperator:
        check_same_kind(self.kernel, kernel)
        other = DenseOperator(self.rows, kernel, self.n_threads, dtype=self.dtype)
        other._measured = kernel.measured(self.rows, self.n_threads, self.dtype, self.measured())
        return other

    def gradient(self, left: Array, right: Array, sums: Array | None = None) -> dict[str, Array]:
        if sums is None:
            return self._gradient(left, right)
        found = [self._gradient(left * some, right) for some in sums.T]
        return {name: np.stack([one[name] for one in found], axis=-1) for name in found[0]}

    def _gradient(self, left: Array, right: Array) -> dict[str, Array]:
        upstream = left @ right.T
        return self.matrix_gradient((upstream + upstream.T) / 2)

    def matrix_gradient(self, upstream: Array, names: Collection[str] | None = None) -> dict[str, Array]:
        return self.measured().gradient(upstream, names)

    def trace_gradient(self) -> dict[str, Array]:
        return self.kernel.own_gradient(self.rows)


@dataclass(frozen=True, eq=False)
class PairTable:
    """``x -> k(x)^T alpha`` by kernel values with all training samples, as `PairKernel.points`; alpha (N, M)."""

    kernel: PairKernel
    points: Any
    alpha: Array

    def evaluate(self, rows: Rows, n_threads: int = 1) -> Array:
        out = np.empty((rows.n_rows, self.alpha.shape[1]))
        step = max(32, CROSS_NUMBERS // max(1, len(self.alpha)))
        for begin in range(0, rows.n_rows, step):
            some = slice(begin, min(begin + step, rows.n_rows))
            block = np.zeros((some.stop - begin, len(self.alpha)))
            left = self.kernel.points(rows.block(some.start, some.stop), n_threads=n_threads)
            self.kernel.add_cross(left, self.points, block, n_threads)
            out[some] = block @ self.alpha
        return out
