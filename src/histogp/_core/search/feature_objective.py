"""The exact likelihood of a process with features, from sums over the samples that are made once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from scipy.linalg import cho_solve, eigh, solve_triangular

from histogp._core.data import Array
from histogp._core.least_squares.statistics import StreamingStatistics
from histogp._core.likelihood import Derivatives, Likelihood
from histogp._core.operators.contract import Features, KernelOperator, sums_by_weight
from histogp._core.search.objectives import Data
from histogp._core.search.space import Space
from histogp._core.solvers.factors import MOST_COMPONENTS, factor_of, features_of, inverse_of, weighted_gram
from histogp._core.threads import suited_blas

# So many times more features than samples are still better than estimates by random probes.
MOST_TIMES_SAMPLES = 4


@dataclass(frozen=True, eq=False)
class _SharedNoise:
    """Outputs that share a noise.

    operator : that without weights; diagonal : (N,), the noise; targets : (N, k)
    """

    operator: KernelOperator
    diagonal: Array
    targets: Array

    @cached_property
    def statistics(self) -> StreamingStatistics:
        """Statistics of the features, weighted by the inverse noise."""
        return weighted_gram(self.operator, None, self.diagonal, self.targets)

    @property
    def log_noise(self) -> float:
        """The sum of the logarithms of the noise."""
        return float(np.log(self.diagonal).sum())

    @property
    def squares(self) -> float:
        """``y^T D^-1 y``, of all targets."""
        return float(np.sum(self.targets**2 / self.diagonal[:, None]))

    @cached_property
    def spectrum(self) -> tuple[Array, Array]:
        """Eigenvalues of the Gram matrix that are not zero, and the cross products along its eigenvectors, (r, k)."""
        rank, n_rows = features_of(self.operator).n_components, len(self.diagonal)
        with suited_blas(float(min(rank, n_rows)) ** 3):
            if rank <= n_rows:
                values, vectors = eigh(self.statistics.gram, check_finite=False)
                return np.maximum(values, 0.0), vectors.T @ self.statistics.cross
            roots = np.sqrt(self.diagonal)[:, None]
            values, vectors = eigh(self.operator.matrix() / roots / roots.T, check_finite=False)
            values = np.maximum(values, 0.0)
            return values, np.sqrt(values)[:, None] * (vectors.T @ (self.targets / roots))


class FeatureObjective:
    """The likelihood of weights and noise, in time cubic in the number of features, whatever that of samples."""

    is_exact = True

    def __init__(self, data: Data):
        self.data = data
        self._plain = features_of(data.operator).unweighted()
        diagonals = data.noise.diagonals()
        share = data.targets.shape[1] // diagonals.shape[1]
        self._groups = [
            _SharedNoise(self._plain, diagonal, data.targets[:, k * share : (k + 1) * share])
            for k, diagonal in enumerate(diagonals.T)
        ]

    @staticmethod
    def suits(operator: KernelOperator, most_times: float = MOST_TIMES_SAMPLES) -> bool:
        """Whether there are features, and no more of them than so many times the samples."""
        features = operator.offer(Features)
        most = min(most_times * operator.n_samples, MOST_COMPONENTS)
        return features is not None and features.n_components <= most

    def __call__(self, space: Space, theta: Array) -> Likelihood:
        return self.at(space.kernel_at(theta).weights, space.noise_factor(theta))

    def at(self, weights: Array | None, noise_factor: float, *, derivatives: bool = True) -> Likelihood:
        """The likelihood with weights (n_weights,) of the kernel and noise times a factor."""
        if weights is None:
            weights = np.ones(int(self._plain.weight_of().max()) + 1)
        if len(weights) == 1 and derivatives:
            parts = [self._by_spectrum(outputs, float(weights[0]), noise_factor) for outputs in self._groups]
        else:
            parts = [self._by_factor(outputs, weights, noise_factor, derivatives) for outputs in self._groups]
        return Likelihood(
            sum(part.value for part in parts),
            None,
            data_fit_gradient=_total([part.data_fit_gradient for part in parts]),
            complexity_gradient=_total([part.complexity_gradient for part in parts]),
            data_term=sum(part.data_term for part in parts),
        )

    def _by_spectrum(self, outputs: _SharedNoise, weight: float, factor: float) -> Likelihood:
        """The likelihood with one weight for all features, from an eigendecomposition that is made once."""
        values, along = outputs.spectrum
        n, n_targets = self.data.targets.shape[0], along.shape[1]
        values, along = values / factor, along / factor
        left = 1 / (1 + weight * values)
        squares = outputs.squares / factor
        explained = weight * np.sum(along**2 * left[:, None], axis=0).sum()
        determinant = -float(np.log(left).sum()) + outputs.log_noise + n * np.log(factor)
        data_term = squares - explained
        value = -(data_term + n_targets * (determinant + n * np.log(2 * np.pi))) / 2
        data_fit_gradient = {
            "weights": np.sum((along * left[:, None]) ** 2).reshape(1),
            "noise": np.asarray(data_term - weight * np.sum(along**2 * (left**2)[:, None])),
        }
        complexity_gradient = {
            "weights": n_targets * np.sum(values * left).reshape(1),
            "noise": np.asarray(n_targets * (n - len(values) + left.sum())),
        }
        return Likelihood(
            value,
            None,
            data_fit_gradient=data_fit_gradient,
            complexity_gradient=complexity_gradient,
            data_term=data_term,
        )

    def _by_factor(self, outputs: _SharedNoise, weights: Array, factor: float, derivatives: bool) -> Likelihood:
        """The likelihood with one weight for each feature or group, (n_weights,), from a factor of the Gram matrix."""
        statistics = outputs.statistics
        n, n_targets = self.data.targets.shape[0], statistics.cross.shape[1]
        rank = len(statistics.sums)
        roots = np.sqrt(weights)[self._plain.weight_of()]
        gram, cross = statistics.gram / factor, statistics.cross / factor
        inner = roots[:, None] * gram * roots
        squares = outputs.squares / factor
        with suited_blas(float(rank) ** 3):
            triangle = factor_of(inner)
            side = roots[:, None] * cross
            mean = cho_solve((triangle, True), side)
            data_term = squares - float(np.sum(side * mean))
            determinant = 2 * float(np.log(triangle.diagonal()).sum()) + outputs.log_noise + n * np.log(factor)
            value = -(data_term + n_targets * (determinant + n * np.log(2 * np.pi))) / 2
            if not derivatives:
                return Likelihood(value, None, data_term=data_term)
            inverse = inverse_of(triangle)
            # phi^T A^-1 y and the diagonal of phi^T A^-1 phi, for features phi without weights
            residual = cross - gram @ (roots[:, None] * mean)
            own = np.divide(1 - inverse.diagonal(), roots**2, where=roots > 0, out=np.zeros(rank))
            # Of a feature that hardly counts, one minus almost one would leave nothing but rounding.
            faint = np.flatnonzero(inner.diagonal() < 1)
            half = solve_triangular(triangle, roots[:, None] * gram[:, faint], lower=True)
            own[faint] = gram.diagonal()[faint] - np.einsum("ij,ij->j", half, half)
        by_weight = partial(sums_by_weight, self._plain.weight_of())
        data_fit_gradient = {"weights": by_weight(np.sum(residual**2, axis=1))}
        complexity_gradient = {"weights": n_targets * by_weight(own)}
        # alpha^T D alpha and tr(A^-1 D), for the noise D
        data_fit_gradient["noise"] = np.asarray(squares - 2 * np.sum(side * mean) + np.sum(mean * (inner @ mean)))
        complexity_gradient["noise"] = np.asarray(n_targets * (n - rank + np.trace(inverse)))
        return Likelihood(
            value,
            None,
            data_fit_gradient=data_fit_gradient,
            complexity_gradient=complexity_gradient,
            data_term=data_term,
        )


def _total(parts: list[Derivatives]) -> Derivatives:
    return {name: np.sum([part[name] for part in parts], axis=0) for name in parts[0]}
