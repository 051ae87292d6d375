"""Ridge regression and classification on data of any size."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from histogp.estimators.classes import class_weights, codes_in, declared, merged
from histogp.estimators.state import reading, updating
from histogp.estimators.streaming.base import Learned, Streaming, rows_of
from histogp.estimators.streaming.regression import Linear, Regression, labelled
from histogp.estimators.streaming.sample import Sample
from histogp.primal.ridge import Ridge
from histogp.primal.statistics import StreamingStatistics
from histogp.storage import Array

_PARAMETERS = """feature_map : transformer or None, default=None
        Maps rows to features, for instance `histogp.feature_maps.AdditiveChi2Map`; adapted to the rows of `fit`, or to
        the first ones of `partial_fit`. None takes the features as they are.
    alpha : float or {"loo", "gcv", "evidence"}, default="loo"
        Penalty on the squares of the weights; or how it is chosen, the same for all targets, from one
        eigendecomposition:

        - "loo": the smallest error of leaving training rows out, in closed form, for a random sample of them.
        - "gcv": generalised cross-validation, on all rows.
        - "evidence": the largest marginal likelihood; the penalty is the noise by the prior variance of weights.
    pca_components : int or None, default=None
        Learn from that many principal components of the features (algorithm 3 of chi2-linear-approximation). They are
        folded into the weights: prediction does not project.
    fit_intercept : bool, default=True
    n_left_out : int, default=1000
        Rows of the sample for ``alpha="loo"``.
    chunk_bytes : int, default=2**26
        Memory for features at a time.
    random_state : int, RandomState or None, default=None
        Of the sample."""


class _Ridge(Linear):
    """What regression and classification share."""

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **Streaming._parameter_constraints,
        "alpha": [StrOptions({"loo", "gcv", "evidence"}), Interval(Real, 0, None, closed="left")],
        "pca_components": [None, Interval(Integral, 1, None, closed="left")],
        "fit_intercept": ["boolean"],
        "n_left_out": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    alpha: Any
    pca_components: int | None
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
            total = learned.unlabelled or StreamingStatistics.empty(len(learned.parts[0].sums))
            for some in changed._slices(learned, X.shape[0]):
                total += StreamingStatistics.of(learned.features(X[some]))
            changed._adopt(learned.changed(unlabelled=total))
        return self

    def _begin(self, X: Any) -> Learned:
        learned = super()._begin(X)
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
        if self.alpha != "loo":
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

    def _statistics(self) -> StreamingStatistics:
        """Of features and the targets to learn."""
        raise NotImplementedError

    def _left_out(self) -> tuple[Array, Array]:
        """Targets of the sample, and factors on the weights of its rows."""
        raise NotImplementedError

    def _solved(self) -> tuple[Array, Array, float]:
        """Weights (m, k), intercepts (k,), and the penalty."""
        self._validate_params()
        key = (self.alpha, self.pca_components, self.fit_intercept, getattr(self, "class_weight", None) == "balanced")
        return self._learned.solution.get("ridge", self._solve, key)

    def _solve(self) -> tuple[Array, Array, float]:
        statistics = labelled(self._statistics())
        wanted = self._wanted(len(statistics.sums))
        ridge = Ridge.of(statistics, wanted, self._learned.unlabelled, intercept=bool(self.fit_intercept))
        alpha = self._penalty(ridge)
        return *ridge.coefficients(alpha), alpha

    def _penalty(self, ridge: Ridge) -> float:
        if not isinstance(self.alpha, str):
            return float(self.alpha)
        error: Callable[[float], float] = ridge.generalised_error
        if self.alpha == "evidence":
            error = ridge.negative_evidence
        elif self.alpha == "loo":
            if self._learned.sample is None:
                raise ValueError('alpha="loo" needs a sample of the rows, which was not asked for when they came.')
            sample = self._learned.sample
            targets, factors = self._left_out()
            coordinates = ridge.components.transform(self._learned.features(sample.X))
            # Weights count like repeated rows, of which one is left out; of a weight below one, all of it.
            weights, units = factors * sample.weights, factors * np.minimum(sample.weights, 1)
            error = lambda alpha: ridge.left_out_error(alpha, coordinates, targets, weights, units)  # noqa: E731
        return float(min(ridge.penalties(), key=error))

    @property
    @reading
    def alpha_(self) -> float:
        """The penalty."""
        check_is_fitted(self)
        return self._solved()[2]


class StreamingRidge(Regression, _Ridge):
    __doc__ = f"""Ridge regression from sums over chunks: exact, whatever the number of rows.

    Parameters
    ----------
    {_PARAMETERS}

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Weights of the features that the map gives; computed when they are first needed.
    intercept_ : float or ndarray of shape (n_targets,)
    alpha_ : float
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
        fit_intercept: bool = True,
        n_left_out: int = 1000,
        chunk_bytes: int = 2**26,
        random_state: Any = None,
    ):
        self.feature_map = feature_map
        self.alpha = alpha
        self.pca_components = pca_components
        self.fit_intercept = fit_intercept
        self.n_left_out = n_left_out
        self.chunk_bytes = chunk_bytes
        self.random_state = random_state

    def _left_out(self) -> tuple[Array, Array]:
        targets = self._learned.sample.targets
        return targets, np.ones(len(targets))


class StreamingRidgeClassifier(ClassifierMixin, _Ridge):
    __doc__ = f"""Ridge regression on -1 and +1, one class against the others, from sums over chunks.

    Exact, whatever the number of rows; one factorisation for all classes. Classes may appear at any time.

    Parameters
    ----------
    {_PARAMETERS}
    class_weight : dict, "balanced" or None, default=None
        Weights of classes; "balanced" makes them inversely proportional to the frequencies in the end, for which every
        class has statistics of its own: memory and the time to add chunks up grow with the number of classes.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights of the features that the map gives; computed when they are first needed.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    alpha_ : float
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
        **_Ridge._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    classes_: Array

    def __init__(
        self,
        feature_map: Any = None,
        *,
        alpha: Any = "loo",
        pca_components: int | None = None,
        fit_intercept: bool = True,
        class_weight: Any = None,
        n_left_out: int = 1000,
        chunk_bytes: int = 2**26,
        random_state: Any = None,
    ):
        self.feature_map = feature_map
        self.alpha = alpha
        self.pca_components = pca_components
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
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
            changed._add(changed._begin(X), classes[:0], classes, X, y, changed._weights(sample_weight, X))
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
            learned = changed._begin(X) if first else changed._learned
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
        for some in self._slices(learned, X.shape[0]):
            Z = learned.features(X[some])
            for k in np.unique(part_of[some]):
                own = part_of[some] == k
                rows = slice(None) if own.all() else own
                parts[k] += StreamingStatistics.of(Z[rows], targets[some][rows], weights[some][rows])
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
