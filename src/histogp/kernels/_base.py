"""What all kernels have in common, and their short names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_array

from histogp._core.data import Array, Rows
from histogp._core.kernel_values import KernelValue
from histogp._core.operators.contract import KernelOperator, updates_of
from histogp._core.operators.pair_kernels import Child, HeightsKernel, PairKernel, Part
from histogp.io.schema import Reader
from histogp.kernels.transforms import Transform

# What short names stand for: a class of this package, and what its parameters are made of.
_NAMED: dict[str, tuple[str, dict[str, str]]] = {
    "hik": ("HistogramIntersection", {}),
    "hik-poly": ("HistogramIntersection", {"transform": "Power"}),
    "hik-exp": ("HistogramIntersection", {"transform": "Exponential"}),
    "chi2": ("Chi2", {}),
    "exp-chi2": ("ExpChi2", {}),
    "laplacian": ("Laplacian", {}),
    "gaussian": ("Gaussian", {}),
    "constant": ("Constant", {}),
}
SHORT_NAMES = list(_NAMED)
# Those of kernels whose features may be negative.
ANY_SIGN_NAMES = {"laplacian", "gaussian", "constant"}


@dataclass(frozen=True, eq=False)
class Adapted:
    """A kernel in which all that was left to data is decided, and its frozen value for these data."""

    kernel: Kernel
    value: KernelValue
    noise: float


class Kernel(BaseEstimator):
    """Base of the parameter objects for users.

    Kernels add up, ``HistogramIntersection() + Laplacian()``, and a number times a kernel is one with another scale.

    Examples
    --------
    >>> from histogp.kernels import Constant, HistogramIntersection, Kernel
    >>> kernel = 2 * HistogramIntersection() + Constant(0.5)
    >>> isinstance(kernel, Kernel)
    True
    >>> kernel([[1.0, 2.0]], [[3.0, 1.0]])
    array([[4.5]])
    """

    transform: Any = None
    weights: Any = None
    groups: Any = None
    scale: Any = 1.0
    columns: Any = None

    _any_sign: ClassVar[Any] = False
    """Whether features may be negative."""

    _stacks: ClassVar[bool] = False
    """Whether it is an intersection kernel, or one on a column of ones, so that several are one: see `_child`."""

    _is_interactive: ClassVar[Any] = False
    """Whether it sees how features interact; otherwise it is a sum over features."""

    _is_offset: ClassVar[bool] = False
    """Whether it sees no features at all: one number for all pairs of samples."""

    _word: ClassVar[str] = ""
    """What people call it; without that it is called by its class."""

    def __add__(self, other: Any) -> Kernel:
        if not isinstance(other, Kernel):
            return NotImplemented
        return import_module("histogp.kernels").Sum([*self._summands(), *other._summands()])

    def __radd__(self, other: Any) -> Kernel:
        return self if other == 0 else NotImplemented  # what the built-in sum starts from

    def __mul__(self, factor: Any) -> Kernel:
        if not isinstance(factor, Real) or isinstance(factor, bool):
            return NotImplemented
        return clone(self)._scaled(factor)

    __rmul__ = __mul__

    def _scaled(self, factor: Any) -> Kernel:
        """The kernel itself, after a change of its scale."""
        return self.set_params(scale=factor * self.scale)

    def _summands(self) -> list[Any]:
        """What it contributes to a sum: a copy of itself."""
        return [clone(self)]

    def _leaves(self) -> dict[str, Kernel]:
        """The kernels that it adds up, those of inner sums as well, by their names; nothing for one kernel."""
        return {}

    def set_params(self, **params: Any) -> Any:
        """Set parameters, also nested ones; without a transform ``transform__eta`` starts from ``Power(1)``.

        Parameters
        ----------
        **params : dict
            Values by the names of parameters; ``name__parameter`` reaches a parameter of a nested object.

        Returns
        -------
        self : Kernel
            The kernel itself.
        """
        nested = [name for name in params if name.startswith("transform__")]
        if self.transform is None and "transform" not in params and nested and "transform" in self._get_param_names():
            if nested != ["transform__eta"]:
                raise ValueError(f"There is no transform with the parameter {nested[0]!r}: set transform=..., too.")
            self.transform = import_module("histogp.kernels").Power(1.0)  # the identity
        return super().set_params(**params)

    def _with_open_weights(self, given: Kernel) -> Any:
        """A copy whose weights are to be learned where those of ``given`` are; itself, if these are nowhere."""
        return clone(self).set_params(weights="ard") if isinstance(given.weights, str) else self

    def _part(self, prefix: str = "") -> Part:
        """What it is in a sum of kernels on the same heights."""
        raise NotImplementedError

    def _child(self, prefix: str, n_features: int) -> Child | None:
        """What it is in a sum of intersection kernels; None if it is none."""
        return None

    def _pair_value(self, n_features: int) -> PairKernel:
        """The value of the kernel pair by pair, for the number of features that it sees."""
        return HeightsKernel(**heights_of(self, n_features), parts=(self._part(),))

    def _apart(self) -> str:
        """Why it cannot see the heights of a sum around it, in words; empty if it can."""
        own = self._own_heights()
        return f"has {own[0]} of its own" if own else ""

    def _resolved(self, rows: Rows, targets: Array | None) -> Kernel:
        """A copy without anything that is left to data: some training samples, as it sees them, and their targets."""
        return self

    def _check(self) -> None:
        """Refuse parameters that make no sense."""
        check_positive("scale", self.scale)

    def _own_heights(self) -> list[str]:
        """The names of parameters that say which heights it sees, where these are not just the features."""
        return [name for name in ("transform", "weights", "groups", "columns") if getattr(self, name) is not None]

    def _adapt(self, X: Any, targets: Array | None = None, noise: float = 1.0) -> Adapted:
        """Take from training data what is left to them: X an array, CSR or `Rows`; targets (N, M)."""
        raise NotImplementedError

    def _adapt_to(self, operator: KernelOperator, targets: Array | None = None, noise: float = 1.0) -> Adapted:
        """Take from the training samples of an operator what is left to them."""
        return self._adapt(updates_of(operator).training_rows(), targets, noise)

    def _adapts_again(self, n_before: int, n_after: int) -> bool:
        """Whether an update from so many samples to so many decides anew what was left to data."""
        return False

    def _left_open(self, given: Kernel, *, searched: bool) -> Kernel:
        """A copy that leaves to data what ``given`` leaves to them, and keeps what a search has found."""
        return clone(self)

    def _operator(self, value: Any, X: Any, n_threads: int = 1) -> KernelOperator:
        """The kernel matrix of training samples, an array or CSR (N, D); ``value`` is that of `_adapt`."""
        raise NotImplementedError

    def _restored_operator(
        self, reader: Reader, value: Any, n_samples: int, n_features: int, n_threads: int
    ) -> KernelOperator:
        """The kernel matrix of training samples in a model file; believes nothing."""
        raise NotImplementedError

    def _with_values(self, values: Mapping[str, Any]) -> Kernel:
        """A copy with hyperparameters that a search found; a scale multiplies the present one."""
        own = {"scale": values["scale"] * self.scale} if "scale" in values else {}
        return clone(self).set_params(**{**values, **own})

    def _to_search(self, given: Kernel, value: KernelValue) -> tuple[Kernel, KernelValue]:
        """The kernel and its value, ready to search again; weights are free if those of ``given`` were."""
        if not isinstance(given.weights, str):
            return self, value
        # Not from where they are: a weight that has become zero would stay so.
        return clone(self).set_params(weights="ard"), replace(value, weights=None, learns_weights=True)

    def _restore(self, reader: Reader, n_features: int) -> KernelValue:
        """The value of a fitted kernel, in a model file; believes nothing."""
        raise NotImplementedError


class AdditiveKernel(Kernel):
    """A kernel that is a sum over features, linear in their weights."""

    def _with_values(self, values: Mapping[str, Any]) -> Kernel:
        # Weights that were found have the scale in them.
        own = {"weights": values["weights"] / self.scale} if "weights" in values else {}
        return super()._with_values({**values, **own})


def as_kernel(kernel: str | Kernel) -> Kernel:
    """A fresh copy of the kernel object, or the one that a short name stands for, or several, "hik + laplacian".

    Parameters
    ----------
    kernel : str or Kernel
        A kernel, one of ``SHORT_NAMES``, or several of them with "+" between them.

    Returns
    -------
    kernel : Kernel
        A new object; a `Sum` for several names.

    Examples
    --------
    >>> from histogp.kernels import as_kernel
    >>> as_kernel("hik")
    HistogramIntersection()
    >>> list(as_kernel("hik + laplacian").named_parts())
    ['histogram_intersection', 'laplacian']
    """
    if isinstance(kernel, Kernel):
        return clone(kernel)
    if not isinstance(kernel, str):
        raise TypeError(f"The kernel must be one of histogp.kernels or a short name; got {kernel!r}.")
    package = import_module("histogp.kernels")  # whose classes import this module
    if "+" in kernel:
        return package.Sum([as_kernel(name.strip()) for name in kernel.split("+")])
    if kernel not in SHORT_NAMES:
        raise ValueError(f"Unknown kernel {kernel!r}; known names are {', '.join(map(repr, SHORT_NAMES))}.")
    name, parts = _NAMED[kernel]
    return getattr(package, name)(**{key: getattr(package, part)() for key, part in parts.items()})


def is_positive(value: Any) -> bool:
    """Whether it is a finite number above 0."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    try:
        return 0 < float(value) < np.inf
    except OverflowError:
        return False


def check_positive(name: str, value: Any, also: str = "") -> None:
    """Refuse what is not a number above 0, or the text ``also``."""
    if isinstance(value, str) and value == also:
        return
    if not is_positive(value):
        other = f' or "{also}"' if also else ""
        raise ValueError(f"{name} must be a number above 0{other}; got {value!r}.")


def selected(columns: Any, n_features: int) -> Array | None:
    """The numbers of the columns that a parameter selects, (d,); None for all."""
    if columns is None:
        return None
    try:
        index = columns if isinstance(columns, slice) else np.asarray(columns)
        if not isinstance(index, slice) and index.dtype.kind == "f" and np.all(index == index.round()):
            index = index.astype(int)  # as files have them
        found = np.arange(n_features)[index]
    except (IndexError, TypeError, ValueError):
        found = np.empty(0, int)
    if found.ndim != 1 or found.size == 0 or len(np.unique(found)) != found.size:
        raise ValueError(
            f"columns must be a slice, or numbers of some of the {n_features} features, each once, or one truth value "
            f"for each; got {columns!r}."
        )
    return found


def weighting(kernel: Kernel, n_features: int, scale: float = 1.0) -> dict[str, Any]:
    """What the values of kernels with a weight for each feature share; weights that are to be learned start at one.

    scale : of a kernel that is linear in its weights, which makes it a factor of them
    """
    if type(scale) is not float or not 0 < scale < np.inf:
        check_positive("scale", scale)
    learned = isinstance(kernel.weights, str)
    if learned and kernel.weights != "ard":
        raise ValueError(f'weights must be numbers, None or "ard"; got {kernel.weights!r}.')
    groups = None if kernel.groups is None else _numbered(kernel.groups, n_features)
    weights = None
    if learned or kernel.weights is not None or scale != 1:
        is_one = learned or kernel.weights is None
        given = scale * expanded("weights", 1.0 if is_one else kernel.weights, groups, n_features)
        weights = np.broadcast_to(given, (n_features,)).copy()
        if not np.all(weights >= 0):
            raise ValueError(f"weights must not be negative; got {weights.min():g}.")
    return {"n_features": n_features, "weights": weights, "groups": groups, "learns_weights": learned}


def heights_of(kernel: Any, n_features: int, scale: float = 1.0) -> dict[str, Any]:
    """What the values of kernels on heights share: transform, weights, groups; refuses what does not fit."""
    transform, common = kernel.transform, weighting(kernel, n_features, scale)
    if transform is None:
        return common
    if not isinstance(transform, Transform):
        raise TypeError(f"The transform must be None or a histogp.kernels.Transform; got {transform!r}.")
    of_transform = {}
    for name in transform.get_params(deep=False):
        value = expanded(name, getattr(transform, name), common["groups"], n_features)
        if not np.all(value > 0):
            raise ValueError(f"{name} must be positive; got {value.min():g}.")
        of_transform[name] = value
    at_zero = transform.value(np.zeros(n_features), **of_transform)
    if np.any(np.asarray(at_zero) != 0):
        raise ValueError(f"{transform!r} is not a valid transform: g(0) must be 0, not {np.max(at_zero):g}.")
    return {"transform": clone(transform), "of_transform": of_transform, **common}


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
