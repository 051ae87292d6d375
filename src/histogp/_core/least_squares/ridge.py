"""Ridge regression from statistics, with penalties that are given or found.

`Ridge` has every penalty from one eigendecomposition, `FactoredRidge` one penalty from one factor; their methods have
the same names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, optimize
from scipy.linalg import LinAlgError, cho_solve, cholesky, lapack, solve_triangular

from histogp._core.data import Array, dense
from histogp._core.least_squares.statistics import Quadratic, StreamingStatistics
from histogp._core.threads import suited_blas


@dataclass(frozen=True, eq=False)
class Components:
    """Orthogonal directions of the centered features.

    means : (m,); vectors : (m, r); variances : (r,), descending, sums of squares along them
    rounding : what is not known of a variance
    """

    means: Array
    vectors: Array
    variances: Array
    rounding: float

    @classmethod
    def of(cls, problem: Quadratic, n_components: int | None = None) -> Components:
        """The components of least squares, all or the leading ones: algorithm 2 of chi2-linear-approximation."""
        m = len(problem.means)
        subset = None if n_components is None else [m - n_components, m - 1]
        return cls._descending(problem, *linalg.eigh(problem.hessian, subset_by_index=subset))

    @classmethod
    def _descending(cls, problem: Quadratic, variances: Array, vectors: Array) -> Components:
        """Components of eigenvalues (r,) and eigenvectors (m, r), which LAPACK has in ascending order."""
        rounding = len(problem.means) * problem.rounding
        # In the order of rows, as a copy or a file has them: BLAS rounds products in another order differently.
        vectors = np.ascontiguousarray(vectors[:, ::-1])
        return cls(problem.means, vectors, np.maximum(variances[::-1], 0.0), rounding)

    def rotated(self, problem: Quadratic) -> Components:
        """Directions with the span of these, in which another problem is diagonal."""
        variances, rotation = linalg.eigh(self.vectors.T @ problem.hessian @ self.vectors)
        return self._descending(problem, variances, self.vectors @ rotation)

    def transform(self, Z: Any) -> Array:
        """The coordinates of features, (n, r)."""
        return Z @ self.vectors - self.means @ self.vectors


# Penalties to choose from, in parts of the largest variance; each costs a few products with the left-out samples.
RELATIVE_PENALTIES = np.logspace(-10, 1, 45)


@dataclass(frozen=True, eq=False)
class Ridge:
    """Least squares with a penalty ``alpha |w|^2``, in coordinates in which it is diagonal.

    components : directions, whose variances are those of the labeled samples
    cross : (r, k), products of coordinates and centered targets
    target_means, target_squares : (k,); the second centered
    weight, size : the sum of all weights, and the number of samples, as in `Quadratic`
    intercept : whether features and targets are centered
    """

    components: Components
    cross: Array
    target_means: Array
    target_squares: Array
    weight: float
    size: float
    intercept: bool

    @classmethod
    def of(
        cls,
        statistics: StreamingStatistics,
        n_components: int | None = None,
        unlabeled: StreamingStatistics | None = None,
        *,
        intercept: bool = True,
        precision: type = np.float64,
    ) -> Ridge:
        """The regression on all components, or on the leading ones of labeled and unlabeled samples together.

        precision : in which products of features were computed before they were added up
        """
        problem = Quadratic.of(statistics, intercept=intercept, precision=precision)
        if unlabeled is None or n_components is None:
            components = Components.of(problem, n_components)
        else:
            together = statistics.without_targets() + unlabeled.without_targets()
            components = Components.of(Quadratic.of(together, intercept=intercept), n_components).rotated(problem)
        cross = components.vectors.T @ problem.cross
        return cls(components, cross, problem.target_means, problem.squares, problem.weight, problem.size, intercept)

    def transform(self, Z: Any) -> Array:
        """The coordinates of features, (n, r)."""
        return self.components.transform(Z)

    def find_penalty(self, error: Callable[[float], float]) -> float:
        """The candidate with the smallest error."""
        return float(min(self.penalties(), key=error))

    def penalties(self) -> Array:
        """The candidates of `find_penalty`, ascending, at most 45; at a penalty below rounding errors are chance."""
        largest = max(float(self.components.variances.max(initial=0.0)), np.finfo(float).tiny)
        return np.unique(np.maximum(RELATIVE_PENALTIES * largest, self.components.rounding))

    def coefficients(self, alpha: float) -> tuple[Array, Array]:
        """Weights (m, k) for features that were not projected, and intercepts (k,)."""
        weights = self.components.vectors @ (self.cross * self._shrinkage(alpha)[:, None])
        return weights, self.target_means - self.components.means @ weights

    @property
    def _alive(self) -> Array:
        """Which directions have more variance than rounding."""
        return self.components.variances > self.components.rounding

    def _shrinkage(self, alpha: float) -> Array:
        """``1 / (variance + alpha)``, zero for directions without any variance."""
        variances = self.components.variances
        return np.divide(1.0, variances + alpha, where=self._alive, out=np.zeros_like(variances))

    def _shares_left(self, alpha: float) -> tuple[Array, Array]:
        """``1 / variance`` and ``alpha / (variance + alpha)``: the part that the penalty leaves, (r,) both.

        Errors are sums of positive terms in these, where differences would be of nearly equal numbers.
        """
        variances = self.components.variances
        inverse = np.divide(1.0, variances, where=self._alive, out=np.zeros_like(variances))
        return inverse, np.where(self._alive, alpha * self._shrinkage(alpha), 0.0)

    def _unexplained(self, inverse: Array) -> Array:
        """The squares of the targets that no weights explain, (k,)."""
        left = self.target_squares - np.sum(self.cross**2 * inverse[:, None], axis=0)
        return np.where(left > len(inverse) * np.finfo(float).eps * self.target_squares, left, 0.0)

    def generalized_error(self, alpha: float) -> float:
        """Generalized cross-validation: the mean squared error by the squared part of the degrees of freedom left."""
        inverse, left = self._shares_left(alpha)
        squares = self._unexplained(inverse) + np.sum(self.cross**2 * (inverse * left**2)[:, None], axis=0)
        free = max(self.size - self.intercept - np.count_nonzero(self._alive), 0.0)
        degrees = max(free + float(left.sum()), 1e-100)
        return float(self.size * squares.sum() / degrees**2)

    def negative_evidence(self, alpha: float) -> float:
        """Minus the logarithm of the marginal likelihood, up to a constant, under the best noise for this penalty.

        The noise is ``alpha`` times the prior variance of the weights.
        """
        variances = self.components.variances
        inverse, left = self._shares_left(alpha)
        remaining = float(np.sum(self._unexplained(inverse)) + np.sum(self.cross**2 * (inverse * left)[:, None]))
        n_targets = len(self.target_squares)
        determinant = n_targets * float(np.log1p(variances / alpha).sum())
        size = (self.size - self.intercept) * n_targets
        return (size * np.log(max(remaining, np.finfo(float).tiny) / max(size, 1.0)) + determinant) / 2

    def leave_out(self, alpha: float, samples: LeftOut) -> Array:
        """The errors for some training samples, each predicted by all the others, (s, k)."""
        inverse, left = self._shares_left(alpha)
        coordinates, units = samples.coordinates, samples.units
        # What is left without a penalty, and what the penalty adds to it.
        residuals = samples.targets - self.target_means - coordinates @ (self.cross * inverse[:, None])
        residuals += coordinates @ (self.cross * (inverse * left)[:, None])
        free = 1 - units * (coordinates**2 @ inverse + self.intercept / self.weight)
        free = np.maximum(free, 0.0) + units * (coordinates**2 @ (inverse * left))
        return residuals / np.maximum(free, np.finfo(float).tiny)[:, None]


# Where to search for a penalty, in parts of the sum of all variances, and how closely: this takes 6 to 18 factors.
RELATIVE_PENALTY_RANGE = (1e-8, 10.0)
LOG_PENALTY_TOLERANCE = 0.5


@dataclass(frozen=True, eq=False)
class FactoredRidge:
    """Least squares with a penalty ``alpha |w|^2``, with a factor for each penalty, for more samples than features.

    A factor takes a tenth of an eigendecomposition.

    problem : least squares; intercept : whether features and targets are centered
    """

    problem: Quadratic
    intercept: bool

    @property
    def size(self) -> float:
        """The number of samples, as in `Quadratic`."""
        return self.problem.size

    def transform(self, Z: Array) -> Array:
        """The coordinates of features: these without their means, (n, m)."""
        return dense(Z) - self.problem.means

    def find_penalty(self, error: Callable[[float], float]) -> float:
        """The penalty with the smallest error, if that has one minimum."""
        largest = float(np.trace(self.problem.hessian)) or 1.0
        lowest, highest = largest * np.array(RELATIVE_PENALTY_RANGE)
        # At a penalty below rounding errors are chance.
        bounds = np.log([np.clip(len(self.problem.means) * self.problem.rounding, lowest, highest), highest])
        found = optimize.minimize_scalar(
            lambda x: error(float(np.exp(x))), bounds=bounds, method="bounded", options={"xatol": LOG_PENALTY_TOLERANCE}
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
        """Weights (m, k), by the factor for a penalty."""
        return cho_solve((factor, True), self.problem.cross, check_finite=False)

    def generalized_error(self, alpha: float) -> float:
        """Generalized cross-validation: the mean squared error by the squared part of the degrees of freedom left."""
        factor = self._factor(alpha)
        weights = self._weights(factor)
        explained = 2 * weights * self.problem.cross - weights * (self.problem.hessian @ weights)
        squares = np.maximum(self.problem.squares - explained.sum(axis=0), 0.0).sum()
        with suited_blas(float(len(factor)) ** 3):
            inverse = lapack.dtrtri(factor, lower=1, overwrite_c=1)[0]
        free = max(self.size - self.intercept - len(factor), 0.0)
        degrees = max(free + alpha * float(np.sum(inverse**2)), 1e-100)
        return float(self.size * squares / degrees**2)

    def negative_evidence(self, alpha: float) -> float:
        """Minus the logarithm of the marginal likelihood, up to a constant, under the best noise for this penalty."""
        factor = self._factor(alpha)
        n_targets = len(self.problem.squares)
        remaining = float(np.sum(self.problem.squares) - np.sum(self._weights(factor) * self.problem.cross))
        determinant = n_targets * (2 * float(np.log(factor.diagonal()).sum()) - len(factor) * np.log(alpha))
        size = (self.size - self.intercept) * n_targets
        return (size * np.log(max(remaining, np.finfo(float).tiny) / max(size, 1.0)) + determinant) / 2

    def leave_out(self, alpha: float, samples: LeftOut) -> Array:
        """The errors for some training samples, each predicted by all the others, (s, k)."""
        factor = self._factor(alpha)
        coordinates = samples.coordinates
        residuals = samples.targets - self.problem.target_means - coordinates @ self._weights(factor)
        with suited_blas(float(coordinates.size) * len(factor)):
            half = solve_triangular(factor, coordinates.T, lower=True, check_finite=False)
        free = 1 - samples.units * (np.einsum("ij,ij->j", half, half) + self.intercept / self.problem.weight)
        return residuals / np.maximum(free, np.finfo(float).tiny)[:, None]


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Some training samples, to be left out in turn.

    coordinates : (s, r), by `transform`; targets : (s, k)
    weights, units : (s,), those of the samples, and how much of each is left out, which is less where a weight stands
        for repeated samples
    """

    coordinates: Array
    targets: Array
    weights: Array
    units: Array

    def mean_square(self, errors: Array) -> float:
        """The mean of squared errors (s, k), summed over targets."""
        return float(np.average(np.sum(errors**2, axis=1), weights=self.weights))
