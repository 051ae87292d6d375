"""The contract between the kernel matrix and everything Bayesian that is written against it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from histogp._core.data import Array, Rows, SortedColumns
from histogp._core.layouts import Grid, Layout
from histogp._core.predictors import GridTable, Table

if TYPE_CHECKING:
    from histogp._core.kernel_values import KernelValue


Precision = Literal["single", "double"]


class KernelOperator(ABC):
    """The N x N kernel matrix K of the training rows, never formed. Immutable.

    Noise is not part of it. Test data arrive as `Rows` of raw, non-negative values. The tests hold
    one suite that every operator inherits.
    """

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """N."""

    @property
    @abstractmethod
    def n_columns(self) -> int:
        """D."""

    @property
    @abstractmethod
    def product_cost(self) -> int:
        """Elements that one product with a vector visits; for the choice between algorithms."""

    @property
    @abstractmethod
    def block_width(self) -> int:
        """Vectors that a product handles together; fewer cost as much."""

    @abstractmethod
    def training_rows(self) -> Rows:
        """The N rows themselves, raw values."""

    @abstractmethod
    def sorted_columns(self) -> SortedColumns:
        """The same, as files hold them."""

    kernel: KernelValue
    """The hyperparameters."""

    scale: float
    """The unit of single-precision columns, a power of two: float32 cannot hold features of any magnitude."""

    @abstractmethod
    def matmat(self, vectors: Array, precision: Precision = "double") -> Array:
        """``K @ vectors``: (N, M) to (N, M) float64. "single" is faster and for most data good to about 1e-6."""

    @abstractmethod
    def matrix(self) -> Array:
        """K itself, (N, N), for small N."""

    @abstractmethod
    def diagonal(self) -> Array:
        """``K[i, i]``, (N,)."""

    def row_sums(self) -> Array:
        """``sum_j K[i, j]``, (N,)."""
        return self.matmat(np.ones((self.n_rows, 1)))[:, 0]

    @abstractmethod
    def columns(self, index: Array, precision: Precision = "double") -> Array:
        """``K[:, index]``, (N, len(index)), in float64; "single": ``K[:, index] / scale`` in float32."""

    @abstractmethod
    def cross(self, rows: Rows) -> Iterator[tuple[slice, Array]]:
        """``K(rows, training rows)`` in blocks of bounded size: slices of the n test rows with blocks (m, N)."""

    @abstractmethod
    def cross_diagonal(self, rows: Rows) -> Array:
        """``K(x, x)`` for each test row, (n,)."""

    @abstractmethod
    def cross_matrix(self, rows: Rows, others: Rows) -> Array:
        """``K(x, x')`` for test rows x and others x', (n, m)."""

    @abstractmethod
    def with_kernel(self, kernel: KernelValue) -> KernelOperator:
        """Other hyperparameters on the same data; nothing is sorted again."""

    @abstractmethod
    def gradient(self, left: Array, right: Array, sums: Array | None = None) -> dict[str, Array]:
        """Derivative of ``sum_s left_s^T K right_s`` for every hyperparameter; left, right (N, S).

        Keys are the kernel's parameter names ("weights", "transform__eta"), values have the shape of
        the parameter; "weights" has always one entry a dimension. ``sums`` (S, G) asks for G sums with
        these coefficients at the cost of one; the values then have a last axis of length G.
        """

    @abstractmethod
    def traces(self) -> Array:
        """The part of each dimension in the trace of K, (D,)."""

    @abstractmethod
    def trace_gradient(self) -> dict[str, Array]:
        """Derivative of the trace of K, by the same names."""

    def shares(self) -> Array:
        """The part that each dimension has in the trace of K, or what comes closest to it, (D,)."""
        traces = self.traces()
        return traces / max(traces.sum(), np.finfo(float).tiny)

    @property
    def rank(self) -> int | None:
        """The number of features, if K is their product with themselves, ``Phi Phi^T``; then there is what follows."""
        return None

    def features(self, rows: Rows) -> Iterator[tuple[slice, Any]]:
        """The features of test rows in blocks of bounded size: slices with blocks (n, rank), dense or CSR."""
        raise NotImplementedError

    def project(self, vectors: Array) -> Array:
        """``Phi^T @ vectors``: (N, M) to (rank, M)."""
        raise NotImplementedError

    def combine(self, weights: Array) -> Array:
        """``Phi @ weights``: (rank, M) to (N, M)."""
        raise NotImplementedError

    def predictor(self, weights: Array) -> Table:
        """``x -> phi(x)^T weights``; weights (rank, M)."""
        raise NotImplementedError

    def by_weight(self, by_feature: Array) -> Array:
        """Sums over the features that share a weight of the kernel, (rank, ...) to (n_weights, ...)."""
        raise NotImplementedError

    def by_feature(self, by_weight: Array) -> Array:
        """The weight of each feature, (n_weights,) to (rank,)."""
        raise NotImplementedError

    def using(self, n_threads: int) -> KernelOperator:
        """The same with another number of threads, where these count."""
        return self

    @abstractmethod
    def extend(self, rows: Rows) -> KernelOperator:
        """The operator with further training rows after the present ones, for about one product."""

    @abstractmethod
    def remove(self, rows: Any) -> KernelOperator:
        """The operator without the training rows of these numbers, for about one product."""

    @abstractmethod
    def table(self, alpha: Array) -> Table:
        """The predictor ``x -> k(x)^T alpha``; alpha (N, M)."""

    @abstractmethod
    def grid_table(self, alpha: Array, grid: Grid) -> GridTable:
        """The same approximately, in time independent of N."""

    @abstractmethod
    def norm_table(self) -> Table:
        """``x -> sum_d sum_i K_d(x, x_i)^2``, (n, 1): a lower bound of the squared norm of k(x)."""

    @abstractmethod
    def lower_table(self, n_bins: int, ceiling: float) -> Table:
        """``x -> K(x, x) - c / ceiling``, (n,), where c does not exceed the function of `norm_table`: tabulated."""

    @abstractmethod
    def layout(self, most: int) -> Layout:
        """Nodes, at most ``most`` in each dimension beside zero, on which the following three tabulate."""

    @abstractmethod
    def tabulate(self, layout: Any, alpha: Array) -> Array:
        """``x -> k(x)^T alpha`` at the nodes, (n_nodes, M)."""

    @abstractmethod
    def tabulate_smoothed(self, layout: Any, noise: Array) -> Array:
        """``x -> sum_d Var(f_d(x_d) | y_d)`` at the nodes, (n_nodes, 1).

        The prior of ``f_d`` has the covariance K_d, and ``y_d`` are observations of it alone at the training rows,
        with noise of the variances (N,). That is the posterior variance if all other dimensions were known.
        """

    @abstractmethod
    def prior_draws(self, layout: Any, rng: Any, n_draws: int) -> tuple[Array, Array]:
        """Functions drawn from the prior: at the training rows, (N, n_draws), and at the nodes, (n_nodes, n_draws).

        All randomness comes from ``rng.standard_normal``.
        """

    @abstractmethod
    def split(self, n_parts: int) -> Sequence[KernelOperator]:
        """Operators on disjoint groups of dimensions whose matrices add up to K."""

    def release(self) -> None:  # noqa: B027  (an operator that keeps nothing has nothing to do)
        """Drop what was derived for speed; it comes back when it is needed."""
