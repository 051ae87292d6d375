"""Random features of the exponential chi-squared kernel."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import _fit_context, clone
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from histogp.estimators.feature_maps import AdditiveChi2Map, FeatureMap
from histogp.estimators.validation import validate_features
from histogp.maps.expand import chi2_matrix
from histogp.maps.fourier import normal_frequencies, waves
from histogp.storage import Array, Rows

# Rows whose distances give the median.
SAMPLED_ROWS = 500
# Numbers of a block of angles.
BLOCK = 2**22


class ExpChi2Sampler(FeatureMap):
    """Random features whose products approximate the exponential chi-squared kernel, ``exp(-beta chi2(x, y))``.

    Here ``chi2(x, y) = sum_d (x_d - y_d)^2 / (x_d + y_d) / 2``, so that the kernel is that of
    `sklearn.metrics.pairwise.chi2_kernel` with ``gamma=beta / 2``. The features are random Fourier features of a
    Gaussian kernel on top of an additive map (chi2-linear-approximation, section 5), and their error falls with the
    root of their number.

    Parameters
    ----------
    n_components : int, default=1000
        Output columns: pairs of cosines and sines; the last of an odd number is a cosine with a random phase.
    beta : float or "median", default="median"
        Inverse width; "median" is one over the median of chi2 between training rows.
    additive : AdditiveChi2Map or None, default=None
        The additive map; None is ``AdditiveChi2Map(n_components=5)``.
    sampling : {"orthogonal", "plain", "quasi"}, default="orthogonal"
        How frequencies are drawn: orthogonal to each other, independently, or from a Sobol sequence.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    beta_ : float
    additive_ : AdditiveChi2Map
        Fitted.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

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
        "beta": [StrOptions({"median"}), Interval(Real, 0, None, closed="neither")],
        "additive": [None, AdditiveChi2Map],
        "sampling": [StrOptions({"orthogonal", "plain", "quasi"})],
        "random_state": ["random_state"],
    }

    additive_: AdditiveChi2Map
    _is_random = True

    def __init__(
        self,
        n_components: int = 1000,
        *,
        beta: Any = "median",
        additive: AdditiveChi2Map | None = None,
        sampling: str = "orthogonal",
        random_state: Any = None,
    ):
        self.n_components = n_components
        self.beta = beta
        self.additive = additive
        self.sampling = sampling
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> ExpChi2Sampler:
        """Adapt the additive map and beta to X (n_samples, n_features), and draw frequencies; y is ignored."""
        X = validate_features(self, X, reset=True)
        self.additive_ = self._additive().fit(X)
        self.beta_ = _inverse_median(X) if self.beta == "median" else float(self.beta)
        rng = np.random.default_rng(int(check_random_state(self.random_state).randint(2**31)))
        n_pairs, is_odd = divmod(int(self.n_components), 2)
        n_inputs = self.additive_.n_components_ * X.shape[1]
        drawn = normal_frequencies(self.sampling, n_inputs, n_pairs + is_odd, rng)
        self._frequencies = (np.sqrt(self.beta_) * drawn).astype(np.float32)
        self._phases = rng.uniform(0, 2 * np.pi, is_odd)
        self._n_features_out = int(self.n_components)
        return self

    def transform(self, X: Any) -> Array:
        """The features, (n, n_components), dense; in the precision of X."""
        check_is_fitted(self)
        X = validate_features(self, X, reset=False)
        out = np.empty((X.shape[0], self._n_features_out), X.dtype)
        frequencies = self._frequencies.astype(X.dtype, copy=False)
        step = max(1, BLOCK // max(self._frequencies.shape))
        for begin in range(0, X.shape[0], step):
            some = slice(begin, begin + step)
            angles = self.additive_.transform(X[some]) @ frequencies
            out[some] = waves(np.asarray(angles), self._phases)
        return out

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """``expchi2sampler0, ...``"""
        check_is_fitted(self)
        return np.array([f"expchi2sampler{k}" for k in range(self._n_features_out)], object)

    def _additive(self) -> AdditiveChi2Map:
        additive = AdditiveChi2Map(n_components=5) if self.additive is None else clone(self.additive)
        return additive.set_output(transform="default")

    def _state(self) -> dict[str, Array]:
        own = {"frequencies": self._frequencies, "phases": self._phases, "beta": np.array([self.beta_])}
        return own | {f"additive.{name}": array for name, array in self.additive_._state().items()}

    def _restore(self, n_features: int, reader: Any, prefix: str = "map.") -> None:
        self.n_features_in_ = n_features
        self.additive_ = self._additive()
        self.additive_._restore(n_features, reader, f"{prefix}additive.")
        n_pairs, is_odd = divmod(int(self.n_components), 2)
        shape = (self.additive_.n_components_ * n_features, n_pairs + is_odd)
        self._frequencies = reader.array(f"{prefix}frequencies", np.float32, shape)
        self._phases = reader.array(f"{prefix}phases", np.float64, (is_odd,))
        self.beta_ = float(reader.array(f"{prefix}beta", np.float64, (1,), lowest=0)[0])
        self._n_features_out = int(self.n_components)


def _inverse_median(X: Any) -> float:
    """One over the median of chi2 between some rows; one if that is zero."""
    rows = Rows.from_array(X[:: -(-X.shape[0] // SAMPLED_ROWS)]).to_dense()
    kernel, sums = chi2_matrix(rows, rows), rows.sum(axis=1)
    distances = ((sums[:, None] + sums) / 2 - kernel)[np.triu_indices(len(rows), 1)]
    median = float(np.median(distances)) if len(distances) else 0.0
    return 1 / median if median > 0 else 1.0
