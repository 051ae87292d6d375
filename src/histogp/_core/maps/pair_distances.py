"""The chi-squared kernel and distance of pairs, and the inverse width that suits data."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import eigh

from histogp._core._numba import chi2_loops
from histogp._core.data import Array, Rows, plain
from histogp._core.threads import over_rows

# Pairs of values in a call of the leaf for the kernel.
PAIRS_AT_ONCE = 2**24


def chi2_matrix(
    left: Array,
    right: Array,
    *,
    factors: tuple[Array, Array] | None = None,
    weights: Array | None = None,
    n_threads: int = 1,
) -> Array:
    """``sum_d w_d 2 x_d y_d / (x_d + y_d)`` for all pairs of dense rows, (n, m); each summand times both factors."""
    left, right = plain(left, np.float64), plain(right, np.float64)
    if factors is None:
        factors = np.broadcast_to(1.0, left.shape), np.broadcast_to(1.0, right.shape)
    given = [plain(factor, np.float64) for factor in factors]
    weights = np.ones(left.shape[1]) if weights is None else plain(weights, np.float64)
    out = np.empty((len(left), len(right)))
    over_rows(
        lambda some: chi2_loops.chi2_sums(left, right, *given, weights, some.start, some.stop, out),
        len(left),
        n_threads,
        max(1, PAIRS_AT_ONCE // max(1, right.size)),
    )
    return out


# Samples whose distances give beta.
BETA_SAMPLES = 500
# Candidates for beta, in units of one over the median, and for the noise, in parts of the kernel's diagonal.
BETA_FACTORS = 2.0 ** np.arange(-4, 4.5, 0.5)
NOISE_SHARES = np.logspace(-4, 1, 21)


def exp_chi2_matrix(left: Array, right: Array, beta: float, n_threads: int = 1) -> Array:
    """The kernel itself for all pairs of dense rows, (n, m)."""
    return np.exp(-beta * chi2_distances(left, right, n_threads))


def chi2_distances(left: Array, right: Array, n_threads: int = 1) -> Array:
    """``sum_d (x_d - y_d)^2 / (x_d + y_d) / 2`` for all pairs of dense rows, (n, m)."""
    sums = left.sum(axis=1, dtype=np.float64)[:, None] + right.sum(axis=1, dtype=np.float64)
    return np.maximum(sums / 2 - chi2_matrix(left, right, n_threads=n_threads), 0.0)


def inverse_median(X: Any) -> float:
    """One over the median of chi2 between some rows, of an array, CSR or `Rows`.

    Where most pairs are equal rows, such as empty ones, it is that of the others; one if there are none.
    """
    rows = _some_rows(X)
    distances = chi2_distances(rows, rows)[np.triu_indices(len(rows), 1)]
    least = 1e-12 * float(rows.sum(axis=1, dtype=np.float64).max(initial=0.0))  # below, they are rounding
    if len(distances) and not np.median(distances) > least:
        distances = distances[distances > least]
    return 1 / float(np.median(distances)) if len(distances) else 1.0


def most_likely(X: Any, targets: Array) -> float:
    """The beta under which targets (n, k) of some rows are most likely, with the best scale and noise for each."""
    rows = _some_rows(X)
    targets = targets[_chosen(len(targets))]
    distances = chi2_distances(rows, rows)
    center = inverse_median(X)
    return center * float(
        max(BETA_FACTORS, key=lambda width: _log_likelihood(np.exp(-center * width * distances), targets))
    )


def _log_likelihood(kernel: Array, targets: Array) -> float:
    """The log-likelihood of a process with this covariance, up to a constant."""
    values, vectors = eigh(kernel, overwrite_a=True, check_finite=False)
    squares = np.sum((vectors.T @ targets) ** 2, axis=1)
    n_values = len(values) * targets.shape[1]

    def at(noise: float) -> float:
        spread = np.maximum(values, 0.0) + noise
        scale = max(float(np.sum(squares / spread)) / n_values, np.finfo(float).tiny)
        return -n_values * np.log(scale) / 2 - targets.shape[1] * float(np.log(spread).sum()) / 2

    return max(map(at, NOISE_SHARES))


def _some_rows(X: Any) -> Array:
    return Rows.some_of(X, _chosen(X.shape[0])).to_dense()


def _chosen(n_rows: int) -> Array:
    """Numbers of some rows, always the same; by chance, because labels may alternate in step with the rows."""
    if n_rows <= BETA_SAMPLES:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(0).choice(n_rows, BETA_SAMPLES, replace=False))
