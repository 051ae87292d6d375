"""Operators as an estimator makes them, and chi-squared kernels whose features do not depend on data."""

from __future__ import annotations

import numpy as np

from histogp._core.maps.additive import Direct
from histogp.kernels import Chi2, ExpChi2


def kernel_operator(X, kernel, n_threads=1):
    """The kernel matrix of X."""
    adapted = kernel._adapt(X)
    return adapted.kernel._operator(adapted.value, X, n_threads)


class FixedChi2(Chi2):
    """With points (n_terms, n_features) that are given."""

    def __init__(self, points=None, *, n_terms=3, tol=1e-3, weights=None, groups=None):
        super().__init__(n_terms, tol=tol, weights=weights, groups=groups)
        self.points = points

    def _map(self, X):
        return Direct(np.asarray(self.points, float))


class FixedExpChi2(ExpChi2):
    """With a feature map that is given."""

    def __init__(self, map=None, *, beta=1.0, weights=None):
        super().__init__(beta=beta, weights=weights)
        self.map = map

    def _map(self, X):
        return self.map


def map_of(model):
    """What a fitted model has from its training data."""
    return model._posterior.operator.kernel.map
