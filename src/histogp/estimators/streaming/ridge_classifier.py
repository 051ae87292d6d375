"""Ridge classification on data of any size."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from histogp.estimators.classes import class_weights, codes_in, declared, merged
from histogp.estimators.state import reading, updating
from histogp.estimators.streaming.base import Learned
from histogp.estimators.streaming.ridge import PARAMETERS, RidgeBase
from histogp.posterior.probability import codes_of, fit_temperature, log_probabilities
from histogp.primal.factored import FactoredRidge
from histogp.primal.left_out import LeftOut
from histogp.primal.ridge import Ridge
from histogp.primal.statistics import StreamingStatistics
from histogp.storage import Array


class StreamingRidgeClassifier(ClassifierMixin, RidgeBase):
    __doc__ = f"""Ridge regression on -1 and +1, one class against the others, from sums over chunks.

    Exact, whatever the number of rows; one factorisation for all classes. Classes may appear at any time.

    Parameters
    ----------
    {PARAMETERS}
    class_weight : dict, "balanced" or None, default=None
        Weights of classes; "balanced" makes them inversely proportional to the frequencies in the end, for which every
        class has statistics of its own: memory and the time to add chunks up grow with the number of classes.
    equal_rank : int or None, default=None
        Move the scores of each class so that the one of this rank among all rows, from the highest down, is the same
        for all classes (chi2-linear-approximation, section 6.3); least squares alone gives rare classes low scores.
        Scores are those of the sample of rows, each left out in turn. With two classes there is nothing to move.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights of the features that the map gives; computed when they are first needed.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    alpha_ : float
    block_weights_ : ndarray of shape (n_blocks,) or None
    n_samples_seen_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from histogp.feature_maps import AdditiveChi2Map
    >>> from histogp.streaming import StreamingRidgeClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = StreamingRidgeClassifier(AdditiveChi2Map(n_components=3), random_state=0)
    >>> for begin in range(0, 1500, 250):
    ...     clf = clf.partial_fit(X[begin : begin + 250], y[begin : begin + 250])
    >>> round(clf.score(X[1500:], y[1500:]), 2)
    0.9
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **RidgeBase._parameter_constraints,
        "alpha": [StrOptions({"loo", "loo-log", "gcv", "evidence"}), Interval(Real, 0, None, closed="left")],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "equal_rank": [None, Interval(Integral, 1, None, closed="left")],
    }

    classes_: Array

    def __init__(
        self,
        feature_map: Any = None,
        *,
        alpha: Any = "loo",
        pca_components: int | None = None,
        blocks: Any = None,
        block_components: int | None = None,
        block_weights: Any = None,
        fit_intercept: bool = True,
        class_weight: Any = None,
        equal_rank: int | None = None,
        n_left_out: int = 1000,
        chunk_bytes: int = 2**27,
        random_state: Any = None,
    ):
        self.feature_map = feature_map
        self.alpha = alpha
        self.pca_components = pca_components
        self.blocks = blocks
        self.block_components = block_components
        self.block_weights = block_weights
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.equal_rank = equal_rank
        self.n_left_out = n_left_out
        self.chunk_bytes = chunk_bytes
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> StreamingRidgeClassifier:
        """Learn from rows X (n_samples, n_features) and labels y (n_samples,) alone."""
        with updating(self) as changed:
            X, y = changed._validated(X, y, reset=True)
            check_classification_targets(y)
            classes = np.unique(y)
            if len(classes) < 2:
                raise ValueError(f"{type(self).__name__} needs at least 2 classes; the data contain only one class.")
            changed._add(changed._begin(X, y), classes[:0], classes, X, y, changed._weights(sample_weight, X))
        return self

    @_fit_context(prefer_skip_nested_validation=False)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> StreamingRidgeClassifier:
        """Learn from further rows: the model becomes that of a `fit` on all so far, with the same feature map.

        ``classes`` names classes to know of, whether or not there are rows yet; they need not be given.
        """
        with updating(self) as changed:
            first = not hasattr(changed, "_learned")
            X, y = changed._validated(X, y, reset=first)
            check_classification_targets(y)
            now = np.unique(y) if classes is None else merged(declared(classes), y)
            known = getattr(changed, "classes_", now[:0])
            learned = changed._begin(X, y) if first else changed._learned
            weights = changed._weights(sample_weight, X, is_part=True)
            changed._add(learned, known, now if len(known) == 0 else merged(known, now), X, y, weights)
        return self

    def _add(self, learned: Learned, known: Array, classes: Array, X: Any, y: Array, weights: Array) -> None:
        codes, positions = codes_in(classes, y), codes_in(classes, known)
        if isinstance(self.class_weight, dict):
            weights = weights * class_weights(self.class_weight, classes, codes, weights)[codes]
        targets = np.eye(len(classes))[codes]
        n_classes = len(classes)
        parts = [part.with_targets(positions, n_classes) for part in learned.parts]
        if self.class_weight == "balanced":
            self._check_parts(len(parts), max(len(known), 1))
            spread = [StreamingStatistics.empty(len(parts[0].sums), n_classes) for _ in classes]
            for position, part in zip(positions, parts if len(known) else [], strict=True):
                spread[position] = part
            parts = spread
        else:
            parts = [sum(parts[1:], parts[0])]
        part_of = codes if self.class_weight == "balanced" else np.zeros_like(codes)
        for k in np.unique(part_of):
            own = slice(None) if len(parts) == 1 else part_of == k
            parts[k] += self._summed(learned, X[own], targets[own], weights[own])
        if learned.sample is not None:
            learned = learned.changed(sample=learned.sample.with_targets(positions, n_classes))
        sample = self._sampled(learned, X, targets, weights)
        self.classes_ = classes
        self._adopt(learned.changed(parts=tuple(parts), sample=sample, n_seen=learned.n_seen + X.shape[0]))

    @reading
    def decision_function(self, X: Any) -> Array:
        """Scores: (n,) for two classes, else (n, n_classes)."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    @reading
    def predict(self, X: Any) -> Array:
        """The class with the largest score for each row of X, (n,)."""
        return self._labels(self._scores(X))

    def _labels(self, scores: Array) -> Array:
        """The classes that scores, as those of `decision_function`, speak for."""
        scores = scores.reshape(len(scores), -1)
        codes = (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return self.classes_[codes]

    @property
    @reading
    def coef_(self) -> Array:
        """Weights of the features."""
        check_is_fitted(self)
        return self._solved()[0].T

    @property
    @reading
    def intercept_(self) -> Array:
        """Scores where all features are zero."""
        check_is_fitted(self)
        return self._solved()[1]

    def _check_parts(self, n_parts: int, n_classes: int) -> None:
        if n_parts != n_classes:
            raise ValueError(
                'class_weight="balanced" needs statistics of each class, which were not asked for when the rows came.'
            )

    def _class_factors(self) -> Array:
        """What weights of the classes are left to apply, (n_classes,)."""
        if self.class_weight != "balanced":
            return np.ones(len(self.classes_))
        sums = np.array([part.weight for part in self._learned.parts])
        self._check_parts(len(sums), len(self.classes_))
        # As in scikit-learn, of the classes that there are rows of.
        return np.divide(sums.sum(), np.count_nonzero(sums) * sums, where=sums > 0, out=np.zeros_like(sums))

    def _statistics(self) -> StreamingStatistics:
        if len(self.classes_) < 2:
            raise ValueError(f"All rows so far are of the class {self.classes_.tolist()[0]!r}; two classes are needed.")
        total = StreamingStatistics.empty(*self._learned.parts[0].cross.shape)
        # Statistics of each class may be left from when they were to be balanced.
        for part, factor in zip(self._learned.parts, self._class_factors(), strict=False):
            total += part if factor == 1 else part.scaled(factor)
        return _signed(total)

    def _loss(self, rows: LeftOut, errors: Array) -> float:
        if self.alpha == "loo":
            return super()._loss(rows, errors)
        scores, codes = rows.targets - errors, codes_of(rows.targets)
        temperature = fit_temperature(scores, codes, rows.weights)
        chosen = log_probabilities(scores, temperature)[np.arange(len(codes)), codes]
        return -float(np.average(chosen, weights=rows.weights))

    def _needs_sample(self) -> bool:
        return super()._needs_sample() or self.equal_rank is not None

    def _key(self) -> tuple[Any, ...]:
        return *super()._key(), self.class_weight == "balanced", self.equal_rank

    def _offsets(self, ridge: Ridge | FactoredRidge, alpha: float, factors: Array | None) -> Any:
        if self.equal_rank is None or len(self.classes_) == 2:
            return 0.0
        rows = self._sample_of(ridge, factors)
        scores = rows.targets - ridge.left_out(alpha, rows)
        n_rows = sum(part.count for part in self._learned.parts)
        if self.equal_rank > n_rows:
            raise ValueError(f"equal_rank={self.equal_rank} is more than the {n_rows} rows so far.")
        heights = np.sort(scores, axis=0)[-max(round(self.equal_rank * len(scores) / n_rows), 1)]
        # A class that nobody has seen has the same score everywhere: raised, it would win.
        seen = np.sum([part.target_sums for part in self._learned.parts], axis=0) > 0
        return np.where(seen, heights[seen].mean() - heights, 0.0)

    def _left_out(self) -> tuple[Array, Array]:
        targets = self._learned.sample.targets
        signs = 2 * targets - 1
        return signs[:, 1:] if signs.shape[1] == 2 else signs, self._class_factors()[targets.argmax(axis=1)]


def _signed(statistics: StreamingStatistics) -> StreamingStatistics:
    """Of targets -1 and +1 in place of 0 and 1; for two classes those of the second alone."""
    keep = slice(1, None) if statistics.cross.shape[1] == 2 else slice(None)
    sums, weight = statistics.target_sums[keep], statistics.weight
    gram = 4 * statistics.target_gram[keep, keep] - 2 * sums - 2 * sums[:, None] + weight
    cross = 2 * statistics.cross[:, keep] - statistics.sums[:, None]
    return StreamingStatistics(
        statistics.gram, statistics.sums, cross, 2 * sums - weight, gram, weight, statistics.count
    )
