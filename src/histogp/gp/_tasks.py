"""What is learned: classes, real values, or what all samples have in common, each a frozen task made of parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from sklearn.utils import check_array, check_consistent_length, column_or_1d, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from histogp._classes import balanced_noise, carried_over, class_weights, merged
from histogp._core.data import Array, NumberedRows, Rows
from histogp._core.groups import MOST_GROUP_ROWS, groups_of_rows
from histogp._core.operators.contract import Features, updates_of
from histogp._core.posterior import Posterior, PredictionOptions
from histogp._core.predict_only import Predictor
from histogp._core.predictors import Classes, Codec, Inliers, Reals, codes_in
from histogp._core.solvers.problem import Noise, TrainingTargets
from histogp._core.variance import METHODS, Variance

# The part of normal samples, left out of training one at a time, that count as outliers by default.
REJECTED_SHARE = 0.05
C = TypeVar("C", bound=Codec)


@dataclass(frozen=True, eq=False)
class Samples:
    """What a model was told, as long as it may go on learning: one entry for each training sample.

    ids : (N,), ascending: the number of a sample among all that were ever given
    y : (N,) or (N, M), what a codec keeps of its label
    weights : (N,), positive, as they were given
    n_given : how many samples were ever given, also those that are forgotten or had the weight zero
    row_of : (N,), the row of the operator that each sample has, perhaps together with others that are equal to it
    hashes : (n_rows,), of the content of the rows; None if they are not known
    group_of : (N,), the numbers of groups of samples that are left out together; None if there are none
    """

    ids: Array
    y: Array
    weights: Array
    n_given: int
    row_of: Array
    hashes: Array | None = None
    group_of: Array | None = None

    @classmethod
    def given(cls, y: Array, weights: Array) -> Samples:
        """The first samples, each with a row of its own; those of weight zero are not kept, but have numbers, too."""
        kept = weights > 0
        return cls(np.flatnonzero(kept), y[kept], weights[kept], len(weights), np.arange(np.count_nonzero(kept)))

    def joined(self, more: Samples) -> Samples:
        """The samples and those that were given after them, in further rows; these are in groups of their own."""
        group_of = self.group_of
        if group_of is not None:
            group_of = np.concatenate([group_of, group_of.max() + 1 + np.arange(len(more.ids))])
        return Samples(
            np.concatenate([self.ids, self.n_given + more.ids]),
            np.concatenate([self.y, more.y]),
            np.concatenate([self.weights, more.weights]),
            self.n_given + more.n_given,
            np.concatenate([self.row_of, self.row_of.max(initial=-1) + 1 + more.row_of]),
            group_of=group_of,
        )

    def placed(self, found: NumberedRows) -> Samples:
        """The samples with the rows that were found for the last ones."""
        before = self.row_of[: len(self.row_of) - len(found.row_of)]
        return replace(self, row_of=np.concatenate([before, found.row_of]), hashes=found.hashes)

    @property
    def shared_rows(self) -> Array | None:
        """The rows of the samples, (N,); None if each has a row of its own, in their order."""
        return None if np.array_equal(self.row_of, np.arange(len(self.row_of))) else self.row_of

    def only(self, kept: Array) -> Samples:
        """The samples where the mask ``kept`` (N,) is true; refuses to keep none."""
        if not kept.any():
            raise ValueError(
                "These are all training samples, and a model needs at least one: keep some, or fit another model."
            )
        rows, row_of = np.unique(self.row_of[kept], return_inverse=True)
        group_of = None if self.group_of is None else self.group_of[kept]
        if group_of is not None and groups_of_rows(group_of, row_of).max() == 0:
            group_of = None  # with one group there is nothing left to leave it out of
        return replace(
            self,
            ids=self.ids[kept],
            y=self.y[kept],
            weights=self.weights[kept],
            row_of=row_of,
            hashes=None if self.hashes is None else self.hashes[rows],
            group_of=group_of,
        )

    def index_of(self, ids: Any) -> Array:
        """Where the samples with these numbers are, in their order."""
        try:
            ids = np.atleast_1d(np.asarray(ids))
        except ValueError:  # rows of different lengths
            ids = np.empty((0, 0))
        if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
            raise ValueError(f"ids must be whole numbers, as ids_ has them; got {ids!r}.")
        index = np.searchsorted(self.ids, ids)
        known = index < len(self.ids)
        known[known] = self.ids[index[known]] == ids[known]
        if not known.all():
            raise ValueError(f"There is no training sample with the number {ids[~known][0]}; ids_ has those there are.")
        if len(np.unique(ids)) < len(ids):
            raise ValueError("A sample occurs twice in ids.")
        return index.astype(int)


def numbered_groups(groups: Any, kept: Array, row_of: Array) -> Array:
    """The numbers of the groups that users name for samples, of those that are kept, (N,).

    kept : mask of the samples that take part; row_of : (N,), their rows. Refuses what leaves nothing, or too much, out.
    """
    names = np.asarray(groups, object)
    if names.shape != (len(kept),):
        raise ValueError(f"groups must name a group for each of the {len(kept)} samples; got the shape {names.shape}.")
    codes: dict[Any, int] = {}
    group_of = np.empty(len(names), int)
    for k, name in enumerate(names):
        try:
            is_missing = name is None or bool(name != name)
        except TypeError:  # pandas' NA
            is_missing = True
        if is_missing:
            raise ValueError(f"groups has no value for sample {k}; give each sample a group.")
        group_of[k] = codes.setdefault(name, len(codes))
    group_of = np.unique(group_of[kept], return_inverse=True)[1].reshape(-1)
    sizes = np.bincount(groups_of_rows(group_of, row_of))
    if len(sizes) < 2:
        raise ValueError(
            "groups must name two groups or more that share no equal samples: one of them at a time is left out."
        )
    if sizes.min() > MOST_GROUP_ROWS:
        raise ValueError(
            f"Each group has more than {MOST_GROUP_ROWS:,} distinct samples, too many to leave out together; groups "
            "are for samples that are nearly the same."
        )
    return group_of


@dataclass(frozen=True, eq=False)
class Encoded(Generic[C]):
    """Training samples and what their ``y`` means.

    kept : mask of the samples that take part, of those that were given, or of those before a change
    """

    codec: C
    samples: Samples
    kept: Array

    def placed(self, found: NumberedRows) -> Encoded[C]:
        """The samples with the rows that were found for the last ones."""
        return replace(self, samples=self.samples.placed(found))


class Task(Protocol[C]):
    """What differs between kinds of estimators.

    codec : what says what the ``y`` of samples mean
    y_checks : how scikit-learn is to check the labels that users give
    has_labels : whether samples differ in their targets, so that there is something to predict
    """

    codec: ClassVar[type[Any]]
    y_checks: ClassVar[dict[str, bool]]
    is_classification: ClassVar[bool]
    has_labels: ClassVar[bool]

    def encode_first(self, y: Any, weights: Array, declared: Array | None = None) -> Encoded[C]:
        """The first samples; ``declared`` are classes to know of, None if ``y`` has all there are."""

    def extend(self, codec: C, samples: Samples, y: Any, weights: Array, declared: Array | None = None) -> Encoded[C]:
        """Further samples after those that are known."""

    def forget(self, codec: C, samples: Samples, kept: Array) -> Encoded[C]:
        """The samples of a mask, (N,), alone."""

    def problem(self, encoded: Encoded[C], noise: float) -> TrainingTargets:
        """What the samples come to: targets on which a Gaussian process is conditioned, with noise."""

    def warm_start(self, alpha: Array, before: C, after: C, shared_noise: bool) -> Array:
        """Solutions, (N, M), for the codec ``before`` as a guess of those for the codec ``after``."""

    def complete_codec(
        self, encoded: Encoded[C], posterior: Posterior, noise: float, options: Callable[[], PredictionOptions]
    ) -> tuple[C, str | None]:
        """The codec with what only the posterior tells; and a sentence if variances fell short, or None.

        options : makes the options of predictions, for those who need some
        """

    def prepare(self, posterior: Posterior | Predictor, rows: Rows, options: PredictionOptions) -> str | None:
        """Let the posterior prepare what predictions need of the training samples; a sentence if that fell short.

        rows : none, of some width
        """


@dataclass(frozen=True)
class Classification:
    """Classification by label regression, one class against the rest."""

    class_weight: Any
    probability: str

    codec: ClassVar[type[Classes]] = Classes
    is_classification: ClassVar[bool] = True
    has_labels: ClassVar[bool] = True
    y_checks: ClassVar[dict[str, bool]] = {}

    def encode_first(self, y: Array, weights: Array, declared: Array | None = None) -> Encoded[Classes]:
        """The first samples; their classes are those of y and those ``declared``."""
        check_classification_targets(y)
        classes = np.unique(y) if declared is None else merged(declared, y)
        if declared is None and isinstance(self.class_weight, dict):
            compute_class_weight(self.class_weight, classes=classes, y=y)  # refuses classes that it does not name
        if isinstance(self.class_weight, dict):
            weights = self._without_ignored(y, weights)
        if not weights.any():
            raise ValueError(
                "class_weight and sample_weight together leave no sample with a positive weight; give some."
            )
        return Encoded(Classes(classes), Samples.given(codes_in(classes, y), weights), weights > 0)

    def extend(
        self, codec: Classes, samples: Samples, y: Array, weights: Array, declared: Array | None = None
    ) -> Encoded[Classes]:
        check_classification_targets(y)
        classes = merged(codec.classes, y if declared is None else merged(declared, y))
        if isinstance(self.class_weight, dict):
            weights = self._without_ignored(y, weights)
        known = replace(samples, y=codes_in(classes, codec.classes)[samples.y])
        return Encoded(Classes(classes), known.joined(Samples.given(codes_in(classes, y), weights)), weights > 0)

    def relabel(self, codec: Classes, samples: Samples, index: Array, y: Any) -> Encoded[Classes]:
        """Other labels for some samples; a class whose last sample goes, goes too."""
        y = column_or_1d(np.atleast_1d(y))
        check_consistent_length(index, y)
        check_classification_targets(y)
        classes = merged(codec.classes, y)
        codes = codes_in(classes, codec.classes)[samples.y]
        had = np.unique(codes)
        codes[index] = codes_in(classes, y)
        kept = np.ones(len(codes), bool)
        if isinstance(self.class_weight, dict):
            kept[index] = self._without_ignored(y, np.ones(len(y))) > 0
        return _without_lost_classes(classes, had, replace(samples, y=codes), kept)

    def forget(self, codec: Classes, samples: Samples, kept: Array) -> Encoded[Classes]:
        return _without_lost_classes(codec.classes, np.unique(samples.y), samples, kept)

    def problem(self, encoded: Encoded[Classes], noise: float) -> TrainingTargets:
        """Labels -1 and 1 of each class, with noise divided by the weights of samples and of their classes."""
        samples, classes = encoded.samples, encoded.codec.classes
        codes, weights = samples.y, samples.weights
        targets = encoded.codec.encode(codes)
        if self.class_weight == "balanced-ovr":
            own = balanced_noise(noise, codes, weights, len(classes))
            shared = Noise(noise / weights)
            return TrainingTargets(targets, own, samples.row_of, noise, shared, samples.group_of, samples.weights, True)
        if self.class_weight is not None:
            weights = weights * class_weights(self.class_weight, classes, codes, weights)[codes]
            if weights.min() == 0:
                raise ValueError("class_weight is zero for samples that the model has learned: fit it again.")
        own = Noise(noise / weights)
        return TrainingTargets(targets, own, samples.row_of, noise, None, samples.group_of, samples.weights, True)

    def warm_start(self, alpha: Array, before: Classes, after: Classes, shared_noise: bool) -> Array:
        return carried_over(alpha, before.classes, after.classes, shared_noise)

    def complete_codec(
        self, encoded: Encoded[Classes], posterior: Posterior, noise: float, options: Callable[[], PredictionOptions]
    ) -> tuple[Classes, None]:
        return encoded.codec, None

    def prepare(self, posterior: Posterior | Predictor, rows: Rows, options: PredictionOptions) -> str | None:
        fitted = posterior.temperature if self.probability == "temperature" else posterior.link
        return fitted(options.variance)[1]

    def _without_ignored(self, y: Array, weights: Array) -> Array:
        """The weights of samples, zero where that of their class is."""
        ignored = [label for label, weight in self.class_weight.items() if weight == 0]
        return np.where(np.isin(y, ignored), 0.0, weights) if ignored else weights


def _without_lost_classes(classes: Array, had: Array, samples: Samples, kept: Array) -> Encoded[Classes]:
    """The samples of the mask ``kept``, without classes that have none left; ``had`` are numbers of those that had."""
    samples = samples.only(kept)
    left = np.setdiff1d(np.arange(len(classes)), np.setdiff1d(had, samples.y))
    return Encoded(Classes(classes[left]), replace(samples, y=np.searchsorted(left, samples.y)), kept)


@dataclass(frozen=True)
class Regression:
    """Regression on one or several real outputs."""

    normalize_y: bool

    codec: ClassVar[type[Reals]] = Reals
    is_classification: ClassVar[bool] = False
    has_labels: ClassVar[bool] = True
    y_checks: ClassVar[dict[str, bool]] = {"multi_output": True, "y_numeric": True}

    def encode_first(self, y: Array, weights: Array, declared: Array | None = None) -> Encoded[Reals]:
        samples = Samples.given(np.asarray(y, np.float64), weights)
        return self._encoded(samples, _precision(y), weights > 0)

    def extend(
        self, codec: Reals, samples: Samples, y: Array, weights: Array, declared: Array | None = None
    ) -> Encoded[Reals]:
        _check_outputs(codec, y)
        samples = samples.joined(Samples.given(np.asarray(y, np.float64), weights))
        return self._encoded(samples, np.result_type(codec.dtype, _precision(y)), weights > 0)

    def relabel(self, codec: Reals, samples: Samples, index: Array, y: Any) -> Encoded[Reals]:
        """Other values for some samples."""
        is_single_row = np.ndim(y) < samples.y.ndim
        y = check_array(np.asarray(y)[None] if is_single_row else y, ensure_2d=False, dtype=np.float64)
        check_consistent_length(index, y)
        _check_outputs(codec, y)
        corrected = samples.y.copy()
        corrected[index] = y
        return self._encoded(replace(samples, y=corrected), codec.dtype, np.ones(len(corrected), bool))

    def forget(self, codec: Reals, samples: Samples, kept: Array) -> Encoded[Reals]:
        return self._encoded(samples.only(kept), codec.dtype, kept)

    def problem(self, encoded: Encoded[Reals], noise: float) -> TrainingTargets:
        samples = encoded.samples
        targets, own = encoded.codec.encode(samples.y), Noise(noise / samples.weights)
        return TrainingTargets(targets, own, samples.row_of, noise, None, samples.group_of, samples.weights)

    def warm_start(self, alpha: Array, before: Reals, after: Reals, shared_noise: bool) -> Array:
        return alpha * np.reshape(before.unit / after.unit, -1)

    def complete_codec(
        self, encoded: Encoded[Reals], posterior: Posterior, noise: float, options: Callable[[], PredictionOptions]
    ) -> tuple[Reals, None]:
        return encoded.codec, None

    def prepare(self, posterior: Posterior | Predictor, rows: Rows, options: PredictionOptions) -> str | None:
        """Nothing: a mean needs nothing beside its table."""
        return None

    def _encoded(self, samples: Samples, dtype: np.dtype, kept: Array) -> Encoded[Reals]:
        """The samples with a codec that knows the center and the unit of their targets."""
        y, weights = samples.y, samples.weights
        shift, unit = np.zeros(y.shape[1:]), np.ones(y.shape[1:])
        if self.normalize_y:
            # To the last bit whatever the order of the samples, and a weight of two is two of them.
            y, place = np.unique(y, axis=0, return_inverse=True)
            weights = np.bincount(place.reshape(-1), weights)
            shift = np.average(y, axis=0, weights=weights)
            largest = np.abs(y - shift).max(axis=0)
            largest = np.where(largest > 0, largest, 1.0)  # the squares of very large targets would overflow
            unit = largest * np.sqrt(np.average(((y - shift) / largest) ** 2, axis=0, weights=weights))
            unit = np.where(unit > 0, unit, 1.0)
        return Encoded(Reals(shift, unit, dtype), samples, kept)


def _check_outputs(codec: Reals, y: Array) -> None:
    if y.shape[1:] != np.shape(codec.unit):
        expected = "(n,)" if codec.is_vector else f"(n, {codec.n_outputs})"
        raise ValueError(f"y has the shape {y.shape}, but the model has learned targets of the shape {expected}.")


def _precision(y: Array) -> np.dtype:
    """The precision of predictions: float32 for float32 data with float32 targets, float64 otherwise."""
    return np.dtype(np.float32 if np.result_type(y.dtype, np.float32) == np.float32 else np.float64)


@dataclass(frozen=True)
class OneClass:
    """Detection of samples unlike those seen, which all have the label 1; see `HistogramGPOneClass`."""

    criterion: str
    method: str
    contamination: Any

    codec: ClassVar[type[Inliers]] = Inliers
    is_classification: ClassVar[bool] = False
    has_labels: ClassVar[bool] = False
    y_checks: ClassVar[dict[str, bool]] = {}

    def encode_first(self, y: None, weights: Array, declared: Array | None = None) -> Encoded[Inliers]:
        return self._encoded(Samples.given(np.ones(len(weights)), weights), weights > 0)

    def extend(
        self, codec: Inliers, samples: Samples, y: None, weights: Array, declared: Array | None = None
    ) -> Encoded[Inliers]:
        return self._encoded(samples.joined(Samples.given(np.ones(len(weights)), weights)), weights > 0)

    def forget(self, codec: Inliers, samples: Samples, kept: Array) -> Encoded[Inliers]:
        return self._encoded(samples.only(kept), kept)

    def problem(self, encoded: Encoded[Inliers], noise: float) -> TrainingTargets:
        is_bound = self.method != "auto" and METHODS[self.method].kind == "bound"
        if self.contamination == "auto" and self.criterion != "mean" and is_bound:
            raise ValueError(
                f'contamination="auto" needs the variance itself, of which method={self.method!r} is only a bound: '
                "give a number as contamination, or another method."
            )
        samples = encoded.samples
        targets, own = encoded.codec.encode(samples.y), Noise(noise / samples.weights)
        return TrainingTargets(targets, own, samples.row_of, noise, None, samples.group_of, samples.weights)

    def warm_start(self, alpha: Array, before: Inliers, after: Inliers, shared_noise: bool) -> Array:
        return alpha

    def complete_codec(
        self, encoded: Encoded[Inliers], posterior: Posterior, noise: float, options: Callable[[], PredictionOptions]
    ) -> tuple[Inliers, str | None]:
        """The codec with its offset: a quantile of the scores of the samples, left out one at a time if "auto"."""
        weights, part = encoded.samples.weights, self.contamination
        if self.contamination == "auto":
            left_out = posterior.leave_one_out(options().variance, units=True)
            scores, shortfall = self._score(left_out.means[:, 0], left_out.variances[:, 0], noise), left_out.shortfall
            weights, part = weights[left_out.index], REJECTED_SHARE
        else:
            rows = updates_of(posterior.operator).training_rows()
            scores, shortfall = self.scores(posterior, rows, noise, options())
            scores = posterior.given.of_samples(scores)
        return replace(encoded.codec, offset=_quantile(scores, weights, part)), shortfall

    def prepare(self, posterior: Posterior | Predictor, rows: Rows, options: PredictionOptions) -> str | None:
        """Prepare the variance that scores need; refuses one that cannot do without the training samples."""
        if self.criterion == "mean":
            return None
        method = self._method_for(posterior)
        chosen = METHODS[METHODS[method].instead(posterior.operator) or method]
        if chosen.name == "precise" and posterior.operator.offer(Features) is not None:
            return None
        if chosen.needs_training and posterior.includes_training:  # otherwise it is prepared, or refused below
            raise ValueError(
                f"Scores by the variance {method!r} need the training samples: save them too (include_training=True), "
                'or fit with method="sampled".'
            )
        return posterior.variance(rows, method, options.variance).shortfall

    def scores(
        self, posterior: Posterior | Predictor, rows: Rows, noise: float, options: PredictionOptions
    ) -> Variance:
        """How much test samples are like the training samples, (n,); and a sentence if variances fell short."""
        means, latent = np.empty(0), Variance(np.empty(0))
        if self.criterion != "variance":
            means = options.mean(posterior, rows)[:, 0]
        if self.criterion != "mean":
            latent = posterior.variance(rows, self._method_for(posterior), options.variance)
        return Variance(self._score(means, latent.values, noise), latent.shortfall)

    def _score(self, means: Array, latent: Array, noise: float) -> Array:
        if self.criterion == "mean":
            return means
        return -latent if self.criterion == "variance" else means / np.sqrt(latent + noise)

    def _method_for(self, posterior: Posterior | Predictor) -> str:
        return posterior.quick_method() if self.method == "auto" else self.method

    def _encoded(self, samples: Samples, kept: Array) -> Encoded[Inliers]:
        return Encoded(Inliers(np.nan, self.criterion, self.method), samples, kept)


def _quantile(values: Array, weights: Array, part: float) -> float:
    """Interpolated, as if each value occurred as often as its weight says."""
    order = np.argsort(values)
    upto = np.cumsum(weights[order] / min(weights.min(), 1.0))
    place = max(part * (upto[-1] - 1), 0.0)
    below, above = (
        values[order[min(np.searchsorted(upto, rounded, side="right"), len(order) - 1)]]
        for rounded in (np.floor(place), np.ceil(place))
    )
    return float(below + (place - np.floor(place)) * (above - below))
