"""The direct solver, for few rows."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from histogp.operators.base import KernelOperator
from histogp.solvers.noise import Noise
from histogp.solvers.solution import Solution, relative
from histogp.storage import Array

# Up to here a dense factor is faster than iterating.
SMALL_N = 2_000


def is_small(n_rows: int, n_matrices: int) -> bool:
    """Whether the dense factors of ``n_matrices`` matrices cost no more than one at the small-N limit."""
    return n_matrices * n_rows**3 <= SMALL_N**3


def factorise(matrix: Array, diagonal: Array) -> tuple[Array, bool]:
    """The Cholesky factor of ``matrix + diag(diagonal)`` for SciPy's ``cho_solve``."""
    system = matrix.copy()
    system[np.diag_indices_from(system)] += diagonal
    try:
        return cho_factor(system.T, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        raise ValueError(
            f"The kernel matrix with noise {diagonal.min():g} is not positive definite in float64; "
            f"use a larger noise, at least about {1e-14 * matrix.diagonal().sum():.0e} here."
        ) from None


def solve_cholesky(operator: KernelOperator, noise: Noise, right_hand_sides: Array, *, tol: float) -> Solution:
    """Solve ``(K + diag(noise)) x = b`` for each column by a dense Cholesky factor. b (N, M).

    ``tol`` is not aimed at, but a solution that misses it, for tiny noise, does not count as converged.
    """
    matrix = operator.matrix()
    diagonals = noise.diagonals()
    values = np.empty_like(right_hand_sides)
    residuals = np.empty_like(right_hand_sides)
    for problem in range(diagonals.shape[1]):
        some = slice(problem, problem + 1) if noise.is_per_problem else slice(None)
        b = right_hand_sides[:, some]
        factor = factorise(matrix, diagonals[:, problem])
        values[:, some] = cho_solve(factor, b, check_finite=False)
        residuals[:, some] = b - matrix @ values[:, some] - diagonals[:, problem, None] * values[:, some]
    reached = relative(residuals, np.abs(right_hand_sides).max(axis=0))
    return Solution(
        values,
        residuals,
        reached,
        n_iterations=1,
        n_products=right_hand_sides.shape[1],
        converged=bool(np.all(reached <= tol)),
    )
