"""What a search sees, and the hyperparameters it may change: one vector of logarithms, and coordinates that suit it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from histogp._core.data import Array, Rows
from histogp._core.kernel_values import WIDEST_FACTOR, Hyperparameter, KernelValue
from histogp._core.operators.contract import KernelOperator, Matrix, tuning_of, updates_of
from histogp._core.solvers.problem import Noise, TrainingTargets, mean_weight


def is_weights(name: str) -> bool:
    """Whether a hyperparameter is the weights of features, of a kernel or of a part of a sum."""
    return name.rpartition("__")[2] == "weights"


def is_scale(name: str) -> bool:
    """Whether a hyperparameter is the scale of a kernel or of a part of a sum, and none of a transform."""
    return name == "scale" or (name.endswith("__scale") and name.split("__")[-2] != "transform")


# Targets whose mean square is so many times their variance are too far from zero for a matrix in single precision.
MOST_OFFSET = 100.0


@dataclass(frozen=True, eq=False)
class Space:
    """A point is a vector theta of the logarithms of all free hyperparameters.

    kernel : what is not free, and the proportions of the weights under a free scale.
    noise : the noise at the start, whether free or not.
    """

    kernel: KernelValue
    noise: float
    free: tuple[Hyperparameter, ...]

    @classmethod
    def of(
        cls, kernel: KernelValue, rows: Rows, noise: float, mean_square: float, names: Sequence[str] | None = None
    ) -> Space:
        """The hyperparameters ``names`` of a kernel, or all, for training samples and targets of this mean square.

        The part of a name after ``__`` is enough where it is no name of its own: "eta" is "transform__eta".
        """
        free = kernel.hyperparameters(rows, noise, mean_square)
        open_ones = [one for one in free if one.is_open]
        space = cls(kernel.at({one.name: one.expand(one.start) for one in open_ones}), noise, tuple(free))
        if names is None:
            return space
        known = [one.name for one in free]
        full_names = [
            full
            for name in names
            for full in ([name] if name in known else [full for full in known if full.endswith(f"__{name}")] or [name])
        ]
        for name in full_names:
            if name not in known:
                raise ValueError(
                    f"{name!r} is not a free hyperparameter; with this kernel there are {', '.join(known)}."
                )
        for one in open_ones:
            if one.name not in full_names:
                raise ValueError(
                    f'The kernel has {one.name}="ard", but "{one.name}" is not among the parameters to optimize: '
                    "name it there, too, or give numbers."
                )
        return space.only(full_names)

    @property
    def is_open(self) -> bool:
        """Whether some of them must be found, wherever the kernel is now."""
        return any(one.is_open for one in self.free)

    @property
    def start(self) -> Array:
        return np.log(np.concatenate([one.start for one in self.free]))

    @property
    def bounds(self) -> Array:
        """Bounds of theta, (p, 2)."""
        return np.log(np.concatenate([np.tile(one.bounds, (len(one.start), 1)) for one in self.free]))

    def parts(self, theta: Array) -> Iterator[tuple[Hyperparameter, Array]]:
        """Every hyperparameter with its values at theta."""
        begin = 0
        for one in self.free:
            yield one, np.exp(theta[begin : begin + len(one.start)])
            begin += len(one.start)

    def values(self, theta: Array) -> dict[str, Array]:
        return {one.name: values for one, values in self.parts(theta)}

    def kernel_values(self, theta: Array) -> dict[str, float | Array]:
        """What belongs to the kernel at theta, as its parameters have it: one number, or one a feature or group."""
        own = ((one, values) for one, values in self.parts(theta) if one.name != "noise")
        return {one.name: float(values[0]) if one.value_of is None else values for one, values in own}

    def noise_factor(self, theta: Array) -> float:
        """The noise at theta in units of that at the start."""
        return next((values[0] / self.noise for one, values in self.parts(theta) if one.name == "noise"), 1.0)

    def kernel_at(self, theta: Array) -> KernelValue:
        """The kernel with the values at theta."""
        return self.kernel.at({one.name: one.expand(values) for one, values in self.parts(theta)})

    def gradient(self, theta: Array, derivatives: dict[str, Array]) -> Array:
        """The derivative for theta, (p,).

        ``derivatives`` are those for the values of the kernel at theta, as `KernelOperator.gradient` has them, and
        that for the logarithm of the noise, under "noise".
        """
        by_name = derivatives | self.kernel_at(theta).log_gradient(derivatives)
        return np.concatenate([one.collect(by_name[one.name]) for one in self.free])

    def only(self, names: Sequence[str]) -> Space:
        """The space of some of the hyperparameters."""
        return replace(self, free=tuple(one for one in self.free if one.name in names))


class Coordinates:
    """The vector theta of a space, but with the mean prior variance in place of the kernel's scale.

    A transform's hyperparameter changes all values of the kernel; the best scale then changes by about as much in
    the other direction, and an optimizer would have to follow a long curved valley. The best variance hardly changes.
    Without a free scale both vectors are the same. The variance is that of the samples in ``operator``, any subset;
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
            self.bounds[self._scale] = min(places) - np.log(WIDEST_FACTOR), max(places) + np.log(WIDEST_FACTOR)

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
        of_trace = self.space.gradient(theta, {**tuning_of(operator).trace_gradient(), "noise": np.zeros(())})
        variance = _variance(operator)
        return float(np.log(variance)), of_trace / (operator.n_samples * variance)

    def _at(self, theta: Array) -> KernelOperator:
        return tuning_of(self._operator).with_kernel(self.space.kernel_at(theta))


def _variance(operator: KernelOperator) -> float:
    return max(float(operator.diagonal().mean()), np.finfo(float).tiny)


@dataclass(frozen=True, eq=False)
class Data:
    """What does not change: the sorted rows, their noise at the start, their targets (N, M).

    A search sees rows, not the samples that share one: how these scatter says something about the noise, but where they
    are mere copies, they would make it vanish.

    weights : (N,), how often each row counts, or None for once
    scatter : (N, M), the weighted squares of what the targets of samples differ from those of their row, or None
    groups : (N,), the numbers of groups of rows that are left out together, or None if each is alone
    counts : (N,), how many samples each row has, or None for one
    unit_weight : the weight of one sample
    """

    operator: KernelOperator
    noise: Noise
    targets: Array
    weights: Array | None = None
    scatter: Array | None = None
    groups: Array | None = None
    counts: Array | None = None
    unit_weight: float = 1.0

    @classmethod
    def of(cls, operator: KernelOperator, given: TrainingTargets) -> Data:
        """What a search sees of samples, whose rows the operator has."""
        seen = given.searched
        return cls(
            operator,
            seen.row_noise,
            seen.row_targets,
            seen.row_weights,
            seen.row_scatter,
            seen.row_groups,
            seen.row_counts,
            seen.unit_weight,
        )

    def at(self, space: Space, theta: Array) -> tuple[KernelOperator, Noise]:
        tuning = tuning_of(self.operator)
        return tuning.with_kernel(space.kernel_at(theta)), self.noise.scaled(space.noise_factor(theta))

    def subset(self, rows: Array) -> Data:
        others = np.setdiff1d(np.arange(self.operator.n_samples), rows)
        updates = updates_of(self.operator)
        weights, scatter, groups, counts = (
            None if one is None else one[rows] for one in (self.weights, self.scatter, self.groups, self.counts)
        )
        noise, targets = self.noise.subset(rows), self.targets[rows]
        return Data(updates.remove(others), noise, targets, weights, scatter, groups, counts, self.unit_weight)

    def in_single(self) -> Data:
        """The data with a matrix in single precision, for a search; where no matrix is at hand, as they are."""
        matrix = self.operator.offer(Matrix)
        is_offset = self.mean_square > MOST_OFFSET * self.target_variance  # which takes the digits of the rest
        return self if matrix is None or is_offset else replace(self, operator=matrix.in_single())

    @property
    def mean_weight(self) -> float:
        """The mean weight of a row, without weights of classes."""
        return self.unit_weight if self.counts is None else mean_weight(self.counts, self.unit_weight)

    @property
    def target_variance(self) -> float:
        """The variance of the targets of samples; one if they are all equal."""
        return variance_of(self.targets, self.weights, self.scatter)

    @property
    def mean_square(self) -> float:
        """The mean square of the targets; one if they are all zero."""
        return float(np.mean(self.targets**2)) or 1.0


def variance_of(targets: Array, weights: Array | None, scatter: Array | None) -> float:
    """The variance of the targets of samples, over all outputs, from what their rows have; one if they are all equal.

    targets : (n, M); weights : (n,), how often rows count, or None; scatter : (n, M), as `Data` has it, or None
    """
    each = np.ones((len(targets), 1)) if weights is None else weights[:, None]
    squares = each * (targets - np.average(targets, axis=0, weights=each[:, 0])) ** 2
    total = squares.sum() + (0.0 if scatter is None else scatter.sum())
    return float(total / (each.sum() * targets.shape[1])) or 1.0
