"""Kernels that are evaluated pair by pair: their frozen values, alone and in sums.

With heights ``h_d = w_d g(x_d)`` and a measure m of two samples, the parts of a kernel are

    linear         s m
    exponential    s exp(-beta m / unit)
    constant       s
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np

from histogp._core.data import Array, Rows, mirrored, power_of_two
from histogp._core.kernel_values import WIDEST_FACTOR, Hyperparameter, KernelValue, largest_in
from histogp._core.maps.additive import Direct
from histogp._core.maps.points import Distribution, greedy_points
from histogp._core.operators.pair_measures import (
    AllPairs,
    Measure,
    Pairs,
    Points,
    height_slopes,
    over_tiles,
    row_blocks,
)
from histogp._core.operators.sorted_columns import Heights
from histogp._core.threads import run, suited_blas
from histogp.io.schema import Writer

# Pairs of samples up to which their measures are kept: a search comes back to them.
MOST_KEPT_PAIRS = 2**22
# A search changes inverse widths by at most this factor.
WIDEST_WIDTH_FACTOR = 100.0
# A feature counts as constant if its mean difference is a smaller part of its largest value, or smaller than numbers
# whose inverse can be a weight.
CONSTANT_SHARE, LEAST_DIFFERENCE = 1e-9, 1e-200
# Samples that are enough for averages, and the terms of an expansion of chi2.
AVERAGED_SAMPLES = 1000
CHI2_TERMS = 8
# Summands of derivatives for heights, up to which these are in double precision.
MOST_DOUBLE_SLOPES = 2**29
# Samples whose mean differences are those of all.
DIFFERENT_SAMPLES = 12_000


@dataclass(frozen=True)
class Approximation:
    """What an operator does with a kernel that is evaluated pair by pair, where there are many samples.

    kind : "exact", "nystroem" by landmarks, "fourier" by random waves, or one of these, depending on the number of
        samples: "auto", or "single", which has the matrix in single precision for more of them
    n_components : landmarks or waves
    n_terms, sampling : of waves for exponentials of chi2, and how their frequencies are drawn
    """

    kind: str = "auto"
    n_components: int = 2000
    seed: int = 0
    n_terms: int = 3
    sampling: str = "orthogonal"


@dataclass(frozen=True, eq=False, kw_only=True)
class PairKernel(KernelValue):
    """A kernel that can be evaluated for any two samples.

    map : features whose products approximate the kernel, as it is, or None
    """

    approximation: Approximation = Approximation()
    map: Any = None

    @property
    def kind(self) -> type[KernelValue]:
        """Kernels that are evaluated pair by pair can give way to each other."""
        return PairKernel

    @property
    def exponential(self) -> Exponential | None:
        """The one exponential that it is, or None."""
        return None

    @property
    def takes_any_sign(self) -> bool:
        """Whether features may be negative."""
        return False

    @abstractmethod
    def measured(self, rows: Rows, n_threads: int = 1, dtype: Any = np.float64, before: Any = None) -> Measured:
        """What the kernel needs to know of training samples; ``before`` is that of a kernel of the same kind."""

    @abstractmethod
    def points(self, rows: Rows, dtype: Any = np.float64, n_threads: int = 1) -> Any:
        """Samples as `add_cross` wants them: to be made once of those that are compared with many."""

    @abstractmethod
    def add_cross(self, left: Any, right: Any, out: Array, n_threads: int = 1) -> None:
        """Add ``K(left, right)`` to ``out``, (n, m), for samples as `points` makes them."""

    @abstractmethod
    def own(self, rows: Rows) -> Array:
        """``K(x, x)`` of each sample, (n,)."""

    @abstractmethod
    def own_gradient(self, rows: Rows) -> dict[str, Array]:
        """The derivative of ``sum_i K(x_i, x_i)`` for each hyperparameter."""

    @abstractmethod
    def relevance(self, rows: Rows) -> Array:
        """The share of each feature in what tells samples apart, (D,); they add up to one."""

    def to_state(self, writer: Writer) -> None:
        """Write the map into a model file, if there is one."""
        if self.map is not None:
            writer.set("map", self.map.name)
            self.map.to_state(writer)

    def cross(self, left: Rows, right: Rows, n_threads: int = 1) -> Array:
        """``K(left, right)``, (n, m)."""
        out = np.zeros((left.n_rows, right.n_rows))
        points = [self.points(rows, n_threads=n_threads) for rows in (left, right)]
        self.add_cross(points[0], points[1], out, n_threads)
        return out

    def matrix(self, rows: Rows, n_threads: int = 1) -> Array:
        """``K(rows, rows)``, (n, n), symmetric."""
        return self.measured(rows, n_threads).matrix()


class Measured(ABC):
    """A kernel on training samples: its matrix, and derivatives."""

    rows: Rows

    def known_pairs(self, rows: Rows, key: tuple) -> AllPairs | None:
        """The measures of these samples by heights that depend on ``key``, if it has them."""
        return None

    def known_children(self, rows: Rows) -> tuple[tuple[Child, Measured], ...]:
        """The kernels of a sum on these samples, if it has them."""
        return ()

    @abstractmethod
    def add_halves(self, out: Array) -> None:
        """Add K (N, N) to ``out``: on the diagonal and below it; what is above is undefined."""

    @abstractmethod
    def gradient(self, upstream: Array, names: Collection[str] | None = None) -> dict[str, Array]:
        """The derivative of ``sum_ij G_ij K_ij`` for the hyperparameters, all or these, given a symmetric G (N, N)."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(N, N)."""

    @property
    @abstractmethod
    def dtype(self) -> Any:
        """The precision of the matrix."""

    def matrix(self) -> Array:
        """K, (N, N)."""
        out = np.zeros(self.shape, self.dtype)
        self.add_halves(out)
        return mirrored(out)


@dataclass(frozen=True)
class Part(ABC):
    """A summand ``scale * f(m)`` of a kernel on heights.

    prefix : of the names of its hyperparameters in a sum, for instance "laplacian__"; empty for a kernel alone
    """

    scale: float = 1.0
    prefix: str = ""

    @property
    def takes_any_sign(self) -> bool:
        """Whether heights may be negative."""
        return False

    @property
    def constant(self) -> float:
        """What all pairs of samples have in common."""
        return 0.0

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The measures that it is a function of."""
        return ()

    @property
    def exponential(self) -> Exponential | None:
        """The exponential of a measure that it is, or None."""
        return None

    def numbers(self) -> dict[str, float]:
        """The hyperparameters by name."""
        return {f"{self.prefix}scale": self.scale}

    def at(self, values: Mapping[str, Any]) -> Self:
        """The part with other values of some of its hyperparameters; a scale multiplies the present one."""
        own = {full.removeprefix(self.prefix): float(values[full]) for full in self.numbers() if full in values}
        if "scale" in own:
            own["scale"] *= self.scale
        return replace(self, **own)  # type: ignore[arg-type]

    def free(self) -> list[Hyperparameter]:
        """What a search may change."""
        scale = Hyperparameter(f"{self.prefix}scale", np.ones(1), (1 / WIDEST_FACTOR, WIDEST_FACTOR))
        others = {name: value for name, value in self.numbers().items() if name != scale.name}
        return [scale, *(_near(name, value) for name, value in others.items())]

    @abstractmethod
    def values(self, pairs: Pairs) -> tuple[Any, float]:
        """An array (n, m), or a number, and a factor of it: ``scale f(m)`` of all pairs."""

    @abstractmethod
    def own(self, sums: Array) -> Any:
        """``f`` of each sample with itself, (n,), or a number; given the sums of its heights, (n,)."""

    @abstractmethod
    def slopes(self, pairs: Pairs, upstream: Array) -> tuple[dict[str, float], dict[Measure, Array]]:
        """The derivatives of ``sum_ij G_ij scale f(m_ij)`` for its numbers, and for each measure, (n, m).

        Those for measures are in the units that the pairs have.
        """


def _near(name: str, value: float) -> Hyperparameter:
    """An inverse width: one far away makes a kernel linear, or the identity, which the likelihood hardly tells."""
    return Hyperparameter(name, np.array([value]), (value / WIDEST_WIDTH_FACTOR, value * WIDEST_WIDTH_FACTOR))


@dataclass(frozen=True)
class Constant(Part):
    """``scale`` for all pairs."""

    @property
    def takes_any_sign(self) -> bool:
        return True

    @property
    def constant(self) -> float:
        return self.scale

    def values(self, pairs: Pairs) -> tuple[float, float]:
        return 1.0, self.scale

    def own(self, sums: Array) -> float:
        return 1.0

    def slopes(self, pairs: Pairs, upstream: Array) -> tuple[dict[str, float], dict[Measure, Array]]:
        return {f"{self.prefix}scale": float(upstream.sum(dtype=np.float64))}, {}


@dataclass(frozen=True)
class Linear(Part):
    """``scale * m``; the measure of a sample with itself is the sum of its heights."""

    measure: Measure = "minima"

    @property
    def measures(self) -> tuple[Measure, ...]:
        return (self.measure,)

    def values(self, pairs: Pairs) -> tuple[Array, float]:
        return pairs.measure(self.measure), self.scale * pairs.size(self.measure)

    def own(self, sums: Array) -> Array:
        return sums

    def slopes(self, pairs: Pairs, upstream: Array) -> tuple[dict[str, float], dict[Measure, Array]]:
        size = pairs.size(self.measure)
        by_scale = size * float(np.vdot(upstream, pairs.measure(self.measure)))
        return {f"{self.prefix}scale": by_scale}, {self.measure: upstream.dtype.type(self.scale * size) * upstream}


@dataclass(frozen=True)
class Exponential(Part):
    """``scale * exp(-beta m / unit)``; the measure of a sample with itself is zero."""

    measure: Measure = "absolute"
    beta: float = 1.0
    unit: float = 1.0

    @property
    def takes_any_sign(self) -> bool:
        return self.measure in ("absolute", "squared")

    @property
    def measures(self) -> tuple[Measure, ...]:
        return (self.measure,)

    @property
    def exponential(self) -> Exponential:
        return self

    def numbers(self) -> dict[str, float]:
        return {**super().numbers(), f"{self.prefix}beta": self.beta}

    def values(self, pairs: Pairs) -> tuple[Array, float]:
        return pairs.exponential(self.measure, self.beta / self.unit), self.scale

    def own(self, sums: Array) -> float:
        return 1.0

    def slopes(self, pairs: Pairs, upstream: Array) -> tuple[dict[str, float], dict[Measure, Array]]:
        weighted = self.values(pairs)[0] * upstream
        by_scale = float(weighted.sum(dtype=np.float64))
        weighted *= weighted.dtype.type(-self.scale * self.beta / self.unit * pairs.size(self.measure))
        by_beta = float(np.vdot(weighted, pairs.measure(self.measure))) / self.beta
        return {f"{self.prefix}scale": by_scale, f"{self.prefix}beta": by_beta}, {self.measure: weighted}


@dataclass(frozen=True, eq=False)
class HeightsKernel(Heights, PairKernel):
    """A sum of parts on one set of heights."""

    parts: tuple[Part, ...] = ()

    @property
    def takes_any_sign(self) -> bool:
        return all(part.takes_any_sign for part in self.parts)

    @property
    def constant(self) -> float:
        return sum(part.constant for part in self.parts)

    @property
    def interactive_part(self) -> str:
        named = [part.prefix for part in self.parts if part.prefix and part.exponential is not None]
        return f"the part {named[0].removesuffix('__')!r}" if named else "this kernel"

    @property
    def exponential(self) -> Exponential | None:
        return self.parts[0].exponential if len(self.parts) == 1 else None

    def points(self, rows: Rows, dtype: Any = np.float64, n_threads: int = 1) -> Points:
        return Points.of(self.transform_rows(rows), dtype, n_threads)

    def _heights_key(self) -> tuple:
        """What the heights of samples depend on: equal for kernels under which they are the same."""
        of_transform = {name: value.tobytes() for name, value in self.of_transform.items()}
        return type(self.transform), of_transform, None if self.weights is None else self.weights.tobytes()

    def measured(
        self, rows: Rows, n_threads: int = 1, dtype: Any = np.float64, before: Measured | None = None
    ) -> MeasuredHeights:
        key = (*self._heights_key(), np.dtype(dtype))
        pairs = None if before is None else before.known_pairs(rows, key)
        if pairs is None:
            pairs = AllPairs(self.points(rows, dtype, n_threads), n_threads)
        return MeasuredHeights(self, rows, pairs, n_threads, key)

    def add_cross(self, left: Points, right: Points, out: Array, n_threads: int = 1) -> None:
        over_tiles(partial(self.add_tile, out), left, right, n_threads)

    def add_tile(self, out: Array, rows: slice, columns: slice, pairs: Pairs) -> None:
        """Add the kernel values of some pairs to ``out``."""
        block = out[rows, columns]
        scaled = np.empty_like(block)
        for part in self.parts:
            values, factor = part.values(pairs)
            block += np.multiply(values, factor, out=scaled, dtype=out.dtype) if np.ndim(values) else factor

    def own(self, rows: Rows) -> Array:
        sums = self._sums(rows)
        return sum((part.scale * part.own(sums) for part in self.parts), np.zeros(rows.n_rows))

    def _sums(self, rows: Rows) -> Array:
        """The sums of the heights of samples, (n,)."""
        return rows.row_sums(np.abs(self.heights(rows)))

    def variance_by_part(self, rows: Rows) -> dict[str, float]:
        sums = self._sums(rows)
        named = [part for part in self.parts if part.prefix]
        return {part.prefix.removesuffix("__"): float(np.mean(part.scale * part.own(sums))) for part in named}

    def own_gradient(self, rows: Rows) -> dict[str, Array]:
        """The derivative of ``sum_i K(x_i, x_i)``: distances of a sample to itself do not change."""
        sums = self._sums(rows)
        found: dict[str, Array] = {}
        slope = 0.0
        for part in self.parts:
            own = part.own(sums)
            found |= dict.fromkeys(part.numbers(), np.zeros(()))
            found[f"{part.prefix}scale"] = np.broadcast_to(own, rows.n_rows).sum()
            slope += part.scale if np.ndim(own) else 0.0
        return found | self.by_name(rows, np.full(len(rows.values), slope))

    def by_name(self, rows: Rows, slopes: Array) -> dict[str, Array]:
        """Derivatives for weights and transform, from those for the heights of all non-zeros, (nnz,)."""
        found = {}
        for name, profile in self.profiles(self.transformed(rows), rows).items():
            each = np.bincount(rows.column_of, slopes * profile, minlength=rows.n_columns)
            found[name] = each if self.is_per_feature(name) else each.sum()
        return found

    def _weights_in_units(self, rows: Rows) -> Array:
        """Weights to start from: one over the mean difference of a feature or group, and heights that add up to one.

        So a feature may be measured in any unit. One that does not vary hardly counts.
        """
        each = self._value_of()
        heights = rows.with_values(self.transformed(rows))
        sizes = np.bincount(each)
        spread = np.bincount(each, mean_differences(heights)) / sizes
        largest = largest_in(each[heights.column_of], heights.values, len(spread))
        varies = spread > np.maximum(CONSTANT_SHARE * largest, LEAST_DIFFERENCE)
        start = np.full(len(spread), 1.0)
        start[varies] = 1 / spread[varies]
        # Whatever the units are, the part of one that does not vary is smaller than all others.
        least = np.where(largest > 0, (start * largest)[varies].min(initial=1.0), start[varies].min(initial=1.0))
        start[~varies] = (CONSTANT_SHARE * least / np.where(largest > 0, largest, 1.0))[~varies]
        mean = float(np.abs(heights.values) @ start[each[heights.column_of]]) / max(1, rows.n_rows)
        return start / (mean or 1.0)

    def relevance(self, rows: Rows) -> Array:
        heights = self.transform_rows(some_of(rows, DIFFERENT_SAMPLES))
        is_chi2 = self.exponential is not None and self.exponential.measure == "chi2"
        share = mean_chi2(heights) if is_chi2 else mean_differences(heights)
        return share / max(share.sum(), np.finfo(float).tiny)

    def hyperparameters(self, rows: Rows, noise: float, mean_square: float) -> list[Hyperparameter]:
        """What a search may change: of the heights, which all parts share, and of each part."""
        shared = super().hyperparameters(rows, noise, mean_square)
        own = [one for part in self.parts for one in part.free()]
        # The common scale of the weights is that of distances, which beta has already.
        return [*(one for one in shared if one.name != "scale"), *own]

    def at(self, values: Mapping[str, Any]) -> Self:
        """The kernel with other values by the names of `hyperparameters`."""
        shared = super().at({name: value for name, value in values.items() if name != "scale"})
        return replace(shared, parts=tuple(part.at(values) for part in self.parts), map=None)

    def scaled(self, factor: float) -> Self:
        return self.at({f"{part.prefix}scale": factor for part in self.parts})

    def log_gradient(self, derivatives: Mapping[str, Array]) -> dict[str, Array]:
        found = super().log_gradient(derivatives) if "weights" in derivatives else {}
        for part in self.parts:
            found |= {name: derivatives[name] * value for name, value in part.numbers().items() if name in derivatives}
        return found


@dataclass(frozen=True, eq=False)
class MeasuredHeights(Measured):
    """A kernel of parts on one set of heights, with its training samples.

    pairs : of the training samples; they keep what they have computed where that is little
    key : what the heights depend on
    """

    kernel: HeightsKernel
    rows: Rows
    pairs: AllPairs
    n_threads: int
    key: tuple

    def known_pairs(self, rows: Rows, key: tuple) -> AllPairs | None:
        return self.pairs if rows is self.rows and key == self.key else None

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.n_rows, self.rows.n_rows

    @property
    def dtype(self) -> Any:
        return self.pairs.left.dtype

    @property
    def _is_kept(self) -> bool:
        return self.rows.n_rows**2 <= MOST_KEPT_PAIRS

    def add_halves(self, out: Array) -> None:
        """Add K to ``out``, all of it if measures are kept."""
        add = partial(self.kernel.add_tile, out)
        if self._is_kept:
            self._over_stripes(lambda rows, pairs: add(rows, slice(None), pairs))
        else:
            over_tiles(add, self.pairs.left, self.pairs.left, self.n_threads, half=True)

    def _over_stripes(self, work: Callable[[slice, Pairs], None]) -> None:
        """Call ``work(rows, pairs)`` for pieces of all pairs, which are kept; several at once."""
        self.pairs.prepare([measure for part in self.kernel.parts for measure in part.measures])
        stripes, n_threads = self.pairs.stripes, self.n_threads
        with suited_blas(0.0):
            run(work, [stripes[k::n_threads] for k in range(min(n_threads, len(stripes)))])

    def gradient(self, upstream: Array, names: Collection[str] | None = None) -> dict[str, Array]:
        """The derivative of ``sum_ij G_ij K_ij``, by those for all heights where these can change."""
        kernel, points = self.kernel, self.pairs.left
        of_heights = ["weights", *(f"transform__{name}" for name in kernel.of_transform)]
        moves_heights = names is None or any(name in names for name in of_heights)
        heights, unit = self._heights_by_column() if moves_heights else (np.empty((0, 0)), 1.0)
        by_height = np.empty_like(heights)
        numbers: dict[int, dict[str, float]] = {}

        def add(rows: slice, pairs: Pairs, n_threads: int = 1) -> None:
            """The derivatives of what these pairs come to."""
            slopes: dict[Measure, Array] = {}
            own: dict[str, float] = {}
            for part in kernel.parts:
                of_part, of_measures = part.slopes(pairs, upstream[rows])
                own |= of_part
                for measure, slope in of_measures.items():
                    slopes[measure] = slopes[measure] + slope if measure in slopes else slope
            numbers[rows.start] = own
            if moves_heights:
                in_units: Any = {name: _in_units(slope, name, heights.dtype, unit) for name, slope in slopes.items()}
                own_heights = np.ascontiguousarray(heights[:, rows])
                # Every pair comes twice.
                by_height[:, rows] = 2 * height_slopes(own_heights, heights, in_units, n_threads)

        if self._is_kept:
            self._over_stripes(add)
        else:
            for some, pairs in row_blocks(points, points, self.n_threads):
                add(some, pairs, self.n_threads)
        each = [numbers[begin] for begin in sorted(numbers)]  # whichever came first
        names_of_parts = [name for part in kernel.parts for name in part.numbers()]
        found = {name: np.asarray(sum((one[name] for one in each), 0.0)) for name in names_of_parts}
        if not moves_heights:
            return found
        row_of = np.repeat(np.arange(self.rows.n_rows), self.rows.counts)
        slopes = by_height[self.rows.column_of, row_of].astype(np.float64) / (points.unit * unit)
        return found | kernel.by_name(self.rows, slopes)

    def _heights_by_column(self) -> tuple[Array, float]:
        """The heights of all samples, (D, N), and their unit; in single precision where they and pairs are many.

        Derivatives are off by a millionth then, which no search notices.
        """
        points = self.pairs.left
        heights = np.ascontiguousarray(points.dense().T)
        if points.dtype == np.float32 or heights.size * points.n_points <= MOST_DOUBLE_SLOPES:
            return heights, 1.0
        unit = power_of_two(float(np.abs(heights).max(initial=0.0)))
        return (heights / unit).astype(np.float32), unit


def _in_units(slope: Array, measure: Measure, dtype: Any, unit: float) -> Array:
    """The derivative for a measure of heights in a unit, and in the precision of these."""
    if unit != 1:
        slope *= unit**2 if measure == "squared" else unit
    return slope.astype(dtype, copy=False)


@dataclass(frozen=True, eq=False)
class Child:
    """A kernel in a sum.

    prefix : of the names of its hyperparameters in the sum, for instance "laplacian__"
    columns : the numbers of the features that it sees, or None for all
    is_constant : whether it sees a column of ones instead
    divided_by : mask of the features by the sum of whose absolute values it sees rows divided, (D,), or None
    shift : what is subtracted from the features that it sees, (d,), or None. Features, and what is left of them, may
        be negative then: an intersection kernel sees positive and negative parts apart.
    """

    prefix: str
    columns: Array | None
    kernel: Any
    is_constant: bool = False
    divided_by: Array | None = None
    shift: Array | None = None

    @property
    def constant(self) -> float:
        """What all pairs of samples have in common."""
        return float(self.kernel.weights[0]) if self.is_constant else self.kernel.constant

    def sees_as(self, other: Child) -> bool:
        """Whether another kernel sees the same features."""
        ways = [(one.columns, one.divided_by, one.shift) for one in (self, other)]
        return all(
            mine is theirs if mine is None or theirs is None else np.array_equal(mine, theirs)
            for mine, theirs in zip(*ways, strict=True)
        )

    @property
    def takes_any_sign(self) -> bool:
        """Whether features may be negative."""
        return self.shift is not None or self.kernel.takes_any_sign

    def rows(self, rows: Rows) -> Rows:
        """Samples as it sees them."""
        if self.is_constant:
            return Rows.from_array(np.ones((rows.n_rows, 1)))
        seen = rows if self.columns is None else rows.select(self.columns)
        seen = seen if self.divided_by is None else seen.divided_by_sums(self.divided_by)
        return seen if self.shift is None else seen.shifted(self.shift)

    def measured(self, rows: Rows, n_threads: int, dtype: Any, before: tuple[Child, Measured] | None) -> Measured:
        """The kernel on training samples; one before it that saw the same features is asked for what it has."""
        if before is None or not self.sees_as(before[0]):
            return self.kernel.measured(self.rows(rows), n_threads, dtype)
        return self.kernel.measured(before[1].rows, n_threads, dtype, before[1])

    def variance_by_part(self, rows: Rows) -> dict[str, float]:
        """The mean prior variance of samples, by the names of its parts in the sum."""
        seen = self.rows(rows)
        inner = self.kernel.variance_by_part(seen)
        if inner or not self.prefix:
            return self.named(inner)
        return {self.prefix.removesuffix("__"): float(np.mean(self.kernel.own(seen)))}

    def spread(self, by_feature: Array, n_features: int) -> Array:
        """Numbers of its features, (d,), at the places that these have among all, (D,)."""
        if self.columns is None:
            return by_feature
        out = np.zeros(n_features)
        out[self.columns] = by_feature
        return out

    def own(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values by name that belong to it, under the names that it has for them."""
        return {name.removeprefix(self.prefix): value for name, value in values.items() if name.startswith(self.prefix)}

    def named(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Values by its own names under those that they have in the sum."""
        return {f"{self.prefix}{name}": value for name, value in values.items()}


@dataclass(frozen=True, eq=False)
class SumValue(KernelValue):
    """A sum of kernels that share nothing, each on all features or some of them."""

    children: tuple[Child, ...] = ()

    def hyperparameters(self, rows: Rows, noise: float, mean_square: float) -> list[Hyperparameter]:
        """The noise, and what a search may change of each kernel."""
        found: dict[str, Hyperparameter] = {}
        for child in self.children:
            for one in child.kernel.hyperparameters(child.rows(rows), noise, mean_square):
                name = one.name if one.name == "noise" else f"{child.prefix}{one.name}"
                found[name] = replace(one, name=name)
        return list(found.values())

    def at(self, values: Mapping[str, Any]) -> Self:
        """The kernel with other values by the names of `hyperparameters`."""
        return self._with_kernels([child.kernel.at(child.own(values)) for child in self.children])

    def scaled(self, factor: float) -> Self:
        return self._with_kernels([child.kernel.scaled(factor) for child in self.children])

    def _with_kernels(self, kernels: list[Any]) -> Self:
        """The sum with other kernels in the place of its own."""
        pairs = zip(self.children, kernels, strict=True)
        children = tuple(replace(child, kernel=kernel) for child, kernel in pairs)
        return replace(self, children=children, learns_weights=any(kernel.learns_weights for kernel in kernels))

    @property
    def constant(self) -> float:
        return sum(child.constant for child in self.children)

    def variance_by_part(self, rows: Rows) -> dict[str, float]:
        return {name: value for child in self.children for name, value in child.variance_by_part(rows).items()}

    def log_gradient(self, derivatives: Mapping[str, Array]) -> dict[str, Array]:
        found: dict[str, Array] = {}
        for child in self.children:
            found |= child.named(child.kernel.log_gradient(child.own(derivatives)))
        return found


@dataclass(frozen=True, eq=False)
class PairSum(SumValue, PairKernel):
    """A sum of kernels that are evaluated pair by pair."""

    @property
    def takes_any_sign(self) -> bool:
        return all(child.takes_any_sign for child in self.children)

    @property
    def interactive_part(self) -> str:
        for child in self.children:
            if child.kernel.interactive_part != "this kernel":
                return child.kernel.interactive_part
            if child.prefix and child.kernel.exponential is not None:
                return f"the part {child.prefix.removesuffix('__')!r}"
        return "this kernel"

    def _with_kernels(self, kernels: list[Any]) -> Self:
        return replace(super()._with_kernels(kernels), map=None)

    def points(self, rows: Rows, dtype: Any = np.float64, n_threads: int = 1) -> list[Any]:
        return [child.kernel.points(child.rows(rows), dtype, n_threads) for child in self.children]

    def measured(
        self, rows: Rows, n_threads: int = 1, dtype: Any = np.float64, before: Measured | None = None
    ) -> MeasuredSum:
        known = () if before is None else before.known_children(rows)
        old = [*known, *[None] * len(self.children)]
        pairs = zip(self.children, old, strict=False)
        each = tuple((child, child.measured(rows, n_threads, dtype, other)) for child, other in pairs)
        return MeasuredSum(rows, each)

    def add_cross(self, left: list[Any], right: list[Any], out: Array, n_threads: int = 1) -> None:
        for child, *sides in zip(self.children, left, right, strict=True):
            child.kernel.add_cross(*sides, out, n_threads)

    def own(self, rows: Rows) -> Array:
        return sum((child.kernel.own(child.rows(rows)) for child in self.children), np.zeros(rows.n_rows))

    def own_gradient(self, rows: Rows) -> dict[str, Array]:
        found: dict[str, Array] = {}
        for child in self.children:
            found |= child.named(child.kernel.own_gradient(child.rows(rows)))
        return found

    def relevance(self, rows: Rows) -> Array:
        """Shares of the kernels, each as much as its part of the prior variance."""
        share = np.zeros(self.n_features)
        for child in self.children:
            seen = child.rows(rows)
            share += child.spread(child.kernel.own(seen).mean() * child.kernel.relevance(seen), self.n_features)
        return share / max(share.sum(), np.finfo(float).tiny)


@dataclass(frozen=True, eq=False)
class MeasuredSum(Measured):
    """A sum of kernels with its training samples."""

    rows: Rows
    each: tuple[tuple[Child, Measured], ...]

    def known_children(self, rows: Rows) -> tuple[tuple[Child, Measured], ...]:
        return self.each if rows is self.rows else ()

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.n_rows, self.rows.n_rows

    @property
    def dtype(self) -> Any:
        return self.each[0][1].dtype

    def add_halves(self, out: Array) -> None:
        for _, one in self.each:
            one.add_halves(out)

    def gradient(self, upstream: Array, names: Collection[str] | None = None) -> dict[str, Array]:
        found: dict[str, Array] = {}
        for child, one in self.each:
            own = None if names is None else child.own(dict.fromkeys(names))
            found |= child.named(one.gradient(upstream, own))
        return found


def mean_differences(rows: Rows) -> Array:
    """The mean absolute difference of two different samples in each feature, (D,)."""
    n = rows.n_rows
    if 2 * len(rows.values) >= n * rows.n_columns:
        ordered = np.sort(rows.to_dense().T, axis=1)
        return 2 * np.maximum(ordered @ (2.0 * np.arange(n) - n + 1), 0.0) / max(1, n * (n - 1))
    counts = np.bincount(rows.column_of, minlength=rows.n_columns)
    order = np.lexsort((rows.values, rows.column_of))
    column_of, values = rows.column_of[order], rows.values[order]
    # The place of a value in its sorted column: zeros come between negative and positive ones.
    rank = np.arange(len(values)) - (np.cumsum(counts) - counts)[column_of]
    rank += np.where(values > 0, n - counts[column_of], 0)
    sums = np.bincount(column_of, (2.0 * rank - n + 1) * values, minlength=rows.n_columns)
    return 2 * np.maximum(sums, 0.0) / max(1, n * (n - 1))


def mean_chi2(rows: Rows) -> Array:
    """The mean of chi2 over pairs of samples, up to 1,000, in each feature, (D,): the variance of its terms."""
    some = some_of(rows, AVERAGED_SAMPLES)
    data = Distribution.of(some, by_column=True)
    Z = Direct(greedy_points(data, CHI2_TERMS)[:, None] * data.scales).transform(some.to_csr())
    means, squares = (np.asarray(one.mean(axis=0)).ravel() for one in (Z, Z.multiply(Z)))
    return np.maximum(squares - means**2, 0.0).reshape(-1, rows.n_columns).sum(axis=0)


def some_of(rows: Rows, most: int) -> Rows:
    """Samples at equal intervals, at most so many."""
    return rows if rows.n_rows <= most else rows.take(np.arange(0, rows.n_rows, -(-rows.n_rows // most)))


def mean_squared_differences(rows: Rows) -> Array:
    """The mean squared difference of two different samples in each feature, (D,)."""
    n = rows.n_rows
    counts = np.bincount(rows.column_of, minlength=rows.n_columns)
    means = np.bincount(rows.column_of, rows.values, minlength=rows.n_columns) / max(1, n)
    squares = np.bincount(rows.column_of, (rows.values - means[rows.column_of]) ** 2, minlength=rows.n_columns)
    return 2 * (squares + (n - counts) * means**2) / max(1, n - 1)
