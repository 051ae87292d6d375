"""``K + diag(noise)`` with ``K = Phi Phi^T``, solved in the space of the features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from histogp.blas import suited_blas
from histogp.operators.base import KernelOperator
from histogp.primal.statistics import StreamingStatistics, Sums
from histogp.primal.triangle import factor_of
from histogp.storage import Array, Rows, dense

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
