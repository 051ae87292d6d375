"""Generalised histogram intersection kernels, as parameter objects for users and values for operators.

    K(x, x') = sum_d  w_d * min(g_d(x_d), g_d(x'_d))

(gp-hik-ijcv2016, eq. 14 to 17). What users build stores parameters and does nothing else, so that
``clone``, ``get_params`` and ``GridSearchCV`` reach down to ``kernel__transform__eta``. `resolve`
turns it into a `ResolvedKernel`, the frozen value that operators see.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from histogp.intersection import intersections
from histogp.kernels.base import Kernel, check_non_negative, expanded, groups_of, resolve, resolved_weights
from histogp.kernels.transforms import Power, Transform
from histogp.storage import Array, Nonzeros, Rows


class HistogramIntersection(Kernel):
    """Generalised histogram intersection kernel.

    Parameters
    ----------
    transform : Transform or None, default=None
        `Power`, `Exponential` or your own; None is the identity, the plain kernel (HIK).
    weights : float, array-like of shape (n_features,) or (n_groups,), "ard" or None, default=None
        Non-negative weight of each dimension, or of all; None is one. "ard" (automatic relevance
        determination) has an estimator learn one weight a dimension or group, see its parameter
        ``optimize``; until then they are one.
    groups : array-like of shape (n_features,) or None, default=None
        The group of each dimension, for instance the number of the descriptor that it belongs to. With groups,
        weights and the transform's hyperparameters have one value a group, in the order of
        ``np.unique(groups)``: a weighted combination of kernels.

    Examples
    --------
    >>> from histogp.kernels import HistogramIntersection, Power
    >>> HistogramIntersection()([[1.0, 2.0]], [[3.0, 1.0]])
    array([[2.]])
    >>> HistogramIntersection(transform=Power(2), weights=[1, 10])([[1.0, 2.0]], [[3.0, 1.0]])
    array([[11.]])
    """

    def __init__(self, transform: Transform | None = None, weights: Any = None, groups: Any = None):
        self.transform = transform
        self.weights = weights
        self.groups = groups

    def set_params(self, **params: Any) -> HistogramIntersection:
        """Set parameters, also nested ones; without a transform ``transform__eta`` starts from ``Power(1)``."""
        if self.transform is None and "transform" not in params and "transform__eta" in params:
            self.transform = Power(1.0)  # the identity
        return super().set_params(**params)

    def __call__(self, X: Any, Y: Any = None) -> Array:
        """Evaluate the kernel densely: ``K(X, Y)``, or ``K(X, X)`` without Y."""
        X = check_non_negative(X)
        Y = X if Y is None else check_non_negative(Y)
        if X.shape[1] != Y.shape[1]:
            raise ValueError(f"X has {X.shape[1]} features and Y has {Y.shape[1]}; they must be as many.")
        kernel = resolve(self, X.shape[1])
        left, right = (kernel.transform_rows(Rows.from_array(A)) for A in (X, Y))
        out = np.empty((left.n_rows, right.n_rows))
        for columns, block in intersections(left, right):
            out[:, columns] = block
        return out

    def _resolve(self, n_features: int) -> ResolvedKernel:
        transform = self.transform
        if transform is not None and not isinstance(transform, Transform):
            raise TypeError(f"The transform must be None or a histogp.kernels.Transform; got {transform!r}.")
        group_of = groups_of(self, n_features)
        hyperparameters = {}
        for name in transform.get_params(deep=False) if transform is not None else ():
            value = expanded(name, getattr(transform, name), group_of, n_features)
            if not np.all(value > 0):
                raise ValueError(f"{name} must be positive; got {value.min():g}.")
            hyperparameters[name] = value
        weights = resolved_weights(self, n_features)
        if transform is None:
            return ResolvedKernel(None, {}, weights)
        at_zero = transform.value(np.zeros(n_features), **hyperparameters)
        if np.any(np.asarray(at_zero) != 0):
            raise ValueError(f"{transform!r} is not a valid transform: g(0) must be 0, not {np.max(at_zero):g}.")
        return ResolvedKernel(clone(transform), hyperparameters, weights)


@dataclass(frozen=True, eq=False)
class ResolvedKernel:
    """A kernel for a known number of dimensions, checked: all that operators see.

    Its values are heights ``h_d(x) = w_d g_d(x)``, so that ``K = sum_d min(h_d(x), h_d(x'))``.
    ``transform`` has ``value`` and ``derivative`` as `histogp.kernels.Transform` describes them; None is the identity.
    ``hyperparameters`` are those of the transform, each of shape () or (D,); weights (D,) or None.
    """

    transform: Any
    hyperparameters: Mapping[str, Array]
    weights: Array | None

    def n_weights(self, n_columns: int) -> int:
        """How many there are, for this number of dimensions."""
        return n_columns

    def heights(self, data: Nonzeros) -> Array:
        """``w g(x)`` for the non-zeros of `Rows` or `SortedColumns`, (nnz,)."""
        return self.weighted(self.transformed(data), data)

    def weighted(self, transformed: Array, data: Nonzeros) -> Array:
        """``w g(x)``, given ``g(x)``."""
        return transformed if self.weights is None else transformed * data.expand(self.weights)

    def transformed(self, data: Nonzeros) -> Array:
        """``g(x)`` for the non-zeros, without the weights, (nnz,)."""
        if self.transform is None:
            return data.values
        values = data.values.view()
        values.flags.writeable = False  # they may be the user's own
        heights = np.asarray(self.transform.value(values, **self._expanded(data)), np.float64)
        if heights.shape != values.shape:
            raise ValueError(f"{self.transform!r} must return one value for each it is given, not {heights.shape}.")
        if not np.all(np.isfinite(heights)):
            largest = data.values[~np.isfinite(heights)].max()
            raise ValueError(
                f"{self.transform!r} is not finite for the value {largest:g}: scale the features, "
                "for example to [0, 1], or choose a smaller hyperparameter."
            )
        return heights

    def transformed_row(self, values: Array) -> Array:
        """``g_d(values_d)`` for one value a dimension, (D,)."""
        row = Rows.from_array(values[None])
        out = np.zeros(len(values))
        out[row.column_of] = self.transformed(row)
        return out

    def transform_rows(self, rows: Rows) -> Rows:
        """The same rows with heights in place of values."""
        return rows.with_values(self.heights(rows))

    def profiles(self, transformed: Array, data: Nonzeros) -> dict[str, Array]:
        """For every hyperparameter the function ``q`` of the derivative of K, on the non-zeros, (nnz,).

        The derivative of ``K[i, j]`` is ``sum_d q_d(min(x_id, x_jd))``; a hyperparameter with one
        value a dimension has one such summand each, "weights" included. ``transformed`` is ``g(x)``.
        """
        profiles = {"weights": transformed}
        if self.transform is not None:
            expanded = self._expanded(data)
            for name, derivative in self.transform.derivative(data.values, **expanded).items():
                profiles[f"transform__{name}"] = self.weighted(derivative, data)
        return profiles

    def is_per_dimension(self, name: str) -> bool:
        """Whether a hyperparameter, by its name in `profiles`, has one value a dimension."""
        return name == "weights" or self.hyperparameters[name.removeprefix("transform__")].ndim > 0

    def replace(self, weights: Array | None, hyperparameters: Mapping[str, Array]) -> ResolvedKernel:
        """The same kernel with other values."""
        return replace(self, weights=weights, hyperparameters=hyperparameters)

    def scaled(self, factor: float, n_columns: int) -> ResolvedKernel:
        """The kernel times a number."""
        weights = np.ones(self.n_weights(n_columns)) if self.weights is None else self.weights
        return self.replace(factor * weights, self.hyperparameters)

    def select(self, first: int, last: int) -> ResolvedKernel:
        """The kernel of the dimensions ``first..last`` alone."""
        hyperparameters = {
            name: value[first:last] if value.ndim else value for name, value in self.hyperparameters.items()
        }
        weights = None if self.weights is None else self.weights[first:last]
        return replace(self, weights=weights, hyperparameters=hyperparameters)

    def _expanded(self, data: Nonzeros) -> dict[str, Any]:
        return {
            name: data.expand(value) if value.ndim else float(value) for name, value in self.hyperparameters.items()
        }
