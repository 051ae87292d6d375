"""Direct solutions: dense factors for few rows, factors in the space of features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky, lapack, solve_triangular

from histogp._core.data import Array, Rows, dense
from histogp._core.least_squares.statistics import StreamingStatistics, Sums
from histogp._core.operators.contract import KernelOperator
from histogp._core.threads import suited_blas

# Up to here a dense factor is faster than iterating.
SMALL_N = 2_000
# Panels that are joined when there are more: each costs two calls of BLAS in every solution.
MOST_PANELS = 32


def is_small(n_rows: int, n_matrices: int) -> bool:
    """Whether the dense factors of ``n_matrices`` matrices cost no more than one at the small-N limit."""
    return n_matrices * n_rows**3 <= SMALL_N**3


@dataclass(frozen=True, eq=False)
class Factor:
    """A lower triangular L with ``L L^T = A``, in panels of rows, so that an extension shares those that are there.

    panels : pairs of what is left of the diagonal, (m, rows before), and the triangle on it, (m, m), whose upper
        half is undefined
    """

    panels: tuple[tuple[Array, Array], ...]

    @classmethod
    def of(cls, matrix: Array, diagonal: Array) -> Factor:
        """For ``A = matrix + diag(diagonal)``."""
        return cls(((np.empty((len(matrix), 0)), _triangle(matrix, diagonal)),))

    @property
    def n_rows(self) -> int:
        left, triangle = self.panels[-1]
        return left.shape[1] + len(triangle)

    def solve(self, sides: Array) -> Array:
        """``A^-1 b`` for each column of b (N, M)."""
        if len(self.panels) == 1:
            return cho_solve((self.panels[0][1], True), sides, check_finite=False)
        out = self._half_solved(sides)
        for left, triangle in reversed(self.panels):
            before, own = slice(0, left.shape[1]), slice(left.shape[1], left.shape[1] + len(triangle))
            out[own] = lapack.dtrtrs(triangle, out[own], lower=1, trans=1)[0]
            out[before] -= left.T @ out[own]
        return out

    def extended(self, border: Array, corner: Array, diagonal: Array) -> Factor:
        """For A bordered by columns (N, m), and ``corner + diag(diagonal)``, (m, m), where these meet."""
        left = self._half_solved(border).T
        triangle = _triangle(corner - left @ left.T, diagonal)
        panels = (*self.panels, (left, triangle))
        return Factor(panels) if len(panels) <= MOST_PANELS else Factor((_joined(panels),))

    def _half_solved(self, sides: Array) -> Array:
        """``L^-1 b``."""
        out = np.array(sides)
        for left, triangle in self.panels:
            before, own = slice(0, left.shape[1]), slice(left.shape[1], left.shape[1] + len(triangle))
            out[own] = lapack.dtrtrs(triangle, out[own] - left @ out[before], lower=1)[0]
        return out


def _triangle(matrix: Array, diagonal: Array) -> Array:
    system = matrix.copy()
    system[np.diag_indices_from(system)] += diagonal
    try:
        return cho_factor(system.T, lower=True, overwrite_a=True, check_finite=False)[0]
    except LinAlgError:
        raise ValueError(
            f"The kernel matrix with noise {diagonal.min():g} is not positive definite in float64; "
            f"use a larger noise, at least about {1e-14 * matrix.diagonal().sum():.0e} here."
        ) from None


def _joined(panels: tuple[tuple[Array, Array], ...]) -> tuple[Array, Array]:
    n_rows = sum(len(triangle) for _, triangle in panels)
    out = np.empty((n_rows, n_rows), order="F")
    for left, triangle in panels:
        first, last = left.shape[1], left.shape[1] + len(triangle)
        out[first:last, :first] = left
        out[first:last, first:last] = triangle
    return np.empty((n_rows, 0)), out


# Above, a factor takes longer than conjugate gradients do, and too much memory.
MOST_RANK = 8192
# So many times more features than rows are still better than estimates by random probes.
SEARCHED = 4


def is_primal(operator: KernelOperator) -> bool:
    """Whether there are features, and no more of them than rows."""
    return operator.rank is not None and operator.rank <= min(operator.n_rows, MOST_RANK)


def searches_primal(operator: KernelOperator) -> bool:
    """Whether to look for hyperparameters in the space of the features: exactly, where rows would need estimates."""
    return operator.rank is not None and operator.rank <= min(SEARCHED * operator.n_rows, MOST_RANK)


@dataclass(frozen=True, eq=False)
class PrimalFactor:
    """``C = I + Phi^T D^-1 Phi`` and its factor; D is the noise.

    ``(Phi Phi^T + D)^-1 = D^-1 - D^-1 Phi C^-1 Phi^T D^-1``, and ``C^-1`` is the posterior covariance of the weights.

    diagonal : (N,), of D; gram : (rank, rank), ``C - I``; factor : lower triangular, of C
    """

    operator: KernelOperator
    diagonal: Array
    gram: Array
    factor: Array

    @classmethod
    def of(cls, operator: KernelOperator, diagonal: Array) -> PrimalFactor:
        gram = weighted_gram(operator, operator.training_rows(), diagonal).gram
        return cls(operator, diagonal, gram, factor_of(gram))

    def solve(self, sides: Array) -> Array:
        """For all columns of (N, M)."""
        weights = self.weights(sides)
        return (sides - self.operator.combine(weights)) / self.diagonal[:, None]

    def weights(self, sides: Array) -> Array:
        """``C^-1 Phi^T D^-1 b``, the weights of the features in a mean, (rank, M)."""
        found = cho_solve((self.factor, True), self.operator.project(sides / self.diagonal[:, None]))
        # LAPACK's are in the order of columns, those of a file in that of rows, and BLAS rounds them differently.
        return np.ascontiguousarray(found)

    def extended(self, operator: KernelOperator, rows: Rows, diagonal: Array) -> PrimalFactor:
        """For the operator with further rows, of this noise."""
        gram = self.gram + weighted_gram(operator, rows, diagonal).gram
        return PrimalFactor(operator, np.concatenate([self.diagonal, diagonal]), gram, factor_of(gram))

    def variances(self, rows: Rows) -> Array:
        """``phi(x)^T C^-1 phi(x)``, the latent variance of test rows, (n,)."""
        out = np.empty(rows.n_rows)
        with suited_blas(float(rows.n_rows) * len(self.factor) ** 2):
            for some, Z in self.operator.features(rows):
                half = solve_triangular(self.factor, dense(Z).T, lower=True, check_finite=False)
                out[some] = np.einsum("ij,ij->j", half, half)
        return out

    def covariance(self, rows: Rows) -> Array:
        """``phi(x)^T C^-1 phi(x')`` of all pairs of test rows, (n, n)."""
        Z = np.concatenate([dense(block) for _, block in self.operator.features(rows)])
        half = solve_triangular(self.factor, Z.T, lower=True, check_finite=False)
        return half.T @ half

    def inverse_diagonal(self, index: Array) -> Array:
        """``[A^-1]_ii`` of training rows, (n,)."""
        noise = self.diagonal[index]
        return (1 - self.variances(self.operator.training_rows().take(index)) / noise) / noise


def weighted_gram(
    operator: KernelOperator, rows: Rows, diagonal: Array, targets: Array | None = None
) -> StreamingStatistics:
    """Statistics of the features of rows and their targets, weighted by one over the noise."""
    assert operator.rank is not None
    sums = Sums(operator.rank, 0 if targets is None else targets.shape[1])
    with suited_blas(float(rows.n_rows) * operator.rank**2):
        for some, Z in operator.features(rows):
            sums.add(Z, None if targets is None else targets[some], 1 / diagonal[some])
    return sums.total()


def factor_of(gram: Array) -> Array:
    """The lower factor of ``I + gram``."""
    matrix = np.array(gram, order="F")
    matrix[np.diag_indices(len(matrix))] += 1.0
    with suited_blas(float(len(matrix)) ** 3):
        return cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)


def inverse_of(factor: Array) -> Array:
    """``C^-1``, symmetric."""
    lower = np.tril(lapack.dpotri(factor, lower=1)[0])
    return lower + np.tril(lower, -1).T
