"""What a solver returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from histogp.storage import Array

# Called after every iteration with its number (from 1), the residuals of the right-hand sides that are
# not solved yet, relative to their largest entries, and a function that returns the present solution;
# true stops the solver.
Callback = Callable[[int, Array, Callable[[], Array]], bool]


@dataclass(frozen=True, eq=False)
class Solution:
    """The solution (N, M), what it cost, and the true float64 residuals ``max|r| / max|b|``, (M,).

    ``remainder`` (N, M) is ``b - A x``, in float64.

    ``steps`` (n, M) and ``ratios`` (n - 1, M) are the coefficients of conjugate gradients up to the first restart, NaN
    where a column was left out; none for other solvers and from a start other than zero.
    """

    values: Array
    remainder: Array
    residuals: Array
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
