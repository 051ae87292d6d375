"""A sum of kernels each of which keeps its own operator: what these do is added up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from histogp._core.data import Array, Rows, power_of_two
from histogp._core.operators.contract import (
    Approximate,
    KernelOperator,
    Precision,
    approximation_of,
    check_same_kind,
    require,
    tuning_of,
    updates_of,
)
from histogp._core.operators.pair_kernels import SumValue
from histogp._core.predictors import Table
from histogp.io.schema import Reader, Writer

# What files call the intersection kernels of a sum, which are one: no name of a part has a hyphen.
STACKED = "intersection-kernels"


@dataclass(frozen=True, eq=False)
class SummedKernel(SumValue):
    """A sum of kernels of any kind, each on the features that it selects itself.

    kinds : the classes of their operators, once there are any
    """

    kinds: tuple[type[KernelOperator], ...] = ()

    def names(self) -> list[str]:
        """What files call the kernels."""
        return [child.prefix.removesuffix("__") or STACKED for child in self.children]

    @property
    def interactive_part(self) -> str:
        """Parts may have tables, but there are none of a sum by operators."""
        return 'a sum with approximation="parts"'

    def to_state(self, writer: Writer) -> None:
        for child, name in zip(self.children, self.names(), strict=True):
            child.kernel.to_state(writer.child(name))


class SumOperator(KernelOperator):
    """Operators of the same training samples that add up.

    Offers `Updates`, `Tuning` and `Approximate`. Solutions are by iteration, or by factors of few samples.

    Parameters
    ----------
    kernel : SummedKernel
    parts : tuple of KernelOperator
        One for each kernel of the sum, which it may have completed, for instance by landmarks.
    """

    def __init__(self, kernel: SummedKernel, parts: tuple[KernelOperator, ...]):
        """Keep the parts, which may be of any kind."""
        self.parts = parts
        self.n_samples, self.n_features = parts[0].n_samples, kernel.n_features
        self.n_nonzeros = min(part.n_nonzeros for part in parts)
        self.cost = sum(part.cost for part in parts)
        self.column_cost = sum(part.column_cost or part.cost for part in parts)
        completed = [replace(child, kernel=part.kernel) for child, part in zip(kernel.children, parts, strict=True)]
        self.kernel: SummedKernel = replace(kernel, children=tuple(completed), kinds=tuple(map(type, parts)))
        self.n_threads = parts[0].n_threads
        self.block_width = max(part.block_width for part in parts)
        self.scale = power_of_two(sum(part.scale for part in parts))
        self.has_large_matrix = any(part.has_large_matrix for part in parts)
        few = [most for part in parts if (most := tuning_of(part).most_searched) is not None]
        self.most_searched = min(few, default=None)

    def _each(self, change: Callable[[KernelOperator], Any]) -> SumOperator:
        """The sum of changed parts."""
        return SumOperator(self.kernel, tuple(change(part) for part in self.parts))

    def matmat(self, vectors: Array, precision: Precision = "double") -> Array:
        return sum((part.matmat(vectors, precision) for part in self.parts), np.zeros(vectors.shape))

    def columns(self, index: Array, precision: Precision = "double") -> Array:
        if precision == "double":
            return sum((part.columns(index) for part in self.parts), np.zeros((self.n_samples, len(index))))
        out = np.zeros((self.n_samples, len(index)), np.float32)
        for part in self.parts:
            out += np.float32(part.scale / self.scale) * part.columns(index, "single")
        return out

    def diagonal(self, rows: Rows | None = None) -> Array:
        n_rows = self.n_samples if rows is None else rows.n_rows
        return sum((part.diagonal(rows) for part in self.parts), np.zeros(n_rows))

    def cross(self, rows: Rows, others: Rows | None = None) -> Array:
        n_others = self.n_samples if others is None else others.n_rows
        return sum((part.cross(rows, others) for part in self.parts), np.zeros((rows.n_rows, n_others)))

    def matrix(self) -> Array:
        out = self.parts[0].matrix()
        for part in self.parts[1:]:
            out += part.matrix()
        return out

    def table(self, alpha: Array) -> SumTable:
        return SumTable(tuple(part.table(alpha) for part in self.parts))

    def relevance(self) -> Array:
        """Shares of the kernels, each as much as its part of the prior variance."""
        share = sum((part.diagonal().mean() * part.relevance() for part in self.parts), np.zeros(self.n_features))
        return share / max(share.sum(), np.finfo(float).tiny)

    def with_threads(self, n_threads: int) -> SumOperator:
        return self if n_threads == self.n_threads else self._each(lambda part: part.with_threads(n_threads))

    def release(self) -> None:
        for part in self.parts:
            part.release()

    def to_state(self, writer: Writer) -> None:
        for part, name in zip(self.parts, self.kernel.names(), strict=True):
            part.to_state(writer.child(name))

    @classmethod
    def from_state(cls, reader: Reader, kernel: Any, n_samples: int, n_features: int, n_threads: int) -> SumOperator:
        kinds = zip(kernel.kinds, kernel.children, kernel.names(), strict=True)
        parts = [
            kind.from_state(reader.child(name), child.kernel, n_samples, n_features, n_threads)
            for kind, child, name in kinds
        ]
        return cls(kernel, tuple(parts))

    def training_rows(self) -> Rows:
        return updates_of(self.parts[0]).training_rows()

    def extend(self, rows: Rows) -> SumOperator:
        return self._each(lambda part: updates_of(part).extend(rows))

    def remove(self, index: Any) -> SumOperator:
        return self._each(lambda part: updates_of(part).remove(index))

    def with_kernel(self, kernel: Any) -> SumOperator:
        check_same_kind(self.kernel, kernel)
        pairs = zip(self.parts, kernel.children, strict=True)
        parts = tuple(tuning_of(part).with_kernel(child.kernel) for part, child in pairs)
        return SumOperator(kernel, parts)

    def gradient(self, left: Array, right: Array, sums: Array | None = None) -> dict[str, Array]:
        return self._named(lambda part: tuning_of(part).gradient(left, right, sums))

    def trace_gradient(self) -> dict[str, Array]:
        return self._named(lambda part: tuning_of(part).trace_gradient())

    def _named(self, ask: Callable[[KernelOperator], dict[str, Array]]) -> dict[str, Array]:
        """What all parts answer by the names of their hyperparameters, under those that these have in the sum."""
        found: dict[str, Array] = {}
        for child, part in zip(self.kernel.children, self.parts, strict=True):
            found |= child.named(ask(part))
        return found

    @property
    def approximated_by(self) -> str | None:
        return " + ".join(name for part in self.parts if (name := approximation_of(part)) is not None) or None

    def approximation_error(self) -> float:
        """The relative errors of the parts, weighed by their prior variances."""
        sizes = np.array([part.diagonal().mean() for part in self.parts])
        errors = [
            0.0 if approximation_of(part) is None else require(part, Approximate, "An error").approximation_error()
            for part in self.parts
        ]
        return float(sizes @ errors / max(sizes.sum(), np.finfo(float).tiny))

    def exactly(self) -> SumOperator:
        exact = [part if (offered := part.offer(Approximate)) is None else offered.exactly() for part in self.parts]
        is_same = all(one is part for one, part in zip(exact, self.parts, strict=True))
        return self if is_same else SumOperator(self.kernel, tuple(exact))


@dataclass(frozen=True, eq=False)
class SumTable:
    """``x -> k(x)^T alpha``, the sum of those of all parts."""

    parts: tuple[Table, ...]

    def evaluate(self, rows: Rows, n_threads: int = 1) -> Array:
        found = self.parts[0].evaluate(rows, n_threads)
        for part in self.parts[1:]:
            found = found + part.evaluate(rows, n_threads)
        return found
