"""A linear system with ``K + diag(noise)`` as its parts: noise, options, solution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from histogp._core.data import Array
from histogp.io.schema import Reader, Writer

# Samples up to which a dense factor is faster than iterating.
MOST_DENSE_SAMPLES = 2_000
# Rows of a factor, features or samples, up to which its memory, half a gigabyte, is tolerable.
LARGEST_FACTOR = 8192
# What positive numbers in files are not below.
SMALLEST = float(np.nextafter(0, 1))


@dataclass(frozen=True, eq=False)
class Noise:
    """One diagonal for all outputs, or a diagonal for each.

    sample : (N,) noise variance of each sample.
    output_of : (N,) or None; the number of the one-vs-rest output in which a sample is positive.
    positive, negative : (M,) or None; factors on ``sample`` for the positive and the other samples of
        each output: label-dependent noise (supplement of gp-hik-eccv2012, section S1).
    mixed, shares : (k,), (k, M) or None; the numbers of rows that stand for samples with several labels, and the part
        p of their precision that is positive in each output: that is ``(p / positive + (1 - p) / negative) / sample``.
    """

    sample: Array
    output_of: Array | None = None
    positive: Array | None = None
    negative: Array | None = None
    mixed: Array | None = None
    shares: Array | None = None

    @property
    def n_matrices(self) -> int:
        """How many diagonals there are: one, or one for each output."""
        return 1 if self.positive is None else len(self.positive)

    def diagonals(self) -> Array:
        """The diagonals as columns: (N, 1), or (N, M) with one for each output."""
        if self.output_of is None or self.positive is None or self.negative is None:
            return self.sample[:, None]
        diagonals = self.sample[:, None] * self.negative
        diagonals[np.arange(len(self.sample)), self.output_of] = self.sample * self.positive[self.output_of]
        if self.mixed is not None and self.shares is not None:
            precision = self.shares / self.positive + (1 - self.shares) / self.negative
            diagonals[self.mixed] = self.sample[self.mixed, None] / precision
        return diagonals

    def positives_of(self, output: int) -> tuple[Array, Array]:
        """The numbers of the samples that are positive in an output, and ``sample``, (N,), of their positive part."""
        assert self.output_of is not None
        is_positive, sample = self.output_of == output, self.sample
        if self.mixed is not None and self.shares is not None:
            share = self.shares[:, output]
            is_positive[self.mixed] = share > 0
            sample = sample.copy()
            sample[self.mixed] /= np.where(share > 0, share, 1.0)
        return np.flatnonzero(is_positive), sample

    def to_state(self, writer: Writer) -> None:
        """Write it into a model file."""
        writer.put("sample", self.sample)
        if self.positive is not None and self.negative is not None:
            writer.put("positive", self.positive)
            writer.put("negative", self.negative)

    @classmethod
    def from_state(cls, reader: Reader, targets: Array) -> Noise:
        """The noise in a model file with these targets (N, M); believes nothing."""
        n_samples, n_outputs = targets.shape
        sample = reader.array("sample", np.float64, (n_samples,), lowest=SMALLEST)
        if n_outputs == 1 or not reader.has("positive"):
            return cls(sample)
        positive, negative = (
            reader.array(side, np.float64, (n_outputs,), lowest=SMALLEST) for side in ("positive", "negative")
        )
        return cls(sample, targets.argmax(axis=1), positive, negative)

    def scaled(self, factor: float) -> Noise:
        return replace(self, sample=self.sample * factor)

    def subset(self, rows: Array) -> Noise:
        """The noise of the samples with these numbers."""
        output_of = None if self.output_of is None else self.output_of[rows]
        mixed, shares = self.mixed, self.shares
        if mixed is not None and shares is not None:
            place = np.full(len(self.sample), -1)
            place[mixed] = np.arange(len(mixed))
            mixed = np.flatnonzero(place[rows] >= 0)
            shares = shares[place[rows][mixed]]
        return replace(self, sample=self.sample[rows], output_of=output_of, mixed=mixed, shares=shares)


@dataclass(frozen=True)
class SolverOptions:
    """How to solve, as the estimators' parameters of these names say."""

    solver: Literal["auto", "cg", "cholesky"] = "auto"
    tol: float = 1e-2
    max_iter: int = 1000
    preconditioner_rank: int | Literal["auto"] = "auto"
    n_threads: int = 1


# Called after every iteration with its number (from 1), the residuals of the right-hand sides that are
# not solved yet, relative to their largest entries, and a function that returns the present solution;
# true stops the solver.
Callback = Callable[[int, Array, Callable[[], Array]], bool]


@dataclass(frozen=True, eq=False)
class Solution:
    """The solution (N, M), what it cost, and the true float64 residuals ``max|r| / max|b|``, (M,).

    ``residual`` (N, M) is ``b - A x``, in float64.

    ``steps`` (n, M) and ``ratios`` (n - 1, M) are the coefficients of conjugate gradients up to the first restart, NaN
    where a column was left out; none for other solvers and from a start other than zero.
    """

    values: Array
    residual: Array
    relative_residuals: Array
    n_iterations: int
    n_products: int
    converged: bool
    stopped_by_callback: bool = False
    rank: int = 0
    steps: Array = field(default_factory=lambda: np.empty((0, 0)))
    ratios: Array = field(default_factory=lambda: np.empty((0, 0)))


def relative(residuals: Array, scale: Array) -> Array:
    """``max|r| / scale`` of each column; zero where both are zero."""
    return np.abs(residuals).max(axis=0) / np.where(scale > 0, scale, 1.0)


# Single-precision products are good to about 1e-6; for tighter targets the restart that repairs them
# would cost more than they save.
SINGLE_PRECISION_TOL = 1e-5


# What the choice between factors and iterations counts with, in nanoseconds of one core, measured with 8,000 x 2,000
# bags of words with 71 non-zeros a row. For each pair of a non-zero and a row of the matrix, which is symmetric, and
# for each multiplication of a factor and of a solution with it:
MATRIX_NANOSECONDS, FACTOR_NANOSECONDS, SOLVE_NANOSECONDS = 0.35, 0.026, 0.023
# For each non-zero of a block of vectors, and for each number of a vector with a preconditioner of rank 512, in a
# typical number of iterations: 500 outputs took 17 to 117 iterations and 8 to 75 seconds, by the magnitude of values.
SWEEP_NANOSECONDS, VECTOR_NANOSECONDS, TYPICAL_ITERATIONS, BLOCK_OUTPUTS = 10.0, 70.0, 30, 16


def factors_pay(n_samples: int, n_matrices: int, n_outputs: int = 1, n_nonzeros: int = 0) -> bool:
    """Whether dense factors of ``n_matrices`` matrices cost no more than one at the small-N limit, or than iterating.

    Many outputs share a factor, whose memory is bounded, but no iteration. Counts and constants decide, never a clock.
    """
    if n_matrices * n_samples**3 <= MOST_DENSE_SAMPLES**3:
        return True
    making = MATRIX_NANOSECONDS * n_nonzeros * n_samples + FACTOR_NANOSECONDS * n_matrices * n_samples**3 / 3
    solving = SOLVE_NANOSECONDS * 2 * n_samples**2 * n_outputs
    iteration = SWEEP_NANOSECONDS * -(-n_outputs // BLOCK_OUTPUTS) * n_nonzeros
    iteration += VECTOR_NANOSECONDS * n_samples * n_outputs
    is_bounded = n_matrices * n_samples**2 <= LARGEST_FACTOR**2
    return is_bounded and making + solving <= TYPICAL_ITERATIONS * iteration
