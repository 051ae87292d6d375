"""Measurements behind the charts: learning curves, and quantized against exact prediction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier

from histogp.reports.evaluation import best_classes, best_microseconds

BINS = (10, 25, 50, 100, 200, 400)
# Samples whose predictions are timed and compared; enough to be steady, few enough to be quick.
MOST_SAMPLES = 5000
# Training sets of fewer samples than that are drawn several times, because which samples they hold matters.
SMALL_SET_SAMPLES = 1000
REPEATS = 5


@dataclass(frozen=True)
class Point:
    """A model of ``n`` training samples: its score, and microseconds a prediction takes."""

    n: int
    score: float
    fit_seconds: float
    exact: float
    quantized: float


@dataclass(frozen=True)
class Quantization:
    """Quantized against exact scores: the largest differences, bounds of them, and what else matters."""

    n_bins: int
    linear: float
    nearest: float
    worst_case: float
    by_weights: float
    agreement: float
    microseconds: float


def sizes_up_to(n: int, at_least: int = 2, points: int = 6) -> list[int]:
    """Halves of n, down to a few samples."""
    return sorted({max(n >> k, min(at_least, n)) for k in range(points)})


def learning_curve(model: Any, X_test: Any, y_test: np.ndarray, sizes: Sequence[int] | None = None) -> Iterator[Point]:
    """Fit again on random parts of the training samples, smaller ones inside larger ones."""
    X, y, weights = model.posterior_.training_data()
    sizes = sizes or sizes_up_to(X.shape[0])
    rng = np.random.default_rng(0)
    found = {"kernel": model.kernel_, "noise": model.noise_, "optimize": None}
    fresh = clone(model).set_params(prediction="exact", verbose=0, **found)
    if is_classifier(model) and model.class_weight != "balanced-ovr":
        fresh.set_params(class_weight=None)  # it is in the weights already
    few = X_test[:MOST_SAMPLES]
    orders = [rng.permutation(X.shape[0]) for _ in range(REPEATS)]
    for n in sizes:
        scores = []
        for order in orders if n < min(SMALL_SET_SAMPLES, X.shape[0]) else orders[:1]:
            part = order[:n]
            if is_classifier(model) and len(np.unique(y[part])) < 2:
                continue
            start = perf_counter()
            fresh.set_params(prediction="exact").fit(X[part], y[part], sample_weight=weights[part])
            seconds = perf_counter() - start
            scores.append(fresh.set_params(prediction=model.prediction).score(X_test, y_test))
        if scores:
            exact = best_microseconds(fresh.set_params(prediction="exact").predict, few)
            quantized = np.nan
            if model.posterior_.offers("tables"):
                quantized = best_microseconds(fresh.set_params(prediction="quantized").predict, few)
            yield Point(n, float(np.mean(scores)), seconds, exact, quantized)


def quantization_curve(model: Any, X: Any, bins: Sequence[int] = BINS) -> Iterator[Quantization]:
    """Compare on some thousand samples at most, with the model's own tables; its parameters stay as they are."""
    few = X[:MOST_SAMPLES]
    before = {name: getattr(model, name) for name in ("prediction", "n_bins", "interpolation")}
    scores: Callable[[Any], np.ndarray] = model.decision_function if is_classifier(model) else model.predict

    def agreement(some: np.ndarray, others: np.ndarray) -> float:
        if not is_classifier(model):
            return np.nan
        return float(np.mean(best_classes(model, some) == best_classes(model, others)))

    try:
        model.set_params(prediction="exact")
        exact = scores(few)
        for n_bins in bins:
            model.set_params(prediction="quantized", n_bins=n_bins, interpolation="nearest")
            nearest = scores(few)
            model.set_params(interpolation="linear")
            linear = scores(few)
            yield Quantization(
                n_bins,
                float(np.abs(linear - exact).max()),
                float(np.abs(nearest - exact).max()),
                float(np.max(model.quantization_error_bound("worst-case"))),
                float(np.max(model.quantization_error_bound("linear"))),
                agreement(linear, exact),
                best_microseconds(scores, few),
            )
    finally:
        model.set_params(**before)
