"""Kernels that are evaluated pair by pair: what they have in common, and exponentials of distances.

Laplacian and Gaussian see how features interact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from histogp._core.data import Array, Rows, SortedColumns
from histogp._core.kernel_values import KernelValue
from histogp._core.operators.contract import KernelOperator
from histogp._core.operators.pair_kernels import (
    Approximation,
    Child,
    Exponential,
    HeightsKernel,
    PairKernel,
    PairSum,
    mean_differences,
    mean_squared_differences,
)
from histogp._core.operators.pair_measures import Measure
from histogp._core.operators.pair_operators import KINDS, has_matrix, pair_operator, restored
from histogp.errors import ModelFileError
from histogp.io.schema import Reader
from histogp.kernels._base import Adapted, Kernel, check_pair, check_positive, heights_of, selected
from histogp.kernels.transforms import Transform

# Training samples up to which an update takes again what is left to data, and those that it is taken from.
MOST_ADAPTED_SAMPLES = 512
ADAPTED_FROM = 2000
# The most landmarks or waves that are accepted; a factor of so many takes 32 GB.
MOST_COMPONENTS = 2**16


class PairwiseKernel(Kernel):
    """Kernels that are evaluated pair by pair: exact up to 12,000 samples, above that as ``approximation`` says."""

    approximation: Any
    n_components: Any
    random_state: Any

    def __call__(self, X: Any, Y: Any = None) -> Array:
        """Evaluate the kernel densely, without approximation: ``K(X, Y)``, or ``K(X, X)`` without Y.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            The first samples of the pairs.
        Y : {array-like, sparse matrix} of shape (m, n_features), default=None
            The second samples of the pairs; None is X.

        Returns
        -------
        K : ndarray of shape (n, m)
            The kernel of all pairs of rows.
        """
        X, Y = check_pair(X, Y, any_sign=self._any_sign)
        return self._value(X.shape[1]).cross(Rows.from_array(X), Rows.from_array(Y))

    def _adapt(self, X: Any, targets: Array | None = None, noise: float = 1.0) -> Adapted:
        """Take from up to 2,000 training samples what is left to them; features are made by the operator."""
        self._check()
        index = np.arange(X.shape[0])
        if len(index) > ADAPTED_FROM:
            # By chance, because labels may alternate in step with the rows.
            index = np.sort(np.random.default_rng(0).choice(index, ADAPTED_FROM, replace=False))
        rows, columns = Rows.some_of(X, index), selected(self.columns, X.shape[1])
        kernel = self._resolved(
            rows if columns is None else rows.select(columns), None if targets is None else targets[index]
        )
        return Adapted(kernel, kernel._value(X.shape[1]), noise)

    def _adapts_again(self, n_before: int, n_after: int) -> bool:
        return n_before != n_after and min(n_before, n_after) < MOST_ADAPTED_SAMPLES

    def _operator(self, value: PairKernel, X: Any, n_threads: int = 1) -> KernelOperator:
        return pair_operator(Rows.from_array(X, n_threads), value, n_threads)

    def _restored_operator(self, reader: Reader, value: Any, n_samples: int, n_features: int, n_threads: int) -> Any:
        if reader.has("row_of"):  # as files of random waves had it
            data = SortedColumns.from_state(reader, n_samples, n_features)
            return pair_operator(data.to_rows(data.values, n_threads), value, n_threads)
        rows = Rows.from_state(reader, n_samples, n_features)
        if rows.values.min(initial=0.0) < 0 and not value.takes_any_sign:
            raise ModelFileError("its samples are negative.")
        if value.map is None and not has_matrix(value.approximation.kind, n_samples):
            raise ModelFileError("the features of its kernel are missing.")
        return pair_operator(rows, value, n_threads)

    def _to_search(self, given: Kernel, value: KernelValue) -> tuple[Kernel, KernelValue]:
        kernel = self._with_open_weights(given)
        return (self, value) if kernel is self else (kernel, kernel._value(value.n_features))

    def _restore(self, reader: Reader, n_features: int) -> PairKernel:
        self._check()
        return restored(self._value(n_features), reader)

    def _value(self, n_features: int) -> PairKernel:
        """The frozen value, for parameters that leave nothing to data."""
        return on_columns(self, n_features, self._pair_value)

    def _pair_value(self, n_features: int) -> PairKernel:
        return replace(super()._pair_value(n_features), approximation=self._approximation())

    def _approximation(self) -> Approximation:
        return Approximation(self.approximation, int(self.n_components), int(self.random_state))

    def _check(self) -> None:
        super()._check()
        check_approximation(self.approximation, self.n_components, self.random_state)


class _OfDistance(PairwiseKernel):
    """Exponentials of a distance between heights."""

    _measure: ClassVar[Measure]
    _any_sign = True
    _is_interactive = True

    def __init__(
        self,
        beta: float = 1.0,
        *,
        transform: Transform | None = None,
        weights: Any = None,
        groups: Any = None,
        scale: float = 1.0,
        columns: Any = None,
        unit: Any = "mean",
        approximation: str = "auto",
        n_components: int = 2000,
        random_state: int = 0,
    ):
        """Keep the parameters as they are given; the `fit` of an estimator checks them."""
        self.beta = beta
        self.transform = transform
        self.weights = weights
        self.groups = groups
        self.scale = scale
        self.columns = columns
        self.unit = unit
        self.approximation = approximation
        self.n_components = n_components
        self.random_state = random_state

    def _part(self, prefix: str = "") -> Exponential:
        self._check()
        if isinstance(self.unit, str):
            raise ValueError(f'unit="{self.unit}" is found by an estimator: call its kernel_, or give a number.')
        return Exponential(float(self.scale), prefix, self._measure, float(self.beta), float(self.unit))

    def _resolved(self, rows: Rows, targets: Array | None) -> Kernel:
        if not isinstance(self.unit, str):
            return self
        with np.errstate(over="ignore", invalid="ignore"):
            unit = self._mean_distance(own_heights(self, rows)) or 1.0
        if not np.isfinite(unit):
            raise ValueError("The kernel overflows on these features; scale them to moderate values.")
        return clone(self).set_params(unit=unit)

    def _mean_distance(self, heights: Rows) -> float:
        """The mean distance of two samples, given by their heights."""
        raise NotImplementedError

    def _left_open(self, given: Any, *, searched: bool) -> Kernel:
        return clone(self).set_params(unit=given.unit)

    def _check(self) -> None:
        super()._check()
        check_positive("beta", self.beta)
        check_positive("unit", self.unit, also="mean")


class Laplacian(_OfDistance):
    """Laplacian kernel, ``K(x, x') = s exp(-beta |h - h'|_1 / unit)`` on heights ``h_d = w_d g(x_d)``.

    The exponential of the intersection kernel's own distance, ``|a - b| = a + b - 2 min(a, b)``. It sees how features
    interact. Features of any sign are fine; a transform applies to their absolute values.

    Parameters
    ----------
    beta : float, default=1.0
        Inverse width, in units of the mean distance.
    transform : Transform or None, default=None
        As that of `HistogramIntersection`.
    weights : float, array-like of shape (n_features,) or (n_groups,), "ard" or None, default=None
        As those of `HistogramIntersection`.
    groups : array-like of shape (n_features,) or None, default=None
        As those of `HistogramIntersection`.
    scale : float, default=1.0
        The factor s, which is the prior variance.
    columns : slice, array-like of int or bool, or None, default=None
        The features that it sees; None is all of them.
    unit : float or "mean", default="mean"
        What distances are divided by. "mean" is the mean distance of two training samples, up to 2,000, so that 1 is a
        sensible ``beta`` for any data; an estimator takes it again when it learns further as long as it has fewer than
        512 samples. Until it is a number, the kernel cannot be called.
    approximation : {"auto", "exact", "single", "nystroem", "fourier"}, default="auto"
        How an estimator works with the kernel.

        - "exact": with its matrix; 8 bytes for each pair of samples and as much for a factor. Above 12,000 samples
          half of it in single precision, 2 bytes for each pair, and by iteration: the model is that of the rounded
          matrix, which needs noise of about 1e-4 of the prior variance or more: below that, scores are
          rounded in the second digit. More than 80,000 samples are refused.
        - "single": as "exact", and above 80,000 samples as "auto".
        - "nystroem": by ``n_components`` landmarks among the training samples, chosen by randomly pivoted Cholesky
          factorization; time and memory linear in the number of samples.
        - "fourier": by as many random waves.
        - "auto": "exact" up to 12,000 samples, above that the better one of the other two.
    n_components : int, default=2000
        Landmarks or waves, see ``approximation``.
    random_state : int, default=0
        Seed of landmarks and waves.

    Examples
    --------
    >>> from histogp.kernels import Laplacian
    >>> Laplacian(unit=2.0)([[1.0, 2.0]], [[3.0, 2.0]]).round(4)
    array([[0.3679]])
    """

    _measure = "absolute"
    _word = "Laplacian"

    def _mean_distance(self, heights: Rows) -> float:
        return float(mean_differences(heights).sum())


class Gaussian(_OfDistance):
    """Gaussian kernel, ``K(x, x') = s exp(-beta |h - h'|_2^2 / unit)`` on heights ``h_d = w_d g(x_d)``.

    It sees how features interact. Features of any sign are fine; a transform applies to their absolute values.

    Parameters
    ----------
    beta : float, default=1.0
        Inverse width, in units of the mean squared distance.
    transform : Transform or None, default=None
        As that of `HistogramIntersection`.
    weights : float, array-like of shape (n_features,) or (n_groups,), "ard" or None, default=None
        As those of `HistogramIntersection`.
    groups : array-like of shape (n_features,) or None, default=None
        As those of `HistogramIntersection`.
    scale : float, default=1.0
        The factor s, which is the prior variance.
    columns : slice, array-like of int or bool, or None, default=None
        The features that it sees; None is all of them.
    unit : float or "mean", default="mean"
        As that of `Laplacian`, of squared distances.
    approximation : {"auto", "exact", "single", "nystroem", "fourier"}, default="auto"
        As that of `Laplacian`.
    n_components : int, default=2000
        Landmarks or waves, see ``approximation``.
    random_state : int, default=0
        Seed of landmarks and waves.

    Examples
    --------
    >>> from histogp.kernels import Gaussian
    >>> Gaussian(unit=4.0)([[1.0, 2.0]], [[3.0, 2.0]]).round(4)
    array([[0.3679]])
    """

    _measure = "squared"
    _word = "Gaussian"

    def _mean_distance(self, heights: Rows) -> float:
        return float(mean_squared_differences(heights).sum())


def own_heights(kernel: Kernel, rows: Rows) -> Rows:
    """The heights of samples under the transform and the weights of a kernel, before these are learned."""
    return started(HeightsKernel(**heights_of(kernel, rows.n_columns)), rows).transform_rows(rows)


def on_columns(kernel: Kernel, n_features: int, make: Any) -> Any:
    """The value that ``make`` gives for so many features: for all of them, or those that the kernel selects."""
    columns = selected(kernel.columns, n_features)
    if columns is None:
        return make(n_features)
    value = make(len(columns))
    child = Child("", columns, value)
    return PairSum(
        n_features=n_features,
        children=(child,),
        learns_weights=value.learns_weights,
        approximation=value.approximation,
    )


def started(value: HeightsKernel, rows: Rows) -> HeightsKernel:
    """The value with the weights that a search starts from, if they are to be learned."""
    free = {one.name: one for one in value.hyperparameters(rows, 1.0, 1.0) if one.is_open}
    return value.at({name: one.expand(one.start) for name, one in free.items()})


def check_approximation(kind: Any, n_components: Any, random_state: Any) -> None:
    """Refuse parameters of approximations that make no sense."""
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"approximation must be one of {', '.join(map(repr, KINDS))}; got {kind!r}.")
    for name, value, highest in (
        ("n_components", n_components, MOST_COMPONENTS),
        ("random_state", random_state, 2**63),
    ):
        lowest = 2 if name == "n_components" else 0
        is_whole = isinstance(value, Integral) and not isinstance(value, bool)
        if not (is_whole and lowest <= int(value) <= highest):
            raise ValueError(f"{name} must be a whole number from {lowest} to {highest}; got {value!r}.")


def nested(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The values whose names begin with the name of a part, without that."""
    prefix = f"{name}__"
    return {key.removeprefix(prefix): value for key, value in values.items() if key.startswith(prefix)}
