"""A kernel as numerics know it: a frozen value for data of a known width, and what a search may change of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from histogp._core.data import Array, Rows
from histogp.io.schema import Writer

# Noise and variance stay within this factor of the mean square of the targets, or of where they start.
WIDEST_FACTOR = 1e8
_ANY_WEIGHT = 1e30
# A feature whose largest height is a smaller part of that of all features does not vary.
NEGLIGIBLE_WEIGHT_SHARE = 1e-6


@dataclass(frozen=True, eq=False)
class Hyperparameter:
    """One positive number, or several of a kind.

    name : "noise", "scale", or as in the kernel's parameters: "weights", "transform__eta"
    start : (k,)
    bounds : (lowest, highest)
    value_of : (D,) or None; the number of the value that a feature has, where not all have the same
    is_open : whether it must be found, from ``start`` and not from the present values of the kernel
    spread : (k,) or None; of weights, the logarithms of what they make of the largest values of their features at the
        start, less their mean; zero for features that do not vary. Without them all features would be scaled by their
        largest values.
    """

    name: str
    start: Array
    bounds: tuple[float, float]
    value_of: Array | None = None
    is_open: bool = False
    spread: Array | None = None

    def expand(self, values: Array) -> Array:
        """Values (k,) as the kernel wants them: () or (D,)."""
        return values[0] if self.value_of is None else values[self.value_of]

    def collect(self, derivative: Array) -> Array:
        """The transpose of `expand`."""
        if self.value_of is None:
            return np.reshape(derivative, 1)
        return np.bincount(self.value_of, derivative, minlength=len(self.start))


@dataclass(frozen=True, eq=False, kw_only=True)
class KernelValue:
    """A kernel for a known number of features, checked: all that operators see.

    n_features : D
    weights : (n_weights,), or None if all are one
    groups : (D,), the number of the group of each feature, which share weights and hyperparameters; None without groups
    learns_weights : whether a search is to find the weights one by one, in place of their common scale
    """

    n_features: int
    weights: Array | None = None
    groups: Array | None = None
    learns_weights: bool = False

    def variance_by_part(self, rows: Rows) -> dict[str, float]:
        """The mean prior variance of samples that each part of a sum has, by its name; nothing for one kernel."""
        return {}

    @property
    def kind(self) -> type[KernelValue]:
        """What it has in common with kernels that can take its place on the same data."""
        return type(self)

    @property
    def constant(self) -> float:
        """What all pairs of samples have in common: the scale of constant parts."""
        return 0.0

    @property
    def interactive_part(self) -> str:
        """The part that is no sum over features, in words."""
        return "this kernel"

    @property
    def n_columns(self) -> int:
        """The number of columns of samples as the kernel sees them."""
        return self.n_features

    @property
    def n_weights(self) -> int:
        """The number of weights."""
        return self.n_features

    def hyperparameters(self, rows: Rows, noise: float, mean_square: float) -> list[Hyperparameter]:
        """What a search may change, for training samples, the present noise and targets of this mean square."""
        around = (min(noise, mean_square) / WIDEST_FACTOR, max(noise, mean_square) * WIDEST_FACTOR)
        own = Hyperparameter("scale", np.ones(1), (1 / _ANY_WEIGHT, _ANY_WEIGHT))
        if self.learns_weights:
            start = self._weights_in_units(rows)
            bounds = (start.min() / _ANY_WEIGHT, start.max() * _ANY_WEIGHT)
            spread = self._spread(rows, start)
            own = Hyperparameter("weights", start, bounds, self._value_of(), is_open=True, spread=spread)
        return [Hyperparameter("noise", np.array([noise]), around), own]

    def at(self, values: Mapping[str, Any]) -> Self:
        """The kernel with other values by the names of `hyperparameters`; names that are not its own do not matter."""
        weights, learns_weights = self.weights, self.learns_weights
        if "weights" in values:
            learns_weights = False
            weights = np.broadcast_to(values["weights"], self.n_weights)
        if "scale" in values:
            weights = (np.ones(self.n_weights) if weights is None else weights) * values["scale"]
        return replace(self, weights=weights, learns_weights=learns_weights)

    def scaled(self, factor: float) -> Self:
        """The kernel times a number."""
        return self.at({"scale": factor})

    def log_gradient(self, derivatives: Mapping[str, Array]) -> dict[str, Array]:
        """Derivatives for the logarithms of all hyperparameters, from those for the values as operators have them."""
        by_weight = derivatives["weights"] if self.weights is None else derivatives["weights"] * self.weights
        return {"weights": by_weight, "scale": by_weight.sum()}

    def to_state(self, writer: Writer) -> None:
        """Write what comes from training data, and not from the kernel's parameters, into a model file."""

    def _value_of(self) -> Array:
        return np.arange(self.n_features) if self.groups is None else self.groups

    def _magnitudes(self, rows: Rows) -> Array:
        """The sizes of the non-zeros in a kernel without weights, (nnz,)."""
        return rows.values

    def _spread(self, rows: Rows, weights: Array) -> Array:
        """How far the logarithms of weights (k,) times the largest values of their features are from their mean."""
        heights = weights * largest_in(self._value_of()[rows.column_of], self._magnitudes(rows), len(weights))
        counts = heights > NEGLIGIBLE_WEIGHT_SHARE * heights.max(initial=0.0)
        logarithms = np.log(np.where(counts, heights, 1.0))
        return np.where(counts, logarithms - logarithms[counts].mean(), 0.0) if counts.any() else logarithms

    def _weights_in_units(self, rows: Rows) -> Array:
        """Weights to start from, (k,): as large for every feature as its typical value is small.

        So a feature may be measured in any unit. Where all have the same, as in histograms, they are about one.
        """
        each = self._value_of()
        count = each.max() + 1
        sums = np.bincount(each[rows.column_of], self._magnitudes(rows), minlength=count)
        counts = np.bincount(each[rows.column_of], minlength=count)
        present = sums > 0
        typical = np.ones(count)
        typical[present] = sums[present] / counts[present]
        if present.any():
            typical[~present] = np.exp(np.log(typical[present]).mean())
        return np.exp(np.log(typical).mean()) / typical


def largest_in(group_of: Array, values: Array, n_groups: int) -> Array:
    """The largest absolute value of each group, (n_groups,), zero for groups without values (n,)."""
    largest = np.zeros(n_groups)
    np.maximum.at(largest, group_of, np.abs(values))
    return largest
