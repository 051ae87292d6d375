"""Kernels that are evaluated pair by pair, on few samples or many: by their matrix, or by features."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from histogp._core.data import Array, Rows, power_of_two
from histogp._core.maps.height_waves import HeightWaves
from histogp._core.maps.landmarks import Landmarks, approximation_error
from histogp._core.operators.contract import KernelOperator, check_same_kind
from histogp._core.operators.dense import MOST_EXACT_SAMPLES, MOST_SEARCHED_SAMPLES, DenseOperator
from histogp._core.operators.feature_kernels import FeatureKernel, FeatureOperator
from histogp._core.operators.pair_kernels import PairKernel
from histogp.errors import ModelFileError
from histogp.io.schema import Reader, Writer

KINDS = ("auto", "exact", "nystroem", "fourier")
# Samples up to which there is a matrix in single precision, of 6.4 GB, if it is asked for.
MOST_SINGLE_SAMPLES = 40_000


def pair_operator(rows: Rows, kernel: PairKernel, n_threads: int = 1) -> KernelOperator:
    """The operator that the kernel's approximation calls for, with so many training samples."""
    kind = kernel.approximation.kind
    if kernel.map is not None or kind in ("nystroem", "fourier"):
        return ApproximateOperator(rows, kernel, n_threads)
    if rows.n_rows <= MOST_EXACT_SAMPLES:
        return DenseOperator(rows, kernel, n_threads)
    if kind == "auto":
        return ApproximateOperator(rows, kernel, n_threads)
    if rows.n_rows > MOST_SINGLE_SAMPLES:
        raise ValueError(
            f'approximation="exact" needs the kernel matrix, for which {rows.n_rows:,} samples are too many: learn '
            f'from at most {MOST_SINGLE_SAMPLES:,} of them, or choose approximation="nystroem".'
        )
    return DenseOperator(rows, kernel, n_threads, dtype=np.float32)


def choose_map(kernel: PairKernel, rows: Rows, n_threads: int) -> Any:
    """The feature map that the kernel's approximation names; for "auto" that with the smaller error on the rows."""
    options = kernel.approximation
    plain = replace(kernel, map=None)
    if options.kind == "fourier":
        if kernel.exponential is None:
            raise ValueError('approximation="fourier" is for one kernel alone; for a sum there is "nystroem".')
        return HeightWaves.draw(plain, rows)  # type: ignore[arg-type]
    rng = np.random.default_rng(options.seed)
    landmarks = Landmarks.choose(plain, rows, options.n_components, rng, n_threads)
    if options.kind != "auto" or kernel.exponential is None:
        return landmarks
    waves = HeightWaves.draw(plain, rows)  # type: ignore[arg-type]
    return min(landmarks, waves, key=lambda one: error_of(one, rows))


def error_of(feature_map: Any, rows: Rows) -> float:
    """The relative error of the products of features, over pairs of some rows."""
    return approximation_error(feature_map, feature_map.kernel, rows, np.random.default_rng(0))


def restored(kernel: PairKernel, reader: Reader) -> PairKernel:
    """The kernel with the map that a model file has, if it has one; believes nothing."""
    name = reader.text("map", ("", "nystroem", "fourier"), default="fourier" if reader.has("frequencies") else "")
    if not name:
        if kernel.approximation.kind in ("nystroem", "fourier"):
            raise ModelFileError("the features of its kernel are missing.")
        return kernel
    if name == "fourier" and kernel.exponential is None:
        raise ModelFileError("its features are not those of its kernel.")
    maps: dict[str, Any] = {"nystroem": Landmarks, "fourier": HeightWaves}
    return replace(kernel, map=maps[name].from_state(reader, kernel, kernel.n_features))


class ApproximateOperator(FeatureOperator):
    """A kernel that is evaluated pair by pair, approximated by the products of features.

    The prior variance is that of the kernel itself; what landmarks leave of it is in the posterior variance, too, so
    that this is not too small far away from all of them. A change of the samples that leaves few makes a
    `DenseOperator` of it, unless the approximation was asked for.

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
        super().__init__(rows, FeatureKernel(kernel.map, n_features=kernel.n_features), n_threads)
        self.kernel = kernel
        self.scale = power_of_two(float(kernel.own(rows).max(initial=0.0)))

    def diagonal(self, rows: Rows | None = None) -> Array:
        return self.kernel.own(self.rows if rows is None else rows)

    def prior_covariance(self, rows: Rows, others: Rows) -> Array:
        is_below = self.kernel.map.is_below
        return self.kernel.cross(rows, others, self.n_threads) if is_below else self.cross(rows, others)

    def remainder(self, rows: Rows, *, pairs: bool = False) -> Array | float:
        """What landmarks leave of the kernel. Waves leave nothing of a sample's own value: they count as the kernel."""
        if not self.kernel.map.is_below:
            return 0.0
        exact = self.kernel.cross(rows, rows, self.n_threads) if pairs else self.kernel.own(rows)
        for some, Z in self.blocks(rows):
            if pairs:
                for others, more in self.blocks(rows):
                    exact[some, others] -= Z @ more.T
            else:
                exact[some] = np.maximum(exact[some] - np.einsum("ij,ij->i", Z, Z), 0.0)
        return exact

    def exactly(self) -> DenseOperator:
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
        """The operator with further samples; landmarks are chosen anew as long as there are fewer than asked for."""
        kernel = self.kernel
        if kernel.map.is_below and kernel.map.n_components < kernel.approximation.n_components:
            kernel = replace(kernel, map=None)
        return ApproximateOperator(self.rows.followed_by(rows), kernel, self.n_threads)

    def remove(self, index: Any) -> Any:
        kept = np.delete(np.arange(self.n_samples), np.asarray(index, int))
        return pair_operator(self.rows.take(kept), replace(self.kernel, map=None), self.n_threads)

    def with_kernel(self, kernel: Any) -> ApproximateOperator:
        check_same_kind(self.kernel, kernel)
        if kernel.map is None:
            kernel = replace(kernel, map=self.kernel.map.with_kernel(kernel, self.rows))
        return ApproximateOperator(self.rows, kernel, self.n_threads)

    def gradient(self, left: Array, right: Array, sums: Array | None = None) -> dict[str, Array]:
        raise ValueError("Derivatives of an approximate kernel are those of the kernel itself, on some samples.")

    def trace_gradient(self) -> dict[str, Array]:
        return self.kernel.own_gradient(self.rows)
