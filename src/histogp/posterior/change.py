"""How much an observation would change the predictions (Freytag, Rodner and Denzler, 2014)."""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr, ndtr

from histogp.operators.base import Layout
from histogp.posterior.precise import kernel_columns
from histogp.solvers.system import System
from histogp.storage import Array, Rows

# Training rows up to which kernel values are quicker than tables, and the nodes of these in each dimension.
FEW_ROWS = 512
NODES = 64
# Points of the integral over the value of the winning class.
POINTS = 64
FARTHEST = 8.0


class Covariances:
    """Posterior covariances between test rows and a few rows of reference: exact up to 512 training rows.

    Above that they are read from tables at 64 nodes in each dimension.
    """

    def __init__(self, system: System, reference: Rows, tol: float):
        operator = system.operator
        self._operator = operator
        self._n_threads = system.options.n_threads
        self._reference = reference
        sides = [system.solve(columns, tol).values for _, columns in kernel_columns(operator, reference)]
        self._solutions = np.concatenate(sides, axis=1)
        self._layout: Layout | None = None
        if operator.n_rows > FEW_ROWS:
            self._layout = operator.layout(NODES)
            self._table = operator.tabulate(self._layout, self._solutions).astype(np.float32)

    def evaluate(self, rows: Rows) -> Array:
        """(n, m) for n test rows and m of reference."""
        out = self._operator.cross_matrix(rows, self._reference)
        if self._layout is not None:
            return out - self._layout.read(self._table, self._layout.locate(rows, self._n_threads), self._n_threads)
        for some, kernel in self._operator.cross(rows):
            out[some] -= kernel @ self._solutions
        return out


def expected_change(covariances: Array, means: Array, variances: Array, noise: float) -> Array:
    """The mean absolute change of the predictions at the rows of reference, expected over the label, (n,).

    A label y at x' changes the mean at x by ``C(x, x') (y - m(x')) / (C(x', x') + noise)``. Of several problems the
    changes are averaged. covariances (n, m), means (n, M), variances (n,), latent.
    """
    total = variances + noise
    positive = probabilities(means, np.sqrt(total))
    surprise = positive * np.abs(1 - means) + (1 - positive) * np.abs(1 + means)
    return np.abs(covariances).mean(axis=1) * surprise.mean(axis=1) / total


def probabilities(means: Array, deviations: Array) -> Array:
    """That each class has the largest value, (n, M); for one problem (n, 1), that it is positive.

    The values are independent and normal, with one standard deviation (n,) for all classes.
    """
    scaled = means / deviations[:, None]
    if means.shape[1] == 1:
        return ndtr(scaled)
    # The winner has the value t, and all others a lower one.
    scaled = scaled - scaled.max(axis=1, keepdims=True)
    t, step = np.linspace(-FARTHEST, FARTHEST, POINTS, retstep=True)
    below = log_ndtr(t[:, None, None] - scaled)
    density = -((t[:, None, None] - scaled) ** 2) / 2 - np.log(2 * np.pi) / 2
    out = np.exp(density + below.sum(axis=2, keepdims=True) - below).sum(axis=0) * step
    return out / out.sum(axis=1, keepdims=True)
