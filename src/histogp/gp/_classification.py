"""How a classifier learns while classes come and go."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_consistent_length
from sklearn.utils.multiclass import check_classification_targets

from histogp._classes import (
    balanced_noise,
    carried_over,
    class_weights,
    codes_in,
    declared,
    is_ignored,
    merged,
    one_against_rest,
)
from histogp._core.data import Array
from histogp._core.solvers.problem import Noise
from histogp._estimator import validate_features, validate_weights
from histogp.gp._examples import Examples
from histogp.gp._learning import LearningMixin, Problem


class ClassificationMixin(LearningMixin):
    """The ``y`` of the examples are numbers of the classes in ``classes_``."""

    class_weight: Any
    classes_: Array

    def _begin(self, X: Any, y: Array, classes: Array, sample_weight: Any, with_callbacks: bool) -> None:
        """Learn from scratch; ``classes`` has at least those of y."""
        weights = self._weights(X, y, sample_weight)
        kept = weights > 0
        if not kept.any():
            raise ValueError("class_weight and sample_weight together leave no example with a positive weight.")
        codes = codes_in(classes, y)
        examples = Examples.none(codes).extended(codes, weights)
        if not kept.all():
            X, y = X[kept], y[kept]
        self._fit(X, y, examples, {"classes_": classes}, with_callbacks)

    def _learn_further(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> None:
        first = not hasattr(self, "_posterior")
        X, y = validate_features(self, X, reset=first, y=y)
        check_classification_targets(y)
        everything = y if classes is None else merged(declared(classes), y)
        if first:
            self._begin(X, y, np.unique(everything), sample_weight, with_callbacks=False)
            return
        self._posterior_with_training()
        everything = merged(self.classes_, everything)
        weights = self._weights(X, y, sample_weight)
        examples = self._examples.with_labels(codes_in(everything, self.classes_)[self._examples.y])
        examples = examples.extended(codes_in(everything, y), weights)
        kept = weights > 0
        self._extend(X if kept.all() else X[kept], examples, {"classes_": everything})

    def _relabel(self, ids: Array, y: Array) -> None:
        index = self._rows_of(ids)
        check_consistent_length(index, y)
        check_classification_targets(y)
        everything = merged(self.classes_, y)
        codes = codes_in(everything, self.classes_)[self._examples.y]
        codes[index] = codes_in(everything, y)
        gone = index[is_ignored(self.class_weight, y)]
        examples = self._examples.with_labels(codes)
        self._change(*self._still_there(examples.without(gone), everything), gone, len(index))

    def _outputs(self, examples: Examples) -> tuple[Examples, dict[str, Any]]:
        return self._still_there(examples, self.classes_)

    def _still_there(self, examples: Examples, classes: Array) -> tuple[Examples, dict[str, Any]]:
        """Leave classes out that have lost their last example against the present ones."""
        had = codes_in(classes, self.classes_[np.unique(self._examples.y)])
        left = np.setdiff1d(np.arange(len(classes)), np.setdiff1d(had, examples.y))
        return examples.with_labels(np.searchsorted(left, examples.y)), {"classes_": classes[left]}

    def _problem(self, examples: Examples, noise: float, outputs: dict[str, Any]) -> Problem:
        classes, codes, weights = outputs["classes_"], examples.y, examples.weights
        if self.class_weight not in (None, "balanced-ovr"):
            weights = weights * class_weights(self.class_weight, classes, codes, weights)[codes]
            if weights.min() == 0:
                raise ValueError("class_weight is zero for examples that the model has learned: fit it again.")
        targets = one_against_rest(codes, len(classes))
        if self.class_weight == "balanced-ovr":
            return Problem(targets, balanced_noise(noise, codes, weights, len(classes)), outputs)
        return Problem(targets, Noise(noise / weights), outputs)

    def _start(self, alpha: Array, problem: Problem) -> Array:
        return carried_over(alpha, self.classes_, problem.attributes["classes_"], not problem.noise.is_per_problem)

    def _weights(self, X: Any, y: Array, sample_weight: Any) -> Array:
        """The weights of examples as they were given, or zero where that of their class is."""
        return np.where(is_ignored(self.class_weight, y), 0.0, validate_weights(sample_weight, X))
