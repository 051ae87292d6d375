"""Prediction from some of the training samples, for kernels that are evaluated pair by pair."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from histogp._core.data import Array, Rows
from histogp._core.layouts import Grid, Reading
from histogp._core.maps.landmarks import Landmarks
from histogp._core.operators.contract import KernelOperator, Pairwise
from histogp._core.operators.pair_kernels import PairKernel
from histogp._core.operators.pair_operators import weighted_cross
from histogp._core.predictors import QuantizedMean
from histogp._core.threads import suited_blas
from histogp.errors import ModelFileError
from histogp.io.schema import Reader, Writer

# Parts of the training samples that are tried as support, one after the other, and the error that is small enough: the
# root mean square over samples that the weights were not fitted to, relative to that of the mean.
SUPPORT_SHARES = (1 / 8, 1 / 4, 1 / 2)
SMALL_ERROR = 0.01
# An error so many times as large does not become small with more of them, nor one that will still be twice as large if
# it falls as it did. With 1,250, 2,500 and 5,000 of 10,000 orientation histograms it is 0.08, 0.05 and 0.03 for a
# Gaussian, and 0.14, 0.10, 0.07 with a Laplacian; of 4,000 samples with 8 features 0.086 and 0.007 with 500 and 2,000.
HOPELESS_TIMES = 10
# The most of them; features of so many take 1.3 GB with 40,000 training samples.
MOST_SUPPORT = 4_000
# With fewer training samples all of them are support; one in so many is left out to see the error.
FEWEST_SAMPLES = 1_000
LEFT_OUT_PART = 20
# What is added to the diagonal of the normal equations, relative to their mean.
JITTER = 1e-10


@dataclass(frozen=True, eq=False)
class SupportMean:
    """``x -> k(x, Z)^T weights`` for some samples Z, in the precision of the weights: close to the mean of all samples.

    rows : Z, with values that are rounded to that precision
    weights : (m, M), single precision, or double where that would be too coarse
    error : relative root mean square on training samples, to which the weights were not fitted if Z are some samples
    """

    kernel: PairKernel
    rows: Rows
    weights: Array
    grid: Grid
    error: float

    @staticmethod
    def version(grid: Grid) -> None:
        """What it depends on of a grid: nothing."""

    @classmethod
    def build(
        cls, kernel: PairKernel, rows: Rows, alpha: Array, means: Array, grid: Grid, seed: int, n_threads: int
    ) -> SupportMean:
        """Fit the weights of landmarks to the means (N, M) of training samples; more landmarks while that helps.

        If their error does not become small, all samples are support.
        """
        rng = np.random.default_rng(seed)
        n = rows.n_rows
        left_out = np.sort(rng.choice(n, max(1, n // LEFT_OUT_PART), replace=False))
        rest = np.setdiff1d(np.arange(n), left_out)
        wanted = means[left_out]

        def measured(support: Rows, weights: Array) -> SupportMean:
            found = cls(kernel, _rounded(support) if weights.dtype == np.float32 else support, weights, grid, 0.0)
            errors = found.mean(rows.take(left_out), "linear", n_threads) - wanted
            size = float(np.sqrt(np.mean(means**2))) or 1.0
            return replace(found, error=float(np.sqrt(np.mean(errors**2))) / size)

        before = np.inf
        for share in SUPPORT_SHARES if n >= FEWEST_SAMPLES else ():
            landmarks = Landmarks.choose(kernel, rows, min(MOST_SUPPORT, int(share * n)), rng, n_threads)
            features = landmarks.transform(rows.to_csr(), n_threads)
            try:
                weights = np.linalg.solve(landmarks.factor.T, _least_squares(features[rest], means[rest]))
            except LinAlgError:
                continue
            found = measured(landmarks.rows, weights.astype(np.float32))
            if found.error <= SMALL_ERROR:
                return found
            expected = found.error * min(1.0, found.error / before)
            if found.error > HOPELESS_TIMES * SMALL_ERROR or (before < np.inf and expected > 2 * SMALL_ERROR):
                break
            before = found.error
        found = measured(rows, alpha.astype(np.float32))
        return found if found.error <= SMALL_ERROR else measured(rows, alpha)

    def mean(self, rows: Rows, reading: Reading, n_threads: int = 1) -> Array:
        """Approximate means, (n, M)."""
        return weighted_cross(self.kernel, rows, self._points, self.weights, n_threads)

    @cached_property
    def _points(self) -> Any:
        return self.kernel.points(self.rows, self.weights.dtype)

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: what was derived comes back when it is needed."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def error_bound(self, kind: str) -> Array:
        """Refuse: there are measurements, but no bounds."""
        raise ValueError(
            f"There is no bound of the error with this kernel; measured on training samples it is {self.error:.1%} of "
            "the scores."
        )

    def to_state(self, writer: Writer) -> None:
        """Write the support and its weights into a model file."""
        writer.put("support_weights", self.weights)
        writer.put("error", [self.error])
        for name in ("indptr", "column_of"):
            writer.put(name, getattr(self.rows, name))
        writer.put("values", self.rows.values.astype(self.weights.dtype))

    @classmethod
    def from_state(cls, reader: Reader, kernel: PairKernel, grid: Grid, n_features: int, n_outputs: int) -> SupportMean:
        """The support in a model file; believes nothing."""
        weights = reader.array("support_weights", None, (None, n_outputs))
        error = float(reader.array("error", np.float64, (1,), lowest=0)[0])
        if len(weights) < 1 or weights.dtype not in (np.float32, np.float64):
            raise ModelFileError("it has no samples to predict from.")
        rows = Rows.from_state(reader, len(weights), n_features, weights.dtype)
        if rows.values.min(initial=0.0) < 0 and not kernel.takes_any_sign:
            raise ModelFileError("its samples are negative.")
        return cls(kernel, rows, weights, grid, error)


def quantized_mean(operator: KernelOperator) -> Any:
    """The class of the mean that quantized prediction takes for the kernel of an operator."""
    return QuantizedMean if operator.offer(Pairwise) is None else SupportMean


def _rounded(rows: Rows) -> Rows:
    values = rows.values.astype(np.float32).astype(np.float64)
    kept = values != 0
    indptr = np.concatenate([[0], np.cumsum(kept)])[rows.indptr]
    return Rows(indptr, rows.column_of[kept], values[kept], rows.n_columns)


def _least_squares(features: Array, means: Array) -> Any:
    """The weights (m, M) with the smallest squared error of ``features @ weights``."""
    with suited_blas(2.0 * features.size * features.shape[1]):
        gram = features.T @ features
        gram[np.diag_indices_from(gram)] += JITTER * np.trace(gram) / len(gram)
        return cho_solve(cho_factor(gram, overwrite_a=True, check_finite=False), features.T @ means)
