"""What predicts: tables (look-ups, values at nodes, grids), and codecs, which know what targets mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import numpy as np

from histogp._core import threads
from histogp._core._numba import column_loops, table_loops
from histogp._core.data import Array, Rows, SortedColumns, plain
from histogp._core.layouts import Grid, GridLayout, NodeLayout, Reading, last_of_each_column
from histogp.errors import ModelFileError
from histogp.io.schema import Reader, Writer

if TYPE_CHECKING:
    from histogp._core.operators.sorted_columns import Intersection


class Table(Protocol):
    """A function of test rows that was prepared once from the training data."""

    def evaluate(self, rows: Rows, n_threads: int = 1) -> Array:
        """Values (n, M) for n test rows."""
        ...


class GridTable(Protocol):
    """A predictor on a grid. Its fields bound its error; see the implementation."""

    @property
    def layout(self) -> Any:
        """The nodes of the table."""
        ...

    @property
    def errors(self) -> Array:
        """The largest distance between a height, up to that of the training data, and its nearest node, (D,)."""
        ...

    @property
    def linear_bounds(self) -> Array:
        """Bound of the error of linear interpolation by sums of ``|alpha|``, (M,)."""
        ...

    @property
    def linear_worst(self) -> Array:
        """The largest error of linear interpolation of all x, (M,)."""
        ...

    def evaluate(self, rows: Rows, n_threads: int = 1, reading: Reading = "linear") -> Array:
        """Values (n, M) for n test rows, interpolated between two nodes or read at the nearest."""
        ...


@dataclass(frozen=True, eq=False)
class NodeTable:
    """``x -> sum_d f_d(x_d)`` for functions that are linear between nodes. Immutable.

    values : (n_nodes, M), of the functions at the nodes
    """

    layout: NodeLayout
    values: Array

    def evaluate(self, rows: Rows, n_threads: int = 1) -> Array:
        return self.layout.read(self.values, self.layout.locate(rows, n_threads), n_threads)


@dataclass(frozen=True, eq=False)
class FloorTable:
    """``x -> K(x, x) - sum_d f_d``, with functions that do not decrease read at the next node below. Immutable.

    per_bin : (D,), one over the width of a bin, in heights; zero where there is nothing but the node 0
    values : (D, q + 1), of the functions at q + 1 equally spaced nodes, single precision
    """

    kernel: Intersection
    per_bin: Array
    values: Array

    def evaluate(self, rows: Rows, n_threads: int = 1) -> Array:
        heights = self.kernel.transform_rows(rows)
        out = np.empty(rows.n_rows)
        threads.run(
            lambda first, last: table_loops.subtract_lower(
                heights.indptr, heights.column_of, heights.values, self.per_bin, self.values, first, last, out
            ),
            heights.parts(n_threads),
        )
        return out


# Entries of a block: a sixteenth of the memory of full tables for a few more additions a look-up.
BLOCK_ENTRIES = 16


class LookupTable:
    """``x -> sum_d sum_i min(heights_id, h_d(x)) alpha_i``, in time logarithmic in N. Immutable.

    Parameters
    ----------
    data : SortedColumns
    heights : array (nnz,), ascending within each column of ``data``
    alpha : array (N, M)
    height_of : function from test `Rows` to the heights of their non-zeros (nnz,)
    """

    def __init__(
        self,
        data: SortedColumns,
        heights: Array,
        alpha: Array,
        height_of: Callable[[Rows], Rows],
        n_threads: int = 1,
    ):
        """Sum up blocks of 16 entries of the sorted columns, from which every look-up starts."""
        self._data = data
        self._heights = heights
        self._alpha = plain(alpha, np.float64)
        self._height_of = height_of
        self._starts = np.concatenate([[0], np.cumsum(-(-data.counts // BLOCK_ENTRIES))])
        self._blocks = np.empty((self._starts[-1], 2, alpha.shape[1]))
        threads.run(
            lambda first, last: column_loops.fill_blocks(
                data.indptr, data.row_of, heights, self._alpha, BLOCK_ENTRIES, self._starts, first, last, self._blocks
            ),
            data.parts(n_threads, work_per_nonzero=1 + alpha.shape[1] // 16),
        )

    def evaluate(self, rows: Rows, n_threads: int = 1) -> Array:
        heights = self._height_of(rows)
        out = np.zeros((rows.n_rows, self._alpha.shape[1]))
        threads.run(
            lambda first, last: self._look_up(heights.block(first, last), out[first:last]),
            heights.parts(n_threads, work_per_nonzero=10 + self._alpha.shape[1]),
        )
        return out

    def _look_up(self, rows: Rows, out: Array) -> None:
        """Add the function's values at ``rows``, which hold heights, to ``out`` (n, M)."""
        data = self._data
        column_loops.look_up(
            data.indptr,
            data.row_of,
            self._heights,
            self._alpha,
            BLOCK_ENTRIES,
            self._starts,
            self._blocks,
            *rows.transpose(),
            out,
        )


@dataclass(frozen=True, eq=False)
class QuantizedTable:
    """``x -> k(x)^T alpha`` on a grid, and how far that may be from the exact value.

    layout : where the nodes are
    nodes : (layout.n_nodes, M)
    errors : (D,), the largest distance of a height, up to that of the training data, to its nearest node
    linear_bounds : (M,), bound of the error of interpolation by sums of ``|alpha|``
    linear_worst : (M,), the largest error of interpolation of all x
    """

    layout: GridLayout
    nodes: Array
    errors: Array
    linear_bounds: Array
    linear_worst: Array

    @classmethod
    def build(
        cls, data: SortedColumns, heights: Array, alpha: Array, kernel: Intersection, grid: Grid, n_threads: int
    ) -> QuantizedTable:
        """Tabulate in a few sweeps over the sorted columns; heights (nnz,), alpha (N, M)."""
        # Samples count by |alpha|: what matters are kinks, and one may stand for several of less weight.
        layout = GridLayout.build(data, heights, np.abs(alpha).sum(axis=1), kernel, grid, n_threads)
        starts, places = layout.starts, layout.places()
        alpha = plain(alpha, np.float64)
        n_outputs = alpha.shape[1]
        parts = data.parts(n_threads, work_per_nonzero=2 + n_outputs // 8)

        def sweep(leaf: Callable[..., None], out: Array, *tables: Array) -> Array:
            threads.run(
                lambda first, last: leaf(
                    data.indptr, data.row_of, heights, alpha, starts, places, *tables, first, last, out
                ),
                parts,
            )
            return out

        nodes = sweep(table_loops.fill_nodes, np.zeros((layout.n_nodes, n_outputs)))
        extremes = sweep(table_loops.extreme_errors, np.empty((data.n_columns, 2, n_outputs)), nodes).sum(axis=0)
        bounds = sweep(table_loops.weigh_bins, np.empty((data.n_columns, n_outputs))).sum(axis=0)
        # The last bin of a grid is the widest.
        top = places[starts[1:] - 1]
        widths = np.where(layout.octaves > 0, top - places[starts[1:] - 2], 0.0)
        errors = np.maximum(widths / 2, last_of_each_column(data, heights) - top)
        # All that is added up is rounded, too.
        rounding = 8 * np.finfo(np.float64).eps * top.sum() * np.abs(alpha).sum(axis=0)
        worst = np.abs(extremes).max(axis=0) + rounding
        return cls(layout, nodes, errors, bounds + rounding, worst)

    def evaluate(self, rows: Rows, n_threads: int = 1, reading: Reading = "linear") -> Array:
        return self.layout.read(self.nodes, rows, n_threads, reading)


BoundKind = Literal["worst-case", "linear", "assumption-free", "theorem", "a-priori"]


_OF_TABLE = ("nodes", "errors", "linear_bounds", "linear_worst")
_OF_WEIGHTS = ("weight_norms", "weight_bounds")


@dataclass(frozen=True, eq=False)
class QuantizedMean:
    """``k(x)^T alpha`` read from a table.

    weight_norms : (M,), ``||alpha||_1`` of each output
    weight_bounds : (M,), what is known of them before the system is solved
    """

    table: GridTable
    grid: Grid
    weight_norms: Array
    weight_bounds: Array

    @staticmethod
    def version(grid: Grid) -> Any:
        """What it depends on of a grid: equal for grids that it serves alike."""
        return grid.n_bins, grid.uniform, None if grid.upper is None else grid.upper.tobytes()

    def to_state(self, writer: Writer) -> None:
        """Write the table and what bounds its error into a model file."""
        self.table.layout.to_state(writer)
        for name in _OF_TABLE:
            writer.put(name, getattr(self.table, name))
        for name in _OF_WEIGHTS:
            writer.put(name, getattr(self, name))

    @classmethod
    def from_state(
        cls, reader: Reader, kernel: Intersection, grid: Grid, n_features: int, n_outputs: int
    ) -> QuantizedMean:
        """The mean on this grid in a model file; believes nothing."""
        layout = GridLayout.from_state(reader, kernel, int(grid.n_bins), n_features)
        nodes = reader.array("nodes", np.float64, (layout.n_nodes, n_outputs))
        errors = reader.array("errors", np.float64, (n_features,), lowest=0)
        bounds, worst, *of_weights = (
            reader.array(name, np.float64, (n_outputs,), lowest=0)
            for name in ("linear_bounds", "linear_worst", *_OF_WEIGHTS)
        )
        return cls(QuantizedTable(layout, nodes, errors, bounds, worst), grid, *of_weights)

    def mean(self, rows: Rows, reading: Reading, n_threads: int = 1) -> Array:
        """Approximate means, (n, M)."""
        return self.table.evaluate(rows, n_threads, reading)

    def error_bound(self, kind: BoundKind) -> Array:
        """Bound of ``|mean - exact mean|`` for each output, (M,).

        With e_d the largest distance between a height in dimension d and its nearest node (heights above
        those of the training data count as the largest of these, which changes no prediction):

        - "worst-case": the largest error of linear interpolation of all x, found exactly.
        - "linear": ``sum_d max_bins width / 4 sum_(i in bin) |alpha_i|``, for linear interpolation: between two
          nodes only the kinks in that bin are cut off.
        - "assumption-free": ``sum_d e_d ||alpha||_1``, for both readings.
        - "theorem": ``D max(e) / 2 ||alpha||_1`` (gp-hik-ijcv2016, theorem 1). Assumes that rounding to the
          nearest nodes keeps the sum of a row's heights; for the nearest node.
        - "a-priori": the same with ``sqrt(N) ||y|| / noise >= ||alpha||_1``, that is ``N / noise`` for labels
          -1 and +1 (eq. 13). Same assumption.
        """
        errors = self.table.errors
        if kind == "worst-case":
            return self.table.linear_worst
        if kind == "linear":
            return self.table.linear_bounds
        if kind == "assumption-free":
            return errors.sum() * self.weight_norms
        if kind == "theorem":
            return len(errors) * errors.max() / 2 * self.weight_norms
        if kind == "a-priori":
            return len(errors) * errors.max() / 2 * self.weight_bounds
        raise ValueError(f"Unknown kind {kind!r}; known are {', '.join(map(repr, get_args(BoundKind)))}.")


DOUBLE = np.dtype(np.float64)


class Codec(Protocol):
    """Frozen; made when a model learns, used when it predicts.

    The ``y`` of a training sample is what is kept of its label: the number of a class, or a value.
    """

    @property
    def unit(self) -> Any:
        """The unit of the targets in units of the values: a number, or (n_outputs,)."""

    @property
    def n_outputs(self) -> int:
        """The number M of targets of a sample."""

    @property
    def is_vector(self) -> bool:
        """Whether users see one output without a second dimension."""

    def encode(self, y: Array) -> Array:
        """Targets, (N, M), of samples with these ``y``."""

    def decode(self, means: Array, dtype: np.dtype = DOUBLE) -> Array:
        """Labels or values for posterior means, (n, M), of data in this precision."""

    def labels_of(self, y: Array) -> Array:
        """Labels or values of training samples, as they were given, (N,) or (N, M)."""

    def attributes(self) -> dict[str, Any]:
        """Fitted attributes of an estimator."""

    def to_state(self, writer: Writer) -> None:
        """Write it into a model file."""

    @classmethod
    def from_state(cls, reader: Reader) -> Codec:
        """The codec that `to_state` has written; refuses what it never writes."""

    def labels_to_state(self, writer: Writer, y: Array) -> None:
        """Put the ``y`` of the training samples into the writer of a model file."""

    def labels_from_state(self, reader: Reader, n_samples: int) -> Array:
        """The ``y`` of the training samples in a model file; refuses those that have no meaning here."""


@dataclass(frozen=True, eq=False)
class Classes:
    """Classes as one-against-rest outputs with targets +1 and -1; ``y`` is the number of a class.

    classes : (n_classes,), sorted. Up to two of them make one output, whose positive side is the second.
    """

    classes: Array
    unit: float = 1.0

    @property
    def n_outputs(self) -> int:
        return len(self.classes) if len(self.classes) > 2 else 1

    @property
    def is_vector(self) -> bool:
        return len(self.classes) <= 2

    def encode(self, y: Array) -> Array:
        positive = np.arange(len(self.classes)) if len(self.classes) > 2 else np.array([1])
        return np.where(y[:, None] == positive, 1.0, -1.0)

    def decode(self, means: Array, dtype: np.dtype = DOUBLE) -> Array:
        codes = codes_of(means.astype(dtype, copy=False))
        return self.classes[codes if len(self.classes) > 1 else np.zeros_like(codes)]

    def labels_of(self, y: Array) -> Array:
        return self.classes[y]

    def attributes(self) -> dict[str, Any]:
        return {"classes_": self.classes}

    def to_state(self, writer: Writer) -> None:
        writer.labels("classes", self.classes)

    @classmethod
    def from_state(cls, reader: Reader) -> Classes:
        classes = reader.labels("classes")
        if len(classes) < 1 or not np.array_equal(np.unique(classes), classes):
            raise ModelFileError("its classes are damaged.")
        return cls(classes)

    def labels_to_state(self, writer: Writer, y: Array) -> None:
        writer.put("codes", y.astype(np.uint32))

    def labels_from_state(self, reader: Reader, n_samples: int) -> Array:
        codes = reader.array("codes", np.uint32, (n_samples,))
        if codes.max() >= len(self.classes):
            raise ModelFileError("a sample has a class that does not exist.")
        return codes.astype(int)


@dataclass(frozen=True, eq=False)
class Reals:
    """Values as targets, after a shift and in a unit; ``y`` is the value itself, (N,) or (N, M).

    shift, unit : () for one output without a second dimension, else (M,)
    dtype : precision of the values; only single precision here and of the data gives predictions in it
    """

    shift: Array
    unit: Array
    dtype: np.dtype

    @property
    def n_outputs(self) -> int:
        return int(np.size(self.unit))

    @property
    def is_vector(self) -> bool:
        return np.ndim(self.unit) == 0

    def encode(self, y: Array) -> Array:
        return ((y - self.shift) / self.unit).reshape(len(y), -1)

    def decode(self, means: Array, dtype: np.dtype = DOUBLE) -> Array:
        values = (means[:, 0] if self.is_vector else means) * self.unit + self.shift
        return values.astype(np.result_type(dtype, self.dtype), copy=False)

    def labels_of(self, y: Array) -> Array:
        return y

    def attributes(self) -> dict[str, Any]:
        return {}

    def to_state(self, writer: Writer) -> None:
        writer.put("shift", np.reshape(self.shift, -1))
        writer.put("unit", np.reshape(self.unit, -1))
        writer.set("is_vector", self.is_vector)
        writer.set("dtype", self.dtype.name)

    @classmethod
    def from_state(cls, reader: Reader) -> Reals:
        shift = reader.array("shift", np.float64, (None,))
        unit = reader.array("unit", np.float64, shift.shape, lowest=float(np.nextafter(0, 1)))
        is_vector = reader.flag("is_vector")
        if is_vector and len(shift) != 1:
            raise ModelFileError("the description of its targets is damaged.")
        shape = () if is_vector else shift.shape
        return cls(shift.reshape(shape), unit.reshape(shape), np.dtype(reader.text("dtype", ("float32", "float64"))))

    def labels_to_state(self, writer: Writer, y: Array) -> None:
        writer.put("targets", y)

    def labels_from_state(self, reader: Reader, n_samples: int) -> Array:
        return reader.array("targets", np.float64, (n_samples, *self.unit.shape))


@dataclass(frozen=True, eq=False)
class Inliers:
    """One class, whose samples all have the target 1.

    offset : test samples with a lower score are outliers; NaN as long as it is not known
    criterion, method : of the scores that the offset belongs to
    """

    offset: float
    criterion: str
    method: str
    unit: float = 1.0
    n_outputs: int = 1
    is_vector: bool = True

    def encode(self, y: Array) -> Array:
        return y[:, None]

    def decode(self, means: Array, dtype: np.dtype = DOUBLE) -> Array:
        """1 for inliers and -1 for outliers, (n,), from their scores."""
        return np.where(means < self.offset, -1, 1)

    def labels_of(self, y: Array) -> Array:
        return np.ones(len(y), int)

    def attributes(self) -> dict[str, Any]:
        return {"offset_": self.offset}

    def to_state(self, writer: Writer) -> None:
        writer.put("offset", [self.offset])
        writer.set("criterion", self.criterion)
        writer.set("method", self.method)

    @classmethod
    def from_state(cls, reader: Reader) -> Inliers:
        offset = float(reader.array("offset", np.float64, (1,))[0])
        return cls(offset, reader.text("criterion"), reader.text("method"))

    def labels_to_state(self, writer: Writer, y: Array) -> None:
        """There is nothing to tell."""

    def labels_from_state(self, reader: Reader, n_samples: int) -> Array:
        return np.ones(n_samples)


def codes_of(scores: Array) -> Array:
    """The number of the winning class, (n,), for scores or targets (n,) or (n, M); one score is that of the second."""
    single = scores.ndim == 1 or scores.shape[1] == 1
    return (scores.reshape(-1) > 0).astype(int) if single else scores.argmax(axis=1)


def codes_in(classes: Array, labels: Array) -> Array:
    """The numbers of labels that are among the classes, (n,)."""
    names, codes = np.unique(labels, return_inverse=True)
    return np.searchsorted(classes, names)[codes]
