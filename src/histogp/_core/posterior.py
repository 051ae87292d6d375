"""The posterior of a Gaussian process: training targets in, predictive means out."""

from __future__ import annotations

from typing import Any

import numpy as np

from histogp._core.data import Array, Rows
from histogp._core.kernel_values import KernelValue
from histogp._core.layouts import Grid
from histogp._core.likelihood import BoundName, Likelihood, exact_likelihood
from histogp._core.operators.contract import KernelOperator
from histogp._core.predictors import QuantizedMean, Table
from histogp._core.probability import Dirichlet, codes_of, fit_temperature, leave_one_out
from histogp._core.search.feature_objective import Primal
from histogp._core.search.objectives import Data, bound_of, quadrature_of
from histogp._core.solvers.factors import SMALL_N, is_primal, is_small
from histogp._core.solvers.problem import Callback, Noise, Solution, SolverOptions
from histogp._core.solvers.system import System
from histogp._core.variance.calibrated import FEWEST
from histogp._core.variance.methods import KEPT_VARIANCES, VarianceMethod, VarianceOptions, Variances

Tables = dict[str, tuple[Any, Any]]
# Up to here kernel values are quicker than looking positions up.
FEW_ROWS = 256
KEPT = (*KEPT_VARIANCES, "temperature", "feature-weights")


class Posterior:
    """Immutable. What is prepared lazily lives behind a lock, so that threads may share it.

    alpha : (N, M), the solution of ``(K + diag(noise)) alpha = targets`` (gp-hik-ijcv2016, eq. 2).
    targets : (N, M).
    residual : the largest residual of the solution, relative to the largest target of its problem.
    seed : of all random choices that are made later.
    system : what has solved for alpha, where it is worth keeping for updates; not copied, and in no file.
    tables : what was prepared before, by name, for instance in the life that a file has saved; see `tables`.
    """

    def __init__(
        self,
        operator: KernelOperator,
        noise: Noise,
        alpha: Array,
        targets: Array,
        residual: float,
        seed: int = 0,
        tables: Tables | None = None,
        system: System | None = None,
    ):
        self.operator = operator
        self.noise = noise
        self.alpha = alpha
        self.targets = targets
        self.residual = residual
        self.seed = seed
        self.system = system
        self.variances = Variances(operator, noise, seed, system)
        self._prepared = self.variances.prepared
        for name, (version, value) in (tables or {}).items():
            self._prepared.put(name, value, version)
        self.variances.asked_for_calibrated = "calibrated" in (tables or {})

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in vars(self).items() if name not in ("_prepared", "variances", "system")}
        return {**state, "tables": self.tables()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    @property
    def kernel(self) -> KernelValue:
        return self.operator.kernel

    @property
    def has_tables(self) -> bool:
        """Whether the mean can be read from tables over features."""
        return self.operator.rank is None

    def tables(self) -> Tables:
        """What was prepared so far and is worth keeping: versions and values by name."""
        self._feature_weights()
        found = {name: self._prepared.present(name) for name in KEPT}
        wanted = {name: entry for name, entry in found.items() if entry is not None}
        if not self.variances.asked_for_calibrated:
            wanted.pop("calibrated", None)  # large, and only made for probabilities
        return wanted

    def mean(self, rows: Rows, n_threads: int = 1) -> Array:
        """``k(x)^T alpha`` for each test row, (n, M)."""
        if self.operator.n_rows <= FEW_ROWS and self.operator.rank is None:
            out = np.empty((rows.n_rows, self.alpha.shape[1]))
            for some, kernel in self.operator.cross(rows):
                out[some] = kernel @ self.alpha
            return out
        table = self._prepared.get("table", self._table)
        return table.evaluate(rows, n_threads)

    def _table(self) -> Table:
        weights = self._feature_weights()
        return self.operator.table(self.alpha) if weights is None else self.operator.predictor(weights)

    def prepare_features(self) -> None:
        """Make the weights of features now, if there are any: while the operator still keeps the features."""
        self._feature_weights()

    def _feature_weights(self) -> Array | None:
        """The weights of features in the mean, if there are any: better than from alpha, where noise is tiny."""
        system = self.system
        if system is not None and system.primal:
            return self._prepared.get("feature-weights", lambda: system.feature_weights(self.targets))
        present = self._prepared.present("feature-weights")
        return None if present is None else present[1]

    def quantized(self, grid: Grid) -> QuantizedMean:
        """The mean on a grid, tabulated when a grid is asked for that was not the last one."""
        version = (grid.n_bins, grid.uniform, None if grid.upper is None else grid.upper.tobytes())
        return self._prepared.get("quantized", lambda: self._quantize(grid), version)

    def prior_variance(self, rows: Rows) -> Array:
        """``K(x, x)`` for each test row, (n,)."""
        return self.operator.cross_diagonal(rows)

    def latent_variance(
        self, rows: Rows, method: VarianceMethod, options: VarianceOptions, solver: SolverOptions
    ) -> Array:
        """The variance of the latent function at test rows; see `Variances`."""
        return self.variances.latent(rows, method, options, solver)

    def calibration_error(self, solver: SolverOptions) -> float:
        """The relative error of the calibrated variance."""
        if self.operator.n_rows < FEWEST or self.operator.rank is not None:
            return 0.0
        return self.variances.table("calibrated", VarianceOptions(), solver).error

    def leave_one_out(self, solver: SolverOptions) -> tuple[Array, Array, Array]:
        """Numbers of training rows, and means and latent variances that they have without themselves."""
        return leave_one_out(self.variances, self.targets, self.alpha, solver)

    def temperature(self, solver: SolverOptions) -> float:
        """The factor that makes scores the logarithms of probabilities, up to a constant."""
        return self._prepared.get("temperature", lambda: self._fit_temperature(solver))

    def dirichlet(self, solver: SolverOptions) -> Dirichlet:
        """Another posterior, made for probabilities."""
        codes = codes_of(self.targets)
        n_classes = max(self.targets.shape[1], 2)
        weights = self.noise.sample.mean() / self.noise.sample
        return self._prepared.get(
            "dirichlet", lambda: Dirichlet.build(self.operator, codes, n_classes, weights, solver, self.seed)
        )

    def updated(
        self,
        operator: KernelOperator,
        rows: Rows,
        noise: Noise,
        targets: Array,
        options: SolverOptions,
        start: Array | None,
    ) -> tuple[Posterior, Solution]:
        """Condition on targets of the operator with further ``rows``, perhaps none, after those that are there."""
        system = None if self.system is None else self.system.using(options).updated(operator, rows, noise)
        rng = np.random.default_rng(self.seed)
        found = fit_posterior(
            operator, noise, targets, options, rng, seed=self.seed, start=start, system=system, keep=True
        )
        if found[1].converged or system is None:
            return found
        # What was right for the rows before is not for these.
        start = found[0].alpha
        return fit_posterior(operator, noise, targets, options, rng, seed=self.seed, start=start, keep=True)

    def log_likelihood(
        self,
        kernel: KernelValue | None,
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
        if is_primal(operator) and method in ("auto", "exact"):
            return Primal(data).at(operator.kernel.weights, 1.0, derivatives=False)
        if method == "auto":
            method = "exact" if is_small(operator.n_rows, data.n_matrices) else "quadrature"
        if method == "exact":
            return exact_likelihood(operator, data.noise, self.targets)
        if method == "bound":
            return bound_of(data, bound, options, seed, start=self.alpha)
        if method == "quadrature":
            return quadrature_of(data, n_probes, options, seed, max_error)
        raise ValueError(f"Unknown method {method!r}; known are 'auto', 'exact', 'bound' and 'quadrature'.")

    def _fit_temperature(self, solver: SolverOptions) -> float:
        index, means, _ = self.leave_one_out(solver)
        return fit_temperature(means, codes_of(self.targets)[index], 1 / self.noise.sample[index])

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
    seed: int = 0,
    start: Array | None = None,
    callback: Callback | None = None,
    system: System | None = None,
    keep: bool = False,
) -> tuple[Posterior, Solution]:
    """Condition the process on ``targets`` (N, M).

    ``system`` is that of the operator and noise, if it is there already. The posterior keeps it if ``keep`` says that
    updates will follow; if it is a single dense factor also without.
    """
    if system is None:
        system = System.build(operator, noise, targets.shape[1], options, rng)
    solution = system.solve(targets, options.tol, start=start, callback=callback, verify=True)
    residual = float(solution.residuals.max())
    if not (np.isfinite(residual) and np.all(np.isfinite(solution.values))):
        raise ValueError("The solution overflows; scale features, targets and weights to moderate values.")
    is_light = len(system.factors) == 1 and (operator.n_rows <= SMALL_N or bool(system.primal))
    kept = system if keep or is_light else None
    posterior = Posterior(operator, noise, solution.values, targets, residual, seed, system=kept)
    posterior.prepare_features()
    return posterior, solution
