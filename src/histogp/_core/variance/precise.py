"""The variance by solving one system for each test row (PUP in gp-hik-ijcv2016, section 7.1)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from histogp._core.data import Array, Rows
from histogp._core.operators.contract import KernelOperator
from histogp._core.solvers.system import System
from histogp._core.variance.shortfall import Shortfall, note

# Test rows that are solved for together: a few blocks of the product, and no more memory than a fit takes.
ROWS = 64
# Kernel values that are solved for together with dense factors.
DENSE_ELEMENTS = 2**18
# The remainder may hide this part of a variance by its bound, which is far above the error for most data. Otherwise the
# solver is asked for more, a few times.
UNCLEAR = 0.05
MORE_TRIES = 3
SMALLEST_TOL = 1e-13
ROUNDING = 1e-12


def precise_variance(system: System, rows: Rows, tol: float) -> Array:
    """``K(x, x) - k^T A^-1 k`` for each test row and problem, (n, M).

    ``A^-1 k`` is known up to a remainder r. With ``2 k^T a - a^T A a`` in place of ``k^T a`` the variance is never
    too small, and too large by ``r^T A^-1 r <= |r|^2 / min(noise)``, the square of what r looks like.
    """
    if system.primal:
        return np.stack([factor.variances(rows) for factor in system.primal], axis=1)
    n_problems = system.n_problems
    out = np.empty((rows.n_rows, n_problems))
    prior = system.operator.cross_diagonal(rows)[:, None]
    at_once = max(ROWS, DENSE_ELEMENTS // system.operator.n_rows) if system.factors else ROWS
    for some, kernel in kernel_columns(system.operator, rows, max(1, at_once // n_problems)):
        sides = np.repeat(kernel, n_problems, axis=1)
        own_prior = np.repeat(prior[some, 0], n_problems)
        problems = np.tile(np.arange(n_problems), kernel.shape[1])
        values, remainder = _solve(system, sides, own_prior, tol, problems)
        out[some] = _explained(sides, values, remainder).reshape(-1, n_problems)
    return np.clip(prior - out, 0.0, prior)


def covariance(system: System, rows: Rows, tol: float) -> Array:
    """``K(x, x') - k(x)^T A^-1 k(x')`` for all pairs of test rows, (n, n)."""
    if system.primal:
        return system.primal[0].covariance(rows)
    n = rows.n_rows
    kernel, values, remainder = np.empty((3, system.operator.n_rows, n))
    prior = system.operator.cross_diagonal(rows)
    for some, columns in kernel_columns(system.operator, rows):
        kernel[:, some] = columns
        values[:, some], remainder[:, some] = _solve(system, columns, prior[some], tol, np.zeros(columns.shape[1], int))
    # As above, to second order in the remainders, and symmetric.
    explained = kernel.T @ values + values.T @ remainder
    out = system.operator.cross_matrix(rows, rows) - (explained + explained.T) / 2
    np.fill_diagonal(out, np.clip(out.diagonal(), 0.0, None))
    return out


def _explained(kernel: Array, values: Array, remainder: Array) -> Array:
    """``2 k^T a - a^T A a`` of each column, (M,)."""
    return np.einsum("ij,ij->j", kernel + remainder, values)


def kernel_columns(operator: KernelOperator, rows: Rows, n_columns: int = ROWS) -> Iterator[tuple[slice, Array]]:
    """``k(x)`` of several test rows at a time, (N, <= n_columns)."""
    for begin in range(0, rows.n_rows, n_columns):
        end = min(begin + n_columns, rows.n_rows)
        columns = np.empty((operator.n_rows, end - begin))
        for some, block in operator.cross(rows.block(begin, end)):
            columns[:, some] = block.T
        yield slice(begin, end), columns


def _solve(system: System, sides: Array, prior: Array, tol: float, problems: Array) -> tuple[Array, Array]:
    """Solutions and remainders, both (N, M). Where these leave the variance unclear, the solver goes on."""
    floor = system.noise.diagonals().min()
    solution = system.solve(sides, tol, problems=problems)
    for _ in range(MORE_TRIES):
        # What is left of a prior variance is known to rounding only.
        remainder = solution.remainder
        variance = np.maximum(prior - _explained(sides, solution.values, remainder), ROUNDING * prior)
        excess = np.einsum("ij,ij->j", remainder, remainder) / floor / np.where(prior > 0, variance, 1.0)
        if not solution.converged or excess.max() <= UNCLEAR:
            break
        tol *= np.sqrt(UNCLEAR / excess.max()) / 3
        solution = system.solve(sides, max(tol, SMALLEST_TOL), problems=problems, start=solution.values)
    if not solution.converged or excess.max() > UNCLEAR:
        error = np.einsum("ij,ij->j", solution.remainder, solution.remainder).max() / floor
        message = (
            f"The solver stopped before the variance was clear (max_iter={system.options.max_iter}); it may be too "
            f"large by up to {error:.1e}."
        )
        note("precise", Shortfall(message, float(error)))
    return solution.values, solution.remainder
