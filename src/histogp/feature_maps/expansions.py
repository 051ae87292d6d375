"""Feature maps of additive kernels as transformers."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from histogp._core.data import Array, Rows, dense
from histogp._core.maps.additive import MOST_TERMS, AdditiveMap, Chebyshev, Direct, Root, Sampled, sampled
from histogp._core.maps.points import best_interval, direct_map, geometric_mean, typical_rows
from histogp._core.threads import announce_compilation
from histogp._estimator import number_of_threads, updating, validate_features
from histogp.io.schema import Reader, Writer

# Sampling intervals of the spectrum by the number of terms, those of scikit-learn's AdditiveChi2Sampler.
CHI2_INTERVALS = {1: 0.8, 3: 0.5, 5: 0.4}


class FeatureMap(TransformerMixin, BaseEstimator):
    """Base of transformers, most of which need non-negative features."""

    _precision: type = np.float64
    """That of features; where these are an average over chance, single precision is more than enough."""
    _block_of: Array | None = None
    """The number of the block of each feature, (n_features_out,); None for maps without blocks."""
    _n_unprojected: int = 0
    """Features that are made of a sample before they are projected to fewer; 0 for maps that project nothing."""
    _n_features_out: int

    def _unprojected(self, X: Any) -> Any:
        """The features before they are projected, for weights that `_folded` has made."""
        return self.transform(X)

    def _folded(self, weights: Array, intercepts: Array) -> tuple[Array, Array] | None:
        """Weights (n_unprojected, k) and intercepts (k,) of unprojected features; None if nothing is projected.

        They give the same scores as weights (n_features_out, k) and intercepts of the projected features.
        """
        return None

    def _finish(self) -> None:
        """Drop what only further samples of `partial_fit` would need."""

    def _to_state(self, writer: Writer) -> None:
        """Write what was learned from data into a model file."""
        raise NotImplementedError

    def _restore(self, reader: Reader, n_features: int) -> None:
        """Become the map that `_to_state` has written; believes nothing."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class _AdditiveMap(FeatureMap):
    """Base of transformers that map each feature to a few."""

    n_jobs: int | None
    _map: AdditiveMap

    def _choose(self, X: Any) -> AdditiveMap:
        """The map for training data."""
        raise NotImplementedError

    def _kind(self) -> type[AdditiveMap]:
        """The class of the map, by the parameters."""
        raise NotImplementedError

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Any:
        """Adapt the map to the distribution of the features.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Non-negative features.
        y : ignored
            Not used; scikit-learn's pipelines pass it.

        Returns
        -------
        self : estimator instance
            The estimator itself.
        """
        with updating(self) as changed:
            changed._install(changed._choose(validate_features(changed, X, reset=True)))
        return self

    def _install(self, chosen: AdditiveMap) -> None:
        """Set the fitted attributes."""
        self._map = chosen
        self._n_features_out = chosen.n_terms * self.n_features_in_
        self.n_terms_ = chosen.n_terms
        for name in ("points_", "sample_interval_"):  # of an earlier fit with another method
            self.__dict__.pop(name, None)
        self.__dict__.update(chosen.attributes())

    def _to_state(self, writer: Writer) -> None:
        self._map.to_state(writer)

    def _restore(self, reader: Reader, n_features: int) -> None:
        self.n_features_in_ = n_features
        self._install(self._kind().from_state(reader, n_features))

    def transform(self, X: Any) -> Any:
        """The features: first the first term of every feature, then the second.

        A sparse matrix, CSR, for a sparse one; in the precision of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples to transform.

        Returns
        -------
        Z : {ndarray, sparse matrix} of shape (n_samples, n_terms * n_features)
            Their products approximate the kernel.
        """
        check_is_fitted(self)
        announce_compilation()
        X = validate_features(self, X, reset=False)
        return self._map.transform(X, number_of_threads(self.n_jobs))

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """``name_0, ...``: the name of the feature and the number of the term.

        Parameters
        ----------
        input_features : array-like of str of shape (n_features,) or None, default=None
            Names of the features of a sample. None takes those of the data, or else "x0", "x1" and so on.

        Returns
        -------
        names : ndarray of shape (n_features_out,)
            Names of the features that `transform` gives.
        """
        check_is_fitted(self)
        names = OneToOneFeatureMixin.get_feature_names_out(self, input_features)
        return np.array([f"{name}_{term}" for term in range(self._map.n_terms) for name in names], object)


class AdditiveChi2Map(_AdditiveMap):
    """Features whose products approximate the additive chi-squared kernel, ``sum_d 2 x_d y_d / (x_d + y_d)``.

    Parameters
    ----------
    method : {"direct", "vz", "chebyshev"}, default="direct"
        - "direct": the expansion of chi2-linear-approximation (eq. 6), which converges geometrically. It is exact
          where a value is one of as many points as there are terms.
        - "vz": the sampled spectrum of Vedaldi and Zisserman, as in scikit-learn's ``AdditiveChi2Sampler``. Needs an
          odd number of terms.
        - "chebyshev": the expansion of Li, Lebanon and Sminchisescu (2012), around the geometric mean of the data.
    n_terms : int or "auto", default=3
        Terms of the expansion of each feature, as those of `histogp.kernels.Chi2`. The error of "direct" falls by a
        factor of about three with each; "auto", with "direct" only, takes as many as meet ``tol``.
    tol : float, default=1e-3
        For ``n_terms="auto"``: the sum of the absolute errors of all features over pairs of training samples, up to
        256 of them, in proportion to the sum of the kernel.
    points : {"refined", "greedy"}, default="refined"
        How "direct" chooses its points: "greedy" is algorithm 1 of the paper, with the same points for all features;
        "refined" goes on from there to a minimum of the error, in units of each feature.
    sample_interval : float or None, default=None
        For "vz". None is that of scikit-learn for 1, 3 and 5 terms, otherwise the best for the data.
    n_jobs : int or None, default=None
        Threads; None means all that Numba may use, -1 all cores.

    Attributes
    ----------
    n_terms_ : int
        Terms of the expansion of each feature, given or chosen.
    points_ : ndarray of shape (n_terms, n_features)
        With "direct": where the approximation is exact.
    sample_interval_ : float
        With "vz": the sampling interval of the spectrum.
    n_features_in_ : int
        Features of a sample.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of these, if the data have names.

    Examples
    --------
    >>> import numpy as np
    >>> from histogp.feature_maps import AdditiveChi2Map
    >>> X = np.random.default_rng(0).random((100, 2))
    >>> Z = AdditiveChi2Map(n_terms=7).fit_transform(X)
    >>> Z.shape
    (100, 14)
    >>> x, y = X[:2]
    >>> bool(abs(Z[0] @ Z[1] - np.sum(2 * x * y / (x + y))) < 1e-3)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "method": [StrOptions({"direct", "vz", "chebyshev"})],
        "n_terms": [StrOptions({"auto"}), Interval(Integral, 1, MOST_TERMS, closed="both")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "points": [StrOptions({"refined", "greedy"})],
        "sample_interval": [None, Interval(Real, 0, None, closed="neither")],
        "n_jobs": [None, Integral],
    }

    def __init__(
        self,
        method: str = "direct",
        *,
        n_terms: Any = 3,
        tol: float = 1e-3,
        points: str = "refined",
        sample_interval: float | None = None,
        n_jobs: int | None = None,
    ):
        """Keep the parameters as they are given; `fit` checks them."""
        self.method = method
        self.n_terms = n_terms
        self.tol = tol
        self.points = points
        self.sample_interval = sample_interval
        self.n_jobs = n_jobs

    def _choose(self, X: Any) -> AdditiveMap:
        n_terms = None if self.n_terms == "auto" else int(self.n_terms)
        if n_terms is None and self.method != "direct":
            raise ValueError(f'n_terms="auto" needs method="direct"; with {self.method!r} give a number.')
        rows = typical_rows(X)
        if n_terms is None or self.method == "direct":
            return direct_map(rows, n_terms, self.tol, refine=self.points == "refined")
        if self.method == "vz":
            return sampled("chi2", n_terms, interval_for("chi2", n_terms, self.sample_interval, rows))
        return Chebyshev(n_terms, geometric_mean(rows))

    def _kind(self) -> type[AdditiveMap]:
        kinds: dict[str, type[AdditiveMap]] = {"direct": Direct, "vz": Sampled, "chebyshev": Chebyshev}
        return kinds[self.method]

    def approximation_error(self, X: Any, Y: Any = None) -> Array:
        """The kernel minus the products of the features, for all pairs of rows.

        With "direct" that is the exact remainder of the series (eq. 7), free of rounding.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            The first samples of the pairs.
        Y : {array-like, sparse matrix} of shape (m, n_features), default=None
            The second samples of the pairs; None is X.

        Returns
        -------
        error : ndarray of shape (n, m)
            Positive where the products are too small.
        """
        check_is_fitted(self)
        announce_compilation()
        left = dense(validate_features(self, X, reset=False)).astype(np.float64, copy=False)
        right = left if Y is None else dense(validate_features(self, Y, reset=False)).astype(np.float64, copy=False)
        return self._map.chi2_error(left, right, number_of_threads(self.n_jobs))


class HomogeneousMap(_AdditiveMap):
    """Features whose products approximate a homogeneous additive kernel, by its sampled spectrum.

    Parameters
    ----------
    kernel : {"intersection", "jensen-shannon", "hellinger"}, default="intersection"
        ``min(x, y)``; ``x/2 log2((x + y)/x) + y/2 log2((x + y)/y)``; or ``sqrt(x y)``, which one feature gives exactly.
    n_terms : int, default=3
        Terms of the expansion of each feature, an odd number; 1 for "hellinger", whatever is given.
    sample_interval : float or None, default=None
        None is the best for the data.
    n_jobs : int or None, default=None
        Threads; None means all that Numba may use, -1 all cores.

    Attributes
    ----------
    n_terms_ : int
        Terms of the expansion of each feature, given or chosen.
    sample_interval_ : float
        But for "hellinger": the sampling interval of the spectrum.
    n_features_in_ : int
        Features of a sample.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of these, if the data have names.

    Examples
    --------
    >>> import numpy as np
    >>> from histogp.feature_maps import HomogeneousMap
    >>> X = np.random.default_rng(0).random((20, 3))
    >>> Z = HomogeneousMap("intersection", n_terms=5).fit_transform(X)
    >>> Z.shape
    (20, 15)
    >>> bool(abs(Z[0] @ Z[1] - np.minimum(X[0], X[1]).sum()) < 0.1)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "kernel": [StrOptions({"intersection", "jensen-shannon", "hellinger"})],
        "n_terms": [Interval(Integral, 1, MOST_TERMS, closed="both")],
        "sample_interval": [None, Interval(Real, 0, None, closed="neither")],
        "n_jobs": [None, Integral],
    }

    def __init__(
        self,
        kernel: str = "intersection",
        *,
        n_terms: int = 3,
        sample_interval: float | None = None,
        n_jobs: int | None = None,
    ):
        """Keep the parameters as they are given; `fit` checks them."""
        self.kernel = kernel
        self.n_terms = n_terms
        self.sample_interval = sample_interval
        self.n_jobs = n_jobs

    def _choose(self, X: Any) -> AdditiveMap:
        if self.kernel == "hellinger":
            return Root()
        n_terms = int(self.n_terms)
        interval = interval_for(self.kernel, n_terms, self.sample_interval, typical_rows(X))
        return sampled(self.kernel, n_terms, interval)

    def _kind(self) -> type[AdditiveMap]:
        return Root if self.kernel == "hellinger" else Sampled


def interval_for(kernel: str, n_terms: int, given: float | None, rows: Rows) -> float:
    """The sampling interval of the spectrum of a kernel."""
    if n_terms % 2 == 0:
        raise ValueError(f"A sampled spectrum has an odd number of terms; got n_terms={n_terms}.")
    if given is not None:
        return float(given)
    if kernel == "chi2" and n_terms in CHI2_INTERVALS:
        return CHI2_INTERVALS[n_terms]
    return best_interval(rows, kernel, n_terms)
