"""What training samples say: their targets and noise, and those of the rows that equal samples share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse

from histogp._core.data import Array
from histogp._core.solvers.problem import Noise


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
    """

    targets: Array
    noise: Noise
    row_of: Array | None = None
    unit: float = 1.0
    shared: Noise | None = None

    @property
    def row_targets(self) -> Array:
        """Targets of the rows, (n_rows, M)."""
        return self._merged[0]

    @property
    def row_noise(self) -> Noise:
        """Noise of the rows."""
        return self._merged[1]

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
        return self.weights if self.row_of is None else np.bincount(self.row_of, self.weights)

    @property
    def row_scatter(self) -> Array | None:
        """The weighted squares of what targets differ from those of their row, (n_rows, M); None for zeros."""
        if self.row_of is None:
            return None
        squares = (self.targets - self.row_targets[self.row_of]) ** 2
        return _sums(self.row_of, self.weights[:, None] * squares, len(self.row_targets))

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
        units : a weight counts like repeated samples, of which one is left out; of a weight below one all of it
        """
        row_of = np.arange(len(self.targets)) if self.row_of is None else self.row_of
        index = np.flatnonzero(np.isin(row_of, rows))
        place, row = np.searchsorted(rows, row_of[index]), row_of[index]
        own = self.noise.subset(index).diagonals()
        if units:
            own = own * np.maximum(self.weights[index], 1.0)[:, None]
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
        return members, rows, np.searchsorted(rows, self.row_of[members])

    @cached_property
    def _merged(self) -> tuple[Array, Noise]:
        """Targets and noise of the rows; those of single samples are theirs to the last bit."""
        if self.row_of is None:
            return self.targets, self.noise
        members, rows, place = self._repeated
        _, first = np.unique(self.row_of, return_index=True)
        leaders = first[rows][place]
        n_rows = len(rows)
        # Precisions in units of that of the first sample: m equal ones come to its noise divided by m.
        ratio = self.noise.subset(leaders).diagonals() / self.noise.subset(members).diagonals()
        targets, noise = self.targets[first], self.noise.subset(first)
        targets[rows] = _sums(place, ratio * self.targets[members], n_rows) / _sums(place, ratio, n_rows)
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


def _sums(group_of: Array, values: Array, n_groups: int) -> Array:
    """Sums of values (n, k) over groups with these numbers (n,), (n_groups, k)."""
    entries = np.ones(len(values)), (group_of, np.arange(len(values)))
    return sparse.csr_array(entries, shape=(n_groups, len(values))) @ values
