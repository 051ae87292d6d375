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

from histogp._core.data import Array, Rows, content_hash
from histogp._core.memory import memory_of_machine
from histogp._core.operators.contract import Approximate
from histogp._core.operators.half_matrix import half_bytes
from histogp._core.operators.pair_operators import has_matrix
from histogp._core.predictors import codes_of
from histogp._core.search.leave_one_out import (
    ENOUGH_OF_TWO,
    ENOUGH_STEPS,
    FEWEST_SAMPLES,
    clearly_best,
    left_out_rows,
    number_searched,
    sampled,
    search_leave_one_out,
    typical_weight,
    unseen_losses,
    unseen_rows,
    values_differ,
    varying_variance,
)
from histogp._core.search.optimization import Row
from histogp._core.search.space import Data, Space
from histogp._core.solvers.problem import TrainingTargets, mean_weight
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
# Steps that the range of a feature has where they tell in which order samples are searched.
STEPS = 1_024
# Samples that are looked at together.
BLOCK_SAMPLES = 4_096
# Features may be as large as this, or as small as its inverse.
MOST_MAGNITUDE = 1e200
# Distinct samples from which on there is something to search for; with fewer, the noise of values that repeated
# samples have counts like so many of them where it starts.
FEWEST_SEARCHED, PRIOR_VALUES = 10, 2
# Rows that several kernels are compared on, at the least, after a search on half of the sample.
FEWEST_UNSEEN = 200
# Above the samples of an exact kernel classes have a matrix in single precision up to so many products of samples with
# non-zeros and with outputs, each half a minute or more, if half of it takes no more than this part of the memory: of
# 60,000 orientation histograms accuracy is .934 with it, in 7.2 GB, and .918 with 6,000 landmarks.
MOST_DIFFERENCES, MOST_PRODUCTS, PART_OF_MEMORY = 2**41, 2**37, 0.5
# Otherwise there are landmarks, as many as features of all samples may be, within limits.
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


def suited_approximation(n: int, n_nonzeros: int, n_outputs: int) -> str:
    """How a kernel for classes of n distinct samples is approximated, if it is: "single", or "auto" by landmarks."""
    if has_matrix("auto", n) or not has_matrix("single", n):
        return "auto"
    is_short = n * n_nonzeros <= MOST_DIFFERENCES and n**2 * n_outputs <= MOST_PRODUCTS
    has_room = half_bytes(n) <= PART_OF_MEMORY * memory_of_machine()
    return "single" if is_short and has_room else "auto"


def starting_kernels(
    X: Any,
    scale: float = 1.0,
    unusual: Array | None = None,
    mean_square: float | None = None,
    approximation: str = "auto",
) -> list[Sum]:
    """The kernels from which a search may start, for distinct training samples, an array or CSR (N, D); often one.

    Features are shifted by their smallest values, unless most are zero; those that do not vary have no weight. First
    each has a weight of its own, then all have one, for samples enough to tell; where most begin at zero, a power of
    them is found as well. Counts, that is mostly zeros and nothing negative, have one weight first, then rows that are
    normalized, then own weights. Where most are zero there are no own weights if they are more than a search sees
    samples.

    scale, mean_square : the variance and the mean square of the targets; the latter is None if these are equal
    unusual : mask of the samples that do not count for the smallest values, (N,), or None if all do
    approximation : of kernels that are evaluated pair by pair
    """
    n_samples, n_features = X.shape
    lowest, highest = (_per_feature(ends) for ends in (X.min(axis=0), X.max(axis=0)))
    _check_magnitude(max(highest.max(), -lowest.min()))
    varies = highest > lowest  # other features say nothing, whatever they do later
    keeps_zeros = _keeps_zeros(X)
    if unusual is not None and unusual.any() and not keeps_zeros:
        lowest = _per_feature(X[~unusual].min(axis=0))
    n_components = int(np.clip(MOST_FEATURES // n_samples, FEWEST_LANDMARKS, MOST_LANDMARKS))
    own = START_SCALE * scale
    level = START_SCALE * (scale if mean_square is None else mean_square)
    parts = [HistogramIntersection(scale=own), Laplacian(scale=own), Gaussian(scale=own), Constant(level)]
    shift = 0.0 if keeps_zeros else lowest
    bend = Power(1.0) if _begins_at_zero(X, lowest) and n_features <= FEWEST_SAMPLES else None
    ways: dict[str, Any] = {"approximation": approximation, "n_components": n_components}
    kernel = Sum(parts, weights="ard", shift=shift, transform=bend, **ways)
    sums = _row_sums(X, shift, varies)
    sums = np.sort(sums if unusual is None else sums[~unusual])
    if not sums.any():
        return [kernel]
    seen = 1.0 if varies.all() else varies.astype(np.float64)
    one_weight = clone(kernel).set_params(weights=seen / float(sums.mean()))
    is_wide = n_features > min(n_samples, FEWEST_SAMPLES)
    if not keeps_zeros:
        return [kernel, one_weight]
    if lowest.min() < 0:
        return [one_weight] if is_wide else [kernel, one_weight]
    several = [one_weight]
    if sums[sums > 0].min() < (1 - EQUAL_SUMS) * sums.max():
        normalize, weights = ("l1", None) if varies.all() else (varies, seen)
        several.append(clone(kernel).set_params(weights=weights, normalize=normalize))
    return several if is_wide else [*several, kernel]


def search_keys(X: Any, hashes: Array) -> Array:
    """Ranks of distinct samples, an array or CSR (N, D), in the order in which they are searched, (N,).

    The order looks random and depends on their contents alone, cut to steps of the range of each feature, so that it is
    the same in other units and in single precision; then on the hashes of their contents, (N,).
    """
    lowest, highest = (_per_feature(ends) for ends in (X.min(axis=0), X.max(axis=0)))
    keeps_zeros = _keeps_zeros(X)
    if keeps_zeros:
        lowest, highest = np.zeros_like(lowest), np.maximum(highest, -lowest)
    factors = STEPS / np.where(highest > lowest, highest - lowest, np.inf)
    if keeps_zeros:
        rows = Rows.from_array(X)
        steps = content_hash(rows.with_values(np.rint(rows.values * factors[rows.column_of])))
    else:
        steps = np.empty(X.shape[0], np.uint64)
        for some in gen_batches(len(steps), BLOCK_SAMPLES):
            block = X[some].toarray() if sparse.issparse(X) else X[some]
            steps[some] = content_hash(np.rint((np.asarray(block, np.float64) - lowest) * factors))
    ranks = np.empty(len(steps), np.int64)
    ranks[np.lexsort((hashes, steps))] = np.arange(len(steps))
    return ranks


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


def _row_sums(X: Any, shift: Array | float, counted: Array) -> Array:
    """The sums of what samples are above the shift, or of their sizes if there is none, of some features, (N,).

    The same in any container: a shift is subtracted before values are added up, in double precision, because features
    far from zero have rounding alone beyond it otherwise.
    """
    if not np.ndim(shift):
        rows = Rows.from_array(X)
        return rows.row_sums(np.abs(rows.values) * counted[rows.column_of])
    out = np.empty(X.shape[0])
    for some in gen_batches(len(out), BLOCK_SAMPLES):
        block = X[some].toarray() if sparse.issparse(X) else X[some]
        out[some] = ((np.ascontiguousarray(block, np.float64) - shift) * counted).sum(axis=1)
    return out


def _begins_at_zero(X: Any, lowest: Array) -> bool:
    """Whether nothing is negative, and zero is the smallest value of most features, (D,), that vary."""
    varies = _per_feature(X.max(axis=0)) > lowest
    return bool(lowest.min() >= 0 and varies.any() and np.mean(lowest[varies] == 0) >= BEGIN_AT_ZERO)


def _keeps_zeros(X: Any) -> bool:
    """Whether most features are zero, so that they are not shifted."""
    return number_of_nonzeros(X) <= (1 - ZEROS_OF_COUNTS) * X.shape[0] * X.shape[1]


def _check_magnitude(largest: float) -> None:
    """Refuse features that are so large or small that numbers computed from them overflow."""
    if largest > 0 and not 1 / MOST_MAGNITUDE < largest < MOST_MAGNITUDE:
        which = "large" if largest > 1 else "small"
        raise ValueError(
            f"The features of X have sizes up to {largest:.0e}, too {which} to compute with: multiply X by a number."
        )


def number_of_nonzeros(X: Any) -> int:
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
    keys: Array,
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
    keys : of the rows, (N,); those of a sample are searched in this order, so that the order of X does not matter
    unusual : mask of the rows that do not count for units, (N,)
    finds : "all", "kernel" without the noise, or "noise" without the kernel
    """
    targets = given.row_targets
    codes = codes_of(targets) if is_classification else np.zeros(len(targets), int)
    in_order = np.argsort(keys)
    some = in_order[~unusual[in_order]][:UNIT_SAMPLES]
    if len(targets) < FEWEST_SEARCHED or np.bincount(codes).max() < 2:
        # All samples of one row are what there is to know, and no copies.
        typical = typical_weight(given, is_classification) if len(targets) > 1 else 1.0
        if finds == "noise":
            return with_unit(kernels[0], noise * typical, X[some])
        if finds == "all":
            scatter = given.row_scatter
            repeated = not is_classification and scatter is not None and values_differ(scatter, given.row_counts)
            noise = _pooled_noise(noise, given) if repeated else noise * typical
        return settled(kernels[0], noise, X[some], targets[some])
    search = _Search(X, given, noise, some, finds, is_classification, n_threads, report)
    n_searched, begin = number_searched(targets.shape[1]), None
    if len(kernels) > 1:
        fewer, groups = sampled(codes, keys, n_searched // 2), given.row_groups
        unseen = unseen_rows(keys, fewer, groups)
        if len(unseen) >= FEWEST_UNSEEN:
            tried = [search.run(kernel, fewer, is_last=False) for kernel in kernels]
            losses = [search.unseen_losses(one, unseen) for one in tried]
            best = clearly_best(losses, None if groups is None else groups[unseen])
            kernels, begin = [kernels[best]], tried[best].point
        elif isinstance(kernels[0].weights, str):  # "ard": the losses of searched rows would favor the fewest priors
            kernels = kernels[:1]
    chosen = sampled(codes, keys, n_searched)
    found = min((search.run(kernel, chosen, begin) for kernel in kernels), key=lambda one: one.loss)
    is_open = finds != "kernel" and len(chosen) < len(targets)
    return replace(found.decision, left_out=left_out_rows(keys, given.row_groups) if is_open else None)


@dataclass(frozen=True, eq=False)
class _Found:
    """What a search ends with.

    loss : with priors; point : where it is in the search's coordinates
    data : what the search has seen, with the operator and the noise that it found
    noise_factor : by which the noise of samples is another than that at the start
    """

    decision: Decision
    loss: float
    point: Array | None
    data: Data
    noise_factor: float


@dataclass(frozen=True, eq=False)
class _Search:
    """What the searches for a decision have in common.

    X, given, noise, finds : as for `decide`
    some : numbers of the rows that units of features come from
    """

    X: Any
    given: TrainingTargets
    noise: float
    some: Array
    finds: str
    is_classification: bool
    n_threads: int
    report: Callable[[Row], bool]

    def run(self, kernel: Any, rows: Array, begin: Array | None = None, *, is_last: bool = True) -> _Found:
        """Search with some rows.

        begin : the point of another search from this kernel, where this one begins
        is_last : whether there is no further search from there, so that parts are dropped that are not missed
        """
        finds_noise, given = self.finds != "kernel", self.given
        scatter, groups = (None if one is None else one[rows] for one in (given.row_scatter, given.row_groups))
        counts, unit_weight = given.row_counts[rows], given.unit_weight
        typical = 1.0
        if finds_noise:
            typical = mean_weight(counts, unit_weight) if self.is_classification else unit_weight
        noise = self.noise * typical
        some = self.X[self.some]
        adapted = kernel._adapt(some, given.row_targets[self.some], noise)
        operator = adapted.kernel._operator(adapted.value, self.X[rows], self.n_threads)
        approximate = operator.offer(Approximate)
        operator = operator if approximate is None else approximate.exactly()
        unit = varying_variance(operator) if self.finds == "noise" else 1.0
        noise *= unit
        own = given.row_targets[rows], given.row_weights[rows], scatter, groups, counts, unit_weight
        data = Data(operator, given.row_noise.subset(rows).scaled(typical * unit), *own)
        space = Space.of(adapted.value, Rows.from_array(some), noise, data.mean_square)
        names = [
            one.name for one in space.free if self.finds == "all" or (one.name == "noise") == (self.finds == "noise")
        ]
        space = space.only(names)
        droppable = [name for name in DROPPABLE if name in names and is_last]
        found = search_leave_one_out(
            data.in_single(),
            space,
            self.is_classification,
            ENOUGH_STEPS if is_last and begin is None else ENOUGH_OF_TWO,
            self.report,
            droppable,
            moves_noise=finds_noise,
            begin=begin,
        )
        if found.interrupted:
            raise KeyboardInterrupt  # who leaves all to data has not asked for a search that could end earlier
        path = {name: np.array([row[name] for row in found.path], np.float64) for name in found.path[0]}
        factor = space.noise_factor(found.theta)
        chosen = _with_values(adapted.kernel, space.kernel_values(found.theta))
        operator, own_noise = data.at(space, found.theta)
        data = replace(data, operator=operator, noise=own_noise)
        noise_factor = typical * unit * factor
        return _Found(Decision(chosen, float(noise * factor), path), found.loss, found.point, data, noise_factor)

    def unseen_losses(self, found: _Found, rows: Array) -> Array:
        """The losses of rows that a search has not seen, (n,)."""
        known, given = found.data, self.given.scaled(found.noise_factor)
        unseen = Rows.from_array(self.X[rows])
        return unseen_losses(
            known.operator,
            known.noise,
            known.targets,
            unseen,
            given,
            rows,
            is_classification=self.is_classification,
        )


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


def _with_values(kernel: Any, values: dict[str, Any]) -> Any:
    """The kernel with values that a search has found, without parts whose scale is zero."""
    changed = kernel._with_values(values)
    dropped = {name.removesuffix("__scale") for name, value in values.items() if np.ndim(value) == 0 and value == 0}
    if dropped:
        parts = [(name, part) for name, part in changed.named_parts().items() if name not in dropped]
        changed.set_params(parts=parts)
    return changed
