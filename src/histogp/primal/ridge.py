"""Ridge regression from statistics, for every penalty from one eigendecomposition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from histogp.primal.left_out import LeftOut
from histogp.primal.quadratic import Quadratic
from histogp.primal.statistics import StreamingStatistics
from histogp.storage import Array

# Penalties to choose from, in parts of the largest eigenvalue.
PENALTIES = np.logspace(-10, 1, 45)


@dataclass(frozen=True, eq=False)
class Components:
    """Orthogonal directions of the centred features.

    means : (m,); vectors : (m, r); variances : (r,), descending, sums of squares along them
    rounding : what is not known of a variance
    """

    means: Array
    vectors: Array
    variances: Array
    rounding: float

    @classmethod
    def of(cls, problem: Quadratic, n_components: int | None = None) -> Components:
        """All, or the leading ones: algorithm 2 of chi2-linear-approximation."""
        m = len(problem.means)
        subset = None if n_components is None else [m - n_components, m - 1]
        return cls._descending(problem, *linalg.eigh(problem.hessian, subset_by_index=subset))

    @classmethod
    def _descending(cls, problem: Quadratic, variances: Array, vectors: Array) -> Components:
        rounding = len(problem.means) * problem.rounding
        # In the order of rows, as a copy or a file has them: BLAS rounds products in another order differently.
        vectors = np.ascontiguousarray(vectors[:, ::-1])
        return cls(problem.means, vectors, np.maximum(variances[::-1], 0.0), rounding)

    def of_others(self, problem: Quadratic) -> Components:
        """Directions in the same span, in which other statistics are diagonal."""
        variances, rotation = linalg.eigh(self.vectors.T @ problem.hessian @ self.vectors)
        return self._descending(problem, variances, self.vectors @ rotation)

    def transform(self, Z: Any) -> Array:
        """The coordinates of features, (n, r)."""
        return Z @ self.vectors - self.means @ self.vectors


@dataclass(frozen=True, eq=False)
class Ridge:
    """Least squares with a penalty ``alpha |w|^2``, in coordinates in which it is diagonal.

    components : directions, whose variances are those of the labelled rows
    cross : (r, k), products of coordinates and centred targets
    target_means, target_squares : (k,); the second centred
    weight : the sum of all weights, which count like repeated rows
    """

    components: Components
    cross: Array
    target_means: Array
    target_squares: Array
    weight: float
    intercept: bool

    @classmethod
    def of(
        cls,
        statistics: StreamingStatistics,
        n_components: int | None = None,
        unlabelled: StreamingStatistics | None = None,
        *,
        intercept: bool = True,
    ) -> Ridge:
        """With all components, or the leading ones of the labelled and unlabelled rows together."""
        problem = Quadratic.of(statistics, intercept=intercept)
        if unlabelled is None or n_components is None:
            components = Components.of(problem, n_components)
        else:
            together = statistics.without_targets() + unlabelled.without_targets()
            components = Components.of(Quadratic.of(together, intercept=intercept), n_components).of_others(problem)
        cross = components.vectors.T @ problem.cross
        return cls(components, cross, problem.target_means, problem.squares, problem.weight, intercept)

    def transform(self, Z: Any) -> Array:
        """The coordinates of features, (n, r)."""
        return self.components.transform(Z)

    def best(self, error: Callable[[float], float]) -> float:
        """The candidate with the smallest error."""
        return float(min(self.penalties(), key=error))

    def penalties(self) -> Array:
        """Candidates, (A,)."""
        return PENALTIES * max(float(self.components.variances.max(initial=0.0)), np.finfo(float).tiny)

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

    def _left(self, alpha: float) -> tuple[Array, Array]:
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

    def generalised_error(self, alpha: float) -> float:
        """Generalised cross-validation: the mean squared error by the squared part of the degrees of freedom left."""
        inverse, left = self._left(alpha)
        squares = self._unexplained(inverse) + np.sum(self.cross**2 * (inverse * left**2)[:, None], axis=0)
        free = max(self.weight - self.intercept - np.count_nonzero(self._alive), 0.0)
        degrees = max(free + float(left.sum()), 1e-100)
        return float(self.weight * squares.sum() / degrees**2)

    def negative_evidence(self, alpha: float) -> float:
        """Minus the logarithm of the marginal likelihood, up to a constant, under the best noise for this penalty.

        The noise is ``alpha`` times the prior variance of the weights.
        """
        variances = self.components.variances
        inverse, left = self._left(alpha)
        remaining = float(np.sum(self._unexplained(inverse)) + np.sum(self.cross**2 * (inverse * left)[:, None]))
        n_targets = len(self.target_squares)
        determinant = n_targets * float(np.log1p(variances / alpha).sum())
        size = (self.weight - self.intercept) * n_targets
        return (size * np.log(max(remaining, np.finfo(float).tiny) / max(size, 1.0)) + determinant) / 2

    def left_out(self, alpha: float, rows: LeftOut) -> Array:
        """The errors for some training rows, each predicted by all the others, (s, k)."""
        inverse, left = self._left(alpha)
        coordinates, units = rows.coordinates, rows.units
        # What is left without a penalty, and what the penalty adds to it.
        residuals = rows.targets - self.target_means - coordinates @ (self.cross * inverse[:, None])
        residuals += coordinates @ (self.cross * (inverse * left)[:, None])
        free = 1 - units * (coordinates**2 @ inverse + self.intercept / self.weight)
        free = np.maximum(free, 0.0) + units * (coordinates**2 @ (inverse * left))
        return residuals / np.maximum(free, np.finfo(float).tiny)[:, None]
