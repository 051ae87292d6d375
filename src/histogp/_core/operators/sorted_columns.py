"""The histogram intersection kernel: its frozen value, and its matrix on sorted columns."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from histogp._core import threads
from histogp._core._numba import column_loops, table_loops
from histogp._core.data import Array, Nonzeros, Rows, SortedColumns, aligned_zeros, plain, power_of_two
from histogp._core.kernel_values import WIDEST_FACTOR, Hyperparameter, KernelValue
from histogp._core.layouts import Grid, NodeLayout, last_of_each_column
from histogp._core.operators.contract import KernelOperator, Precision, check_same_kind
from histogp._core.operators.levels import Levels
from histogp._core.predictors import FloorTable, LookupTable, NodeTable, QuantizedTable
from histogp.io.schema import Reader, Writer

_DTYPES = {"single": np.float32, "double": np.float64}
_MATRIX_COLUMNS = 128
_UNKNOWN = object()


class SortedOperator(KernelOperator):
    """Products, columns and predictors in time linear in the non-zeros.

    Parameters
    ----------
    data : SortedColumns
        The training samples, raw values.
    kernel : Intersection
    n_threads : int
        Parts in which leaves run. Results depend on it in rounding only.
    """

    def __init__(self, data: SortedColumns, kernel: Intersection, n_threads: int = 1, levels: Any = _UNKNOWN):
        """Check that heights ascend with values in each column; ``levels`` of the data, None: too many."""
        self.data = data
        self.n_samples, self.n_features = data.n_rows, kernel.n_features
        self.cost = self.n_nonzeros = data.n_nonzeros
        self.kernel: Intersection = kernel
        self.n_threads = n_threads
        self._lock = threading.RLock()
        self._levels = levels
        self._derived: dict[str, Any] = {}
        self._heights: Array | None = None
        # Levels, where they are known, say all that is needed for products.
        few, heights = (levels.columns, self._level_heights(levels)) if self._has_levels else (data, self.heights)
        _check_order(few, heights, kernel)
        self.scale = power_of_two(heights.max(initial=0.0))

    @property
    def heights(self) -> Array:
        """``w g(x)`` of all non-zeros, in the order of the data, (nnz,)."""
        with self._lock:
            if self._heights is None:
                self._heights = self.kernel.weighted(self.kernel.transformed(self.data), self.data)
            return self._heights

    @property
    def _has_levels(self) -> bool:
        return self._levels is not _UNKNOWN and self._levels is not None

    def __getstate__(self) -> dict[str, Any]:
        return {"data": self.data, "kernel": self.kernel, "n_threads": self.n_threads}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def __deepcopy__(self, memo: dict) -> SortedOperator:
        return self  # immutable

    # 16 float32 fill a cache line, so that a gather costs one miss.
    block_width = column_loops.LANES
    most_searched = None

    def training_rows(self) -> Rows:
        return self.kernel.unseen(self.data.to_rows(self.data.values, self.n_threads))

    def matmat(self, vectors: Array, precision: Precision = "double") -> Array:
        """``K @ vectors``: (N, M) to (N, M) float64, ``block_width`` vectors in one sweep over the sorted columns."""
        dtype = _DTYPES[precision]
        out = np.empty(vectors.shape)
        if vectors.shape[1] == 1:
            out[:, 0] = self._multiply(column_loops.multiply_vector, plain(vectors[:, 0], dtype))
        else:
            for begin in range(0, vectors.shape[1], self.block_width):
                some = vectors[:, begin : begin + self.block_width]
                result = self._multiply(column_loops.multiply_block, self._block(some, dtype))
                out[:, begin : begin + self.block_width] = result[:, : some.shape[1]]
        if precision == "single":
            out *= self.scale
        return out

    def _block(self, vectors: Array, dtype: Any) -> Array:
        """Vectors (N, <= block_width), filled up with zeros."""
        block = aligned_zeros((self.n_samples, self.block_width), dtype)
        block[:, : vectors.shape[1]] = vectors
        return block

    def _multiply(self, leaf: Any, vectors: Array) -> Array:
        """``K @ vectors``, over scale in single precision, by a leaf: a vector (N,), or a block (N, block_width)."""
        if (levels := self._few_levels()) is not None:
            columns, sums = levels.columns, levels.gather(vectors, self.n_threads)
            heights = self._level_heights(levels)
            if vectors.dtype == np.float32:
                heights = heights / self.scale
            out = np.zeros_like(sums)
            suffix = np.empty((len(sums) // column_loops.STRETCH + 1, *sums.shape[1:]))
            leaf(columns.indptr, columns.row_of, heights, sums, 0, columns.n_columns, suffix, out)
            return levels.spread(out, vectors.dtype, self.n_threads)
        data = self.data
        heights = self.heights if vectors.dtype == np.float64 else self._single_heights()
        parts = data.parts(self.n_threads)
        results = [aligned_zeros(vectors.shape, vectors.dtype) for _ in parts]

        def multiply(first: int, last: int, out: Array) -> None:
            suffix = np.empty((self.n_samples // column_loops.STRETCH + 1, *vectors.shape[1:]), vectors.dtype)
            leaf(data.indptr, data.row_of, heights, vectors, first, last, suffix, out)

        threads.run(
            multiply, [[(first, last, out) for first, last in part] for part, out in zip(parts, results, strict=True)]
        )
        total = results[0]
        for result in results[1:]:
            total += result
        return total

    def matrix(self) -> Array:
        rows = self._height_rows("double")
        out = np.empty((self.n_samples, self.n_samples))
        for begin in range(0, self.n_samples, _MATRIX_COLUMNS):
            end = min(begin + _MATRIX_COLUMNS, self.n_samples)
            lower = rows.block(begin, self.n_samples)
            for columns, block in intersections(lower, rows.block(begin, end), n_threads=self.n_threads):
                out[begin:, begin + columns.start : begin + columns.stop] = block
            out[begin:end, end:] = out[end:, begin:end].T
        return out

    def diagonal(self, rows: Rows | None = None) -> Array:
        if rows is not None:
            return self.kernel.own(rows)
        return self._derive("diagonal", lambda: self.data.row_sums(self.heights)).copy()

    def columns(self, index: Array, precision: Precision = "double") -> Array:
        rows = self._height_rows(precision)
        out = np.empty((self.n_samples, len(index)), _DTYPES[precision])
        for columns, block in intersections(rows, rows.take(index), n_threads=self.n_threads, dtype=out.dtype):
            out[:, columns] = block
        return out

    def cross(self, rows: Rows, others: Rows | None = None) -> Array:
        left = self.kernel.transform_rows(rows)
        if others is not None:
            return intersection_sums(left, self.kernel.transform_rows(others), self.n_threads)
        right = self._height_rows("double")
        if rows.n_rows <= self.n_samples:
            # The loop takes 32 rows of the right side at a time: fewer times, if that is the shorter one.
            return intersection_sums(right, left, self.n_threads).T
        return intersection_sums(left, right, self.n_threads)

    def with_kernel(self, kernel: Any) -> SortedOperator:
        check_same_kind(self.kernel, kernel)
        if not kernel.sees_as(self.kernel):
            return SortedOperator(SortedColumns.from_rows(kernel.seen(self.training_rows())), kernel, self.n_threads)
        return SortedOperator(self.data, kernel, self.n_threads, self._levels)

    def gradient(self, left: Array, right: Array, sums: Array | None = None) -> dict[str, Array]:
        names, profiles = self._derive("profiles", self._profiles)
        coefficients = np.ones((left.shape[1], 1)) if sums is None else sums
        forms = np.zeros((self.data.n_columns, len(names), coefficients.shape[1]))
        for begin in range(0, left.shape[1], self.block_width):
            some = slice(begin, begin + self.block_width)
            self._add_forms(profiles, left[:, some], right[:, some], coefficients[some], forms)
        return self._by_name(names, forms[:, :, 0] if sums is None else forms)

    def trace_gradient(self) -> dict[str, Array]:
        names, profiles = self._derive("profiles", self._profiles)
        columns = self.data
        if (levels := self._few_levels()) is not None:
            columns = levels.columns
            profiles = profiles * levels.frequencies[columns.row_of]
        return self._by_name(names, np.stack([columns.column_sums(profile) for profile in profiles], axis=1))

    def relevance(self) -> Array:
        if self._has_levels:
            columns = self._levels.columns
            traces = columns.column_sums(self._level_heights(self._levels) * self._levels.frequencies[columns.row_of])
        else:
            traces = self.data.column_sums(self.heights)
        return self.kernel.by_feature(traces) / max(traces.sum(), np.finfo(float).tiny)

    def _by_name(self, names: list[str], values: Array) -> dict[str, Array]:
        """Values (D, P, ...) for the hyperparameters with these names."""
        return {
            name: values[:, p] if self.kernel.is_per_feature(name) else values[:, p].sum(axis=0)
            for p, name in enumerate(names)
        }

    def _profiles(self) -> tuple[list[str], Array]:
        levels = self._few_levels()
        columns = self.data if levels is None else levels.columns
        profiles = self.kernel.profiles(self.kernel.transformed(columns), columns)
        return list(profiles), np.stack(list(profiles.values()))

    def _add_forms(self, profiles: Array, left: Array, right: Array, sums: Array, forms: Array) -> None:
        """Add ``left^T K_q right`` for each profile q to ``forms``, for up to ``block_width`` pairs of vectors."""
        data = self.data
        left, right = (self._block(side, np.float64) for side in (left, right))
        if (levels := self._few_levels()) is not None:
            data = levels.columns
            left, right = (levels.gather(side, self.n_threads) for side in (left, right))
        padded = np.zeros((self.block_width, sums.shape[1]))
        padded[: len(sums)] = sums

        def add(first: int, last: int) -> None:
            totals = aligned_zeros((len(profiles), self.block_width), np.float64)
            column_loops.quadratic_forms(
                data.indptr, data.row_of, profiles, left, right, padded, first, last, totals, forms
            )

        threads.run(add, data.parts(self.n_threads))

    def with_threads(self, n_threads: int) -> SortedOperator:
        other = copy.copy(self)
        other.n_threads = n_threads
        return other

    def __copy__(self) -> SortedOperator:
        other = object.__new__(type(self))
        other.__dict__.update(vars(self))  # also what was derived, and its lock
        return other

    def extend(self, rows: Rows) -> SortedOperator:
        rows = self.kernel.seen(rows)
        levels = self._levels.extend(rows) if self._has_levels else _UNKNOWN
        return SortedOperator(self.data.extend(rows), self.kernel, self.n_threads, levels)

    def remove(self, index: Any) -> SortedOperator:
        return SortedOperator(self.data.remove(index), self.kernel, self.n_threads)

    def table(self, alpha: Array) -> LookupTable | NodeTable:
        if (levels := self._few_levels()) is not None:
            return self._level_table(levels, alpha)
        return LookupTable(self.data, self.heights, alpha, self.kernel.transform_rows, self.n_threads)

    def _level_table(self, levels: Levels, alpha: Array) -> NodeTable:
        """A predictor is linear between training values: with few of them a node at each is all it takes."""
        columns, heights = levels.columns, self._level_heights(levels)
        layout = NodeLayout.build(columns, heights, self.kernel, int(columns.counts.max(initial=1)), 1)
        if alpha.shape[1] == 1:
            sums = [levels.gather(plain(alpha[:, 0], np.float64), self.n_threads)[:, None]]
        else:
            blocks = [alpha[:, k : k + self.block_width] for k in range(0, alpha.shape[1], self.block_width)]
            sums = [levels.gather(self._block(some, np.float64), self.n_threads)[:, : some.shape[1]] for some in blocks]
        out = np.zeros((layout.n_nodes, alpha.shape[1]))
        table_loops.fill_nodes(
            columns.indptr,
            columns.row_of,
            heights,
            plain(np.hstack(sums)),
            layout.starts,
            layout.heights,
            0,
            self.data.n_columns,
            out,
        )
        return NodeTable(layout, out)

    def grid_table(self, alpha: Array, grid: Grid) -> QuantizedTable:
        return QuantizedTable.build(self.data, self.heights, alpha, self.kernel, grid, self.n_threads)

    def norm_table(self) -> LookupTable:
        # min(h, x)^2 = min(h^2, x^2): the table of the squared heights, all coefficients one.
        ones = np.ones((self.n_samples, 1))
        squared = self.heights**2

        def squared_heights(rows: Rows) -> Rows:
            heights = self.kernel.transform_rows(rows)
            return heights.with_values(heights.values**2)

        return LookupTable(self.data, squared, ones, squared_heights, self.n_threads)

    def floor_table(self, n_bins: int, ceiling: float) -> FloorTable:
        """``x -> K(x, x) - c / ceiling``, (n,), where c does not exceed the function of `norm_table`: tabulated."""
        top = last_of_each_column(self.data, self.heights)
        places = np.append(top[:, None] * (np.arange(n_bins + 1) / n_bins), 0.0)
        starts = np.arange(self.data.n_columns + 1) * (n_bins + 1)
        out, ones = np.zeros((len(places), 1)), np.ones((self.n_samples, 1))
        # As in `norm_table`.
        self._sweep(table_loops.fill_nodes, self.heights**2, ones, starts, places**2, out)
        exact = out[:-1].reshape(self.data.n_columns, n_bins + 1) / ceiling
        values = exact.astype(np.float32)
        values = np.where(values > exact, np.nextafter(values, np.float32(0)), values)
        with np.errstate(divide="ignore", over="ignore"):
            per_bin = n_bins / top
        return FloorTable(self.kernel, np.where(np.isfinite(per_bin), per_bin, 0.0), values)

    def layout(self, most: int) -> NodeLayout:
        return NodeLayout.build(self.data, self.heights, self.kernel, most, self.n_threads)

    def tabulate(self, layout: NodeLayout, alpha: Array) -> Array:
        out = np.zeros((layout.n_nodes, alpha.shape[1]))
        return self._sweep(table_loops.fill_nodes, self.heights, plain(alpha), layout.starts, layout.heights, out)

    def tabulate_smoothed(self, layout: NodeLayout, noise: Array) -> Array:
        out = np.zeros(layout.n_nodes)
        self._sweep(table_loops.smooth_nodes, self.heights, plain(noise), layout.starts, layout.heights, out)
        return out[:, None]

    def prior_draws(self, layout: NodeLayout, rng: Any, n_draws: int) -> tuple[Array, Array]:
        """Functions drawn from the prior: at training samples, (N, n_draws), and at nodes, (n_nodes, n_draws)."""
        # min(s, t) is the covariance of Brownian motion: in each column a draw is a walk over the sorted heights, to
        # which all nodes belong, whose steps have the variance h_k - h_(k-1).
        data = self.data
        at_rows, at_nodes = np.zeros((self.n_samples, n_draws)), np.zeros((layout.n_nodes, n_draws))
        for column in np.flatnonzero(data.counts):
            inside, nodes = slice(*data.indptr[column : column + 2]), slice(*layout.starts[column : column + 2])
            heights = self.heights[inside]
            steps = np.sqrt(np.diff(heights, prepend=0.0))
            walk = np.cumsum(steps[:, None] * rng.standard_normal((len(heights), n_draws)), axis=0)
            at_rows[data.row_of[inside]] += walk
            at_nodes[nodes.start + 1 : nodes.stop] = walk[np.searchsorted(heights, layout.heights[nodes][1:])]
        return at_rows, at_nodes

    def _sweep(self, leaf: Any, heights: Array, of_rows: Array, starts: Array, places: Array, out: Array) -> Array:
        data = self.data
        threads.run(
            lambda first, last: leaf(data.indptr, data.row_of, heights, of_rows, starts, places, first, last, out),
            data.parts(self.n_threads, work_per_nonzero=2 + out.size // len(out) // 8),
        )
        return out

    def to_state(self, writer: Writer) -> None:
        self.data.to_state(writer)

    @classmethod
    def from_state(
        cls, reader: Reader, kernel: Any, n_samples: int, n_features: int, n_threads: int = 1
    ) -> SortedOperator:
        return cls(SortedColumns.from_state(reader, n_samples, kernel.n_columns), kernel, n_threads)

    def release(self) -> None:
        """Drop what was derived for speed; it comes back when it is needed."""
        with self._lock:
            self._derived.clear()

    def _few_levels(self) -> Levels | None:
        """The levels of the data, if there are few; kept, as updates need them again and again."""
        with self._lock:
            if self._levels is _UNKNOWN:
                self._levels = Levels.build(self.data, self.n_threads)
            return self._levels

    def _level_heights(self, levels: Levels) -> Array:
        columns = levels.columns
        return self._derive("levels", lambda: self.kernel.weighted(self.kernel.transformed(columns), columns))

    def _single_heights(self) -> Array:
        def convert() -> Array:
            single = np.empty(len(self.heights), np.float32)
            return np.multiply(self.heights, 1 / self.scale, out=single, casting="same_kind")

        return self._derive("single", convert)

    def _height_rows(self, precision: Precision) -> Rows:
        heights = self.heights if precision == "double" else self._single_heights()
        return self._derive(f"rows-{precision}", lambda: self.data.to_rows(heights, self.n_threads))

    def _derive(self, name: str, make: Any) -> Any:
        with self._lock:
            if name not in self._derived:
                self._derived[name] = make()
            return self._derived[name]


def _check_order(data: SortedColumns, heights: Array, kernel: Intersection) -> None:
    if kernel.transform is None or len(heights) == 0:
        return
    step = np.diff(heights, prepend=0.0)
    starts = data.indptr[:-1][data.counts > 0]
    step[starts] = heights[starts]
    if step.min() < 0:
        raise ValueError(
            f"{kernel.transform!r} is not a valid transform: g must be zero at zero and must not decrease."
        )


CROSS_COLUMNS = 2 * column_loops.LANES  # columns that the leaf computes at once


def intersection_sums(left: Rows, right: Rows, n_threads: int) -> Array:
    """``sum_d min(left_id, right_jd)`` for all pairs of rows of heights, (n_left, n_right)."""
    out = np.empty((left.n_rows, right.n_rows))
    for columns, block in intersections(left, right, n_threads=n_threads):
        out[:, columns] = block
    return out


def intersections(
    left: Rows, right: Rows, *, n_threads: int = 1, dtype: Any = np.float64
) -> Iterator[tuple[slice, Array]]:
    """Yield ``sum_d min(left_id, right_jd)``: slices of the right rows with blocks (n_left, <= 32)."""
    heights = left.values.astype(dtype, copy=False)
    parts = left.parts(n_threads, work_per_nonzero=4)
    for begin in range(0, right.n_rows, CROSS_COLUMNS):
        some = right.block(begin, min(begin + CROSS_COLUMNS, right.n_rows))
        table = np.zeros((left.n_columns, CROSS_COLUMNS), dtype)
        table[some.column_of, np.repeat(np.arange(some.n_rows), some.counts)] = some.values
        out = np.empty((left.n_rows, CROSS_COLUMNS), dtype)

        def fill(first: int, last: int, table: Array = table, out: Array = out) -> None:
            column_loops.intersect(left.indptr, left.column_of, heights, table, first, last, out)

        threads.run(fill, parts)
        yield slice(begin, begin + some.n_rows), out[:, : some.n_rows]


# Transformed values beyond would overflow or vanish in products.
_LARGEST_HEIGHT = 1e100


@dataclass(frozen=True, eq=False)
class Heights(KernelValue):
    """Kernels of heights ``h_d(x) = w_d g_d(x)``.

    ``transform`` has what `histogp.kernels.Transform` describes; None is the identity. ``of_transform`` are its
    hyperparameters, each of shape () or (D,).
    """

    transform: Any = None
    of_transform: Mapping[str, Array] = field(default_factory=dict)

    def seen(self, rows: Rows) -> Rows:
        """Samples as the kernel sees them, (n, n_columns)."""
        return rows

    def heights(self, data: Nonzeros) -> Array:
        """``w g(x)`` for the non-zeros of `Rows` or `SortedColumns`, (nnz,)."""
        return self.weighted(self.transformed(data), data)

    def weighted(self, transformed: Array, data: Nonzeros) -> Array:
        """``w g(x)``, given ``g(x)``."""
        return transformed if self.weights is None else transformed * data.expand(self.weights)

    def transformed(self, data: Nonzeros) -> Array:
        """``g(x)`` for the non-zeros, without the weights, (nnz,); ``-g(-x)`` for negative values."""
        if self.transform is None:
            return data.values
        has_signs = data.values.min(initial=0.0) < 0
        values = np.abs(data.values) if has_signs else data.values.view()
        values.flags.writeable = False  # they may be the user's own
        heights = np.asarray(self.transform.value(values, **self._expanded(data)), np.float64)
        if heights.shape != values.shape:
            raise ValueError(f"{self.transform!r} must return one value for each it is given, not {heights.shape}.")
        if not np.all(np.isfinite(heights)):
            largest = data.values[~np.isfinite(heights)].max()
            raise ValueError(
                f"{self.transform!r} is not finite for the value {largest:g}: scale the features, "
                "for example to [0, 1], or choose a milder transform."
            )
        return np.copysign(heights, data.values) if has_signs else heights

    def transformed_row(self, values: Array) -> Array:
        """``g_d(values_d)`` for one value of each column that the kernel sees, (n_columns,)."""
        row = Rows.from_array(values[None])
        out = np.zeros(len(values))
        out[row.column_of] = self.transformed(row)
        return out

    def transform_rows(self, rows: Rows) -> Rows:
        """Rows with the heights ``w g(x)`` in place of the values x."""
        seen = self.seen(rows)
        return seen.with_values(self.heights(seen))

    def profiles(self, transformed: Array, data: Nonzeros) -> dict[str, Array]:
        """For every hyperparameter the function ``q`` of the derivative of K, on the non-zeros, (nnz,).

        The derivative of ``K[i, j]`` is ``sum_d q_d(min(x_id, x_jd))``; a hyperparameter with one
        value a dimension has one such summand each, "weights" included. ``transformed`` is ``g(x)``.
        """
        profiles = {"weights": transformed}
        if self.transform is not None:
            expanded = self._expanded(data)
            for name, derivative in self.transform.derivative(np.abs(data.values), **expanded).items():
                profiles[f"transform__{name}"] = self.weighted(derivative * np.sign(data.values), data)
        return profiles

    def is_per_feature(self, name: str) -> bool:
        """Whether a hyperparameter, by its name in `profiles`, has one value for each feature."""
        return name == "weights" or self.of_transform[name.removeprefix("transform__")].ndim > 0

    def hyperparameters(self, rows: Rows, noise: float, mean_square: float) -> list[Hyperparameter]:
        largest = float(rows.values.max(initial=0.0))
        own = [self._hyperparameter(name, largest) for name in self.of_transform]
        return [*super().hyperparameters(rows, noise, mean_square), *own]

    def at(self, values: Mapping[str, Any]) -> Self:
        given = {name: values.get(f"transform__{name}", value) for name, value in self.of_transform.items()}
        return replace(super().at(values), of_transform={name: np.asarray(value) for name, value in given.items()})

    def log_gradient(self, derivatives: Mapping[str, Array]) -> dict[str, Array]:
        own = {f"transform__{name}": value for name, value in self.of_transform.items()}
        return super().log_gradient(derivatives) | {name: derivatives[name] * value for name, value in own.items()}

    def _magnitudes(self, rows: Rows) -> Array:
        return self.transformed(rows)

    def _hyperparameter(self, name: str, largest_value: float) -> Hyperparameter:
        """One of the transform; its bounds leave out what would overflow or vanish with the largest value."""
        value = self.of_transform[name]
        lowest, highest = self.transform.bounds.get(name, (value.min() / WIDEST_FACTOR, value.max() * WIDEST_FACTOR))
        lowest, highest = min(lowest, value.min()), max(highest, value.max())
        others = {key: float(np.max(other)) for key, other in self.of_transform.items() if key != name}

        def is_moderate(tried: float) -> bool:
            with np.errstate(over="ignore", invalid="ignore", under="ignore"):
                height = self.transform.value(np.array([largest_value]), **{**others, name: tried})[0]
            return largest_value == 0 or 1 / _LARGEST_HEIGHT < height < _LARGEST_HEIGHT

        while highest > value.max() and not is_moderate(highest):
            highest = max(highest / 1.2, value.max())
        while lowest < value.min() and not is_moderate(lowest):
            lowest = min(lowest * 1.2, value.min())
        if value.ndim == 0:
            return Hyperparameter(f"transform__{name}", value.reshape(1), (lowest, highest))
        value_of = self._value_of()
        start = value[np.unique(value_of, return_index=True)[1]]
        return Hyperparameter(f"transform__{name}", start, (lowest, highest), value_of)

    def _expanded(self, data: Nonzeros) -> dict[str, Any]:
        return {name: data.expand(value) if value.ndim else float(value) for name, value in self.of_transform.items()}


@dataclass(frozen=True, eq=False)
class Intersection(Heights):
    """The histogram intersection kernel, ``K = sum_d min(h_d(x), h_d(x'))``."""

    def sees_as(self, other: Any) -> bool:
        """Whether another kernel of this kind sees the same columns."""
        return True

    def own(self, rows: Rows) -> Array:
        """``K(x, x)`` of each sample, (n,)."""
        heights = self.transform_rows(rows)
        return heights.row_sums(heights.values)

    def unseen(self, rows: Rows) -> Rows:
        """Samples as they were given, of those that the kernel sees."""
        return rows

    def sorted(self, X: Any, n_threads: int = 1) -> SortedColumns:
        """The columns that the kernel sees of training samples, an array or CSR (N, D)."""
        return SortedColumns.from_array(X, n_threads)

    def by_feature(self, by_column: Array) -> Array:
        """Sums over the columns of each feature, (n_columns,) to (D,)."""
        return by_column
