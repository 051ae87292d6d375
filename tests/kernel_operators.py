"""Operators as an estimator makes them, and chi-squared kernels whose features do not depend on data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from histogp._core.data import Rows
from histogp._core.maps.additive import Direct
from histogp._core.maps.height_waves import HeightWaves
from histogp._core.operators.feature_kernels import FeatureKernel, FeatureOperator
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
    """With random waves that are given."""

    def __init__(self, waves=None, *, beta=1.0, scale=1.0):
        super().__init__(2 if waves is None else waves.n_components, beta=beta, scale=scale, approximation="fourier")
        self.waves = waves

    def _value(self, n_features):
        value = super()._value(n_features)
        return replace(value, map=HeightWaves(value, self.waves))


def waves_operator(X, waves, weight=None):
    """Features of random waves with one weight for all of them."""
    weights = None if weight is None else np.array([weight], float)
    return FeatureOperator(Rows.from_array(X), FeatureKernel(waves, n_features=X.shape[1], weights=weights))


def map_of(model):
    """What a fitted model has from its training data."""
    return model._posterior.operator.kernel.map
