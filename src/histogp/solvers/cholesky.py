"""Dense factors, for few rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lapack

from histogp.storage import Array

# Up to here a dense factor is faster than iterating.
SMALL_N = 2_000
# Panels that are joined when there are more: each costs two calls of BLAS in every solution.
MOST_PANELS = 32


def is_small(n_rows: int, n_matrices: int) -> bool:
    """Whether the dense factors of ``n_matrices`` matrices cost no more than one at the small-N limit."""
    return n_matrices * n_rows**3 <= SMALL_N**3


@dataclass(frozen=True, eq=False)
class Factor:
    """A lower triangular L with ``L L^T = A``, in panels of rows, so that an extension shares those that are there.

    panels : pairs of what is left of the diagonal, (m, rows before), and the triangle on it, (m, m), whose upper
        half is undefined
    """

    panels: tuple[tuple[Array, Array], ...]

    @classmethod
    def of(cls, matrix: Array, diagonal: Array) -> Factor:
        """For ``A = matrix + diag(diagonal)``."""
        return cls(((np.empty((len(matrix), 0)), _triangle(matrix, diagonal)),))

    @property
    def n_rows(self) -> int:
        left, triangle = self.panels[-1]
        return left.shape[1] + len(triangle)

    def solve(self, sides: Array) -> Array:
        """``A^-1 b`` for each column of b (N, M)."""
        if len(self.panels) == 1:
            return cho_solve((self.panels[0][1], True), sides, check_finite=False)
        out = self._half_solved(sides)
        for left, triangle in reversed(self.panels):
            before, own = slice(0, left.shape[1]), slice(left.shape[1], left.shape[1] + len(triangle))
            out[own] = lapack.dtrtrs(triangle, out[own], lower=1, trans=1)[0]
            out[before] -= left.T @ out[own]
        return out

    def extended(self, border: Array, corner: Array, diagonal: Array) -> Factor:
        """For A bordered by columns (N, m), and ``corner + diag(diagonal)``, (m, m), where these meet."""
        left = self._half_solved(border).T
        triangle = _triangle(corner - left @ left.T, diagonal)
        panels = (*self.panels, (left, triangle))
        return Factor(panels) if len(panels) <= MOST_PANELS else Factor((_joined(panels),))

    def _half_solved(self, sides: Array) -> Array:
        """``L^-1 b``."""
        out = np.array(sides)
        for left, triangle in self.panels:
            before, own = slice(0, left.shape[1]), slice(left.shape[1], left.shape[1] + len(triangle))
            out[own] = lapack.dtrtrs(triangle, out[own] - left @ out[before], lower=1)[0]
        return out


def _triangle(matrix: Array, diagonal: Array) -> Array:
    system = matrix.copy()
    system[np.diag_indices_from(system)] += diagonal
    try:
        return cho_factor(system.T, lower=True, overwrite_a=True, check_finite=False)[0]
    except LinAlgError:
        raise ValueError(
            f"The kernel matrix with noise {diagonal.min():g} is not positive definite in float64; "
            f"use a larger noise, at least about {1e-14 * matrix.diagonal().sum():.0e} here."
        ) from None


def _joined(panels: tuple[tuple[Array, Array], ...]) -> tuple[Array, Array]:
    n_rows = sum(len(triangle) for _, triangle in panels)
    out = np.empty((n_rows, n_rows), order="F")
    for left, triangle in panels:
        first, last = left.shape[1], left.shape[1] + len(triangle)
        out[first:last, :first] = left
        out[first:last, first:last] = triangle
    return np.empty((n_rows, 0)), out
