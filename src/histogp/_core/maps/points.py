"""Where the direct expansion is exact: its parameters, chosen for the distribution of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize, sparse

from histogp._core.data import Array, Rows
from histogp._core.maps.additive import SIGNATURES, Direct, sampled
from histogp._core.maps.pair_distances import chi2_matrix

# Logarithmically spaced bins of the histogram of all values.
HISTOGRAM_BINS = 200
# Values that are enough to know a distribution.
MOST_VALUES = 2**20
# Samples whose pairs decide how many terms are enough.
PAIRED_SAMPLES = 256
# More terms reach rounding, for any data.
ENOUGH_TERMS = 64


@dataclass(frozen=True, eq=False)
class Distribution:
    """The non-zero values of all columns, each in units of the scale of its column, in one histogram.

    values : (B,), the centers of logarithmically spaced bins
    counts : (B,), weights of the values there
    scales : (D,)
    """

    values: Array
    counts: Array
    scales: Array

    @classmethod
    def of(cls, rows: Rows, *, by_column: bool) -> Distribution:
        """The distribution of values with a scale for every column, or in the units of the features.

        A column's scale is ``sum x^1.5 / sum x^0.5``: where its values matter most to the kernel. Empty columns have
        that of the others.
        """
        if len(rows.values) == 0:
            return cls(np.ones(1), np.ones(1), np.ones(rows.n_columns))
        scales = np.ones(rows.n_columns)
        weights = None
        if by_column:
            largest = rows.values.max()
            relative = rows.values / largest
            above, below = (
                np.bincount(rows.column_of, relative**power, minlength=rows.n_columns) for power in (1.5, 0.5)
            )
            present = above > 0
            scales[present] = largest * above[present] / below[present]
            scales[~present] = np.exp(np.log(scales[present]).mean())
            weights = rows.expand(scales / scales.max())
        values = rows.values / rows.expand(scales)
        edges = np.geomspace(values.min(), values.max() * (1 + 1e-9), HISTOGRAM_BINS + 1)
        counts, _ = np.histogram(values, edges, weights=weights)
        return cls(np.sqrt(edges[1:] * edges[:-1]), counts / counts.max(), scales)

    def kernel(self) -> Array:
        """How much every pair of bins contributes to the sum of all kernel values, (B, B)."""
        x = self.values
        weights = self.counts[:, None] * self.counts * 2 * x[:, None] * x / (x[:, None] + x)
        return weights / weights.sum()


def typical_rows(X: Any) -> Rows:
    """Evenly spaced rows of an array, CSR or `Rows`, about as many as have `MOST_VALUES` values."""
    if isinstance(X, Rows):
        step = max(1, len(X.values) // MOST_VALUES)
        return X if step == 1 else X.take(np.arange(0, X.n_rows, step))
    size = X.nnz if sparse.issparse(X) else X.size
    return Rows.from_array(X[:: max(1, size // MOST_VALUES)])


def greedy_points(data: Distribution, n_terms: int) -> Array:
    """Algorithm 1 of chi2-linear-approximation, (n_terms,).

    The paper bounds values by one; here it is the largest, so that features may be in any unit.
    """
    x = data.values
    error = x / (x + x.max()) * data.counts
    points = np.empty(n_terms)
    for k in range(n_terms):
        points[k] = x[np.argmax(np.abs(error))]
        error = error * (x - points[k]) / (x + points[k])
    return points


def refined_points(data: Distribution, n_terms: int) -> Array:
    """Points that make the sum of all absolute errors small, from those of Algorithm 1, (n_terms,)."""
    kernel = data.kernel()
    total = data.counts * data.values
    shares = np.cumsum(total) / total.sum()
    # Of two starts the better one: the greedy points, and quantiles of the sum of all values.
    quantiles = data.values[np.searchsorted(shares, (np.arange(n_terms) + 0.5) / n_terms)]
    starts = [np.log(points) for points in (greedy_points(data, n_terms), quantiles)]
    bounds = [(np.log(data.values[0]), np.log(data.values[-1]))] * n_terms
    found = [
        optimize.minimize(_log_error, start, (data.values, kernel), "L-BFGS-B", jac=True, bounds=bounds)
        for start in starts
    ]
    return np.exp(min(found, key=lambda result: result.fun).x)


def _log_error(log_points: Array, x: Array, kernel: Array) -> tuple[float, Array]:
    """The logarithm of the relative error, and its derivative."""
    points = np.exp(log_points)
    factors = (x[:, None] - points) / (x[:, None] + points)
    remainders = np.abs(np.prod(factors, axis=1))
    product = kernel @ remainders
    error = remainders @ product
    # d log|(x - k) / (x + k)| by log k; where the remainder is zero, it does not matter
    ratios = x[:, None] / points
    difference = 1 / ratios - ratios
    slopes = np.divide(2.0, difference, where=difference != 0, out=np.zeros_like(difference))
    return float(np.log(error + 1e-300)), 2 * (remainders * product) @ slopes / (error + 1e-300)


def pair_error(direct: Direct, rows: Array) -> float:
    """``sum |error| / sum kernel`` over all pairs of dense rows and all features (eq. 7)."""
    remainders = np.abs(direct.remainders(rows))
    total = chi2_matrix(rows, rows).sum()
    return float(chi2_matrix(rows, rows, factors=(remainders, remainders)).sum() / total) if total > 0 else 0.0


def direct_map(rows: Rows, n_terms: int | None, tol: float, *, refine: bool = True) -> Direct:
    """The expansion for these rows: with ``n_terms``, or as few as meet the relative error ``tol``."""
    data = Distribution.of(rows, by_column=refine)
    choose = refined_points if refine else greedy_points

    def with_terms(n_terms: int) -> Direct:
        points = np.sort(choose(data, n_terms))[::-1]
        return Direct(np.ascontiguousarray(points[:, None] * data.scales))

    if n_terms is not None:
        return with_terms(n_terms)
    step = -(-rows.n_rows // PAIRED_SAMPLES)
    sample = rows.take(np.arange(0, rows.n_rows, step)).to_dense()
    return next(
        found
        for n_terms in range(1, ENOUGH_TERMS + 1)
        if pair_error(found := with_terms(n_terms), sample) <= tol or n_terms == ENOUGH_TERMS
    )


def best_interval(rows: Rows, kernel: str, n_terms: int) -> float:
    """The sampling interval of the spectrum with the smallest error over all pairs of values."""
    data = Distribution.of(rows, by_column=False)
    ratios = np.log(data.values[:, None] / data.values)
    weights = data.counts[:, None] * data.counts * np.sqrt(data.values[:, None] * data.values)
    exact = SIGNATURES[kernel](ratios)

    def error(interval: float) -> float:
        additive = sampled(kernel, n_terms, interval)
        waves = np.cos(interval * np.arange(len(additive.density))[:, None, None] * ratios)
        factors = np.where(np.arange(len(additive.density)) > 0, 2.0, 1.0) * additive.density * interval
        return float(np.sum(weights * np.abs(exact - np.tensordot(factors, waves, 1))))

    return float(optimize.minimize_scalar(error, bounds=(0.02, 2.0), method="bounded").x)


def geometric_mean(rows: Rows) -> float:
    """The geometric mean of the non-zero values; one if there are none."""
    return float(np.exp(np.log(rows.values).mean())) if len(rows.values) else 1.0
