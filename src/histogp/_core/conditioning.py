"""What further observations would change: variances and predictions of test rows."""

from __future__ import annotations

import numpy as np

from histogp._core.data import Array, Rows
from histogp._core.layouts import Layout
from histogp._core.operators.contract import Tables, cross_blocks, prior_covariance
from histogp._core.predictors import Table
from histogp._core.solvers.system import System, kernel_columns


class Observed:
    """What observations at further rows, whose values need not be known, take away from the variance.

    With the covariances C of the posterior, and the factor L of ``C(chosen, chosen) + noise``, they explain the squared
    norm of ``L^-1 C(chosen, x)``. Each observation takes one solution; C with all other rows is then read from a table.
    """

    def __init__(self, system: System, noise: float, tol: float):
        self._system = system
        self._operator = system.operator
        self._noise = noise
        self._tol = tol
        self._rows: list[Rows] = []
        self._tables: list[Table] = []
        self._factor: list[Array] = []  # the rows of L

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: Rows) -> None:
        """Count one more row as observed."""
        explained = self.explained(row, np.empty((1, 0)))[0]
        kernel = self._operator.cross(row).T
        solution = self._system.solve(kernel, self._tol)
        prior = self._operator.diagonal(row)[0]
        variance = prior - np.vdot(kernel + solution.residual, solution.values) - explained @ explained
        self._factor.append(np.append(explained, np.sqrt(max(variance, 0.0) + self._noise)))
        self._tables.append(self._operator.table(solution.values))
        self._rows.append(row)

    def explained(self, rows: Rows, known: Array) -> Array:
        """``L^-1 C(chosen, x)`` for each test row, (n, len(self)), of which the first columns are ``known``."""
        first = known.shape[1]
        out = np.hstack([known, np.empty((rows.n_rows, len(self) - first))])
        for k in range(first, len(self)):
            prior = prior_covariance(self._operator, rows, self._rows[k])[:, 0]
            covariance = prior - self._tables[k].evaluate(rows, self._system.options.n_threads)[:, 0]
            *left, own = self._factor[k]
            out[:, k] = (covariance - out[:, :k] @ np.asarray(left)) / own
        return out


# Training samples up to which kernel values are quicker than tables, and the nodes of these in each dimension.
MOST_EXACT_SAMPLES = 512
NODES_PER_FEATURE = 64


class Covariances:
    """Posterior covariances between test rows and a few rows of reference: exact up to 512 training samples.

    Above that they are read from tables at 64 nodes in each dimension.
    """

    def __init__(self, system: System, reference: Rows, tol: float):
        """Solve for the kernel columns of the reference to ``tol``, and tabulate the solutions of many samples."""
        operator = system.operator
        self._operator = operator
        self._n_threads = system.options.n_threads
        self._reference = reference
        sides = [system.solve(columns, tol).values for _, columns in kernel_columns(operator, reference)]
        self._solutions = np.concatenate(sides, axis=1)
        self._layout: Layout | None = None
        tables = operator.offer(Tables)
        if tables is not None and operator.n_samples > MOST_EXACT_SAMPLES:
            self._layout = tables.layout(NODES_PER_FEATURE)
            self._table = tables.tabulate(self._layout, self._solutions).astype(np.float32)

    def evaluate(self, rows: Rows) -> Array:
        """Posterior covariances, (n, m), between n test rows and the m rows of reference."""
        out = prior_covariance(self._operator, rows, self._reference)
        if self._layout is not None:
            return out - self._layout.read(self._table, self._layout.locate(rows, self._n_threads), self._n_threads)
        for some, kernel in cross_blocks(self._operator, rows):
            out[some] -= kernel @ self._solutions
        return out
