"""Scores of predictions that scikit-learn does not have."""

from __future__ import annotations

import numpy as np


def calibration_error(probabilities: np.ndarray, y: np.ndarray, n_bins: int = 15) -> float:
    """The distance between confidence and accuracy, averaged over the samples; labels are 0, 1 and so on."""
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == y
    bins = np.minimum((n_bins * confidence).astype(int), n_bins - 1)
    return float(np.abs(np.bincount(bins, right - confidence)).sum() / len(y))
