"""Direct solutions: dense factors for few samples, factors in the space of features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky, get_lapack_funcs, lapack, solve_triangular

from histogp._core.data import Array, Rows, dense, mirrored
from histogp._core.least_squares.statistics import StreamingStatistics, Sums
from histogp._core.operators.contract import Features, KernelOperator, Matrix, require, updates_of
from histogp._core.solvers.problem import MOST_DENSE_SAMPLES, Callback, Noise, Solution, SolverOptions, relative
from histogp._core.solvers.system import ROWS_AT_ONCE, System
from histogp._core.threads import run, suited_blas

# Panels that are joined when there are more: each costs two calls of BLAS in every solution.
MOST_PANELS = 32


# Rows of a block of an inverse: of 500 samples 64, 96, 128 and 256 take 1.5, 1.5, 1.7 and 2.6 ms.
INVERSE_ROWS = 96
# Kernel values that are solved for together with dense factors.
DENSE_BLOCK_NUMBERS = 2**18
# Refinements of a solution by factors in single precision, and the residual that they aim at, at most.
MOST_REFINEMENTS = 20
REFINED_TOL = 1e-6
# Refinements of weights by features in single precision, at most, and the relative change after which none is needed:
# each gains two digits or more.
MOST_WEIGHT_REFINEMENTS = 5
SMALL_WEIGHT_CHANGE = 1e-6
# The most that rounding may come to in products of features in single precision, relative to the noise.
MOST_GRAM_ROUNDING = 1.0


class DirectSystem(System):
    """Solutions from factors, one for all outputs or one for each.

    factors : each with ``solve(sides)``, exact up to rounding
    """

    factors: tuple[Factor, ...] | tuple[FeatureFactor, ...]

    def solve(
        self,
        sides: Array,
        tol: float,
        *,
        outputs: Array | None = None,
        start: Array | None = None,
        callback: Callback | None = None,
        verify: bool = False,
    ) -> Solution:
        """Solve for each column of the right-hand sides (N, M), exactly up to rounding; a ``start`` is not needed."""
        n_sides = sides.shape[1]
        if len(self.factors) == 1:
            outputs = np.zeros(n_sides, int)
        elif outputs is None:
            outputs = np.arange(n_sides)
        values = self._by_factors(sides, outputs)
        residual = np.zeros_like(values)
        largest = np.abs(sides).max(axis=0)
        if verify or self.is_rounded:
            residual = self._residual(sides, values, outputs)
        if self.is_rounded:
            # The factor is that of a matrix with errors in the seventh digit: what is missing is solved for again.
            for _ in range(MOST_REFINEMENTS):
                if np.all(relative(residual, largest) <= min(tol, REFINED_TOL)):
                    break
                values += self._by_factors(residual, outputs)
                residual = self._residual(sides, values, outputs)
        reached = relative(residual, largest)
        # The tolerance is not aimed at, but a solution that misses it, for tiny noise, does not count as converged.
        return Solution(
            values, residual, reached, n_iterations=1, n_products=n_sides, converged=bool(np.all(reached <= tol))
        )

    @property
    def is_rounded(self) -> bool:
        """Whether factors are in single precision."""
        return False

    def _by_factors(self, sides: Array, outputs: Array) -> Array:
        values = np.empty_like(sides)
        with suited_blas(2.0 * sides.size * len(sides)):
            for output in np.unique(outputs):
                own = outputs == output
                values[:, own] = self.factors[output].solve(sides[:, own])
        return values

    def _residual(self, sides: Array, values: Array, outputs: Array) -> Array:
        return sides - self.operator.matmat(values) - self.noise.diagonals()[:, outputs] * values

    def with_options(self, options: SolverOptions) -> Self:
        return replace(self, options=options)  # type: ignore[type-var]

    def _has_noise(self, noise: Noise) -> bool:
        """Whether the noise of the present samples is still the same."""
        n_samples = self.operator.n_samples
        return np.array_equal(noise.subset(np.arange(n_samples)).diagonals(), self.noise.diagonals())


@dataclass(frozen=True, eq=False)
class DenseSystem(DirectSystem):
    """Dense factors of the matrix itself, for few samples."""

    operator: KernelOperator
    noise: Noise
    options: SolverOptions
    factors: tuple[Factor, ...]

    @classmethod
    def build(
        cls, operator: KernelOperator, noise: Noise, n_outputs: int, options: SolverOptions, rng: np.random.Generator
    ) -> DenseSystem:
        """Factorize; in time cubic in the number of samples."""
        matrix, diagonals = operator.matrix(), noise.diagonals().T
        others = [Factor.of(matrix.copy(), one) for one in diagonals[:-1]]
        return cls(operator, noise, options, (*others, Factor.of(matrix, diagonals[-1])))

    @property
    def is_light(self) -> bool:
        is_expected = self.operator.n_samples <= MOST_DENSE_SAMPLES or self.operator.offer(Matrix) is not None
        return len(self.factors) == 1 and is_expected

    @property
    def is_rounded(self) -> bool:
        return self.factors[0].panels[0][1].dtype == np.float32

    def inverse_block(self, index: Array, matrix: int = 0) -> Array:
        with suited_blas(float(self.operator.n_samples) ** 2 * len(index)):
            return self.factors[matrix].inverse_block(index)[0]

    def inverse_slope(self, index: Array) -> tuple[Array, Array]:
        with suited_blas(float(self.operator.n_samples) ** 2 * len(index)):
            block, half = self.factors[0].inverse_block(index)
            columns = self.factors[0].other_half_solved(half)
            return block, -(columns.T @ (self.noise.diagonals()[:, :1] * columns)).astype(np.float64)

    def mean_weights(self, targets: Array) -> None:
        return None

    def updated(self, operator: KernelOperator, rows: Rows, noise: Noise) -> DenseSystem | None:
        """The system with rows appended to its factors; None if they are rounded, or the noise has changed."""
        if self.is_rounded or not self._has_noise(noise):
            return None
        n_old = self.operator.n_samples
        factors = self.factors
        if rows.n_rows:
            columns = operator.columns(np.arange(n_old, operator.n_samples))
            pairs = zip(factors, noise.diagonals()[n_old:].T, strict=True)
            with suited_blas(float(columns.size) * n_old):
                factors = tuple(one.extended(columns[:n_old], columns[n_old:], diagonal) for one, diagonal in pairs)
        return replace(self, operator=operator, noise=noise, factors=factors)

    def _rows_at_once(self) -> int:
        return max(ROWS_AT_ONCE, DENSE_BLOCK_NUMBERS // self.operator.n_samples)


@dataclass(frozen=True, eq=False)
class FeatureSystem(DirectSystem):
    """Factors in the space of the features, for no more of them than samples: exact, also the variance."""

    operator: KernelOperator
    noise: Noise
    options: SolverOptions
    factors: tuple[FeatureFactor, ...]

    @classmethod
    def build(
        cls, operator: KernelOperator, noise: Noise, n_outputs: int, options: SolverOptions, rng: np.random.Generator
    ) -> FeatureSystem:
        """Factorize; in time cubic in the number of features, and linear in that of samples."""
        return cls(operator, noise, options, tuple(FeatureFactor.of(operator, one) for one in noise.diagonals().T))

    @property
    def is_light(self) -> bool:
        return len(self.factors) == 1

    def latent_variance(self, rows: Rows, tol: float) -> tuple[Array, float]:
        return np.stack([factor.variance(rows) for factor in self.factors], axis=1), 0.0

    def covariance(self, rows: Rows, tol: float) -> tuple[Array, float]:
        return self.factors[0].covariance(rows), 0.0

    def inverse_diagonal(self, index: Array) -> Array:
        return np.stack([factor.inverse_diagonal(index) for factor in self.factors], axis=1)

    def inverse_block(self, index: Array, matrix: int = 0) -> Array:
        return self.factors[matrix].inverse_slope(index)[0]

    def inverse_slope(self, index: Array) -> tuple[Array, Array]:
        return self.factors[0].inverse_slope(index)

    def with_noise_times(self, factor: float) -> FeatureSystem | None:
        try:
            factors = tuple(one.with_noise_times(factor) for one in self.factors)
        except LinAlgError:  # what is rounding now was small against the noise
            return None
        return replace(self, noise=self.noise.scaled(factor), factors=factors)

    def mean_weights(self, targets: Array) -> Array:
        if len(self.factors) == 1:
            return self.factors[0].weights(targets)
        pairs = zip(self.factors, targets.T, strict=True)
        return np.hstack([factor.weights(side[:, None]) for factor, side in pairs])

    def updated(self, operator: KernelOperator, rows: Rows, noise: Noise) -> FeatureSystem | None:
        if not self._has_noise(noise):
            return None
        factors = self.factors
        if rows.n_rows:
            pairs = zip(factors, noise.diagonals()[self.operator.n_samples :].T, strict=True)
            factors = tuple(one.extended(operator, rows, diagonal) for one, diagonal in pairs)
        return replace(self, operator=operator, noise=noise, factors=factors)


@dataclass(frozen=True, eq=False)
class Factor:
    """A lower triangular L with ``L L^T = A``, in panels of rows, so that an extension shares those that are there.

    panels : pairs of what is left of the diagonal, (m, rows before), and the triangle on it, (m, m), whose upper
        half is undefined
    """

    panels: tuple[tuple[Array, Array], ...]

    @classmethod
    def of(cls, matrix: Array, diagonal: Array) -> Factor:
        """The factor of ``A = matrix + diag(diagonal)``; the matrix is overwritten."""
        return cls(((np.empty((len(matrix), 0)), _triangle(matrix, diagonal)),))

    @property
    def n_rows(self) -> int:
        left, triangle = self.panels[-1]
        return left.shape[1] + len(triangle)

    def solve(self, sides: Array) -> Array:
        """``A^-1 b`` for each column of b (N, M)."""
        if len(self.panels) == 1:
            triangle = self.panels[0][1]
            return cho_solve((triangle, True), sides.astype(triangle.dtype), check_finite=False)
        return self.other_half_solved(self._half_solved(sides))

    def inverse_block(self, index: Array) -> tuple[Array, Array]:
        """What ``A^-1`` has for pairs of rows ``index``, (n, n); and what ``L^-1`` has in these columns, (N, n)."""
        sides = np.zeros((self.n_rows, len(index)), self.panels[0][1].dtype, order="F")
        sides[index, np.arange(len(index))] = 1.0
        half = self._half_solved(sides)
        return (half.T @ half).astype(np.float64), half

    def other_half_solved(self, half: Array) -> Array:
        """``L^-T b``, in the place of b."""
        if len(self.panels) == 1:
            return solve_triangular(self.panels[0][1], half, lower=True, trans=1, overwrite_b=True, check_finite=False)
        for left, triangle in reversed(self.panels):
            before, own = slice(0, left.shape[1]), slice(left.shape[1], left.shape[1] + len(triangle))
            half[own] = lapack.dtrtrs(triangle, half[own], lower=1, trans=1)[0]
            half[before] -= left.T @ half[own]
        return half

    def extended(self, border: Array, corner: Array, diagonal: Array) -> Factor:
        """The factor of A bordered by columns (N, m), and ``corner + diag(diagonal)``, (m, m), where these meet."""
        left = self._half_solved(border).T
        triangle = _triangle(corner - left @ left.T, diagonal)
        panels = (*self.panels, (left, triangle))
        return Factor(panels) if len(panels) <= MOST_PANELS else Factor((_joined(panels),))

    def _half_solved(self, sides: Array) -> Array:
        """``L^-1 b``."""
        if len(self.panels) == 1:
            return solve_triangular(self.panels[0][1], sides, lower=True, check_finite=False)
        out = np.array(sides)
        for left, triangle in self.panels:
            before, own = slice(0, left.shape[1]), slice(left.shape[1], left.shape[1] + len(triangle))
            out[own] = lapack.dtrtrs(triangle, out[own] - left @ out[before], lower=1)[0]
        return out


def _triangle(matrix: Array, diagonal: Array) -> Array:
    """The lower factor of ``matrix + diag(diagonal)``, in the place of the matrix."""
    trace = matrix.diagonal().sum()
    matrix[np.diag_indices_from(matrix)] += diagonal
    try:
        return cho_factor(matrix.T, lower=True, overwrite_a=True, check_finite=False)[0]
    except LinAlgError:
        raise ValueError(
            f"The kernel matrix with noise {diagonal.min():g} is not positive definite in {matrix.dtype}; "
            f"use a larger noise, at least about {50 * np.finfo(matrix.dtype).eps * trace:.0e} here."
        ) from None


def _joined(panels: tuple[tuple[Array, Array], ...]) -> tuple[Array, Array]:
    n_rows = sum(len(triangle) for _, triangle in panels)
    out = np.empty((n_rows, n_rows), order="F")
    for left, triangle in panels:
        first, last = left.shape[1], left.shape[1] + len(triangle)
        out[first:last, :first] = left
        out[first:last, first:last] = triangle
    return np.empty((n_rows, 0)), out


@dataclass(frozen=True, eq=False)
class FeatureFactor:
    """``C = I + Phi^T D^-1 Phi`` and its factor; D is the noise.

    ``(Phi Phi^T + D)^-1 = D^-1 - D^-1 Phi C^-1 Phi^T D^-1``, and ``C^-1`` is the posterior covariance of the weights.

    diagonal : (N,), of D; gram : (p, p), ``C - I``; factor : lower triangular, of C, for p features
    """

    operator: KernelOperator
    diagonal: Array
    gram: Array
    factor: Array

    @classmethod
    def of(cls, operator: KernelOperator, diagonal: Array) -> FeatureFactor:
        """The factor for the training samples of the operator, with noise (N,)."""
        gram = weighted_gram(operator, None, diagonal).gram
        try:
            return cls(operator, diagonal, gram, factor_of(gram))
        except LinAlgError:
            gram = weighted_gram(operator, None, diagonal, single=False).gram
            return cls(operator, diagonal, gram, factor_of(gram))

    def solve(self, sides: Array) -> Array:
        """``A^-1 b`` for each column of b (N, M)."""
        return (sides - features_of(self.operator).combine(self.weights(sides))) / self.diagonal[:, None]

    def weights(self, sides: Array) -> Array:
        """``C^-1 Phi^T D^-1 b``, the weights of the features in a mean, (p, M)."""
        features = features_of(self.operator)
        wanted = features.project(sides / self.diagonal[:, None])
        found = cho_solve((self.factor, True), wanted)
        if features.dtype == np.float32:
            found = self._refined(found, wanted)
        # LAPACK's are in the order of columns, those of a file in that of rows, and BLAS rounds them differently.
        return np.ascontiguousarray(found)

    def _refined(self, found: Array, wanted: Array) -> Array:
        """``C^-1 wanted`` for features in single precision, whose factor is off by their rounding, from a guess of it.

        Residuals in double precision mend that; where they do not, there is a factor without rounding.
        """
        features, noise = features_of(self.operator), self.diagonal[:, None]
        for _ in range(MOST_WEIGHT_REFINEMENTS):
            residual = wanted - found - features.project(features.combine(found) / noise)
            step = cho_solve((self.factor, True), residual)
            found = found + step
            if np.abs(step).max(initial=0.0) <= SMALL_WEIGHT_CHANGE * np.abs(found).max(initial=0.0):
                return found
        gram = weighted_gram(self.operator, None, self.diagonal, single=False).gram
        return cho_solve((factor_of(gram), True), wanted)

    def extended(self, operator: KernelOperator, rows: Rows, diagonal: Array) -> FeatureFactor:
        """The factor for the operator with further rows, of the noise ``diagonal``."""
        gram = self.gram + weighted_gram(operator, rows, diagonal).gram
        return FeatureFactor(operator, np.concatenate([self.diagonal, diagonal]), gram, factor_of(gram))

    def variance(self, rows: Rows, n_threads: int = 1) -> Array:
        """``phi(x)^T C^-1 phi(x)``, and what features leave of the prior: the latent variance of test rows, (n,)."""
        return self._of_features(rows, n_threads) + features_of(self.operator).remainder(rows)

    def _of_features(self, rows: Rows, n_threads: int = 1) -> Array:
        """``phi(x)^T C^-1 phi(x)`` of test rows, (n,)."""
        out = np.empty(rows.n_rows)
        with suited_blas(float(rows.n_rows) * len(self.factor) ** 2):
            for some, Z in features_of(self.operator.with_threads(n_threads)).blocks(rows):
                half = solve_triangular(self.factor, dense(Z).T, lower=True, check_finite=False)
                out[some] = np.einsum("ij,ij->j", half, half)
        return out

    def covariance(self, rows: Rows) -> Array:
        """The latent covariance of all pairs of test rows, (n, n)."""
        Z = np.concatenate([dense(block) for _, block in features_of(self.operator).blocks(rows)])
        half = solve_triangular(self.factor, Z.T, lower=True, check_finite=False)
        return half.T @ half + features_of(self.operator).remainder(rows, rows)

    def with_noise_times(self, factor: float) -> FeatureFactor:
        """The factor for all noise times a number."""
        gram = self.gram / factor
        return FeatureFactor(self.operator, self.diagonal * factor, gram, factor_of(gram))

    def inverse_slope(self, index: Array) -> tuple[Array, Array]:
        """What ``A^-1`` has for pairs of training samples, and what ``-A^-1 D A^-1`` has, (n, n) each."""
        noise, rows = self.diagonal[index], updates_of(self.operator).training_rows().take(index)
        Z = np.concatenate([dense(block) for _, block in features_of(self.operator).blocks(rows)])
        with suited_blas(float(len(index)) * len(self.factor) ** 2):
            half = solve_triangular(self.factor, Z.T, lower=True, check_finite=False)
            whole = solve_triangular(self.factor, half, lower=True, trans=1, check_finite=False)
            scaled, again = half / noise, whole / noise
            block = np.diag(1 / noise) - scaled.T @ scaled
            return block, again.T @ again - block

    def inverse_diagonal(self, index: Array) -> Array:
        """``[A^-1]_ii`` of training samples, (n,)."""
        noise = self.diagonal[index]
        rows = updates_of(self.operator).training_rows().take(index)
        return (1 - self._of_features(rows) / noise) / noise


def features_of(operator: KernelOperator) -> Features:
    """The features of an operator that is known to have some."""
    return require(operator, Features, "A factor in the space of features")


def weighted_gram(
    operator: KernelOperator,
    rows: Rows | None,
    diagonal: Array,
    targets: Array | None = None,
    *,
    single: bool = True,
) -> StreamingStatistics:
    """Statistics of the features of rows, None for the training samples, and their targets, over the noise.

    With ``single`` products of features in single precision are in this, too, where their rounding is small against
    the noise.
    """
    features = features_of(operator)
    rounding = np.finfo(np.float32).eps * len(diagonal) * operator.scale / max(diagonal.min(initial=np.inf), 1e-300)
    single &= features.dtype == np.float32 and rounding <= MOST_GRAM_ROUNDING
    sums = Sums(features.n_components, 0 if targets is None else targets.shape[1], single=single)
    with suited_blas(float(len(diagonal)) * features.n_components**2):
        for some, Z in features.blocks(rows):
            sums.add(Z, None if targets is None else targets[some], 1 / diagonal[some])
    return sums.total()


def factor_of(gram: Array) -> Array:
    """The lower factor of ``I + gram``."""
    matrix = np.array(gram, order="F")
    matrix[np.diag_indices(len(matrix))] += 1.0
    with suited_blas(float(len(matrix)) ** 3):
        return cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)


def symmetric_inverse(lower: Array, n_threads: int = 1) -> Array:
    """``(L L^T)^-1``, symmetric (n, n), of a lower triangle L in the order of C; what is above it does not matter.

    By blocks of columns of ``W = L^-1``, and of rows of ``W^T W``, side by side: LAPACK has one thread for few samples.
    """
    n = len(lower)
    bounds = [(begin, min(begin + INVERSE_ROWS, n)) for begin in range(0, n, INVERSE_ROWS)]
    W, out = np.zeros_like(lower), np.empty_like(lower)
    (trtri,) = get_lapack_funcs(("trtri",), (lower,))
    for a, b in bounds:
        W[a:b, a:b] = np.tril(trtri(np.array(lower[a:b, a:b], order="F"), lower=1, overwrite_c=1)[0])

    def solve(first: int, last: int) -> None:
        for a, b in bounds:
            if a >= last:
                W[a:b, first:last] = W[a:b, a:b] @ (lower[a:b, first:a] @ -W[first:a, first:last])

    def multiply(first: int, last: int) -> None:
        np.matmul(W[first:, first:last].T, W[first:, :last], out=out[first:last, :last])

    for work in (solve, multiply):
        run(work, [bounds[k::n_threads] for k in range(min(n_threads, len(bounds)))])
    return mirrored(out)


def inverse_of(factor: Array) -> Array:
    """``C^-1``, symmetric."""
    lower = np.tril(lapack.dpotri(factor, lower=1)[0])
    return lower + np.tril(lower, -1).T
