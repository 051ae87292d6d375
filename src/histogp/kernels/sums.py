"""Sums of kernels, and the constant one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import clone

from histogp._core.data import Array, Rows
from histogp._core.operators import pair_kernels
from histogp._core.operators.contract import KernelOperator
from histogp._core.operators.pair_kernels import Child, HeightsKernel, PairKernel, PairSum
from histogp._core.operators.sorted_columns import Intersection, SortedOperator
from histogp._core.operators.stacked import StackedIntersection
from histogp._core.operators.summed import STACKED, SummedKernel, SumOperator
from histogp.io.schema import Reader
from histogp.kernels._base import Adapted, Kernel, check_pair, heights_of, per_dimension, selected
from histogp.kernels.pairwise import PairwiseKernel, check_approximation, nested, started
from histogp.kernels.transforms import Transform


class Constant(PairwiseKernel):
    """The constant kernel, ``K(x, x') = s``: a common offset of all values, for sums.

    Parameters
    ----------
    scale : float, default=1.0
        The factor s, which is the prior variance of the offset.

    Examples
    --------
    >>> from histogp.kernels import Constant, HistogramIntersection
    >>> (HistogramIntersection() + Constant(0.5))([[1.0, 2.0]], [[3.0, 1.0]])
    array([[2.5]])
    """

    _any_sign = True
    _stacks = True
    _is_offset = True
    _word = "constant"
    approximation = "auto"
    n_components = 2000
    random_state = 0

    def __init__(self, scale: float = 1.0):
        self.scale = scale

    def _part(self, prefix: str = "") -> pair_kernels.Constant:
        self._check()
        return pair_kernels.Constant(float(self.scale), prefix)

    def _child(self, prefix: str, n_features: int) -> Child:
        """What it is in a sum of intersection kernels: one on a column of ones."""
        self._check()
        return Child(prefix, None, Intersection(n_features=1, weights=np.array([float(self.scale)])), is_constant=True)


def _summed(values: Mapping[str, Any], n_features: int) -> SummedKernel:
    """The value of a sum whose parts have operators of their own, from theirs by name."""
    children = tuple(Child(f"{name}__" if name else "", None, value) for name, value in values.items())
    learns_weights = any(value.learns_weights for value in values.values())
    return SummedKernel(n_features=n_features, children=children, learns_weights=learns_weights)


class Sum(PairwiseKernel):
    """A sum of kernels; ``HistogramIntersection() + 0.5 * Laplacian()`` makes one, too.

    What is set on the sum, a transform or weights, is shared by all parts: given and learned once.

    Parameters
    ----------
    parts : list of Kernel, or of pairs (name, Kernel), or None, default=None
        The kernels. Without a name a part is called by its class, "laplacian", and a second one "laplacian_2";
        its parameters are reached as ``laplacian__beta``. ``Sum(wide=Laplacian(0.1), narrow=Laplacian(10))`` names them
        as well.
    transform : Transform or None, default=None
        As that of `HistogramIntersection`, for all parts.
    weights : float, array-like of shape (n_features,) or (n_groups,), "ard" or None, default=None
        As those of `HistogramIntersection`, for all parts.
    groups : array-like of shape (n_features,) or None, default=None
        As those of `HistogramIntersection`, for all parts.
    shift : float, array-like of shape (n_features,) or None, default=None
        What is subtracted from features before all parts see them, for instance their smallest values. With a number,
        even 0, features of any sign are fine: intersection kernels see positive and negative values apart, as if these
        were features of their own. Another than zero makes samples dense; where that
        is more than 8 GiB and four times as many numbers as before, it is refused.
    normalize : {"l1"}, array-like of bool of shape (n_features,) or None, default=None
        With "l1" each row is divided by the sum of its absolute values, before the shift; with a mask by the sum of
        those features.
    approximation : {"auto", "exact", "single", "nystroem", "parts"}, default="auto"
        As that of `Laplacian`, for the sum as a whole; those of its parts do not count. With "parts" they do: each part
        works as it does alone, an intersection kernel exactly for any number of samples, and the sum is solved by
        iteration. Nothing is shared by the parts then.
    n_components : int, default=2000
        Landmarks, see ``approximation``.
    random_state : int, default=0
        Seed of the landmarks.
    **named : Kernel
        Parts by their names, in place of ``parts``.

    Examples
    --------
    >>> from histogp.kernels import HistogramIntersection, Laplacian, Power, Sum
    >>> kernel = Sum([HistogramIntersection(), Laplacian(unit=2.0)], transform=Power(1.0))
    >>> kernel([[1.0, 2.0]], [[3.0, 2.0]]).round(4)
    array([[3.3679]])
    >>> kernel.set_params(laplacian__beta=2.0).get_params()["laplacian__beta"]
    2.0
    """

    def __init__(
        self,
        parts: Any = None,
        *,
        transform: Transform | None = None,
        weights: Any = None,
        groups: Any = None,
        shift: Any = None,
        normalize: Any = None,
        approximation: str = "auto",
        n_components: int = 2000,
        random_state: int = 0,
        **named: Kernel,
    ):
        """Keep the parameters as they are given; the `fit` of an estimator checks them."""
        if unknown := [name for name in named if name in ("scale", "columns")]:
            raise TypeError(
                f"A sum has no {unknown[0]} of its own: multiply the sum by a number, or set that of its parts."
            )
        if parts is not None and named:
            raise TypeError(f"Parts come as a list or by name, not both; got also {', '.join(named)}.")
        self.parts = list(named.items()) if parts is None else parts
        self.transform = transform
        self.weights = weights
        self.groups = groups
        self.shift = shift
        self.normalize = normalize
        self.approximation = approximation
        self.n_components = n_components
        self.random_state = random_state

    def named_parts(self) -> dict[str, Kernel]:
        """The parts by their names.

        Returns
        -------
        parts : dict of Kernel
            In the order of ``parts``; the objects of the sum, no copies.
        """
        if not isinstance(self.parts, list | tuple) or len(self.parts) == 0:
            raise ValueError(f"A sum has a list of at least one kernel as its parts; got {self.parts!r}.")
        found: dict[str, Kernel] = {}
        for entry in self.parts:
            name, kernel = entry if isinstance(entry, tuple) and len(entry) == 2 else (None, entry)
            if not isinstance(kernel, Kernel):
                raise TypeError(f"The parts of a sum are kernels, or pairs of a name and a kernel; got {entry!r}.")
            if name is None:
                name = first = re.sub(r"(?<!^)(?=[A-Z])", "_", type(kernel).__name__).lower()
                number = 1
                while name in found:
                    number += 1
                    name = f"{first}_{number}"
            if not isinstance(name, str) or "__" in name or not name.isidentifier() or name in found:
                raise ValueError(f"A part needs a name of its own, without two underscores in a row; got {name!r}.")
            if name in self._get_param_names():
                raise ValueError(f"A part cannot be called {name!r}, like a parameter of the sum.")
            found[name] = kernel
        return found

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters; ``deep`` also has the parts by name, and their parameters.

        Parameters
        ----------
        deep : bool, default=True
            Whether to return the parts and their parameters, too.

        Returns
        -------
        params : dict
            Values by the names of parameters.
        """
        found = super().get_params(deep)
        if deep:
            for name, kernel in self.named_parts().items():
                found[name] = kernel
                found |= {f"{name}__{key}": value for key, value in kernel.get_params().items()}
        return found

    def set_params(self, **params: Any) -> Sum:
        """Set parameters, those of parts by ``name__parameter``, or put another kernel in the place of a part.

        Parameters
        ----------
        **params : dict
            Values by the names of parameters; ``name__parameter`` reaches a parameter of a nested object.

        Returns
        -------
        self : Sum
            The kernel itself.
        """
        if "parts" in params:
            self.parts = params.pop("parts")
        parts = self.named_parts()
        if replaced := {name: params.pop(name) for name in list(params) if name in parts}:
            self.parts = [(name, replaced.get(name, kernel)) for name, kernel in parts.items()]
            parts = self.named_parts()
        for name, kernel in parts.items():
            if own := nested(params, name):
                kernel.set_params(**own)
                params = {key: value for key, value in params.items() if not key.startswith(f"{name}__")}
        super().set_params(**params)
        return self

    @property
    def _any_sign(self) -> bool:
        try:
            return self.shift is not None or all(kernel._any_sign for kernel in self.named_parts().values())
        except (TypeError, ValueError):  # which `fit` says
            return False

    @property
    def _is_interactive(self) -> bool:
        return any(kernel._is_interactive for kernel in self.named_parts().values())

    def _scaled(self, factor: Any) -> Sum:
        for kernel in self.named_parts().values():
            kernel._scaled(factor)
        return self

    def _leaves(self) -> dict[str, Kernel]:
        found: dict[str, Kernel] = {}
        for name, kernel in self.named_parts().items():
            inner = kernel._leaves()
            found |= {f"{name}__{key}": one for key, one in inner.items()} if inner else {name: kernel}
        return found

    def _summands(self) -> list[Any]:
        """The parts, unless they share something or are to be approximated in a way of their own."""
        kernel = clone(self)
        named, plain = kernel.named_parts(), Sum([])
        ways = ("approximation", "n_components", "random_state")
        shares = self._own_heights() or self._changes_features
        if shares or any(getattr(self, name) != getattr(plain, name) for name in ways):
            return [kernel]
        return [
            entry if isinstance(entry, Kernel) else (name, named[name])
            for name, entry in zip(named, kernel.parts, strict=True)
        ]

    @property
    def _changes_features(self) -> bool:
        """Whether parts see other features than those given."""
        return self.shift is not None or self.normalize is not None

    def _whole(self, n_features: int, kernel: Any = None) -> Child:
        """The sum of all parts as a kernel that sees features shifted and normalized."""
        shift = self.shift
        if shift is not None:
            shift = np.broadcast_to(per_dimension("shift", shift, n_features), n_features)
        counted = None if self.normalize is None else np.ones(n_features, bool)
        if counted is not None and not isinstance(self.normalize, str):
            counted &= per_dimension("normalize", self.normalize, n_features) != 0
        return Child("", None, kernel, divided_by=counted, shift=shift)

    def _resolved(self, rows: Rows, targets: Array | None) -> Kernel:
        """A copy in which each part has what it takes from data, from heights as it sees them."""
        self._check()
        kernel = clone(self)
        rows = self._whole(rows.n_columns).rows(rows)
        shared = started(HeightsKernel(**heights_of(kernel, rows.n_columns)), rows).transform_rows(rows)
        for name, part in kernel.named_parts().items():
            columns = selected(part.columns, rows.n_columns)
            seen = shared if columns is None else rows.select(columns)
            kernel.set_params(**{name: part._resolved(seen, targets)})
        return kernel

    def _left_open(self, given: Any, *, searched: bool) -> Kernel:
        kernel, parts = clone(self), given.named_parts()
        changed = {name: part._left_open(parts[name], searched=searched) for name, part in kernel.named_parts().items()}
        return kernel.set_params(**changed)

    def _with_open_weights(self, given: Any) -> Kernel:
        kernel, parts = super()._with_open_weights(given), given.named_parts()
        opened = {name: part._with_open_weights(parts[name]) for name, part in kernel.named_parts().items()}
        changed = {name: part for name, part in opened.items() if part is not kernel.named_parts()[name]}
        return clone(kernel).set_params(**changed) if changed else kernel

    def _with_values(self, values: Mapping[str, Any]) -> Kernel:
        """A copy with hyperparameters that a search found: those of the sum itself, and those of each part."""
        kernel, parts = clone(self), self.named_parts()
        shared = {key: value for key, value in values.items() if key.partition("__")[0] not in parts}
        changed = {name: part._with_values(nested(values, name)) for name, part in parts.items()}
        return kernel.set_params(**shared, **changed)

    def _stack(self, n_features: int) -> StackedIntersection | None:
        """The one intersection kernel that it is, on the columns of all parts side by side, or None."""
        if self.approximation != "auto" or self._own_heights() or self._changes_features:
            return None
        children = [part._child(f"{name}__", n_features) for name, part in self.named_parts().items()]
        known = tuple(child for child in children if child is not None)
        return StackedIntersection.of(known, n_features) if len(known) == len(children) else None

    @property
    def _keeps_operators(self) -> bool:
        """Whether each part has an operator of its own."""
        return self.approximation == "parts"

    def _adapt(self, X: Any, targets: Array | None = None, noise: float = 1.0) -> Adapted:
        if not self._keeps_operators:
            return super()._adapt(X, targets, noise)
        self._check()
        found = {name: kernel._adapt(X, targets, noise) for name, kernel in self._groups().items()}
        kernel = self._with_groups({name: one.kernel for name, one in found.items()})
        return Adapted(kernel, _summed({name: one.value for name, one in found.items()}, X.shape[1]), noise)

    def _groups(self) -> dict[str, Kernel]:
        """The kernels that have operators of their own, by name: intersection kernels and constants have one, ""."""
        parts = self.named_parts()
        stacked = {name: part for name, part in parts.items() if part._stacks}
        if all(part._any_sign for part in stacked.values()):  # constants alone, on features of any sign
            return parts
        rest = {name: part for name, part in parts.items() if name not in stacked}
        return {"": Sum(list(stacked.items())), **rest}

    def _with_groups(self, kernels: Mapping[str, Any]) -> Any:
        """A copy with other kernels in the place of those of `_groups`."""
        stacked = kernels[""].named_parts() if "" in kernels else {}
        return clone(self).set_params(**stacked, **{name: kernel for name, kernel in kernels.items() if name})

    def _adapts_again(self, n_before: int, n_after: int) -> bool:
        if not self._keeps_operators:
            return super()._adapts_again(n_before, n_after)
        return any(part._adapts_again(n_before, n_after) for part in self.named_parts().values())

    def _to_search(self, given: Any, value: Any) -> tuple[Kernel, Any]:
        if not self._keeps_operators:
            return super()._to_search(given, value)
        others = given._groups()
        opened = {
            name: kernel._to_search(others[name], child.kernel)
            for (name, kernel), child in zip(self._groups().items(), value.children, strict=True)
        }
        values = {name: one[1] for name, one in opened.items()}
        return self._with_groups({name: one[0] for name, one in opened.items()}), _summed(values, value.n_features)

    def _operator(self, value: Any, X: Any, n_threads: int = 1) -> KernelOperator:
        if self._keeps_operators:
            pairs = zip(self._groups().values(), value.children, strict=True)
            return SumOperator(value, tuple(part._operator(child.kernel, X, n_threads) for part, child in pairs))
        if self._stack(X.shape[1]) is not None:
            return SortedOperator(value.sorted(X, n_threads), value, n_threads)
        return super()._operator(value, X, n_threads)

    def _restored_operator(self, reader: Reader, value: Any, n_samples: int, n_features: int, n_threads: int) -> Any:
        """The kernel matrix of training samples in a model file: of each part, of stacked columns, or of pairs."""
        if self._keeps_operators:
            names = zip(self._groups().values(), value.children, value.names(), strict=True)
            parts = [
                kernel._restored_operator(reader.child(name), child.kernel, n_samples, n_features, n_threads)
                for kernel, child, name in names
            ]
            return SumOperator(value, tuple(parts))
        if self._stack(n_features) is not None:
            return SortedOperator.from_state(reader, value, n_samples, n_features, n_threads)
        return super()._restored_operator(reader, value, n_samples, n_features, n_threads)

    def __call__(self, X: Any, Y: Any = None) -> Array:
        """Evaluate the kernel densely, without approximation: ``K(X, Y)``, or ``K(X, X)`` without Y.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            The first samples of the pairs.
        Y : {array-like, sparse matrix} of shape (m, n_features), default=None
            The second samples of the pairs; None is X.

        Returns
        -------
        K : ndarray of shape (n, m)
            The kernel of all pairs of rows.
        """
        X, Y = check_pair(X, Y, any_sign=self._any_sign)
        return self._pair_value(X.shape[1]).cross(Rows.from_array(X), Rows.from_array(Y))

    def _restore(self, reader: Reader, n_features: int) -> Any:
        self._check()
        if self._keeps_operators:
            found = {}
            for name, kernel in self._groups().items():
                found[name] = kernel._restore(reader.child(name or STACKED), n_features)
            return _summed(found, n_features)
        stack = self._stack(n_features)
        return super()._restore(reader, n_features) if stack is None else stack

    def _value(self, n_features: int) -> Any:
        stack = self._stack(n_features)
        return self._pair_value(n_features) if stack is None else stack

    def _pair_value(self, n_features: int) -> PairKernel:
        """The sum as it is evaluated pair by pair, on features as its parts see them."""
        value = self._sum_of_parts(n_features)
        if not self._changes_features:
            return value
        common: dict[str, Any] = {"learns_weights": value.learns_weights, "approximation": value.approximation}
        return PairSum(n_features=n_features, children=(self._whole(n_features, value),), **common)

    def _sum_of_parts(self, n_features: int) -> PairKernel:
        """Parts on the heights of the sum in one kernel, others apart."""
        shared, children = [], []
        for name, kernel in self.named_parts().items():
            why = kernel._apart()
            if not why:
                shared.append(kernel._part(f"{name}__"))
                continue
            if self._own_heights():
                raise ValueError(
                    f"The part {name!r} {why}, and the sum has {self._own_heights()[0]} for all its parts: set them in "
                    "one place, and take the parts of an inner sum instead of it."
                )
            columns = selected(kernel.columns, n_features)
            width = n_features if columns is None else len(columns)
            children.append(Child(f"{name}__", columns, kernel._pair_value(width)))
        common: dict[str, Any] = {"approximation": self._approximation()}
        together = HeightsKernel(**heights_of(self, n_features), parts=tuple(shared), **common)
        if not children:
            return together
        if shared:
            children.insert(0, Child("", None, together))
        learns_weights = any(child.kernel.learns_weights for child in children)
        return PairSum(n_features=n_features, children=tuple(children), learns_weights=learns_weights, **common)

    def _apart(self) -> str:
        return "is a sum of its own"

    def _check(self) -> None:
        """Refuse parameters that make no sense, also those of parts."""
        if self._keeps_operators and self._own_heights():
            raise ValueError(
                f'approximation="parts" shares nothing: set {self._own_heights()[0]} of each part, not of the sum.'
            )
        if self._keeps_operators and self._changes_features:
            name = "normalize" if self.shift is None else "shift"
            raise ValueError(f'approximation="parts" shares nothing: with {name} take another approximation.')
        if isinstance(self.normalize, str) and self.normalize != "l1":
            raise ValueError(f'normalize must be "l1", a mask of features or None; got {self.normalize!r}.')
        kind = "auto" if self._keeps_operators else self.approximation
        check_approximation(kind, self.n_components, self.random_state)
        for kernel in self.named_parts().values():
            kernel._check()
