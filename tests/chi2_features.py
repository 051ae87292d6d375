"""The chi-squared kernel by explicit features, in dense NumPy."""

from __future__ import annotations

import numpy as np
from oracles import dense


def features(X, points, weights=None):
    """Eq. 6 of chi2-linear-approximation: column ``t D + d`` is term t of dimension d, times ``sqrt(w_d)``."""
    x, remainder, terms = dense(X), 1.0, []
    for k in np.asarray(points):
        terms.append(remainder * 2 * np.sqrt(k) * x / (x + k))
        remainder = remainder * (x - k) / (x + k)
    roots = 1.0 if weights is None else np.sqrt(weights)
    return np.hstack([term * roots for term in terms])


def some_points(n_terms, n_columns, seed=5):
    return np.random.default_rng(seed).uniform(0.02, 0.5, (n_terms, n_columns))
