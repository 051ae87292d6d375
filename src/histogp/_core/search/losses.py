"""Losses of rows, or of their samples, that are left out of training: functions of the solution and of the inverse.

With ``A = K + diag(noise)`` of rows, ``alpha = A^-1 y`` and ``c = diag(A^-1)``, a row that was left out would have the
mean ``y - alpha / c`` and the variance ``1 / c``. Of a row with several samples one may be left out alone. With its
target z, its share h of the row's precision ``1 / noise``, ``n = h (z - y) / noise + h alpha`` and
``d = h (1 - h) / noise + h^2 c`` it would have the mean ``z - n / d`` and the variance ``1 / d``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from histogp._core.data import Array
from histogp._core.probability import Link
from histogp._core.repeats import come_again
from histogp._core.solvers.problem import Noise


@dataclass(frozen=True, eq=False)
class LossTerms:
    """A loss of left-out rows as a function of alpha (n, M) and c (n, M).

    by_alpha, by_inverse : derivatives for these, (n, M)
    by_link : for the logarithm of the link's temperature, and its bend, (2,)
    by_noise : for the logarithm of the noise, as far as the loss depends on it beside alpha and c
    """

    value: float
    by_alpha: Array
    by_inverse: Array
    by_link: Array
    by_noise: float = 0.0


def class_loss(targets: Array, alpha: Array, inverse: Array, wanted: Array, link: Link) -> LossTerms:
    """Minus the logarithms of the probabilities of classes; ``wanted`` (n, n_classes) is what `wanted_labels` makes."""
    scores = targets - alpha / inverse
    value, by_score, by_link = link.loss(scores, wanted)
    return LossTerms(value, -by_score / inverse, by_score * alpha / inverse**2, by_link)


def density_loss(alpha: Array, inverse: Array, weights: Array, scatter: Array, noise: Noise) -> LossTerms:
    """Minus the logarithms of the densities of the targets of samples, given what rows have of them.

    weights : (n,), how often each row counts; scatter : (n, M), as `Data` has it; noise : of the rows
    """
    each, errors = weights[:, None], alpha / inverse
    # A sample has the noise of its row times the weight of that.
    beyond = (each - 1) * noise.diagonals()
    variances = 1 / inverse + beyond
    squares = (scatter + each * errors**2) / variances
    value = float(np.sum(each * np.log(2 * np.pi * variances) + squares) / 2)
    by_variance = (each - squares) / variances / 2
    by_error = each * errors / variances
    by_inverse = -(by_variance / inverse + by_error * errors) / inverse
    return LossTerms(value, by_error / inverse, by_inverse, np.zeros(2), float(np.sum(by_variance * beyond)))


def wanted_labels(targets: Array, weights: Array) -> Array:
    """How often rows have each class, (n, n_classes), where labels count as wrong with a probability of 1 / (n + 2).

    targets : (n, M), between -1 for no sample of a row and 1 for all of them; weights : (n,), how often rows count
    """
    counts = label_counts(targets, weights)
    doubt = 1 / (len(targets) + 2)
    return (1 - doubt) * counts + doubt * (weights[:, None] - counts) / (counts.shape[1] - 1)


def label_counts(targets: Array, weights: Array) -> Array:
    """How often rows have each class, (n, n_classes); targets and weights as for `wanted_labels`."""
    positive = (1 + targets) / 2
    return weights[:, None] * (np.hstack([1 - positive, positive]) if targets.shape[1] == 1 else positive)


@dataclass(frozen=True, eq=False)
class RowLoss:
    """What the loss of rows needs to know beside alpha and c.

    targets : (n, M); weights : (n,), how often each row counts; scatter : (n, M), as `Data` has it
    is_classification : whether targets are labels
    one_by_one : whether samples of a row are left out one by one, as those that come again, and not together, as copies
    """

    targets: Array
    weights: Array
    scatter: Array
    is_classification: bool
    one_by_one: bool = False

    def for_repeats(self, link: Link, scores: Array) -> RowLoss:
        """The loss that suits equal samples: copies, or measurements that come again.

        scores : (n, M), of rows without any of their samples, from which the link predicts classes
        """
        if self.weights.max(initial=0.0) <= 1:
            return self
        if not self.is_classification:
            # Real values of measurements differ; if they do not, one is a copy of the other.
            differ = np.mean(self.scatter[self.weights > 1].max(axis=1) > 0)
            return replace(self, one_by_one=come_again(self.weights[:, None]) and bool(differ > 0.5))
        predicted = np.exp(link.log_probabilities(scores))
        return replace(self, one_by_one=come_again(label_counts(self.targets, self.weights), predicted))

    def terms(self, alpha: Array, inverse: Array, noise: Noise, link: Link) -> LossTerms:
        """The loss and its derivatives; noise : of the rows."""
        if not self.is_classification:
            loss = self._single_density if self.one_by_one else density_loss
            return loss(alpha, inverse, self.weights, self.scatter, noise)
        if self.one_by_one:
            return self._single_class(alpha, inverse, noise, link)
        return class_loss(self.targets, alpha, inverse, self.wanted, link)

    def scores(self, alpha: Array, inverse: Array, noise: Noise) -> tuple[Array, Array]:
        """Scores of left-out classes, (k, M), and how often each class is wanted of them, (k, n_classes)."""
        if not self.one_by_one:
            return self.targets - alpha / inverse, self.wanted
        labels, wanted = self._units[1:]
        upper, lower = self._left_out(alpha, inverse, noise)
        return labels - upper / lower, wanted

    @cached_property
    def wanted(self) -> Array:
        """How often rows have each class, (n, n_classes)."""
        return wanted_labels(self.targets, self.weights)

    @cached_property
    def _share(self) -> Array:
        """The part of a row that one of its samples is, (n, 1): of a weight below one all of it."""
        return 1 / np.maximum(self.weights, 1.0)[:, None]

    @cached_property
    def _units(self) -> tuple[Array, Array, Array]:
        """Samples that do not differ as one: their rows (k,), targets (k, M), and wanted classes (k, n_classes)."""
        counts = label_counts(self.targets, self.weights)
        rows, codes = np.nonzero(counts > 1e-9 * self.weights[:, None])
        n_classes = counts.shape[1]
        chosen = codes[:, None] == np.arange(n_classes)
        labels = np.where(chosen, 1.0, -1.0)
        doubt = 1 / (max(len(self.targets), float(self.weights.sum())) + 2)
        wanted = counts[rows, codes][:, None] * np.where(chosen, 1 - doubt, doubt / (n_classes - 1))
        return rows, labels[:, 1:] if self.targets.shape[1] == 1 else labels, wanted

    def _left_out(self, alpha: Array, inverse: Array, noise: Noise) -> tuple[Array, Array]:
        """The numbers n and d of the module's docstring, for samples that do not differ as one, (k, M)."""
        rows, labels, _ = self._units
        share = self._share[rows]
        precision = share / noise.diagonals()[rows]
        upper = precision * (labels - self.targets[rows]) + share * alpha[rows]
        return upper, precision * (1 - share) + share**2 * inverse[rows]

    def _single_class(self, alpha: Array, inverse: Array, noise: Noise, link: Link) -> LossTerms:
        """Minus the logarithms of the probabilities of classes of samples that are left out one by one."""
        rows, labels, wanted = self._units
        upper, lower = self._left_out(alpha, inverse, noise)
        value, by_score, by_link = link.loss(labels - upper / lower, wanted)
        share = self._share[rows]
        precision = share / noise.diagonals()[rows]
        by_alpha, by_inverse = np.zeros_like(alpha), np.zeros_like(alpha)
        np.add.at(by_alpha, rows, -by_score * share / lower)
        np.add.at(by_inverse, rows, by_score * upper * share**2 / lower**2)
        by_precision = -(labels - self.targets[rows]) / lower + upper * (1 - share) / lower**2
        return LossTerms(value, by_alpha, by_inverse, by_link, -float(np.sum(by_score * by_precision * precision)))

    def _single_density(self, alpha: Array, inverse: Array, weights: Array, scatter: Array, noise: Noise) -> LossTerms:
        """Minus the logarithms of the densities of targets of samples that are left out one by one."""
        each, share = weights[:, None], self._share
        precision = share / noise.diagonals()
        lower = precision * (1 - share) + share**2 * inverse
        squares = precision**2 * scatter + each * (share * alpha) ** 2
        value = float(np.sum(each * np.log(2 * np.pi / lower) + squares / lower) / 2)
        by_lower = -(each + squares / lower) / lower / 2
        by_precision = precision * scatter / lower + by_lower * (1 - share)
        return LossTerms(
            value,
            each * share**2 * alpha / lower,
            by_lower * share**2,
            np.zeros(2),
            -float(np.sum(by_precision * precision)),
        )
