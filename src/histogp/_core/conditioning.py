"""What further observations would change: batches of test rows, and predictions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import log_ndtr, ndtr

from histogp._core.data import Array, Rows
from histogp._core.layouts import Layout
from histogp._core.predictors import Table
from histogp._core.solvers.system import System
from histogp._core.variance.precise import kernel_columns

# Test rows whose variance is brought up to date together.
AT_ONCE = 512
Quality = Callable[[Array, Array], Array]  # of the variances of some test rows, (n,), and their numbers, (n,)


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
        kernel = np.concatenate([block.T for _, block in self._operator.cross(row)], axis=1)
        solution = self._system.solve(kernel, self._tol)
        prior = self._operator.cross_diagonal(row)[0]
        variance = prior - np.vdot(kernel + solution.remainder, solution.values) - explained @ explained
        self._factor.append(np.append(explained, np.sqrt(max(variance, 0.0) + self._noise)))
        self._tables.append(self._operator.table(solution.values))
        self._rows.append(row)

    def explained(self, rows: Rows, known: Array) -> Array:
        """``L^-1 C(chosen, x)`` for each test row, (n, len(self)), of which the first columns are ``known``."""
        first = known.shape[1]
        out = np.hstack([known, np.empty((rows.n_rows, len(self) - first))])
        for k in range(first, len(self)):
            prior = self._operator.cross_matrix(rows, self._rows[k])[:, 0]
            covariance = prior - self._tables[k].evaluate(rows, self._system.options.n_threads)[:, 0]
            *left, own = self._factor[k]
            out[:, k] = (covariance - out[:, :k] @ np.asarray(left)) / own
        return out


def choose_batch(
    observed: Observed,
    take: Callable[[Array], Rows],
    variances: Array,
    quality: Quality,
    n_rows: int,
    history: list[Array] | None = None,
) -> tuple[Array, Array]:
    """The numbers of ``n_rows`` test rows in the order of their choice, and the quality each had when it was chosen.

    Parameters
    ----------
    take : function from numbers of test rows to these rows
    variances : (n,), latent, before anything is observed
    quality : must not rise when variances fall. So only the best rows need their variances of now, not all of them:
        most are no longer in question with their variances of before.
    history : takes the qualities of all rows at each choice, minus infinity for those chosen before
    """
    variances = variances.copy()
    everything = np.arange(len(variances))
    qualities = quality(variances, everything)
    if np.isnan(qualities).any():
        raise ValueError("Means or variances of the pool are not numbers; its features may be too large.")
    explained = np.zeros((len(variances), n_rows))
    n_seen = np.zeros(len(variances), int)
    chosen: list[int] = []
    found: list[float] = []
    while len(chosen) < min(n_rows, len(variances)):
        best = int(np.argmax(qualities))
        if n_seen[best] == len(observed) and (history is None or len(history) == len(chosen) + 1):
            chosen.append(best)
            found.append(float(qualities[best]))
            qualities[best] = -np.inf
            if len(chosen) < n_rows:
                observed.add(take(np.array([best])))
            continue
        all_of_them = len(everything) <= AT_ONCE or history is not None
        # The best itself may be left out by chance where many are as good.
        top = everything if all_of_them else np.append(np.argpartition(-qualities, AT_ONCE)[:AT_ONCE], best)
        for n_known in np.unique(n_seen[top]):
            some = np.unique(top[(n_seen[top] == n_known) & (qualities[top] > -np.inf)])
            if n_known < len(observed) and len(some):
                now = observed.explained(take(some), explained[some, :n_known])
                explained[some, : len(observed)] = now
                variances[some] -= np.sum(now[:, n_known:] ** 2, axis=1)
                qualities[some] = quality(np.maximum(variances[some], 0.0), some)
                n_seen[some] = len(observed)
        if history is not None:
            history.append(qualities.copy())
    return np.array(chosen, int), np.array(found)


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
