"""What all kernels have in common, and their short names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_array

from histogp._core.data import Array
from histogp._core.kernel_values import KernelValue
from histogp._core.operators.contract import KernelOperator, updates_of
from histogp.io.schema import Reader

# What short names stand for: a class of this package, and what its parameters are made of.
_NAMED: dict[str, tuple[str, dict[str, str]]] = {
    "hik": ("HistogramIntersection", {}),
    "hik-poly": ("HistogramIntersection", {"transform": "Power"}),
    "hik-exp": ("HistogramIntersection", {"transform": "Exponential"}),
    "chi2": ("Chi2", {}),
    "exp-chi2": ("ExpChi2", {}),
}
SHORT_NAMES = list(_NAMED)


@dataclass(frozen=True, eq=False)
class Adapted:
    """A kernel in which all that was left to data is decided, and its frozen value for these data."""

    kernel: Kernel
    value: KernelValue
    noise: float


class Kernel(BaseEstimator):
    """Base of the parameter objects for users: a weighted sum of kernels of one dimension each."""

    weights: Any
    groups: Any = None

    _any_sign: ClassVar[bool] = False
    """Whether features may be negative."""

    def _adapt(self, X: Any, targets: Array | None = None, noise: float = 1.0) -> Adapted:
        """Take from training data what is left to them: X an array, CSR or `Rows`; targets (N, M)."""
        raise NotImplementedError

    def _adapt_to(self, operator: KernelOperator, targets: Array | None = None, noise: float = 1.0) -> Adapted:
        """Take from the training samples of an operator what is left to them."""
        return self._adapt(updates_of(operator).training_rows(), targets, noise)

    def _adapts_again(self, n_before: int, n_after: int) -> bool:
        """Whether an update from so many samples to so many decides anew what was left to data."""
        return False

    def _left_open(self, given: Kernel) -> Kernel:
        """A copy that leaves to data what ``given`` leaves to them, and keeps what a search has found."""
        return clone(self)

    _operator_type: ClassVar[type[KernelOperator]]
    """The kind of operator that its matrix is, which restores itself from files."""

    def _operator(self, value: Any, X: Any, n_threads: int = 1) -> KernelOperator:
        """The kernel matrix of training samples, an array or CSR (N, D); ``value`` is that of `_adapt`."""
        raise NotImplementedError

    def _with_values(self, values: Mapping[str, Any]) -> Kernel:
        """A copy with hyperparameters that a search found; "scale" multiplies the present weights."""
        kernel = clone(self).set_params(**{name: value for name, value in values.items() if name != "scale"})
        if "scale" in values:
            given = 1.0 if kernel.weights is None else kernel.weights
            kernel.weights = values["scale"] * (np.asarray(given) if np.ndim(given) else given)
        return kernel

    def _to_search(self, given: Kernel, value: KernelValue) -> tuple[Kernel, KernelValue]:
        """The kernel and its value, ready to search again; weights are free if those of ``given`` were."""
        if not isinstance(given.weights, str):
            return self, value
        # Not from where they are: a weight that has become zero would stay so.
        return clone(self).set_params(weights="ard"), replace(value, weights=None, learns_weights=True)

    def _restore(self, reader: Reader, n_features: int) -> KernelValue:
        """The value of a fitted kernel, in a model file; believes nothing."""
        raise NotImplementedError


def as_kernel(kernel: str | Kernel) -> Kernel:
    """A fresh copy of the kernel object, or the one that a short name stands for."""
    if isinstance(kernel, Kernel):
        return clone(kernel)
    if not isinstance(kernel, str):
        raise TypeError(f"The kernel must be one of histogp.kernels or a short name; got {kernel!r}.")
    if kernel not in SHORT_NAMES:
        raise ValueError(f"Unknown kernel {kernel!r}; known names are {', '.join(map(repr, SHORT_NAMES))}.")
    package = import_module("histogp.kernels")  # whose classes import this module
    name, parts = _NAMED[kernel]
    return getattr(package, name)(**{key: getattr(package, part)() for key, part in parts.items()})


def weighting(kernel: Kernel, n_features: int) -> dict[str, Any]:
    """What the values of kernels with a weight for each feature share; weights that are to be learned start at one."""
    learned = isinstance(kernel.weights, str)
    if learned and kernel.weights != "ard":
        raise ValueError(f'weights must be numbers, None or "ard"; got {kernel.weights!r}.')
    groups = None if kernel.groups is None else _numbered(kernel.groups, n_features)
    weights = None
    if learned or kernel.weights is not None:
        given = expanded("weights", 1.0 if learned else kernel.weights, groups, n_features)
        weights = np.broadcast_to(given, (n_features,)).copy()
        if not np.all(weights >= 0):
            raise ValueError(f"weights must not be negative; got {weights.min():g}.")
    return {"n_features": n_features, "weights": weights, "groups": groups, "learns_weights": learned}


def _numbered(names: Any, n_features: int) -> Array:
    """The number of the group of each dimension, (D,), from 0 on."""
    groups = np.asarray(names)
    if groups.shape != (n_features,):
        raise ValueError(f"groups must name one group for each of the {n_features} features; got {names!r}.")
    try:
        return np.unique(groups, return_inverse=True)[1]
    except TypeError:
        raise ValueError("groups must be numbers, or texts, but not both.") from None


def expanded(name: str, value: Any, group_of: Array | None, n_features: int) -> Array:
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


def check_pair(X: Any, Y: Any, *, any_sign: bool = False) -> tuple[Any, Any]:
    """Two matrices of as many columns, dense or CSR; None is the first one again."""
    X = check_matrix(X, any_sign)
    Y = X if Y is None else check_matrix(Y, any_sign)
    if X.shape[1] != Y.shape[1]:
        raise ValueError(f"X has {X.shape[1]} features and Y has {Y.shape[1]}; they must be as many.")
    return X, Y


def check_matrix(X: Any, any_sign: bool) -> Any:
    """An array or CSR of numbers, which are not negative unless any sign will do."""
    return check_array(
        X,
        accept_sparse="csr",
        dtype=[np.float64, np.float32],
        ensure_non_negative=not any_sign,
        estimator="a histogram kernel",
    )
