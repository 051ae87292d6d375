"""Kernels that are products of features, as operators see them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from histogp.kernels.intersection import ResolvedKernel
from histogp.maps.additive import Direct
from histogp.maps.exp_chi2 import RandomWaves
from histogp.maps.expand import expand
from histogp.storage import Array, Rows

# Rows that are enough for averages.
FEW_ROWS = 1000


@dataclass(frozen=True, eq=False)
class ResolvedFeatures(ResolvedKernel):
    """``K(x, y) = phi(x)^T phi(y)``; features come in groups, each with one of the weights.

    feature_map : what makes them; None as long as nobody has seen data
    """

    feature_map: Any

    def like(self, other: Self) -> Self:
        """The same, with the other's map if there is none yet."""
        return self if self.feature_map is not None else replace(self, feature_map=other.feature_map)

    def rank(self, n_columns: int) -> int:
        """The number of features."""
        raise NotImplementedError

    def width(self, n_columns: int) -> int:
        """Numbers that a row takes while its features are made."""
        raise NotImplementedError

    def features(self, X: Any, n_threads: int) -> Any:
        """Those of rows, dense or CSR, without weights: (n, rank)."""
        raise NotImplementedError

    def by_feature(self, by_weight: Array, n_columns: int) -> Array:
        """The value of its group for every feature, (n_weights,) to (rank,): groups take turns."""
        return np.resize(by_weight, self.rank(n_columns))

    def by_weight(self, by_feature: Array, n_columns: int) -> Array:
        """Sums over the features of each group, (rank, ...) to (n_weights, ...)."""
        raise NotImplementedError

    def diagonal(self) -> float | None:
        """``K(x, x)``, if that is the same for all x."""
        return None

    def shares(self, rows: Rows) -> Array:
        """The part that each dimension has in the kernel, where that is no sum over dimensions, (D,)."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class ResolvedChi2(ResolvedFeatures):
    """The additive kernel; terms of a dimension are a group. Like heights, ``K_d(x, x) = w_d x_d``."""

    feature_map: Direct | None

    def rank(self, n_columns: int) -> int:
        assert self.feature_map is not None
        return self.feature_map.n_terms * n_columns

    width = rank

    def features(self, X: Any, n_threads: int) -> Any:
        assert self.feature_map is not None
        return expand(self.feature_map, X, n_threads)

    def by_weight(self, by_feature: Array, n_columns: int) -> Array:
        return by_feature.reshape(-1, n_columns, *by_feature.shape[1:]).sum(axis=0)


@dataclass(frozen=True, eq=False)
class ResolvedExpChi2(ResolvedFeatures):
    """The exponential kernel; all features have the same weight."""

    feature_map: RandomWaves | None

    def n_weights(self, n_columns: int) -> int:
        return 1

    def rank(self, n_columns: int) -> int:
        assert self.feature_map is not None
        return self.feature_map.n_outputs

    def width(self, n_columns: int) -> int:
        assert self.feature_map is not None
        return max(self.feature_map.n_outputs, len(self.feature_map.frequencies))

    def features(self, X: Any, n_threads: int) -> Any:
        assert self.feature_map is not None
        return self.feature_map.transform(X, n_threads)

    def by_weight(self, by_feature: Array, n_columns: int) -> Array:
        return by_feature.sum(axis=0, keepdims=True)

    def diagonal(self) -> float:
        return 1.0 if self.weights is None else float(self.weights[0])

    def shares(self, rows: Rows) -> Array:
        """In the mean of chi2 over pairs of rows, up to 1,000: the variance of a dimension's terms."""
        assert self.feature_map is not None
        some = rows.take(np.arange(0, rows.n_rows, max(1, -(-rows.n_rows // FEW_ROWS)))).to_dense()
        variances = expand(self.feature_map.additive, some).var(axis=0).reshape(-1, rows.n_columns).sum(axis=0)
        return variances / max(variances.sum(), np.finfo(float).tiny)
