"""Kernels of the distance between samples, which let features interact: Laplacian and Gaussian."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from histogp._core.data import Array, Rows
from histogp._core.operators.pair_kernels import (
    DenseOperator,
    HeightsKernel,
    Kind,
    Part,
    mean_differences,
    mean_squared_differences,
)
from histogp.io.schema import Reader
from histogp.kernels._base import Adapted, Kernel, check_pair
from histogp.kernels.intersection import heights_of
from histogp.kernels.transforms import Transform

# Training samples up to which an update takes the unit from the data again, and those that it is taken from.
MOST_ADAPTED_SAMPLES = 512
UNIT_SAMPLES = 2000


class _OfDistance(Kernel):
    """Exponentials of a distance between heights."""

    transform: Transform | None
    beta: float
    unit: Any
    scale: float
    _kind: ClassVar[Kind]
    _any_sign = True
    _operator_type = DenseOperator

    def __call__(self, X: Any, Y: Any = None) -> Array:
        """Evaluate the kernel densely: ``K(X, Y)``, or ``K(X, X)`` without Y."""
        if isinstance(self.unit, str):
            raise ValueError(f'unit="{self.unit}" is found by an estimator: call its kernel_, or give a number.')
        X, Y = check_pair(X, Y, any_sign=True)
        return self._value(X.shape[1]).pairs(Rows.from_array(X), Rows.from_array(Y))

    def _adapt(self, X: Any, targets: Array | None = None, noise: float = 1.0) -> Adapted:
        self._check()
        kernel = clone(self)
        if isinstance(self.unit, str):
            kernel.unit = 1.0
            heights = kernel._value(X.shape[1]).transform_rows(_some_rows(X))
            kernel.unit = float(kernel._mean_distance(heights)) or 1.0
        return Adapted(kernel, kernel._value(X.shape[1]), noise)

    def _mean_distance(self, heights: Rows) -> float:
        """The mean distance of two samples, given by their heights."""
        raise NotImplementedError

    def _adapts_again(self, n_before: int, n_after: int) -> bool:
        return n_before < min(n_after, MOST_ADAPTED_SAMPLES)

    def _left_open(self, given: Any) -> Kernel:
        return clone(self).set_params(unit=given.unit)

    def _operator(self, value: HeightsKernel, X: Any, n_threads: int = 1) -> DenseOperator:
        return DenseOperator(Rows.from_array(X, n_threads), value, n_threads)

    def _with_values(self, values: Any) -> Kernel:
        return clone(self).set_params(**values)

    def _restore(self, reader: Reader, n_features: int) -> HeightsKernel:
        self._check()
        if isinstance(self.unit, str):
            raise ValueError("the unit of its kernel is damaged")
        return self._value(n_features)

    def _value(self, n_features: int) -> HeightsKernel:
        part = Part(self._kind, float(self.scale), float(self.beta), float(self.unit))
        return HeightsKernel(**heights_of(self, n_features), parts=(part,))

    def _check(self) -> None:
        """Refuse parameters that make no sense."""
        for name in ("beta", "scale", "unit"):
            value = getattr(self, name)
            if name == "unit" and value == "mean":
                continue
            if not (isinstance(value, Real) and not isinstance(value, bool) and 0 < float(value) < np.inf):
                also = ' or "mean"' if name == "unit" else ""
                raise ValueError(f"{name} must be a number above 0{also}; got {value!r}.")


def _some_rows(X: Any) -> Rows:
    """Up to 2,000 samples of an array, CSR or `Rows`, evenly spread."""
    step = -(-X.shape[0] // UNIT_SAMPLES) or 1
    return X.take(np.arange(0, X.shape[0], step)) if isinstance(X, Rows) else Rows.from_array(X[::step])


class Laplacian(_OfDistance):
    """Laplacian kernel, ``K(x, x') = s exp(-beta |h - h'|_1 / unit)`` on heights ``h_d = w_d g(x_d)``.

    The exponential of the intersection kernel's own distance, ``|a - b| = a + b - 2 min(a, b)``. Features of any sign
    are fine; a transform applies to their absolute values.

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
    unit : float or "mean", default="mean"
        What distances are divided by. "mean" is the mean distance of two training samples, so that 1 is a sensible
        ``beta`` for any data; an estimator takes it again when it learns further as long as it has fewer than 512
        samples. Until it is a number, the kernel cannot be called.

    Examples
    --------
    >>> from histogp.kernels import Laplacian
    >>> Laplacian(unit=2.0)([[1.0, 2.0]], [[3.0, 2.0]]).round(4)
    array([[0.3679]])
    """

    _kind = "laplacian"

    def __init__(
        self,
        beta: float = 1.0,
        *,
        transform: Transform | None = None,
        weights: Any = None,
        groups: Any = None,
        scale: float = 1.0,
        unit: Any = "mean",
    ):
        """Keep the parameters as they are given; the `fit` of an estimator checks them."""
        self.beta = beta
        self.transform = transform
        self.weights = weights
        self.groups = groups
        self.scale = scale
        self.unit = unit

    def _mean_distance(self, heights: Rows) -> float:
        return float(mean_differences(heights).sum())


class Gaussian(_OfDistance):
    """Gaussian kernel, ``K(x, x') = s exp(-beta |h - h'|_2^2 / unit)`` on heights ``h_d = w_d g(x_d)``.

    Features of any sign are fine; a transform applies to their absolute values.

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
    unit : float or "mean", default="mean"
        As that of `Laplacian`, of squared distances.

    Examples
    --------
    >>> from histogp.kernels import Gaussian
    >>> Gaussian(unit=4.0)([[1.0, 2.0]], [[3.0, 2.0]]).round(4)
    array([[0.3679]])
    """

    _kind = "gaussian"

    def __init__(
        self,
        beta: float = 1.0,
        *,
        transform: Transform | None = None,
        weights: Any = None,
        groups: Any = None,
        scale: float = 1.0,
        unit: Any = "mean",
    ):
        """Keep the parameters as they are given; the `fit` of an estimator checks them."""
        self.beta = beta
        self.transform = transform
        self.weights = weights
        self.groups = groups
        self.scale = scale
        self.unit = unit

    def _mean_distance(self, heights: Rows) -> float:
        return float(mean_squared_differences(heights).sum())
