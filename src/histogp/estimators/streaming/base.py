"""What the streaming estimators share: chunks go through a feature map into statistics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from histogp._numba.jit import announce_compilation
from histogp._sklearn import check_sample_weight
from histogp.estimators.state import snapshot
from histogp.posterior.lazy import Lazy
from histogp.primal.statistics import StreamingStatistics, Sums
from histogp.storage import Array

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

    def save(self, path: Any) -> None:
        """Write what was learnt to a file without code, which `histogp.load` reads; it can go on learning.

        The file takes the place of an older one as a whole or not at all.
        """
        from histogp.estimators.streaming import model_file  # which knows this module

        check_is_fitted(self)
        model_file.save(self, path)

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
