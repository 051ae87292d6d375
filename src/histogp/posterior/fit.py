"""The posterior of a Gaussian process: training targets in, predictive means out."""

from __future__ import annotations

from typing import Any

import numpy as np

from histogp.operators.base import Grid, KernelOperator
from histogp.posterior.lazy import Lazy
from histogp.posterior.quantized import QuantizedMean
from histogp.solvers.noise import Noise
from histogp.solvers.solution import Callback, Solution
from histogp.solvers.solve import SolverOptions, solve
from histogp.storage import Array, Rows


class Posterior:
    """Immutable. What is prepared lazily lives behind a lock, so that threads may share it.

    alpha : (N, M), the solution of ``(K + diag(noise)) alpha = targets`` (gp-hik-ijcv2016, eq. 2).
    targets : (N, M).
    residual : the largest residual of the solution, relative to the largest target of its problem.
    """

    def __init__(self, operator: KernelOperator, noise: Noise, alpha: Array, targets: Array, residual: float):
        self.operator = operator
        self.noise = noise
        self.alpha = alpha
        self.targets = targets
        self.residual = residual
        self._prepared = Lazy()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_prepared"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def mean(self, rows: Rows, n_threads: int = 1) -> Array:
        """``k(x)^T alpha`` for each test row, (n, M)."""
        table = self._prepared.get("table", lambda: self.operator.table(self.alpha))
        return table.evaluate(rows, n_threads)

    def quantized(self, grid: Grid) -> QuantizedMean:
        """The mean on a grid, tabulated when a grid is asked for that was not the last one."""
        version = (grid.n_bins, grid.uniform, None if grid.upper is None else grid.upper.tobytes())
        return self._prepared.get("quantized", lambda: self._quantize(grid), version)

    def _quantize(self, grid: Grid) -> QuantizedMean:
        table = self.operator.grid_table(self.alpha, grid)
        # ||alpha||_1 <= sqrt(N) ||alpha||_2, and the system that alpha solves has the right-hand side y - r.
        root = np.sqrt(len(self.targets))
        largest = np.abs(self.targets).max(axis=0)
        right_hand_sides = np.linalg.norm(self.targets, axis=0) + root * self.residual * largest
        bounds = root * right_hand_sides / self.noise.diagonals().min(axis=0)
        return QuantizedMean(table, grid, np.abs(self.alpha).sum(axis=0), bounds)


def fit_posterior(
    operator: KernelOperator,
    noise: Noise,
    targets: Array,
    options: SolverOptions,
    rng: np.random.Generator,
    *,
    start: Array | None = None,
    callback: Callback | None = None,
) -> tuple[Posterior, Solution]:
    """Condition the process on ``targets`` (N, M)."""
    solution = solve(operator, noise, targets, options, rng, start=start, callback=callback)
    return Posterior(operator, noise, solution.values, targets, float(solution.residuals.max())), solution
