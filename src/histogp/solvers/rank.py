"""How large a preconditioner pays: an estimate of the cost of everything that follows.

Costs are in nanoseconds of one core, measured once and rounded; only their ratios matter. They are
constants rather than timings so that the same data give the same result every time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from histogp.blas import single_threaded_blas
from histogp.operators.base import KernelOperator
from histogp.solvers.cg import SINGLE_PRECISION_TOL
from histogp.solvers.noise import Noise
from histogp.solvers.options import SolverOptions
from histogp.solvers.preconditioner import PivotedCholesky, Preconditioner

PILOT_RANK = 16
TRIAL_RANK = 64
GROWTH = (1, 1.5, 2, 3, 4, 6, 8, 12, 16, 32, 64)
LOOK = 8
MANY_SIDES = 64
MOST_LOOKED_AT = 2048
MARGIN = 1.1  # the estimates are not better than that; in doubt do without
MAX_FACTOR_BYTES = 512 * 2**20
MAX_CORE_BYTES = 256 * 2**20


@dataclass(frozen=True)
class CostModel:
    """Expected work of a solve with a preconditioner of rank r.

    ``noise`` and eigenvalues are in the same unit, that of the factor. ``n_blocks`` is the number of
    sweeps that a product with all ``n_sides`` vectors takes.
    """

    n_rows: int
    product_cost: int
    n_sides: int
    n_blocks: int
    tol: float
    noise: float
    max_iter: int

    def iterations(self, largest_eigenvalue: float) -> float:
        """Conjugate gradients on a spectrum from the noise up to noise + the largest eigenvalue."""
        condition = 1 + largest_eigenvalue / self.noise
        return max(1.0, 0.65 * np.sqrt(condition) * np.log(2 / self.tol))

    def iteration(self, rank: int) -> float:
        sweep = 2.6 if self.n_sides == 1 else 10.0 if self.tol >= SINGLE_PRECISION_TOL else 20.0
        product = sweep * self.n_blocks * self.product_cost
        vectors = 10.0 * self.n_rows * self.n_sides
        apply = 6e5 + self.n_rows * rank * (1.0 + 0.12 * self.n_sides) if rank else 0.0
        return product + vectors + apply

    def build(self, rank: int) -> float:
        return 0.2 * self.product_cost * rank + 0.07 * self.n_rows * rank**2


def make_preconditioner(
    operator: KernelOperator, noise: Noise, n_sides: int, options: SolverOptions, rng: np.random.Generator
) -> Preconditioner | None:
    """The preconditioner of the rank asked for, or of the one that pays; None for rank 0."""
    if options.preconditioner_rank == 0:
        return None
    with single_threaded_blas():
        if options.preconditioner_rank == "auto":
            limit = max_rank(operator.n_rows, n_sides if noise.is_per_problem else 1)
            factor = PivotedCholesky(operator, noise, rng, limit, options.n_threads)
            rank = grow_to_best_rank(factor, _cost_model(operator, noise, n_sides, options))
        else:
            factor = PivotedCholesky(operator, noise, rng, options.preconditioner_rank, options.n_threads)
            factor.grow(options.preconditioner_rank)
            rank = factor.rank
        return Preconditioner(factor, noise, options.n_threads) if rank else None


def _cost_model(operator: KernelOperator, noise: Noise, n_sides: int, options: SolverOptions) -> CostModel:
    typical_noise = np.exp(np.mean(np.log(noise.diagonals())))
    return CostModel(
        n_rows=operator.n_rows,
        product_cost=operator.product_cost,
        n_sides=n_sides,
        n_blocks=-(-n_sides // operator.block_width),
        tol=options.tol,
        noise=float(typical_noise) / operator.scale,
        max_iter=options.max_iter,
    )


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
    eigenvalues = [_next_eigenvalue(factor)]
    # Without help, conjugate gradients deal with a few large eigenvalues by themselves, the better the
    # easier the problem; the formula fits bags of words, orientation histograms and raw counts.
    plain_iterations = min(
        model.iterations(float(factor.squared_norms.max())), 0.45 * model.iterations(eigenvalues[0]) ** 1.1
    )
    plain = plain_iterations * model.iteration(0)

    # See how fast the eigenvalues fall, where the look is cheap.
    while factor.rank < min(TRIAL_RANK, factor.max_rank) and plain > 16 * model.build(TRIAL_RANK):
        if not factor.grow(2 * factor.rank):
            return factor.rank
        eigenvalues.append(_next_eigenvalue(factor))
    best, cost = _cheapest(factor, model, eigenvalues)
    if plain_iterations <= model.max_iter and plain <= MARGIN * cost:
        return 0

    while best > factor.rank:
        doubled = 2 * factor.rank
        if not factor.grow(min(best, doubled)) or best < doubled:
            break
        eigenvalues.append(_next_eigenvalue(factor))
        best, _ = _cheapest(factor, model, eigenvalues)

    # Eigenvalues of sparse data may fall off a cliff at about their number of columns. With many right-hand sides to
    # come it costs little to look.
    while model.n_sides >= MANY_SIDES and factor.rank < min(MOST_LOOKED_AT, factor.max_rank):
        doubled = min(2 * factor.rank, MOST_LOOKED_AT)
        to_come = model.iterations(_next_eigenvalue(factor)) * model.iteration(factor.rank)
        if to_come < LOOK * (model.build(doubled) - model.build(factor.rank)) or not factor.grow(doubled):
            break
    return factor.rank


def _cheapest(factor: PivotedCholesky, model: CostModel, eigenvalues: list[float]) -> tuple[int, float]:
    """The rank from here on with the lowest cost still to come, and that cost.

    ``eigenvalues`` are the estimates at the present rank and at its halves; they are expected to
    go on falling by the same power of the rank.
    """
    recent = eigenvalues[-3:]
    decay = np.log2(recent[0] / recent[-1]) / (len(recent) - 1) if len(recent) > 1 else 0.5
    decay = np.clip(decay, 0.25, 1.5)

    def cost(rank: int) -> float:
        eigenvalue = eigenvalues[-1] * (factor.rank / rank) ** decay
        building = model.build(rank) - model.build(factor.rank)
        return building + model.iterations(eigenvalue) * model.iteration(rank)

    candidates = [min(int(factor.rank * step), factor.max_rank) for step in GROWTH]
    best = min(candidates, key=cost)
    return best, cost(best)


def _next_eigenvalue(factor: PivotedCholesky) -> float:
    """Estimate of the largest eigenvalue of ``K - F F^T``.

    The squared norm of a new column of F is a Rayleigh quotient of the residual matrix at that time.
    """
    recent = factor.squared_norms[-max(8, factor.rank // 4) :]
    return float(max(recent.max(), np.finfo(float).tiny))
