"""Probabilities of classes: temperatures fitted to leave-one-out predictions, and Dirichlet regression."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from histogp._core.data import Array, Rows
from histogp._core.likelihood import exact_likelihood
from histogp._core.operators.contract import KernelOperator
from histogp._core.predictors import Table
from histogp._core.solvers.factors import is_primal, is_small
from histogp._core.solvers.problem import Noise, SolverOptions
from histogp._core.solvers.system import System, is_direct, solve
from histogp._core.threads import single_threaded_blas
from histogp._core.variance.calibrated import FEWEST
from histogp._core.variance.methods import VarianceOptions, Variances

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


# The concentration of classes that an example does not have (alpha_epsilon in the paper).
CONCENTRATION = 0.01
# The scale of the kernel is the one of these, relative to its mean variance, that makes a sample most likely.
SCALES = 4.0 ** np.arange(-1, 7)
SAMPLE = 500
MOST_CLASSES = 10
# Draws for the expectation of a softmax, and numbers that are held at a time.
DRAWS = 128
NUMBERS = 2**20


@dataclass(frozen=True, eq=False)
class Dirichlet:
    """A Gaussian process for each class, whose exponentials are Gamma variables, approximately.

    A label is one observation of a Dirichlet distribution: a Gamma variable a class with the shape ``1 + c`` for the
    class of the example and ``c`` for the others. Its logarithm is nearly Gaussian with the variance
    ``log(1 / shape + 1)``, which becomes noise, and the mean ``log(shape) - variance / 2``.
    """

    table: Table
    centre: Array
    variances: Variances

    @classmethod
    def build(
        cls, operator: KernelOperator, codes: Array, n_classes: int, weights: Array, solver: SolverOptions, seed: int
    ) -> Dirichlet:
        """From the numbers of the classes (N,) and the weights of the examples (N,)."""
        shapes = np.where(codes[:, None] == np.arange(n_classes), 1.0, 0.0) + CONCENTRATION
        spread = np.log(1 / shapes + 1)
        targets = np.log(shapes) - spread / 2
        centre = np.average(targets, axis=0, weights=weights)
        targets -= centre
        positive, negative = (np.full(n_classes, np.log(1 / s + 1)) for s in (1 + CONCENTRATION, CONCENTRATION))
        noise = Noise(1 / weights, codes, positive, negative)
        rng = np.random.default_rng(seed)
        operator = _scaled(operator, noise, targets, rng)
        alpha = solve(operator, noise, targets, solver, rng).values
        return cls(operator.table(alpha), centre, Variances(operator, noise, seed))

    def probabilities(self, rows: Rows, solver: SolverOptions) -> Array:
        """The expectation of a softmax, (n, n_classes)."""
        means = self.table.evaluate(rows, solver.n_threads) + self.centre
        options = VarianceOptions()
        if self.variances.operator.n_rows < FEWEST:
            spread = self.variances.per_problem(rows, options, solver)
        else:
            spread = self.variances.latent(rows, "calibrated", options, solver)[:, None]
        draws = np.random.default_rng(self.variances.seed).standard_normal((DRAWS // 2, 1, means.shape[1]))
        draws = np.concatenate([draws, -draws])
        out = np.empty_like(means)
        n_rows = max(1, NUMBERS // draws.size)
        for begin in range(0, len(means), n_rows):
            some = slice(begin, begin + n_rows)
            out[some] = softmax(means[some] + np.sqrt(spread[some]) * draws, axis=2).mean(axis=0)
        return out / out.sum(axis=1, keepdims=True)


def _scaled(operator: KernelOperator, noise: Noise, targets: Array, rng: np.random.Generator) -> KernelOperator:
    """The operator with the scale that suits the noise, which is fixed here."""
    n = operator.n_rows
    rows = np.sort(rng.choice(n, min(n, SAMPLE), replace=False))
    sample = operator.remove(np.setdiff1d(np.arange(n), rows))
    unit = float(operator.diagonal().mean()) or 1.0
    kernels = [operator.kernel.scaled(scale / unit) for scale in SCALES]
    classes = np.sort(rng.choice(targets.shape[1], min(targets.shape[1], MOST_CLASSES), replace=False))
    diagonals = noise.subset(rows).diagonals()[:, classes]
    with single_threaded_blas():
        values = [
            sum(
                exact_likelihood(sample.with_kernel(kernel), Noise(diagonal), targets[rows, c : c + 1]).value
                for diagonal, c in zip(diagonals.T, classes, strict=True)
            )
            for kernel in kernels
        ]
    return operator.with_kernel(kernels[int(np.argmax(values))])
