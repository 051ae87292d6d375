"""What ``kernel="auto"`` and ``noise="auto"`` come to: a kernel and a noise, found on a sample of the training data.

The kernel is a sum of an intersection kernel, a Laplacian, a Gaussian and a constant on shared heights. Its scales,
widths and weights, and the noise, are those with the smallest leave-one-out loss, with priors around where they start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from histogp._core.data import Array, Rows
from histogp._core.operators.contract import Approximate
from histogp._core.predictors import codes_of
from histogp._core.search.leave_one_out import (
    ENOUGH_STEPS,
    number_searched,
    sampled,
    search_leave_one_out,
)
from histogp._core.search.objectives import Data
from histogp._core.search.optimization import Row
from histogp._core.search.space import Space
from histogp._core.solvers.problem import Noise
from histogp.kernels import Constant, Gaussian, HistogramIntersection, Kernel, Laplacian, Sum

# What users write to leave a kernel or a noise to data.
AUTO = "auto"
# Where a search starts: the scale of each part and the noise, in units of the mean square of targets. They are means
# of priors, too.
START_SCALE = 0.5
START_NOISE = 0.1
# Features of which at least this part is zero keep their zeros. Without negative values they count as counts.
ZEROS_OF_COUNTS = 0.5
# Distinct samples from which on there is something to search for.
FEWEST_SEARCHED = 10
# Above the samples of an exact kernel: landmarks, as many as features of all samples may be, within limits.
FEWEST_LANDMARKS, MOST_LANDMARKS, MOST_FEATURES = 1_000, 6_000, 2**29
# Scales of parts that may be dropped.
DROPPABLE = ("histogram_intersection__scale", "laplacian__scale", "gaussian__scale")


@dataclass(frozen=True, eq=False)
class Decision:
    """A kernel and a noise that leave nothing to data.

    path : evaluations of the search by the names of columns, or None without a search
    """

    kernel: Kernel
    noise: float
    path: dict[str, Array] | None = None


def starting_kernels(X: Any, scale: float = 1.0) -> list[Sum]:
    """The kernels from which a search may start, for training samples, an array or CSR (N, D); most often one.

    Features are shifted by their smallest values, unless most are zero. Counts, that is mostly zeros and nothing
    negative, share one weight; rows may be normalized or not.

    scale : the mean square of the targets
    """
    n_samples, n_features = X.shape
    size = max(1, n_samples * n_features)
    lowest = np.asarray(X.min(axis=0).toarray() if sparse.issparse(X) else X.min(axis=0), np.float64).ravel()
    keeps_zeros = 1 - _number_of_nonzeros(X) / size >= ZEROS_OF_COUNTS
    n_components = int(np.clip(MOST_FEATURES // max(1, n_samples), FEWEST_LANDMARKS, MOST_LANDMARKS))
    own = START_SCALE * scale
    parts = [HistogramIntersection(scale=own), Laplacian(scale=own), Gaussian(scale=own), Constant(own)]
    kernel = Sum(parts, n_components=n_components, shift=0.0 if keeps_zeros else lowest)
    if not keeps_zeros or lowest.min(initial=0.0) < 0:
        return [kernel.set_params(weights="ard")]
    mean_sum = float(X.sum()) / n_samples
    raw, normalized = kernel.set_params(weights=1 / mean_sum if mean_sum > 0 else 1.0), clone(kernel)
    return [raw, normalized.set_params(weights=None, normalize="l1")]


def _number_of_nonzeros(X: Any) -> int:
    return int(X.count_nonzero() if sparse.issparse(X) else np.count_nonzero(X))


def row_hashes(rows: Rows) -> Array:
    """PLACEHOLDER"""
    rng = np.random.default_rng(7)
    bits = rows.values.view(np.uint64) * rng.integers(1, 2**63, rows.n_columns, dtype=np.uint64)[rows.column_of]
    bits ^= bits >> np.uint64(29)
    bits *= np.uint64(0xBF58476D1CE4E5B9)
    bits ^= bits >> np.uint64(32)
    out = np.zeros(rows.n_rows, np.uint64)
    np.add.at(out, np.repeat(np.arange(rows.n_rows), rows.counts), bits)
    return out


def decide(
    kernels: list[Any],
    noise: float,
    X: Any,
    data_noise: Noise,
    targets: Array,
    *,
    finds: str,
    hashes: Array,
    is_classification: bool,
    n_threads: int,
    report: Callable[[Row], bool],
) -> Decision:
    """The best of some kernels, or of one with another noise.

    kernels : those to start from
    noise : where the noise starts
    data_noise : of each sample, at that
    finds : "all", "kernel" without the noise, or "noise" without the kernel
    """
    codes = codes_of(targets) if is_classification else np.zeros(len(targets), int)
    if len(targets) < FEWEST_SEARCHED or np.bincount(codes).max() < 2:
        return settled(kernels[0], noise, X, targets)
    chosen = sampled(codes, hashes, number_searched(targets.shape[1]))
    found = [
        _searched(
            kernel,
            noise,
            X[chosen],
            data_noise.subset(chosen),
            targets[chosen],
            finds,
            is_classification,
            n_threads,
            report,
        )
        for kernel in kernels
    ]
    return min(found, key=lambda one: one[0])[1]


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
    data_noise: Noise,
    targets: Array,
    finds: str,
    is_classification: bool,
    n_threads: int,
    report: Callable[[Row], bool],
) -> tuple[float, Decision]:
    """The loss that a search from a kernel ends with, and what it has found."""
    adapted = kernel._adapt(X, targets, noise)
    operator = adapted.kernel._operator(adapted.value, X, n_threads)
    approximate = operator.offer(Approximate)
    operator = operator if approximate is None else approximate.exactly()
    data = Data(operator, data_noise, targets)
    space = Space.of(adapted.value, Rows.from_array(X), noise, data.mean_square)
    names = [one.name for one in space.free if finds == "all" or (one.name == "noise") == (finds == "noise")]
    space = space.only(names)
    droppable = [name for name in DROPPABLE if name in names]
    found = search_leave_one_out(data.in_single(), space, is_classification, ENOUGH_STEPS, report, droppable)
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
