"""Principal components of data of any size."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from histogp._core.data import Array
from histogp._core.least_squares.ridge import Components
from histogp._core.least_squares.statistics import Quadratic
from histogp._estimator import reading, updating
from histogp.streaming._stream import Learned, Streaming


class StreamingPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Streaming):
    """Principal component analysis from sums over chunks (algorithm 2 of chi2-linear-approximation).

    Exact: the same as that of all rows at once. Rows with and without labels may take part alike.

    Parameters
    ----------
    n_components : int or None, default=None
        None keeps as many as there are features, or rows.
    feature_map : transformer or None, default=None
        Maps rows to features first, for instance `histogp.feature_maps.AdditiveChi2Map`; adapted to the rows of `fit`,
        or to the first ones of `partial_fit`.
    chunk_bytes : int, default=2**27
        Memory for features at a time.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features)
    mean_ : ndarray of shape (n_features,)
    explained_variance_, explained_variance_ratio_ : ndarray of shape (n_components_,)
    n_components_ : int
    n_samples_seen_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **Streaming._parameter_constraints,
        "n_components": [None, Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, n_components: int | None = None, *, feature_map: Any = None, chunk_bytes: int = 2**27):
        self.n_components = n_components
        self.feature_map = feature_map
        self.chunk_bytes = chunk_bytes

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None) -> StreamingPCA:
        """Learn from rows X (n_samples, n_features), dense or sparse, alone; y is ignored."""
        with updating(self) as changed:
            X = changed._validated(X, reset=True)
            changed._add(changed._begin(X), X)
        return self

    @_fit_context(prefer_skip_nested_validation=False)
    def partial_fit(self, X: Any, y: Any = None) -> StreamingPCA:
        """Learn from further rows X (n_samples, n_features), dense or sparse; y is ignored."""
        with updating(self) as changed:
            first = not hasattr(changed, "_learned")
            X = changed._validated(X, reset=first)
            changed._add(changed._begin(X) if first else changed._learned, X)
        return self

    def _add(self, learned: Learned, X: Any) -> None:
        (statistics,) = learned.parts
        statistics += self._summed(learned, X)
        available = min(len(statistics.sums), statistics.count)
        if self.n_components is not None and self.n_components > available:
            raise ValueError(f"n_components={self.n_components} is more than the {available} that there are.")
        self._adopt(learned.changed(parts=(statistics,), n_seen=learned.n_seen + X.shape[0]))

    @reading
    def transform(self, X: Any) -> Array:
        """The coordinates of rows along the components, (n, n_components_)."""
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        found = self._found()
        return self._linear(X, found.vectors, -found.means @ found.vectors)

    @reading
    def inverse_transform(self, X: Any) -> Array:
        """Features, before the projection, from coordinates (n, n_components_)."""
        check_is_fitted(self)
        return np.asarray(X) @ self._found().vectors.T + self._found().means

    @reading
    def _found(self) -> Components:
        check_is_fitted(self)
        self._validate_params()
        (statistics,) = self._learned.parts
        wanted = min(self.n_components or len(statistics.sums), len(statistics.sums), statistics.count)

        def compute() -> Components:
            found = Components.of(Quadratic.of(statistics), wanted)
            # As in scikit-learn: the largest entry of each component is positive.
            largest = np.abs(found.vectors).argmax(axis=0)
            signs = np.sign(found.vectors[largest, np.arange(wanted)])
            return replace(found, vectors=found.vectors * np.where(signs == 0, 1, signs))

        return self._learned.solution.get("components", compute, wanted)

    @property
    def components_(self) -> Array:
        """Rows are directions."""
        return self._found().vectors.T

    @property
    def mean_(self) -> Array:
        """Of the features."""
        return self._found().means

    @property
    @reading
    def explained_variance_(self) -> Array:
        """Along each component."""
        check_is_fitted(self)
        return self._found().variances / max(self._learned.parts[0].count - 1, 1)

    @property
    @reading
    def explained_variance_ratio_(self) -> Array:
        """The same as part of all."""
        check_is_fitted(self)
        (statistics,) = self._learned.parts
        total = np.trace(statistics.gram) - statistics.sums @ self.mean_
        return self._found().variances / max(total, np.finfo(float).tiny)

    @property
    def n_components_(self) -> int:
        return self._found().vectors.shape[1]

    @property
    def _n_features_out(self) -> int:
        return self.n_components_
