"""Coordinates in which the likelihood is easy to optimise."""

from __future__ import annotations

import numpy as np

from histogp.hyperparameters import WIDEST, Space
from histogp.operators.base import KernelOperator
from histogp.storage import Array


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
