"""How large a preconditioner pays: an estimate of the cost of everything that follows.

Costs are in nanoseconds of one core, measured once and rounded; only their ratios matter. They are
constants rather than timings so that the same data give the same result every time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from histogp.solvers.preconditioner import PivotedCholesky

PILOT_RANK = 16
MARGIN = 1.25  # the estimates are not better than that; in doubt do without
GROWTH = (1, 1.5, 2, 3, 4, 6, 8, 12, 16, 32, 64)
MAX_FACTOR_BYTES = 512 * 2**20
MAX_CORE_BYTES = 256 * 2**20


@dataclass(frozen=True)
class CostModel:
    """Expected work of a solve with a preconditioner of rank r."""

    n_rows: int
    product_cost: int
    n_sides: int
    tol: float
    noise: float

    def iterations(self, largest_eigenvalue: float) -> float:
        """Conjugate gradients on a spectrum from the noise up to noise + the largest eigenvalue."""
        condition = 1 + largest_eigenvalue / self.noise
        return max(1.0, 0.65 * np.sqrt(condition) * np.log(2 / self.tol))

    def iteration(self, rank: int) -> float:
        block = 4.0 if self.n_sides == 1 else 15.0 * -(-self.n_sides // 16) * (1 if self.tol >= 1e-5 else 2)
        product = block * self.product_cost
        vectors = 10.0 * self.n_rows * self.n_sides
        apply = self.n_rows * rank * (1.0 + 0.12 * self.n_sides)
        return product + vectors + apply

    def build(self, rank: int) -> float:
        return 0.28 * self.product_cost * rank + 0.07 * self.n_rows * rank**2


def max_rank(n_rows: int, n_matrices: int) -> int:
    """The largest rank whose factor and inner matrices stay within fixed memory."""
    by_factor = MAX_FACTOR_BYTES // (4 * n_rows)
    by_cores = int(np.sqrt(MAX_CORE_BYTES / (8 * n_matrices)))
    return int(max(0, min(by_factor, by_cores, n_rows // 2)))


def grow_to_best_rank(factor: PivotedCholesky, model: CostModel) -> int:
    """Grow the factor while that is expected to save time; the rank reached, or 0 if none pays."""
    if factor.max_rank < PILOT_RANK:
        return 0
    if not factor.grow(PILOT_RANK):
        return factor.rank
    # Without help, conjugate gradients deal with a few large eigenvalues by about one iteration each.
    plain_iterations = min(
        model.iterations(float(factor.squared_norms.max())),
        PILOT_RANK / 2 + 0.8 * model.iterations(_next_eigenvalue(factor)),
    )
    plain = plain_iterations * model.iteration(0)
    decay = 0.5
    eigenvalues = [_next_eigenvalue(factor)]
    while factor.rank < factor.max_rank:
        rank, eigenvalue = factor.rank, eigenvalues[-1]

        def total(candidate: int, rank: int = rank, eigenvalue: float = eigenvalue, decay: float = decay) -> float:
            expected = eigenvalue * (rank / candidate) ** decay
            building = model.build(candidate) - model.build(rank)
            return building + model.iterations(expected) * model.iteration(candidate)

        best = min((min(int(rank * step), factor.max_rank) for step in GROWTH), key=total)
        if rank == PILOT_RANK and plain <= MARGIN * total(best):
            return 0
        if best == rank or not factor.grow(min(best, 2 * rank)):
            break
        if best < 2 * rank:
            break
        eigenvalues.append(_next_eigenvalue(factor))
        earlier = eigenvalues[-3:]
        decay = float(np.clip(np.log2(earlier[0] / earlier[-1]) / (len(earlier) - 1), 0.25, 1.5))
    return factor.rank


def _next_eigenvalue(factor: PivotedCholesky) -> float:
    """Estimate of the largest eigenvalue of ``K - F F^T``.

    The squared norm of a new column of F is a Rayleigh quotient of the residual matrix at that time.
    """
    recent = factor.squared_norms[-max(8, factor.rank // 4) :]
    return float(max(recent.max(), np.finfo(float).tiny))
