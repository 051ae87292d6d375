"""The search for hyperparameters that make the data likely."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy import optimize
from scipy.linalg import LinAlgError

from histogp.hyperparameters import Hyperparameter, Space
from histogp.posterior.coordinates import Coordinates
from histogp.posterior.likelihood import BoundName, Likelihood
from histogp.posterior.objectives import Bounded, Data, Estimated, Exact, Objective
from histogp.posterior.quasi_newton import minimize
from histogp.solvers.blas import single_threaded_blas
from histogp.solvers.solve import SolverOptions
from histogp.storage import Array

Method = Literal["bound", "gradient", "exact"]
Row = dict[str, float | Array]

# Examples of the first, exact search, and by how many times more the next ones use.
SAMPLE = 500
LEVEL = 4
SMALL_MATRIX = 2_000
# Nelder and Mead's simplex does not get anywhere with more.
MAX_SIMPLEX = 20
# Steps that promise less, in units of the log-likelihood, are not worth an evaluation.
GAIN = 0.5
SAMPLE_GAIN = 2.0
# Weights below this part of the largest become zero.
PRUNE = 1e-4
# How far other starts lie from the given one, in logarithms.
SPREAD = 2.0
LONGEST_STEP = 2.0
FIRST_PACE = 0.05
_TINY = np.finfo(float).tiny
_IMPOSSIBLE = 1e12


@dataclass(frozen=True)
class OptimizationOptions:
    """What users can say; see `histogp.Optimizer`."""

    method: Method
    solver: SolverOptions
    bound: BoundName = "tightest"
    n_starts: int = 1
    max_steps: int = 100
    sparsity: float = 0.5
    prior_width: float | None = 1.0
    n_probes: int | None = None


@dataclass(frozen=True, eq=False)
class Optimum:
    """theta : the best point; value, error : its likelihood; alpha : the solution there, or near."""

    theta: Array
    value: float
    error: float
    alpha: Array | None
    path: list[Row]
    interrupted: bool


class StoppedError(Exception):
    """The caller has seen enough."""


def optimise(
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
    # Many small products: the threads of BLAS would only be in the way.
    few_threads = options.method != "exact" or data.operator.n_rows <= SMALL_MATRIX
    try:
        with single_threaded_blas() if few_threads else nullcontext():
            search.run()
    except (KeyboardInterrupt, StoppedError):
        if search.best is None:
            raise
        interrupted = True
    theta, result = search.best if search.best is not None else (space.start, None)
    if result is None:  # of a sample only, or of nothing
        return Optimum(theta, np.nan, np.nan, None, search.path, interrupted)
    return Optimum(theta, result.value, result.error, result.alpha, search.path, interrupted)


class _Search:
    def __init__(
        self,
        data: Data,
        space: Space,
        options: OptimizationOptions,
        rng: np.random.Generator,
        report: Callable[[Row], bool] | None,
    ):
        self.data = data
        self.space = space
        self.options = options
        self.rng = rng
        self.report = report
        self.path: list[Row] = []
        self.best: tuple[Array, Likelihood | None] | None = None
        self.best_value = -np.inf
        self.rate = 0.0  # of the prior of the weights
        self.n_examples = data.operator.n_rows
        self.mean_square = max(float(np.mean(data.targets**2)), _TINY)
        self.sample = data if self.n_examples <= self.sample_size() else self.subset(self.sample_size())
        self.objective = self.make_objective()

    def make_objective(self) -> Objective:
        options = self.options
        if options.method == "bound":
            return Bounded(self.data, options.bound, options.solver, int(self.rng.integers(2**31)))
        if options.method == "exact" or self.sample is self.data:
            return Exact(self.data)
        return self.estimated(self.data)

    def run(self) -> None:
        if self.options.method == "bound" and len(self.space.start) > MAX_SIMPLEX:
            raise ValueError(
                f'optimize="bound" cannot search {len(self.space.start)} hyperparameters, at most {MAX_SIMPLEX}; '
                'optimize="gradient" can.'
            )
        weights = next((one for one in self.space.free if one.name == "weights"), None)
        if weights is None:
            self.search_few(self.space, self.space.start)
            return
        # First one scale for all weights: a place to start from, and the unit of the prior.
        common = Space(self.space.kernel, self.space.n_features, tuple(map(_with_one_weight, self.space.free)))
        theta = self.search_few(common, common.start)
        self.rate = self.options.sparsity / common.values(theta)["scale"][0]
        theta = self.translate(common, theta)
        self.best_value = -np.inf  # from here on with the prior
        if isinstance(self.objective, Estimated):
            theta = self.search_weights(self.objective, theta)
        else:
            theta = self.search_few(self.space, theta)
        self.prune(theta)

    # Few hyperparameters -------------------------------------------------------------------------------------

    def search_few(self, space: Space, start: Array) -> Array:
        coordinates = Coordinates(space, self.sample.operator)
        begin = coordinates.from_theta(start)
        if self.options.method == "bound":
            x = self.simplex(coordinates, begin)
        elif isinstance(self.objective, Exact):
            x = self.descend(coordinates, begin)
        else:
            x = self.sample_first(coordinates, begin)
        return coordinates.to_theta(x)

    def simplex(self, coordinates: Coordinates, start: Array) -> Array:
        """Nelder and Mead's method, which needs no derivatives."""
        found = [
            optimize.minimize(
                lambda x: self.evaluate(self.objective, coordinates, x)[0],
                begin,
                method="Nelder-Mead",
                bounds=coordinates.bounds,
                options={
                    "initial_simplex": np.vstack([begin, begin + 0.5 * np.eye(len(begin))]),
                    "maxfev": self.options.max_steps,
                    "xatol": 0.05,
                    "fatol": GAIN,
                },
            )
            for begin in self.starts(coordinates, start)
        ]
        return min(found, key=lambda result: result.fun).x

    def descend(self, coordinates: Coordinates, start: Array) -> Array:
        """Exact values and derivatives: L-BFGS-B."""
        found = [
            optimize.minimize(
                lambda x: self.evaluate(self.objective, coordinates, x),
                begin,
                jac=True,
                method="L-BFGS-B",
                bounds=coordinates.bounds,
                options={"maxiter": self.options.max_steps, "gtol": 1e-2, "ftol": 1e-9},
            )
            for begin in self.starts(coordinates, start)
        ]
        return min(found, key=lambda result: result.fun).x

    def sample_first(self, coordinates: Coordinates, start: Array) -> Array:
        """Exactly on a small sample, then with more examples and at last all, each time from what was found before."""
        size, sample = self.sample.operator.n_rows, Exact(self.sample)
        x, hessian, _ = min(
            (
                self.newton(sample, coordinates, begin, size / 4 * np.eye(len(begin)))
                for begin in self.starts(coordinates, start)
            ),
            key=lambda result: result[2],
        )
        while size < self.n_examples:
            larger = LEVEL * size if LEVEL**2 * size <= self.n_examples else self.n_examples
            hessian *= larger / size
            size = larger
            objective = self.objective if size == self.n_examples else self.estimated(self.subset(size))
            self.best_value = -np.inf  # those of fewer examples do not compare
            x, hessian, _ = self.newton(objective, coordinates, x, hessian)
        return x

    def newton(
        self, objective: Objective, coordinates: Coordinates, start: Array, hessian: Array
    ) -> tuple[Array, Array, float]:
        return minimize(
            lambda x: self.evaluate(objective, coordinates, x),
            start,
            coordinates.bounds,
            hessian,
            max_evaluations=self.options.max_steps,
            gain=GAIN if objective is self.objective else SAMPLE_GAIN,
        )

    def subset(self, size: int) -> Data:
        return self.data.subset(np.sort(self.rng.choice(self.n_examples, size, replace=False)))

    def estimated(self, data: Data) -> Estimated:
        return Estimated(data, self.options.n_probes, self.options.solver, int(self.rng.integers(2**31)))

    def starts(self, coordinates: Coordinates, start: Array) -> list[Array]:
        others = [
            np.clip(start + self.rng.uniform(-SPREAD, SPREAD, len(start)), *coordinates.bounds.T)
            for _ in range(self.options.n_starts - 1)
        ]
        return [start, *others]

    def sample_size(self) -> int:
        """Fewer examples where every problem has a matrix of its own."""
        return int(SAMPLE / np.cbrt(self.data.n_matrices))

    # Many weights --------------------------------------------------------------------------------------------

    def search_weights(self, objective: Estimated, x: Array) -> Array:
        """A fixed point: every weight is multiplied by what the data call for, divided by what there is.

        Noise and weights are variance components, for which the square root of that ratio never lowers the
        likelihood (Zhou, Hu, Zhou and Lange, 2019). The ratio itself is about twice as fast; the root takes over if
        the likelihood falls. Hyperparameters of the transform follow the sign of their derivative (Rprop).
        """
        space = self.space
        names = np.concatenate([np.full(len(one.start), one.name) for one in space.free])
        is_component = np.isin(names, ["noise", "weights"])
        is_weight = names == "weights"
        power, pace = 1.0, np.full(len(x), FIRST_PACE)
        old_x, old_supply, old_slope, old_value = x, np.zeros(len(x)), np.zeros(len(x)), -np.inf
        result = objective(space, x)
        determinant = -2 * result.value - result.data_term  # and constants
        for _ in range(self.options.max_steps):
            demand = space.gradient(x, result.demand)
            supply = space.gradient(x, result.supply)
            determinant += (supply + old_supply) / 2 @ (x - old_x)
            result = replace(result, value=-(result.data_term + determinant) / 2)
            prior = np.where(is_weight, self.rate * np.exp(x), 0.0)
            value = result.value - prior.sum()
            self.record(space, x, result, value)
            if value < old_value - GAIN:
                power = 0.5
            slope = (demand - supply) / 2 - prior
            ratio = np.maximum(demand, _TINY) / (np.maximum(supply, _TINY) + 2 * prior)
            pace *= np.where(slope * old_slope >= 0, 1.2, 0.5)
            step = np.where(is_component, power * np.log(ratio), pace * np.sign(slope))
            step = np.clip(x + np.clip(step, -LONGEST_STEP, LONGEST_STEP), *space.bounds.T) - x
            if step @ slope < GAIN:
                break
            old_x, old_supply, old_slope, old_value = x, supply, slope, value
            x = x + step
            result = objective.nearby(space, x)
        return x

    def prune(self, theta: Array) -> None:
        """Weights that do not matter become exactly zero; the likelihood is that without them."""
        parts = []
        for one, values in self.space.parts(theta):
            keep = values >= PRUNE * values.max() if one.name == "weights" else np.ones(len(values), bool)
            parts.append(np.where(keep, np.log(values), -np.inf))
        theta = np.concatenate(parts)
        result = self.objective(self.space, theta)
        self.best = theta, result
        self.record(self.space, theta, result, np.inf)

    # Bookkeeping ---------------------------------------------------------------------------------------------

    def evaluate(self, objective: Objective, coordinates: Coordinates, x: Array) -> tuple[float, Array]:
        """What is minimised, and its derivative."""
        space, theta = coordinates.space, coordinates.to_theta(x)
        try:
            result = objective(space, theta)
        except LinAlgError:  # too little noise for double precision
            return _IMPOSSIBLE, np.zeros_like(x)
        penalty, its_slope = self.penalty(coordinates, theta)
        value = result.value - penalty
        self.record(space, theta, result, value, objective.data.operator.n_rows)
        if not result.demand:
            return -value, np.empty(0)
        return -value, coordinates.slope(theta, its_slope - space.gradient(theta, result.derivatives))

    def penalty(self, coordinates: Coordinates, theta: Array) -> tuple[float, Array]:
        """Minus the logarithm of the priors, and its derivative for theta.

        Weights are exponentially distributed. Variance and noise are log-normal around the mean square of the targets
        and a tenth of it. That hardly counts for hundreds of examples; a handful would often be most likely as
        noise alone.
        """
        names = coordinates.names
        value, slope = 0.0, np.zeros(len(theta))
        if "weights" in names:
            slope[names == "weights"] = self.rate * np.exp(theta[names == "weights"])
            value = slope.sum()
        if self.options.prior_width is None:
            return value, slope
        terms = []
        if "noise" in names:
            terms.append((theta[names == "noise"][0] - np.log(0.1), 1.0 * (names == "noise")))
        if "scale" in names or "weights" in names:
            terms.append(coordinates.log_variance(theta))
        for logarithm, its_slope in terms:
            away = (logarithm - np.log(self.mean_square)) / self.options.prior_width
            value += away**2 / 2
            slope = slope + away / self.options.prior_width * its_slope
        return value, slope

    def record(
        self, space: Space, x: Array, result: Likelihood, penalised: float, n_examples: int | None = None
    ) -> None:
        theta = self.translate(space, x)
        row: Row = {
            "log_marginal_likelihood": result.value,
            "standard_error": result.error,
            "n_examples": n_examples or self.n_examples,
            "n_products": result.n_products,
        }
        for one, values in self.space.parts(theta):
            if one.name == "weights":
                row["n_weights"] = int(np.sum(values >= PRUNE * values.max()))
            else:
                row[one.name] = float(values[0]) if one.value_of is None else values
        self.path.append(row)
        if penalised >= self.best_value:
            self.best_value = penalised
            complete = n_examples is None or n_examples == self.n_examples
            self.best = theta, result if complete else None
        if self.report is not None and self.report(row):
            raise StoppedError

    def translate(self, space: Space, x: Array) -> Array:
        """A point of the space with a common weight as one of the whole space."""
        if space is self.space:
            return x
        given = space.values(x)
        return np.log(
            np.concatenate(
                [one.start * given["scale"] if one.name == "weights" else given[one.name] for one in self.space.free]
            )
        )


def _with_one_weight(one: Hyperparameter) -> Hyperparameter:
    return Hyperparameter("scale", np.ones(1), one.bounds) if one.name == "weights" else one
