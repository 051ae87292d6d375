"""Least squares from statistics, as a quadratic function of the weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from histogp.primal.statistics import StreamingStatistics
from histogp.storage import Array


@dataclass(frozen=True, eq=False)
class Quadratic:
    """``|y - Z w|^2 = y^T y - 2 w^T c + w^T H w`` of features and targets without their means.

    hessian : (m, m), H; cross : (m, k), c of each target; squares : (k,), ``y^T y``
    means : (m,), target_means : (k,), zero without an intercept
    weight : the sum of all weights, which count like repeated rows
    rounding : what is not known of an entry of H
    """

    hessian: Array
    cross: Array
    squares: Array
    means: Array
    target_means: Array
    weight: float
    rounding: float

    @classmethod
    def of(cls, statistics: StreamingStatistics, *, intercept: bool = True) -> Quadratic:
        total = max(statistics.weight, np.finfo(float).tiny) if intercept else np.inf
        means, target_means = statistics.sums / total, statistics.target_sums / total
        squares = statistics.target_gram.diagonal() - statistics.target_sums * target_means
        return cls(
            statistics.gram - np.outer(statistics.sums, means),
            statistics.cross - np.outer(statistics.sums, target_means),
            np.maximum(squares, 0.0),
            means,
            target_means,
            statistics.weight,
            float(np.finfo(float).eps * statistics.gram.diagonal().max(initial=0.0)),
        )

    def intercepts(self, weights: Array) -> Array:
        """(k,), for weights (m, k)."""
        return self.target_means - self.means @ weights

    def square_root(self) -> tuple[Array, Array]:
        """R (r, m) and q (r, k) with ``R^T R = H`` and ``R^T q = c``, without directions that are rounding.

        To least squares they are as good as the rows, of which there may be any number.
        """
        values, vectors = linalg.eigh(self.hessian)
        alive = values > len(values) * max(self.rounding, np.finfo(float).eps * values.max(initial=0.0))
        roots, vectors = np.sqrt(values[alive]), vectors[:, alive]
        return roots[:, None] * vectors.T, vectors.T @ self.cross / roots[:, None]
