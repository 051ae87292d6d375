"""Stochastic Lanczos quadrature: log-determinants and traces from random probes.

With a preconditioner P and probes z of covariance P, conjugate gradients on ``A u = z`` make the Lanczos matrix T of
``P^-1/2 A P^-1/2``, and

    log det A = log det P + N E[e_1^T log(T) e_1],        tr(A^-1 B) = E[u^T B P^-1 z].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, eigh_tridiagonal

from histogp._core.data import Array
from histogp._core.solvers.iterative import is_uniform
from histogp._core.solvers.preconditioner import Preconditioner
from histogp._core.solvers.problem import Noise

# The quadrature has converged long before; more steps would only take time.
_MOST_LANCZOS_STEPS = 300


@dataclass(frozen=True, eq=False)
class Probes:
    """vectors z and duals ``P^-1 z``, (N, S); the output of each, (S,); ``log det P`` of each matrix."""

    vectors: Array
    duals: Array
    outputs: Array
    log_determinants: Array


def draw_probes(noise: Noise, preconditioner: Preconditioner | None, n_probes: int, rng: np.random.Generator) -> Probes:
    """``n_probes`` for each matrix. Without a preconditioner P is the noise, or one where that is uniform."""
    diagonals = noise.diagonals()
    n, n_matrices = diagonals.shape
    outputs = np.repeat(np.arange(n_matrices), n_probes)
    if preconditioner is None:
        signs = rng.choice([-1.0, 1.0], (n, len(outputs)))
        if is_uniform(diagonals):
            return Probes(signs, signs, outputs, np.zeros(1))
        roots = np.sqrt(diagonals)[:, outputs]
        return Probes(signs * roots, signs / roots, outputs, np.log(diagonals).sum(axis=0))
    normals = rng.standard_normal((n, len(outputs)))
    vectors = preconditioner.draw(normals, rng.standard_normal((preconditioner.rank, len(outputs))), outputs)
    return Probes(vectors, preconditioner.apply(vectors, outputs), outputs, preconditioner.log_determinants())


def log_forms(steps: Array, ratios: Array) -> Array:
    """``e_1^T log(T) e_1`` of each column from the coefficients of conjugate gradients; see `Solution`.

    NaN where there are none.
    """
    return np.array([_log_form(steps[:, column], ratios[:, column]) for column in range(steps.shape[1])])


def _log_form(steps: Array, ratios: Array) -> float:
    """``e_1^T log(T) e_1`` of one column, (n,) steps and (n - 1,) ratios, of which those before the first NaN count."""
    usable = np.isfinite(steps) & (steps > 0)
    n = min(len(steps) if usable.all() else int(usable.argmin()), _MOST_LANCZOS_STEPS)
    if n == 0:
        return np.nan  # the matrix is not positive in floating point
    steps, ratios = steps[:n], ratios[: n - 1]
    diagonal = 1 / steps
    diagonal[1:] += ratios / steps[:-1]
    beside = np.sqrt(ratios) / steps[:-1]
    try:
        values, vectors = eigh_tridiagonal(diagonal, beside)
    except LinAlgError:  # stemr, the quick one, gave up on a matrix of the tests with SciPy 1.14.1
        values, vectors = eigh_tridiagonal(diagonal, beside, lapack_driver="stev")
    return float(vectors[0] ** 2 @ np.log(np.maximum(values, np.finfo(float).tiny)))
