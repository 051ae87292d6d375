"""The predictive mean in time independent of N, and how far it may be from the exact one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from histogp.operators.base import Grid, GridTable, Reading
from histogp.storage import Array, Rows

BoundKind = Literal["worst-case", "linear", "assumption-free", "theorem", "a-priori"]


@dataclass(frozen=True, eq=False)
class QuantizedMean:
    """``k(x)^T alpha`` read from a table.

    weight_norms : (M,), ``||alpha||_1`` of each problem
    weight_bounds : (M,), what is known of them before the system is solved
    """

    table: GridTable
    grid: Grid
    weight_norms: Array
    weight_bounds: Array

    def mean(self, rows: Rows, reading: Reading, n_threads: int = 1) -> Array:
        """Approximate means, (n, M)."""
        return self.table.evaluate(rows, n_threads, reading)

    def error_bound(self, kind: BoundKind) -> Array:
        """Bound of ``|mean - exact mean|`` for each problem, (M,).

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
