"""The contract between the kernel matrix and everything Bayesian that is written against it.

An operator has the methods of `KernelOperator`, of which it inherits `offer`. What only some can do is a capability, a
protocol below, that is asked of the object: ``operator.offer(Tables)`` is what implements it, or None.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from typing import Any, Literal, Protocol, Self, TypeVar, runtime_checkable

import numpy as np

from histogp._core.data import Array, Rows
from histogp._core.layouts import Grid, Layout
from histogp._core.predictors import GridTable, Table
from histogp.io.schema import Reader, Writer

Precision = Literal["single", "double"]
# Kernel values of a block of test rows with all training samples, 32 MB, and the fewest rows of a block, which are as
# many as compiled loops handle together.
CROSS_NUMBERS = 2**22
FEWEST_CROSS_ROWS = 32

Capability = TypeVar("Capability")


class KernelOperator(ABC):
    """The N x N kernel matrix K of the training samples, never formed. Immutable.

    Noise is not part of it. Test data arrive as `Rows` of raw values. The tests have one suite for each
    capability, which every operator that offers it inherits.

    n_samples, n_features : N and D
    kernel : the frozen value with the hyperparameters
    n_threads : parts in which compiled loops run; results depend on it in rounding only
    scale : the unit of single-precision columns, a power of two: float32 cannot hold features of any magnitude
    cost : numbers that one product with a vector visits, mostly non-zeros of the data: to choose between algorithms
    column_cost : numbers that one column visits, or None for as many as a product
    n_nonzeros : of the training samples
    block_width : vectors that a product handles together; fewer cost as much
    has_large_matrix : whether it rests on a rounded matrix that is too large for factors and costly to make
    """

    n_samples: int
    n_features: int
    kernel: Any
    n_threads: int
    scale: float
    cost: int
    n_nonzeros: int
    block_width: int
    column_cost: int | None = None
    has_large_matrix: bool = False

    @abstractmethod
    def matmat(self, vectors: Array, precision: Precision = "double") -> Array:
        """``K @ vectors``: (N, M) to (N, M) float64. "single" is faster and for most data good to about 1e-6."""

    @abstractmethod
    def columns(self, index: Array, precision: Precision = "double") -> Array:
        """``K[:, index]``, (N, len(index)), in float64; "single": ``K[:, index] / scale`` in float32."""

    @abstractmethod
    def diagonal(self, rows: Rows | None = None) -> Array:
        """``K(x, x)`` for each test row, (n,); without rows for each training sample."""

    @abstractmethod
    def cross(self, rows: Rows, others: Rows | None = None) -> Array:
        """``K(x, x')`` for test rows x and others x', (n, m); without others for the training samples, (n, N)."""

    @abstractmethod
    def matrix(self) -> Array:
        """K itself, (N, N), for small N."""

    @abstractmethod
    def table(self, alpha: Array) -> Table:
        """The predictor ``x -> k(x)^T alpha``; alpha (N, M)."""

    @abstractmethod
    def relevance(self) -> Array:
        """The share of each feature in the prior variance of the training samples, (D,); they add up to one."""

    @abstractmethod
    def with_threads(self, n_threads: int) -> Self:
        """The operator on the same data with another number of threads."""

    @abstractmethod
    def release(self) -> None:
        """Drop what was derived for speed; it comes back when it is needed."""

    def offer(self, capability: type[Capability]) -> Capability | None:
        """What implements the capability here, or None."""
        return self if isinstance(self, capability) else None

    @abstractmethod
    def to_state(self, writer: Writer) -> None:
        """Put the training data into a file as they are kept, so that loading sorts nothing."""

    @classmethod
    @abstractmethod
    def from_state(cls, reader: Reader, kernel: Any, n_samples: int, n_features: int, n_threads: int) -> Self:
        """The operator in a file; believes nothing that the file says."""


@runtime_checkable
class Updates(Protocol):
    """Training samples that come and go: new operators for about one product."""

    def training_rows(self) -> Rows:
        """The training samples, raw values."""
        ...

    def extend(self, rows: Rows) -> Any:
        """The operator with further training samples after the present ones."""
        ...

    def remove(self, index: Any) -> Any:
        """The operator without the training samples of these numbers."""
        ...


@runtime_checkable
class Tuning(Protocol):
    """Other hyperparameters on the same data, and derivatives for them.

    most_searched : samples that a search looks at, at most; None is all of them
    """

    most_searched: int | None

    def with_kernel(self, kernel: Any) -> Any:
        """The operator with another value of the same kind of kernel; nothing is sorted again."""
        ...

    def gradient(self, left: Array, right: Array, sums: Array | None = None) -> dict[str, Array]:
        """Derivative of ``sum_s left_s^T K right_s`` for every hyperparameter; left, right (N, S).

        Keys are the kernel's parameter names ("weights", "transform__eta"), values have the shape of
        the parameter; "weights" has always one entry for each weight. ``sums`` (S, G) asks for G sums with
        these coefficients at the cost of one; the values then have a last axis of length G.
        """
        ...

    def trace_gradient(self) -> dict[str, Array]:
        """Derivative of the trace of K, by the names of `gradient`."""
        ...


@runtime_checkable
class Tables(Protocol):
    """Functions that add up over features, each tabulated in its own dimension: read in time independent of N."""

    def layout(self, most: int) -> Layout:
        """Nodes, at most ``most`` in each dimension beside zero, on which the following three tabulate."""
        ...

    def tabulate(self, layout: Any, alpha: Array) -> Array:
        """``x -> k(x)^T alpha`` at the nodes, (n_nodes, M)."""
        ...

    def tabulate_smoothed(self, layout: Any, noise: Array) -> Array:
        """``x -> sum_d Var(f_d(x_d) | y_d)`` at the nodes, (n_nodes, 1).

        The prior of ``f_d`` has the covariance K_d, and ``y_d`` are observations of it alone at the training samples,
        with noise of the variances (N,). That is the posterior variance if all other dimensions were known.
        """
        ...

    def prior_draws(self, layout: Any, rng: Any, n_draws: int) -> tuple[Array, Array]:
        """Functions drawn from the prior: at the training samples, (N, n_draws), and at the nodes, (n_nodes, n_draws).

        All randomness comes from ``rng.standard_normal``.
        """
        ...

    def grid_table(self, alpha: Array, grid: Grid) -> GridTable:
        """``x -> k(x)^T alpha`` approximately, on a grid."""
        ...

    def norm_table(self) -> Table:
        """``x -> sum_d sum_i K_d(x, x_i)^2``, (n, 1): a lower bound of the squared norm of k(x)."""
        ...

    def floor_table(self, n_bins: int, ceiling: float) -> Table:
        """``x -> K(x, x) - c / ceiling``, (n,), where c does not exceed the function of `norm_table`: tabulated."""
        ...


@runtime_checkable
class Features(Protocol):
    """Features whose products are the kernel: ``K = Phi Phi^T``, with Phi (N, n_components)."""

    @property
    def n_components(self) -> int:
        """The number of features."""
        ...

    @property
    def dtype(self) -> Any:
        """The precision of the features of training samples: double, or single where these are many."""
        ...

    def weight_of(self) -> Array:
        """The number of the kernel's weight that each feature has, (n_components,)."""
        ...

    def blocks(self, rows: Rows | None = None) -> Iterator[tuple[slice, Any]]:
        """Features of test rows, or of the training samples: slices with blocks (n, n_components), dense or CSR."""
        ...

    def project(self, vectors: Array) -> Array:
        """``Phi^T @ vectors``: (N, M) to (n_components, M)."""
        ...

    def combine(self, weights: Array) -> Array:
        """``Phi @ weights``: (n_components, M) to (N, M)."""
        ...

    def from_weights(self, weights: Array) -> Table:
        """The predictor ``x -> phi(x)^T weights``; weights (n_components, M)."""
        ...

    def unweighted(self) -> Any:
        """The operator with all weights one."""
        ...

    def weights(self) -> Array | None:
        """The weights, by the numbers of `weight_of`; None if all are one."""
        ...

    def remainder(self, rows: Rows, others: Rows | None = None) -> Array | float:
        """What features leave of the prior variance of test rows, (n,), or of their covariance with others, (n, m)."""
        ...


@runtime_checkable
class Matrix(Protocol):
    """The matrix itself is at hand: factors of it are affordable, whatever the number of samples."""

    def matrix_gradient(self, upstream: Array, names: Collection[str] | None = None) -> dict[str, Array]:
        """Derivative of ``sum_ij G_ij K_ij`` for the hyperparameters, all or these, given a symmetric G (N, N)."""
        ...

    def in_single(self) -> Any:
        """The operator with a matrix in single precision, for a search."""
        ...

    def new_matrix(self) -> Array:
        """K, (N, N), which the caller may overwrite; it is not kept."""
        ...


@runtime_checkable
class Pairwise(Protocol):
    """A kernel that is evaluated pair by pair: some of the training samples may stand for all.

    pair_kernel : its frozen value
    """

    @property
    def pair_kernel(self) -> Any: ...


@runtime_checkable
class Approximate(Protocol):
    """The matrix may not be that of the kernel itself.

    approximated_by : the name of the approximation, or None for an exact matrix
    """

    @property
    def approximated_by(self) -> str | None: ...

    def approximation_error(self) -> float:
        """The relative error of kernel values."""
        ...

    def exactly(self) -> Any:
        """The operator of the kernel itself, for a search; where that would be no better, this one."""
        ...


_NAMES: dict[Any, str] = {
    Updates: "training samples that can change",
    Tuning: "hyperparameters that can change",
    Tables: "tables over single features",
    Features: "features whose products are the kernel",
    Matrix: "a matrix at hand",
    Pairwise: "values of pairs of samples",
}


def require(operator: KernelOperator, capability: type[Capability], who: str) -> Capability:
    """What implements the capability, or a refusal that names ``who`` asked for it."""
    offered = operator.offer(capability)
    if offered is not None:
        return offered
    remedy = ""
    if operator.offer(Features) is not None:
        remedy = (
            ': exact prediction and the variance "precise" come from its features, in time independent of the number '
            "of training samples"
        )
    raise ValueError(
        f"{who} needs {_NAMES[capability]}, which {operator.kernel.interactive_part} does not have{remedy}."
    )


def new_matrix(operator: KernelOperator) -> Array:
    """K, (N, N), which the caller may overwrite; an operator that has a matrix at hand does not keep this one."""
    offered = operator.offer(Matrix)
    return operator.matrix() if offered is None else offered.new_matrix()


def approximation_of(operator: KernelOperator) -> str | None:
    """The name of the approximation of the kernel that an operator has, or None."""
    offered = operator.offer(Approximate)
    return None if offered is None else offered.approximated_by


def updates_of(operator: KernelOperator) -> Updates:
    """The operator as one whose training samples can be had and changed, or a refusal."""
    return require(operator, Updates, "An update")


def tuning_of(operator: KernelOperator, who: str = "A change of hyperparameters") -> Tuning:
    """The operator as one whose hyperparameters can be changed, or a refusal."""
    return require(operator, Tuning, who)


def prior_covariance(operator: KernelOperator, rows: Rows, others: Rows) -> Array:
    """The covariance of test rows and others before anything is observed, (n, m)."""
    features = operator.offer(Features)
    found = operator.cross(rows, others)
    return found if features is None else found + features.remainder(rows, others)


def cross_blocks(operator: KernelOperator, rows: Rows) -> Iterator[tuple[slice, Array]]:
    """``K(rows, training samples)`` in blocks of bounded size: slices of the n test rows with blocks (m, N)."""
    step = max(FEWEST_CROSS_ROWS, CROSS_NUMBERS // max(1, operator.n_samples))
    for begin in range(0, rows.n_rows, step):
        some = slice(begin, min(begin + step, rows.n_rows))
        yield some, operator.cross(rows.block(some.start, some.stop))


def check_same_kind(present: Any, other: Any) -> None:
    """Refuse a value of a kernel, ``other``, that cannot take the place of the present one."""
    if other.kind is not present.kind:
        raise ValueError("A kernel cannot give way to one of another kind on the same data: fit another model.")


def sums_by_weight(weight_of: Array, by_feature: Array) -> Array:
    """Sums over the features that have the same weight, (n_components, ...) to (n_weights, ...)."""
    out = np.zeros((int(weight_of.max()) + 1, *by_feature.shape[1:]))
    np.add.at(out, weight_of, by_feature)
    return out
