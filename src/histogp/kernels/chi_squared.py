"""The additive chi-squared kernel by its direct expansion, and its exponential."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import clone

from histogp._core.data import Array, Rows, dense
from histogp._core.maps.additive import MOST_TERMS, Direct
from histogp._core.maps.pair_distances import chi2_matrix, inverse_median, most_likely
from histogp._core.maps.points import direct_map, typical_rows
from histogp._core.maps.random_waves import SAMPLINGS
from histogp._core.operators.feature_kernels import FeatureKernel, FeatureOperator
from histogp._core.operators.pair_kernels import Approximation, Exponential, Linear
from histogp.io.schema import Reader
from histogp.kernels._base import Adapted, AdditiveKernel, Kernel, check_pair, is_positive, selected, weighting
from histogp.kernels.pairwise import PairwiseKernel

# Training samples up to which an update adapts the features to the data again.
MOST_ADAPTED_SAMPLES = 512


class Chi2(AdditiveKernel):
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
    scale : float, default=1.0
        A factor of the kernel.
    columns : slice, array-like of int or bool, or None, default=None
        The features that it sees; None is all of them.

    Notes
    -----
    An estimator chooses the values at which the expansion is exact for its training data, and again when it learns
    further as long as it has fewer than 512 samples. In a sum there is no expansion: the sum is evaluated pair by pair,
    or approximated as a whole.

    Examples
    --------
    >>> from histogp.kernels import Chi2
    >>> Chi2()([[1.0, 2.0]], [[3.0, 2.0]])
    array([[3.5]])
    """

    _word = "chi-squared"

    def __init__(
        self,
        n_terms: Any = 3,
        *,
        tol: float = 1e-3,
        weights: Any = None,
        groups: Any = None,
        scale: float = 1.0,
        columns: Any = None,
    ):
        """Keep the parameters as they are given; the `fit` of an estimator checks them."""
        self.n_terms = n_terms
        self.tol = tol
        self.weights = weights
        self.groups = groups
        self.scale = scale
        self.columns = columns

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
        self._check()
        X, Y = map(dense, check_pair(X, Y))
        columns = slice(None) if self.columns is None else selected(self.columns, X.shape[1])
        X, Y = X[:, columns], Y[:, columns]
        return chi2_matrix(X, Y, weights=weighting(self, X.shape[1], self.scale)["weights"])

    def _part(self, prefix: str = "") -> Linear:
        self._check()
        return Linear(float(self.scale), prefix, "harmonic")

    def _adapt(self, X: Any, targets: Array | None = None, noise: float = 1.0) -> Adapted:
        self._check()
        columns = selected(self.columns, X.shape[1])
        seen = X
        if columns is not None:
            seen = Rows.some_of(X, np.arange(X.shape[0])).select(columns)
        value = FeatureKernel(self._map(seen), columns, **weighting(self, seen.shape[1], self.scale))
        return Adapted(clone(self).set_params(n_terms=value.map.n_terms), value, noise)

    def _map(self, X: Any) -> Direct:
        """The expansion that suits training data."""
        return direct_map(typical_rows(X), None if self.n_terms == "auto" else int(self.n_terms), self.tol)

    def _left_open(self, given: Any, *, searched: bool) -> Kernel:
        return clone(self).set_params(n_terms=given.n_terms)

    def _restore(self, reader: Reader, n_features: int) -> FeatureKernel:
        self._check()
        columns = selected(self.columns, n_features)
        n_seen = n_features if columns is None else len(columns)
        feature_map = Direct.from_state(reader, n_seen)
        if feature_map.n_terms != self.n_terms:
            raise ValueError("the terms of its kernel are damaged")
        return FeatureKernel(feature_map, columns, **weighting(self, n_seen, self.scale))

    def _adapts_again(self, n_before: int, n_after: int) -> bool:
        return n_before < min(n_after, MOST_ADAPTED_SAMPLES)

    def _operator(self, value: FeatureKernel, X: Any, n_threads: int = 1) -> FeatureOperator:
        return FeatureOperator(Rows.from_array(X, n_threads), value, n_threads)

    def _restored_operator(
        self, reader: Reader, value: Any, n_samples: int, n_features: int, n_threads: int
    ) -> FeatureOperator:
        return FeatureOperator.from_state(reader, value, n_samples, n_features, n_threads)

    def _check(self) -> None:
        super()._check()
        check_terms(self.n_terms, self.tol)


def check_terms(n_terms: Any, tol: Any) -> None:
    """Refuse what is neither a number of terms nor "auto", or no tolerance."""
    if n_terms != "auto" and not (isinstance(n_terms, Integral) and 1 <= int(n_terms) <= MOST_TERMS):
        raise ValueError(f'n_terms must be a whole number from 1 to {MOST_TERMS} or "auto"; got {n_terms!r}.')
    if not (isinstance(tol, Real) and 0 < float(tol) < np.inf):
        raise ValueError(f"tol must be a number above 0; got {tol!r}.")


class ExpChi2(PairwiseKernel):
    """Exponential chi-squared kernel, ``K(x, x') = s exp(-beta sum_d (x_d - x'_d)^2 / (x_d + x'_d) / 2)``.

    It is that of `sklearn.metrics.pairwise.chi2_kernel` with ``gamma=beta / 2``.

    Parameters
    ----------
    n_components : int, default=2000
        Landmarks or random waves where the kernel is approximated, an even number.
    beta : float or {"median", "evidence"}, default="median"
        Inverse width. "median" is one over the median of chi2 between training samples; "evidence" that under which the
        targets of up to 500 of them are most likely. An estimator chooses it again when it learns further as long as it
        has fewer than 512 samples. Until it is a number, the kernel cannot be called.
    n_terms : int, default=3
        Terms of the additive map for each feature, for random waves.
    scale : float, default=1.0
        The factor s, which is the prior variance.
    columns : slice, array-like of int or bool, or None, default=None
        The features that it sees; None is all of them.
    approximation : {"auto", "exact", "single", "nystroem", "fourier"}, default="auto"
        As that of `Laplacian`. Random waves are those of chi2-linear-approximation; their error falls with the root of
        their number.
    sampling : {"orthogonal", "plain", "quasi"}, default="orthogonal"
        How the frequencies of waves are drawn, as in `histogp.feature_maps.ExpChi2Sampler`.
    random_state : int, default=0
        Seed of landmarks and waves.

    Examples
    --------
    >>> from histogp.kernels import ExpChi2
    >>> ExpChi2(beta=2.0)([[1.0, 2.0]], [[3.0, 2.0]]).round(4)
    array([[0.3679]])
    """

    _is_interactive = True
    _word = "exponential chi-squared"

    def __init__(
        self,
        n_components: int = 2000,
        *,
        beta: Any = "median",
        n_terms: int = 3,
        scale: float = 1.0,
        columns: Any = None,
        approximation: str = "auto",
        sampling: str = "orthogonal",
        random_state: int = 0,
    ):
        """Keep the parameters as they are given; the `fit` of an estimator checks them."""
        self.n_components = n_components
        self.beta = beta
        self.n_terms = n_terms
        self.scale = scale
        self.columns = columns
        self.approximation = approximation
        self.sampling = sampling
        self.random_state = random_state

    def _part(self, prefix: str = "") -> Exponential:
        self._check()
        if isinstance(self.beta, str):
            raise ValueError(
                f'beta="{self.beta}" is found by an estimator: call its kernel_, or give a number, for instance one '
                "over the median of chi2."
            )
        return Exponential(float(self.scale), prefix, "chi2", float(self.beta))

    def _resolved(self, rows: Rows, targets: Array | None) -> Kernel:
        if not isinstance(self.beta, str):
            return self
        if self.beta == "evidence" and targets is not None:
            return clone(self).set_params(beta=most_likely(rows, targets))
        return clone(self).set_params(beta=inverse_median(rows))

    def _left_open(self, given: Any, *, searched: bool) -> Kernel:
        return clone(self) if searched else clone(self).set_params(beta=given.beta)

    def _approximation(self) -> Approximation:
        return replace(super()._approximation(), n_terms=int(self.n_terms), sampling=self.sampling)

    def _check(self) -> None:
        super()._check()
        if int(self.n_components) % 2:
            raise ValueError(f"n_components must be even, pairs of cosines and sines; got {self.n_components}.")
        if not (isinstance(self.n_terms, Integral) and 1 <= int(self.n_terms) <= MOST_TERMS):
            raise ValueError(f"n_terms must be a whole number from 1 to {MOST_TERMS}; got {self.n_terms!r}.")
        if self.sampling not in SAMPLINGS:
            raise ValueError(f"sampling must be one of {', '.join(map(repr, SAMPLINGS))}; got {self.sampling!r}.")
        if self.beta not in ("median", "evidence") and not is_positive(self.beta):
            raise ValueError(f'beta must be a number above 0, "median" or "evidence"; got {self.beta!r}.')
