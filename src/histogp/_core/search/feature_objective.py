"""The exact likelihood of a process with features, from sums over the samples that are made once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from scipy.linalg import cho_solve, eigvalsh_tridiagonal, lapack, solve_triangular

from histogp._core.data import Array
from histogp._core.kernel_values import KernelValue
from histogp._core.least_squares.statistics import StreamingStatistics
from histogp._core.likelihood import Derivatives, Likelihood
from histogp._core.operators.contract import Features, KernelOperator, sums_by_weight, tuning_of
from histogp._core.search.space import Data, Space
from histogp._core.solvers.factors import factor_of, features_of, inverse_of, weighted_gram
from histogp._core.solvers.problem import LARGEST_FACTOR, Noise
from histogp._core.threads import single_threaded_blas, suited_blas

# So many times more features than samples are still better than estimates by random probes.
MOST_TIMES_SAMPLES = 4


@dataclass(frozen=True, eq=False)
class Tridiagonal:
    """A symmetric matrix ``Q T Q^T`` without negative eigenvalues: for ``I + weight T`` with any number of weights.

    It takes half the time of all eigenvectors, once, and a solution is then linear in the size.

    diagonal, beside : (n,) and (n - 1,), of T; values : (n,), its eigenvalues; sides : (n, k), ``Q^T b``
    """

    diagonal: Array
    beside: Array
    values: Array
    sides: Array

    @classmethod
    def of(cls, matrix: Array, sides: Array) -> Tridiagonal:
        """The form of a matrix (n, n), which is overwritten, and of right-hand sides b (n, k)."""
        n, sides = len(matrix), np.array(sides)
        # Half of the work are products with vectors: threads of BLAS would meet twice for each row, for little.
        with single_threaded_blas():
            lwork = int(lapack.dsytrd_lwork(n, lower=1)[0])
            reduced, diagonal, beside, tau, _ = lapack.dsytrd(matrix.T, lower=1, lwork=lwork, overwrite_a=1)
            if n > 1:
                # The reflections have the shape of those of a QR factorization, one row lower.
                below = np.asfortranarray(reduced[1:, :-1])
                lwork = int(lapack.dormqr("L", "T", below, tau, sides[1:], -1)[1][0])
                sides[1:] = lapack.dormqr("L", "T", below, tau, sides[1:], lwork)[0]
        if n == 1:
            beside = np.zeros(1)  # LAPACK wants one
        values = eigvalsh_tridiagonal(diagonal, beside, check_finite=False) if n > 1 else diagonal
        # An eigenvalue that is zero comes out as rounding of the largest one, also below zero.
        return cls(diagonal, beside, np.maximum(values, 0.0), sides)

    def solve(self, weight: float) -> Array:
        """``(I + weight T)^-1 Q^T b``, (n, k)."""
        diagonal, beside, info = lapack.dpttrf(1 + weight * self.diagonal, weight * self.beside)
        if info != 0:
            raise ValueError("The kernel matrix with so little noise is not positive definite in float64.")
        return lapack.dpttrs(diagonal, beside, self.sides)[0]

    def multiply(self, vectors: Array) -> Array:
        """``T v`` for each column of v (n, k)."""
        out = self.diagonal[:, None] * vectors
        out[1:] += self.beside[:, None] * vectors[:-1]
        out[:-1] += self.beside[:, None] * vectors[1:]
        return out


@dataclass(frozen=True, eq=False)
class _SharedNoise:
    """Outputs that share a noise.

    operator : that without weights, or in the proportions of a search for a scale; diagonal : (N,), the noise;
    targets : (N, k)
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

    @property
    def is_wide(self) -> bool:
        """Whether there are more features than samples."""
        return features_of(self.operator).n_components > len(self.diagonal)

    @cached_property
    def reduced(self) -> Tridiagonal:
        """The smaller matrix: ``Phi^T D^-1 Phi`` with ``Phi^T D^-1 y``, or ``D^-1/2 K D^-1/2`` with ``D^-1/2 y``."""
        if not self.is_wide:
            sums = weighted_gram(self.operator, None, self.diagonal, self.targets)
            return Tridiagonal.of(sums.gram, sums.cross)
        roots = np.sqrt(self.diagonal)[:, None]
        matrix = self.operator.matrix()
        matrix /= roots
        matrix /= roots.T
        return Tridiagonal.of(matrix, self.targets / roots)

    def at_scale(self, scale: float, factor: float) -> Likelihood:
        """The likelihood with the kernel times a scale and the noise times a factor; derivatives for both.

        That for the scale itself, not its logarithm, is under "weights".
        """
        n, n_targets = self.targets.shape
        reduced = self.reduced
        values, ratio = reduced.values / factor, scale / factor
        left = 1 / (1 + scale * values)
        solved = reduced.solve(ratio)
        form, norm = (float(np.sum(solved * other)) / factor for other in (reduced.sides, solved))
        if self.is_wide:
            data_term, of_noise = form, norm
            of_scale = float(np.sum(solved * reduced.multiply(solved))) / factor**2
        else:
            data_term = self.squares / factor - ratio * form
            of_scale, of_noise = norm / factor, data_term - ratio * norm
        determinant = -float(np.log(left).sum()) + self.log_noise + n * np.log(factor)
        value = -(data_term + n_targets * (determinant + n * np.log(2 * np.pi))) / 2
        complexity_of_noise = n_targets * (n - len(values) + left.sum())
        return Likelihood(
            value,
            None,
            data_fit_gradient={"weights": np.array([of_scale]), "noise": np.asarray(of_noise)},
            complexity_gradient={
                "weights": n_targets * np.sum(values * left).reshape(1),
                "noise": np.asarray(complexity_of_noise),
            },
            data_term=data_term,
        )


class FeatureObjective:
    """The likelihood of weights and noise, in time cubic in the number of features, whatever that of samples.

    With a common scale in place of single weights it is cubic in the smaller of both numbers, and that only once.
    """

    is_exact = True
    nearby = None

    def __init__(self, data: Data):
        self.data = data
        self._plain = features_of(data.operator).unweighted()
        self._groups = self._shared(self._plain)
        self._in_proportion: tuple[KernelValue, list[_SharedNoise]] | None = None

    @staticmethod
    def suits(operator: KernelOperator, most_times: float = MOST_TIMES_SAMPLES) -> bool:
        """Whether there are features, and no more of them than so many times the samples."""
        features = operator.offer(Features)
        most = min(most_times * operator.n_samples, LARGEST_FACTOR)
        return features is not None and features.n_components <= most

    @staticmethod
    def suits_scale(operator: KernelOperator, noise: Noise) -> bool:
        """Whether there are features, and few enough of them, or of the samples, where only a scale is free."""
        features = operator.offer(Features)
        if features is None or FeatureObjective.suits(operator):
            return features is not None
        return noise.n_matrices * min(features.n_components, operator.n_samples) ** 3 <= LARGEST_FACTOR**3

    def __call__(self, space: Space, theta: Array) -> Likelihood:
        """The likelihood at theta, from what is made once a search where single weights are not free."""
        factor = space.noise_factor(theta)
        if any(one.name == "weights" for one in space.free):
            return self.at(space.kernel_at(theta).weights, factor)
        if self._in_proportion is None or self._in_proportion[0] is not space.kernel:
            self._in_proportion = space.kernel, self._shared(tuning_of(self._plain).with_kernel(space.kernel))
        scale = float(space.values(theta).get("scale", np.ones(1))[0])
        found = _total_of([outputs.at_scale(scale, factor) for outputs in self._in_proportion[1]])
        # What the scale changes, as if every weight had the same derivative.
        n_weights = space.kernel.n_weights
        total = n_weights if space.kernel.weights is None else float(space.kernel.weights.sum())
        for gradient in (found.data_fit_gradient, found.complexity_gradient):
            gradient["weights"] = np.full(n_weights, gradient["weights"][0] / max(total, np.finfo(float).tiny))
        return found

    def at(self, weights: Array | None, noise_factor: float, *, derivatives: bool = True) -> Likelihood:
        """The likelihood with weights (n_weights,) of the kernel and noise times a factor."""
        if weights is None:
            weights = np.ones(int(self._plain.weight_of().max()) + 1)
        return _total_of([self._by_factor(outputs, weights, noise_factor, derivatives) for outputs in self._groups])

    def _shared(self, operator: KernelOperator) -> list[_SharedNoise]:
        """The outputs in groups that share a noise, with the features of the operator."""
        targets, diagonals = self.data.targets, self.data.noise.diagonals()
        share = targets.shape[1] // diagonals.shape[1]
        return [
            _SharedNoise(operator, diagonal, targets[:, k * share : (k + 1) * share])
            for k, diagonal in enumerate(diagonals.T)
        ]

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


def _total_of(parts: list[Likelihood]) -> Likelihood:
    """The likelihood of independent outputs together."""
    return Likelihood(
        sum(part.value for part in parts),
        None,
        data_fit_gradient=_total([part.data_fit_gradient for part in parts]),
        complexity_gradient=_total([part.complexity_gradient for part in parts]),
        data_term=sum(part.data_term for part in parts),
    )


def _total(parts: list[Derivatives]) -> Derivatives:
    return {name: np.sum([part[name] for part in parts], axis=0) for name in parts[0]}
