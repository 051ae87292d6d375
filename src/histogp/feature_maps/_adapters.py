"""Whatever users give as a feature map, behind the contract of `FeatureMap`: the one place that asks what it is."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from histogp._core.data import Array
from histogp._estimator import snapshot
from histogp.feature_maps.expansions import FeatureMap
from histogp.io.schema import Reader, Writer


def as_map(given: Any) -> FeatureMap:
    """The contract of `FeatureMap` for a map of ours, None, another transformer, or one of them that is frozen."""
    given = thawed(given)
    if given is None:
        return SameFeatures()
    return given if isinstance(given, FeatureMap) else ForeignMap(given)


def thawed(given: Any) -> Any:
    """The transformer inside of a `sklearn.frozen.FrozenEstimator`; others as they are."""
    return given.estimator if isinstance(given, FrozenEstimator) else given


def with_arrays(given: Any) -> Any:
    """The transformer, told to yield arrays; one that is frozen as it is, as this would reach what is inside."""
    if thawed(given) is given and hasattr(given, "set_output"):
        given.set_output(transform="default")
    return given


def fit_map(given: Any, X: Any, y: Any, names: Array | None) -> FeatureMap:
    """A copy of the given map that is adapted to samples X, which are an array; a frozen one stays as it is.

    names : those of the features of X, or None
    """
    inner = thawed(given)
    if inner is given:
        fitted = clone(as_map(given)).fit(X, y)
        fitted._finish()
        return fitted
    if "feature_names_in_" in vars(inner):
        if names is not None and not np.array_equal(inner.feature_names_in_, names):
            raise ValueError("The feature names of the data are not those that the feature_map was fitted to.")
        inner = snapshot(inner)
        del inner.feature_names_in_  # or arrays would make it warn
    return as_map(inner)


class SameFeatures(FeatureMap):
    """The features as they are."""

    _parameter_constraints: ClassVar[dict[str, list]] = {}

    def fit(self, X: Any, y: Any = None) -> SameFeatures:
        """Remember the number of features of X (n_samples, n_features)."""
        self._n_features_out = X.shape[1]
        return self

    def transform(self, X: Any) -> Any:
        """X itself."""
        return X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = False
        return tags

    def _to_state(self, writer: Writer) -> None:
        """Nothing: there is nothing to learn."""

    def _restore(self, reader: Reader, n_features: int) -> None:
        self._n_features_out = n_features


class ForeignMap(FeatureMap):
    """A transformer of another package."""

    def __init__(self, transformer: Any):
        self.transformer = transformer

    def fit(self, X: Any, y: Any = None) -> ForeignMap:
        """Fit the transformer, of which this map holds a copy of its own."""
        self.transformer = self.transformer.fit(X, y)
        return self

    def transform(self, X: Any) -> Any:
        """What the transformer makes of X."""
        return self.transformer.transform(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        theirs = getattr(self.transformer, "__sklearn_tags__", None)
        tags.input_tags.positive_only = theirs is not None and theirs().input_tags.positive_only
        return tags

    def _to_state(self, writer: Writer) -> None:
        name = type(self.transformer).__name__
        raise ValueError(f"A {name} needs its code, which a model file cannot hold; use joblib.")
