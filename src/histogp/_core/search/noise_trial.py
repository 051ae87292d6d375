"""Whether more or less noise would predict training samples better, where a search has seen only some of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from histogp._core.data import Array
from histogp._core.probability import START_LINK, fit_link_to
from histogp._core.search.losses import LossTerms, RowLoss
from histogp._core.solvers import direct_options
from histogp._core.solvers.problem import Noise, SolverOptions

# Rows that are left out, one at a time.
LEFT_OUT_ROWS = 500
# The noise that is tried, as a factor or quotient of the present one, and what that must promise: units of the loss,
# summed over the rows that are left out.
TRIED_FACTOR = 3.0
LEAST_PROMISE = 1.0


def left_out_rows(hashes: Array) -> Array:
    """Numbers of some rows by their hashes (n_rows,), ascending: the same rows, whatever their order is."""
    return np.sort(np.argsort(hashes)[:LEFT_OUT_ROWS])


def promising_factor(
    posterior: Any, index: Array, options: SolverOptions, *, is_classification: bool
) -> tuple[float, float]:
    """A factor of the noise under which the loss of left-out rows may be smaller, or one; and the loss as it is.

    One where there are no factors to solve for many rows, or a noise for each output.

    index : numbers of the rows that are left out
    """
    if posterior.noise.n_matrices > 1 or direct_options(posterior.operator, posterior.noise, options) is None:
        return 1.0, np.inf
    value, slope = left_out_loss(posterior, index, options, is_classification=is_classification)
    if abs(slope) * np.log(TRIED_FACTOR) < LEAST_PROMISE:
        return 1.0, value
    return (TRIED_FACTOR if slope < 0 else 1 / TRIED_FACTOR), value


def left_out_loss(
    posterior: Any, index: Array, options: SolverOptions, *, is_classification: bool
) -> tuple[float, float]:
    """The loss of rows that are left out one by one, summed, and its derivative for the logarithm of the noise."""
    direct = direct_options(posterior.operator, posterior.noise, options) or options
    columns = posterior.systems(direct).inverse_columns(index)
    alpha, noise = posterior.alpha, posterior.noise.sample
    inverse = np.broadcast_to(columns[index, np.arange(len(index))][:, None], (len(index), alpha.shape[1]))
    found = _terms(posterior, index, alpha[index], inverse, is_classification)
    # With A = K + diag(noise): d alpha = -A^-1 (noise alpha), d c = -(A^-1)^2 noise.
    by_alpha = -(columns.T @ (noise[:, None] * alpha))
    by_inverse = -np.einsum("ij,ij,i->j", columns, columns, noise)
    slope = np.sum(found.by_alpha * by_alpha) + found.by_inverse.sum(axis=1) @ by_inverse + found.by_noise
    return found.value, float(slope)


def _terms(posterior: Any, index: Array, alpha: Array, inverse: Array, is_classification: bool) -> LossTerms:
    given = posterior.given.searched
    targets, weights, scatter = given.row_targets[index], given.row_weights[index], given.row_scatter
    squares = np.zeros_like(targets) if scatter is None else scatter[index]
    loss, noise = RowLoss(targets, weights, squares, is_classification), Noise(posterior.noise.sample[index])
    link = fit_link_to(*loss.scores(alpha, inverse, noise)) if is_classification else START_LINK
    suited = loss.for_repeats(link, targets - alpha / inverse)
    if is_classification and suited.one_by_one:
        link = fit_link_to(*suited.scores(alpha, inverse, noise))
    return suited.terms(alpha, inverse, noise, link)
