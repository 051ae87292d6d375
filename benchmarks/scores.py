"""Scores of predictions that scikit-learn does not have."""

from __future__ import annotations

import numpy as np


def calibration_error(probabilities: np.ndarray, y: np.ndarray, n_bins: int = 15) -> float:
    """The distance between confidence and accuracy, averaged over the samples; labels are 0, 1 and so on."""
    return _distance(probabilities.max(axis=1), probabilities.argmax(axis=1) == y, n_bins)


def calibration_error_by_chance(probabilities: np.ndarray, n_bins: int = 15, n_draws: int = 200) -> float:
    """The mean calibration error of labels that are drawn from the probabilities, which are then right."""
    confidence, rng = probabilities.max(axis=1), np.random.default_rng(0)
    draws = (rng.random(len(confidence)) < confidence for _ in range(n_draws))
    return float(np.mean([_distance(confidence, right, n_bins) for right in draws]))


def _distance(confidence: np.ndarray, right: np.ndarray, n_bins: int) -> float:
    bins = np.minimum((n_bins * confidence).astype(int), n_bins - 1)
    return float(np.abs(np.bincount(bins, right - confidence)).sum() / len(confidence))
