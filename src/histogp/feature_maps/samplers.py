"""Random features of chi-squared kernels."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import _fit_context, clone
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from histogp._core.data import Array
from histogp._core.maps.additive import MOST_TERMS
from histogp._core.maps.pair_distances import inverse_median, most_likely
from histogp._core.maps.random_waves import SAMPLINGS, RandomWaves, waves
from histogp._core.threads import announce_compilation
from histogp._estimator import number_of_threads, updating, validate_features
from histogp.feature_maps.expansions import AdditiveChi2Map, FeatureMap
from histogp.io.schema import Reader, Writer


class SkewedChi2Map(FeatureMap):
    """Random features whose products approximate the skewed chi-squared kernel.

    The kernel is ``prod_d 2 sqrt((x_d + c)(y_d + c)) / (x_d + y_d + 2 c)``. Features come in pairs of a cosine and a
    sine, so that the product of a row with itself is one; the last of an odd number is a cosine with a random phase.

    Parameters
    ----------
    n_components : int, default=100
        Output columns.
    skewedness : float, default=1.0
        The constant c, positive.
    random_state : int, RandomState or None, default=0
        Seed of the frequencies. With a number, maps for the same number of features are of the same kernel.

    Attributes
    ----------
    n_features_in_ : int
        Features of a sample.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of these, if the data have names.

    Examples
    --------
    >>> import numpy as np
    >>> from histogp.feature_maps import SkewedChi2Map
    >>> X = np.random.default_rng(0).random((20, 3))
    >>> Z = SkewedChi2Map(1000, skewedness=0.5).fit_transform(X)
    >>> Z.shape
    (20, 1000)
    >>> np.allclose((Z**2).sum(axis=1), 1)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "skewedness": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
    }

    def __init__(self, n_components: int = 100, *, skewedness: float = 1.0, random_state: Any = 0):
        self.n_components = n_components
        self.skewedness = skewedness
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> SkewedChi2Map:
        """Draw the frequencies for as many features as X has.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Non-negative features.
        y : ignored
            Not used; scikit-learn's pipelines pass it.

        Returns
        -------
        self : SkewedChi2Map
            The estimator itself.
        """
        with updating(self) as changed:
            X = validate_features(changed, X, reset=True)
            rng = check_random_state(self.random_state)
            n_pairs, is_odd = divmod(int(self.n_components), 2)
            uniform = rng.uniform(size=(X.shape[1], n_pairs + is_odd))
            changed._phases = rng.uniform(0, 2 * np.pi, is_odd)
            # The inverse of the distribution function of sech(pi w).
            changed._frequencies = np.log(np.tan(np.pi / 2 * uniform)) / np.pi
            changed._n_features_out = int(self.n_components)
        return self

    def transform(self, X: Any) -> Array:
        """The features, dense; in the precision of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples to transform.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_components)
            Their products approximate the kernel.
        """
        check_is_fitted(self)
        X = validate_features(self, X, reset=False)
        frequencies = self._frequencies.astype(X.dtype, copy=False)
        # log(x + c) = log1p(x / c) + log c, of which zero entries have no part but the constant.
        scaled = X * X.dtype.type(1 / self.skewedness)
        angles = np.asarray((scaled.log1p() if sparse.issparse(scaled) else np.log1p(scaled)) @ frequencies)
        angles += np.log(X.dtype.type(self.skewedness)) * frequencies.sum(axis=0)
        return waves(angles, self._phases)

    def _to_state(self, writer: Writer) -> None:
        writer.put("frequencies", self._frequencies)
        writer.put("phases", self._phases)

    def _restore(self, reader: Reader, n_features: int) -> None:
        self.n_features_in_ = n_features
        n_pairs, is_odd = divmod(int(self.n_components), 2)
        self._frequencies = reader.array("frequencies", np.float64, (n_features, n_pairs + is_odd))
        self._phases = reader.array("phases", np.float64, (is_odd,))
        self._n_features_out = int(self.n_components)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """``skewedchi2map0, ...``: the name of the map and the number of the feature.

        Parameters
        ----------
        input_features : ignored
            Not used; scikit-learn's pipelines pass it.

        Returns
        -------
        names : ndarray of shape (n_features_out,)
            Names of the features that `transform` gives.
        """
        check_is_fitted(self)
        return np.array([f"skewedchi2map{k}" for k in range(self._n_features_out)], object)


class ExpChi2Sampler(FeatureMap):
    """Random features whose products approximate the exponential chi-squared kernel, ``exp(-beta chi2(x, y))``.

    Here ``chi2(x, y) = sum_d (x_d - y_d)^2 / (x_d + y_d) / 2``, so that the kernel is that of
    `sklearn.metrics.pairwise.chi2_kernel` with ``gamma=beta / 2``. The features are random Fourier features of a
    Gaussian kernel on top of an additive map (chi2-linear-approximation, section 5), and their error falls with the
    root of their number.

    Parameters
    ----------
    n_components : int, default=2000
        Output columns: pairs of cosines and sines; the last of an odd number is a cosine with a random phase.
    beta : float or {"median", "evidence"}, default="median"
        Inverse width. "median" is one over the median of chi2 between training samples; "evidence" that under which the
        labels or targets of up to 500 of them are most likely, from a sixteenth to sixteen times the former.
    n_terms : int, default=3
        Terms of the additive map for each feature.
    additive : AdditiveChi2Map or None, default=None
        Another additive map; None is ``AdditiveChi2Map(n_terms=n_terms)``.
    sampling : {"orthogonal", "plain", "quasi"}, default="orthogonal"
        How frequencies are drawn: orthogonal to each other, independently, or from a Sobol sequence.
    random_state : int, RandomState or None, default=0
        Seed of the frequencies. With a number, maps for the same number of features are of the same kernel.

    Attributes
    ----------
    beta_ : float
        Inverse width, given or chosen.
    additive_ : AdditiveChi2Map
        The fitted additive map.
    n_features_in_ : int
        Features of a sample.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of these, if the data have names.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics.pairwise import chi2_kernel
    >>> from histogp.feature_maps import ExpChi2Sampler
    >>> X = np.random.default_rng(0).random((20, 5))
    >>> Z = ExpChi2Sampler(10_000, beta=1.0, random_state=0).fit_transform(X)
    >>> bool(np.abs(Z @ Z.T - chi2_kernel(X, gamma=0.5)).max() < 0.05)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "beta": [StrOptions({"median", "evidence"}), Interval(Real, 0, None, closed="neither")],
        "n_terms": [Interval(Integral, 1, MOST_TERMS, closed="both")],
        "additive": [None, AdditiveChi2Map],
        "sampling": [StrOptions(set(SAMPLINGS))],
        "random_state": ["random_state"],
    }

    additive_: AdditiveChi2Map
    _precision = np.float32

    def __init__(
        self,
        n_components: int = 2000,
        *,
        beta: Any = "median",
        n_terms: int = 3,
        additive: AdditiveChi2Map | None = None,
        sampling: str = "orthogonal",
        random_state: Any = 0,
    ):
        """Keep the parameters as they are given; `fit` checks them."""
        self.n_components = n_components
        self.beta = beta
        self.n_terms = n_terms
        self.additive = additive
        self.sampling = sampling
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> ExpChi2Sampler:
        """Adapt the additive map and beta to X, and draw frequencies.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Non-negative features.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
            Labels or targets; only ``beta="evidence"`` looks at them.

        Returns
        -------
        self : ExpChi2Sampler
            The estimator itself.
        """
        with updating(self) as changed:
            X = validate_features(changed, X, reset=True)
            changed.additive_ = self._additive().fit(X)
            changed.beta_ = self._choose_beta(X, y)
            rng = np.random.default_rng(int(check_random_state(self.random_state).randint(2**31)))
            n_components, additive = int(self.n_components), changed.additive_._map
            changed._install(RandomWaves.draw(additive, X.shape[1], n_components, changed.beta_, self.sampling, rng))
        return self

    def _install(self, chosen: RandomWaves) -> None:
        self._waves = chosen
        self._n_features_out = chosen.n_components

    def _choose_beta(self, X: Any, y: Any) -> float:
        """The factor beta of the distances: given, one over their median, or the most likely one for y."""
        if self.beta == "median":
            return inverse_median(X)
        if self.beta != "evidence":
            return float(self.beta)
        if y is None:
            raise ValueError('beta="evidence" needs the labels or targets y.')
        check_consistent_length(X, y)
        y = np.asarray(y)
        if type_of_target(y) in ("binary", "multiclass"):
            y = 2.0 * (y[:, None] == np.unique(y)) - 1
        targets = y.reshape(len(y), -1).astype(np.float64)
        return most_likely(X, targets - targets.mean(axis=0))

    def transform(self, X: Any) -> Array:
        """The features, dense; in the precision of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples to transform.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_components)
            Their products approximate the kernel.
        """
        check_is_fitted(self)
        announce_compilation()
        X = validate_features(self, X, reset=False)
        return self._waves.transform(X, number_of_threads(self.additive_.n_jobs))

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """``expchi2sampler0, ...``: the name of the map and the number of the feature.

        Parameters
        ----------
        input_features : ignored
            Not used; scikit-learn's pipelines pass it.

        Returns
        -------
        names : ndarray of shape (n_features_out,)
            Names of the features that `transform` gives.
        """
        check_is_fitted(self)
        return np.array([f"expchi2sampler{k}" for k in range(self._n_features_out)], object)

    def _additive(self) -> AdditiveChi2Map:
        additive = AdditiveChi2Map(n_terms=self.n_terms) if self.additive is None else clone(self.additive)
        return additive.set_output(transform="default")

    def _to_state(self, writer: Writer) -> None:
        self._waves.to_state(writer)
        writer.put("beta", [self.beta_])

    def _restore(self, reader: Reader, n_features: int) -> None:
        self.n_features_in_ = n_features
        self.additive_ = self._additive()
        self.additive_._restore(reader.child("additive"), n_features)
        self.beta_ = float(reader.array("beta", np.float64, (1,), lowest=0)[0])
        additive, n_components = self.additive_._map, int(self.n_components)
        self._install(RandomWaves.from_state(reader, additive, n_features, n_components, np.float32))
