"""Random features of the exponential chi-squared kernel, ``exp(-beta chi2(x, y))``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh

from histogp.blas import over_rows
from histogp.maps.additive import AdditiveMap
from histogp.maps.expand import chi2_matrix, expand
from histogp.maps.fourier import normal_frequencies, waves
from histogp.storage import Array, Rows

# Rows whose distances give beta.
SAMPLED_ROWS = 500
# Candidates for beta, in units of one over the median, and for the noise, in parts of the kernel's diagonal.
WIDTHS = 2.0 ** np.arange(-4, 4.5, 0.5)
NOISES = np.logspace(-4, 1, 21)
# Numbers of a block of angles.
BLOCK = 2**22


@dataclass(frozen=True, eq=False)
class RandomWaves:
    """Waves over the terms of an additive map.

    frequencies : (n_terms D, n), with the root of beta
    phases : (0,), or (1,) of the last wave, if that has no pair
    """

    additive: AdditiveMap
    frequencies: Array
    phases: Array

    @classmethod
    def draw(
        cls, additive: AdditiveMap, n_columns: int, n_outputs: int, beta: float, sampling: str, rng: np.random.Generator
    ) -> RandomWaves:
        n_pairs, n_phases = divmod(n_outputs, 2)
        drawn = normal_frequencies(sampling, additive.n_terms * n_columns, n_pairs + n_phases, rng)
        frequencies = (np.sqrt(beta) * drawn).astype(np.float32)
        return cls(additive, frequencies, rng.uniform(0, 2 * np.pi, n_phases))

    @property
    def n_outputs(self) -> int:
        return 2 * self.frequencies.shape[1] - len(self.phases)

    def transform(self, X: Any, n_threads: int = 1) -> Array:
        """The features of rows (n, D), dense or CSR, in their precision: (n, n_outputs), dense."""
        out = np.empty((X.shape[0], self.n_outputs), X.dtype)
        frequencies = self.frequencies.astype(X.dtype, copy=False)
        step = max(1, BLOCK // max(frequencies.shape))
        for begin in range(0, X.shape[0], step):
            angles = np.asarray(expand(self.additive, X[begin : begin + step], n_threads) @ frequencies)
            block = out[begin : begin + step]
            over_rows(lambda some: waves(angles[some], self.phases, block[some]), len(block), n_threads)  # noqa: B023
        return out


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
    centre = inverse_median(X)
    return centre * float(max(WIDTHS, key=lambda width: _log_likelihood(np.exp(-centre * width * distances), targets)))


def _log_likelihood(kernel: Array, targets: Array) -> float:
    """Of a process with this covariance, up to a constant."""
    values, vectors = eigh(kernel, overwrite_a=True, check_finite=False)
    squares = np.sum((vectors.T @ targets) ** 2, axis=1)
    n_values = len(values) * targets.shape[1]

    def at(noise: float) -> float:
        spread = np.maximum(values, 0.0) + noise
        scale = max(float(np.sum(squares / spread)) / n_values, np.finfo(float).tiny)
        return -n_values * np.log(scale) / 2 - targets.shape[1] * float(np.log(spread).sum()) / 2

    return max(map(at, NOISES))


def _some_rows(X: Any) -> Array:
    if isinstance(X, Rows):
        return X.take(_chosen(X.n_rows)).to_dense()
    return Rows.from_array(X[_chosen(X.shape[0])]).to_dense()


def _chosen(n_rows: int) -> Array:
    """Numbers of some rows, always the same; by chance, because labels may alternate in step with the rows."""
    if n_rows <= SAMPLED_ROWS:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(0).choice(n_rows, SAMPLED_ROWS, replace=False))
