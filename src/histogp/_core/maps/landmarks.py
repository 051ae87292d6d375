"""Landmarks: kernel values with some of the samples as features, whose products are the Nystroem approximation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from scipy import linalg
from scipy.linalg import blas

from histogp._core.data import Array, Rows, dense
from histogp._core.operators.pair_kernels import PairKernel
from histogp._core.threads import suited_blas
from histogp.errors import ModelFileError
from histogp.io.schema import Reader, Writer

# Samples by chance, for each landmark, that landmarks are chosen from. With 800 landmarks of 30,000 orientation
# histograms the error of a Gaussian is 0.0053 with uniform landmarks and 0.0050, 0.0050, 0.0050 and 0.0048 with 2, 3, 4
# and 10 candidates, which differ less than two choices by chance; 10 take 2.5 times as long as 3.
CANDIDATES_PER_LANDMARK = 2
# Candidates that are proposed at once.
PROPOSALS = 256
# The part of a sample's own kernel value that is rounding: a sample with no more left is known from the landmarks.
ROUNDING = 1e-10
# Parts of the diagonal that are added to it, one after the other, until there is a factor.
JITTERS = (0.0, 1e-13, 1e-11, 1e-9, 1e-7)
# The quotient of the smallest and the largest entry of a factor's diagonal from which on rows in single precision are
# solved for in it. There products of features are off by 5e-6 of the kernel, at 0.001 by 1e-5, at 0.00003 by 0.005.
LEAST_SINGLE_PIVOT = 0.01
# Numbers in a block of features: 32 MB.
BLOCK_NUMBERS = 2**22
# Samples whose pairs give the error of an approximation.
ERROR_SAMPLES = 500


def choose_landmarks(
    kernel: PairKernel, rows: Rows, n_landmarks: int, rng: np.random.Generator, n_threads: int = 1
) -> Array:
    """Numbers of at most ``n_landmarks`` rows, in the order of choice, by randomly pivoted Cholesky.

    A row is chosen with a probability in proportion to what is left of its own kernel value when all that the
    landmarks before it explain is taken away (Chen, Epperly, Tropp and Webber). There are fewer of them if nothing but
    rounding is left: equal rows are never chosen twice.
    """
    n_candidates = min(rows.n_rows, CANDIDATES_PER_LANDMARK * n_landmarks)
    candidates = np.sort(rng.choice(rows.n_rows, n_candidates, replace=False))
    return candidates[_random_pivots(kernel, rows.take(candidates), n_landmarks, rng, n_threads)]


def _random_pivots(kernel: PairKernel, rows: Rows, n_pivots: int, rng: np.random.Generator, n_threads: int) -> Array:
    """Pivots of a Cholesky factorization of the kernel matrix, by chance in proportion to the diagonal that is left.

    Several are proposed at once with the same probabilities, and then accepted one after the other with the quotient
    of what is left and what was left before: the result is distributed as if they were drawn one by one (Epperly,
    Tropp and Webber, "Embrace rejection").
    """
    n_pivots = min(n_pivots, rows.n_rows)
    columns = np.empty((n_pivots, rows.n_rows))  # of the factor, one after the other
    own = kernel.own(rows)
    least, left = ROUNDING * own, own.copy()
    pivots = np.empty(0, np.int64)
    while len(pivots) < n_pivots:
        left[left <= least] = 0.0
        sums = np.cumsum(left)
        if not sums[-1] > 0:
            break
        proposed = np.searchsorted(sums, rng.random(PROPOSALS) * sums[-1], side="right")
        proposed = np.minimum(proposed, rows.n_rows - 1)  # a product that was rounded up
        bars = np.maximum(rng.random(PROPOSALS) * left[proposed], least[proposed])
        before = columns[: len(pivots)]
        at_proposed = before[:, proposed]
        remainder = kernel.matrix(rows.take(proposed), n_threads) - at_proposed.T @ at_proposed
        taken, factor = _accept(remainder, bars, n_pivots - len(pivots))
        left[proposed[remainder.diagonal() <= least[proposed]]] = 0.0  # those that are taken, and what equals them
        if not taken:
            continue
        new = proposed[taken]
        block = columns[len(pivots) : len(pivots) + len(new)]
        with suited_blas(2.0 * len(new) * before.size):
            np.matmul(at_proposed[:, taken].T, before, out=block)
            np.subtract(kernel.cross(rows.take(new), rows, n_threads), block, out=block)
            block[:] = linalg.solve_triangular(factor, block, lower=True, check_finite=False)
        left -= np.einsum("ij,ij->j", block, block)
        pivots = np.concatenate([pivots, new])
    return pivots


def _accept(remainder: Array, bars: Array, most: int) -> tuple[list[int], Array]:
    """Numbers of the first ``most`` proposals above their bars, and the Cholesky factor of their remainders.

    remainder : (n, n), of the kernel matrix of the proposals; what is taken is subtracted from that of later ones
    bars : (n,), what must be left of a proposal's diagonal when those before it are taken
    """
    taken: list[int] = []
    factor = np.zeros((len(bars), min(most, len(bars))))
    for number, bar in enumerate(bars):
        pivot = remainder[number, number]
        if pivot > bar and len(taken) < most:
            column = remainder[number:, number] / np.sqrt(pivot)
            remainder[number:, number:] -= np.outer(column, column)
            factor[number:, len(taken)] = column
            taken.append(number)
    return taken, factor[taken, : len(taken)]


@dataclass(frozen=True, eq=False)
class Landmarks:
    """``phi(x) = L^-1 k(Z, x)`` for landmarks Z with ``K(Z, Z) = L L^T``.

    Products of features are the Nystroem approximation of the kernel, which is exact for a pair with a landmark.

    rows : the landmarks Z
    factor : (n_components, n_components), L, a lower triangle
    error : of the products of features, where it was measured
    """

    kernel: PairKernel
    rows: Rows
    factor: Array
    error: float = np.nan

    name = "nystroem"
    is_additive = False
    is_costly = True
    is_normalized = False
    # What features leave of the kernel is a covariance.
    is_below = True

    @classmethod
    def at(cls, kernel: PairKernel, rows: Rows, n_threads: int = 1) -> Landmarks:
        """The map with all of these rows as landmarks.

        If their kernel matrix has no Cholesky factor because of rounding, its diagonal is raised by a part of 1e-13, or
        else by 100 times that and so on up to 1e-7.
        """
        if rows.n_rows == 0:
            raise ValueError("The kernel is zero on all samples, so that there are no landmarks.")
        matrix = kernel.matrix(rows, n_threads)
        for jitter in JITTERS:
            raised = matrix.copy()
            raised[np.diag_indices_from(raised)] *= 1 + jitter
            try:
                with suited_blas(len(matrix) ** 3 / 3):
                    # Both transposes are in the order that LAPACK wants, so that nothing is copied.
                    return cls(kernel, rows, linalg.cholesky(raised.T, overwrite_a=True).T)
            except linalg.LinAlgError:
                pass
        raise ValueError("The landmarks are too much alike for features of their own: choose fewer of them.")

    @classmethod
    def choose(
        cls, kernel: PairKernel, rows: Rows, n_landmarks: int, rng: np.random.Generator, n_threads: int = 1
    ) -> Landmarks:
        """The map with landmarks that `choose_landmarks` finds among the rows."""
        return cls.at(kernel, rows.take(choose_landmarks(kernel, rows, n_landmarks, rng, n_threads)), n_threads)

    def with_kernel(self, kernel: PairKernel, rows: Rows, n_threads: int = 1) -> Landmarks:
        """The map for other hyperparameters, with the same landmarks."""
        return Landmarks.at(kernel, self.rows, n_threads)

    @property
    def n_components(self) -> int:
        return len(self.factor)

    @property
    def width(self) -> int:
        """Numbers that a row takes while its features are made."""
        return max(self.n_components, self.rows.n_columns)

    def relevance(self, rows: Rows) -> Array:
        """The share of each feature of the data in what tells the rows apart, as the kernel has it."""
        return self.kernel.relevance(rows)

    def transform(self, X: Any, n_threads: int = 1) -> Array:
        """The features of rows (n, D), dense or CSR: (n, n_components), dense."""
        return self._features(X, n_threads, np.float64)

    def rounded(self, X: Any, n_threads: int = 1) -> Array:
        """The features of rows in single precision; computed in double where they would lose too many digits."""
        return self._features(X, n_threads, np.float32)

    def _features(self, X: Any, n_threads: int, precision: Any) -> Array:
        """The features of rows in a precision."""
        out = np.empty((X.shape[0], self.n_components), precision)
        diagonal = self.factor.diagonal()
        is_single = precision == np.float32 and diagonal.min() >= LEAST_SINGLE_PIVOT * diagonal.max()
        solve, dtype = (blas.strsm, np.float32) if is_single else (blas.dtrsm, np.float64)
        # The transpose of an array in the order of C is one in that of Fortran, so that BLAS copies nothing.
        upper = self.factor.astype(dtype, copy=False).T
        landmarks = self.kernel.points(self.rows, dtype, n_threads)
        step = max(1, BLOCK_NUMBERS * (8 // np.dtype(dtype).itemsize) // self.width)
        for begin in range(0, X.shape[0], step):
            some = slice(begin, min(begin + step, X.shape[0]))
            block = np.zeros((some.stop - begin, self.n_components), dtype)
            points = self.kernel.points(Rows.from_array(X[some], n_threads), dtype, n_threads)
            self.kernel.add_cross(points, landmarks, block, n_threads)
            with suited_blas(float(len(block)) * self.n_components**2):
                out[some] = solve(1.0, upper, block.T, trans_a=1, overwrite_b=1).T
        return out

    def to_state(self, writer: Writer) -> None:
        """Write the map into a model file: rows as the part "landmarks", and the triangle row by row."""
        writer.put("error", [self.error])
        writer.put("triangle", np.concatenate([row[: number + 1] for number, row in enumerate(self.factor)]))
        self.rows.to_state(writer.child("landmarks"))

    @classmethod
    def from_state(cls, reader: Reader, kernel: PairKernel, n_features: int) -> Landmarks:
        """The map in a model file, of a kernel that was read before; believes nothing."""
        triangle = reader.array("triangle", np.float64, (None,))
        n = (math.isqrt(8 * len(triangle) + 1) - 1) // 2
        if n < 1 or n * (n + 1) // 2 != len(triangle):
            raise ModelFileError("the factor of its landmarks is no triangle.")
        ends = np.cumsum(np.arange(1, n + 1))
        if not triangle[ends - 1].min() > 0:
            raise ModelFileError("the factor of its landmarks is damaged.")
        factor = np.zeros((n, n))
        for number, end in enumerate(ends):
            factor[number, : number + 1] = triangle[end - number - 1 : end]
        error = float(reader.array("error", np.float64, (1,), finite=False)[0])
        rows = Rows.from_state(reader.child("landmarks"), n, n_features)
        if rows.values.min(initial=0.0) < 0 and not kernel.takes_any_sign:
            raise ModelFileError("its landmarks are negative.")
        if n > kernel.approximation.n_components or error < 0:
            raise ModelFileError("its landmarks are damaged.")
        return cls(kernel, rows, factor, error)


def approximation_error(features: Any, rows: Rows, rng: np.random.Generator) -> float:
    """The error of products of features, ``sqrt(sum (K - Phi Phi^T)^2 / sum K^2)`` over pairs of up to 500 rows.

    None of these is a landmark, unless nearly all are. Pairs are of different rows: the diagonal is where landmarks are
    worst, and its weight would depend on the number of rows.

    features : a map, of a kernel that it knows
    """
    some = _no_landmarks(features.rows, rows, rng.permutation(rows.n_rows))
    chosen = rows.take(some)
    Z = features.transform(chosen.to_dense())
    exact, products = features.kernel.matrix(chosen), dense(Z @ Z.T)
    different = ~np.eye(len(some), dtype=bool)
    size = linalg.norm(exact[different])
    return float(linalg.norm((exact - products)[different]) / max(size, np.finfo(float).tiny))


def _no_landmarks(landmarks: Rows | None, rows: Rows, order: Array) -> Array:
    """The first 500 numbers of rows that equal no landmark, or the first 500 if there is no pair of these."""
    if landmarks is None:
        return order[:ERROR_SAMPLES]
    known = {_contents(landmarks, number) for number in range(landmarks.n_rows)}
    others = (number for number in order if _contents(rows, number) not in known)
    found = np.fromiter(islice(others, ERROR_SAMPLES), np.int64)
    return found if len(found) > 1 else order[:ERROR_SAMPLES]


def _contents(rows: Rows, number: int) -> tuple[bytes, bytes]:
    inside = slice(rows.indptr[number], rows.indptr[number + 1])
    return rows.column_of[inside].tobytes(), rows.values[inside].tobytes()
