"""How hyperparameters are found: a parameter object for users, and what an estimator does with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions

from histogp._core.data import Array
from histogp._core.operators.contract import Approximate, KernelOperator, tuning_of, updates_of
from histogp._core.search.leave_one_out import ENOUGH_STEPS, search_leave_one_out, searched_samples
from histogp._core.search.optimization import OptimizationOptions, Optimum, Row, optimize_likelihood
from histogp._core.search.space import Data, Space
from histogp._core.solvers.problem import SolverOptions, TrainingTargets
from histogp._sklearn import warn
from histogp.exceptions import NotConvergedWarning
from histogp.kernels import Kernel

# Evaluations of the evidence at each stage, unless a user says otherwise.
MOST_STEPS = 200

SEARCH_ATTRIBUTES = ("log_marginal_likelihood_", "log_marginal_likelihood_error_", "optimization_path_")


class Optimizer(BaseEstimator):
    """Finds kernel hyperparameters and noise: those that make the training data most likely, or predict them best.

    For the parameter ``optimize`` of an estimator, where its methods also go by their names alone, and "loo" is that
    criterion. Samples with equal features are one to a search, with their mean target and so many times less noise;
    numbers of samples below are those of distinct ones. How the targets of equal samples scatter does not count for the
    evidence: copies would make the noise vanish.

    Parameters
    ----------
    method : {"gradient", "bound", "exact"}, default="gradient"
        - "gradient": likelihood and derivatives by stochastic Lanczos quadrature; first on small subsets, then on
          all samples; thousands of weights by a fixed-point iteration. Up to 500 samples everything is exact. Kernels
          that are evaluated pair by pair, such as `Laplacian` or sums, are searched exactly on up to 2,000 samples.
        - "bound": the papers' method, Nelder and Mead's simplex on a lower bound of the likelihood.
        - "exact": the exact likelihood and its derivatives, in time cubic in the number of samples.
    criterion : {"evidence", "loo"}, default="evidence"
        - "evidence": the marginal likelihood.
        - "loo": the leave-one-out log loss of classes, or density of values, in closed form with exact derivatives, on
          up to 1,000 samples, 2,000 with many classes, 500 for kernels without a matrix. Equal samples are left out
          together, and weights count like so many of them. Hyperparameters have Gaussian
          priors around where they start: logarithms of scales, widths and noise with a standard deviation of 2,
          weights "ard" of 0.3 and of 0.5 for the exponent of their spread; half of that below 200 samples.
          ``method``, ``n_starts``, ``sparsity``, ``prior_width`` and ``n_probes`` do not count.
    parameters : "auto" or list of str, default="auto"
        What to optimize: "noise"; "scale", or "weights", if the kernel's weights are "ard"; "beta"; and the
        hyperparameters of the transform, such as "transform__eta" or just "eta". Those of the parts of a sum have their
        names, "laplacian__beta". "auto" is all of them, for the method "bound" all but the noise, which the bound
        misjudges.
    bound : {"tightest", "fischer", "papers"}, default="tightest"
        For the method "bound": that of the papers, Fischer's, or the better of the two at each point.
    n_starts : int, default=1
        Searches from as many places; the first is where the given kernel and noise are, others are random. With
        the method "gradient" on more than 500 samples only the search on a subset has several.
    sparsity : float, default=0.5
        What a weight "ard" costs, in units of the log-likelihood, for each time that it is as large as the best common
        weight of all features, which are measured in units of their mean non-zero values; that is, weights have an
        exponential prior. 0 is no prior. Weights below 1e-4 of the largest, in these units, become zero.
    prior_width : float or None, default=1.0
        Variance and noise have log-normal priors around the mean square of the targets and a tenth of it, with this
        standard deviation of the logarithm: of no account with hundreds of samples, but a handful would often be
        most likely as noise alone. None is no prior.
    n_probes : int or "auto", default="auto"
        Random probes of the method "gradient".
    max_steps : int or None, default=None
        Evaluations at each stage; None is 200 of the evidence, or 18 of the leave-one-out loss.
    reoptimize_every : int, float or None, default=0.5
        When `partial_fit`, `forget` and `relabel` search again, from the hyperparameters found before: after so many
        samples that have come, gone or changed; a float is a part of the samples that the last search has seen. None
        is never.

    Examples
    --------
    >>> import numpy as np
    >>> from histogp import HistogramGPRegressor, Optimizer
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> reg = HistogramGPRegressor("hik", noise=1.0, optimize=Optimizer(parameters=["noise"])).fit(X, X[:, 0])
    >>> bool(reg.noise_ < reg.noise)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "method": [StrOptions({"gradient", "bound", "exact"})],
        "parameters": [StrOptions({"auto"}), list, tuple],
        "criterion": [StrOptions({"evidence", "loo"})],
        "bound": [StrOptions({"tightest", "fischer", "papers"})],
        "n_starts": [Interval(Integral, 1, None, closed="left")],
        "sparsity": [Interval(Real, 0, None, closed="left")],
        "prior_width": [None, Interval(Real, 0, None, closed="neither")],
        "n_probes": [StrOptions({"auto"}), Interval(Integral, 2, None, closed="left")],
        "max_steps": [None, Interval(Integral, 1, None, closed="left")],
        "reoptimize_every": [
            None,
            Interval(Integral, 1, None, closed="left"),
            Interval(Real, 0, None, closed="neither"),
        ],
    }

    def __init__(
        self,
        method: str = "gradient",
        *,
        criterion: str = "evidence",
        parameters: Any = "auto",
        bound: str = "tightest",
        n_starts: int = 1,
        sparsity: float = 0.5,
        prior_width: float | None = 1.0,
        n_probes: Any = "auto",
        max_steps: int | None = None,
        reoptimize_every: Any = 0.5,
    ):
        """Keep the parameters as they are given; the `fit` of an estimator checks them."""
        self.method = method
        self.criterion = criterion
        self.parameters = parameters
        self.bound = bound
        self.n_starts = n_starts
        self.sparsity = sparsity
        self.prior_width = prior_width
        self.n_probes = n_probes
        self.max_steps = max_steps
        self.reoptimize_every = reoptimize_every


@dataclass(frozen=True, eq=False)
class Tuned:
    """Hyperparameters, found by a search or given; ``operator`` and ``given`` are those of the system to solve.

    alpha : of the last evaluation of a search, (N, M); this and the path are None without a search
    likelihood, likelihood_error : NaN where a search has not found them
    """

    kernel: Kernel
    noise_value: float
    operator: KernelOperator
    given: TrainingTargets
    alpha: Array | None = None
    likelihood: float = np.nan
    likelihood_error: float = np.nan
    path: dict[str, Array] | None = None

    def attributes(self) -> dict[str, Any]:
        """Fitted attributes that only a search has."""
        return dict(zip(SEARCH_ATTRIBUTES, (self.likelihood, self.likelihood_error, self.path), strict=True))


def as_optimizer(optimizer: str | Optimizer) -> Optimizer:
    """The optimizer itself, or the one that a name stands for: that of a method, or "loo" of the criterion."""
    if not isinstance(optimizer, str):
        return optimizer
    return Optimizer(criterion="loo") if optimizer == "loo" else Optimizer(optimizer)


def searches_noise(optimizer: str | Optimizer) -> bool:
    """Whether a search finds the noise, too."""
    optimizer = as_optimizer(optimizer)
    if not isinstance(optimizer.parameters, str):
        return "noise" in list(optimizer.parameters)
    return optimizer.criterion != "evidence" or optimizer.method != "bound"


def searches_left_out(optimizer: str | Optimizer) -> bool:
    """Whether a search is for all hyperparameters with the smallest loss of left-out samples."""
    optimizer = as_optimizer(optimizer)
    return optimizer.criterion == "loo" and isinstance(optimizer.parameters, str)


def search_is_due(optimizer: str | Optimizer, n_changed: int, n_searched: int) -> bool:
    """Whether to search again after ``n_changed`` changes since a search that saw ``n_searched`` samples."""
    optimizer = as_optimizer(optimizer)
    optimizer._validate_params()
    every = optimizer.reoptimize_every
    if every is None:
        return False
    return n_changed >= (every if isinstance(every, Integral) else every * n_searched)


def tune(
    optimizer: str | Optimizer,
    kernel: Kernel,
    noise_value: float,
    operator: KernelOperator,
    given: TrainingTargets,
    solver: SolverOptions,
    rng: np.random.Generator,
    report: Callable[[Row], bool],
    *,
    is_classification: bool = False,
    warm: bool = False,
    atomic: bool = False,
) -> Tuned:
    """Search for better hyperparameters than those given, for the operator of the rows of samples.

    ``is_classification`` says that targets are labels, ``warm`` that the hyperparameters given were found before, on
    similar data, and ``atomic`` that an interrupt ends not the search alone, but everything.
    """
    optimizer = as_optimizer(optimizer)
    optimizer._validate_params()
    data = Data.of(operator, given)
    tuning = tuning_of(operator, "optimize=...")
    names = None if isinstance(optimizer.parameters, str) else list(optimizer.parameters)
    if names == []:
        raise ValueError("parameters must name at least one hyperparameter to optimize.")
    if not np.isfinite(data.mean_square):
        raise ValueError("The squares of the targets overflow; scale them to moderate values.")
    some = _searched(optimizer, data, is_classification, rng)
    rows = updates_of(some.operator).training_rows()
    space = Space.of(operator.kernel, rows, noise_value, data.mean_square, names)
    if names is None and not searches_noise(optimizer):
        space = space.only([one.name for one in space.free if one.name != "noise"])
    found: Optimum
    if optimizer.criterion == "loo":
        max_steps = optimizer.max_steps or ENOUGH_STEPS
        found = search_leave_one_out(some, space, is_classification, max_steps, report)
    else:
        max_steps = optimizer.max_steps or MOST_STEPS
        options = OptimizationOptions(
            method=optimizer.method,  # type: ignore[arg-type]
            solver=solver,
            bound=optimizer.bound,  # type: ignore[arg-type]
            n_starts=optimizer.n_starts,
            max_steps=max_steps,
            sparsity=optimizer.sparsity,
            prior_width=optimizer.prior_width,
            n_probes=None if optimizer.n_probes == "auto" else optimizer.n_probes,
            warm=warm and not space.is_open,
        )
        found = optimize_likelihood(some, space, options, rng, report)
    if found.interrupted and atomic:
        raise KeyboardInterrupt
    if found.interrupted:
        warn(
            f"The search for hyperparameters was interrupted after {len(found.path)} evaluations; the best of them "
            "counts.",
            NotConvergedWarning,
        )
    elif not found.converged:
        warn(
            f"The search for hyperparameters ended after max_steps={max_steps} evaluations; more may find better ones.",
            NotConvergedWarning,
        )
    given = given.scaled(space.noise_factor(found.theta))
    is_whole = some is data
    is_known = is_whole and given.shared is None  # of the samples as the model takes them
    return Tuned(
        kernel._with_values(space.kernel_values(found.theta)),
        float(given.unit),
        tuning.with_kernel(space.kernel_at(found.theta)),
        given,
        found.alpha if is_whole else None,
        float(found.value) + given.log_scatter() if is_known else np.nan,
        float(found.error) if is_known else np.nan,
        {name: np.array([row[name] for row in found.path], np.float64) for name in found.path[0]},
    )


def _searched(optimizer: Optimizer, data: Data, is_classification: bool, rng: np.random.Generator) -> Data:
    """The data that a search looks at: all, or some of the samples, in single precision where that is enough.

    Of a kernel that is approximated it sees the kernel itself.
    """
    approximate = data.operator.offer(Approximate)
    if approximate is not None and approximate.exactly() is not data.operator:
        data = replace(data, operator=approximate.exactly())
    if optimizer.criterion == "loo":
        index = searched_samples(data, is_classification, rng)
        return (data if index is None else data.subset(index)).in_single()
    most = tuning_of(data.operator).most_searched
    if most is None or data.operator.n_samples <= most:
        return data
    return data.subset(np.sort(rng.choice(data.operator.n_samples, most, replace=False)))


def describe_evaluation(row: Row) -> str:
    """An evaluation of the likelihood, or of a loss, in a line."""
    numbers = {
        name: value for name, value in row.items() if name not in ("log_marginal_likelihood", "standard_error", "loss")
    }
    error = row.get("standard_error", 0.0)
    value = f"loss {row['loss']:.4f}" if "loss" in row else f"log likelihood {row['log_marginal_likelihood']:.1f}"
    return (
        value
        + (f" +- {error:.1f}" if np.isfinite(error) and error > 0 else "")
        + "".join(f", {name} {np.array2string(np.asarray(value), precision=4)}" for name, value in numbers.items())
    )
