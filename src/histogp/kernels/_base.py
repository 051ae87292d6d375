"""What all kernels have in common."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_array

from histogp._core.data import Array, dense


class Kernel(BaseEstimator):
    """Base of the parameter objects for users: a weighted sum of kernels of one dimension each."""

    weights: Any
    groups: Any

    _has_features = False
    """Whether an estimator works with features whose products are the kernel."""
    _from_data: tuple[str, ...] = ()
    """Parameters that may be left to training data, as None."""
    _by_name: tuple[str, ...] = ()
    """Those among them that may be left by a name as well."""

    @property
    def _adapts(self) -> bool:
        """Whether it takes something from training data."""
        return any(getattr(self, name) is None for name in self._from_data) or any(
            isinstance(getattr(self, name), str) for name in self._by_name
        )

    def _adapt(self, X: Any, targets: Array | None = None) -> Kernel:
        """The kernel with what it takes from training data, if anything: an array, CSR or `Rows`; targets (N, M)."""
        return self

    def _shown(self) -> Kernel:
        """The same without long arrays from data, to print."""
        shown = clone(self)
        return shown.set_params(**{name: None for name in self._from_data if np.ndim(getattr(self, name))})

    def _resolve(self, n_features: int) -> Any:
        """The frozen value for data of this width; refuses parameters that do not fit."""
        raise NotImplementedError


def resolve(kernel: Any, n_features: int) -> Any:
    """Check a kernel's parameters against the data's width and freeze them."""
    if not isinstance(kernel, Kernel):
        raise TypeError(f"The kernel must be one of histogp.kernels or a short name; got {kernel!r}.")
    return kernel._resolve(n_features)


def resolved_weights(kernel: Kernel, n_features: int) -> Array | None:
    """One weight a dimension, (D,), or None if all are one; those that are to be learned start at one."""
    given = 1.0 if is_ard(kernel) else kernel.weights
    if given is None:
        return None
    weights = expanded("weights", given, groups_of(kernel, n_features), n_features)
    weights = np.broadcast_to(weights, (n_features,)).copy()
    if not np.all(weights >= 0):
        raise ValueError(f"weights must not be negative; got {weights.min():g}.")
    return weights


def is_ard(kernel: Kernel) -> bool:
    """Whether the weights are to be learned."""
    if isinstance(kernel.weights, str) and kernel.weights != "ard":
        raise ValueError(f'weights must be numbers, None or "ard"; got {kernel.weights!r}.')
    return isinstance(kernel.weights, str)


def groups_of(kernel: Kernel, n_features: int) -> Array | None:
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


def check_pair(X: Any, Y: Any) -> tuple[Array, Array]:
    """Two dense matrices of as many columns; None is the first one again."""
    X = dense(check_non_negative(X))
    Y = X if Y is None else dense(check_non_negative(Y))
    if X.shape[1] != Y.shape[1]:
        raise ValueError(f"X has {X.shape[1]} features and Y has {Y.shape[1]}; they must be as many.")
    return X, Y


def check_non_negative(X: Any) -> Any:
    return check_array(
        X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_non_negative=True, estimator="a histogram kernel"
    )
