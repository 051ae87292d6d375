"""The hyperparameters that an optimiser may change, as one vector of logarithms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from histogp.kernels import Kernel, ResolvedKernel, groups_of, is_ard, resolve
from histogp.storage import Array, Rows

# Noise and variance stay within this factor of the mean square of the targets, or of where they start.
WIDEST = 1e8
_ANY_WEIGHT = 1e30
# Transformed values beyond would overflow or vanish in products.
_LARGEST_HEIGHT = 1e100


@dataclass(frozen=True, eq=False)
class Hyperparameter:
    """One positive number, or several of a kind.

    name : "noise", "scale", "weights" or, as in the kernel's parameters, "transform__" and the transform's own
    start : (k,)
    bounds : (lowest, highest)
    value_of : (D,) or None; the number of the value that a dimension has, where not all have the same.
    """

    name: str
    start: Array
    bounds: tuple[float, float]
    value_of: Array | None = None

    def expand(self, values: Array) -> Array:
        """Values (k,) as the kernel wants them: () or (D,)."""
        return values[0] if self.value_of is None else values[self.value_of]

    def collect(self, derivative: Array) -> Array:
        """The transpose of `expand`."""
        if self.value_of is None:
            return np.reshape(derivative, 1)
        return np.bincount(self.value_of, derivative, minlength=len(self.start))


@dataclass(frozen=True, eq=False)
class Space:
    """A point is a vector theta of the logarithms of all free hyperparameters.

    kernel : what is not free, and the proportions of the weights under a free scale.
    noise : the noise at the start, whether free or not.
    """

    kernel: ResolvedKernel
    n_weights: int
    noise: float
    free: tuple[Hyperparameter, ...]

    @property
    def start(self) -> Array:
        return np.log(np.concatenate([one.start for one in self.free]))

    @property
    def bounds(self) -> Array:
        """(p, 2)"""
        return np.log(np.concatenate([np.tile(one.bounds, (len(one.start), 1)) for one in self.free]))

    def parts(self, theta: Array) -> Iterator[tuple[Hyperparameter, Array]]:
        """Every hyperparameter with its values at theta."""
        begin = 0
        for one in self.free:
            yield one, np.exp(theta[begin : begin + len(one.start)])
            begin += len(one.start)

    def values(self, theta: Array) -> dict[str, Array]:
        return {one.name: values for one, values in self.parts(theta)}

    def noise_factor(self, theta: Array) -> float:
        """The noise at theta in units of that at the start."""
        return next((values[0] / self.noise for one, values in self.parts(theta) if one.name == "noise"), 1.0)

    def kernel_at(self, theta: Array) -> ResolvedKernel:
        weights = self.kernel.weights
        hyperparameters = dict(self.kernel.hyperparameters)
        for one, values in self.parts(theta):
            if one.name == "scale":
                weights = (np.ones(self.n_weights) if weights is None else weights) * values[0]
            elif one.name == "weights":
                weights = np.broadcast_to(one.expand(values), self.n_weights)
            elif one.name != "noise":
                hyperparameters[one.name.removeprefix("transform__")] = np.asarray(one.expand(values))
        return self.kernel.replace(weights, hyperparameters)

    def gradient(self, theta: Array, derivatives: dict[str, Array]) -> Array:
        """The derivative for theta, (p,).

        ``derivatives`` are those for the values of the kernel at theta, as `KernelOperator.gradient` has them, and
        that for the logarithm of the noise, under "noise".
        """
        weights = self.kernel_at(theta).weights
        by_weight = derivatives["weights"] if weights is None else derivatives["weights"] * weights
        collected = []
        for one, values in self.parts(theta):
            if one.name == "noise":
                collected.append(np.reshape(derivatives["noise"], 1))
            elif one.name == "scale":
                collected.append(np.reshape(by_weight.sum(), 1))
            elif one.name == "weights":
                collected.append(one.collect(by_weight))
            else:
                collected.append(one.collect(derivatives[one.name]) * values)
        return np.concatenate(collected)

    def only(self, names: Sequence[str]) -> Space:
        """The space of some of the hyperparameters."""
        return Space(self.kernel, self.n_weights, self.noise, tuple(one for one in self.free if one.name in names))


def free_hyperparameters(
    kernel: Kernel, rows: Rows, noise: float, mean_square: float, names: Sequence[str] | None
) -> Space:
    """The space of the hyperparameters ``names``, or of all, for data and targets of this mean square."""
    n_features = rows.n_columns
    resolved = resolve(kernel, n_features)
    n_weights = resolved.n_weights(n_features)
    groups = groups_of(kernel, n_features)
    each = np.arange(n_features) if groups is None else groups
    around = (min(noise, mean_square) / WIDEST, max(noise, mean_square) * WIDEST)
    free = [Hyperparameter("noise", np.array([noise]), around)]
    if is_ard(kernel):
        start = _in_units(resolved, rows, each)
        bounds = (start.min() / _ANY_WEIGHT, start.max() * _ANY_WEIGHT)
        free.append(Hyperparameter("weights", start, bounds, each))
        resolved = resolved.replace(start[each], resolved.hyperparameters)
    else:
        free.append(Hyperparameter("scale", np.ones(1), (1 / _ANY_WEIGHT, _ANY_WEIGHT)))
    largest = float(rows.values.max(initial=0.0))
    free += [_of_transform(resolved, name, each, largest) for name in resolved.hyperparameters]
    if names is None:
        return Space(resolved, n_weights, noise, tuple(free))
    known = [one.name for one in free]
    full_names = [f"transform__{name}" if f"transform__{name}" in known else name for name in names]
    for name in full_names:
        if name not in known:
            raise ValueError(f"{name!r} is not a free hyperparameter; with this kernel there are {', '.join(known)}.")
    if is_ard(kernel) and "weights" not in full_names:
        raise ValueError('The kernel has weights="ard", but "weights" is not among the parameters to optimise.')
    return Space(resolved, n_weights, noise, tuple(one for one in free if one.name in full_names))


def _in_units(kernel: ResolvedKernel, rows: Rows, each: Array) -> Array:
    """Weights to start from, (k,): as large for every feature as its typical value is small.

    So a feature may be measured in any unit. Where all have the same, as in histograms, they are about one.
    """
    count = each.max() + 1
    sums = np.bincount(each[rows.column_of], kernel.transformed(rows), minlength=count)
    counts = np.bincount(each[rows.column_of], minlength=count)
    present = sums > 0
    typical = np.ones(count)
    typical[present] = sums[present] / counts[present]
    if present.any():
        typical[~present] = np.exp(np.log(typical[present]).mean())
    return np.exp(np.log(typical).mean()) / typical


def _of_transform(kernel: ResolvedKernel, name: str, each: Array, largest_value: float) -> Hyperparameter:
    """Its bounds leave out what the largest value in the data would overflow or vanish with."""
    transform: Any = kernel.transform
    given = np.asarray(getattr(transform, name), float)
    lowest, highest = transform.bounds.get(name, (given.min() / WIDEST, given.max() * WIDEST))
    lowest, highest = min(lowest, given.min()), max(highest, given.max())
    others = {key: float(np.max(value)) for key, value in kernel.hyperparameters.items() if key != name}

    def is_moderate(value: float) -> bool:
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            height = transform.value(np.array([largest_value]), **{**others, name: value})[0]
        return largest_value == 0 or 1 / _LARGEST_HEIGHT < height < _LARGEST_HEIGHT

    while highest > given.max() and not is_moderate(highest):
        highest = max(highest / 1.2, given.max())
    return Hyperparameter(f"transform__{name}", np.atleast_1d(given), (lowest, highest), each if given.ndim else None)


def moved_to(space: Space, kernel: Kernel, theta: Array) -> Kernel:
    """A copy of the user's kernel with the values at theta."""
    kernel = clone(kernel)
    if is_ard(kernel):
        kernel.weights = None
    for one, values in space.parts(theta):
        found: Any = float(values[0]) if one.value_of is None else values
        if one.name == "scale":
            given = 1.0 if kernel.weights is None else kernel.weights
            kernel.weights = found * np.asarray(given) if np.ndim(given) else found * given
        elif one.name == "weights":
            kernel.weights = found
        elif one.name != "noise":
            kernel.set_params(**{one.name: found})
    return kernel
