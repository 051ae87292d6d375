"""What estimators on streams share: statistics of chunks, samples of rows, blocks of columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin, _fit_context, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from histogp._core.data import Array
from histogp._core.least_squares.statistics import StreamingStatistics, Sums
from histogp._core.threads import Lazy, announce_compilation
from histogp._estimator import reading, snapshot, updating
from histogp._sklearn import check_sample_weight, warn
from histogp.exceptions import PrecisionWarning
from histogp.feature_maps.block_map import BlockMap, checked_blocks

# Bytes of statistics that are still reasonable.
MOST_BYTES = 2**32


@dataclass(frozen=True, eq=False)
class Learned:
    """All that was learnt so far; an update makes another one.

    parts : statistics of the labelled rows, one, or one a class where these are weighted later
    unlabelled : those of rows without labels
    sample : some of the labelled rows, or None if nobody needs them
    n_seen : rows so far, of any weight
    solution : what was computed from them
    """

    feature_map: Any
    parts: tuple[StreamingStatistics, ...]
    unlabelled: StreamingStatistics | None = None
    sample: Any = None
    n_seen: int = 0
    solution: Lazy = field(default_factory=Lazy)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "solution"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, solution=Lazy())

    def converted(self, X: Any) -> Any:
        """In the precision that features have."""
        return X.astype(np.float32 if self.is_random else np.float64, copy=False)

    @property
    def is_random(self) -> bool:
        """Whether single precision is more than enough."""
        return getattr(self.feature_map, "_is_random", False)

    def changed(self, **values: Any) -> Learned:
        return replace(self, **values, solution=Lazy())

    def features(self, X: Any) -> Any:
        """The features of rows, in double precision, unless they are random anyway."""
        X = self.converted(X)
        Z = X if self.feature_map is None else self.feature_map.transform(X)
        return Z.tocsr() if sparse.issparse(Z) else np.asarray(Z)


class Streaming(BaseEstimator):
    """Base of the estimators; subclasses have the parameters ``feature_map`` and ``chunk_bytes``."""

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "feature_map": [None, HasMethods(["fit", "transform"])],
        "chunk_bytes": [Interval(Integral, 1, None, closed="left")],
    }

    feature_map: Any
    chunk_bytes: int
    n_features_in_: int
    n_samples_seen_: int
    _learned: Learned

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        try:
            given = self._given_map()
        except ValueError:  # of parameters that `fit` will refuse
            given = None
        if given is not None:
            of_map = getattr(given, "__sklearn_tags__", None)
            tags.input_tags.positive_only = of_map is not None and of_map().input_tags.positive_only
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        # Rows without labels are not enough.
        return hasattr(self, "_learned") and self._learned.n_seen > 0

    def save(self, path: Any, notes: Sequence[str] = ()) -> None:
        """Write what was learnt to a file without code, which `histogp.load` reads; it can go on learning.

        The file takes the place of an older one as a whole or not at all. ``notes`` are texts for whoever reads it,
        which `histogp.describe` gives back.
        """
        from histogp.streaming import _model_file

        check_is_fitted(self)
        _model_file.save(self, path, notes)

    def _validated(self, X: Any, y: Any = "no_validation", *, reset: bool, **options: Any) -> Any:
        announce_compilation()
        return validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], reset=reset, order="C", **options
        )

    def _begin(self, X: Any, y: Any = None) -> Learned:
        """Nothing learnt yet; the feature map is adapted to these rows."""
        given = self._given_map()
        feature_map: Any
        if isinstance(given, FrozenEstimator):
            feature_map = self._without_names(given.estimator)
        else:
            feature_map = None if given is None else clone(given).fit(X, y)
            if hasattr(feature_map, "_finish"):
                feature_map._finish()
        learned = Learned(feature_map, ())
        n_features = learned.features(X[:1]).shape[1]
        if 8 * n_features**2 > MOST_BYTES:
            raise ValueError(
                f"The statistics of {n_features:,} features would take {8e-9 * n_features**2:.0f} GB; use fewer "
                "features, for instance by feature selection or a feature map with fewer components."
            )
        return learned.changed(parts=(StreamingStatistics.empty(n_features),))

    def _given_map(self) -> Any:
        """The feature map, as the parameters say, or None."""
        return self.feature_map

    def _without_names(self, feature_map: Any) -> Any:
        """The same fitted map for rows as arrays, if its names are those of the data."""
        if "feature_names_in_" not in vars(feature_map):
            return feature_map
        names = getattr(self, "feature_names_in_", None)
        if names is not None and not np.array_equal(feature_map.feature_names_in_, names):
            raise ValueError("The feature names of the data are not those that the feature_map was fitted to.")
        feature_map = snapshot(feature_map)
        del feature_map.feature_names_in_
        return feature_map

    def _slices(self, learned: Learned, n_rows: int) -> Iterator[slice]:
        """Rows whose features have about ``chunk_bytes``, also before a projection."""
        width = max(len(learned.parts[0].sums), sum(getattr(learned.feature_map, "_widths", ())))
        step = max(1, self.chunk_bytes // ((4 if learned.is_random else 8) * width))
        for begin in range(0, n_rows, step):
            yield slice(begin, min(begin + step, n_rows))

    def _summed(
        self, learned: Learned, X: Any, targets: Array | None = None, weights: Array | None = None
    ) -> StreamingStatistics:
        """Statistics of the features of rows."""
        n_targets = 0 if targets is None else targets.shape[1]
        sums = Sums(len(learned.parts[0].sums), n_targets, single=learned.is_random)
        for some in self._slices(learned, X.shape[0]):
            own = [None if array is None else array[some] for array in (targets, weights)]
            sums.add(learned.features(X[some]), *own)
        return sums.total()

    def _weights(self, sample_weight: Any, X: Any, *, is_part: bool = False) -> Array:
        """One a row; those of a part of the data may all be zero."""
        return check_sample_weight(sample_weight, X, allow_all_zero=is_part)

    def _adopt(self, learned: Learned) -> None:
        """Swap what is learnt as a whole."""
        self.n_samples_seen_ = learned.n_seen
        self._learned = learned

    def _linear(self, X: Any, coefficients: Array, intercepts: Array) -> Array:
        """``phi(X) @ coefficients + intercepts`` in pieces, (n, k), in the precision of X."""
        learned = self._learned
        features, feature_map = learned.features, learned.feature_map
        if getattr(feature_map, "_projects", False):
            # Products with features before the projection are cheaper than the projection.
            given = coefficients, intercepts
            # With the weights that they were made of, so that nothing else can have their place in memory.
            _, (coefficients, intercepts) = learned.solution.get(
                "folded", lambda: (given, feature_map._folded(*given)), (id(given[0]), id(given[1]))
            )
            features = lambda X: feature_map._unprojected(learned.converted(X))  # noqa: E731
        if learned.is_random:
            coefficients = coefficients.astype(np.float32)
        out = np.empty((X.shape[0], len(intercepts)), X.dtype)
        for some in self._slices(learned, X.shape[0]):
            out[some] = features(X[some]) @ coefficients + intercepts
        return out


def rows_of(X: Any, index: Any) -> Any:
    """Some rows as a copy of their own."""
    return X[index] if sparse.issparse(X) else np.array(X[index])


BLOCKS = """blocks : list of (name, map, columns) or None, default=None
        In place of ``feature_map``: several maps, each of some columns, as in `histogp.feature_maps.BlockMap`."""


class WithBlocks(Streaming):
    """For estimators with the parameters ``blocks`` and, perhaps, ``block_components``."""

    blocks: Any
    block_components: int | None = None

    def _given_map(self) -> Any:
        if self.blocks is None:
            if self.block_components is not None:
                raise ValueError("block_components are those of blocks, and there are none.")
            return self.feature_map
        if self.feature_map is not None:
            raise ValueError("Give either a feature_map or blocks.")
        return BlockMap(self._numbered(), pca_components=self.block_components, chunk_bytes=self.chunk_bytes)

    def _numbered(self) -> list[tuple[str, Any, Any]]:
        """Blocks with numbers in place of the names of columns."""
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            return checked_blocks(self.blocks)
        position = {name: k for k, name in enumerate(names)}
        found = []
        for name, map_, columns in checked_blocks(self.blocks):
            is_slice = isinstance(columns, slice)
            given = (columns.start, columns.stop) if is_slice else np.atleast_1d(np.asarray(columns, object))
            texts = [one for one in given if isinstance(one, str)]
            missing = [one for one in texts if one not in position]
            if missing:
                raise ValueError(f"The block {name!r} wants a column {missing[0]!r}, which the data do not have.")
            if is_slice and texts:  # with its end, as in a ColumnTransformer
                begin, end = (position.get(bound, bound) for bound in given)
                columns = slice(begin, end + 1 if isinstance(given[1], str) else end, columns.step)
            elif len(texts) == len(given) > 0:
                columns = [position[one] for one in texts]
            found.append((name, map_, columns))
        return found

    def _block_of(self) -> Array | None:
        """The number of the block of each feature, (m,); None without blocks."""
        feature_map = self._learned.feature_map
        return feature_map.block_of_ if isinstance(feature_map, BlockMap) else None


@dataclass(frozen=True, eq=False)
class Sample:
    """The rows with the smallest of random numbers, each of which a row draws when it comes. Immutable.

    priorities : (s,), ascending; X : (s, D), dense or CSR; targets : (s, k); weights : (s,)
    """

    priorities: Array
    X: Any
    targets: Array
    weights: Array

    def __add__(self, other: Sample) -> Sample:
        both = [self.X, other.X]
        if any(sparse.issparse(X) for X in both):
            X = sparse.vstack([sparse.csr_array(X) for X in both], format="csr")
        else:
            X = np.concatenate(both)
        return Sample(
            np.concatenate([self.priorities, other.priorities]),
            X,
            np.concatenate([self.targets, other.targets]),
            np.concatenate([self.weights, other.weights]),
        )

    def smallest(self, size: int) -> Sample:
        order = np.argsort(self.priorities, kind="stable")[:size]
        return Sample(self.priorities[order], self.X[order], self.targets[order], self.weights[order])

    def with_targets(self, positions: Array, n_targets: int) -> Sample:
        targets = np.zeros((len(self.targets), n_targets))
        targets[:, positions] = self.targets
        return Sample(self.priorities, self.X, targets, self.weights)


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
