"""Probabilities by regression on the logarithms of Dirichlet variables (Milios et al., 2018)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from histogp.blas import single_threaded_blas
from histogp.operators.base import KernelOperator, Table
from histogp.posterior.calibrated import FEWEST
from histogp.posterior.likelihood import exact_likelihood
from histogp.posterior.variance import VarianceOptions, Variances
from histogp.solvers.noise import Noise
from histogp.solvers.options import SolverOptions
from histogp.solvers.system import solve
from histogp.storage import Array, Rows

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
    kernels = [operator.kernel.scaled(scale / unit, operator.n_columns) for scale in SCALES]
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
