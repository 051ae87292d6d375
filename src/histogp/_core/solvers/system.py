"""``K + diag(noise)``, prepared for right-hand sides."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from histogp._core.data import Array, Rows
from histogp._core.operators.contract import KernelOperator
from histogp._core.solvers.factors import Factor, PrimalFactor, is_primal, is_small
from histogp._core.solvers.iterative import solve_cg
from histogp._core.solvers.preconditioner import Preconditioner, make_preconditioner
from histogp._core.solvers.problem import Callback, Noise, Solution, SolverOptions, relative
from histogp._core.threads import suited_blas

# A preconditioner serves until there are so many times more rows than when it was made.
GROWTH = 1.5
# And as long as heights are not many times larger.
MOST_SCALE = 16


def is_direct(operator: KernelOperator, noise: Noise, options: SolverOptions) -> bool:
    """Whether factors solve the systems."""
    small = is_small(operator.n_rows, noise.n_matrices) or is_primal(operator)
    return options.solver == "cholesky" or (options.solver == "auto" and small)


@dataclass(frozen=True, eq=False)
class System:
    """Factors for few rows or features, otherwise a preconditioner. The noise may be one diagonal, or one a problem.

    factors : one, or one a problem; none if conjugate gradients solve the systems. All dense, or all primal.
    made_for : the number of rows for which the rank of the preconditioner was chosen
    """

    operator: KernelOperator
    noise: Noise
    options: SolverOptions
    factors: tuple[Factor, ...] | tuple[PrimalFactor, ...]
    preconditioner: Preconditioner | None
    made_for: int

    @classmethod
    def build(
        cls, operator: KernelOperator, noise: Noise, n_sides: int, options: SolverOptions, rng: np.random.Generator
    ) -> System:
        """With a preconditioner that pays for ``n_sides`` right-hand sides."""
        _refuse_overflow(operator.diagonal())
        factors: tuple[Factor, ...] | tuple[PrimalFactor, ...] = ()
        preconditioner = None
        if is_direct(operator, noise, options) and is_primal(operator):
            factors = tuple(PrimalFactor.of(operator, diagonal) for diagonal in noise.diagonals().T)
        elif is_direct(operator, noise, options):
            matrix = operator.matrix()
            factors = tuple(Factor.of(matrix, diagonal) for diagonal in noise.diagonals().T)
        else:
            preconditioner = make_preconditioner(operator, noise, n_sides, options, rng)
        return cls(operator, noise, options, factors, preconditioner, operator.n_rows)

    @property
    def primal(self) -> tuple[PrimalFactor, ...]:
        """The factors, if they are those of features."""
        return tuple(factor for factor in self.factors if isinstance(factor, PrimalFactor))

    @property
    def n_problems(self) -> int:
        return self.noise.n_matrices

    def using(self, options: SolverOptions) -> System:
        """The same with another limit of iterations and number of threads."""
        preconditioner = self.preconditioner and self.preconditioner.using(options.n_threads)
        return replace(self, options=options, preconditioner=preconditioner)

    def solve(
        self,
        right_hand_sides: Array,
        tol: float,
        *,
        problems: Array | None = None,
        start: Array | None = None,
        callback: Callback | None = None,
        verify: bool = False,
    ) -> Solution:
        """Solve for each column of (N, M).

        ``problems`` (M,) says to which problem each column belongs, by default its own. ``start`` is a guess of the
        solutions. With dense factors the remainders are rounding, and taken as zero unless ``verify`` asks for them.
        """
        if not self.factors:
            return solve_cg(
                self.operator,
                self.noise,
                right_hand_sides,
                tol=tol,
                max_iter=self.options.max_iter,
                preconditioner=self.preconditioner,
                problems=problems,
                start=start,
                callback=callback,
            )
        n_sides = right_hand_sides.shape[1]
        if len(self.factors) == 1:
            problems = np.zeros(n_sides, int)
        elif problems is None:
            problems = np.arange(n_sides)
        values = np.empty_like(right_hand_sides)
        with suited_blas(2.0 * right_hand_sides.size * len(right_hand_sides)):
            for problem in np.unique(problems):
                own = problems == problem
                values[:, own] = self.factors[problem].solve(right_hand_sides[:, own])
        remainder = np.zeros_like(values)
        if verify:
            diagonals = self.noise.diagonals()[:, problems]
            remainder = right_hand_sides - self.operator.matmat(values) - diagonals * values
        reached = relative(remainder, np.abs(right_hand_sides).max(axis=0))
        # The tolerance is not aimed at, but a solution that misses it, for tiny noise, does not count as converged.
        return Solution(
            values, remainder, reached, n_iterations=1, n_products=n_sides, converged=bool(np.all(reached <= tol))
        )

    def feature_weights(self, right_hand_sides: Array) -> Array:
        """``Phi^T A^-1 b`` by primal factors, (rank, M)."""
        if len(self.primal) == 1:
            return self.primal[0].weights(right_hand_sides)
        pairs = zip(self.primal, right_hand_sides.T, strict=True)
        return np.hstack([factor.weights(side[:, None]) for factor, side in pairs])

    def updated(self, operator: KernelOperator, rows: Rows, noise: Noise) -> System | None:
        """For the operator with further ``rows`` after the present ones, perhaps none, and perhaps another noise.

        None if there is nothing to gain against a new one.
        """
        with np.errstate(over="ignore"):
            _refuse_overflow(operator.cross_diagonal(rows))
        n_old, n = self.operator.n_rows, operator.n_rows
        changed = replace(self, operator=operator, noise=noise)
        same_noise = np.array_equal(noise.subset(np.arange(n_old)).diagonals(), self.noise.diagonals())
        direct = is_direct(operator, noise, self.options)
        if direct != bool(self.factors) or (direct and is_primal(operator) != bool(self.primal)):
            return None
        if self.factors:
            if not same_noise:
                return None
            if rows.n_rows == 0:
                return changed
            diagonals = noise.diagonals()[n_old:].T
            if self.primal:
                pairs = zip(self.primal, diagonals, strict=True)
                return replace(changed, factors=tuple(one.extended(operator, rows, noise) for one, noise in pairs))
            columns = operator.columns(np.arange(n_old, n))
            with suited_blas(float(columns.size) * n_old):
                factors = [
                    factor.extended(columns[:n_old], columns[n_old:], diagonal)
                    for factor, diagonal in zip(self.factors, diagonals, strict=True)
                    if isinstance(factor, Factor)
                ]
            return replace(changed, factors=tuple(factors))
        if n > GROWTH * self.made_for or operator.scale > MOST_SCALE * self.operator.scale:
            return None
        if self.preconditioner is not None:
            changed = replace(changed, preconditioner=self.preconditioner.updated(operator, rows, noise, same_noise))
        return changed


def _refuse_overflow(diagonal: Array) -> None:
    if not np.all(np.isfinite(diagonal)):
        raise ValueError("The kernel overflows on these features; scale them to moderate values.")


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
    system = System.build(operator, noise, right_hand_sides.shape[1], options, rng)
    return system.solve(right_hand_sides, options.tol, start=start, callback=callback, verify=True)
