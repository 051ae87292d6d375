"""The free hyperparameters of a kernel, and kernels with the values that a search found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from histogp._core.data import Array, Rows
from histogp._core.operators.sorted_columns import ResolvedKernel
from histogp._core.search.space import WIDEST, Hyperparameter, Space
from histogp.kernels import Kernel
from histogp.kernels._base import groups_of, is_ard, resolve

_ANY_WEIGHT = 1e30
# Transformed values beyond would overflow or vanish in products.
_LARGEST_HEIGHT = 1e100


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
