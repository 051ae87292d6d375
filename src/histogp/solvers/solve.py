"""The choice of the solver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from histogp.operators.base import KernelOperator
from histogp.solvers.blas import single_threaded_blas
from histogp.solvers.cg import solve_cg
from histogp.solvers.cholesky import is_small, solve_cholesky
from histogp.solvers.noise import Noise
from histogp.solvers.preconditioner import PivotedCholesky, Preconditioner
from histogp.solvers.rank import CostModel, grow_to_best_rank, max_rank
from histogp.solvers.solution import Callback, Solution
from histogp.storage import Array


@dataclass(frozen=True)
class SolverOptions:
    """What users can say about the solver; see the estimators."""

    solver: Literal["auto", "cg", "cholesky"] = "auto"
    tol: float = 1e-2
    max_iter: int = 1000
    preconditioner_rank: int | Literal["auto"] = "auto"
    n_threads: int = 1


def is_dense(operator: KernelOperator, noise: Noise, options: SolverOptions) -> bool:
    """Whether dense factors solve the systems."""
    small = is_small(operator.n_rows, noise.diagonals().shape[1])
    return options.solver == "cholesky" or (options.solver == "auto" and small)


def solve(
    operator: KernelOperator,
    noise: Noise,
    right_hand_sides: Array,
    options: SolverOptions,
    rng: np.random.Generator,
    *,
    start: Array | None = None,
    callback: Callback | None = None,
) -> Solution:
    """Solve ``(K + diag(noise)) x = b`` for each column of b (N, M) with the solver that ``options`` name."""
    if not np.all(np.isfinite(operator.diagonal())):
        raise ValueError("The kernel overflows on these features; scale them to moderate values.")
    if is_dense(operator, noise, options):
        return solve_cholesky(operator, noise, right_hand_sides, tol=options.tol)
    return solve_cg(
        operator,
        noise,
        right_hand_sides,
        tol=options.tol,
        max_iter=options.max_iter,
        preconditioner=make_preconditioner(operator, noise, right_hand_sides.shape[1], options, rng),
        start=start,
        callback=callback,
    )


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
