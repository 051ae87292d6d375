"""Ridge regression and classification on streams."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from histogp._classes import class_weights, codes_in, declared, merged
from histogp._core.data import Array, dense
from histogp._core.least_squares.block_scales import likely_scales
from histogp._core.least_squares.ridge import FactoredRidge, LeftOut, Ridge
from histogp._core.least_squares.statistics import Quadratic, StreamingStatistics
from histogp._core.probability import codes_of, fit_temperature, log_probabilities
from histogp._estimator import reading, updating
from histogp.feature_maps.block_map import BlockMap
from histogp.streaming._stream import (
    BLOCKS,
    Learned,
    Linear,
    Regression,
    Sample,
    Streaming,
    WithBlocks,
    labelled,
    rows_of,
)

# With more than that a search with a factor for each penalty is faster than an eigendecomposition for all.
MANY_FEATURES = 1500
PARAMETERS = f"""feature_map : transformer or None, default=None
        Maps rows to features, for instance `histogp.feature_maps.AdditiveChi2Map`; adapted to the rows of `fit`, or to
        the first ones of `partial_fit`. None takes the features as they are.
    alpha : float or {"loo", "loo-log", "gcv", "evidence"}, default="loo"
        Penalty on the squares of the weights; or how it is chosen, the same for all targets:

        - "loo": the smallest squared error of leaving training rows out, in closed form, for a random sample of them.
        - "loo-log", for classifiers: the smallest logarithmic loss of the same, of a softmax with the best temperature.
          With many features it takes smaller penalties, and often gains accuracy.
        - "gcv": generalised cross-validation, on all rows.
        - "evidence": the largest marginal likelihood; the penalty is the noise by the prior variance of weights.
    pca_components : int or None, default=None
        Learn from that many principal components of the features (algorithm 3 of chi2-linear-approximation). They are
        folded into the weights: prediction does not project.
    {BLOCKS}
    block_components : int or None, default=None
        Reduce the features of each block to that many principal components before the blocks are put together
        (algorithm 4 of chi2-linear-approximation). The components are those of the rows of `fit`, or of the first ones
        of `partial_fit`; to find them in a first pass over chunks, let a `BlockMap` see these by ``partial_fit``, and
        give it inside a `sklearn.frozen.FrozenEstimator` as ``feature_map``. They too are folded into the weights.
    block_weights : "evidence", array-like of shape (n_blocks,) or None, default=None
        Factor of the kernel of each block; "evidence" finds those under which the targets are most likely.
    fit_intercept : bool, default=True
    n_left_out : int, default=1000
        Rows of the sample for ``alpha="loo"`` and its like.
    chunk_bytes : int, default=2**27
        Memory for features at a time.
    random_state : int, RandomState or None, default=None
        Of the sample."""


class RidgeBase(WithBlocks, Linear):
    """What regression and classification share."""

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **Streaming._parameter_constraints,
        "alpha": [StrOptions({"loo", "gcv", "evidence"}), Interval(Real, 0, None, closed="left")],
        "pca_components": [None, Interval(Integral, 1, None, closed="left")],
        "blocks": [list, tuple, None],
        "block_components": [None, Interval(Integral, 1, None, closed="left")],
        "block_weights": [StrOptions({"evidence"}), "array-like", None],
        "fit_intercept": ["boolean"],
        "n_left_out": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    alpha: Any
    pca_components: int | None
    block_weights: Any
    fit_intercept: bool
    n_left_out: int
    random_state: Any

    @_fit_context(prefer_skip_nested_validation=False)
    def add_unlabelled(self, X: Any) -> Any:
        """Let rows X (n, n_features) without labels take part in finding the principal components.

        Of no effect without ``pca_components``. May come before or after `partial_fit`; `fit` begins without them.
        """
        with updating(self) as changed:
            first = not hasattr(changed, "_learned")
            X = changed._validated(X, reset=first)
            learned = changed._begin(X) if first else changed._learned
            more = changed._summed(learned, X)
            changed._adopt(
                learned.changed(unlabelled=more if learned.unlabelled is None else learned.unlabelled + more)
            )
        return self

    def _begin(self, X: Any, y: Any = None) -> Learned:
        if self.block_weights is not None and not isinstance(self._given_map(), BlockMap | FrozenEstimator):
            raise ValueError("block_weights are those of blocks, and there are none.")
        learned = super()._begin(X, y)
        self._wanted(len(learned.parts[0].sums))
        return learned

    def _wanted(self, n_features: int) -> int | None:
        """Principal components, if there are as many."""
        if self.pca_components is not None and self.pca_components > n_features:
            raise ValueError(
                f"pca_components={self.pca_components} is more than the {n_features} features that there are."
            )
        return self.pca_components

    def _sampled(self, learned: Learned, X: Any, targets: Array, weights: Array) -> Sample | None:
        """The sample after rows that come now."""
        if not self._needs_sample():
            return None
        if learned.sample is None:
            seed = int(check_random_state(self.random_state).randint(2**31))
            self._sample_seed = seed
        rng = np.random.default_rng([self._sample_seed, learned.n_seen])
        priorities = np.where(weights > 0, rng.random(X.shape[0]), np.inf)
        chosen = np.argsort(priorities, kind="stable")[: self.n_left_out]
        chosen = np.sort(chosen[np.isfinite(priorities[chosen])])
        new = Sample(priorities[chosen], rows_of(X, chosen), targets[chosen], weights[chosen])
        return (new if learned.sample is None else learned.sample + new).smallest(int(self.n_left_out))

    def _needs_sample(self) -> bool:
        return self.alpha in ("loo", "loo-log")

    def _statistics(self) -> StreamingStatistics:
        """Of features and the targets to learn."""
        raise NotImplementedError

    def _left_out(self) -> tuple[Array, Array]:
        """Targets of the sample, and factors on the weights of its rows."""
        raise NotImplementedError

    def _solved(self) -> tuple[Array, Array, float, Array | None]:
        """Weights (m, k), intercepts (k,), the penalty, and the factors of the kernels of blocks."""
        self._validate_params()
        given = self.block_weights
        weights = given if given is None or isinstance(given, str) else repr(np.asarray(given, object).tolist())
        return self._learned.solution.get("ridge", self._solve, (*self._key(), weights))

    def _key(self) -> tuple[Any, ...]:
        """Parameters that the solution depends on."""
        return self.alpha, self.pca_components, self.fit_intercept

    def _solve(self) -> tuple[Array, Array, float, Array | None]:
        statistics, unlabelled = labelled(self._statistics()), self._learned.unlabelled
        wanted = self._wanted(len(statistics.sums))
        intercept = bool(self.fit_intercept)
        weights, factors = self._found_weights(statistics), None
        if weights is not None:
            factors = np.sqrt(weights)[self._block_of()]
            statistics = statistics.stretched(factors)
            unlabelled = None if unlabelled is None else unlabelled.stretched(factors)
        ridge: Ridge | FactoredRidge
        if wanted is None and MANY_FEATURES < len(statistics.sums) < statistics.count:
            ridge = FactoredRidge(Quadratic.of(statistics, intercept=intercept), intercept)
        else:
            ridge = Ridge.of(statistics, wanted, unlabelled, intercept=intercept)
        alpha = self._penalty(ridge, factors)
        coefficients, intercepts = ridge.coefficients(alpha)
        intercepts = intercepts + self._offsets(ridge, alpha, factors)
        return coefficients if factors is None else factors[:, None] * coefficients, intercepts, alpha, weights

    def _found_weights(self, statistics: StreamingStatistics) -> Array | None:
        """The factor of the kernel of each block, (B,); None if all are one."""
        if self.block_weights is None:
            return None
        block_of = self._block_of()
        if block_of is None:
            raise ValueError("block_weights are those of blocks, and there are none.")
        n_blocks = int(block_of.max()) + 1
        if not isinstance(self.block_weights, str):
            try:
                weights = np.array(self.block_weights, np.float64)
            except (TypeError, ValueError):
                weights = np.empty(0)
            if weights.shape != (n_blocks,) or not np.all(np.isfinite(weights)) or not np.all(weights >= 0):
                raise ValueError(f"block_weights must be {n_blocks} numbers that are not negative.")
            return weights
        intercept = bool(self.fit_intercept)
        scales = likely_scales(Quadratic.of(statistics, intercept=intercept), block_of, intercept=intercept)
        return scales**2 / np.mean(scales**2)

    def _offsets(self, ridge: Ridge | FactoredRidge, alpha: float, factors: Array | None) -> Any:
        """What else to add to scores, (k,)."""
        return 0.0

    def _sample_of(self, ridge: Ridge | FactoredRidge, factors: Array | None) -> LeftOut:
        """Rows to leave out."""
        sample = self._learned.sample
        if sample is None:
            raise ValueError(
                'alpha="loo" and equal_rank need a sample of the rows, which was not asked for when they came.'
            )
        targets, class_factors = self._left_out()
        Z = self._learned.features(sample.X)
        coordinates = ridge.transform(Z if factors is None else dense(Z) * factors)
        # Weights count like repeated rows, of which one is left out; of a weight below one, all of it.
        units = class_factors * np.minimum(sample.weights, 1)
        return LeftOut(coordinates, targets, class_factors * sample.weights, units)

    def _penalty(self, ridge: Ridge | FactoredRidge, factors: Array | None) -> float:
        if not isinstance(self.alpha, str):
            return float(self.alpha)
        error: Callable[[float], float] = ridge.generalised_error
        if self.alpha == "evidence":
            error = ridge.negative_evidence
        elif self.alpha != "gcv":
            rows = self._sample_of(ridge, factors)
            error = lambda alpha: self._loss(rows, ridge.left_out(alpha, rows))  # noqa: E731
        return ridge.best(error)

    def _loss(self, rows: LeftOut, errors: Array) -> float:
        """Of left-out rows, which are predicted with errors (s, k)."""
        return rows.mean_square(errors)

    @property
    @reading
    def alpha_(self) -> float:
        """The penalty."""
        check_is_fitted(self)
        return self._solved()[2]

    @property
    @reading
    def block_weights_(self) -> Array | None:
        """The factor of the kernel of each block, one on average if they were found; None if all are one."""
        check_is_fitted(self)
        return self._solved()[3]


class StreamingRidge(Regression, RidgeBase):
    __doc__ = f"""Ridge regression from sums over chunks: exact, whatever the number of rows.

    Parameters
    ----------
    {PARAMETERS}

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Weights of the features that the map gives; computed when they are first needed.
    intercept_ : float or ndarray of shape (n_targets,)
    alpha_ : float
    block_weights_ : ndarray of shape (n_blocks,) or None
    n_samples_seen_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Examples
    --------
    >>> import numpy as np
    >>> from histogp.streaming import StreamingRidge
    >>> X = np.random.default_rng(0).random((1000, 3))
    >>> model = StreamingRidge(alpha=1e-6)
    >>> for rows in np.split(np.arange(1000), 10):
    ...     model = model.partial_fit(X[rows], X[rows] @ [1.0, 2.0, 3.0])
    >>> model.coef_.round(3)
    array([1., 2., 3.])
    """

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
        self.n_left_out = n_left_out
        self.chunk_bytes = chunk_bytes
        self.random_state = random_state

    def _left_out(self) -> tuple[Array, Array]:
        targets = self._learned.sample.targets
        return targets, np.ones(len(targets))


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
    >>> clf = StreamingRidgeClassifier(AdditiveChi2Map(n_terms=3), random_state=0)
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
