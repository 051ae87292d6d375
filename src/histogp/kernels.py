"""Generalised histogram intersection kernels, as parameter objects for users and values for operators.

    K(x, x') = sum_d  w_d * min(g_d(x_d), g_d(x'_d))

(gp-hik-ijcv2016, eq. 14 to 17). What users build stores parameters and does nothing else, so that
``clone``, ``get_params`` and ``GridSearchCV`` reach down to ``kernel__transform__eta``. `resolve`
turns it into a `ResolvedKernel`, the frozen value that operators see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_array

from histogp.intersection import intersections
from histogp.storage import Array, Nonzeros, Rows


class Transform(BaseEstimator):
    """Base of an order-preserving transform ``g`` with ``g(0) = 0``.

    A transform of your own subclasses this and provides

    - ``__init__`` that stores its hyperparameters under their names, each one positive number or one
      a dimension (positive, because optimisers work on logarithms),
    - ``bounds``: a class attribute, name to (lowest, highest) sensible value, for optimisers,
    - ``value(x, **hyperparameters)``: ``g(x)`` elementwise, for an array x >= 0,
    - ``derivative(x, **hyperparameters)``: a dict, name to the derivative of ``g(x)`` with respect to
      that hyperparameter.

    Each hyperparameter arrives either as a number or as an array of the shape of ``x``. The functions
    must not depend on ``self`` otherwise.

    Examples
    --------
    >>> import numpy as np
    >>> from histogp.kernels import HistogramIntersection, Transform
    >>> class Log(Transform):
    ...     bounds = {"scale": (1e-3, 1e3)}
    ...     def __init__(self, scale=1.0):
    ...         self.scale = scale
    ...     def value(self, x, scale):
    ...         return np.log1p(scale * x)
    ...     def derivative(self, x, scale):
    ...         return {"scale": x / (1 + scale * x)}
    >>> HistogramIntersection(transform=Log(2.0))([[1.0]], [[3.0]]).round(4)
    array([[1.0986]])
    """

    bounds: ClassVar[dict[str, tuple[float, float]]] = {}

    def value(self, x: Array, *arguments: Any, **hyperparameters: Any) -> Array:
        raise NotImplementedError

    def derivative(self, x: Array, *arguments: Any, **hyperparameters: Any) -> dict[str, Array]:
        raise NotImplementedError


class Power(Transform):
    """``g(x) = x ** eta``: "HIK-POLY" in the papers (eq. 15).

    Parameters
    ----------
    eta : float or array-like of shape (n_features,), default=0.5
        Exponent, positive. The default is the square root, which damps large counts; 1 is the
        identity.
    """

    bounds: ClassVar = {"eta": (1e-2, 1e2)}

    def __init__(self, eta: Any = 0.5):
        self.eta = eta

    def value(self, x: Array, *, eta: Any) -> Array:
        return x**eta

    def derivative(self, x: Array, *, eta: Any) -> dict[str, Array]:
        logarithm = np.log(x, where=x > 0, out=np.zeros_like(x))
        return {"eta": x**eta * logarithm}


class Exponential(Transform):
    """``g(x) = (exp(eta x) - 1) / (exp(eta) - 1)``: "HIK-EXP" in the papers (eq. 16).

    Meant for features in [0, 1]: it overflows where ``eta * x`` exceeds about 700.

    Parameters
    ----------
    eta : float or array-like of shape (n_features,), default=1.0
        Growth, positive; towards 0 the transform becomes the identity.
    """

    bounds: ClassVar = {"eta": (1e-6, 1e2)}

    def __init__(self, eta: Any = 1.0):
        self.eta = eta

    def value(self, x: Array, *, eta: Any) -> Array:
        # exp(eta (x - 1)) (1 - exp(-eta x)) / (1 - exp(-eta)): no overflow while x <= 1.
        with np.errstate(over="ignore"):
            return np.exp(eta * (x - 1)) * np.expm1(-eta * x) / np.expm1(-eta)

    def derivative(self, x: Array, *, eta: Any) -> dict[str, Array]:
        # The logarithmic derivative is L(x) - L(1) with L(x) = x / (1 - exp(-eta x)).
        slope = np.divide(x, -np.expm1(-eta * x), where=x > 0, out=np.ones_like(x) / eta)
        return {"eta": self.value(x, eta=eta) * (slope + 1 / np.expm1(-eta))}


class HistogramIntersection(BaseEstimator):
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
        X = _check_non_negative(X)
        Y = X if Y is None else _check_non_negative(Y)
        if X.shape[1] != Y.shape[1]:
            raise ValueError(f"X has {X.shape[1]} features and Y has {Y.shape[1]}; they must be as many.")
        kernel = resolve(self, X.shape[1])
        left, right = (kernel.transform_rows(Rows.from_array(A)) for A in (X, Y))
        out = np.empty((left.n_rows, right.n_rows))
        for columns, block in intersections(left, right):
            out[:, columns] = block
        return out


_SHORT_NAMES: dict[str, Callable[[], HistogramIntersection]] = {
    "hik": HistogramIntersection,
    "hik-poly": lambda: HistogramIntersection(transform=Power()),
    "hik-exp": lambda: HistogramIntersection(transform=Exponential()),
}


def as_kernel(kernel: str | HistogramIntersection) -> HistogramIntersection:
    """A fresh copy of the kernel object, or the one that a short name stands for."""
    if not isinstance(kernel, str):
        return clone(kernel)
    if kernel not in _SHORT_NAMES:
        raise ValueError(f"Unknown kernel {kernel!r}; known names are {', '.join(map(repr, _SHORT_NAMES))}.")
    return _SHORT_NAMES[kernel]()


@dataclass(frozen=True, eq=False)
class ResolvedKernel:
    """A kernel for a known number of dimensions, checked: all that operators see.

    Its values are heights ``h_d(x) = w_d g_d(x)``, so that ``K = sum_d min(h_d(x), h_d(x'))``.
    ``hyperparameters`` are those of the transform, each of shape () or (D,); weights (D,) or None.
    """

    transform: Transform | None
    hyperparameters: Mapping[str, Array]
    weights: Array | None

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
        return ResolvedKernel(self.transform, hyperparameters, weights)

    def scaled(self, factor: float, n_features: int) -> ResolvedKernel:
        """The kernel times a number."""
        return self.replace(
            np.full(n_features, factor) if self.weights is None else factor * self.weights, self.hyperparameters
        )

    def select(self, first: int, last: int) -> ResolvedKernel:
        """The kernel of the dimensions ``first..last`` alone."""
        hyperparameters = {
            name: value[first:last] if value.ndim else value for name, value in self.hyperparameters.items()
        }
        weights = None if self.weights is None else self.weights[first:last]
        return ResolvedKernel(self.transform, hyperparameters, weights)

    def _expanded(self, data: Nonzeros) -> dict[str, Any]:
        return {
            name: data.expand(value) if value.ndim else float(value) for name, value in self.hyperparameters.items()
        }


def resolve(kernel: HistogramIntersection, n_features: int) -> ResolvedKernel:
    """Check a kernel's parameters against the data's width and freeze them."""
    if not isinstance(kernel, HistogramIntersection):
        raise TypeError(f"The kernel must be a HistogramIntersection or a short name; got {kernel!r}.")
    transform = kernel.transform
    if transform is not None and not isinstance(transform, Transform):
        raise TypeError(f"The transform must be None or a histogp.kernels.Transform; got {transform!r}.")
    group_of = groups_of(kernel, n_features)
    hyperparameters = {}
    for name in transform.get_params(deep=False) if transform is not None else ():
        value = _expanded(name, getattr(transform, name), group_of, n_features)
        if not np.all(value > 0):
            raise ValueError(f"{name} must be positive; got {value.min():g}.")
        hyperparameters[name] = value
    given = 1.0 if is_ard(kernel) else kernel.weights
    weights = None if given is None else _expanded("weights", given, group_of, n_features)
    if weights is not None:
        weights = np.broadcast_to(weights, (n_features,)).copy()
        if not np.all(weights >= 0):
            raise ValueError(f"weights must not be negative; got {weights.min():g}.")
    if transform is None:
        return ResolvedKernel(None, {}, weights)
    at_zero = transform.value(np.zeros(n_features), **hyperparameters)
    if np.any(np.asarray(at_zero) != 0):
        raise ValueError(f"{transform!r} is not a valid transform: g(0) must be 0, not {np.max(at_zero):g}.")
    return ResolvedKernel(clone(transform), hyperparameters, weights)


def is_ard(kernel: HistogramIntersection) -> bool:
    """Whether the weights are to be learned."""
    if isinstance(kernel.weights, str) and kernel.weights != "ard":
        raise ValueError(f'weights must be numbers, None or "ard"; got {kernel.weights!r}.')
    return isinstance(kernel.weights, str)


def groups_of(kernel: HistogramIntersection, n_features: int) -> Array | None:
    """The number of the group of each dimension, (D,), from 0 on; None without groups."""
    if kernel.groups is None:
        return None
    groups = np.asarray(kernel.groups)
    if groups.shape != (n_features,):
        raise ValueError(f"groups must name one group for each of the {n_features} features; got {kernel.groups!r}.")
    try:
        return np.unique(groups, return_inverse=True)[1]
    except TypeError:
        raise ValueError("groups must be numbers, or texts, but not both.") from None


def _expanded(name: str, value: Any, group_of: Array | None, n_features: int) -> Array:
    if group_of is None:
        return per_dimension(name, value, n_features)
    array = per_dimension(name, value, int(group_of.max()) + 1, "group")
    return array[group_of] if array.ndim else array


def per_dimension(name: str, value: Any, n_values: int, unit: str = "feature") -> Array:
    """A parameter as an array, () or (n_values,); anything else is refused by its name."""
    try:
        array = np.array(value, np.float64)
    except (TypeError, ValueError):
        array = np.asarray(np.nan)
    if array.shape not in ((), (n_values,)) or not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be one finite number, or one for each of the {n_values} {unit}s; got {value!r}.")
    return array


def _check_non_negative(X: Any) -> Any:
    return check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_non_negative=True)
