"""``K + diag(noise)``, prepared for many right-hand sides."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
from scipy.linalg import cho_solve

from histogp.operators.base import KernelOperator
from histogp.solvers.cg import solve_cg
from histogp.solvers.cholesky import factorise
from histogp.solvers.noise import Noise
from histogp.solvers.solve import SolverOptions, is_dense, make_preconditioner
from histogp.storage import Array


class System:
    """Dense factors for few rows, otherwise a preconditioner that pays for ``n_sides`` right-hand sides.

    The noise may be one diagonal, or one a problem.
    """

    def __init__(self, operator: KernelOperator, noise: Noise, n_sides: int, options: SolverOptions, seed: int):
        self.operator = operator
        self.noise = noise
        self.options = options
        self.n_problems = noise.diagonals().shape[1]
        if is_dense(operator, noise, options):
            matrix = operator.matrix()
            self.factors = [factorise(matrix, diagonal) for diagonal in noise.diagonals().T]
            self.preconditioner = None
        else:
            self.factors = []
            rng = np.random.default_rng(seed)
            tight = replace(options, tol=min(options.tol, 1e-3))
            sides = self.n_problems if noise.is_per_problem else n_sides
            self.preconditioner = make_preconditioner(operator, noise, sides, tight, rng)

    def using(self, options: SolverOptions) -> System:
        """The same with another limit of iterations."""
        other = copy.copy(self)
        other.options = options
        return other

    def solve(
        self, right_hand_sides: Array, tol: float, problems: Array | None = None, start: Array | None = None
    ) -> tuple[Array, Array, bool]:
        """Solutions and the remainders ``b - A x``, both (N, M), and whether all reached the tolerance.

        ``problems`` (M,) says to which problem each column belongs, ``start`` is a guess of the solutions. With dense
        factors the remainders are rounding, and taken as zero.
        """
        if problems is None:
            problems = np.zeros(right_hand_sides.shape[1], int)
        if not self.factors:
            solution = solve_cg(
                self.operator,
                self.noise,
                right_hand_sides,
                tol=tol,
                max_iter=self.options.max_iter,
                preconditioner=self.preconditioner,
                problems=problems,
                start=start,
            )
            return solution.values, solution.remainder, solution.converged
        values = np.empty_like(right_hand_sides)
        for problem in np.unique(problems):
            own = problems == problem
            values[:, own] = cho_solve(self.factors[problem], right_hand_sides[:, own], check_finite=False)
        return values, np.zeros_like(values), True
