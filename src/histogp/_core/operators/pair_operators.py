"""Operators of kernels that are evaluated pair by pair: by their matrix, or by features that approximate them."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from histogp._core.data import Array, Rows, power_of_two
from histogp._core.maps.height_waves import HeightWaves
from histogp._core.maps.landmarks import ERROR_SAMPLES, Landmarks, approximation_error
from histogp._core.operators.contract import (
    CROSS_NUMBERS,
    FEWEST_CROSS_ROWS,
    KernelOperator,
    Precision,
    check_same_kind,
)
from histogp._core.operators.feature_kernels import FeatureKernel, FeatureOperator
from histogp._core.operators.half_matrix import HalfMatrix, half_bytes
from histogp._core.operators.pair_kernels import Measured, PairKernel
from histogp._core.operators.pair_measures import TILE
from histogp._core.threads import over_rows, suited_blas
from histogp.errors import ModelFileError
from histogp.io.schema import Reader, Writer

KINDS = ("auto", "exact", "single", "nystroem", "fourier")
# Samples up to which there is a matrix, of 1.15 GB, and as much of a factor.
MOST_EXACT_SAMPLES = 12_000
# Samples that a search looks at: an evaluation takes time cubic in their number.
MOST_SEARCHED_SAMPLES = 2_000
# Samples up to which there is half of a matrix in single precision, of 13 GB, if it is asked for.
MOST_SINGLE_SAMPLES = 80_000
# Samples up to which an update chooses landmarks again, as it takes again what is left to data.
MOST_CHOSEN_AGAIN = 512
# Features of all samples, 1 GB, up to which they are in double precision. More of them are rounded, which takes half
# the time and memory, and changes scores by 4e-5 where 2,000 landmarks miss the kernel by 8e-3 (20,000 images).
MOST_DOUBLE_FEATURES = 2**27
# What a product takes for a number of half of a matrix, as a part of the time that one takes that is looked up.
SHARE_OF_SWEEP = 32
# Columns of kernel values in single precision that are in double precision while they are summed up.
SUMMED_COLUMNS = 2_048
# Rows of a matrix that are copied before an interrupt is looked for. New memory takes longer than copying.
COPIED_ROWS = 512


def pair_operator(rows: Rows, kernel: PairKernel, n_threads: int = 1) -> KernelOperator:
    """The operator that the kernel's approximation calls for, with so many training samples."""
    kind = kernel.approximation.kind
    if kind == "exact" and rows.n_rows > MOST_SINGLE_SAMPLES:
        raise ValueError(
            f'approximation="exact" needs the kernel matrix, for which {rows.n_rows:,} samples are too many: learn '
            f'from at most {MOST_SINGLE_SAMPLES:,} of them, or choose approximation="nystroem".'
        )
    if kernel.map is not None or not has_matrix(kind, rows.n_rows):
        return ApproximateOperator(rows, kernel, n_threads)
    return (DenseOperator if rows.n_rows <= MOST_EXACT_SAMPLES else HalfOperator)(rows, kernel, n_threads)


def has_matrix(kind: str, n_rows: int) -> bool:
    """Whether an approximation of that kind comes to the kernel matrix for so many samples."""
    most = {"auto": MOST_EXACT_SAMPLES, "exact": MOST_SINGLE_SAMPLES, "single": MOST_SINGLE_SAMPLES}
    return n_rows <= most.get(kind, -1)


def choose_map(kernel: PairKernel, rows: Rows, n_threads: int) -> Any:
    """The feature map that the kernel's approximation names; without a name that with the smaller error on the rows."""
    options = kernel.approximation
    plain = replace(kernel, map=None)
    if options.kind == "fourier":
        if kernel.exponential is None:
            raise ValueError(
                'approximation="fourier" is for one kernel alone, on all features; otherwise there is "nystroem".'
            )
        return with_error(HeightWaves.draw(plain, rows), rows)  # type: ignore[arg-type]
    rng = np.random.default_rng(options.seed)
    landmarks = Landmarks.choose(plain, rows, options.n_components, rng, n_threads)
    if options.kind == "nystroem" or kernel.exponential is None:
        return with_error(landmarks, rows)
    waves = HeightWaves.draw(plain, rows)  # type: ignore[arg-type]
    return min(with_error(landmarks, rows), with_error(waves, rows), key=lambda one: one.error)


def with_error(feature_map: Any, rows: Rows) -> Any:
    """The map with the relative error of its products, over pairs of some rows."""
    found = approximation_error(feature_map, rows, np.random.default_rng(0))
    return replace(feature_map, error=found)


def rounding_error(kernel: PairKernel, rows: Rows) -> float:
    """The relative error of values in single precision, over pairs of some rows."""
    some = rows.take(np.arange(0, rows.n_rows, -(-rows.n_rows // ERROR_SAMPLES)))
    unit = power_of_two(float(kernel.own(some).max(initial=0.0)))
    exact = kernel.matrix(some)
    rounded = HalfMatrix.of(kernel.scaled(1 / unit), some).whole() * unit
    found = np.linalg.norm(rounded - exact) / max(np.linalg.norm(exact), np.finfo(float).tiny)
    return float(max(found, np.finfo(np.float32).eps))


def restored(kernel: PairKernel, reader: Reader) -> PairKernel:
    """The kernel with the map that a model file has, if it has one; believes nothing."""
    name = reader.text("map", ("", "nystroem", "fourier"), default="fourier" if reader.has("frequencies") else "")
    if not name:
        if kernel.approximation.kind in ("nystroem", "fourier"):
            raise ModelFileError("the features of its kernel are missing.")
        return kernel
    kind = kernel.approximation.kind
    if (name == "fourier" and kernel.exponential is None) or kind not in ("auto", "single", name):
        raise ModelFileError("its features are not those of its kernel.")
    maps: dict[str, Any] = {"nystroem": Landmarks, "fourier": HeightWaves}
    return replace(kernel, map=maps[name].from_state(reader, kernel, kernel.n_features))


class PairOperator(KernelOperator):
    """What operators of the matrix of a kernel that is evaluated pair by pair have in common.

    Offers `Updates`, `Tuning` and `Pairwise`. A change of the samples that makes them too many, or few, makes an
    operator of another kind of it.

    Parameters
    ----------
    rows : Rows
        The training samples, raw values.
    kernel : PairKernel
    n_threads : int
    """

    block_width = 16
    most_searched = MOST_SEARCHED_SAMPLES

    def __init__(self, rows: Rows, kernel: PairKernel, n_threads: int = 1):
        """Keep the samples; the matrix is not made yet."""
        self.rows = rows
        self.n_samples, self.n_features = rows.n_rows, rows.n_columns
        self.cost, self.column_cost, self.n_nonzeros = self.n_samples**2, self.n_samples, len(rows.values)
        self.kernel: PairKernel = kernel
        self.n_threads = n_threads
        self._lock = threading.Lock()
        self.scale = power_of_two(float(kernel.own(rows).max(initial=0.0)))

    @property
    def pair_kernel(self) -> PairKernel:
        return self.kernel

    def diagonal(self, rows: Rows | None = None) -> Array:
        return self.kernel.own(self.rows if rows is None else rows)

    def cross(self, rows: Rows, others: Rows | None = None) -> Array:
        return self.kernel.cross(rows, self.rows if others is None else others, self.n_threads)

    def relevance(self) -> Array:
        return self.kernel.relevance(self.rows)

    def to_state(self, writer: Writer) -> None:
        self.rows.to_state(writer)

    @classmethod
    def from_state(cls, reader: Reader, kernel: Any, n_samples: int, n_features: int, n_threads: int) -> Self:
        return cls(Rows.from_state(reader, n_samples, n_features), kernel, n_threads)

    def training_rows(self) -> Rows:
        return self.rows

    def trace_gradient(self) -> dict[str, Array]:
        return self.kernel.own_gradient(self.rows)


class DenseOperator(PairOperator):
    """The matrix itself: made when it is first needed, and kept until `release`.

    Offers `Matrix` as well.

    Parameters
    ----------
    rows, kernel, n_threads
        As for `PairOperator`.
    matrix : array (N, N), optional
        If it is there already.
    dtype : float64, or float32 for a matrix that is rounded
    """

    def __init__(
        self,
        rows: Rows,
        kernel: PairKernel,
        n_threads: int = 1,
        matrix: Array | None = None,
        dtype: Any = np.float64,
    ):
        """Keep the samples; the matrix is not made yet."""
        super().__init__(rows, kernel, n_threads)
        self.dtype = np.dtype(dtype)
        self._matrix = matrix
        self._measured: Measured | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"rows": self.rows, "kernel": self.kernel, "n_threads": self.n_threads, "dtype": self.dtype}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def release(self) -> None:
        with self._lock:
            self._matrix = self._measured = None

    def matrix(self) -> Array:
        kept = self._kept()
        out = np.empty_like(kept)

        def copy(rows: slice) -> None:
            out[rows] = kept[rows]

        over_rows(copy, self.n_samples, self.n_threads, COPIED_ROWS)
        return out

    def new_matrix(self) -> Array:
        return self.measured().matrix() if self._matrix is None else self.matrix()

    def _kept(self) -> Array:
        """The matrix, which nobody may change."""
        with self._lock:
            matrix = self._matrix
            if matrix is None:
                matrix = self._matrix = self.measured().matrix()
            return matrix

    def measured(self) -> Measured:
        """The kernel on the training samples."""
        measured = self._measured  # another thread may release it meanwhile
        if measured is None:
            measured = self._measured = self.kernel.measured(self.rows, self.n_threads, self.dtype)
        return measured

    def matmat(self, vectors: Array, precision: Precision = "double") -> Array:
        matrix, out = self._kept(), np.empty(vectors.shape)
        step = max(1, CROSS_NUMBERS // max(1, self.n_samples))
        with suited_blas(2.0 * self.cost * vectors.shape[1]):
            if matrix.dtype == np.float64:
                return matrix @ vectors
            for begin in range(0, self.n_samples, step):  # not all of it in double precision at once
                out[begin : begin + step] = matrix[begin : begin + step].astype(np.float64) @ vectors
            return out

    def columns(self, index: Array, precision: Precision = "double") -> Array:
        matrix = self._matrix
        out = self.cross(self.rows, self.rows.take(index)) if matrix is None else matrix[:, index]
        return out.astype(np.float64) if precision == "double" else (out / self.scale).astype(np.float32)

    def table(self, alpha: Array) -> PairTable:
        return PairTable(self.kernel, self.kernel.points(self.rows, n_threads=self.n_threads), alpha)

    def with_threads(self, n_threads: int) -> DenseOperator:
        if n_threads == self.n_threads:
            return self
        return DenseOperator(self.rows, self.kernel, n_threads, self._matrix, self.dtype)

    def in_single(self) -> DenseOperator:
        """The operator with a matrix in single precision."""
        return DenseOperator(self.rows, self.kernel, self.n_threads, dtype=np.float32)

    def extend(self, rows: Rows) -> KernelOperator:
        """The operator with further samples, perhaps too many for a matrix; one that is there is bordered."""
        n, n_all = self.n_samples, self.n_samples + rows.n_rows
        matrix = self._matrix
        if n_all > MOST_EXACT_SAMPLES:
            return pair_operator(self.rows.followed_by(rows), self.kernel, self.n_threads)
        if matrix is not None:
            longer = np.empty((n_all, n_all), self.dtype)
            longer[:n, :n] = matrix
            longer[n:, :n] = self.cross(rows)
            longer[:n, n:] = longer[n:, :n].T
            longer[n:, n:] = self.kernel.matrix(rows, self.n_threads)
            matrix = longer
        return DenseOperator(self.rows.followed_by(rows), self.kernel, self.n_threads, matrix, self.dtype)

    def remove(self, index: Any) -> KernelOperator:
        kept = np.delete(np.arange(self.n_samples), np.asarray(index, int))
        matrix = None if self._matrix is None else self._matrix[np.ix_(kept, kept)]
        return DenseOperator(self.rows.take(kept), self.kernel, self.n_threads, matrix, self.dtype)

    def with_kernel(self, kernel: Any) -> DenseOperator:
        check_same_kind(self.kernel, kernel)
        other = DenseOperator(self.rows, kernel, self.n_threads, dtype=self.dtype)
        other._measured = kernel.measured(self.rows, self.n_threads, self.dtype, self.measured())
        return other

    def gradient(self, left: Array, right: Array, sums: Array | None = None) -> dict[str, Array]:
        if sums is None:
            return self._gradient(left, right)
        found = [self._gradient(left * some, right) for some in sums.T]
        return {name: np.stack([one[name] for one in found], axis=-1) for name in found[0]}

    def _gradient(self, left: Array, right: Array) -> dict[str, Array]:
        upstream = left @ right.T
        return self.matrix_gradient((upstream + upstream.T) / 2)

    def matrix_gradient(self, upstream: Array, names: Collection[str] | None = None) -> dict[str, Array]:
        return self.measured().gradient(upstream.astype(self.dtype, copy=False), names)

    def exactly(self) -> DenseOperator:
        return self

    @property
    def approximated_by(self) -> str | None:
        return None if self.dtype == np.float64 else "float32"

    def approximation_error(self) -> float:
        return float(np.finfo(self.dtype).eps)


class HalfOperator(PairOperator):
    """Half of the matrix in single precision, for samples too many for factors: the rounded matrix is the model.

    It is made when it is first needed, in units of `scale`, and kept until `release`, when nobody may be solving.
    """

    has_large_matrix = True

    def __init__(self, rows: Rows, kernel: PairKernel, n_threads: int = 1, half: HalfMatrix | None = None):
        """Keep the samples, and the matrix if it is there already."""
        super().__init__(rows, kernel, n_threads)
        # A number that is there takes a part of the time of one that is looked up.
        self.cost = self.n_samples**2 // SHARE_OF_SWEEP
        self._half = half

    def __getstate__(self) -> dict[str, Any]:
        return {"rows": self.rows, "kernel": self.kernel, "n_threads": self.n_threads}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def release(self) -> None:
        with self._lock:
            self._half = None

    def half(self) -> HalfMatrix:
        """Half of the matrix."""
        with self._lock:
            if self._half is None:
                try:
                    self._half = HalfMatrix.of(self._in_unit(), self.rows, self.n_threads)
                except MemoryError:
                    raise MemoryError(
                        f"Half of the kernel matrix of {self.n_samples:,} samples needs "
                        f"{half_bytes(self.n_samples) / 1e9:.1f} GB; learn from fewer, or choose a kernel with "
                        'approximation="nystroem".'
                    ) from None
            return self._half

    def _in_unit(self) -> PairKernel:
        """The kernel divided by `scale`."""
        return self.kernel.scaled(1 / self.scale)

    def matrix(self) -> Array:
        return self.half().whole().astype(np.float64) * self.scale

    def matmat(self, vectors: Array, precision: Precision = "double") -> Array:
        dtype = np.float32 if precision == "single" else np.float64
        units = np.array([power_of_two(largest) for largest in np.abs(vectors).max(axis=0, initial=0.0)])
        return self.half().times((vectors / units).astype(dtype), self.n_threads) * units * self.scale

    def columns(self, index: Array, precision: Precision = "double") -> Array:
        out = self.half().columns(index)
        return out.astype(np.float64) * self.scale if precision == "double" else out

    def table(self, alpha: Array) -> PairTable:
        kernel = self._in_unit()
        return PairTable(kernel, kernel.points(self.rows, np.float32, self.n_threads), alpha * self.scale, np.float32)

    def with_threads(self, n_threads: int) -> HalfOperator:
        return self if n_threads == self.n_threads else HalfOperator(self.rows, self.kernel, n_threads, self._half)

    def extend(self, rows: Rows) -> KernelOperator:
        return pair_operator(self.rows.followed_by(rows), self.kernel, self.n_threads)

    def remove(self, index: Any) -> KernelOperator:
        kept = np.delete(np.arange(self.n_samples), np.asarray(index, int))
        return pair_operator(self.rows.take(kept), self.kernel, self.n_threads)

    def with_kernel(self, kernel: Any) -> HalfOperator:
        check_same_kind(self.kernel, kernel)
        return HalfOperator(self.rows, kernel, self.n_threads)

    def gradient(self, left: Array, right: Array, sums: Array | None = None) -> dict[str, Array]:
        raise ValueError("Derivatives of a matrix in single precision are those of the kernel itself, on some samples.")

    def exactly(self) -> DenseOperator:
        return DenseOperator(self.rows, self.kernel, self.n_threads)

    @property
    def approximated_by(self) -> str:
        return "float32"

    def approximation_error(self) -> float:
        return rounding_error(self.kernel, self.rows)


@dataclass(frozen=True, eq=False)
class PairTable:
    """``x -> k(x)^T alpha`` by kernel values with all training samples, as `PairKernel.points`; alpha (N, M).

    dtype : of the points, and so of kernel values
    """

    kernel: PairKernel
    points: Any
    alpha: Array
    dtype: Any = np.float64

    def evaluate(self, rows: Rows, n_threads: int = 1) -> Array:
        return weighted_cross(self.kernel, rows, self.points, self.alpha, n_threads, self.dtype)


def weighted_cross(
    kernel: PairKernel, rows: Rows, points: Any, weights: Array, n_threads: int = 1, dtype: Any = np.float64
) -> Array:
    """``K(rows, points) @ weights``, (n, M), of points in a precision, summed up in double precision; in blocks."""
    out = np.zeros((rows.n_rows, weights.shape[1]))
    step = max(FEWEST_CROSS_ROWS, CROSS_NUMBERS * (8 // np.dtype(dtype).itemsize) // max(1, len(weights)))
    step -= step % TILE if step > TILE else 0  # whole tiles
    width = len(weights) if dtype == np.float64 else SUMMED_COLUMNS
    # Threads of BLAS go on spinning for a while when they are done, in the way of ours.
    with suited_blas(0.0):
        values = np.empty((min(step, rows.n_rows), len(weights)), dtype)
        for begin in range(0, rows.n_rows, step):
            some = rows.block(begin, min(begin + step, rows.n_rows))
            block, sums = values[: some.n_rows], out[begin : begin + step]
            block[:] = 0
            kernel.add_cross(kernel.points(some, dtype, n_threads), points, block, n_threads)
            for first in range(0, len(weights), width):
                sums += block[:, first : first + width].astype(np.float64, copy=False) @ weights[first : first + width]
    return out


class ApproximateOperator(FeatureOperator):
    """A kernel that is evaluated pair by pair, approximated by the products of features.

    The prior variance is that of the kernel itself; what landmarks leave of it is in the posterior variance, too, so
    that this is not too small far away from all of them. A change of the samples that leaves few makes an
    operator with a matrix of it, unless the approximation was asked for.

    Parameters
    ----------
    rows : Rows
        The training samples, raw values.
    kernel : PairKernel
        With a map, or a map is made for the samples.
    n_threads : int
    """

    most_searched = MOST_SEARCHED_SAMPLES

    def __init__(self, rows: Rows, kernel: PairKernel, n_threads: int = 1):
        """Choose a map, if the kernel has none."""
        if kernel.map is None:
            kernel = replace(kernel, map=choose_map(kernel, rows, n_threads))
        is_single = rows.n_rows * kernel.map.n_components > MOST_DOUBLE_FEATURES
        features = FeatureKernel(kernel.map, n_features=kernel.n_features)
        super().__init__(rows, features, n_threads, np.float32 if is_single else np.float64)
        self.kernel = kernel
        self.scale = power_of_two(float(kernel.own(rows).max(initial=0.0)))

    def diagonal(self, rows: Rows | None = None) -> Array:
        return self.kernel.own(self.rows if rows is None else rows)

    def remainder(self, rows: Rows, others: Rows | None = None) -> Array | float:
        """What landmarks leave of the kernel; waves leave nothing of a sample's own value, and are taken so."""
        if not self.kernel.map.is_below:
            return 0.0
        if others is not None:
            return self.kernel.cross(rows, others, self.n_threads) - self.cross(rows, others)
        out = self.kernel.own(rows)
        for some, Z in self.blocks(rows):
            out[some] = np.maximum(out[some] - np.einsum("ij,ij->i", Z, Z), 0.0)
        return out

    def exactly(self) -> Any:
        return DenseOperator(self.rows, replace(self.kernel, map=None), self.n_threads)

    def with_threads(self, n_threads: int) -> ApproximateOperator:
        return self if n_threads == self.n_threads else ApproximateOperator(self.rows, self.kernel, n_threads)

    def to_state(self, writer: Writer) -> None:
        self.rows.to_state(writer)

    @classmethod
    def from_state(
        cls, reader: Reader, kernel: Any, n_samples: int, n_features: int, n_threads: int = 1
    ) -> ApproximateOperator:
        return cls(Rows.from_state(reader, n_samples, n_features), kernel, n_threads)

    def extend(self, rows: Rows) -> ApproximateOperator:
        """The operator with further samples; landmarks are chosen anew where samples or landmarks were few."""
        kernel = self.kernel
        has_all = kernel.map.n_components >= kernel.approximation.n_components
        if kernel.map.is_below and not (has_all and self.n_samples >= MOST_CHOSEN_AGAIN):
            kernel = replace(kernel, map=None)
        return ApproximateOperator(self.rows.followed_by(rows), kernel, self.n_threads)

    def remove(self, index: Any) -> Any:
        kept = np.delete(np.arange(self.n_samples), np.asarray(index, int))
        return pair_operator(self.rows.take(kept), replace(self.kernel, map=None), self.n_threads)

    def with_kernel(self, kernel: Any) -> ApproximateOperator:
        check_same_kind(self.kernel, kernel)
        if kernel.map is None:
            kernel = replace(kernel, map=with_error(self.kernel.map.with_kernel(kernel, self.rows), self.rows))
        return ApproximateOperator(self.rows, kernel, self.n_threads)

    def gradient(self, left: Array, right: Array, sums: Array | None = None) -> dict[str, Array]:
        raise ValueError("Derivatives of an approximate kernel are those of the kernel itself, on some samples.")

    def trace_gradient(self) -> dict[str, Array]:
        return self.kernel.own_gradient(self.rows)

    @property
    def approximated_by(self) -> str:
        return self.kernel.map.name

    def approximation_error(self) -> float:
        return self.kernel.map.error
