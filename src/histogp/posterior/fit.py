"""The posterior of a Gaussian process: training targets in, predictive means out."""

from __future__ import annotations

from typing import Any

import numpy as np

from histogp.operators.base import KernelOperator
from histogp.posterior.lazy import Lazy
from histogp.solvers.noise import Noise
from histogp.solvers.solution import Callback, Solution
from histogp.solvers.solve import SolverOptions, solve
from histogp.storage import Array, Rows


class Posterior:
    """Immutable. What is prepared lazily lives behind locks, so that threads may share it.

    alpha : (N, M), the solution of ``(K + diag(noise)) alpha = targets`` (gp-hik-ijcv2016, eq. 2).
    """

    def __init__(self, operator: KernelOperator, noise: Noise, alpha: Array):
        self.operator = operator
        self.noise = noise
        self.alpha = alpha
        self._table = Lazy(lambda: operator.table(alpha))

    def __getstate__(self) -> dict[str, Any]:
        return {"operator": self.operator, "noise": self.noise, "alpha": self.alpha}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def mean(self, rows: Rows, n_threads: int = 1) -> Array:
        """``k(x)^T alpha`` for each test row, (n, M)."""
        return self._table.get().evaluate(rows, n_threads)


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
    return Posterior(operator, noise, solution.values), solution
