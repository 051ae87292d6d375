"""What kernels that are evaluated pair by pair have in common, alone and in sums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np

from histogp._core.data import Array, Rows, SortedColumns
from histogp._core.kernel_values import KernelValue
from histogp._core.operators.contract import KernelOperator
from histogp._core.operators.pair_kernels import Approximation, Child, HeightsKernel, PairKernel, PairSum
from histogp._core.operators.pair_operators import KINDS, MOST_EXACT_SAMPLES, pair_operator, restored
from histogp.errors import ModelFileError
from histogp.io.schema import Reader
from histogp.kernels._base import Adapted, Kernel, check_pair, selected

# Training samples up to which an update takes again what is left to data, and those that it is taken from.
MOST_ADAPTED_SAMPLES = 512
ADAPTED_FROM = 2000
# The most landmarks or waves that are accepted; a factor of so many takes 32 GB.
MOST_COMPONENTS = 2**16


class PairwiseKernel(Kernel):
    """Kernels that are evaluated pair by pair: exact up to 12,000 samples, above that by features."""

    approximation: Any
    n_components: Any
    random_state: Any

    def __call__(self, X: Any, Y: Any = None) -> Array:
        """Evaluate the kernel densely, without approximation: ``K(X, Y)``, or ``K(X, X)`` without Y."""
        X, Y = check_pair(X, Y, any_sign=self._any_sign)
        return self._value(X.shape[1]).cross(Rows.from_array(X), Rows.from_array(Y))

    def _adapt(self, X: Any, targets: Array | None = None, noise: float = 1.0) -> Adapted:
        """Take from up to 2,000 training samples what is left to them; features are made by the operator."""
        self._check()
        index = np.arange(X.shape[0])
        if len(index) > ADAPTED_FROM:
            # By chance, because labels may alternate in step with the rows.
            index = np.sort(np.random.default_rng(0).choice(index, ADAPTED_FROM, replace=False))
        rows, columns = Rows.some_of(X, index), selected(self.columns, X.shape[1])
        kernel = self._resolved(
            rows if columns is None else rows.select(columns), None if targets is None else targets[index]
        )
        return Adapted(kernel, kernel._value(X.shape[1]), noise)

    def _adapts_again(self, n_before: int, n_after: int) -> bool:
        return n_before != n_after and min(n_before, n_after) < MOST_ADAPTED_SAMPLES

    def _operator(self, value: PairKernel, X: Any, n_threads: int = 1) -> KernelOperator:
        return pair_operator(Rows.from_array(X, n_threads), value, n_threads)

    def _restored_operator(self, reader: Reader, value: Any, n_samples: int, n_features: int, n_threads: int) -> Any:
        if reader.has("row_of"):  # as files of random waves had it
            data = SortedColumns.from_state(reader, n_samples, n_features)
            return pair_operator(data.to_rows(data.values, n_threads), value, n_threads)
        rows = Rows.from_state(reader, n_samples, n_features)
        if rows.values.min(initial=0.0) < 0 and not value.takes_any_sign:
            raise ModelFileError("its samples are negative.")
        if value.map is None and n_samples > MOST_EXACT_SAMPLES and self.approximation != "exact":
            raise ModelFileError("the features of its kernel are missing.")
        return pair_operator(rows, value, n_threads)

    def _to_search(self, given: Kernel, value: KernelValue) -> tuple[Kernel, KernelValue]:
        kernel = self._with_open_weights(given)
        return (self, value) if kernel is self else (kernel, kernel._value(value.n_features))

    def _restore(self, reader: Reader, n_features: int) -> PairKernel:
        self._check()
        return restored(self._value(n_features), reader)

    def _value(self, n_features: int) -> PairKernel:
        """The frozen value, for parameters that leave nothing to data."""
        return on_columns(self, n_features, self._pair_value)

    def _pair_value(self, n_features: int) -> PairKernel:
        return replace(super()._pair_value(n_features), approximation=self._approximation())

    def _approximation(self) -> Approximation:
        return Approximation(self.approximation, int(self.n_components), int(self.random_state))

    def _check(self) -> None:
        super()._check()
        check_approximation(self.approximation, self.n_components, self.random_state)


def on_columns(kernel: Kernel, n_features: int, make: Any) -> Any:
    """The value that ``make`` gives for so many features: for all of them, or those that the kernel selects."""
    columns = selected(kernel.columns, n_features)
    if columns is None:
        return make(n_features)
    value = make(len(columns))
    child = Child("", columns, value)
    return PairSum(
        n_features=n_features,
        children=(child,),
        learns_weights=value.learns_weights,
        approximation=value.approximation,
    )


def started(value: HeightsKernel, rows: Rows) -> HeightsKernel:
    """The value with the weights that a search starts from, if they are to be learned."""
    free = {one.name: one for one in value.hyperparameters(rows, 1.0, 1.0) if one.is_open}
    return value.at({name: one.expand(one.start) for name, one in free.items()})


def check_approximation(kind: Any, n_components: Any, random_state: Any) -> None:
    """Refuse parameters of approximations that make no sense."""
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"approximation must be one of {', '.join(map(repr, KINDS))}; got {kind!r}.")
    for name, value, highest in (
        ("n_components", n_components, MOST_COMPONENTS),
        ("random_state", random_state, 2**63),
    ):
        lowest = 2 if name == "n_components" else 0
        is_whole = isinstance(value, Integral) and not isinstance(value, bool)
        if not (is_whole and lowest <= int(value) <= highest):
            raise ValueError(f"{name} must be a whole number from {lowest} to {highest}; got {value!r}.")


def nested(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The values whose names begin with the name of a part, without that."""
    prefix = f"{name}__"
    return {key.removeprefix(prefix): value for key, value in values.items() if key.startswith(prefix)}
