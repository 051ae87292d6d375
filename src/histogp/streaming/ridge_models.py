"""Ridge regression and classification on streams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils._param_validation import Interval, StrOptions

from histogp._core.data import Array, dense
from histogp._core.least_squares.block_scales import likely_scales
from histogp._core.least_squares.ridge import FactoredRidge, LeftOut, Ridge
from histogp._core.least_squares.statistics import Quadratic, StreamingStatistics
from histogp._core.predictors import codes_of
from histogp._core.probability import fit_temperature, log_probabilities
from histogp._estimator import reading, updating
from histogp.streaming._stream import Learned, Rule, StreamingModel, Weights, solved
from histogp.streaming._targets import ClassTargets, RealTargets

_CONSTRAINTS: dict[str, list] = {
    **StreamingModel._parameter_constraints,
    "alpha": [StrOptions({"auto", "loo", "gcv", "evidence"}), Interval(Real, 0, None, closed="left")],
    "pca_components": [None, Interval(Integral, 1, None, closed="left")],
    "blocks": [list, tuple, None],
    "block_components": [None, Interval(Integral, 1, None, closed="left")],
    "block_weights": [StrOptions({"evidence"}), "array-like", None],
    "fit_intercept": ["boolean"],
    "n_left_out": [Interval(Integral, 1, None, closed="left")],
    "random_state": ["random_state"],
}


class StreamingRidge(RegressorMixin, StreamingModel):
    """Ridge regression from sums over chunks: exact, whatever the number of samples.

    Parameters
    ----------
    feature_map : transformer or None, default=None
        Maps samples to features, for instance `histogp.feature_maps.AdditiveChi2Map`; adapted to the samples of `fit`,
        or to the first ones of `partial_fit`. None takes the features as they are.
    alpha : float or {"auto", "loo", "gcv", "evidence"}, default="auto"
        Penalty on the squares of the weights; or how it is chosen, the same for all targets:

        - "auto": "evidence" if there are at least as many features, or ``pca_components``, as samples, else "loo".
        - "loo": the smallest squared error of leaving training samples out, in closed form, for some at random.
        - "gcv": generalized cross-validation, on all samples.
        - "evidence": the largest marginal likelihood; the penalty is the noise by the prior variance of weights.
    pca_components : int or None, default=None
        Learn from that many principal components of the features (algorithm 3 of chi2-linear-approximation). They are
        folded into the weights: prediction does not project.
    blocks : list of (name, map, columns) or None, default=None
        In place of ``feature_map``: several maps, each of some columns, as in `histogp.feature_maps.BlockMap`.
    block_components : int or None, default=None
        Reduce the features of each block to that many principal components before the blocks are put together
        (algorithm 4 of chi2-linear-approximation). The components are those of the samples of `fit`, or of the first
        ones of `partial_fit`; to find them in a first pass over chunks, let a `BlockMap` see these by ``partial_fit``,
        and give it inside a `sklearn.frozen.FrozenEstimator` as ``feature_map``. They too are folded into the weights.
    block_weights : "evidence", array-like of shape (n_blocks,) or None, default=None
        Factor of the kernel of each block; "evidence" finds those under which the targets are most likely.
    fit_intercept : bool, default=True
        Whether to add a constant, which is not penalized.
    n_left_out : int, default=1000
        Samples to leave out in turn for ``alpha="auto"`` and "loo".
    chunk_bytes : int, default=2**27
        Memory for features at a time.
    random_state : int, RandomState or None, default=0
        Seed of the choice of samples to leave out; None makes another choice each time.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Weights of the features that the map gives; after `partial_fit` they are computed when first needed.
    intercept_ : float or ndarray of shape (n_targets,)
        Predictions where all features are zero.
    alpha_ : float
        Penalty, given or chosen.
    criterion_ : {"loo", "gcv", "evidence"} or None
        How the penalty was chosen; None if it was given.
    block_weights_ : ndarray of shape (n_blocks,) or None
        Factor of the kernel of each block, one on average if they were found; None if all are one.
    n_samples_seen_ : int
        Labeled samples so far.
    n_features_in_ : int
        Features of a sample before the map.
    feature_names_in_ : ndarray of shape (n_features_in,)
        Names of these, if the data have names.

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

    _parameter_constraints: ClassVar[dict[str, list]] = _CONSTRAINTS
    _targets = RealTargets()

    def __init__(
        self,
        feature_map: Any = None,
        *,
        alpha: Any = "auto",
        pca_components: int | None = None,
        blocks: Any = None,
        block_components: int | None = None,
        block_weights: Any = None,
        fit_intercept: bool = True,
        n_left_out: int = 1000,
        chunk_bytes: int = 2**27,
        random_state: Any = 0,
    ):
        """Keep the parameters as they are given; `fit` checks them."""
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

    coef_ = solved(
        lambda learned, found: learned.targets.each(found.coefficients.T),
        "Weights of the features, (n_features,) or (n_targets, n_features).",
    )
    intercept_ = solved(
        lambda learned, found: learned.targets.each(found.intercepts),
        "Predictions where all features are zero, a float or (n_targets,).",
    )
    alpha_ = solved(lambda learned, found: found.extra["alpha"], "Penalty, given or chosen, a float.")
    criterion_ = solved(lambda learned, found: found.extra["criterion"], "How the penalty was chosen; None if given.")
    block_weights_ = solved(
        lambda learned, found: found.extra["block_weights"],
        "Factors of the kernels of blocks, (n_blocks,); None if all are one.",
    )

    @reading
    def predict(self, X: Any) -> Array:
        """Predict the targets of samples.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples to predict.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_targets)
            In several columns if there were several targets.
        """
        scores = self._score(X)
        return self._learned.targets.decode(scores)

    def add_unlabeled(self, X: Any) -> Self:
        """Let samples without labels take part in finding the principal components.

        Of no effect without ``pca_components``. May come before or after `partial_fit`; `fit` begins without them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples to learn from.

        Returns
        -------
        self : estimator instance
            The estimator itself.
        """
        return _add_unlabeled(self, X)

    def _rule(self) -> RidgeRule:
        return _ridge_rule(self)


class StreamingRidgeClassifier(ClassifierMixin, StreamingModel):
    """Ridge regression on -1 and +1, one class against the others, from sums over chunks.

    Exact, whatever the number of samples; one factorization for all classes. Classes may appear at any time.

    Parameters
    ----------
    feature_map : transformer or None, default=None
        Maps samples to features, for instance `histogp.feature_maps.AdditiveChi2Map`; adapted to the samples of `fit`,
        or to the first ones of `partial_fit`. None takes the features as they are.
    alpha : float or {"auto", "loo", "loo-log", "gcv", "evidence"}, default="auto"
        Penalty on the squares of the weights; or how it is chosen, the same for all classes:

        - "auto": "evidence" if there are at least as many features, or ``pca_components``, as samples, else "loo".
        - "loo": the smallest squared error of leaving training samples out, in closed form, for some at random.
        - "loo-log": the smallest logarithmic loss of the same, of a softmax with the best temperature. With many
          features it takes smaller penalties, and often gains accuracy.
        - "gcv": generalized cross-validation, on all samples.
        - "evidence": the largest marginal likelihood; the penalty is the noise by the prior variance of weights.
    pca_components : int or None, default=None
        Learn from that many principal components of the features (algorithm 3 of chi2-linear-approximation). They are
        folded into the weights: prediction does not project.
    blocks : list of (name, map, columns) or None, default=None
        In place of ``feature_map``: several maps, each of some columns, as in `histogp.feature_maps.BlockMap`.
    block_components : int or None, default=None
        Reduce the features of each block to that many principal components before the blocks are put together
        (algorithm 4 of chi2-linear-approximation). The components are those of the samples of `fit`, or of the first
        ones of `partial_fit`; to find them in a first pass over chunks, let a `BlockMap` see these by ``partial_fit``,
        and give it inside a `sklearn.frozen.FrozenEstimator` as ``feature_map``. They too are folded into the weights.
    block_weights : "evidence", array-like of shape (n_blocks,) or None, default=None
        Factor of the kernel of each block; "evidence" finds those under which the targets are most likely.
    fit_intercept : bool, default=True
        Whether to add a constant, which is not penalized.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes; "balanced" makes them inversely proportional to the frequencies in the end, for which every
        class has statistics of its own: memory and the time to add chunks up grow with the number of classes.
    equal_rank : int or None, default=None
        Move the scores of each class so that the one of this rank among all samples, from the highest down, is the
        same for all classes (chi2-linear-approximation, section 6.3); least squares alone gives rare classes low
        scores. Scores are those of samples that are left out. With two classes there is nothing to move.
    n_left_out : int, default=1000
        Samples to leave out in turn for ``alpha="auto"``, "loo", "loo-log" and ``equal_rank``.
    chunk_bytes : int, default=2**27
        Memory for features at a time.
    random_state : int, RandomState or None, default=0
        Seed of the choice of samples to leave out; None makes another choice each time.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Classes so far, sorted.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights of the features that the map gives; after `partial_fit` they are computed when first needed.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Scores where all features are zero.
    alpha_ : float
        Penalty, given or chosen.
    criterion_ : {"loo", "loo-log", "gcv", "evidence"} or None
        How the penalty was chosen; None if it was given.
    block_weights_ : ndarray of shape (n_blocks,) or None
        Factor of the kernel of each block, one on average if they were found; None if all are one.
    n_samples_seen_ : int
        Labeled samples so far.
    n_features_in_ : int
        Features of a sample before the map.
    feature_names_in_ : ndarray of shape (n_features_in,)
        Names of these, if the data have names.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from histogp.feature_maps import AdditiveChi2Map
    >>> from histogp.streaming import StreamingRidgeClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = StreamingRidgeClassifier(AdditiveChi2Map(n_terms=3))
    >>> for begin in range(0, 1500, 250):
    ...     clf = clf.partial_fit(X[begin : begin + 250], y[begin : begin + 250])
    >>> round(clf.score(X[1500:], y[1500:]), 2)
    0.9
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **_CONSTRAINTS,
        "alpha": [StrOptions({"auto", "loo", "loo-log", "gcv", "evidence"}), Interval(Real, 0, None, closed="left")],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "equal_rank": [None, Interval(Integral, 1, None, closed="left")],
    }
    _targets = ClassTargets()

    classes_: Array

    def __init__(
        self,
        feature_map: Any = None,
        *,
        alpha: Any = "auto",
        pca_components: int | None = None,
        blocks: Any = None,
        block_components: int | None = None,
        block_weights: Any = None,
        fit_intercept: bool = True,
        class_weight: Any = None,
        equal_rank: int | None = None,
        n_left_out: int = 1000,
        chunk_bytes: int = 2**27,
        random_state: Any = 0,
    ):
        """Keep the parameters as they are given; `fit` checks them."""
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

    coef_ = solved(
        lambda learned, found: learned.targets.each(found.coefficients.T),
        "Weights of the features, (1, n_features) or (n_classes, n_features).",
    )
    intercept_ = solved(
        lambda learned, found: learned.targets.each(found.intercepts),
        "Scores where all features are zero, (1,) or (n_classes,).",
    )
    alpha_ = solved(lambda learned, found: found.extra["alpha"], "Penalty, given or chosen, a float.")
    criterion_ = solved(lambda learned, found: found.extra["criterion"], "How the penalty was chosen; None if given.")
    block_weights_ = solved(
        lambda learned, found: found.extra["block_weights"],
        "Factors of the kernels of blocks, (n_blocks,); None if all are one.",
    )

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:  # type: ignore[override]
        """Learn from further samples: the model becomes that of a `fit` on all so far, with the same feature map.

        The samples are added up, no more: the weights are found when a prediction or an attribute first needs them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples to learn from.
        y : array-like of shape (n_samples,)
            Labels, also of classes not seen before.
        classes : array-like of shape (n_classes,), default=None
            Classes to know of, whether or not there are samples yet. They need not be given.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights, which count like repeated samples; they may all be zero.

        Returns
        -------
        self : StreamingRidgeClassifier
            The estimator itself.
        """
        return self._learn(X, y, sample_weight, classes=classes)

    @reading
    def decision_function(self, X: Any) -> Array:
        """Compute the scores of samples.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples to predict.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            A column for each class; for two classes the score of the second one alone, positive where it is predicted.
        """
        scores = self._score(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    @reading
    def predict(self, X: Any) -> Array:
        """The class with the largest score for each sample.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples to predict.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Labels of classes.
        """
        scores = self._score(X)
        return self._learned.targets.decode(scores)

    def add_unlabeled(self, X: Any) -> Self:
        """Let samples without labels take part in finding the principal components.

        Of no effect without ``pca_components``. May come before or after `partial_fit`; `fit` begins without them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples to learn from.

        Returns
        -------
        self : estimator instance
            The estimator itself.
        """
        return _add_unlabeled(self, X)

    def _rule(self) -> RidgeRule:
        return _ridge_rule(self, balanced=self.class_weight == "balanced", equal_rank=self.equal_rank)


def _add_unlabeled(model: Any, X: Any) -> Any:
    """The model, with samples that have no labels in statistics of their own."""
    with updating(model) as changed:
        is_first = changed._learned is None
        X = changed._validate(X, reset=is_first)
        learned = changed._begin(X) if is_first else changed._learned
        changed._rule().check(learned, learned.n_seen)
        more = learned.sum_up(X, None, None, changed.chunk_bytes)
        together = more if learned.unlabeled is None else learned.unlabeled + more
        changed._install(learned.changed(unlabeled=together))
    return model


def _ridge_rule(model: Any, **more: Any) -> RidgeRule:
    """The rule by the parameters that regression and classification share, and others."""
    given = model.block_weights
    block_weights = given if given is None or isinstance(given, str) else tuple(np.asarray(given, object).tolist())
    needs_sample = model.alpha in ("auto", "loo", "loo-log") or more.get("equal_rank") is not None
    n_left_out = int(model.n_left_out) if needs_sample else 0
    return RidgeRule(
        model.alpha, model.pca_components, block_weights, bool(model.fit_intercept), n_left_out=n_left_out, **more
    )


# Above that a factor for each penalty of a search is faster than an eigendecomposition for all: with 1,000 left-out
# samples on one core 0.98 against 1.07 s for 1,500 features, 1.4 against 2.3 s for 2,000, 4.7 against 6.7 s for 3,000.
MOST_DECOMPOSED_FEATURES = 1500


@dataclass(frozen=True)
class RidgeRule(Rule):
    """Ridge regression with a penalty, and weights of blocks, that are given or found.

    block_weights : None, "evidence" or numbers
    balanced : whether classes are weighted by their frequencies
    equal_rank : see `StreamingRidgeClassifier`
    n_left_out : samples to keep for leaving them out; 0 if none are needed
    """

    alpha: Any
    pca_components: int | None
    block_weights: Any
    fit_intercept: bool
    balanced: bool = False
    equal_rank: int | None = None
    n_left_out: int = field(default=0, compare=False)

    def check(self, learned: Learned, n_samples: int) -> None:
        if self.block_weights is not None and learned.feature_map._block_of is None:
            raise ValueError("block_weights needs blocks=... or a BlockMap as feature_map; got blocks=None.")
        if self.pca_components is not None and self.pca_components > learned.width:
            raise ValueError(
                f"pca_components={self.pca_components} is more than the {learned.width} features that there are."
            )

    def solve(self, learned: Learned) -> Weights:
        """Weights of blocks first, then the penalty for features that are times their roots, then the weights."""
        statistics, unlabeled = learned.statistics(self.balanced), learned.unlabeled
        block_weights, scales = self._find_block_weights(learned, statistics), None
        if block_weights is not None:
            scales = np.sqrt(block_weights)[learned.feature_map._block_of]
            statistics = statistics.stretched(scales)
            unlabeled = None if unlabeled is None else unlabeled.stretched(scales)
        ridge: Ridge | FactoredRidge
        if self.pca_components is None and MOST_DECOMPOSED_FEATURES < learned.width < statistics.count:
            problem = Quadratic.of(statistics, intercept=self.fit_intercept, precision=learned.dtype)
            ridge = FactoredRidge(problem, self.fit_intercept)
        else:
            ridge = Ridge.of(
                statistics, self.pca_components, unlabeled, intercept=self.fit_intercept, precision=learned.dtype
            )
        criterion = self._criterion(learned, ridge)
        moves_scores = self.equal_rank is not None and learned.targets.n_targets != 2
        left_out: Any = None
        if moves_scores or criterion in ("loo", "loo-log"):
            left_out = self._leave_out(learned, ridge, scales)
        alpha = float(self.alpha) if criterion is None else self._find_penalty(criterion, ridge, left_out)
        coefficients, intercepts = ridge.coefficients(alpha)
        if scales is not None:
            coefficients = scales[:, None] * coefficients
        if moves_scores:
            scores = left_out.targets - ridge.leave_out(alpha, left_out)
            intercepts = intercepts + _find_offsets(self.equal_rank, learned.parts, scores)
        extra = {"alpha": alpha, "criterion": criterion, "block_weights": block_weights}
        return learned.weights(coefficients, intercepts, **extra)

    def _criterion(self, learned: Learned, ridge: Ridge | FactoredRidge) -> str | None:
        """How to choose the penalty; None if it is given."""
        if self.alpha == "auto":
            n_features = learned.width if self.pca_components is None else self.pca_components
            return "evidence" if n_features >= ridge.size else "loo"
        return self.alpha if isinstance(self.alpha, str) else None

    def _find_block_weights(self, learned: Learned, statistics: StreamingStatistics) -> Array | None:
        """The factor of the kernel of each block, (n_blocks,); None if all are one."""
        if self.block_weights is None:
            return None
        block_of: Any = learned.feature_map._block_of
        if self.block_weights == "evidence":
            problem = Quadratic.of(statistics, intercept=self.fit_intercept)
            scales = likely_scales(problem, block_of, intercept=self.fit_intercept)
            return scales**2 / np.mean(scales**2)
        n_blocks = int(np.max(block_of)) + 1
        try:
            weights = np.array(self.block_weights, np.float64)
        except (TypeError, ValueError):
            weights = np.empty(0)
        if weights.shape != (n_blocks,) or not np.all(np.isfinite(weights)) or not np.all(weights >= 0):
            raise ValueError(f"block_weights must be {n_blocks} numbers that are not negative.")
        return weights

    def _leave_out(self, learned: Learned, ridge: Ridge | FactoredRidge, scales: Array | None) -> LeftOut:
        """The samples to leave out, with features times ``scales`` (m,)."""
        sample = learned.sample
        if sample is None:
            raise ValueError(
                'alpha="auto", "loo" or "loo-log" and equal_rank need some of the samples, which were not asked for '
                "when they came: fit again."
            )
        targets, factors = learned.targets.left_out(sample.targets, learned.parts, self.balanced)
        Z = learned.features(sample.X)
        coordinates = ridge.transform(Z if scales is None else dense(Z) * scales)
        # Weights count like repeated samples, of which one is left out; of a weight below one, all of it.
        return LeftOut(coordinates, targets, factors * sample.weights, factors * np.minimum(sample.weights, 1))

    def _find_penalty(self, criterion: str, ridge: Ridge | FactoredRidge, left_out: Any) -> float:
        """The penalty with the smallest error by a criterion."""
        errors: dict[str, Callable[[float], float]] = {
            "gcv": ridge.generalized_error,
            "evidence": ridge.negative_evidence,
            "loo": lambda alpha: left_out.mean_square(ridge.leave_out(alpha, left_out)),
            "loo-log": lambda alpha: _log_loss(left_out, ridge.leave_out(alpha, left_out)),
        }
        return ridge.find_penalty(errors[criterion])


def _log_loss(left_out: LeftOut, errors: Array) -> float:
    """The mean logarithmic loss of a softmax of left-out scores with the best temperature."""
    scores, codes = left_out.targets - errors, codes_of(left_out.targets)
    temperature = fit_temperature(scores, codes, left_out.weights)
    chosen = log_probabilities(scores, temperature)[np.arange(len(codes)), codes]
    return -float(np.average(chosen, weights=left_out.weights))


def _find_offsets(rank: Any, parts: Sequence[StreamingStatistics], scores: Array) -> Array:
    """What to add to the scores of each class, (k,), so that those of a rank among left-out ``scores`` are equal."""
    n_samples = sum(part.count for part in parts)
    if rank > n_samples:
        raise ValueError(f"equal_rank={rank} is more than the {n_samples} samples so far.")
    heights = np.sort(scores, axis=0)[-max(round(rank * len(scores) / n_samples), 1)]
    # A class that nobody has seen has the same score everywhere: raised, it would win.
    seen = np.sum([part.target_sums for part in parts], axis=0) > 0
    return np.where(seen, heights[seen].mean() - heights, 0.0)
