"""Probabilities of classes from scores, calibrated on leave-one-out predictions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from histogp.posterior.calibrated import FEWEST
from histogp.posterior.variance import Variances
from histogp.solvers.cholesky import is_small
from histogp.solvers.options import SolverOptions
from histogp.solvers.primal import is_primal
from histogp.solvers.system import System, is_direct
from histogp.storage import Array

# Examples that are left out, one at a time, where that is done exactly.
MOST_EXAMPLES = 1000
# Of systems without factors.
ITERATIVE_TOL = 1e-4
# Temperatures that make sense, as logarithms, for scores between -1 and 1.
NEGLIGIBLE = 1e-9
LOWEST, HIGHEST = np.log(1e-2), np.log(1e3)


def leave_one_out(
    variances: Variances, targets: Array, alpha: Array, solver: SolverOptions
) -> tuple[Array, Array, Array]:
    """The numbers of some training rows, (n,), and what would be predicted for them if they were not there.

    That is the mean ``y_i - alpha_i / [A^-1]_ii``, (n, M), and the latent variance ``1 / [A^-1]_ii - noise_i``, (n, M)
    or (n, 1). Exact up to about 2,000 rows; above that the calibrated variance, whose tables have not seen these rows,
    stands for the second.
    """
    operator, noise = variances.operator, variances.noise
    n, n_problems = targets.shape
    n_matrices = n_problems if noise.is_per_problem else 1
    is_few = is_primal(operator) or is_small(n, n_matrices) or n < FEWEST
    if is_few or operator.rank is not None:
        index = np.arange(n)
        most = MOST_EXAMPLES if is_few else FEWEST
        if n > most:
            index = np.sort(np.random.default_rng(variances.seed).choice(n, most, replace=False))
        keeps_solver = is_direct(operator, noise, solver) or not is_few
        system = variances.systems(solver if keeps_solver else replace(solver, solver="cholesky"))
        latent = 1 / _inverse_diagonals(system, index) - noise.diagonals()[index]
    else:
        calibrated = variances.calibrated(solver)
        index, latent = calibrated.left_out, calibrated.left_out_variances[:, None]
    return index, targets[index] - alpha[index] * (latent + noise.diagonals()[index]), np.maximum(latent, 0.0)


def _inverse_diagonals(system: System, index: Array) -> Array:
    """``[A^-1]_ii`` for the rows ``index``, (n, M) or (n, 1)."""
    if system.primal:
        return np.stack([factor.inverse_diagonal(index) for factor in system.primal], axis=1)
    columns = np.arange(len(index))
    sides = np.zeros((system.operator.n_rows, len(index)))
    sides[index, columns] = 1.0
    out = np.empty((len(index), system.n_problems))
    for problem in range(system.n_problems):
        solution = system.solve(sides, 0.0 if system.factors else ITERATIVE_TOL, problems=np.full(len(index), problem))
        out[:, problem] = solution.values[index, columns]
    return out


def codes_of(scores: Array) -> Array:
    """The number of the winning class, (n,), for scores or targets (n,) or (n, M); one score is that of the second."""
    single = scores.ndim == 1 or scores.shape[1] == 1
    return (scores.reshape(-1) > 0).astype(int) if single else scores.argmax(axis=1)


def fit_temperature(means: Array, codes: Array, weights: Array) -> float:
    """The factor on the scores with the largest likelihood of the labels under `log_probabilities`.

    means (n, M); codes (n,), the number of the class of each; weights (n,). Labels count as wrong with a probability of
    one in n + 2, so that scores without an error give a finite factor.
    """
    scores = _of_classes(means)
    if np.abs(scores).max(initial=0.0) < NEGLIGIBLE:  # nothing to learn from
        return 1.0
    n_classes = scores.shape[1]
    doubt = 1 / (len(codes) + 2)
    wanted = np.full(scores.shape, doubt / (n_classes - 1))
    wanted[np.arange(len(codes)), codes] = 1 - doubt
    wanted *= (weights / weights.mean())[:, None]

    def cost(logarithm: float) -> float:
        return -float((wanted * log_softmax(np.exp(logarithm) * scores, axis=1)).sum())

    return float(np.exp(minimize_scalar(cost, bounds=(LOWEST, HIGHEST), method="bounded").x))


def log_probabilities(scores: Array, temperature: float) -> Array:
    """Of a softmax of the scores (n, M) times the factor, (n, n_classes); a single score is the second class's."""
    return log_softmax(temperature * _of_classes(scores), axis=1)


def _of_classes(scores: Array) -> Array:
    return np.hstack([-scores, scores]) if scores.shape[1] == 1 else scores
