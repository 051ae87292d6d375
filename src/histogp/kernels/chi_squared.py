"""The additive chi-squared kernel by its direct expansion, and its exponential by random features."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import clone

from histogp._core.data import Array, Rows
from histogp._core.maps.additive import MOST_TERMS, Direct
from histogp._core.maps.pair_distances import chi2_matrix, exp_chi2_matrix, inverse_median, most_likely
from histogp._core.maps.points import direct_map, typical_rows
from histogp._core.maps.random_waves import SAMPLINGS, RandomWaves, normal_frequencies
from histogp._core.operators.feature_kernels import ResolvedChi2, ResolvedExpChi2
from histogp.kernels._base import Kernel, check_pair, resolve, resolved_weights


class Chi2(Kernel):
    """Additive chi-squared kernel, ``K(x, x') = sum_d w_d 2 x_d x'_d / (x_d + x'_d)``.

    An estimator works with a few features for each dimension whose products approximate the kernel
    (chi2-linear-approximation), so that it takes time and memory linear in the number of examples; called, the kernel
    itself is exact.

    Parameters
    ----------
    n_terms : int or "auto", default=3
        Terms of the expansion of each feature. The error falls by a factor of about three with each; "auto" takes as
        many as meet ``tol``.
    tol : float, default=1e-3
        For ``n_terms="auto"``: the sum of the absolute errors of all features over pairs of training rows, up to
        256 of them, in proportion to the sum of the kernel.
    weights : float, array-like of shape (n_features,) or (n_groups,), "ard" or None, default=None
        As those of `HistogramIntersection`.
    groups : array-like of shape (n_features,) or None, default=None
        As those of `HistogramIntersection`.
    points : array-like of shape (n_terms, n_features) or None, default=None
        Values at which the approximation is exact; None has an estimator choose them for its training data, again
        when it learns further as long as it has fewer than 512 examples.

    Examples
    --------
    >>> from histogp.kernels import Chi2
    >>> Chi2()([[1.0, 2.0]], [[3.0, 2.0]])
    array([[3.5]])
    """

    _has_features = True
    _from_data = ("points",)

    def __init__(
        self, n_terms: Any = 3, *, tol: float = 1e-3, weights: Any = None, groups: Any = None, points: Any = None
    ):
        self.n_terms = n_terms
        self.tol = tol
        self.weights = weights
        self.groups = groups
        self.points = points

    def __call__(self, X: Any, Y: Any = None) -> Array:
        """Evaluate the kernel densely, without approximation: ``K(X, Y)``, or ``K(X, X)`` without Y."""
        X, Y = check_pair(X, Y)
        return chi2_matrix(X, Y, weights=resolve(self, X.shape[1]).weights)

    def _adapt(self, X: Any, targets: Array | None = None) -> Chi2:
        if not self._adapts:
            return self
        check_terms(self.n_terms, self.tol)
        n_terms = None if self.n_terms == "auto" else int(self.n_terms)
        adapted = clone(self)
        adapted.points = direct_map(typical_rows(X), n_terms, self.tol).points
        return adapted

    def _resolve(self, n_features: int) -> ResolvedChi2:
        check_terms(self.n_terms, self.tol)
        weights = resolved_weights(self, n_features)
        if self.points is None:
            return ResolvedChi2(None, {}, weights, None)
        try:
            points = np.atleast_1d(np.asarray(self.points, np.float64))
        except (TypeError, ValueError):
            raise ValueError(f"points must be positive numbers, a row for each term; got {self.points!r}.") from None
        n_terms = len(points) if self.n_terms == "auto" else self.n_terms
        if points.shape != (n_terms, n_features) or not (np.all(np.isfinite(points)) and np.all(points > 0)):
            raise ValueError(
                f"points must be {n_terms} x {n_features} positive numbers, a row for each term; got an array of "
                f"shape {points.shape}."
            )
        return ResolvedChi2(None, {}, weights, Direct(points))


def check_terms(n_terms: Any, tol: Any) -> None:
    """Refuse what is neither a number of terms nor "auto", or no tolerance."""
    if n_terms != "auto" and not (isinstance(n_terms, Integral) and 1 <= int(n_terms) <= MOST_TERMS):
        raise ValueError(f'n_terms must be a whole number from 1 to {MOST_TERMS} or "auto"; got {n_terms!r}.')
    if not (isinstance(tol, Real) and 0 < float(tol) < np.inf):
        raise ValueError(f"tol must be a number above 0; got {tol!r}.")


MOST_WAVES = 2**16


class ExpChi2(Kernel):
    """Exponential chi-squared kernel, ``K(x, x') = w exp(-beta sum_d (x_d - x'_d)^2 / (x_d + x'_d) / 2)``.

    An estimator works with random features whose products approximate the kernel (chi2-linear-approximation), so that
    it takes time and memory linear in the number of examples; called, the kernel itself is exact. It is that of
    `sklearn.metrics.pairwise.chi2_kernel` with ``gamma=beta / 2``.

    Parameters
    ----------
    n_components : int, default=2000
        Random features, an even number. The error falls with its root, the time grows with its square.
    beta : float or {"median", "evidence"}, default="median"
        Inverse width. "median" is one over the median of chi2 between training rows; "evidence" that under which the
        targets of up to 500 of them are most likely. An estimator chooses it again when it learns further as long as it
        has fewer than 512 examples. Until it is a number, the kernel cannot be called.
    n_terms : int, default=3
        Terms of the additive map for each feature.
    weights : float or None, default=None
        The factor w; None is one.
    sampling : {"orthogonal", "plain", "quasi"}, default="orthogonal"
        How frequencies are drawn, as in `histogp.feature_maps.ExpChi2Sampler`.
    random_state : int, default=0
        Seed of the frequencies.
    points : array-like of shape (n_terms, n_features) or None, default=None
        As those of `Chi2`.
    frequencies : array-like of shape (n_terms * n_features, n_components / 2) or None, default=None
        Standard normal numbers; None has an estimator draw them.

    Examples
    --------
    >>> from histogp.kernels import ExpChi2
    >>> ExpChi2(beta=2.0)([[1.0, 2.0]], [[3.0, 2.0]]).round(4)
    array([[0.3679]])
    """

    groups = None
    _has_features = True
    _from_data = ("beta", "points", "frequencies")
    _by_name = ("beta",)

    def __init__(
        self,
        n_components: int = 2000,
        *,
        beta: Any = "median",
        n_terms: int = 3,
        weights: float | None = None,
        sampling: str = "orthogonal",
        random_state: int = 0,
        points: Any = None,
        frequencies: Any = None,
    ):
        self.n_components = n_components
        self.beta = beta
        self.n_terms = n_terms
        self.weights = weights
        self.sampling = sampling
        self.random_state = random_state
        self.points = points
        self.frequencies = frequencies

    def __call__(self, X: Any, Y: Any = None) -> Array:
        """Evaluate the kernel densely, without approximation: ``K(X, Y)``, or ``K(X, X)`` without Y."""
        self._check()
        if isinstance(self.beta, str):
            raise ValueError(
                f'beta="{self.beta}" is found by an estimator: call its kernel_, or give a number, for instance one '
                "over the median of chi2."
            )
        X, Y = check_pair(X, Y)
        return (1.0 if self.weights is None else self.weights) * exp_chi2_matrix(X, Y, float(self.beta))

    def _adapt(self, X: Any, targets: Array | None = None) -> ExpChi2:
        if not self._adapts:
            return self
        self._check()
        self._given(X.n_columns if isinstance(X, Rows) else X.shape[1])
        adapted = clone(self)
        if self.points is None:
            adapted.points = direct_map(typical_rows(X), int(self.n_terms), 0.0).points
        if self.beta == "evidence" and targets is not None:
            adapted.beta = most_likely(X, targets)
        elif isinstance(self.beta, str):
            adapted.beta = inverse_median(X)
        if self.frequencies is None:
            n_inputs = np.size(adapted.points)
            rng = np.random.default_rng(int(self.random_state))
            drawn = normal_frequencies(self.sampling, n_inputs, int(self.n_components) // 2, rng)
            adapted.frequencies = drawn.astype(np.float32)
        return adapted

    def _resolve(self, n_features: int) -> ResolvedExpChi2:
        self._check()
        weights = None if self.weights is None else np.array([self.weights], np.float64)
        points, frequencies = self._given(n_features)
        if points is None or frequencies is None or isinstance(self.beta, str):
            return ResolvedExpChi2(None, {}, weights, None)
        waves = RandomWaves(Direct(points), np.sqrt(float(self.beta)) * frequencies, np.empty(0))
        return ResolvedExpChi2(None, {}, weights, waves)

    def _given(self, n_features: int) -> tuple[Array | None, Array | None]:
        """Points and frequencies; None where they are left to data. Refuses those that do not fit."""
        n_terms = int(self.n_terms)
        points = None if self.points is None else _numbers("points", self.points, (n_terms, n_features))
        if points is not None and not np.all(points > 0):
            raise ValueError("points must be positive.")
        shape = (n_terms * n_features, int(self.n_components) // 2)
        return points, None if self.frequencies is None else _numbers("frequencies", self.frequencies, shape)

    def _check(self) -> None:
        """Refuse parameters that make no sense."""
        _check_number("n_components", self.n_components, Integral, 2, MOST_WAVES)
        if int(self.n_components) % 2:
            raise ValueError(f"n_components must be even, pairs of cosines and sines; got {self.n_components}.")
        _check_number("n_terms", self.n_terms, Integral, 1, MOST_TERMS)
        _check_number("random_state", self.random_state, Integral, 0, 2**63)
        if self.weights is not None:
            _check_number("weights", self.weights, Real, 0, np.inf)
        if self.sampling not in SAMPLINGS:
            raise ValueError(f"sampling must be one of {', '.join(map(repr, SAMPLINGS))}; got {self.sampling!r}.")
        if isinstance(self.beta, str) and self.beta in ("median", "evidence"):
            return
        if not _as_float(self.beta, Real) > 0:
            raise ValueError(f'beta must be a number above 0, "median" or "evidence"; got {self.beta!r}.')


def _check_number(name: str, value: Any, kind: Any, lowest: float, highest: float) -> None:
    if not lowest <= _as_float(value, kind) <= highest:
        what = f"a whole number from {lowest} to {highest}" if kind is Integral else f"a finite number from {lowest} on"
        raise ValueError(f"{name} must be {what}; got {value!r}.")


def _as_float(value: Any, kind: Any) -> float:
    """A number of this kind; nan for what is none, or has no place among finite ones."""
    try:
        number = float(value) if isinstance(value, kind) and not isinstance(value, bool) else np.nan
    except OverflowError:
        return np.nan
    return number if np.isfinite(number) else np.nan


def _numbers(name: str, value: Any, shape: tuple[int, ...]) -> Array:
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.shape != shape or not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be {' x '.join(map(str, shape))} finite numbers.")
    return array
