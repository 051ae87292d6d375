"""What ``kernel="auto"`` and ``noise="auto"`` come to: a kernel and a noise, found on a sample of the training data.

The kernel is a sum of an intersection kernel, a Laplacian, a Gaussian and a constant on shared heights. Its scales,
widths and weights, and the noise, are those with the smallest leave-one-out loss, with priors around where they start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import gen_batches

from histogp._core.data import Array, Rows
from histogp._core.operators.contract import Approximate, KernelOperator
from histogp._core.predictors import codes_of
from histogp._core.search.leave_one_out import (
    ENOUGH_STEPS,
    FEWEST_SAMPLES,
    left_out_rows,
    number_searched,
    sampled,
    search_leave_one_out,
    typical_weight,
    values_differ,
    varying_variance,
)
from histogp._core.search.optimization import Row
from histogp._core.search.space import Data, Space
from histogp._core.solvers.problem import Noise, TrainingTargets, mean_weight
from histogp.kernels import Constant, Gaussian, HistogramIntersection, Kernel, Laplacian, Power, Sum

# What users write to leave a kernel or a noise to data.
AUTO = "auto"
# Where a search starts: the scale of each part and the noise, in units of the mean square of targets. They are means
# of priors, too.
START_SCALE = 0.5
START_NOISE = 0.1
# The noise of models of one class. With less, a training sample is never unlike the others; with more, outliers are
# told a little worse: the area under the curve, of nine data sets, is .947, .944, .941 and .936 with .01, .1, .3 and 1.
LIKENESS_NOISE = 0.3
# Features of which at least this part is zero keep their zeros. Without negative values they count as counts.
ZEROS_OF_COUNTS = 0.5
# Features of which at least this part begins at zero may be bent: a power suits histograms, of which it is often the
# root (orientation histograms: log loss .302 to .296; spambase .131 to .124; digits .0245 to .0232).
BEGIN_AT_ZERO = 0.5
# Sums of rows that differ by a smaller part are equal, so that there is nothing to normalize.
EQUAL_SUMS = 1e-3
# Samples that units of features come from; more of them than a search sees, so that rare features count as well.
UNIT_SAMPLES = 4_000
# The part of the samples, at most, that may be so far away that they do not count for units, and how many others must
# differ from the median of a feature to tell.
MOST_UNUSUAL, FEWEST_USUAL = 0.1, 10
# Samples that are looked at together.
BLOCK_SAMPLES = 4_096
# Features may be as large as this, or as small as its inverse.
MOST_MAGNITUDE = 1e200
# Distinct samples from which on there is something to search for; with fewer, the noise of values that repeated
# samples have counts like so many of them where it starts.
FEWEST_SEARCHED, PRIOR_VALUES = 10, 2
# Above the samples of an exact kernel: landmarks, as many as features of all samples may be, within limits.
FEWEST_LANDMARKS, MOST_LANDMARKS, MOST_FEATURES = 1_000, 6_000, 2**29
# Scales of parts that may be dropped.
DROPPABLE = ("histogram_intersection__scale", "laplacian__scale", "gaussian__scale")


@dataclass(frozen=True, eq=False)
class Decision:
    """A kernel and a noise that leave nothing to data.

    path : evaluations of the search by the names of columns, or None without a search
    left_out : numbers of rows on which the noise is to be tried, if it was found on some of the rows only
    """

    kernel: Kernel
    noise: float
    path: dict[str, Array] | None = None
    left_out: Array | None = None


def starting_kernels(
    X: Any, scale: float = 1.0, unusual: Array | None = None, mean_square: float | None = None
) -> list[Sum]:
    """The kernels from which a search may start, for distinct training samples, an array or CSR (N, D); often one.

    Features are shifted by their smallest values, unless most are zero, and each has a weight of its own; where most
    begin at zero, a power of them is found as well. Counts, that is mostly zeros and nothing negative, are tried with
    one weight for all as well, and with normalized rows; of more counts than a search sees samples not all would have a
    weight.

    scale, mean_square : the variance and the mean square of the targets; the latter is None if these are equal
    unusual : mask of the samples that do not count for the smallest values, (N,), or None if all do
    """
    n_samples, n_features = X.shape
    lowest = _per_feature(X.min(axis=0))
    _check_magnitude(max(_per_feature(X.max(axis=0)).max(), -lowest.min()))
    keeps_zeros = _keeps_zeros(X)
    if unusual is not None and unusual.any() and not keeps_zeros:
        lowest = _per_feature(X[~unusual].min(axis=0))
    n_components = int(np.clip(MOST_FEATURES // n_samples, FEWEST_LANDMARKS, MOST_LANDMARKS))
    own = START_SCALE * scale
    level = START_SCALE * (scale if mean_square is None else mean_square)
    parts = [HistogramIntersection(scale=own), Laplacian(scale=own), Gaussian(scale=own), Constant(level)]
    shift = 0.0 if keeps_zeros else lowest
    bend = Power(1.0) if _begins_at_zero(X, lowest) and n_features <= FEWEST_SAMPLES else None
    kernel = Sum(parts, weights="ard", shift=shift, transform=bend, n_components=n_components)
    if not keeps_zeros or lowest.min() < 0:
        return [kernel]
    rows = Rows.from_array(X)
    sums = np.sort(rows.row_sums(rows.values))
    if not sums.any():
        return [kernel]
    several = [clone(kernel).set_params(weights=1 / float(sums.mean()))]
    if sums[sums > 0].min() < (1 - EQUAL_SUMS) * sums.max():
        several.append(clone(kernel).set_params(weights=None, normalize="l1"))
    return [*several, kernel] if n_features <= min(n_samples, FEWEST_SAMPLES) else several


def unusual_samples(X: Any, some: Array) -> Array:
    """Which samples are so far away in a feature that its unit would be theirs alone, a mask (N,).

    That is, farther from the median of the feature than all samples together that are closer. None are where most
    features are zero, or where these would be more than a few.

    X : distinct samples, an array or CSR (N, D); some : numbers of those that medians and distances come from
    """
    none = np.zeros(X.shape[0], bool)
    if len(some) <= FEWEST_USUAL or _keeps_zeros(X):
        return none
    sample = Rows.some_of(X, np.sort(some)).to_dense()
    center = np.median(sample, axis=0)
    away = np.sort(np.abs(sample - center), axis=0)
    closer = np.cumsum(away, axis=0)
    n_zeros = np.count_nonzero(away == 0, axis=0)
    enough = n_zeros + np.maximum(FEWEST_USUAL, (len(away) - n_zeros) // 2)
    is_alone = (away[1:] > closer[:-1]) & (np.arange(1, len(away))[:, None] >= enough)
    first = np.where(is_alone.any(axis=0), is_alone.argmax(axis=0), len(away) - 1)
    farthest = closer[first, np.arange(len(center))]
    farthest[n_zeros + FEWEST_USUAL > len(away)] = np.inf
    found = none.copy()
    for rows in gen_batches(len(found), BLOCK_SAMPLES):
        block = X[rows].toarray() if sparse.issparse(X) else X[rows]
        found[rows] = np.any(np.abs(block - center) > farthest, axis=1)
    return found if np.count_nonzero(found) <= MOST_UNUSUAL * len(found) else none


def _per_feature(of_features: Any) -> Array:
    """What a method of an array, or of a sparse one, returns for all features, (D,)."""
    return np.asarray(of_features.toarray() if sparse.issparse(of_features) else of_features, np.float64).ravel()


def _begins_at_zero(X: Any, lowest: Array) -> bool:
    """Whether nothing is negative, and zero is the smallest value of most features, (D,), that vary."""
    varies = _per_feature(X.max(axis=0)) > lowest
    return bool(lowest.min() >= 0 and varies.any() and np.mean(lowest[varies] == 0) >= BEGIN_AT_ZERO)


def _keeps_zeros(X: Any) -> bool:
    """Whether most features are zero, so that they are not shifted."""
    return _number_of_nonzeros(X) <= (1 - ZEROS_OF_COUNTS) * X.shape[0] * X.shape[1]


def _check_magnitude(largest: float) -> None:
    """Refuse features that are so large or small that numbers computed from them overflow."""
    if largest > 0 and not 1 / MOST_MAGNITUDE < largest < MOST_MAGNITUDE:
        which = "large" if largest > 1 else "small"
        raise ValueError(
            f"The features of X have sizes up to {largest:.0e}, too {which} to compute with: multiply X by a number."
        )


def _number_of_nonzeros(X: Any) -> int:
    return int(X.count_nonzero() if sparse.issparse(X) else np.count_nonzero(X))


def left_open(kernel: Any, noise: Any) -> str:
    """What parameters leave to data: "all", "kernel", "noise", or nothing."""
    opened = [isinstance(given, str) and given == AUTO for given in (kernel, noise)]
    return "all" if all(opened) else "kernel" if opened[0] else "noise" if opened[1] else ""


def decide(
    kernels: list[Any],
    noise: float,
    X: Any,
    given: TrainingTargets,
    hashes: Array,
    unusual: Array,
    *,
    finds: str,
    is_classification: bool,
    n_threads: int,
    report: Callable[[Row], bool],
) -> Decision:
    """The best of some kernels, or of one with another noise, for distinct rows X, an array or CSR.

    kernels : those to start from
    noise : where the noise of a row of typical weight starts; in units of the prior variance if it alone is to be found
    given : what samples say, at that noise
    hashes : of the rows, (N,); those of a sample are searched in this order, so that the order of X does not matter
    unusual : mask of the rows that do not count for units, (N,)
    finds : "all", "kernel" without the noise, or "noise" without the kernel
    """
    targets, weights, scatter = given.row_targets, given.row_weights, given.row_scatter
    codes = codes_of(targets) if is_classification else np.zeros(len(targets), int)
    in_order = np.argsort(hashes)
    some = in_order[~unusual[in_order]][:UNIT_SAMPLES]
    counts = given.row_counts
    if len(targets) < FEWEST_SEARCHED or np.bincount(codes).max() < 2:
        if finds == "noise":
            return with_unit(kernels[0], noise * typical_weight(given, is_classification), X[some])
        if finds == "all":
            repeated = not is_classification and scatter is not None and values_differ(scatter, counts)
            noise = _pooled_noise(noise, given) if repeated else noise * typical_weight(given, is_classification)
        return settled(kernels[0], noise, X[some], targets[some])
    chosen = sampled(codes, hashes, number_searched(targets.shape[1]))
    squares, groups = (None if one is None else one[chosen] for one in (scatter, given.row_groups))
    own_noise, own_counts, unit = given.row_noise.subset(chosen), counts[chosen], given.unit_weight
    sample = Sample(X[chosen], own_noise, targets[chosen], weights[chosen], squares, groups, own_counts, unit)
    if finds != "kernel":
        typical = typical_weight(sample, is_classification)
        noise, sample = noise * typical, replace(sample, noise=own_noise.scaled(typical))
    options = finds, is_classification, n_threads, report
    found = [_searched(kernel, noise, X[some], targets[some], sample, *options) for kernel in kernels]
    best = min(found, key=lambda one: one[0])[1]
    is_open = finds != "kernel" and len(chosen) < len(targets)
    return replace(best, left_out=left_out_rows(hashes, given.row_groups) if is_open else None)


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows that a search sees, with what `Data` has beside an operator."""

    X: Any
    noise: Noise
    targets: Array
    weights: Array
    scatter: Array | None
    groups: Array | None
    counts: Array
    unit_weight: float

    @property
    def mean_weight(self) -> float:
        """The mean weight of a row, without weights of classes."""
        return mean_weight(self.counts, self.unit_weight)

    def data(self, operator: KernelOperator, unit: float) -> Data:
        """What a search sees, given the operator of the rows and a factor of the noise."""
        own = self.targets, self.weights, self.scatter, self.groups, self.counts, self.unit_weight
        return Data(operator, self.noise.scaled(unit), *own)


def _pooled_noise(noise: float, given: TrainingTargets) -> float:
    """The noise of samples of rows that are too few to search, from how they scatter, with a prior at ``noise``."""
    scatter = given.row_scatter
    squares = 0.0 if scatter is None else float(scatter.sum()) / given.targets.shape[1]
    n_more = float(given.row_counts.sum()) - len(given.row_targets)
    return (PRIOR_VALUES * noise * given.unit_weight + squares) / (PRIOR_VALUES + n_more)


def likeness(kernel: Any, noise: float, X: Any) -> Decision:
    """What tells samples like those of X from others: the interactive parts of a sum, where a search would start."""
    parts = [(name, part) for name, part in kernel.named_parts().items() if part._is_interactive]
    return settled(kernel.set_params(parts=parts, transform=None), noise, X, np.ones((X.shape[0], 1)))


def with_unit(kernel: Any, noise: float, X: Any) -> Decision:
    """The kernel as it is given, and a noise that is so many times the prior variance of the samples of X."""
    adapted = kernel._adapt(X, np.ones((X.shape[0], 1)), noise)
    return Decision(kernel, noise * varying_variance(adapted.kernel._operator(adapted.value, X)))


def settled(kernel: Any, noise: float, X: Any, targets: Array) -> Decision:
    """The kernel where a search would start, with what it takes from training samples."""
    adapted = kernel._adapt(X, targets, noise)
    space = Space.of(adapted.value, Rows.from_array(X), noise, float(np.mean(targets**2)) or 1.0)
    opened = {one.name: one.start for one in space.free if one.is_open}
    return Decision(adapted.kernel._with_values(opened), noise)


def _searched(
    kernel: Any,
    noise: float,
    X: Any,
    targets: Array,
    sample: Sample,
    finds: str,
    is_classification: bool,
    n_threads: int,
    report: Callable[[Row], bool],
) -> tuple[float, Decision]:
    """The loss that a search from a kernel ends with, and what it has found.

    X, targets : more rows than are searched, for units
    """
    adapted = kernel._adapt(X, targets, noise)
    operator = adapted.kernel._operator(adapted.value, sample.X, n_threads)
    approximate = operator.offer(Approximate)
    operator = operator if approximate is None else approximate.exactly()
    unit = varying_variance(operator) if finds == "noise" else 1.0
    noise, data = noise * unit, sample.data(operator, unit)
    space = Space.of(adapted.value, Rows.from_array(X), noise, data.mean_square)
    names = [one.name for one in space.free if finds == "all" or (one.name == "noise") == (finds == "noise")]
    space = space.only(names)
    droppable = [name for name in DROPPABLE if name in names]
    moves_noise = finds != "kernel"
    found = search_leave_one_out(
        data.in_single(), space, is_classification, ENOUGH_STEPS, report, droppable, moves_noise=moves_noise
    )
    if found.interrupted:
        raise KeyboardInterrupt  # who leaves all to data has not asked for a search that could end earlier
    path = {name: np.array([row[name] for row in found.path], np.float64) for name in found.path[0]}
    value = noise * space.noise_factor(found.theta)
    return found.loss, Decision(_with_values(adapted.kernel, space.kernel_values(found.theta)), float(value), path)


def _with_values(kernel: Any, values: dict[str, Any]) -> Any:
    """The kernel with values that a search has found, without parts whose scale is zero."""
    changed = kernel._with_values(values)
    dropped = {name.removesuffix("__scale") for name, value in values.items() if np.ndim(value) == 0 and value == 0}
    if dropped:
        parts = [(name, part) for name, part in changed.named_parts().items() if name not in dropped]
        changed.set_params(parts=parts)
    return changed
