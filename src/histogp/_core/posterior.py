"""The posterior of a Gaussian process: training targets in, means and variances out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from histogp._core.data import Array, Rows
from histogp._core.kernel_values import KernelValue
from histogp._core.layouts import Grid, Reading
from histogp._core.likelihood import BoundName, Likelihood, exact_likelihood
from histogp._core.operators.contract import (
    Features,
    KernelOperator,
    Pairwise,
    Tables,
    cross_blocks,
    require,
    tuning_of,
    updates_of,
)
from histogp._core.predict_only import Predictor, read_tables, write_features, write_tables
from histogp._core.predictors import QuantizedMean, Table, codes_of
from histogp._core.probability import (
    FREQUENCIES,
    Dirichlet,
    DirichletProblem,
    LeftOut,
    Link,
    fit_link,
    fit_temperature,
    leave_rows_out,
    log_probabilities,
)
from histogp._core.repeats import LabeledScores, come_again, fit_to_left_out
from histogp._core.search.feature_objective import FeatureObjective
from histogp._core.search.objectives import bound_of, quadrature_of
from histogp._core.search.space import Data
from histogp._core.solvers import build_system, system_kind, update_system
from histogp._core.solvers.factors import FeatureFactor
from histogp._core.solvers.problem import (
    LARGEST_FACTOR,
    MOST_DENSE_SAMPLES,
    Callback,
    Noise,
    Solution,
    SolverOptions,
    TrainingTargets,
    factors_pay,
)
from histogp._core.solvers.system import MOST_OUTPUTS, System
from histogp._core.support import SupportMean, quantized_mean
from histogp._core.threads import Lazy, Versions
from histogp._core.variance import METHODS, Shape, Variance, VarianceMethod, VarianceOptions
from histogp._core.variance.precise import shortfall_of
from histogp.errors import ModelFileError
from histogp.io.schema import Reader, Writer

# Training samples up to which kernel values are quicker than looking positions up.
MOST_DIRECT_SAMPLES = 256
# The tolerance of systems for variances: the rank of a preconditioner depends on it.
VARIANCE_TOL = 1e-3


@dataclass(frozen=True, eq=False)
class PredictionOptions:
    """How a model predicts, as its parameters are now.

    grid : of quantized prediction; None is exact prediction
    interpolation : how its table is read
    """

    variance: VarianceOptions
    grid: Grid | None
    interpolation: Reading

    def mean(self, posterior: Posterior | Predictor, rows: Rows) -> Array:
        """Posterior means at test rows, (n, M)."""
        n_threads = self.variance.solver.n_threads
        if self.grid is None:
            return posterior.mean(rows, n_threads)
        return posterior.quantized(self.grid).mean(rows, self.interpolation, n_threads)


class Posterior:
    """Immutable. What is prepared lazily lives behind a lock, so that threads may share it.

    N are the rows of the operator, one for all samples with the same features.

    given : what the samples say, and with that ``targets`` (N, M) and ``noise`` of the rows.
    alpha : (N, M), the solution of ``(K + diag(noise)) alpha = targets`` (gp-hik-ijcv2016, eq. 2).
    residual : the largest residual of the solution, relative to the largest target of its output.
    seed : of all random choices that are made later.
    system : what has solved for alpha, where it is worth keeping for updates; not copied, and in no file.
    tables : what was prepared before and restored from a file or a copy: versions and values by name.
    """

    includes_training = True

    def __init__(
        self,
        operator: KernelOperator,
        given: TrainingTargets,
        alpha: Array,
        residual: float,
        seed: int = 0,
        tables: Versions | None = None,
        system: System | None = None,
    ):
        """Keep the solution; nothing is computed until it is asked for."""
        self.operator = operator
        self.given = given
        self.alpha = alpha
        self.residual = residual
        self.seed = seed
        self.kept_system = system
        self.lazy = Lazy()
        for name, (version, value) in (tables or {}).items():
            self.lazy.put(name, value, version, keep=True)
        if system is not None and system.serves_any and given.noise.n_matrices == 1:
            self.lazy.put(f"system-{system.options.solver}", system, MOST_OUTPUTS)

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in vars(self).items() if name not in ("lazy", "kept_system")}
        return {**state, "tables": self.tables()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def without_system(self) -> Posterior:
        """The posterior without what has solved for alpha, unless that takes little memory."""
        if self.kept_system is None or self.kept_system.is_light:
            return self
        return Posterior(self.operator, self.given, self.alpha, self.residual, self.seed, self.tables())

    def to_state(self, writer: Writer) -> None:
        """Write the training samples, the solution, and what was prepared into a model file."""
        self.operator.to_state(writer.child("data"))
        writer.put("alpha", self.alpha)
        self.given.noise.to_state(writer.child("noise"))
        write_tables(self, writer, include_training=True)
        weights = self.lazy.present("feature-weights")
        if weights is not None:
            writer.put("feature_weights", weights)

    @classmethod
    def from_state(
        cls,
        reader: Reader,
        operator: KernelOperator,
        targets: Array,
        residual: float,
        row_of: Array | None = None,
        unit: float = 1.0,
        group_of: Array | None = None,
        repeats: Array | None = None,
        has_labels: bool = False,
    ) -> Posterior:
        """The posterior of targets (n_samples, M) in a model file; believes nothing.

        row_of, unit, group_of, repeats, has_labels : as `TrainingTargets` has them
        """
        n_rows, n_outputs = operator.n_samples, targets.shape[1]
        alpha = reader.array("alpha", np.float64, (n_rows, n_outputs))
        noise = Noise.from_state(reader.child("noise"), targets)
        given = TrainingTargets(targets, noise, row_of, unit, None, group_of, repeats, has_labels)
        seed, tables = read_tables(reader, Shape(operator.kernel, n_rows))
        if reader.has("feature_weights"):
            features = operator.offer(Features)
            if features is None:
                raise ModelFileError("its weights are not those of its kernel.")
            weights = reader.array("feature_weights", np.float64, (features.n_components, n_outputs))
            tables["feature-weights"] = (None, weights)
        return cls(operator, given, alpha, residual, seed, tables)

    def predictor_to_state(self, writer: Writer, grid: Grid | None) -> None:
        """Write what predicts without the training samples into a model file: `Predictor.from_state` reads it.

        grid : of quantized prediction, for operators without features
        """
        features = self.operator.offer(Features)
        if features is None:
            assert grid is not None
            self.quantized(grid).to_state(writer.child("table"))
        elif features.n_components > LARGEST_FACTOR:
            raise ValueError(
                f"A model of {features.n_components:,} features needs its training samples: save them too."
            )
        else:
            factor, weights = FeatureFactor.of(self.operator, self.largest_noise), self.lazy.present("feature-weights")
            weights = features.project(self.alpha) if weights is None else weights
            write_features(writer.child("features"), weights, factor)
        write_tables(self, writer, include_training=False)

    def with_training(self) -> Posterior:
        """The posterior itself: it has its training samples."""
        return self

    @property
    def kernel(self) -> KernelValue:
        """The frozen value of the kernel."""
        return self.operator.kernel

    @property
    def noise(self) -> Noise:
        """The noise of the rows."""
        return self.given.row_noise

    @property
    def targets(self) -> Array:
        """The targets of the rows, (N, M)."""
        return self.given.row_targets

    def tables(self) -> Versions:
        """What was prepared so far and is worth keeping in files and copies: versions and values by name."""
        return self.lazy.kept()

    @property
    def largest_noise(self) -> Array:
        """The noise of each row, from the largest ones of samples where outputs have their own, (N,)."""
        return self.given.largest_row_noise

    def mean(self, rows: Rows, n_threads: int = 1) -> Array:
        """``k(x)^T alpha`` for each test row, (n, M)."""
        operator = self.operator
        if operator.n_samples <= MOST_DIRECT_SAMPLES and operator.offer(Features) is None:
            out = np.empty((rows.n_rows, self.alpha.shape[1]))
            for some, kernel in cross_blocks(operator, rows):
                out[some] = kernel @ self.alpha
            return out
        return self.lazy.get("table", self._mean_table).evaluate(rows, n_threads)

    def _mean_table(self) -> Table:
        weights = self.lazy.present("feature-weights")
        if weights is None:
            return self.operator.table(self.alpha)
        return require(self.operator, Features, "A table of weights").from_weights(weights)

    def quantized(self, grid: Grid) -> QuantizedMean | SupportMean:
        """The mean on a grid, tabulated when a grid is asked for that was not the last one; or by some samples."""
        kind = quantized_mean(self.operator)
        return self.lazy.get("quantized", lambda: self._quantize(grid), kind.version(grid))

    def prior_variance(self, rows: Rows) -> Array:
        """``K(x, x)`` for each test row, (n,)."""
        return self.operator.diagonal(rows)

    def variance(self, rows: Rows, method: str, options: VarianceOptions) -> Variance:
        """The variance of the latent function at test rows, (n,), or (n, k) for k numbers of eigenvectors."""
        chosen = METHODS[method]
        other = chosen.instead(self.operator)
        return (chosen if other is None else METHODS[other]).variance(self, rows, options)

    def variance_per_output(self, rows: Rows, options: VarianceOptions) -> Variance:
        """The precise variance with the noise that each output has, (n, n_outputs)."""
        n_outputs = self.alpha.shape[1]
        if self.noise.n_matrices == 1:
            found = self.variance(rows, "precise", options)
            return Variance(np.broadcast_to(found.values[:, None], (rows.n_rows, n_outputs)), found.shortfall)
        system = self.systems(options.solver)
        values, excess = system.latent_variance(rows, options.tol)
        return Variance(values, shortfall_of(system, excess))

    def covariance(self, rows: Rows, options: VarianceOptions) -> Variance:
        """The covariance of the latent function for all pairs of test rows, (n, n)."""
        system = self.system(rows.n_rows, options.solver)
        values, excess = system.covariance(rows, options.tol)
        return Variance(values, shortfall_of(system, excess))

    def quick_method(self) -> str:
        """The best quick way to the variance itself."""
        if self.operator.offer(Tables) is not None:
            return "calibrated" if self.operator.n_samples > MOST_DENSE_SAMPLES else "precise"
        return self.usual_method()

    def usual_method(self) -> str:
        """The variance itself, or the best bound where that takes too long."""
        return "nearest" if self.operator.has_large_matrix else "precise"

    def calibration_error(self, options: VarianceOptions) -> tuple[float, str | None]:
        """The relative error of the variance "calibrated", zero where that is precise; and a shortfall, or None."""
        method = METHODS["calibrated"]
        if method.instead(self.operator) is not None:
            return 0.0, None
        tables = self.prepared(method, options)
        return tables.error, tables.shortfall

    def prepared(self, method: VarianceMethod, options: VarianceOptions, *, keep: bool = True) -> Any:
        """What a variance method makes once."""
        return self.lazy.get(
            method.name,
            lambda: method.prepare(self, options),
            None if method.option is None else getattr(options, method.option),
            keep=keep and not method.needs_training,
        )

    def system(self, n_outputs: int, options: SolverOptions) -> System:
        """What solves for ``n_outputs`` right-hand sides, with the largest noise of each sample."""
        noise = Noise(self.largest_noise)
        size = system_kind(self.operator, noise, options, n_outputs).size_for(n_outputs)
        make = lambda: self._build_system(noise, size, options)  # noqa: E731
        return self.lazy.get_at_least(f"system-{options.solver}", size, make).with_options(options)

    def systems(self, options: SolverOptions) -> System:
        """What solves for all outputs with the noise that each has."""
        if self.noise.n_matrices == 1:
            return self.system(1, options)
        make = lambda: self._build_system(self.noise, self.noise.n_matrices, options)  # noqa: E731
        return self.lazy.get(f"systems-{options.solver}", make).with_options(options)

    def _build_system(self, noise: Noise, n_outputs: int, options: SolverOptions) -> System:
        tight = replace(options, tol=min(options.tol, VARIANCE_TOL))
        return build_system(self.operator, noise, n_outputs, tight, np.random.default_rng(self.seed))

    def leave_one_out(self, options: VarianceOptions, *, units: bool = False) -> LeftOut:
        """Some training samples, and the means and latent variances that they would have if they were not there.

        Samples of a group are left out together.

        units : a weight counts like repeated samples, of which one is left out, or all if they are copies
        """
        found, given = leave_rows_out(self, options), self.given
        if given.group_of is not None or (units and not come_again(given.row_counts[:, None])):
            return found.repeated(given.row_of)
        is_whole = given.row_of is None and not (units and given.sample_counts.max() > 1)
        return found if is_whole else found.of_samples(given, self.alpha, units=units)

    def temperature(self, options: VarianceOptions) -> tuple[float, str | None]:
        """The factor that makes scores the logarithms of probabilities, up to a constant; and a shortfall, or None."""
        of_scores = lambda temperature, scores: log_probabilities(scores, temperature)  # noqa: E731
        return self._fitted_to_left_out("temperature", fit_temperature, of_scores, options)

    def link(self, options: VarianceOptions) -> tuple[Link, str | None]:
        """What makes probabilities of scores; and a shortfall, or None."""
        if self.operator.n_samples == 1:
            return self.lazy.get("link", lambda: FREQUENCIES, keep=True), None
        return self._fitted_to_left_out("link", fit_link, Link.log_probabilities, options)

    def _fitted_to_left_out(
        self, name: str, fit: Any, log_probabilities: Any, options: VarianceOptions
    ) -> tuple[Any, str | None]:
        """What `fit_to_left_out` makes of training samples, kept under a name; and a shortfall, or None."""
        found: list[LeftOut] = []

        def make() -> Any:
            found.append(leave_rows_out(self, options))
            rows, samples = self._readings_of(found[0])
            fitted = fit_to_left_out(fit, log_probabilities, rows, samples if self.given.group_of is None else None)
            if self.operator.has_large_matrix:
                self.operator.release()
            return fitted

        value = self.lazy.get(name, make, keep=True)
        return value, found[0].shortfall if found else None

    def _readings_of(self, rows: LeftOut) -> tuple[LabeledScores, Callable[[], LabeledScores]]:
        """Scores of samples whose rows were left out, with their labels; and what makes those of single samples."""
        given = self.given
        row_of = np.arange(len(given.targets)) if given.row_of is None else given.row_of
        index = np.flatnonzero(np.isin(row_of, rows.index))
        codes, weights, row_of = codes_of(given.targets)[index], given.weights[index], row_of[index]
        counts = given.sample_counts[index]

        def labeled(scores: Array) -> LabeledScores:
            return LabeledScores(scores, codes, weights, counts, row_of)

        single = lambda: labeled(rows.of_samples(given, self.alpha, units=True).means)  # noqa: E731
        return labeled(rows.means[np.searchsorted(rows.index, row_of)]), single

    def dirichlet(self, options: VarianceOptions) -> Dirichlet:
        """A second model, made for probabilities."""
        given, n_classes = self.given, max(self.targets.shape[1], 2)

        def make() -> Dirichlet:
            rng = np.random.default_rng(self.seed)
            codes = codes_of(given.targets)
            problem = DirichletProblem.build(self.operator, codes, n_classes, given.weights, given.row_of, rng)
            found, _ = condition(problem.operator, problem.given, options.solver, rng, seed=self.seed)
            problem.operator.release()
            return Dirichlet(found, problem.center)

        return self.lazy.get("dirichlet", make)

    def with_noise_times(self, factor: float, options: SolverOptions) -> tuple[Posterior, Solution]:
        """Condition on the same targets with all noise times a factor."""
        system = None if self.kept_system is None else self.kept_system.with_options(options).with_noise_times(factor)
        given, rng = self.given.scaled(factor), np.random.default_rng(self.seed)
        return condition(self.operator, given, options, rng, seed=self.seed, system=system, keep=True)

    def updated(
        self,
        operator: KernelOperator,
        rows: Rows,
        given: TrainingTargets,
        options: SolverOptions,
        start: Array | None,
    ) -> tuple[Posterior, Solution]:
        """Condition on targets of the operator with further ``rows``, perhaps none, after those that are there."""
        # Where further samples have brought another feature map, what was known is of no use.
        system = self.kept_system if operator.kernel is self.operator.kernel else None
        if system is not None:
            n_outputs = given.targets.shape[1]
            system = update_system(system.with_options(options), operator, rows, given.row_noise, n_outputs)
        rng = np.random.default_rng(self.seed)
        found = condition(operator, given, options, rng, seed=self.seed, start=start, system=system, keep=True)
        if found[1].converged or system is None:
            return found
        # What was right for the samples before is not for these.
        start = found[0].alpha
        return condition(operator, given, options, rng, seed=self.seed, start=start, keep=True)

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
        """The likelihood of all samples, also under another kernel (None: the present one) or noise."""
        operator = self.operator
        if kernel is not None:
            operator = tuning_of(operator).with_kernel(kernel)
        data = Data(operator, self.noise.scaled(noise_factor), self.targets)
        if method == "auto" and factors_pay(operator.n_samples, data.noise.n_matrices):
            method = "exact"
        if method in ("auto", "exact") and FeatureObjective.suits(operator, most_times=1):
            weights = require(operator, Features, "A likelihood by features").weights()
            found = FeatureObjective(data).at(weights, 1.0, derivatives=False)
        elif method == "exact":
            found = exact_likelihood(operator, data.noise, self.targets)
        elif method == "bound":
            found = bound_of(data, bound, options, seed, start=self.alpha)
        elif method in ("auto", "quadrature"):
            found = quadrature_of(data, n_probes, options, seed, max_error)
        else:
            raise ValueError(f"Unknown method {method!r}; known are 'auto', 'exact', 'bound' and 'quadrature'.")
        return replace(found, value=found.value + self.given.scaled(noise_factor).log_scatter())

    def _quantize(self, grid: Grid) -> QuantizedMean | SupportMean:
        """The mean on a grid, or by some of the samples for kernels that are evaluated pair by pair."""
        pairs = self.operator.offer(Pairwise)
        if pairs is not None:
            rows, n_threads = updates_of(self.operator).training_rows(), self.operator.n_threads
            means = self.targets - self.noise.diagonals() * self.alpha
            return SupportMean.build(pairs.pair_kernel, rows, self.alpha, means, grid, self.seed, n_threads)
        table = require(self.operator, Tables, 'prediction="quantized"').grid_table(self.alpha, grid)
        # ||alpha||_1 <= sqrt(N) ||alpha||_2, and the system that alpha solves has the right-hand side y - r.
        # The solution for all samples has the same residuals, and its norm is no smaller than that for the rows.
        targets, noise = self.given.targets, self.given.noise
        root = np.sqrt(len(targets))
        largest = np.abs(targets).max(axis=0)
        sides = np.linalg.norm(targets, axis=0) + root * self.residual * largest
        bounds = root * sides / noise.diagonals().min(axis=0)
        return QuantizedMean(table, grid, np.abs(self.alpha).sum(axis=0), bounds)


def condition(
    operator: KernelOperator,
    given: TrainingTargets,
    options: SolverOptions,
    rng: np.random.Generator,
    *,
    seed: int = 0,
    start: Array | None = None,
    callback: Callback | None = None,
    system: System | None = None,
    keep: bool = False,
) -> tuple[Posterior, Solution]:
    """Condition the process on what samples say, whose rows the operator has.

    ``system`` is that of the operator and noise, if it is there already. The posterior keeps it if ``keep`` says that
    updates will follow, or if that costs little.
    """
    targets = given.row_targets
    if system is None:
        system = build_system(operator, given.row_noise, targets.shape[1], options, rng)
    solution = system.solve(targets, options.tol, start=start, callback=callback, verify=True)
    residual = float(solution.relative_residuals.max())
    if not (np.isfinite(residual) and np.all(np.isfinite(solution.values))):
        raise ValueError("The solution overflows; scale features, targets and weights to moderate values.")
    kept = system if keep or system.is_light else None
    posterior = Posterior(operator, given, solution.values, residual, seed, system=kept)
    # Now, while the operator still keeps the features of the training samples; where noise is tiny, these weights are
    # better than those that follow from alpha.
    if (weights := system.mean_weights(targets)) is not None:
        posterior.lazy.put("feature-weights", weights, keep=True)
    return posterior, solution
