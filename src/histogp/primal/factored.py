"""Ridge regression from statistics of many features, for a few penalties: a Cholesky factor for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import optimize
from scipy.linalg import LinAlgError, cho_solve, cholesky, lapack, solve_triangular

from histogp.blas import suited_blas
from histogp.primal.left_out import LeftOut
from histogp.primal.quadratic import Quadratic
from histogp.storage import Array, dense

# Penalties to search among, in parts of the sum of all variances, and how closely.
RANGE = (1e-8, 10.0)
PRECISION = 0.5  # of the logarithm


@dataclass(frozen=True, eq=False)
class FactoredRidge:
    """The same as `Ridge`, with more rows than features; a penalty takes a tenth of an eigendecomposition.

    problem : least squares; intercept : whether its means were taken off
    """

    problem: Quadratic
    intercept: bool

    def transform(self, Z: Array) -> Array:
        """Features without their means, (n, m)."""
        return dense(Z) - self.problem.means

    def best(self, error: Callable[[float], float]) -> float:
        """The penalty with the smallest error, if that has one minimum."""
        largest = float(np.trace(self.problem.hessian)) or 1.0
        bounds = np.log(largest) + np.log(RANGE)
        found = optimize.minimize_scalar(
            lambda x: error(float(np.exp(x))), bounds=bounds, method="bounded", options={"xatol": PRECISION}
        )
        return float(np.exp(found.x))

    def coefficients(self, alpha: float) -> tuple[Array, Array]:
        """Weights (m, k), and intercepts (k,)."""
        weights = self._weights(self._factor(alpha))
        return weights, self.problem.intercepts(weights)

    def _factor(self, alpha: float) -> Array:
        """Lower triangular, of ``H + alpha I``."""
        while True:
            matrix = np.array(self.problem.hessian, order="F")
            matrix[np.diag_indices(len(matrix))] += alpha
            try:
                with suited_blas(float(len(matrix)) ** 3):
                    return cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
            except LinAlgError:  # rounding has made H indefinite
                alpha = max(10 * alpha, len(matrix) * self.problem.rounding, np.finfo(float).tiny)

    def _weights(self, factor: Array) -> Array:
        return cho_solve((factor, True), self.problem.cross, check_finite=False)

    def generalised_error(self, alpha: float) -> float:
        """See `Ridge`."""
        factor = self._factor(alpha)
        weights = self._weights(factor)
        explained = 2 * weights * self.problem.cross - weights * (self.problem.hessian @ weights)
        squares = np.maximum(self.problem.squares - explained.sum(axis=0), 0.0).sum()
        with suited_blas(float(len(factor)) ** 3):
            inverse = lapack.dtrtri(factor, lower=1, overwrite_c=1)[0]
        free = max(self.problem.weight - self.intercept - len(factor), 0.0)
        degrees = max(free + alpha * float(np.sum(inverse**2)), 1e-100)
        return float(self.problem.weight * squares / degrees**2)

    def negative_evidence(self, alpha: float) -> float:
        """See `Ridge`."""
        factor = self._factor(alpha)
        n_targets = len(self.problem.squares)
        remaining = float(np.sum(self.problem.squares) - np.sum(self._weights(factor) * self.problem.cross))
        determinant = n_targets * (2 * float(np.log(factor.diagonal()).sum()) - len(factor) * np.log(alpha))
        size = (self.problem.weight - self.intercept) * n_targets
        return (size * np.log(max(remaining, np.finfo(float).tiny) / max(size, 1.0)) + determinant) / 2

    def left_out(self, alpha: float, rows: LeftOut) -> Array:
        """See `Ridge`."""
        factor = self._factor(alpha)
        coordinates = rows.coordinates
        residuals = rows.targets - self.problem.target_means - coordinates @ self._weights(factor)
        with suited_blas(float(coordinates.size) * len(factor)):
            half = solve_triangular(factor, coordinates.T, lower=True, check_finite=False)
        free = 1 - rows.units * (np.einsum("ij,ij->j", half, half) + self.intercept / self.problem.weight)
        return residuals / np.maximum(free, np.finfo(float).tiny)[:, None]
