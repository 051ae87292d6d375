"""The additive chi-squared kernel by its direct expansion, and its exponential by random features."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import clone

from histogp._core.data import Array, Rows, dense
from histogp._core.maps.additive import MOST_TERMS, Direct
from histogp._core.maps.pair_distances import chi2_matrix, exp_chi2_matrix, inverse_median, most_likely
from histogp._core.maps.points import direct_map, typical_rows
from histogp._core.maps.random_waves import SAMPLINGS, RandomWaves, normal_frequencies
from histogp._core.operators.feature_kernels import FeatureKernel, FeatureOperator
from histogp.io.schema import Reader
from histogp.kernels._base import Adapted, Kernel, check_pair, weighting

# Training samples up to which an update adapts the features to the data again.
MOST_ADAPTED_SAMPLES = 512


class _ByFeatures(Kernel):
    """Kernels that an estimator approximates by the products of features."""

    def _adapts_again(self, n_before: int, n_after: int) -> bool:
        return n_before < min(n_after, MOST_ADAPTED_SAMPLES)

    _operator_type = FeatureOperator

    def _operator(self, value: FeatureKernel, X: Any, n_threads: int = 1) -> FeatureOperator:
        return FeatureOperator(Rows.from_array(X, n_threads), value, n_threads)


class Chi2(_ByFeatures):
    """Additive chi-squared kernel, ``K(x, x') = sum_d w_d 2 x_d x'_d / (x_d + x'_d)``.

    An estimator works with a few features for each dimension whose products approximate the kernel
    (chi2-linear-approximation), so that it takes time and memory linear in the number of samples; called, the kernel
    itself is exact.

    Parameters
    ----------
    n_terms : int or "auto", default=3
        Terms of the expansion of each feature. The error falls by a factor of about three with each; "auto" takes as
        many as meet ``tol``.
    tol : float, default=1e-3
        For ``n_terms="auto"``: the sum of the absolute errors of all features over pairs of training samples, up to
        256 of them, in proportion to the sum of the kernel.
    weights : float, array-like of shape (n_features,) or (n_groups,), "ard" or None, default=None
        As those of `HistogramIntersection`.
    groups : array-like of shape (n_features,) or None, default=None
        As those of `HistogramIntersection`.

    Notes
    -----
    An estimator chooses the values at which the expansion is exact for its training data, and again when it learns
    further as long as it has fewer than 512 samples.

    Examples
    --------
    >>> from histogp.kernels import Chi2
    >>> Chi2()([[1.0, 2.0]], [[3.0, 2.0]])
    array([[3.5]])
    """

    def __init__(self, n_terms: Any = 3, *, tol: float = 1e-3, weights: Any = None, groups: Any = None):
        self.n_terms = n_terms
        self.tol = tol
        self.weights = weights
        self.groups = groups

    def __call__(self, X: Any, Y: Any = None) -> Array:
        """Evaluate the kernel densely, without approximation: ``K(X, Y)``, or ``K(X, X)`` without Y."""
        check_terms(self.n_terms, self.tol)
        X, Y = map(dense, check_pair(X, Y))
        return chi2_matrix(X, Y, weights=weighting(self, X.shape[1])["weights"])

    def _adapt(self, X: Any, targets: Array | None = None, noise: float = 1.0) -> Adapted:
        check_terms(self.n_terms, self.tol)
        common = weighting(self, X.shape[1])
        value = FeatureKernel(self._map(X), **common)
        return Adapted(clone(self).set_params(n_terms=value.map.n_terms), value, noise)

    def _map(self, X: Any) -> Direct:
        """The expansion that suits training data."""
        return direct_map(typical_rows(X), None if self.n_terms == "auto" else int(self.n_terms), self.tol)

    def _left_open(self, given: Any) -> Kernel:
        return clone(self).set_params(n_terms=given.n_terms)

    def _restore(self, reader: Reader, n_features: int) -> FeatureKernel:
        check_terms(self.n_terms, self.tol)
        feature_map = Direct.from_state(reader, n_features)
        if feature_map.n_terms != self.n_terms:
            raise ValueError("the terms of its kernel are damaged")
        return FeatureKernel(feature_map, **weighting(self, n_features))


def check_terms(n_terms: Any, tol: Any) -> None:
    """Refuse what is neither a number of terms nor "auto", or no tolerance."""
    if n_terms != "auto" and not (isinstance(n_terms, Integral) and 1 <= int(n_terms) <= MOST_TERMS):
        raise ValueError(f'n_terms must be a whole number from 1 to {MOST_TERMS} or "auto"; got {n_terms!r}.')
    if not (isinstance(tol, Real) and 0 < float(tol) < np.inf):
        raise ValueError(f"tol must be a number above 0; got {tol!r}.")


# The most random features that are accepted; a factor of so many takes 32 GB.
MOST_WAVES = 2**16


class ExpChi2(_ByFeatures):
    """Exponential chi-squared kernel, ``K(x, x') = w exp(-beta sum_d (x_d - x'_d)^2 / (x_d + x'_d) / 2)``.

    An estimator works with random features whose products approximate the kernel (chi2-linear-approximation), so that
    it takes time and memory linear in the number of samples; called, the kernel itself is exact. It is that of
    `sklearn.metrics.pairwise.chi2_kernel` with ``gamma=beta / 2``.

    Parameters
    ----------
    n_components : int, default=2000
        Random features, an even number. The error falls with its root, the time grows with its square.
    beta : float or {"median", "evidence"}, default="median"
        Inverse width. "median" is one over the median of chi2 between training samples; "evidence" that under which the
        targets of up to 500 of them are most likely. An estimator chooses it again when it learns further as long as it
        has fewer than 512 samples. Until it is a number, the kernel cannot be called.
    n_terms : int, default=3
        Terms of the additive map for each feature.
    weights : float or None, default=None
        The factor w; None is one.
    sampling : {"orthogonal", "plain", "quasi"}, default="orthogonal"
        How frequencies are drawn, as in `histogp.feature_maps.ExpChi2Sampler`.
    random_state : int, default=0
        Seed of the frequencies.

    Examples
    --------
    >>> from histogp.kernels import ExpChi2
    >>> ExpChi2(beta=2.0)([[1.0, 2.0]], [[3.0, 2.0]]).round(4)
    array([[0.3679]])
    """

    def __init__(
        self,
        n_components: int = 2000,
        *,
        beta: Any = "median",
        n_terms: int = 3,
        weights: float | None = None,
        sampling: str = "orthogonal",
        random_state: int = 0,
    ):
        """Keep the parameters as they are given; the `fit` of an estimator checks them."""
        self.n_components = n_components
        self.beta = beta
        self.n_terms = n_terms
        self.weights = weights
        self.sampling = sampling
        self.random_state = random_state

    def __call__(self, X: Any, Y: Any = None) -> Array:
        """Evaluate the kernel densely, without approximation: ``K(X, Y)``, or ``K(X, X)`` without Y."""
        self._check()
        if isinstance(self.beta, str):
            raise ValueError(
                f'beta="{self.beta}" is found by an estimator: call its kernel_, or give a number, for instance one '
                "over the median of chi2."
            )
        X, Y = map(dense, check_pair(X, Y))
        return (1.0 if self.weights is None else self.weights) * exp_chi2_matrix(X, Y, float(self.beta))

    def _adapt(self, X: Any, targets: Array | None = None, noise: float = 1.0) -> Adapted:
        self._check()
        kernel = clone(self)
        if self.beta == "evidence" and targets is not None:
            kernel.beta = most_likely(X, targets)
        elif isinstance(self.beta, str):
            kernel.beta = inverse_median(X)
        return Adapted(kernel, kernel._value(kernel._map(X), X.shape[1]), noise)

    def _map(self, X: Any) -> RandomWaves:
        """Random waves over the expansion that suits training data."""
        additive = direct_map(typical_rows(X), int(self.n_terms), 0.0)
        rng = np.random.default_rng(int(self.random_state))
        drawn = normal_frequencies(self.sampling, additive.n_components, int(self.n_components) // 2, rng)
        # Rounded to single precision, as those of `ExpChi2Sampler` are.
        frequencies = np.sqrt(float(self.beta)) * drawn.astype(np.float32).astype(np.float64)
        return RandomWaves(additive, frequencies, np.empty(0))

    def _left_open(self, given: Any) -> Kernel:
        return clone(self).set_params(beta=given.beta)

    def _restore(self, reader: Reader, n_features: int) -> FeatureKernel:
        self._check()
        additive = Direct.from_state(reader.child("additive"), n_features)
        if isinstance(self.beta, str) or additive.n_terms != self.n_terms:
            raise ValueError("the width or the terms of its kernel are damaged")
        waves = RandomWaves.from_state(reader, additive, n_features, int(self.n_components), np.float64)
        return self._value(waves, n_features)

    def _value(self, feature_map: RandomWaves, n_features: int) -> FeatureKernel:
        weights = None if self.weights is None else np.array([self.weights], np.float64)
        return FeatureKernel(feature_map, n_features=n_features, weights=weights)

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
