"""A linear system with ``K + diag(noise)`` as its parts: noise, what training samples say, options, solution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
from scipy import sparse

from histogp._core.data import Array
from histogp._core.groups import groups_of_rows
from histogp.io.schema import Reader, Writer

# Samples up to which a dense factor is faster than iterating.
MOST_DENSE_SAMPLES = 2_000
# Rows of a factor, features or samples, up to which its memory, half a gigabyte, is tolerable.
LARGEST_FACTOR = 8192
# What multiples of a weight may be off by, and how large they may be; and how many have no divisor by chance alone.
WHOLE_MULTIPLE, MOST_MULTIPLE, FEWEST_TOTALS = 1e-12, 1e9, 20
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


@dataclass(frozen=True, eq=False)
class TrainingTargets:
    """Targets and noise of samples; samples with equal features share a row of the operator.

    With the noise s_j of the samples of a row and ``P = sum_j 1 / s_j``, all that the row needs to know is the target
    ``sum_j y_j / s_j / P`` with the noise ``1 / P``: means and variances are those of all samples. What belongs to
    a sample follows from what belongs to its row.

    targets : (N, M)
    noise : of the samples
    row_of : (N,), the number of the row of each sample; None if each has a row of its own, in their order
    unit : the noise of a sample of weight one
    shared : the noise that a search is to see, if that is another one
    group_of : (N,), the numbers of groups of samples that are left out together, or None if there are none
    repeats : (N,), weights of samples without those of their classes; None if these have none
    has_labels : whether targets are labels of classes
    row_targets, row_noise : what the rows have, (n_rows, M) and their noise
    """

    targets: Array
    noise: Noise
    row_of: Array | None = None
    unit: float = 1.0
    shared: Noise | None = None
    group_of: Array | None = None
    repeats: Array | None = None
    has_labels: bool = False
    row_targets: Array = field(init=False)
    row_noise: Noise = field(init=False)

    def __post_init__(self) -> None:
        """Find what rows have; rows that have one sample each, in their order, are those of the samples."""
        if self.row_of is not None and np.array_equal(self.row_of, np.arange(len(self.row_of))):
            object.__setattr__(self, "row_of", None)
        targets, noise = (self.targets, self.noise) if self.row_of is None else self._merged()
        object.__setattr__(self, "row_targets", targets)
        object.__setattr__(self, "row_noise", noise)

    @property
    def largest_row_noise(self) -> Array:
        """The noise of the rows, (n_rows,), if that of every sample were its largest one of all outputs."""
        if self.noise.n_matrices == 1:
            return self.row_noise.sample
        largest = Noise(self.noise.diagonals().max(axis=1))
        return TrainingTargets(self.targets[:, :0], largest, self.row_of).row_noise.sample

    @property
    def weights(self) -> Array:
        """How often each sample counts, (N,)."""
        return self.unit / self.noise.sample

    @property
    def row_weights(self) -> Array:
        """How often each row counts, (n_rows,)."""
        return self._added_up(self.weights)

    @property
    def _repeats(self) -> Array:
        """Weights of samples without those of their classes, (N,)."""
        return self.weights if self.repeats is None else self.repeats

    @cached_property
    def unit_weight(self) -> float:
        """The weight of one sample: one, or the median of weights if that is less.

        Of labels it is what all weights of equal samples with one label are multiples of, if there is such a number:
        with m copies of every sample these are one, as with m for all weights.
        """
        if not len(self._repeats):
            return 1.0
        common = common_unit(self._label_weights[1], self._repeats) if self.has_labels else None
        return min(1.0, float(np.median(self._repeats))) if common is None else common

    @property
    def sample_counts(self) -> Array:
        """For how many samples each stands, where weights count like repeated ones, (N,)."""
        return self._repeats / self.unit_weight

    @cached_property
    def _label_weights(self) -> tuple[Array, Array]:
        """Numbers of samples, (N,), that equal ones with one label share; and the weight of these together."""
        if self.row_of is None:
            return np.arange(len(self._repeats)), self._repeats
        has_codes = self.has_labels and self.targets.shape[1] > 1
        labels = self.targets.argmax(axis=1)[:, None] if has_codes else self.targets
        order = np.lexsort((self._repeats, *labels.T, self.row_of))
        keys = np.column_stack([self.row_of, labels])[order]
        number = np.empty(len(order), int)
        number[order] = np.cumsum(np.append(0, np.any(keys[1:] != keys[:-1], axis=1)))
        return number, np.bincount(number[order], self._repeats[order])

    @property
    def row_counts(self) -> Array:
        """How many samples each row has, where weights count like repeated ones, (n_rows,)."""
        return self._added_up(self.sample_counts)

    @property
    def mean_weight(self) -> float:
        """The mean weight of a row, without weights of classes."""
        return mean_weight(self.row_counts, self.unit_weight)

    def _added_up(self, of_samples: Array) -> Array:
        """Sums over the samples of each row, (n_rows,), the same to the last bit whatever the order of samples is."""
        if self.row_of is None:
            return of_samples
        order = np.lexsort((of_samples, self.row_of))
        return np.bincount(self.row_of[order], of_samples[order])

    @property
    def row_scatter(self) -> Array | None:
        """The weighted squares of what targets differ from those of their row, (n_rows, M); None for zeros."""
        if self.row_of is None:
            return None
        squares = (self.targets - self.row_targets[self.row_of]) ** 2
        members, rows, place = self._repeated
        out = np.zeros_like(self.row_targets)
        out[rows] = _sums(place, (self.weights[:, None] * squares)[members], len(rows))
        return out

    @cached_property
    def row_groups(self) -> Array | None:
        """The numbers of groups of rows, (n_rows,), or None if there are none."""
        return None if self.group_of is None else groups_of_rows(self.group_of, self.row_of)

    @property
    def searched(self) -> TrainingTargets:
        """What a search is to see: noise that does not depend on labels."""
        return self if self.shared is None else replace(self, noise=self.shared, shared=None)

    def scaled(self, factor: float) -> TrainingTargets:
        """The targets with noise times a factor."""
        shared = None if self.shared is None else self.shared.scaled(factor)
        return replace(self, noise=self.noise.scaled(factor), unit=self.unit * factor, shared=shared)

    def of_samples(self, of_rows: Array) -> Array:
        """What rows have, (n_rows, ...), for each sample."""
        return of_rows if self.row_of is None else of_rows[self.row_of]

    def sample_alpha(self, alpha: Array) -> Array:
        """The solution for all samples, (N, M), from that for the rows, (n_rows, M)."""
        if self.row_of is None:
            return alpha
        own = self.noise.diagonals()
        share = self.of_samples(self.row_noise.diagonals()) / own
        return (self.targets - self.of_samples(self.row_targets)) / own + share * alpha[self.row_of]

    def log_scatter(self) -> float:
        """What the likelihood of all samples has beyond that of the rows, summed over outputs.

        ``-1/2 (sum_j (y_j - y)^2 / s_j + sum_j log(2 pi s_j) - log(2 pi / P))`` for each row of several samples, y its
        target: their density given what the row says.
        """
        if self.row_of is None:
            return 0.0
        members, rows, _ = self._repeated
        own, of_row = self.noise.subset(members).diagonals(), self.row_noise.subset(rows).diagonals()
        squares = (self.targets[members] - self.row_targets[self.row_of[members]]) ** 2 / own
        logarithms = np.log(2 * np.pi * own).sum() - np.log(2 * np.pi * of_row).sum()
        outputs_each = self.targets.shape[1] // own.shape[1]
        return -float(squares.sum() + outputs_each * logarithms) / 2

    def left_out(self, rows: Array, variances: Array, alpha: Array, *, units: bool = False) -> LeftOutSamples:
        """What would be predicted for the samples of some rows if each of them alone were not there.

        rows : (n,), ascending
        variances : (n, n_matrices) or (n, 1), latent, if all samples of the row were not there
        alpha : (n_rows, M), the solution for the rows
        units : a weight counts like repeated samples, of which one is left out, with all its copies; of less than one
            all of it
        """
        row_of = np.arange(len(self.targets)) if self.row_of is None else self.row_of
        index = np.flatnonzero(np.isin(row_of, rows))
        place, row = np.searchsorted(rows, row_of[index]), row_of[index]
        own = self.noise.subset(index).diagonals()
        if units:
            number, weights = self._label_weights
            equal = weights[number[index]] / self.unit_weight
            own = own * (self.sample_counts[index] / np.minimum(equal, 1.0))[:, None]
        of_row = self.row_noise.subset(rows).diagonals()[place]
        share = of_row / own
        found = np.array(np.broadcast_to(variances[place], own.shape))
        # The part of the variance of the row's target that is latent.
        latent = found / (found + of_row)
        np.divide(of_row * latent, 1 - share * latent, out=found, where=share < 1)
        targets = self.targets[index]
        sample_alpha = (targets - self.row_targets[row]) / own + share * alpha[row]
        return LeftOutSamples(index, place, targets - sample_alpha * (found + own), found)

    @cached_property
    def _repeated(self) -> tuple[Array, Array, Array]:
        """Samples that share their row, the rows that have several, and for each of the former which of the latter."""
        assert self.row_of is not None
        is_repeated = np.bincount(self.row_of) > 1
        members, rows = np.flatnonzero(is_repeated[self.row_of]), np.flatnonzero(is_repeated)
        # In an order of their own, so that sums are the same whatever the order of samples is.
        keys = (*self.targets[members].T, self.noise.sample[members], self.row_of[members])
        members = members[np.lexsort(keys)]
        return members, rows, np.searchsorted(rows, self.row_of[members])

    def _merged(self) -> tuple[Array, Noise]:
        """Targets and noise of rows that samples share; those of single samples are theirs to the last bit."""
        assert self.row_of is not None
        members, rows, place = self._repeated
        _, first = np.unique(self.row_of, return_index=True)
        n_rows = len(rows)
        first[rows] = members[np.searchsorted(place, np.arange(n_rows))]
        leaders = first[rows][place]
        # Precisions in units of that of the first sample: m equal ones come to its noise divided by m.
        ratio = self.noise.subset(leaders).diagonals() / self.noise.subset(members).diagonals()
        targets, noise = self.targets[first], self.noise.subset(first)
        means = _sums(place, ratio * self.targets[members], n_rows) / _sums(place, ratio, n_rows)
        # Rounding must not make equal targets differ.
        differ = _sums(place, (self.targets[members] != self.targets[leaders]).astype(float), n_rows) > 0
        targets[rows] = np.where(differ, means, targets[rows])
        sample = self.noise.sample
        ratio = sample[leaders] / sample[members]
        total = _sums(place, ratio[:, None], n_rows)
        noise.sample[rows] /= total[:, 0]
        output_of = self.noise.output_of
        if output_of is None:
            return targets, noise
        mixed = np.unique(place[output_of[members] != output_of[leaders]])
        shares = sparse.csr_array(
            (ratio, (place, output_of[members])), shape=(n_rows, self.noise.n_matrices)
        )[mixed].toarray()  # fmt: skip
        return targets, replace(noise, mixed=rows[mixed], shares=shares / total[mixed])


@dataclass(frozen=True, eq=False)
class LeftOutSamples:
    """Some samples, and what would be predicted for each if it were not there.

    index : (n,), their numbers; place : (n,), that of their row among the rows that were asked for
    means : (n, M); variances : (n, M) or (n, 1), latent
    """

    index: Array
    place: Array
    means: Array
    variances: Array


def common_unit(totals: Array, weights: Array) -> float | None:
    """The largest number of which all of some totals (n,) of weights (N,) are multiples; None if they have none.

    It is a multiple of the smallest weight; what rounding makes of multiples is overlooked. Few totals may have a
    divisor by chance, which is none.
    """
    if len(totals) < FEWEST_TOTALS:
        return None
    smallest = float(weights.min(initial=np.inf))
    multiples = totals / smallest
    whole = np.rint(multiples)
    if not np.all(np.abs(multiples - whole) <= WHOLE_MULTIPLE * whole) or multiples.max(initial=0) > MOST_MULTIPLE:
        return None
    return smallest * int(np.gcd.reduce(whole.astype(np.int64)))


def mean_weight(counts: Array, unit_weight: float) -> float:
    """The mean weight of rows that have so many samples, (n_rows,), of a weight; whatever their order is."""
    return unit_weight * float(np.sort(counts).mean())


def _sums(group_of: Array, values: Array, n_groups: int) -> Array:
    """Sums of values (n, k) over groups with these numbers (n,), (n_groups, k)."""
    entries = np.ones(len(values)), (group_of, np.arange(len(values)))
    return sparse.csr_array(entries, shape=(n_groups, len(values))) @ values


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
