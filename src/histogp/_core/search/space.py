"""The hyperparameters that an optimizer may change, as one vector of logarithms, and coordinates that suit a search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from histogp._core.data import Array
from histogp._core.operators.contract import KernelOperator
from histogp._core.operators.sorted_columns import ResolvedKernel

# Noise and variance stay within this factor of the mean square of the targets, or of where they start.
WIDEST = 1e8


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


class Coordinates:
    """As the vector theta of a space, but with the mean prior variance in place of the kernel's scale.

    A transform's hyperparameter changes all values of the kernel; the best scale then changes by about as much in
    the other direction, and an optimiser would have to follow a long curved valley. The best variance hardly changes.
    Without a free scale both vectors are the same. The variance is that of the examples in ``operator``, any sample;
    ``mean_square`` that of the targets, with which it compares.
    """

    def __init__(self, space: Space, operator: KernelOperator, mean_square: float):
        self.space = space
        self.bounds = space.bounds
        self._operator = operator
        self.names = np.array([one.name for one in space.free for _ in one.start])
        self._scale = self.names.tolist().index("scale") if "scale" in self.names else None
        if self._scale is not None:
            places = self.from_theta(space.start)[self._scale], np.log(mean_square)
            self.bounds[self._scale] = min(places) - np.log(WIDEST), max(places) + np.log(WIDEST)

    def from_theta(self, theta: Array) -> Array:
        x = theta.copy()
        if self._scale is not None:
            x[self._scale] = np.log(_variance(self._at(theta)))
        return x

    def to_theta(self, x: Array) -> Array:
        theta = x.copy()
        if self._scale is not None:
            theta[self._scale] = 0
            theta[self._scale] = x[self._scale] - np.log(_variance(self._at(theta)))
        return theta

    def slope(self, theta: Array, slope: Array) -> Array:
        """The derivative for these coordinates, given that for theta."""
        if self._scale is None:
            return slope
        of_scale = slope[self._scale]
        slope = slope - of_scale * self.log_variance(theta)[1]
        slope[self._scale] = of_scale
        return slope

    def log_variance(self, theta: Array) -> tuple[float, Array]:
        """The logarithm of the mean prior variance and its derivative for theta."""
        operator = self._at(theta)
        of_trace = self.space.gradient(theta, {**operator.trace_gradient(), "noise": np.zeros(())})
        variance = _variance(operator)
        return float(np.log(variance)), of_trace / (operator.n_rows * variance)

    def _at(self, theta: Array) -> KernelOperator:
        return self._operator.with_kernel(self.space.kernel_at(theta))


def _variance(operator: KernelOperator) -> float:
    return max(float(operator.diagonal().mean()), np.finfo(float).tiny)
