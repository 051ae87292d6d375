"""A low-rank approximation of the kernel matrix that speeds conjugate gradients up.

``K ~ F F^T`` by block randomly pivoted Cholesky, which needs kernel columns only (Chen, Epperly, Tropp
and Webber, 2023); applied through the Woodbury identity. The first columns of F carry the large
eigenvalues, where the identity cancels: they are kept in double precision, the others in single.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from histogp.operators.base import KernelOperator
from histogp.solvers.blas import over_rows
from histogp.solvers.noise import Noise
from histogp.storage import Array

N_LEADING = 32
BLOCK = 128


class PivotedCholesky:
    """A growing factor F with ``K ~ F F^T``; ``leading`` (N, <= 32) float64, ``tail`` (N, r - 32) float32."""

    def __init__(self, operator: KernelOperator, rng: np.random.Generator, max_rank: int, n_threads: int):
        self._operator = operator
        self._rng = rng
        self._n_threads = n_threads
        self._remaining = operator.diagonal()
        self._trace = self._remaining.sum()
        self.max_rank = min(max_rank, operator.n_rows)
        # Columns are contiguous, and pages that are never written cost no memory.
        self._leading = np.empty((min(N_LEADING, self.max_rank), operator.n_rows)).T
        self._tail = np.empty((max(0, self.max_rank - N_LEADING), operator.n_rows), np.float32).T
        self.rank = 0
        self.squared_norms = np.empty(0)

    @property
    def leading(self) -> Array:
        return self._leading[:, : self.rank]

    @property
    def tail(self) -> Array:
        return self._tail[:, : max(0, self.rank - N_LEADING)]

    def grow(self, rank: int) -> bool:
        """Add columns up to ``rank``; false when the matrix is exhausted before."""
        rank = min(rank, self.max_rank)
        while self.rank < rank:
            limit = N_LEADING if self.rank < N_LEADING else rank
            if self._remaining.sum() <= 1e-6 * self._trace:
                return False
            self._add_block(min(BLOCK, rank - self.rank, limit - self.rank))
        return True

    def _add_block(self, size: int) -> None:
        probabilities = self._remaining / self._remaining.sum()
        pivots = np.unique(self._rng.choice(len(probabilities), size=size, p=probabilities))
        columns = self._operator.columns(pivots, "single")
        leading, tail = self.leading, self.tail
        leading_pivots, tail_pivots = leading[pivots].T, tail[pivots].T

        def subtract(rows: slice) -> None:
            columns[rows] -= leading[rows] @ leading_pivots
            columns[rows] -= tail[rows] @ tail_pivots

        over_rows(subtract, len(columns), self._n_threads)
        unmix = np.linalg.inv(_robust_cholesky(columns[pivots])).T.astype(np.float32)
        begin, end = self.rank, self.rank + len(pivots)
        target = (
            self._leading[:, begin:end] if begin < N_LEADING else self._tail[:, begin - N_LEADING : end - N_LEADING]
        )

        def orthogonalise(rows: slice) -> None:
            new = columns[rows] @ unmix
            target[rows] = new
            self._remaining[rows] -= np.einsum("ij,ij->i", new, new)

        over_rows(orthogonalise, len(columns), self._n_threads)
        np.maximum(self._remaining, 0, out=self._remaining)
        self._remaining[pivots] = 0
        self.squared_norms = np.append(self.squared_norms, np.einsum("ij,ij->j", target, target))
        self.rank = end


class Preconditioner:
    """``P^-1 r`` with ``P = F F^T + diag(noise)``, exact for each problem of per-problem noise."""

    def __init__(self, factor: PivotedCholesky, noise: Noise, n_threads: int):
        self._leading, self._tail = factor.leading, factor.tail
        self._diagonals = noise.diagonals()
        self._n_threads = n_threads
        self.rank = factor.rank
        self._cores = [_factorise(core) for core in self._inner_matrices(noise)]

    def apply(self, residuals: Array, problems: Array) -> Array:
        """``P^-1 r`` for the right-hand sides with the numbers ``problems``; residuals (N, len(problems))."""
        leading, tail = self._leading, self._tail
        inverse_noise = 1 / (self._diagonals if len(self._cores) == 1 else self._diagonals[:, problems])
        scaled = inverse_noise * residuals
        coefficients = np.zeros((self.rank, residuals.shape[1]))
        n_leading = leading.shape[1]

        def project(rows: slice) -> None:
            some = scaled[rows]
            head = leading[rows].T @ some
            rest = tail[rows].T @ some.astype(np.float32)
            partial.append((rows.start, head, rest))

        partial: list[tuple[int, Array, Array]] = []
        over_rows(project, len(scaled), self._n_threads)
        for _, head, rest in sorted(partial, key=lambda entry: entry[0]):
            coefficients[:n_leading] += head
            coefficients[n_leading:] += rest
        if len(self._cores) == 1:
            coefficients = cho_solve(self._cores[0], coefficients, check_finite=False)
        else:
            for position, problem in enumerate(problems):
                coefficients[:, position] = cho_solve(
                    self._cores[problem], coefficients[:, position], check_finite=False
                )
        head_coefficients = coefficients[:n_leading]
        tail_coefficients = coefficients[n_leading:].astype(np.float32)

        def subtract(rows: slice) -> None:
            correction = leading[rows] @ head_coefficients
            correction += tail[rows] @ tail_coefficients
            scaled[rows] -= inverse_noise[rows] * correction

        over_rows(subtract, len(scaled), self._n_threads)
        return scaled

    def _inner_matrices(self, noise: Noise) -> list[Array]:
        """``I + F^T diag(noise)^-1 F``, one a matrix."""
        everything = self._gram(np.arange(len(noise.sample)), noise.sample)
        identity = np.eye(self.rank)
        if noise.problem_of is None or noise.positive is None or noise.negative is None:
            return [identity + everything]
        # The positives of all problems together are the rows once: no more work than `everything`.
        inner = []
        for problem, (positive, negative) in enumerate(zip(noise.positive, noise.negative, strict=True)):
            rows = np.flatnonzero(noise.problem_of == problem)
            own = self._gram(rows, noise.sample)
            inner.append(identity + everything / negative + own * (1 / positive - 1 / negative))
        return inner

    def _gram(self, index: Array, variances: Array) -> Array:
        """``F^T diag(1 / variances) F`` over the rows ``index``."""
        partial: list[tuple[int, Array]] = []

        def accumulate(part: slice) -> None:
            rows = index[part] if len(index) < len(variances) else part
            root = np.sqrt(variances[rows])[:, None]
            leading = self._leading[rows] / root
            tail = self._tail[rows] / root.astype(np.float32)
            gram = np.empty((self.rank, self.rank))
            n_leading = leading.shape[1]
            gram[:n_leading, :n_leading] = leading.T @ leading
            gram[:n_leading, n_leading:] = leading.T @ tail
            gram[n_leading:, :n_leading] = gram[:n_leading, n_leading:].T
            gram[n_leading:, n_leading:] = tail.T @ tail
            partial.append((part.start, gram))

        total = np.zeros((self.rank, self.rank))
        over_rows(accumulate, len(index), self._n_threads)
        for _, gram in sorted(partial, key=lambda entry: entry[0]):
            total += gram
        return total


def _robust_cholesky(block: Array) -> Array:
    block = np.asarray((block + block.T) / 2, np.float64)
    jitter = 1e-6 * np.trace(block) / len(block)
    while True:
        try:
            return np.linalg.cholesky(block + jitter * np.eye(len(block)))
        except np.linalg.LinAlgError:  # nearly equal pivots, in single precision
            jitter *= 10


def _factorise(core: Array) -> Any:
    try:
        return cho_factor(core, lower=True, check_finite=False)
    except LinAlgError:
        eigenvalues, vectors = np.linalg.eigh(core)
        core = (vectors * np.maximum(eigenvalues, 1.0)) @ vectors.T
        return cho_factor(core, lower=True, check_finite=False)
