"""The search for hyperparameters that make the data likely."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy import optimize

from histogp._core.data import Array
from histogp._core.kernel_values import Hyperparameter
from histogp._core.likelihood import BoundName, Likelihood
from histogp._core.operators.contract import Matrix
from histogp._core.search.ard import search_weights
from histogp._core.search.feature_objective import FeatureObjective
from histogp._core.search.objectives import Bounded, Estimated, Exact, Objective
from histogp._core.search.priors import Priors
from histogp._core.search.quasi_newton import Minimum, minimize
from histogp._core.search.space import Coordinates, Data, Space, is_scale, is_weights
from histogp._core.solvers.problem import SolverOptions
from histogp._core.threads import single_threaded_blas

Method = Literal["bound", "gradient", "exact"]
Row = dict[str, float | Array]
# Samples of the first, exact search, and how many times more each further one uses.
FIRST_SAMPLES = 500
SAMPLES_FACTOR = 4
# Samples up to which the threads of BLAS are only in the way of ours.
MOST_SERIAL_SAMPLES = 2_000
# Hyperparameters with which Nelder and Mead's simplex still gets somewhere.
MOST_SIMPLEX_PARAMETERS = 20
# Steps that promise less, in units of the log-likelihood, are not worth an evaluation: of an estimate or bound, on a
# subset, of the exact likelihood.
SMALLEST_GAIN = 0.5
SUBSET_GAIN = 2.0
EXACT_GAIN = 1e-3
# Weights below this part of the largest become zero.
NEGLIGIBLE_WEIGHT_SHARE = 1e-4
# How far other starts lie from the given one, in logarithms.
START_SPREAD = 2.0


@dataclass(frozen=True)
class OptimizationOptions:
    """What users can say; see `histogp.Optimizer`. A search that is ``warm`` starts close to where it will end."""

    method: Method
    solver: SolverOptions
    bound: BoundName = "tightest"
    n_starts: int = 1
    max_steps: int = 200
    sparsity: float = 0.5
    prior_width: float | None = 1.0
    n_probes: int | None = None
    warm: bool = False


@dataclass(frozen=True, eq=False)
class Optimum:
    """theta : the best point; value, error : its likelihood, NaN if it was seen on a subset only;
    alpha : the solution there, or near; path : all evaluations.
    """

    theta: Array
    value: float
    error: float
    alpha: Array | None
    path: list[Row]
    interrupted: bool
    converged: bool


class StoppedError(Exception):
    """The caller has seen enough."""


def optimize_likelihood(
    data: Data,
    space: Space,
    options: OptimizationOptions,
    rng: np.random.Generator,
    report: Callable[[Row], bool] | None = None,
) -> Optimum:
    """Search the space. An interrupt ends the search, not the work: the best point so far counts.

    ``report`` sees every evaluation and returns true to stop.
    """
    search = _Search(data, space, options, rng, report)
    interrupted = False
    few_threads = not search.by_features and (
        options.method != "exact" or data.operator.n_samples <= MOST_SERIAL_SAMPLES
    )
    try:
        with single_threaded_blas() if few_threads else nullcontext():
            search.run()
    except (KeyboardInterrupt, StoppedError):
        if search.best is None:
            raise KeyboardInterrupt from None
        interrupted = True
    if search.best is None:
        raise ValueError(f"No hyperparameters near those given can be evaluated: {search.failure}")
    theta, result = search.best
    value, error, alpha = (np.nan, np.nan, None) if result is None else (result.value, result.error, result.alpha)
    return Optimum(theta, value, error, alpha, search.path, interrupted, search.converged)


class _Search:
    """best : the best point of the whole space so far, with its likelihood unless that is of a subset.
    failure : why the last point without a likelihood has none.
    """

    def __init__(
        self,
        data: Data,
        space: Space,
        options: OptimizationOptions,
        rng: np.random.Generator,
        report: Callable[[Row], bool] | None,
    ):
        """Choose the subset to start with, the priors and the objective; nothing is evaluated yet."""
        self.data = data
        self.space = space
        self.options = options
        self.rng = rng
        self.report = report
        self.path: list[Row] = []
        self.best: tuple[Array, Likelihood | None] | None = None
        self.best_value = -np.inf
        self.failure = "their likelihood is not finite."
        self.converged = True
        self.n_samples = data.operator.n_samples
        self.priors = Priors(data, options.prior_width, space.noise)
        self.first_data = data if self.n_samples <= FIRST_SAMPLES else self.subset(FIRST_SAMPLES)
        finds_weights = any(is_weights(one.name) for one in space.free)
        self.by_features = (
            FeatureObjective.suits(data.operator)
            if finds_weights
            else FeatureObjective.suits_scale(data.operator, data.noise)
        )
        self.objective = self.make_objective()

    def make_objective(self) -> Objective:
        """The likelihood to maximize."""
        options = self.options
        if options.method == "bound":
            return Bounded(self.data, options.bound, options.solver, int(self.rng.integers(2**31)))
        if self.by_features:
            return FeatureObjective(self.data)
        if options.method == "exact" or self.first_data is self.data or self.has_matrix():
            return Exact(self.data)
        return self.make_estimated(self.data)

    def run(self) -> None:
        """Search the whole space; weights begin with one scale for all, and the smallest become zero at last."""
        if self.options.method == "bound" and len(self.space.start) > MOST_SIMPLEX_PARAMETERS:
            raise ValueError(
                f'optimize="bound" cannot search {len(self.space.start)} hyperparameters, at most '
                f'{MOST_SIMPLEX_PARAMETERS}; optimize="gradient" can.'
            )
        weights = [one for one in self.space.free if is_weights(one.name)]
        if not weights:
            self.search_few(self.space, self.space.start)
            return
        theta = self.space.start
        unit: Any = 1.0
        if [one.name for one in weights] == ["weights"] and not any(is_scale(one.name) for one in self.space.free):
            # First one scale for all weights: a place to start from, and the unit of the prior.
            common = replace(self.space, free=_with_one_weight(self.space.free))
            theta = self.search_few(common, common.start)
            if self.best is None:
                return
            unit = common.values(theta)["scale"]
            theta = self.to_whole_space(common, theta)
        rates = self.options.sparsity / (unit * np.concatenate([one.start for one in weights]))
        self.priors.rates = rates
        self.best_value = -np.inf  # from here on with the prior
        if self.objective.nearby is not None:
            self.converged &= search_weights(
                self.objective,
                self.space,
                theta,
                rates,
                gain=SMALLEST_GAIN,
                max_steps=self.options.max_steps,
                record=lambda x, result, value: self.record_evaluation(self.space, x, result, value),
            )
        else:
            self.search_few(self.space, theta)
        if self.best is not None:
            self.prune_weights(self.best[0])

    def search_few(self, space: Space, start: Array) -> Array:
        """Search a space of few hyperparameters by the method that suits them; the theta found."""
        coordinates = Coordinates(space, self.first_data.operator, self.priors.mean_square)
        begin = coordinates.from_theta(start)
        if not self.options.warm:
            begin = self.priors.sensible_start(coordinates, begin)
        if self.options.method == "bound":
            x = self.search_by_simplex(coordinates, begin)
        elif any(map(is_weights, coordinates.names)):
            x = self.search_by_derivatives(coordinates, begin)
        else:
            x = self.search_growing_subsets(coordinates, begin)
        return coordinates.to_theta(x)

    def search_by_simplex(self, coordinates: Coordinates, start: Array) -> Array:
        """Nelder and Mead's method, which needs no derivatives."""
        return self.find_best_of(
            coordinates,
            start,
            lambda begin: optimize.minimize(
                lambda x: self.evaluate(self.objective, coordinates, x)[0],
                np.clip(begin, *coordinates.bounds.T),
                method="Nelder-Mead",
                bounds=coordinates.bounds,
                options={
                    "initial_simplex": _simplex_around(begin, coordinates.bounds),
                    "maxfev": self.options.max_steps,
                    "xatol": 0.05,
                    "fatol": SMALLEST_GAIN,
                },
            ),
        )

    def search_by_derivatives(self, coordinates: Coordinates, start: Array) -> Array:
        """Many hyperparameters with exact derivatives: L-BFGS-B."""
        worst = 0.0

        def function(x: Array) -> tuple[float, Array]:
            nonlocal worst
            value, slope = self.evaluate(self.objective, coordinates, x)
            if not np.isfinite(value):
                return 10 * worst + 1e6, slope
            worst = max(worst, abs(value))
            return value, slope

        return self.find_best_of(
            coordinates,
            start,
            lambda begin: optimize.minimize(
                function,
                begin,
                jac=True,
                method="L-BFGS-B",
                bounds=coordinates.bounds,
                options={"maxfun": self.options.max_steps, "gtol": 1e-2, "ftol": 1e-9},
            ),
        )

    def find_best_of(self, coordinates: Coordinates, start: Array, search: Callable[[Array], Any]) -> Array:
        """The best result of SciPy's searches from all starts."""
        found = min((search(begin) for begin in self.draw_starts(coordinates, start)), key=lambda result: result.fun)
        self.converged &= bool(found.nfev < self.options.max_steps)
        return found.x

    def search_growing_subsets(self, coordinates: Coordinates, start: Array) -> Array:
        """Exactly on a small subset, then with more samples and at last all, each time from what was found before."""
        grows = self.options.method == "gradient" and self.has_matrix() and self.first_data is not self.data
        in_one_step = self.options.warm or (self.objective.is_exact and not grows)
        objective: Objective = self.objective if in_one_step else Exact(self.first_data)
        size = objective.data.operator.n_samples
        hessian = np.diag(self.guess_stiffness(coordinates, size))
        starts = [start] if self.options.warm else self.draw_starts(coordinates, start)
        found = min(
            (self.search_by_newton_steps(objective, coordinates, begin, hessian) for begin in starts),
            key=lambda minimum: minimum.value,
        )
        while size < self.n_samples:
            larger = SAMPLES_FACTOR * size if SAMPLES_FACTOR**2 * size <= self.n_samples else self.n_samples
            objective = self.objective if larger == self.n_samples else self.make_estimated(self.subset(larger))
            self.best_value = -np.inf  # those of fewer samples do not compare
            found = self.search_by_newton_steps(objective, coordinates, found.x, found.hessian * larger / size)
            size = larger
        self.converged &= found.converged
        return found.x

    def search_by_newton_steps(
        self, objective: Objective, coordinates: Coordinates, start: Array, hessian: Array
    ) -> Minimum:
        """The minimum found by quasi-Newton steps from ``start``, as exactly as the objective allows."""
        # What a warm search could still gain by exact steps is less than the next samples will change.
        grown = self.has_matrix() and self.first_data is not self.data
        is_exact = objective.is_exact and not self.options.warm and not grown
        gain = SUBSET_GAIN if objective is not self.objective else EXACT_GAIN if is_exact else SMALLEST_GAIN
        return minimize(
            lambda x: self.evaluate(objective, coordinates, x),
            start,
            coordinates.bounds,
            hessian,
            max_evaluations=self.options.max_steps,
            gain=gain,
            confirm=is_exact,
        )

    def guess_stiffness(self, coordinates: Coordinates, n_samples: int) -> Array:
        """A first guess of the second derivatives of the likelihood: large for the noise, small for a transform."""
        return n_samples * self.data.targets.shape[1] * np.where(coordinates.names == "noise", 1 / 4, 1 / 40)

    def has_matrix(self) -> bool:
        """Whether a matrix is at hand, so that the exact likelihood takes little more than a product."""
        return self.data.operator.offer(Matrix) is not None

    def subset(self, size: int) -> Data:
        return self.data.subset(np.sort(self.rng.choice(self.n_samples, size, replace=False)))

    def make_estimated(self, data: Data) -> Estimated:
        return Estimated(data, self.options.n_probes, self.options.solver, int(self.rng.integers(2**31)))

    def draw_starts(self, coordinates: Coordinates, start: Array) -> list[Array]:
        others = [
            np.clip(start + self.rng.uniform(-START_SPREAD, START_SPREAD, len(start)), *coordinates.bounds.T)
            for _ in range(self.options.n_starts - 1)
        ]
        return [start, *others]

    def prune_weights(self, theta: Array) -> None:
        """Weights that do not matter become exactly zero, unless the likelihood falls."""
        parts = []
        for one, values in self.space.parts(theta):
            relative = values / one.start
            keep = (not is_weights(one.name)) | (relative >= NEGLIGIBLE_WEIGHT_SHARE * relative.max())
            parts.append(np.where(keep, np.log(values), -np.inf))
        pruned = np.concatenate(parts)
        before, after = (self.evaluate_if_possible(self.objective, self.space, point) for point in (theta, pruned))
        if before is None or after is None:
            return
        worth = after.value >= before.value - SMALLEST_GAIN
        self.record_evaluation(self.space, pruned if worth else theta, after if worth else before, np.inf)

    def evaluate_if_possible(self, objective: Objective, space: Space, theta: Array) -> Likelihood | None:
        """The likelihood, or None where it cannot be computed, for instance with too little noise."""
        try:
            result = objective(space, theta)
        except ValueError as error:  # LinAlgError is one
            self.failure = str(error)
            return None
        return result if np.isfinite(result.value) else None

    def evaluate(self, objective: Objective, coordinates: Coordinates, x: Array) -> tuple[float, Array]:
        """What is minimized, and its derivative."""
        space, theta = coordinates.space, coordinates.to_theta(x)
        result = self.evaluate_if_possible(objective, space, theta)
        if result is None:
            return np.inf, np.zeros_like(x)
        penalty, its_slope = self.priors.penalty(coordinates, theta)
        value = result.value - penalty
        self.record_evaluation(space, theta, result, value, objective.data.operator.n_samples)
        if not result.data_fit_gradient:
            return -value, np.empty(0)
        return -value, coordinates.slope(theta, its_slope - space.gradient(theta, result.derivatives))

    def record_evaluation(
        self, space: Space, x: Array, result: Likelihood, penalized: float, n_samples: int | None = None
    ) -> None:
        """Append an evaluation to the path, remember it if it is the best, and let the caller stop."""
        theta = self.to_whole_space(space, x)
        row: Row = {
            "log_marginal_likelihood": result.value,
            "standard_error": result.error,
            "n_samples": n_samples or self.n_samples,
            "n_products": result.n_products,
        }
        for one, values in self.space.parts(theta):
            if is_weights(one.name):
                relative = values / one.start
                row[one.name.removesuffix("weights") + "n_weights"] = int(
                    np.sum(relative >= NEGLIGIBLE_WEIGHT_SHARE * relative.max())
                )
            else:
                row[one.name] = float(values[0]) if one.value_of is None else values
        self.path.append(row)
        if penalized >= self.best_value:
            self.best_value = penalized
            complete = n_samples is None or n_samples == self.n_samples
            self.best = theta, result if complete else None
        if self.report is not None and self.report(row):
            raise StoppedError

    def to_whole_space(self, space: Space, x: Array) -> Array:
        """A point of the space with a common weight as one of the whole space."""
        if space is self.space:
            return x
        given = space.values(x)
        return np.log(
            np.concatenate(
                [one.start * given["scale"] if one.name == "weights" else given[one.name] for one in self.space.free]
            )
        )


def _with_one_weight(free: tuple[Hyperparameter, ...]) -> tuple[Hyperparameter, ...]:
    return tuple(Hyperparameter("scale", np.ones(1), one.bounds) if one.name == "weights" else one for one in free)


def _simplex_around(x: Array, bounds: Array) -> Array:
    """x and a point half a unit away in each direction, within the bounds; (p + 1, p)."""
    x = np.clip(x, *bounds.T)
    steps = np.where(x + 0.5 <= bounds[:, 1], 0.5, -0.5)
    return np.vstack([x, x + np.diag(steps)])
