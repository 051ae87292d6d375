"""Whether equal samples are repeated measurements, or copies, and what probabilities are fitted to accordingly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from histogp._core.data import Array

Fitted = TypeVar("Fitted")
# Equal samples are repeated measurements if their labels differ at least so many times as often as is predicted.
REAL_DISAGREEMENT = 0.5


@dataclass(frozen=True, eq=False)
class LabeledScores:
    """Scores of left-out samples with their labels.

    scores : (n, M); codes : (n,), the numbers of their classes
    weights : (n,), how often each counts; units : (n,), the weight of one of them that is left out
    row_of : (n,), a number that equal samples share
    """

    scores: Array
    codes: Array
    weights: Array
    units: Array
    row_of: Array

    def merged(self) -> LabeledScores:
        """The scores with samples that do not differ in row, class and unit as one, of all their weight."""
        keys = np.column_stack([self.row_of, self.codes, self.units])
        _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        if len(first) == len(keys):
            return self
        weights = np.bincount(group.reshape(-1), self.weights)
        return LabeledScores(self.scores[first], self.codes[first], weights, self.units[first], self.row_of[first])


def fit_to_left_out(
    fit: Callable[[Array, Array, Array], Fitted],
    log_probabilities: Callable[[Fitted, Array], Array],
    whole_rows: LabeledScores,
    single_samples: Callable[[], LabeledScores],
) -> Fitted:
    """What ``fit(scores, codes, weights)`` makes of left-out scores, in the reading that suits equal samples.

    Copies are left out together: a score that has seen one of them is too good. Repeated measurements are left out one
    by one, because such scores are what new measurements will have. They are repeated measurements if labels of equal
    samples differ at least half as often as scores without any of them predict.

    Parameters
    ----------
    log_probabilities : of classes, (n, n_classes), by what was fitted and scores (n, M)
    whole_rows : scores of samples that were left out together with all that are equal
    single_samples : makes the scores of samples that were left out one by one
    """
    rows = whole_rows.merged()
    found = fit(rows.scores, rows.codes, rows.weights)
    predicted = np.exp(log_probabilities(found, rows.scores))
    if not are_repeated_measurements(rows, predicted):
        return found
    samples = single_samples().merged()
    return fit(samples.scores, samples.codes, samples.weights)


def are_repeated_measurements(rows: LabeledScores, predicted: Array) -> bool:
    """Whether pairs of equal samples have different labels at least half as often as ``predicted`` (n, n_classes)."""
    _, first, row = np.unique(rows.row_of, return_index=True, return_inverse=True)
    of_class = np.zeros((len(first), predicted.shape[1]))
    np.add.at(of_class, (row, rows.codes), rows.weights)
    total = of_class.sum(axis=1)
    different = total**2 - (of_class**2).sum(axis=1)
    pairs = total**2 - np.bincount(row, rows.weights * rows.units)
    expected = pairs * (1 - (predicted[first] ** 2).sum(axis=1))
    return bool(different.sum() > 0 and different.sum() >= REAL_DISAGREEMENT * expected.sum())
