"""The variance by solving one system for each test row (PUP in gp-hik-ijcv2016, section 7.1)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

from histogp.posterior.system import System
from histogp.storage import Array, Rows

# Test rows that are solved for together: a few blocks of the product, and no more memory than a fit takes.
ROWS = 64


class NotConvergedWarning(UserWarning):
    """A variance is too large because the solver was stopped."""


def precise_variance(system: System, rows: Rows, tol: float) -> Array:
    """``K(x, x) - k^T A^-1 k`` for each test row and problem, (n, M).

    ``A^-1 k`` is known up to a remainder r. With ``2 k^T a - a^T A a`` in place of ``k^T a`` the variance is never
    too small, and too large by ``r^T A^-1 r <= |r|^2 / min(noise)``, the square of what r looks like.
    """
    n_problems = system.n_problems
    out = np.empty((rows.n_rows, n_problems))
    problems = np.arange(n_problems)
    for some, kernel in _kernel_columns(system, rows):
        sides = np.repeat(kernel, n_problems, axis=1)
        values, remainder = _solve(system, sides, tol, np.tile(problems, kernel.shape[1]))
        out[some] = np.einsum("ij,ij->j", sides + remainder, values).reshape(-1, n_problems)
    prior = system.operator.cross_diagonal(rows)[:, None]
    return np.clip(prior - out, 0.0, prior)


def covariance(system: System, rows: Rows, tol: float) -> Array:
    """``K(x, x') - k(x)^T A^-1 k(x')`` for all pairs of test rows, (n, n)."""
    n = rows.n_rows
    kernel, values, remainder = np.empty((3, system.operator.n_rows, n))
    for some, columns in _kernel_columns(system, rows):
        kernel[:, some] = columns
        values[:, some], remainder[:, some] = _solve(system, columns, tol)
    # As above, to second order in the remainders, and symmetric.
    explained = kernel.T @ values + values.T @ remainder
    out = system.operator.cross_matrix(rows) - (explained + explained.T) / 2
    np.fill_diagonal(out, np.clip(out.diagonal(), 0.0, None))
    return out


def _kernel_columns(system: System, rows: Rows) -> Iterator[tuple[slice, Array]]:
    """``k(x)`` of several test rows at a time, (N, <= ROWS)."""
    for begin in range(0, rows.n_rows, ROWS):
        end = min(begin + ROWS, rows.n_rows)
        columns = np.empty((system.operator.n_rows, end - begin))
        for some, block in system.operator.cross(rows.block(begin, end)):
            columns[:, some] = block.T
        yield slice(begin, end), columns


def _solve(system: System, sides: Array, tol: float, problems: Array | None = None) -> tuple[Array, Array]:
    values, remainder, converged = system.solve(sides, tol, problems)
    if not converged:
        error = (remainder**2).sum(axis=0).max() / system.noise.diagonals().min()
        warnings.warn(
            f"The solver stopped after max_iter={system.options.max_iter} iterations; a variance may be too large by "
            f"{error:.1e}.",
            NotConvergedWarning,
            stacklevel=2,
        )
    return values, remainder
