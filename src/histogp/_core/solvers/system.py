"""``K + diag(noise)``, prepared for right-hand sides: what all kinds of systems do.

There are three kinds, `factors.DenseSystem`, `factors.FeatureSystem` and `iterative.IterativeSystem`; `build_system` of
this package chooses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np

from histogp._core.data import Array, Rows
from histogp._core.operators.contract import KernelOperator, cross_blocks, prior_covariance
from histogp._core.solvers.problem import Callback, Noise, Solution, SolverOptions

# The residual may hide this part of a variance by its bound, which is far above the error for most data. Otherwise the
# solver is asked for more, a few times.
UNCLEAR_SHARE = 0.05
MORE_SOLVES = 3
SMALLEST_TOL = 1e-13
# Variances below this part of the prior's are rounding.
VARIANCE_ROUNDING = 1e-12
# Outputs that a system for variances is prepared for, at least and at most.
FEWEST_OUTPUTS, MOST_OUTPUTS = 16, 4096
# Test rows that are solved for together: a few blocks of the product, and no more memory than a fit takes.
ROWS_AT_ONCE = 64


class System(ABC):
    """A prepared system. The noise may be one diagonal, or one for each output. Immutable.

    serves_any : whether it is as good for other right-hand sides, and for more of them
    is_light : whether keeping it costs little
    """

    operator: KernelOperator
    noise: Noise
    options: SolverOptions
    serves_any: ClassVar[bool] = True

    @property
    @abstractmethod
    def is_light(self) -> bool:
        """Whether keeping it costs little."""

    @classmethod
    def size_for(cls, n_outputs: int) -> int:
        """For how many outputs to prepare a system when so many are at hand, and others may follow."""
        return MOST_OUTPUTS

    @abstractmethod
    def solve(
        self,
        sides: Array,
        tol: float,
        *,
        outputs: Array | None = None,
        start: Array | None = None,
        callback: Callback | None = None,
        verify: bool = False,
    ) -> Solution:
        """Solve for each column of the right-hand sides, (N, M).

        ``outputs`` (M,) says to which output each column belongs where each has its noise, by default its own.
        ``start`` is a guess of the solutions. With factors the residuals are rounding, and taken as zero unless
        ``verify`` asks for them.
        """

    def latent_variance(self, rows: Rows, tol: float) -> tuple[Array, float]:
        """``K(x, x) - k^T A^-1 k`` for each test row and matrix, (n, n_matrices), and its excess.

        ``A^-1 k`` is known up to a residual r. With ``2 k^T a - a^T A a`` in place of ``k^T a`` the variance is never
        too small, and too large by ``r^T A^-1 r <= |r|^2 / min(noise)``, the square of what r looks like. The excess is
        by how much the worst may be too large, zero where that does not matter.
        """
        n_matrices = self.noise.n_matrices
        out, worst = np.empty((rows.n_rows, n_matrices)), 0.0
        prior = self.operator.diagonal(rows)[:, None]
        for some, kernel in kernel_columns(self.operator, rows, max(1, self._rows_at_once() // n_matrices)):
            sides = np.repeat(kernel, n_matrices, axis=1)
            outputs = np.tile(np.arange(n_matrices), kernel.shape[1])
            own_prior = np.repeat(prior[some, 0], n_matrices)
            solution, excess = self._solve_clearly(sides, own_prior, tol, outputs)
            out[some] = _explained(sides, solution).reshape(-1, n_matrices)
            worst = max(worst, excess)
        return np.clip(prior - out, 0.0, prior), worst

    def covariance(self, rows: Rows, tol: float) -> tuple[Array, float]:
        """``K(x, x') - k(x)^T A^-1 k(x')`` for all pairs of test rows, (n, n), and its excess as for variances."""
        kernel, values, residual = np.empty((3, self.operator.n_samples, rows.n_rows))
        prior, worst = self.operator.diagonal(rows), 0.0
        for some, columns in kernel_columns(self.operator, rows):
            solution, excess = self._solve_clearly(columns, prior[some], tol, np.zeros(columns.shape[1], int))
            kernel[:, some], values[:, some], residual[:, some] = columns, solution.values, solution.residual
            worst = max(worst, excess)
        # To second order in the residuals, and symmetric.
        explained = kernel.T @ values + values.T @ residual
        out = prior_covariance(self.operator, rows, rows) - (explained + explained.T) / 2
        np.fill_diagonal(out, np.clip(out.diagonal(), 0.0, None))
        return out, worst

    def inverse_diagonal(self, index: Array) -> Array:
        """``[A^-1]_ii`` of the training samples ``index``, (n, n_matrices), for leave-one-out predictions."""
        out = np.empty((len(index), self.noise.n_matrices))
        for matrix in range(self.noise.n_matrices):
            out[:, matrix] = self.inverse_columns(index, matrix)[index, np.arange(len(index))]
        return out

    def inverse_columns(self, index: Array, matrix: int = 0) -> Array:
        """Columns of ``A^-1`` of the training samples ``index``, (N, n), with the noise of an output."""
        sides = np.zeros((self.operator.n_samples, len(index)))
        sides[index, np.arange(len(index))] = 1.0
        return self.solve(sides, self._unit_tol, outputs=np.full(len(index), matrix)).values

    def inverse_block(self, index: Array, matrix: int = 0) -> Array:
        """What ``A^-1`` has for pairs of the training samples ``index``, (n, n), with the noise of an output."""
        return self.inverse_columns(index, matrix)[index]

    def inverse_slope(self, index: Array) -> tuple[Array, Array]:
        """`inverse_block`, and its derivative for the logarithm of the noise, ``-A^-1 D A^-1``, (n, n) each."""
        columns = self.inverse_columns(index)
        return columns[index], -(columns.T @ (self.noise.diagonals()[:, :1] * columns))

    def with_noise_times(self, factor: float) -> Self | None:
        """The system with all noise times a factor; None if there is nothing to gain against a new one."""
        return None

    @abstractmethod
    def mean_weights(self, targets: Array) -> Array | None:
        """``Phi^T A^-1 targets``, (n_components, M), where the system has them more exactly than from a solution."""

    @abstractmethod
    def updated(self, operator: KernelOperator, rows: Rows, noise: Noise) -> Self | None:
        """The system for the operator with further ``rows``, perhaps none, after the present ones, and its noise.

        None if there is nothing to gain against a new one.
        """

    @abstractmethod
    def with_options(self, options: SolverOptions) -> Self:
        """The system with another limit of iterations and number of threads."""

    _unit_tol: ClassVar[float] = 0.0

    def _rows_at_once(self) -> int:
        """Test rows that `latent_variance` solves for together."""
        return ROWS_AT_ONCE

    def _solve_clearly(self, sides: Array, prior: Array, tol: float, outputs: Array) -> tuple[Solution, float]:
        """A solution for kernel columns, and the excess; where residuals leave the variance unclear, it goes on."""
        floor = self.noise.diagonals().min()
        solution = self.solve(sides, tol, outputs=outputs)
        for _ in range(MORE_SOLVES):
            # What is left of a prior variance is known to rounding only.
            residual = solution.residual
            variance = np.maximum(prior - _explained(sides, solution), VARIANCE_ROUNDING * prior)
            excess = np.einsum("ij,ij->j", residual, residual) / floor / np.where(prior > 0, variance, 1.0)
            if not solution.converged or excess.max() <= UNCLEAR_SHARE:
                break
            tol *= np.sqrt(UNCLEAR_SHARE / excess.max()) / 3
            solution = self.solve(sides, max(tol, SMALLEST_TOL), outputs=outputs, start=solution.values)
        if solution.converged and excess.max() <= UNCLEAR_SHARE:
            return solution, 0.0
        return solution, float(np.einsum("ij,ij->j", solution.residual, solution.residual).max() / floor)


def kernel_columns(operator: KernelOperator, rows: Rows, n_columns: int = ROWS_AT_ONCE) -> Iterator[tuple[slice, Any]]:
    """``k(x)`` of several test rows at a time, (N, <= n_columns)."""
    for begin in range(0, rows.n_rows, n_columns):
        end = min(begin + n_columns, rows.n_rows)
        columns = np.empty((operator.n_samples, end - begin))
        for some, block in cross_blocks(operator, rows.block(begin, end)):
            columns[:, some] = block.T
        yield slice(begin, end), columns


def _explained(kernel: Array, solution: Solution) -> Array:
    """``2 k^T a - a^T A a`` of each column, (M,)."""
    return np.einsum("ij,ij->j", kernel + solution.residual, solution.values)
