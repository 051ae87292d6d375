"""Linear models of the features, and those of them that predict real numbers."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin, _fit_context
from sklearn.utils.validation import check_is_fitted

from histogp._sklearn import warn
from histogp.estimators.state import reading, updating
from histogp.estimators.streaming.base import Learned, Streaming
from histogp.exceptions import PrecisionWarning
from histogp.primal.statistics import StreamingStatistics
from histogp.storage import Array

# Part of the squares of a feature, below which its variance is known to a few digits.
FEWEST_DIGITS = 1e-8
EPSILON = np.finfo(float).eps


class Linear(Streaming):
    """Base of estimators that predict by weights of the features."""

    def _solved(self) -> tuple[Any, ...]:
        """Weights (m, k), intercepts (k,), and what else comes with them."""
        raise NotImplementedError

    def _scores(self, X: Any) -> Array:
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        coefficients, intercepts, *_ = self._solved()
        return self._linear(X, coefficients, intercepts)

    def _sampled(self, learned: Learned, X: Any, targets: Array, weights: Array) -> Any:
        """The sample of rows to keep after rows that come now."""
        return None


class Regression(RegressorMixin, Linear):
    """Base of regressors, with one target or several."""

    _is_vector: bool

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from rows X (n_samples, n_features) and targets y (n_samples,) or (n_samples, n_targets) alone."""
        with updating(self) as changed:
            X, y = changed._validated(X, y, reset=True, multi_output=True, y_numeric=True)
            changed._add(changed._begin(X, y), X, y, changed._weights(sample_weight, X))
        return self

    @_fit_context(prefer_skip_nested_validation=False)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from further rows: the model becomes that of a `fit` on all so far, with the same feature map."""
        with updating(self) as changed:
            first = not hasattr(changed, "_learned")
            X, y = changed._validated(X, y, reset=first, multi_output=True, y_numeric=True)
            weights = changed._weights(sample_weight, X, is_part=True)
            changed._add(changed._begin(X, y) if first else changed._learned, X, y, weights)
        return self

    def _add(self, learned: Learned, X: Any, y: Array, weights: Array) -> None:
        targets = np.asarray(y, np.float64).reshape(X.shape[0], -1)
        statistics = learned.parts[0]
        if statistics.count == 0:
            statistics = StreamingStatistics.empty(len(statistics.sums), targets.shape[1])
            is_vector = y.ndim == 1
        elif targets.shape[1] != statistics.cross.shape[1]:
            raise ValueError(f"There were {statistics.cross.shape[1]} targets so far, now {targets.shape[1]}.")
        else:
            is_vector = self._is_vector
        statistics += self._summed(learned, X, targets, weights)
        sample = self._sampled(learned, X, targets, weights)
        self._is_vector = is_vector
        self._adopt(learned.changed(parts=(statistics,), sample=sample, n_seen=learned.n_seen + X.shape[0]))

    @reading
    def predict(self, X: Any) -> Array:
        """Targets for each row of X, (n,) or (n, n_targets)."""
        scores = self._scores(X)
        return scores[:, 0] if self._is_vector else scores

    @property
    @reading
    def coef_(self) -> Array:
        """Weights of the features."""
        check_is_fitted(self)
        coefficients = self._solved()[0].T
        return coefficients[0] if self._is_vector else coefficients

    @property
    @reading
    def intercept_(self) -> Any:
        """What is predicted where all features are zero."""
        check_is_fitted(self)
        intercepts = self._solved()[1]
        return float(intercepts[0]) if self._is_vector else intercepts

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _statistics(self) -> StreamingStatistics:
        """Of features and targets."""
        return self._learned.parts[0]


def labelled(statistics: StreamingStatistics) -> StreamingStatistics:
    """The same, if there is anything to learn from."""
    if statistics.count == 0:
        raise ValueError("There are no labelled rows with a positive weight to learn from yet.")
    squares = statistics.gram.diagonal()
    centred = squares - statistics.sums**2 / statistics.weight
    if np.any((centred < FEWEST_DIGITS * squares) & (centred > 4 * statistics.count * EPSILON * squares)):
        warn(
            "Some features vary little against their mean, so that sums over rows know them to a few digits only: "
            "subtract their means first, for instance by StandardScaler.",
            PrecisionWarning,
        )
    return statistics
