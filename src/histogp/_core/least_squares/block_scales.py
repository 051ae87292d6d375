"""How much each block of features counts, by the evidence."""

from __future__ import annotations

import numpy as np
from scipy import optimize
from scipy.linalg import cho_solve, lapack

from histogp._core.data import Array
from histogp._core.least_squares.statistics import Quadratic
from histogp._core.solvers.factors import factor_of
from histogp._core.threads import suited_blas

# Squared scales stay within a factor of exp(12) = 160,000 of where they start.
MOST_LOG_CHANGE = 12.0
# Each takes a factorization and an inverse of all features.
MOST_EVALUATIONS = 30


def likely_scales(problem: Quadratic, blocks: Array, *, intercept: bool) -> Array:
    """Factors (B,) of the features of each block that make the targets most likely, with a penalty of one.

    The prior of the weights is then the same for all, and the best noise goes with it.

    blocks : (m,), the number of the block of each feature
    """
    counts = np.bincount(blocks)
    diagonal = problem.hessian.diagonal()
    # What is left of features that do not vary is rounding.
    squares = diagonal + problem.weight * problem.means**2
    varies = diagonal > 4 * problem.weight * np.finfo(float).eps * squares
    # To start with, all blocks explain as much as there is noise for a hundredth of the samples.
    typical = np.bincount(blocks, np.where(varies, diagonal, 0.0), minlength=len(counts))
    present = typical > 0
    start = np.where(present, np.log(100 / np.where(present, typical, 1.0)), 0.0)
    total = float(np.sum(problem.squares))
    if total == 0 or not present.any():
        return np.exp(start / 2)
    n_targets = problem.cross.shape[1]
    size = (problem.size - intercept) * n_targets

    def negative_evidence(theta: Array) -> tuple[float, Array]:
        """Minus the evidence and its gradient (B,) at logarithms (B,) of the squared scales."""
        roots = np.exp(theta / 2)[blocks]
        with suited_blas(float(len(blocks)) ** 3):
            roots = np.where(varies, roots, 0.0)
            factor = factor_of(roots[:, None] * problem.hessian * roots)
            side = roots[:, None] * problem.cross
            weights = cho_solve((factor, True), side, check_finite=False)
            inverse = lapack.dtrtri(factor, lower=1)[0]
            determined = 1 - np.einsum("ij,ij->j", inverse, inverse)
        remaining = max(total - float(np.sum(side * weights)), np.finfo(float).eps * total)
        value = size * np.log(remaining / max(size, 1.0)) / 2
        value += n_targets * float(np.log(factor.diagonal()).sum())
        data_fit_gradient = np.bincount(blocks, np.sum(weights**2, axis=1), minlength=len(counts))
        complexity_gradient = np.bincount(blocks, determined, minlength=len(counts))
        return value, (n_targets * complexity_gradient - size / remaining * data_fit_gradient) / 2

    found = optimize.minimize(
        negative_evidence,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(value - MOST_LOG_CHANGE, value + MOST_LOG_CHANGE) for value in start],
        options={"maxfun": MOST_EVALUATIONS, "gtol": 1e-4 * max(size, 1.0)},
    )
    return np.where(present, np.exp(found.x / 2), 0.0)
