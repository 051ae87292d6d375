"""Probabilities of classes: temperatures fitted to leave-one-out predictions, and Dirichlet regression."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax, softmax

from histogp._core.data import Array, Rows, content_hash
from histogp._core.groups import LeftOutGroups, members_of, whole_groups
from histogp._core.likelihood import exact_likelihood
from histogp._core.operators.contract import Features, KernelOperator, tuning_of, updates_of
from histogp._core.solvers import direct_options
from histogp._core.solvers.iterative import solve_cg
from histogp._core.solvers.preconditioner import make_preconditioner
from histogp._core.solvers.problem import Noise, SolverOptions, TrainingTargets
from histogp._core.threads import single_threaded_blas
from histogp._core.variance import VarianceOptions
from histogp._core.variance.calibrated import CALIBRATED, FEWEST_SAMPLES
from histogp._core.variance.nearest import nearest_variance

# Samples up to which all are left out, one at a time, where that is done exactly, and how many of more.
MOST_LEFT_OUT, SOME_LEFT_OUT = 4000, 500
# The part of the samples, and the most, that are left out together, where one at a time takes too long, and the
# tolerance of their scores, the largest of all: log losses of 13,000 images differ by 1e-4 from those of exact scores.
LEFT_OUT_PART, MOST_TOGETHER, LEFT_OUT_TOL = 20, 1000, 0.3
# Scores that are all smaller tell nothing about a temperature.
NEGLIGIBLE_SCORE = 1e-9
# Temperatures that make sense, as logarithms, for scores between -1 and 1.
LOWEST_LOG_TEMPERATURE, HIGHEST_LOG_TEMPERATURE = np.log(1e-2), np.log(1e3)


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Some training samples, or rows of equal ones, and what would be predicted for each if it were not there.

    index : (n,), their numbers; means : (n, M)
    make_latent : makes the variance that the system has, (n, M) or (n, 1)
    remainder : (n, 1), what features leave of the prior variance
    shortfall : a sentence if the solver fell short, or None
    """

    index: Array
    means: Array
    make_latent: Callable[[], Array]
    remainder: Array
    shortfall: str | None = None

    @cached_property
    def latent(self) -> Array:
        """The variance that the system has, (n, M) or (n, 1)."""
        return self.make_latent()

    @property
    def variances(self) -> Array:
        """Latent variances, (n, M) or (n, 1)."""
        return np.maximum(self.latent + self.remainder, 0.0)

    def repeated(self, row_of: Array | None) -> LeftOut:
        """The samples of rows, each with what its row has; row_of : (N,), or None if each has a row of its own."""
        if row_of is None:
            return self
        index = np.flatnonzero(np.isin(row_of, self.index))
        place = np.searchsorted(self.index, row_of[index])
        latent = lambda: self.latent[place]  # noqa: E731
        return LeftOut(index, self.means[place], latent, self.remainder[place], self.shortfall)

    def of_samples(self, given: TrainingTargets, alpha: Array, *, units: bool = False) -> LeftOut:
        """The samples of rows, each left out alone; see `TrainingTargets.left_out`."""
        found = given.left_out(self.index, self.latent, alpha, units=units)
        remainder = self.remainder[found.place]
        return LeftOut(found.index, found.means, lambda: found.variances, remainder, self.shortfall)


def leave_rows_out(posterior: Any, options: VarianceOptions) -> LeftOut:
    """The mean ``y_i - alpha_i / [A^-1]_ii`` and the latent variance ``1 / [A^-1]_ii - noise_i`` of some rows.

    Exact where there are factors, up to about 2,000 rows or with features; above that the calibrated variance, whose
    tables have not seen these rows, stands for the second. With a matrix too large for factors the rows, up to 1,000,
    are left out together by a second solution, and their variance is that by the nearest others. Rows of a group are
    left out together.
    """
    operator, noise, solver = posterior.operator, posterior.noise, options.solver
    targets, alpha, n = posterior.targets, posterior.alpha, operator.n_samples
    direct = direct_options(operator, noise, solver)
    if n < FEWEST_SAMPLES and direct is None:
        direct = replace(solver, solver="cholesky")
    shortfall, groups = None, posterior.given.row_groups
    if groups is not None:
        most = MOST_LEFT_OUT if direct is not None and n <= MOST_LEFT_OUT else SOME_LEFT_OUT
        index = whole_groups(groups, _in_own_order(operator), most)
        return _leave_groups_out(posterior, posterior.systems(direct or solver), index, groups[index])
    if operator.has_large_matrix:
        index = np.sort(_in_own_order(operator)[: max(1, min(n // LEFT_OUT_PART, MOST_TOGETHER))])
        known = updates_of(operator).training_rows().take(index)
        means, shortfall = _leave_out_together(posterior, index, solver)
        latent_of = partial(nearest_variance, operator, noise.diagonals(), known, index)
        return LeftOut(index, means, latent_of, _remainder(operator, index), shortfall)
    if direct is not None or CALIBRATED.instead(operator) is not None:
        index = np.arange(n)
        most, some = (FEWEST_SAMPLES, FEWEST_SAMPLES) if direct is None else (MOST_LEFT_OUT, SOME_LEFT_OUT)
        if n > most:
            index = np.sort(_in_own_order(operator)[:some])
        latent = 1 / posterior.systems(direct or solver).inverse_diagonal(index) - noise.diagonals()[index]
    else:
        tables = posterior.prepared(CALIBRATED, options, keep=False)
        index, latent, shortfall = tables.left_out, tables.left_out_variances[:, None], tables.shortfall
    means = targets[index] - alpha[index] * (latent + noise.diagonals()[index])
    return LeftOut(index, means, lambda: latent, _remainder(operator, index), shortfall)


def _leave_out_together(posterior: Any, index: Array, options: SolverOptions) -> tuple[Array, str | None]:
    """The means of training rows, (n, M), for a model of all others.

    And a sentence if the solver fell short, or None.
    """
    operator, noise, targets, start = posterior.operator, posterior.noise, posterior.targets, posterior.alpha.copy()
    start[index] = 0.0
    preconditioner = getattr(posterior.kept_system, "preconditioner", None)
    if preconditioner is None:
        rng = np.random.default_rng(posterior.seed)
        preconditioner = make_preconditioner(operator, noise, targets.shape[1], options, rng)
    solution = solve_cg(
        operator,
        noise,
        targets,
        tol=max(options.tol, LEFT_OUT_TOL),
        max_iter=options.max_iter,
        preconditioner=None if preconditioner is None else preconditioner.without(index),
        start=start,
        left_out=index,
    )
    means = operator.matmat(solution.values)[index]
    if solution.converged:
        return means, None
    return means, f"The solver stopped before probabilities were clear (max_iter={options.max_iter}): raise max_iter."


def _in_own_order(operator: KernelOperator) -> Array:
    """The numbers of the training rows in an order that looks random and depends on what they hold alone."""
    return np.argsort(content_hash(updates_of(operator).training_rows()))


def _leave_groups_out(posterior: Any, systems: Any, index: Array, groups: Array) -> LeftOut:
    """The means and the latent variances of rows whose groups are left out as a whole.

    systems : solves with the noise of every output; index, groups : (n,), rows of whole groups, and their groups
    """
    diagonals = posterior.noise.diagonals()[index]
    n_matrices = diagonals.shape[1]
    share = posterior.alpha.shape[1] // n_matrices  # outputs of one matrix
    errors, variances = np.empty((len(index), posterior.alpha.shape[1])), np.empty(diagonals.shape)
    members = members_of(groups)
    for k in range(n_matrices):
        some = slice(k * share, (k + 1) * share)
        found = LeftOutGroups.of(members, systems.inverse_block(index, k), posterior.alpha[index, some])
        errors[:, some], variances[:, k] = found.errors, found.variances
    means = posterior.targets[index] - errors
    return LeftOut(index, means, lambda: variances - diagonals, _remainder(posterior.operator, index))


def _remainder(operator: KernelOperator, index: Array) -> Array:
    """What features leave of the prior variance of training rows, (n, 1)."""
    remainder = np.zeros((len(index), 1))
    if (features := operator.offer(Features)) is not None:
        left = features.remainder(updates_of(operator).training_rows().take(index))
        remainder = np.broadcast_to(np.reshape(left, (-1, 1)), remainder.shape)
    return remainder


def fit_temperature(means: Array, codes: Array, weights: Array, n: float | None = None) -> float:
    """The factor on the scores with the largest likelihood of the labels under `log_probabilities`.

    means (n, M); codes (n,), the number of the class of each; weights (n,). Labels count as wrong with a probability of
    one in n + 2, so that scores without an error give a finite factor; n may be given where scores stand for several.
    """
    scores = _of_classes(means)
    if np.abs(scores).max(initial=0.0) < NEGLIGIBLE_SCORE:  # nothing to learn from
        return 1.0
    wanted = wanted_probabilities(codes, scores.shape[1], n) * (weights / weights.mean())[:, None]

    def cost(logarithm: float) -> float:
        return -float((wanted * log_softmax(np.exp(logarithm) * scores, axis=1)).sum())

    return float(
        np.exp(minimize_scalar(cost, bounds=(LOWEST_LOG_TEMPERATURE, HIGHEST_LOG_TEMPERATURE), method="bounded").x)
    )


def wanted_probabilities(codes: Array, n_classes: int, n: float | None = None) -> Array:
    """Labels (n,) as probabilities, (n, n_classes), that count as wrong with a probability of one in n + 2."""
    doubt = 1 / ((len(codes) if n is None else n) + 2)
    wanted = np.full((len(codes), n_classes), doubt / (n_classes - 1))
    wanted[np.arange(len(codes)), codes] = 1 - doubt
    return wanted


# Where the logarithm of a link stops, in shares of the way from -1 to 1.
LINK_LIMITS = (0.02, 1.5)
# Of a link's temperature and bend: bounds, the former as a logarithm, and the standard deviation of Gaussian priors
# around where a search starts, half as wide with few samples. With a bend below zero the most probable class could be
# another one than that of the largest score.
LOG_TEMPERATURE_BOUNDS, BEND_BOUNDS = (-5.0, 7.0), (0.0, 8.0)
LINK_WIDTH, FEW_SAMPLES = 1.0, 200


@dataclass(frozen=True)
class Link:
    """Scores f of classes to probabilities: a softmax of ``t f + u log((1 + f) / 2)``.

    temperature : t; bend : u, with which scores near -1 leave less to a class than those of a softmax alone
    """

    temperature: float
    bend: float

    def loss(self, scores: Array, wanted: Array) -> tuple[Array, Array, Array]:
        """Minus ``wanted`` times log probabilities, (n,), and derivatives of their sum for scores, log t and u.

        scores : (n, M), one for two classes; wanted : (n, n_classes)
        """
        of_classes = _of_classes(scores)
        share = (1 + of_classes) / 2
        clipped = np.clip(share, *LINK_LIMITS)
        logits = self.temperature * of_classes + self.bend * np.log(clipped)
        log_found = log_softmax(logits, axis=1)
        by_logit = np.exp(log_found) * wanted.sum(axis=1, keepdims=True) - wanted
        by_score = by_logit * (self.temperature + np.where(share == clipped, self.bend / (2 * clipped), 0.0))
        by_link = np.array([self.temperature * np.sum(by_logit * of_classes), np.sum(by_logit * np.log(clipped))])
        if scores.shape[1] == 1:
            by_score = by_score[:, 1:] - by_score[:, :1]
        return -np.sum(wanted * log_found, axis=1), by_score, by_link

    def log_probabilities(self, scores: Array) -> Array:
        """Logarithms of probabilities, (n, n_classes)."""
        of_classes = _of_classes(scores)
        bent = self.bend * np.log(np.clip((1 + of_classes) / 2, *LINK_LIMITS))
        return log_softmax(self.temperature * of_classes + bent, axis=1)


START_LINK = Link(3.0, 0.5)
# For one distinct sample: its scores say how often it has had each class, and there is nothing else to learn from.
FREQUENCIES = Link(0.0, 1.0)


def fit_link(scores: Array, codes: Array, weights: Array, n: float | None = None) -> Link:
    """The link with the largest likelihood of labels, with priors; n as for `fit_temperature`.

    scores (n, M); codes (n,), the number of the class of each; weights (n,)
    """
    return fit_link_to(scores, wanted_probabilities(codes, max(2, scores.shape[1]), n) * weights[:, None])


def fit_link_to(scores: Array, wanted: Array) -> Link:
    """The link with the largest likelihood of labels, with priors.

    scores (n, M); wanted (n, n_classes), how often each class is wanted
    """
    start = np.array([np.log(START_LINK.temperature), START_LINK.bend])
    width = LINK_WIDTH / (2 if len(scores) < FEW_SAMPLES else 1)

    def cost(x: Array) -> tuple[float, Array]:
        losses, _, slope = Link(float(np.exp(x[0])), float(x[1])).loss(scores, wanted)
        away = (x - start) / width
        return float(losses.sum() + away @ away / 2), slope + away / width

    found = minimize(cost, start, jac=True, method="L-BFGS-B", bounds=[LOG_TEMPERATURE_BOUNDS, BEND_BOUNDS])
    return Link(float(np.exp(found.x[0])), float(found.x[1]))


def log_probabilities(scores: Array, temperature: float) -> Array:
    """Logarithms of a softmax of scores (n, M) times the factor, (n, n_classes); one score is the second class's."""
    return log_softmax(temperature * _of_classes(scores), axis=1)


def _of_classes(scores: Array) -> Array:
    return np.hstack([-scores, scores]) if scores.shape[1] == 1 else scores


# The concentration of classes that a sample does not have (alpha_epsilon in the paper).
CONCENTRATION = 0.01
# The scale of the kernel is the one of these, relative to its mean variance, under which the
# targets of a few samples and classes are most likely.
KERNEL_SCALES = 4.0 ** np.arange(-1, 7)
SCALE_SAMPLES = 500
SCALE_CLASSES = 10
# Draws for the expectation of a softmax, and numbers that are held at a time.
SOFTMAX_DRAWS = 128
SOFTMAX_NUMBERS = 2**20


@dataclass(frozen=True, eq=False)
class DirichletProblem:
    """A Gaussian process for each class, whose exponentials are Gamma variables, approximately.

    A label is one observation of a Dirichlet distribution: a Gamma variable for each class, with the shape ``1 + c``
    for the class of the sample and ``c`` for the others. Its logarithm is nearly Gaussian with the variance
    ``log(1 / shape + 1)``, which becomes noise, and the mean ``log(shape) - variance / 2``.

    operator : the kernel matrix in the scale that suits the noise
    given : targets, (N, n_classes), above ``center``, and their noise
    """

    operator: KernelOperator
    given: TrainingTargets
    center: Array

    @classmethod
    def build(
        cls,
        operator: KernelOperator,
        codes: Array,
        n_classes: int,
        weights: Array,
        row_of: Array | None,
        rng: np.random.Generator,
    ) -> DirichletProblem:
        """The problem of samples with the numbers of their classes (N,), weights (N,) and rows (N,), or None."""
        shapes = np.where(codes[:, None] == np.arange(n_classes), 1.0, 0.0) + CONCENTRATION
        spread = np.log(1 / shapes + 1)
        targets = np.log(shapes) - spread / 2
        center = np.average(targets, axis=0, weights=weights)
        targets -= center
        positive, negative = (np.full(n_classes, np.log(1 / s + 1)) for s in (1 + CONCENTRATION, CONCENTRATION))
        given = TrainingTargets(targets, Noise(1 / weights, codes, positive, negative), row_of)
        return cls(_scaled(operator, given.row_noise, given.row_targets, rng), given, center)


@dataclass(frozen=True, eq=False)
class Dirichlet:
    """The posterior of a `DirichletProblem`, and where its targets have their zero, (n_classes,)."""

    posterior: Any
    center: Array

    def probabilities(self, rows: Rows, options: VarianceOptions) -> tuple[Array, str | None]:
        """The expectation of a softmax, (n, n_classes); and a sentence if the solver fell short, or None."""
        posterior = self.posterior
        means = posterior.mean(rows, options.solver.n_threads) + self.center
        if posterior.operator.n_samples < FEWEST_SAMPLES:
            spread, shortfall = posterior.variance_per_output(rows, options)
        else:
            method = "nearest" if posterior.operator.has_large_matrix else "calibrated"
            spread, shortfall = posterior.variance(rows, method, options)
            spread = spread[:, None]
        draws = np.random.default_rng(posterior.seed).standard_normal((SOFTMAX_DRAWS // 2, 1, means.shape[1]))
        draws = np.concatenate([draws, -draws])
        out = np.empty_like(means)
        n_rows = max(1, SOFTMAX_NUMBERS // draws.size)
        for begin in range(0, len(means), n_rows):
            some = slice(begin, begin + n_rows)
            out[some] = softmax(means[some] + np.sqrt(spread[some]) * draws, axis=2).mean(axis=0)
        return out / out.sum(axis=1, keepdims=True), shortfall


def _scaled(operator: KernelOperator, noise: Noise, targets: Array, rng: np.random.Generator) -> KernelOperator:
    """The operator with the scale that suits the noise, which is fixed here."""
    n = operator.n_samples
    tuning = tuning_of(operator, 'probability="dirichlet"')
    rows = np.sort(rng.choice(n, min(n, SCALE_SAMPLES), replace=False))
    sample = updates_of(operator).remove(np.setdiff1d(np.arange(n), rows))
    unit = float(operator.diagonal().mean()) or 1.0
    kernels = [operator.kernel.scaled(scale / unit) for scale in KERNEL_SCALES]
    classes = np.sort(rng.choice(targets.shape[1], min(targets.shape[1], SCALE_CLASSES), replace=False))
    diagonals = noise.subset(rows).diagonals()[:, classes]
    with single_threaded_blas():
        values = [
            sum(
                exact_likelihood(sample.with_kernel(kernel), Noise(diagonal), targets[rows, c : c + 1]).value
                for diagonal, c in zip(diagonals.T, classes, strict=True)
            )
            for kernel in kernels
        ]
    return tuning.with_kernel(kernels[int(np.argmax(values))])
