"""Exponentials of the distance between samples, which see how features interact: Laplacian and Gaussian."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from histogp._core.data import Array, Rows
from histogp._core.operators.pair_kernels import (
    Exponential,
    HeightsKernel,
    mean_differences,
    mean_squared_differences,
)
from histogp._core.operators.pair_measures import Measure
from histogp.kernels._base import Kernel, check_positive, heights_of
from histogp.kernels._pairwise import PairwiseKernel, started
from histogp.kernels.transforms import Transform


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


def own_heights(kernel: Kernel, rows: Rows) -> Rows:
    """The heights of samples under the transform and the weights of a kernel, before these are learned."""
    return started(HeightsKernel(**heights_of(kernel, rows.n_columns)), rows).transform_rows(rows)


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
    approximation : {"auto", "exact", "nystroem", "fourier"}, default="auto"
        How an estimator works with the kernel.

        - "exact": with its matrix; 8 bytes for each pair of samples and as much for a factor, and above 12,000 samples,
          up to 40,000, 4 bytes.
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
    approximation : {"auto", "exact", "nystroem", "fourier"}, default="auto"
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
