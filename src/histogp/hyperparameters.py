"""The hyperparameters that an optimiser may change, as one vector of logarithms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from histogp.kernels import HistogramIntersection, ResolvedKernel, groups_of, is_ard, resolve
from histogp.storage import Array

# Noise, scale and weights stay within this factor of where they start.
WIDEST = 1e10
# Transformed values beyond would overflow in products.
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
    """

    kernel: ResolvedKernel
    n_features: int
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
        return next((values[0] / one.start[0] for one, values in self.parts(theta) if one.name == "noise"), 1.0)

    def kernel_at(self, theta: Array) -> ResolvedKernel:
        weights = self.kernel.weights
        hyperparameters = dict(self.kernel.hyperparameters)
        for one, values in self.parts(theta):
            if one.name == "scale":
                weights = (np.ones(self.n_features) if weights is None else weights) * values[0]
            elif one.name == "weights":
                weights = np.broadcast_to(one.expand(values), self.n_features)
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
        return Space(self.kernel, self.n_features, tuple(one for one in self.free if one.name in names))

    def moved(self, kernel: HistogramIntersection, theta: Array) -> HistogramIntersection:
        """A copy of the user's kernel with the values at theta."""
        kernel = clone(kernel)
        if is_ard(kernel):
            kernel.weights = None
        for one, values in self.parts(theta):
            found: Any = float(values[0]) if one.value_of is None else values
            if one.name == "scale":
                given = 1.0 if kernel.weights is None else kernel.weights
                kernel.weights = found * np.asarray(given) if np.ndim(given) else found * given
            elif one.name == "weights":
                kernel.weights = found
            elif one.name != "noise":
                kernel.set_params(**{one.name: found})
        return kernel


def free_hyperparameters(
    kernel: HistogramIntersection, n_features: int, noise: float, largest_value: float, names: Sequence[str] | None
) -> Space:
    """The space of the hyperparameters ``names``, or of all.

    ``largest_value`` in the data limits hyperparameters under which the transform would overflow.
    """
    resolved = resolve(kernel, n_features)
    groups = groups_of(kernel, n_features)
    each = np.arange(n_features) if groups is None else groups
    free = [Hyperparameter("noise", np.array([noise]), (noise / WIDEST, noise * WIDEST))]
    if is_ard(kernel):
        free.append(Hyperparameter("weights", np.ones(each.max() + 1), (1 / WIDEST, WIDEST), each))
    else:
        free.append(Hyperparameter("scale", np.ones(1), (1 / WIDEST, WIDEST)))
    transform = resolved.transform
    for name in resolved.hyperparameters:
        given = np.asarray(getattr(transform, name), float)
        bounds = (given.min() / WIDEST, given.max() * WIDEST)
        assert transform is not None
        lowest, highest = transform.bounds.get(name, bounds)
        lowest, highest = min(lowest, given.min()), max(highest, given.max())
        others = {key: float(np.max(value)) for key, value in resolved.hyperparameters.items() if key != name}
        while highest > given.max() and not _is_moderate(transform, largest_value, {**others, name: highest}):
            highest = max(highest / 1.2, given.max())
        value_of = each if given.ndim else None
        free.append(Hyperparameter(f"transform__{name}", np.atleast_1d(given), (lowest, highest), value_of))
    known = [one.name for one in free]
    for name in () if names is None else names:
        if name not in known:
            raise ValueError(f"{name!r} is not a free hyperparameter; with this kernel there are {', '.join(known)}.")
    return Space(resolved, n_features, tuple(one for one in free if names is None or one.name in names))


def _is_moderate(transform: Any, largest_value: float, hyperparameters: dict[str, float]) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.all(transform.value(np.array([largest_value]), **hyperparameters) < _LARGEST_HEIGHT))
