"""The diagonal that is added to the kernel matrix."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from histogp.storage import Array


@dataclass(frozen=True, eq=False)
class Noise:
    """One diagonal for all right-hand sides, or one a one-vs-rest problem.

    sample : (N,) noise variance of each row.
    problem_of : (N,) or None; the number of the problem in which a row is positive.
    positive, negative : (M,) or None; factors on ``sample`` for the positive and the other rows of
        each problem: label-dependent noise (supplement of gp-hik-eccv2012, section S1).
    """

    sample: Array
    problem_of: Array | None = None
    positive: Array | None = None
    negative: Array | None = None

    @property
    def is_per_problem(self) -> bool:
        return self.problem_of is not None

    @property
    def n_matrices(self) -> int:
        """How many diagonals there are: one, or one a problem."""
        return 1 if self.positive is None else len(self.positive)

    def diagonals(self) -> Array:
        """The diagonals as columns: (N, 1), or (N, M) with one a problem."""
        if self.problem_of is None or self.positive is None or self.negative is None:
            return self.sample[:, None]
        diagonals = self.sample[:, None] * self.negative
        diagonals[np.arange(len(self.sample)), self.problem_of] = self.sample * self.positive[self.problem_of]
        return diagonals

    def scaled(self, factor: float) -> Noise:
        return replace(self, sample=self.sample * factor)

    def subset(self, rows: Array) -> Noise:
        """The noise of some rows."""
        problem_of = None if self.problem_of is None else self.problem_of[rows]
        return replace(self, sample=self.sample[rows], problem_of=problem_of)
