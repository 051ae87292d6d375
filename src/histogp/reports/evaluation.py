"""How well a model predicts samples whose labels are known, and how fast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    mean_absolute_error,
    r2_score,
    root_mean_squared_error,
)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Predictions for n samples with their labels, and scores of them by name.

    margins : (n,) for a classifier, the gap between the two best scores: how sure it is; else None.
    """

    labels: np.ndarray
    predictions: np.ndarray
    margins: np.ndarray | None
    scores: dict[str, float]
    microseconds: float

    @property
    def n_samples(self) -> int:
        return len(self.labels)


def evaluate(model: Any, X: Any, y: Any, top_k: int | None = None) -> Evaluation:
    """Predict ``X`` and compare with ``y``; the time is that of one sample.

    top_k : also score how often the label is among that many best ones
    """
    y = np.asarray(y)
    model.predict(X[:2])  # tables are made at the first prediction
    start = perf_counter()
    if not is_classifier(model):
        predictions = model.predict(X).reshape(y.shape)
        microseconds = 1e6 * (perf_counter() - start) / len(y)
        scores = {
            "R2": r2_score(y, predictions) if len(y) > 1 else np.nan,
            "mean absolute error": mean_absolute_error(y, predictions),
            "root mean squared error": root_mean_squared_error(y, predictions),
        }
        return Evaluation(y, predictions, None, scores, microseconds)
    decision = model.decision_function(X)
    microseconds = 1e6 * (perf_counter() - start) / len(y)
    if decision.ndim == 1:
        margins = 2 * np.abs(decision)
    else:
        best_two = np.partition(decision, -2, axis=1)[:, -2:]
        margins = best_two[:, 1] - best_two[:, 0]
    predictions = best_classes(model, decision)
    scores = {"accuracy": accuracy_score(y, predictions)}
    if np.isin(model.classes_, y).all() and np.isin(y, model.classes_).all():
        scores["balanced accuracy"] = balanced_accuracy_score(y, predictions)
    if top_k is not None:
        best = np.argsort(-_per_class(decision), axis=1, kind="stable")[:, :top_k]
        scores[f"top-{top_k} accuracy"] = float(np.mean(np.any(model.classes_[best] == y[:, None], axis=1)))
    return Evaluation(y, predictions, margins, scores, microseconds)


def best_classes(model: Any, scores: np.ndarray) -> np.ndarray:
    """Labels for scores of `decision_function`: those of `predict`, which would compute the scores again."""
    if len(model.classes_) == 1:
        return np.repeat(model.classes_, len(scores))
    return model.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]


def _per_class(decision: np.ndarray) -> np.ndarray:
    """Scores of all classes, also of two."""
    return decision if decision.ndim == 2 else np.column_stack([-decision, decision])


def best_microseconds(predict: Callable[[Any], Any], X: Any, repeats: int = 3) -> float:
    """Time of one sample, the best of some runs after one that prepares."""
    predict(X)
    durations = []
    for _ in range(repeats):
        start = perf_counter()
        predict(X)
        durations.append(perf_counter() - start)
    return 1e6 * min(durations) / X.shape[0]
