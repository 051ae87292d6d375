"""Whether equal samples are repeated measurements, or copies, and what probabilities are fitted to accordingly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from histogp._core.data import Array

Fitted = TypeVar("Fitted")
# Equal samples are repeated measurements if their labels differ at least so many times as often as is predicted, or if
# at least this part of the rows, in every class, has one sample: then equal ones are no copies, but come again.
REAL_DISAGREEMENT = 0.5
SINGLE_PART = 0.5
# What a number of samples may be off by, relatively, because of rounding.
WHOLE_NUMBER = 1e-6
# Samples of a row from which on there are several; weights need not be whole numbers.
SEVERAL = 2 - 1e-9
# Rows below which predictions without one of them say little, and what rounding may make of equal labels.
FEW_ROWS, SAME_LABELS = 10, 1e-9


@dataclass(frozen=True, eq=False)
class LabeledScores:
    """Scores of left-out samples with their labels.

    scores : (n, M); codes : (n,), the numbers of their classes
    weights : (n,), how often each counts; counts : (n,), the same without weights of classes, in units of one sample
    row_of : (n,), a number that equal samples share
    """

    scores: Array
    codes: Array
    weights: Array
    counts: Array
    row_of: Array

    def merged(self) -> LabeledScores:
        """The scores with samples that differ neither in row and class nor in what is left out of them as one."""
        keys = np.column_stack([self.row_of, self.codes, np.minimum(self.counts, 1.0)])
        _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        if len(first) == len(keys):
            return self
        weights, counts = (np.bincount(group.reshape(-1), one) for one in (self.weights, self.counts))
        return LabeledScores(self.scores[first], self.codes[first], weights, counts, self.row_of[first])


def fit_to_left_out(
    fit: Callable[[Array, Array, Array, float], Fitted],
    log_probabilities: Callable[[Fitted, Array], Array],
    whole_rows: LabeledScores,
    single_samples: Callable[[], LabeledScores] | None,
) -> Fitted:
    """What ``fit(scores, codes, weights, n)`` makes of left-out scores, in the reading that suits equal samples.

    Copies are left out together: a score that has seen one of them is too good, and weights are divided by the mean
    weight of a row, so that all count as one. Repeated measurements are left out one by one, because such scores are
    what new measurements will have, and all of them count; n is how many do. `come_again` tells them apart.

    Parameters
    ----------
    log_probabilities : of classes, (n, n_classes), by what was fitted and scores (n, M)
    whole_rows : scores of samples that were left out together with all that are equal
    single_samples : makes the scores of samples that were left out one by one; None if none may be
    """
    rows = whole_rows.merged()
    n_rows = len(np.unique(rows.row_of))
    found = fit(rows.scores, rows.codes, rows.weights * n_rows / rows.weights.sum(), len(rows.codes))
    if single_samples is None:
        return found
    predicted = np.exp(log_probabilities(found, rows.scores))
    if not are_repeated_measurements(rows, predicted):
        return found
    samples = single_samples().merged()
    n = max(len(samples.codes), float(samples.counts.sum()))
    return fit(samples.scores, samples.codes, samples.weights * samples.counts.sum() / samples.weights.sum(), n)


def are_repeated_measurements(rows: LabeledScores, predicted: Array) -> bool:
    """Whether equal samples with left-out scores come again, see `come_again`, given probabilities (n, n_classes)."""
    _, first, row = np.unique(rows.row_of, return_index=True, return_inverse=True)
    counts = np.zeros((len(first), predicted.shape[1]))
    np.add.at(counts, (row, rows.codes), rows.counts)
    return come_again(counts, predicted[first])


def come_again(counts: Array, predicted: Array | None = None) -> bool:
    """Whether equal samples are repeated measurements, such as new samples will be, too, and no copies of one sample.

    They are if at least half of the rows of every class have one sample; or if labels of equal samples differ at least
    half as often as is predicted, or at all where there are few rows to predict from. Never if counts are weights that
    are no numbers of samples: these say how much a sample matters, not that it comes again.

    counts : (n, n_classes), how often rows have each class, or (n, 1) for values
    predicted : (n, n_classes), probabilities of the classes of rows without any of their samples
    """
    total, codes = counts.sum(axis=1), counts.argmax(axis=1)
    if total.max(initial=0.0) < SEVERAL or np.any(np.abs(total - np.rint(total)) > WHOLE_NUMBER * total):
        return False
    if np.all(np.bincount(codes, total < SEVERAL) >= SINGLE_PART * np.bincount(codes)):
        return True
    if predicted is None:
        return False
    different = total**2 - (counts**2).sum(axis=1)
    if len(counts) < FEW_ROWS:
        return bool(different.sum() > SAME_LABELS * np.sum(total**2))
    expected = np.maximum(total**2 - total, 0.0) * (1 - (predicted**2).sum(axis=1))
    return bool(different.sum() > 0 and different.sum() >= REAL_DISAGREEMENT * expected.sum())
