"""Leave-one-out loss in closed form, the hyperparameters with the smallest one, and a trial of other noise.

With ``A = K + diag(noise)`` of rows, ``alpha = A^-1 y`` and ``c = diag(A^-1)``, a row that was left out would have the
mean ``y - alpha / c`` and the variance ``1 / c``. The loss is minus the logarithm of the probability of its class, or
of the density of its target. Samples with equal features share a row and are left out together, and each of them
counts: with their mean target y, of the noise s / m, a single one has the variance ``1 / c - s / m + s``. Samples that
come again are left out one by one: with the target z of one, its share h of the row's precision ``1 / noise``,
``n = h (z - y) / noise + h alpha`` and ``d = h (1 - h) / noise + h^2 c`` it would have the mean ``z - n / d`` and the
variance ``1 / d``. Rows of a group are left out together (`_core/groups.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy import optimize
from scipy.linalg import get_lapack_funcs

from histogp._core.data import Array, Rows, mirrored
from histogp._core.groups import LeftOutGroups, members_of, times_blocks, whole_groups
from histogp._core.operators.contract import KernelOperator, Matrix, new_matrix, tuning_of
from histogp._core.predictors import codes_of
from histogp._core.probability import (
    BEND_BOUNDS,
    FEW_SAMPLES,
    LINK_WIDTH,
    LOG_TEMPERATURE_BOUNDS,
    START_LINK,
    Link,
    fit_link_to,
)
from histogp._core.repeats import SEVERAL, come_again
from histogp._core.search.optimization import Optimum, Row, StoppedError
from histogp._core.search.space import Data, Space, is_scale, is_weights
from histogp._core.solvers import direct_options
from histogp._core.solvers.factors import symmetric_inverse
from histogp._core.solvers.problem import Noise, SolverOptions, TrainingTargets
from histogp._core.solvers.system import VARIANCE_ROUNDING
from histogp._core.threads import run, suited_blas

# Samples that a search looks at: so many for each class, within limits; without a matrix at hand fewer.
SAMPLES_PER_CLASS = 4
FEWEST_SAMPLES, MOST_SAMPLES = 1_000, 2_000
MOST_WITHOUT_MATRIX = 500
# Samples whose noise is so many times the least take no part, as with more of it, which single precision does not have.
MOST_NOISE = 1e15
# Rows of a product whose result is symmetric.
PRODUCT_ROWS = 128
# Evaluations; more gain nothing on data that were not seen. Of each of two searches, the second of which begins where
# the first ended, fewer.
ENOUGH_STEPS, ENOUGH_OF_TWO = 18, 12
# A step that lowers the loss by a smaller part is the last one, and so are three values that differ by less: a matrix
# in single precision tells no more.
LEAST_STEP = 1e-6
FLAT_STEPS = 3
# A part of a sum without which the loss, summed over samples, rises by less than this is not worth its time.
DROPPED_LOSS = 1.0
# Standard deviations of Gaussian priors around the start: of logarithms, of those of single weights, of the exponent of
# their spread, of logarithms of a transform that parts share, which is not taken farther than its reach. With few
# samples half as wide.
PRIOR_WIDTH = 2.0
WEIGHT_WIDTH = 0.3
SPREAD_WIDTH = 0.5
TRANSFORM_WIDTH, TRANSFORM_REACH = 0.5, 1.5
# So many of them, no step of a search goes farther: single precision does not reach as far as bounds.
MOST_WIDTHS = 8.0
# Sensible values, wherever the search starts: of the noise, in units of the mean square of targets, which is one for
# classes; of the exponent of the spread of weights. Real targets may have much less noise.
NOISE_BOUNDS, NOISE_BOUNDS_OF_VALUES = (0.01, 10.0), (1e-6, 10.0)
SPREAD_BOUNDS = (-0.5, 1.5)
# Rows on which what several searches have found is compared.
UNSEEN_ROWS = 2_000
# Standard errors of a difference beyond which it is no chance.
CLEAR_ERRORS = 2.0
# Rows that are left out, one at a time, where a noise is tried on all samples.
LEFT_OUT_ROWS = 500
# The noise that is tried, as a factor or quotient of the present one, and what that must promise: units of the loss,
# summed over the rows that are left out.
TRIED_FACTOR = 3.0
LEAST_PROMISE = 1.0


@dataclass(frozen=True, eq=False)
class LossTerms:
    """A loss of left-out rows as a function of alpha (n, M) and c (n, M).

    losses : of each row, (n,)
    by_alpha, by_inverse : derivatives of their sum for these, (n, M)
    by_link : for the logarithm of the link's temperature, and its bend, (2,)
    by_noise : for the logarithm of the noise, as far as the loss depends on it beside alpha and c
    """

    losses: Array
    by_alpha: Array
    by_inverse: Array
    by_link: Array
    by_noise: float = 0.0

    @property
    def value(self) -> float:
        """The sum of the losses."""
        return float(self.losses.sum())


def class_loss(targets: Array, alpha: Array, inverse: Array, wanted: Array, link: Link) -> LossTerms:
    """Minus the logarithms of the probabilities of classes; ``wanted`` (n, n_classes) is what `wanted_labels` makes."""
    scores = targets - alpha / inverse
    losses, by_score, by_link = link.loss(scores, wanted)
    return LossTerms(losses, -by_score / inverse, by_score * alpha / inverse**2, by_link)


def density_loss(
    alpha: Array, inverse: Array, weights: Array, scatter: Array, noise: Noise, counts: Array
) -> LossTerms:
    """Minus the logarithms of the densities of the targets of samples, given what rows have of them.

    weights : (n,), how often each row counts; scatter : (n, M), as `Data` has it; noise : of the rows
    counts : (n,), how many samples each row has
    """
    each, errors = weights[:, None], alpha / inverse
    # A sample has the noise of its row times how many there are.
    beyond = (counts[:, None] - 1) * noise.diagonals()
    # In single precision much noise may hide the latent variance, which is not below zero.
    least = counts[:, None] * noise.diagonals()
    is_hidden = 1 / inverse + beyond < least
    variances = np.where(is_hidden, least, 1 / inverse + beyond)
    squares = (scatter + each * errors**2) / variances
    losses = np.sum(each * np.log(2 * np.pi * variances) + squares, axis=1) / 2
    by_variance = (each - squares) / variances / 2
    by_error = each * errors / variances
    by_inverse = -(np.where(is_hidden, 0.0, by_variance / inverse) + by_error * errors) / inverse
    by_noise = float(np.sum(by_variance * np.where(is_hidden, least, beyond)))
    return LossTerms(losses, by_error / inverse, by_inverse, np.zeros(2), by_noise)


def values_differ(scatter: Array, counts: Array) -> bool:
    """Whether real values of equal samples differ, in most rows of several, so that one is no copy of the other.

    scatter : (n, M), as `Data` has it; counts : (n,), how many samples each row has
    """
    several = counts >= SEVERAL
    return bool(several.any() and np.mean(scatter[several].max(axis=1) > 0) > 0.5)


def wanted_labels(targets: Array, weights: Array) -> Array:
    """How often rows have each class, (n, n_classes), where labels count as wrong with a probability of 1 / (n + 2).

    targets : (n, M), between -1 for no sample of a row and 1 for all of them; weights : (n,), how often rows count
    """
    counts = label_counts(targets, weights)
    doubt = 1 / (len(targets) + 2)
    return (1 - doubt) * counts + doubt * (weights[:, None] - counts) / (counts.shape[1] - 1)


def label_counts(targets: Array, weights: Array) -> Array:
    """How often rows have each class, (n, n_classes); targets and weights as for `wanted_labels`."""
    positive = (1 + targets) / 2
    return weights[:, None] * (np.hstack([1 - positive, positive]) if targets.shape[1] == 1 else positive)


@dataclass(frozen=True, eq=False)
class RowLoss:
    """What the loss of rows needs to know beside alpha and c.

    targets : (n, M); weights : (n,), how often each row counts; scatter : (n, M), as `Data` has it
    counts : (n,), how many samples each row has
    is_classification : whether targets are labels
    one_by_one : whether samples of a row are left out one by one, as those that come again, and not together, as copies
    """

    targets: Array
    weights: Array
    scatter: Array
    counts: Array
    is_classification: bool
    one_by_one: bool = False

    def in_units(self, weight: float) -> RowLoss:
        """The loss with weights in units of one."""
        return replace(self, weights=self.weights / weight, scatter=self.scatter / weight)

    def for_repeats(self, link: Link, scores: Array) -> RowLoss:
        """The loss that suits equal samples: copies, or measurements that come again.

        scores : (n, M), of rows without any of their samples, from which the link predicts classes
        """
        if self.counts.max(initial=0.0) < SEVERAL:
            return self
        if not self.is_classification:
            return replace(self, one_by_one=values_differ(self.scatter, self.counts))
        predicted = np.exp(link.log_probabilities(scores))
        return replace(self, one_by_one=come_again(label_counts(self.targets, self.counts), predicted))

    def terms(self, alpha: Array, inverse: Array, noise: Noise, link: Link) -> LossTerms:
        """The loss and its derivatives; noise : of the rows."""
        if not self.is_classification:
            if self.one_by_one:
                return self._single_density(alpha, inverse, noise)
            return density_loss(alpha, inverse, self.weights, self.scatter, noise, self.counts)
        if self.one_by_one:
            return self._single_class(alpha, inverse, noise, link)
        return class_loss(self.targets, alpha, inverse, self.wanted, link)

    def scores(self, alpha: Array, inverse: Array, noise: Noise) -> tuple[Array, Array]:
        """Scores of left-out classes, (k, M), and how often each class is wanted of them, (k, n_classes)."""
        if not self.one_by_one:
            return self.targets - alpha / inverse, self.wanted
        labels, wanted = self._units[1:]
        upper, lower = self._left_out(alpha, inverse, noise)
        return labels - upper / lower, wanted

    @cached_property
    def wanted(self) -> Array:
        """How often rows have each class, (n, n_classes)."""
        return wanted_labels(self.targets, self.weights)

    @cached_property
    def _share(self) -> Array:
        """The part of a row that one of its samples is, (n, 1): of less than one all of it."""
        return 1 / np.maximum(self.counts, 1.0)[:, None]

    @cached_property
    def _units(self) -> tuple[Array, Array, Array]:
        """Samples that do not differ as one: their rows (k,), targets (k, M), and wanted classes (k, n_classes)."""
        counts = label_counts(self.targets, self.weights)
        rows, codes = np.nonzero(counts > 1e-9 * self.weights[:, None])
        n_classes = counts.shape[1]
        chosen = codes[:, None] == np.arange(n_classes)
        labels = np.where(chosen, 1.0, -1.0)
        doubt = 1 / (max(len(self.targets), float(self.counts.sum())) + 2)
        wanted = counts[rows, codes][:, None] * np.where(chosen, 1 - doubt, doubt / (n_classes - 1))
        return rows, labels[:, 1:] if self.targets.shape[1] == 1 else labels, wanted

    def _left_out(self, alpha: Array, inverse: Array, noise: Noise) -> tuple[Array, Array]:
        """The numbers n and d of the module's docstring, for samples that do not differ as one, (k, M)."""
        rows, labels, _ = self._units
        share = self._share[rows]
        precision = share / noise.diagonals()[rows]
        upper = precision * (labels - self.targets[rows]) + share * alpha[rows]
        return upper, precision * (1 - share) + share**2 * inverse[rows]

    def _single_class(self, alpha: Array, inverse: Array, noise: Noise, link: Link) -> LossTerms:
        """Minus the logarithms of the probabilities of classes of samples that are left out one by one."""
        rows, labels, wanted = self._units
        upper, lower = self._left_out(alpha, inverse, noise)
        of_units, by_score, by_link = link.loss(labels - upper / lower, wanted)
        losses = np.bincount(rows, of_units, minlength=len(alpha))
        share = self._share[rows]
        precision = share / noise.diagonals()[rows]
        by_alpha, by_inverse = np.zeros_like(alpha), np.zeros_like(alpha)
        np.add.at(by_alpha, rows, -by_score * share / lower)
        np.add.at(by_inverse, rows, by_score * upper * share**2 / lower**2)
        by_precision = -(labels - self.targets[rows]) / lower + upper * (1 - share) / lower**2
        return LossTerms(losses, by_alpha, by_inverse, by_link, -float(np.sum(by_score * by_precision * precision)))

    def _single_density(self, alpha: Array, inverse: Array, noise: Noise) -> LossTerms:
        """Minus the logarithms of the densities of targets of samples that are left out one by one."""
        each, share, scatter = self.weights[:, None], self._share, self.scatter
        precision = share / noise.diagonals()
        lower = precision * (1 - share) + share**2 * inverse
        squares = precision**2 * scatter + each * (share * alpha) ** 2
        losses = np.sum(each * np.log(2 * np.pi / lower) + squares / lower, axis=1) / 2
        by_lower = -(each + squares / lower) / lower / 2
        by_precision = precision * scatter / lower + by_lower * (1 - share)
        return LossTerms(
            losses,
            each * share**2 * alpha / lower,
            by_lower * share**2,
            np.zeros(2),
            -float(np.sum(by_precision * precision)),
        )


@dataclass(frozen=True, eq=False)
class Loss:
    """A leave-one-out loss, and its derivatives.

    derivatives : for the kernel's values as operators have them, and for the logarithm of the noise under "noise"
    """

    value: float
    derivatives: dict[str, Array]
    by_link: Array


def leave_one_out_loss(
    operator: KernelOperator,
    noise: Noise,
    targets: Array,
    terms: Callable[[Array, Array], LossTerms],
    names: Collection[str] | None = None,
    groups: Array | None = None,
) -> Loss:
    """The loss that ``terms`` makes of alpha and c, by a dense factor, in the precision of the operator's matrix.

    noise : of the samples, the same for all outputs
    names : of the hyperparameters whose derivatives are wanted; None for all, and without any there are no others
    groups : (n,), the numbers of groups of rows that are left out together; None if each is alone
    """
    noise_of = np.minimum(noise.sample, MOST_NOISE * noise.sample.min())
    n = len(targets)
    with suited_blas(0.0 if n <= MOST_SAMPLES else float(n) ** 3):
        inverse = inverse_matrix(new_matrix(operator), noise_of, operator.n_threads)
        alpha = inverse @ targets.astype(inverse.dtype)
        seen_alpha, seen_inverse = alpha.astype(np.float64), inverse.diagonal()[:, None].astype(np.float64)
        left_out = None
        if groups is not None:
            left_out = LeftOutGroups.of(members_of(groups), inverse, seen_alpha)
            seen_alpha, seen_inverse = left_out.as_single()
        found = terms(seen_alpha, np.broadcast_to(seen_inverse, targets.shape))
        if names is not None and not names:
            return Loss(found.value, {}, found.by_link)
        # d alpha = -A^-1 dK alpha, and d c = -diag(A^-1 dK A^-1)
        by_alpha = found.by_alpha
        scaled: Callable[[Array], Array] = partial(np.multiply, -found.by_inverse.sum(axis=1).astype(inverse.dtype))
        if left_out is not None:
            by_alpha, blocks = left_out.derivatives(by_alpha, found.by_inverse)
            scaled = partial(times_blocks, left_out.members, [-block for block in blocks])
        by_side = inverse @ by_alpha.astype(inverse.dtype)
        upstream = _upstream(inverse, scaled, by_side, alpha, operator.n_threads)
    by_noise = found.by_noise + float(upstream.diagonal() @ noise_of)
    return Loss(
        found.value, {**matrix_gradient(operator, upstream, names), "noise": np.asarray(by_noise)}, found.by_link
    )


def _upstream(inverse: Array, scaled: Callable[[Array], Array], by_side: Array, alpha: Array, n_threads: int) -> Array:
    """``-(A^-1 Q A^-1 + (b alpha^T + alpha b^T) / 2)``, symmetric, (n, n): half of it is computed.

    inverse : A^-1; scaled : makes ``-R Q`` of rows R (k, n), where Q is what the loss has for a derivative for A^-1
    by_side, alpha : b, alpha, (n, M)
    """
    out = np.empty_like(inverse)
    left, right = np.hstack([by_side, alpha]), np.hstack([alpha, by_side])
    left *= left.dtype.type(-0.5)
    blocks = [(begin, min(begin + PRODUCT_ROWS, len(out))) for begin in range(0, len(out), PRODUCT_ROWS)]

    def multiply(first: int, last: int) -> None:
        block = out[first:last, :last]
        np.matmul(scaled(inverse[first:last]), inverse[:, :last], out=block)
        block += left[first:last] @ right[:last].T

    run(multiply, [blocks[k::n_threads] for k in range(min(n_threads, len(blocks)))])
    return mirrored(out)


def matrix_gradient(operator: KernelOperator, upstream: Array, names: Collection[str] | None) -> dict[str, Array]:
    """The derivative of ``sum_ij G_ij K_ij`` for hyperparameters, given a symmetric G (N, N)."""
    offered = operator.offer(Matrix)
    if offered is not None:
        return offered.matrix_gradient(upstream, names)
    return tuning_of(operator).gradient(upstream, np.eye(len(upstream)))


def inverse_matrix(matrix: Array, diagonal: Array, n_threads: int = 1) -> Array:
    """``(K + diag(diagonal))^-1``, symmetric, in the precision of K, which is overwritten."""
    matrix[np.diag_indices(len(matrix))] += diagonal.astype(matrix.dtype)
    (potrf,) = get_lapack_funcs(("potrf",), (matrix,))
    # The lower half of an array in the order of C is the upper one for LAPACK.
    factor, failed = potrf(matrix.T, lower=0, clean=0, overwrite_a=1)
    if failed:
        raise ValueError(f"The kernel matrix with noise {diagonal.min():g} is not positive definite.")
    return symmetric_inverse(factor.T, n_threads)


@dataclass(frozen=True, eq=False)
class LeastLoss(Optimum):
    """The hyperparameters with the smallest leave-one-out loss.

    loss : with its priors, summed over samples
    point : the coordinates of the search at which it is, before parts were dropped
    """

    loss: float = np.inf
    point: Array | None = None


def search_leave_one_out(
    data: Data,
    space: Space,
    is_classification: bool,
    max_steps: int,
    report: Callable[[Row], bool] | None = None,
    droppable: Collection[str] = (),
    moves_noise: bool = False,
    begin: Array | None = None,
) -> LeastLoss:
    """The hyperparameters with the smallest loss, with priors around the start, by L-BFGS-B.

    moves_noise : whether the noise starts at one for rows of typical weight, so that it is to be less where samples of
        rows are left out one by one
    droppable : names of scales that become zero, one after the other, as long as the loss rises by less than one
    begin : the point of another search, with fewer samples, with which this one begins; priors stay where they are
    """
    search = _Search(data, space, is_classification, report, moves_noise)
    interrupted = False
    origins = [search.start]
    if begin is not None:  # what could be evaluated with fewer samples may be rounding with these: nearer to the start
        begin = np.clip(begin, *search.bounds.T)
        origins = [begin, (begin + search.start) / 2, search.start]
    try:
        # In units of the priors, and with a loss that makes the first step, down the slope, one of them long.
        for origin in origins:
            first = search.evaluate(origin)
            if search.best is not None:
                break
        unit = max(1.0, float(np.linalg.norm(first[1] * search.widths)))

        values: list[float] = []

        def scaled(z: Array) -> tuple[float, Array]:
            value, slope = search.evaluate(origin + z * search.widths) if z.any() else first
            values.append(value)
            if len(values) >= FLAT_STEPS and np.ptp(values[-FLAT_STEPS:]) <= LEAST_STEP * abs(value):
                raise StopIteration  # a line search in what is rounding
            return value / unit, slope * search.widths / unit

        found = optimize.minimize(
            scaled,
            np.zeros(len(origin)),
            jac=True,
            method="L-BFGS-B",
            bounds=(search.bounds - origin[:, None]) / search.widths[:, None],
            options={"maxfun": max_steps, "ftol": LEAST_STEP},
        )
        converged = bool(found.nfev < max_steps) or max_steps >= ENOUGH_STEPS
    except StopIteration:
        converged = True
    except (KeyboardInterrupt, StoppedError):
        interrupted, converged = True, True
    if search.best is None:
        if interrupted:
            raise KeyboardInterrupt
        raise ValueError(f"No hyperparameters near those given can be evaluated: {search.failure}")
    point = search.best[1]
    if not interrupted:
        search.drop(droppable)
    value, x = search.best
    theta = search.theta(x)
    return LeastLoss(theta, np.nan, np.nan, None, search.path, interrupted, converged, loss=value, point=point)


class _Search:
    """The loss with its priors, in coordinates: theta without weights, weights, their spread, the link.

    Weights have logarithms ``s + (k - 1) d + v``: s where they start, d how far they are spread there in units of the
    largest values of their features, k the spread, v their own.
    """

    def __init__(
        self,
        data: Data,
        space: Space,
        is_classification: bool,
        report: Callable[[Row], bool] | None,
        moves_noise: bool = False,
    ):
        """Prepare the labels, and the priors; nothing is evaluated yet."""
        self.data, self.space, self._report = data, space, report
        self.names = [one.name for one in space.free]
        self.path: list[Row] = []
        self.best: tuple[float, Array] | None = None
        self.failure = "their loss is not finite."
        ones = np.ones(len(data.targets))
        weights, counts = (ones if one is None else one for one in (data.weights, data.counts))
        scatter = np.zeros_like(data.targets) if data.scatter is None else data.scatter
        self._is_classification = is_classification
        loss = self._for_repeats(RowLoss(data.targets, weights, scatter, counts, is_classification))
        # Each sample counts as one, whatever the unit of weights is; copies of labels do together.
        self._unit_weight = data.unit_weight if loss.one_by_one else typical_weight(data, is_classification)
        # Rows of a group are much the same: together they count as one against the priors.
        self._n_groups = len(data.targets) if data.groups is None else len(np.unique(data.groups))
        self._loss_of_rows = loss.in_units(self._unit_weight * len(data.targets) / self._n_groups)
        self._weights = self._loss_of_rows.weights
        self._is_weight = np.concatenate([np.full(len(one.start), is_weights(one.name)) for one in space.free])
        spreads = [one.spread for one in space.free if one.spread is not None]
        self._shape = np.concatenate(spreads) if spreads else np.zeros(int(self._is_weight.sum()))
        self._has_spread = bool(self._shape.any())
        self._set_priors(moves_noise)

    def _set_priors(self, moves_noise: bool) -> None:
        """Where the search starts, how far it may go, and how wide the priors are."""
        theta, bounds = self.space.start, self.space.bounds
        start = np.where(self._is_weight, 0.0, theta)
        widths = np.where(self._is_weight, WEIGHT_WIDTH, PRIOR_WIDTH)
        bounds = bounds - np.where(self._is_weight, theta, 0.0)[:, None]
        names = np.concatenate([np.full(len(one.start), one.name, object) for one in self.space.free])
        for k, name in enumerate(names):
            if name.startswith("transform__"):
                widths[k] = TRANSFORM_WIDTH
                bounds[k] = np.clip(theta[k] + np.array([-1, 1]) * TRANSFORM_REACH, *bounds[k])
            if name == "noise":
                if moves_noise:
                    start[k] += np.log(self._unit_weight / typical_weight(self.data, self._is_classification))
                lowest, highest = np.log(np.array(self._noise_bounds()) * self._noise_unit() * self._unit_weight)
                bounds[k] = np.clip([min(lowest, start[k]), max(highest, start[k])], *bounds[k])
        extra = [(1.0, SPREAD_WIDTH, SPREAD_BOUNDS)] if self._has_spread else []
        if self._is_classification:
            extra += [
                (np.log(START_LINK.temperature), LINK_WIDTH, LOG_TEMPERATURE_BOUNDS),
                (START_LINK.bend, LINK_WIDTH, BEND_BOUNDS),
            ]
        self.start = np.append(start, [one[0] for one in extra])
        self.widths = np.append(widths, [one[1] for one in extra])
        self.bounds = np.vstack([bounds, *(one[2] for one in extra)])
        if self._n_groups < FEW_SAMPLES:
            self.widths = self.widths / 2
        reach = MOST_WIDTHS * self.widths
        self.bounds = np.stack(
            [np.maximum(self.bounds[:, 0], self.start - reach), np.minimum(self.bounds[:, 1], self.start + reach)],
            axis=1,
        )

    def _noise_bounds(self) -> tuple[float, float]:
        return NOISE_BOUNDS if self._is_classification else NOISE_BOUNDS_OF_VALUES

    def _noise_unit(self) -> float:
        """The variance of targets, or the prior variance of a kernel whose scale does not change."""
        if any(is_scale(name) or is_weights(name) for name in self.names):
            return 1.0 if self._is_classification else self.data.target_variance
        return varying_variance(self.data.operator)

    def theta(self, x: Array) -> Array:
        """The logarithms of all hyperparameters."""
        theta = x[: len(self._is_weight)].copy()
        if self._is_weight.any():
            spread = x[len(theta)] if self._has_spread else 1.0
            theta[self._is_weight] += self.space.start[self._is_weight] + (spread - 1) * self._shape
        return theta

    def link(self, x: Array) -> Link:
        return Link(float(np.exp(x[-2])), float(x[-1]))

    def evaluate(self, x: Array) -> tuple[float, Array]:
        """The loss with its priors, and the derivative for the coordinates."""
        theta = self.theta(x)
        found = self._loss(x, self.names)
        if found is None:
            return self._worst(), np.zeros_like(x)
        by_theta = self.space.gradient(theta, found.derivatives)
        slope = np.zeros_like(x)
        slope[: len(theta)] = by_theta
        if self._has_spread:
            slope[len(theta)] = by_theta[self._is_weight] @ self._shape
        if self._is_classification:
            slope[-2:] = found.by_link
        away = (x - self.start) / self.widths
        value = found.value + self._penalty(x)
        if not np.isfinite(value):
            return self._worst(), np.zeros_like(x)
        self._record(x, theta, found.value, value)
        return value, slope + away / self.widths

    def drop(self, names: Collection[str]) -> None:
        """Set scales to zero, the one that is missed least first, as long as the loss rises by less than one."""
        left = list(names)
        while len(left) > 1 and self.best is not None:
            value, x = self.best
            tried = [(self._without(x, name), name) for name in left]
            (least, without), name = min(tried, key=lambda one: one[0][0])
            if least >= value + DROPPED_LOSS:
                return
            self.best = least, without
            left.remove(name)

    def _without(self, x: Array, name: str) -> tuple[float, Array]:
        """The loss with a scale of zero, and where that is; priors of what the scale belongs to count no more."""
        prefix = name.removesuffix("scale")
        places = np.concatenate([np.full(len(one.start), one.name.startswith(prefix)) for one in self.space.free])
        other = x.copy()
        is_own = np.append(places, np.zeros(len(x) - len(places), bool))
        other[is_own] = self.start[is_own]
        other[self._place(name)] = -np.inf
        found = self._loss(other, ())
        value = np.inf if found is None else found.value + self._penalty(other)
        return value if np.isfinite(value) else np.inf, other

    def _place(self, name: str) -> int:
        """The place of a hyperparameter that is one number."""
        names = [one.name for one in self.space.free for _ in one.start]
        return names.index(name)

    def _penalty(self, x: Array) -> float:
        """Minus the logarithms of the priors, up to a constant; of scales that are zero there are none."""
        away = np.where(np.isneginf(x), 0.0, (x - self.start) / self.widths)
        return float(away @ away / 2)

    def _loss(self, x: Array, names: Collection[str]) -> Loss | None:
        """The loss without its priors, and derivatives by these names; None where it cannot be computed."""
        try:
            operator, noise = self.data.at(self.space, self.theta(x))
            terms = self._terms(x, noise)
            return leave_one_out_loss(operator, noise, self.data.targets, terms, names, self.data.groups)
        except ValueError as error:  # LinAlgError is one
            self.failure = str(error)
            return None

    def _terms(self, x: Array, noise: Noise) -> Callable[[Array, Array], LossTerms]:
        link = self.link(x) if self._is_classification else START_LINK
        return lambda alpha, inverse: self._loss_of_rows.terms(alpha, inverse, noise, link)

    def _for_repeats(self, loss: RowLoss) -> RowLoss:
        """The loss that suits equal samples, as far as can be told where the search starts."""
        data, scores = self.data, np.zeros_like(self.data.targets)
        if loss.counts.max() < SEVERAL or data.groups is not None:
            return loss

        def terms(alpha: Array, inverse: Array) -> LossTerms:
            scores[:] = data.targets - alpha / inverse
            return loss.terms(alpha, inverse, data.noise, START_LINK)

        try:
            leave_one_out_loss(data.operator, data.noise, data.targets, terms, ())
        except ValueError:
            return loss
        return loss.for_repeats(START_LINK, scores)

    def _worst(self) -> float:
        """A value above all that were seen, for points without one."""
        return 10 * max((abs(float(row["loss"])) for row in self.path), default=0.0) + 1e6

    def _record(self, x: Array, theta: Array, loss: float, penalized: float) -> None:
        """Append an evaluation to the path, remember it if it is the best, and let the caller stop."""
        row: Row = {"loss": loss / self._weights.sum(), "n_samples": len(self.data.targets)}
        for one, values in self.space.parts(theta):
            if not is_weights(one.name):
                row[one.name] = float(values[0]) if one.value_of is None else values
        self.path.append(row)
        if self.best is None or penalized < self.best[0]:
            self.best = penalized, x.copy()
        if self._report is not None and self._report(row):
            raise StoppedError


def typical_weight(given: Any, is_classification: bool) -> float:
    """The weight of which a typical noise is that of a row: its labels are one, whatever the number of copies.

    Values, whose density counts, have a noise of their own: that of one sample.

    given : what has ``mean_weight`` and ``unit_weight``
    """
    return float(given.mean_weight if is_classification else given.unit_weight)


def varying_variance(operator: KernelOperator) -> float:
    """The mean prior variance of training samples, without what all have in common; one if there is none."""
    variance = float(operator.diagonal().mean())
    varying = variance - operator.kernel.constant
    return varying if varying > VARIANCE_ROUNDING * variance else 1.0


def number_searched(n_outputs: int) -> int:
    """The most samples that a search looks at."""
    return int(np.clip(SAMPLES_PER_CLASS * n_outputs, FEWEST_SAMPLES, MOST_SAMPLES))


def sampled(codes: Array, keys: Array, most: int) -> Array:
    """Numbers of at most ``most`` samples in the order of their keys (N,), of each class (N,) in proportion."""
    order = np.lexsort((keys, codes))
    if len(order) > most:
        order = order[(np.arange(most) * len(order)) // most]
    return order[np.argsort(keys[order], kind="stable")]


def searched_samples(data: Data, is_classification: bool, rng: np.random.Generator) -> Any:
    """The numbers of the samples that a search looks at, of each class in proportion; None for all of them."""
    n, n_outputs = data.targets.shape
    most = number_searched(n_outputs)
    if data.operator.offer(Matrix) is None and tuning_of(data.operator).most_searched is None:
        most = MOST_WITHOUT_MATRIX
    if n <= most:
        return None
    codes = codes_of(data.targets) if is_classification else np.zeros(n, int)
    return np.sort(sampled(codes, rng.permutation(n), most))


def left_out_rows(keys: Array, groups: Array | None = None) -> Array:
    """Numbers of some rows by their keys (n_rows,), ascending: the same rows, whatever their order is.

    groups : (n_rows,), the numbers of groups, of which those that are taken are whole, or None
    """
    order = np.argsort(keys)
    return np.sort(order[:LEFT_OUT_ROWS]) if groups is None else whole_groups(groups, order, LEFT_OUT_ROWS)


def unseen_rows(keys: Array, seen: Array, groups: Array | None = None) -> Array:
    """Numbers of some rows beside those that were seen, in the order of their keys (n_rows,).

    groups : (n_rows,), the numbers of groups, of which no row may have been seen, or None
    """
    order = np.argsort(keys)
    is_seen = np.zeros(len(keys), bool)
    is_seen[seen] = True
    if groups is not None:
        is_seen = np.isin(groups, groups[seen])
    return order[~is_seen[order]][:UNSEEN_ROWS]


def clearly_best(losses: list[Array], groups: Array | None = None) -> int:
    """The number of the smallest losses of rows, (n,) each, summed, of those below the first beyond chance.

    That of the first, if there are none. groups : (n,), the numbers of groups of rows that are much the same, or None
    """
    if groups is not None:
        places = np.unique(groups, return_inverse=True)[1]
        losses = [np.bincount(places, one) for one in losses]
    best = 0
    for k, one in enumerate(losses):
        gains = losses[0] - one
        is_clear = gains.sum() > CLEAR_ERRORS * np.sqrt(len(gains)) * gains.std()
        if is_clear and one.sum() < losses[best].sum():
            best = k
    return best


def promising_factor(
    posterior: Any, index: Array, options: SolverOptions, *, is_classification: bool
) -> tuple[float, float]:
    """A factor of the noise under which the loss of left-out rows may be smaller, or one; and the loss as it is.

    One where there are no factors to solve for many rows, or a noise for each output.

    index : numbers of the rows that are left out
    """
    direct = direct_options(posterior.operator, posterior.noise, options)
    if posterior.noise.n_matrices > 1 or direct is None:
        return 1.0, np.inf
    value, slope = left_out_slope(posterior, index, direct, is_classification=is_classification)
    if abs(slope) * np.log(TRIED_FACTOR) < LEAST_PROMISE:
        return 1.0, value
    return (TRIED_FACTOR if slope < 0 else 1 / TRIED_FACTOR), value


def left_out_slope(
    posterior: Any, index: Array, options: SolverOptions, *, is_classification: bool
) -> tuple[float, float]:
    """`left_out_loss`, and its derivative for the logarithm of a noise that all outputs share."""
    system = posterior.systems(options)
    inverse, change_of_inverse = system.inverse_slope(index)
    found, by_alpha, by_inverse = _left_out(posterior, index, inverse, is_classification)
    # With A = K + diag(noise): d alpha = -A^-1 (noise alpha).
    sides = posterior.noise.diagonals() * posterior.alpha
    slope = found.by_noise - float(np.sum(by_alpha * system.solve(sides, options.tol).values[index]))
    return found.value, slope + float(np.sum(by_inverse * change_of_inverse))


def left_out_loss(posterior: Any, index: Array, options: SolverOptions, *, is_classification: bool) -> float:
    """The loss of rows that are left out one by one, or by groups, summed."""
    direct = direct_options(posterior.operator, posterior.noise, options) or options
    inverse = posterior.systems(direct).inverse_block(index)
    return _left_out(posterior, index, inverse, is_classification)[0].value


def _left_out(posterior: Any, index: Array, inverse: Array, is_classification: bool) -> tuple[LossTerms, Array, Array]:
    """The loss of left-out rows, and its derivatives for alpha, (n, M), and ``A^-1``, (n, n).

    inverse : what ``A^-1`` has for pairs of the rows, (n, n)
    """
    alpha, groups = posterior.alpha[index], posterior.given.row_groups
    if groups is None:
        own = np.broadcast_to(inverse.diagonal()[:, None], alpha.shape)
        found = _terms_of(posterior.given, index, alpha, own, is_classification)
        return found, found.by_alpha, np.diag(found.by_inverse.sum(axis=1))
    left_out = LeftOutGroups.of(members_of(groups[index]), inverse, alpha)
    seen_alpha, seen_inverse = left_out.as_single()
    seen_inverse = np.broadcast_to(seen_inverse, alpha.shape)
    found = _terms_of(posterior.given, index, seen_alpha, seen_inverse, is_classification)
    by_alpha, blocks = left_out.derivatives(found.by_alpha, found.by_inverse)
    by_inverse = np.zeros_like(inverse)
    for places, block in zip(left_out.members, blocks, strict=True):
        by_inverse[np.ix_(places, places)] = block
    return found, by_alpha, by_inverse


def unseen_losses(
    operator: KernelOperator,
    noise: Noise,
    targets: Array,
    rows: Rows,
    given: TrainingTargets,
    index: Array,
    *,
    is_classification: bool,
) -> Array:
    """The losses of rows that are not among those of an operator, (n,), with the link that suits them best.

    No sample of such a row is known, so that copies and samples that come again are the same here.

    operator, noise, targets : of the rows that are known; their noise is the same for all outputs
    rows : the others; index : their numbers among all rows; given : what samples say, at the same noise
    """
    own_targets, own_noise = given.row_targets[index], given.row_noise.diagonals()[index]
    cross = operator.cross(rows)
    with suited_blas(0.0):
        inverse = inverse_matrix(new_matrix(operator), noise.sample, operator.n_threads)
        errors = own_targets - cross @ (inverse @ targets)
        explained = np.einsum("ij,ij->i", cross @ inverse, cross)
    variances = np.maximum(operator.diagonal(rows) - explained, 0.0)[:, None] + own_noise
    own_inverse = np.broadcast_to(1 / variances, errors.shape)
    return _terms_of(given, index, errors / variances, own_inverse, is_classification, by_row=True).losses


def _terms_of(
    given: TrainingTargets,
    index: Array,
    alpha: Array,
    inverse: Array,
    is_classification: bool,
    by_row: bool = False,
) -> LossTerms:
    """The loss of rows that are left out, given alpha and c, with the link that suits them best.

    by_row : whether samples of a row are left out together, whatever they say
    """
    targets, weights, scatter = given.row_targets[index], given.row_weights[index], given.row_scatter
    squares, counts = np.zeros_like(targets) if scatter is None else scatter[index], given.row_counts
    plain = RowLoss(targets, weights, squares, counts[index], is_classification)
    loss = plain.in_units(typical_weight(given, is_classification))
    noise = Noise(given.row_noise.sample[index])
    link = fit_link_to(*loss.scores(alpha, inverse, noise)) if is_classification else START_LINK
    by_row = by_row or given.group_of is not None
    suited = loss if by_row else plain.for_repeats(link, targets - alpha / inverse)
    if not suited.one_by_one:
        return loss.terms(alpha, inverse, noise, link)
    suited = suited.in_units(given.unit_weight)
    if is_classification:
        link = fit_link_to(*suited.scores(alpha, inverse, noise))
    return suited.terms(alpha, inverse, noise, link)
