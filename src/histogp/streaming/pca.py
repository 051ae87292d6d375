"""Principal components of data of any size."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval

from histogp._core.data import Array
from histogp._core.least_squares.ridge import Components
from histogp._core.least_squares.statistics import Quadratic
from histogp._estimator import reading
from histogp.streaming._stream import Learned, Rule, StreamingModel, Weights, solved
from histogp.streaming._targets import NoTargets


class StreamingPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, StreamingModel):
    """Principal component analysis from sums over chunks (algorithm 2 of chi2-linear-approximation).

    Exact: that of all samples at once. Samples with and without labels may take part alike.

    Parameters
    ----------
    n_components : int or None, default=None
        None keeps as many as there are features, or samples.
    feature_map : transformer or None, default=None
        Maps samples to features first, for instance `histogp.feature_maps.AdditiveChi2Map`; adapted to the samples of
        `fit`, or to the first ones of `partial_fit`. None takes the features as they are.
    chunk_bytes : int, default=2**27
        Memory for features at a time.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Directions, by falling variance; the largest entry of each is positive.
    mean_ : ndarray of shape (n_features,)
        Of the features that the map gives.
    explained_variance_ : ndarray of shape (n_components,)
        Variance along each component.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        Variance along each component as part of that of all features.
    n_components_ : int
        Components that are kept.
    n_samples_seen_ : int
        Samples so far.
    n_features_in_ : int
        Features of a sample before the map.
    feature_names_in_ : ndarray of shape (n_features_in,)
        Names of these, if the data have names.

    Examples
    --------
    >>> import numpy as np
    >>> from histogp.streaming import StreamingPCA
    >>> X = np.random.default_rng(0).random((1000, 3)) * [1, 10, 100]
    >>> pca = StreamingPCA(2)
    >>> for rows in np.split(np.arange(1000), 10):
    ...     pca = pca.partial_fit(X[rows])
    >>> pca.explained_variance_ratio_.round(2)
    array([0.99, 0.01])
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **StreamingModel._parameter_constraints,
        "n_components": [None, Interval(Integral, 1, None, closed="left")],
    }
    _targets = NoTargets()

    def __init__(self, n_components: int | None = None, *, feature_map: Any = None, chunk_bytes: int = 2**27):
        self.n_components = n_components
        self.feature_map = feature_map
        self.chunk_bytes = chunk_bytes

    components_ = solved(
        lambda learned, found: found.coefficients.T, "Directions, by falling variance, (n_components, n_features)."
    )
    mean_ = solved(lambda learned, found: found.extra["mean"], "Of the features that the map gives, (n_features,).")
    explained_variance_ = solved(
        lambda learned, found: found.extra["variance"], "Variance along each component, (n_components,)."
    )
    explained_variance_ratio_ = solved(
        lambda learned, found: found.extra["ratio"], "Variances as parts of all, (n_components,)."
    )
    n_components_ = solved(lambda learned, found: len(found.intercepts), "Components that are kept, an int.")

    def fit(self, X: Any, y: Any = None) -> Self:  # type: ignore[override]
        """Learn from these samples alone, and find the components.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples to learn from.
        y : ignored
            Not used; scikit-learn's pipelines pass it.

        Returns
        -------
        self : StreamingPCA
            The estimator itself.
        """
        return self._learn(X, None, anew=True)

    def partial_fit(self, X: Any, y: Any = None) -> Self:  # type: ignore[override]
        """Learn from further samples: the model becomes that of a `fit` on all so far, with the same feature map.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples to learn from.
        y : ignored
            Not used; scikit-learn's pipelines pass it.

        Returns
        -------
        self : StreamingPCA
            The estimator itself.
        """
        return self._learn(X, None)

    @reading
    def transform(self, X: Any) -> Array:
        """The coordinates of samples along the components.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples to transform.

        Returns
        -------
        coordinates : ndarray of shape (n_samples, n_components)
            In the precision of X.
        """
        return self._score(X)

    @reading
    def inverse_transform(self, X: Any) -> Array:
        """Compute features before the projection from coordinates along the components.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Coordinates, as `transform` gives them.

        Returns
        -------
        features : ndarray of shape (n_samples, n_features)
            Those that the map gives, without what the components leave out.
        """
        found = self._solve()
        return np.asarray(X) @ found.coefficients.T + found.extra["mean"]

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def _rule(self) -> ComponentsRule:
        return ComponentsRule(self.n_components)


@dataclass(frozen=True)
class ComponentsRule(Rule):
    """The leading principal components; all of them if ``n_components`` is None."""

    n_components: int | None

    def check(self, learned: Learned, n_samples: int) -> None:
        available = min(learned.width, n_samples)
        if self.n_components is not None and self.n_components > available:
            raise ValueError(f"n_components={self.n_components} is more than the {available} that there are.")

    def solve(self, learned: Learned) -> Weights:
        """Weights whose scores are the coordinates along the components."""
        (statistics,) = learned.parts
        wanted = self.n_components or min(learned.width, statistics.count)
        found = Components.of(Quadratic.of(statistics), wanted)
        # As in scikit-learn: the largest entry of each component is positive.
        largest = np.abs(found.vectors).argmax(axis=0)
        signs = np.sign(found.vectors[largest, np.arange(wanted)])
        vectors = found.vectors * np.where(signs == 0, 1, signs)
        total = np.trace(statistics.gram) - statistics.sums @ found.means
        return learned.weights(
            vectors,
            -found.means @ vectors,
            mean=found.means,
            variance=found.variances / max(statistics.count - 1, 1),
            ratio=found.variances / max(total, np.finfo(float).tiny),
        )
