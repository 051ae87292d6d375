"""The posterior of a Gaussian process: training targets in, predictive means out."""

from __future__ import annotations

from typing import Any

import numpy as np

from histogp.kernels import ResolvedKernel
from histogp.operators.base import Grid, KernelOperator
from histogp.posterior.lazy import Lazy
from histogp.posterior.likelihood import BoundName, Likelihood, exact_likelihood
from histogp.posterior.objectives import Data, bound_of, quadrature_of
from histogp.posterior.quantized import QuantizedMean
from histogp.solvers.cholesky import is_small
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

    def variance_shares(self) -> Array:
        """The part that each dimension has in the trace of K, (D,)."""
        traces = self.operator.traces()
        return traces / max(traces.sum(), np.finfo(float).tiny)

    def log_likelihood(
        self,
        kernel: ResolvedKernel | None,
        noise_factor: float,
        method: str,
        options: SolverOptions,
        seed: int,
        *,
        bound: BoundName,
        n_probes: int | None,
        max_error: float | None,
    ) -> Likelihood:
        """The likelihood of the targets, also under another kernel or noise."""
        operator = self.operator if kernel is None else self.operator.with_kernel(kernel)
        data = Data(operator, self.noise.scaled(noise_factor), self.targets)
        if method == "auto":
            method = "exact" if is_small(operator.n_rows, data.n_matrices) else "quadrature"
        if method == "exact":
            return exact_likelihood(operator, data.noise, self.targets)
        if method == "bound":
            return bound_of(data, bound, options, seed, start=self.alpha)
        if method == "quadrature":
            return quadrature_of(data, n_probes, options, seed, max_error)
        raise ValueError(f"Unknown method {method!r}; known are 'auto', 'exact', 'bound' and 'quadrature'.")

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
