"""A sum of intersection kernels that share nothing, as one intersection kernel on stacked columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy import sparse

from histogp._core.data import Array, Nonzeros, Rows, SortedColumns
from histogp._core.operators.pair_kernels import Child, SumValue
from histogp._core.operators.sorted_columns import Intersection


@dataclass(frozen=True, eq=False)
class SomeNonzeros:
    """The non-zeros of some columns; values (nnz,), and the number of the column of each among these."""

    values: Array
    column_of: Array

    def expand(self, per_column: Array) -> Array:
        """Repeat a value a column for each non-zero, (nnz,)."""
        return per_column[self.column_of]


@dataclass(frozen=True, eq=False)
class StackedIntersection(SumValue, Intersection):
    """A sum of intersection kernels and constants, each on some features.

    A sample is seen as the columns of all kernels side by side; a constant sees a column of ones. Features that no
    kernel has are there as well, with weight zero, so that samples can be had as they were given.

    children : the kernels, each an `Intersection`; one without columns sees the ones
    """

    @classmethod
    def of(cls, children: tuple[Child, ...], n_features: int) -> StackedIntersection:
        """The sum of these kernels."""
        weights = [
            np.ones(child.kernel.n_features) if child.kernel.weights is None else child.kernel.weights
            for child in children
        ]
        stack = cls(
            n_features=n_features,
            children=children,
            learns_weights=any(child.kernel.learns_weights for child in children),
            transform=next((child.kernel.transform for child in children if child.kernel.transform is not None), None),
        )
        return replace(stack, weights=np.concatenate([*weights, np.zeros(len(stack._unused()))]))

    def _unused(self) -> Array:
        """The numbers of the features that no kernel has."""
        used = [child.columns for child in self.children if not child.is_constant]
        return np.setdiff1d(np.arange(self.n_features), np.concatenate([np.empty(0, int), *used]))

    def _slices(self) -> Iterator[tuple[Child, slice]]:
        """Each kernel with the places of its columns among all that are seen."""
        begin = 0
        for child in self.children:
            yield child, slice(begin, begin + child.kernel.n_features)
            begin += child.kernel.n_features

    @property
    def n_columns(self) -> int:
        return sum(child.kernel.n_features for child in self.children) + len(self._unused())

    @property
    def n_weights(self) -> int:
        return self.n_columns

    def _features(self) -> Array:
        """The number of the feature in each column that is seen, -1 for ones, (n_columns,)."""
        each = [np.array([-1]) if child.is_constant else child.columns for child in self.children]
        return np.concatenate([*each, self._unused()])

    def sees_as(self, other: Any) -> bool:
        return np.array_equal(self._features(), other._features())

    def seen(self, rows: Rows) -> Rows:
        X = rows.to_csr()
        ones = sparse.csr_array(np.ones((rows.n_rows, 1)))
        blocks = [ones if child.is_constant else X[:, child.columns] for child in self.children]
        return Rows.from_array(sparse.hstack([*blocks, X[:, self._unused()]]).tocsr())

    def sorted(self, X: Any, n_threads: int = 1) -> SortedColumns:
        return SortedColumns.from_rows(self.seen(Rows.from_array(X, n_threads)), n_threads)

    def unseen(self, rows: Rows) -> Rows:
        features = self._features()
        place = np.empty(self.n_features, int)
        place[features[features >= 0]] = np.flatnonzero(features >= 0)
        return rows.select(place)

    def by_feature(self, by_column: Array) -> Array:
        features = self._features()
        return np.bincount(features[features >= 0], by_column[features >= 0], minlength=self.n_features)

    def transformed(self, data: Nonzeros) -> Array:
        out = np.array(data.values)
        for child, inside, own in self._parts(data):
            if child.kernel.transform is not None:
                out[inside] = child.kernel.transformed(own)
        return out

    def _parts(self, data: Nonzeros) -> Iterator[tuple[Child, Array, SomeNonzeros]]:
        """Each kernel with the places of its non-zeros, (nnz,), and these."""
        column_of = data.expand(np.arange(self.n_columns))
        for child, columns in self._slices():
            inside = (column_of >= columns.start) & (column_of < columns.stop)
            yield child, inside, SomeNonzeros(data.values[inside], column_of[inside] - columns.start)

    def profiles(self, transformed: Array, data: Nonzeros) -> dict[str, Array]:
        """The functions of `Heights.profiles`: of all weights, and of the transform of each kernel."""
        found = {"weights": transformed}
        for child, inside, own in self._parts(data):
            of_child = child.kernel.profiles(transformed[inside], own)
            for name in of_child.keys() - {"weights"}:
                found[f"{child.prefix}{name}"] = np.zeros(len(transformed))
                found[f"{child.prefix}{name}"][inside] = of_child[name]
        return found

    def is_per_feature(self, name: str) -> bool:
        return True

    def _with_kernels(self, kernels: list[Any]) -> Self:
        pairs = zip(self.children, kernels, strict=True)
        children = tuple(replace(child, kernel=kernel) for child, kernel in pairs)
        return type(self).of(children, self.n_features)  # type: ignore[return-value]

    def log_gradient(self, derivatives: Mapping[str, Array]) -> dict[str, Array]:
        found: dict[str, Array] = {}
        for child, columns in self._slices():
            own = {"weights": derivatives["weights"][columns]}
            for name, value in child.kernel.of_transform.items():
                each = derivatives[f"{child.prefix}transform__{name}"][columns]
                own[f"transform__{name}"] = each if value.ndim else each.sum(axis=0)
            found |= child.named(child.kernel.log_gradient(own))
        return found
