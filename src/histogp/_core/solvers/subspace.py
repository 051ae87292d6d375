"""Where the large eigenvalues of the kernel matrix are, and upper bounds of its determinant."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from histogp._core.data import Array
from histogp._core.operators.contract import KernelOperator
from histogp._core.solvers.problem import Noise

# A direction that is left over with less than this share of its length is rounding.
_NEGLIGIBLE_LENGTH = 1e-8


@dataclass(frozen=True, eq=False)
class Subspace:
    """An orthonormal basis V and its image K V, both (N, m)."""

    basis: Array
    image: Array


def leading_subspace(operator: KernelOperator, dimension: int, rng: np.random.Generator) -> Subspace:
    """A block Krylov space of at least ``dimension``, or of the rank of K, from the image of random vectors.

    It always contains the vector of ones, so that it is never empty.
    """
    n = operator.n_samples
    basis, image = np.empty((n, 0)), np.empty((n, 0))
    block = operator.matmat(rng.standard_normal((n, operator.block_width - 1)))
    block = np.hstack([np.full((n, 1), max(np.linalg.norm(block), 1.0)), block])
    while basis.shape[1] < min(dimension, n):
        block = _new_directions(block, basis)[:, : n - basis.shape[1]]
        if block.shape[1] == 0:
            break
        basis = np.hstack([basis, block])
        block = operator.matmat(block)
        image = np.hstack([image, block])
    return Subspace(basis, image)


def _new_directions(block: Array, basis: Array) -> Array:
    """An orthonormal basis of what the block adds to the space."""
    size = float(np.linalg.norm(block))
    for _ in range(2):  # once more against the rounding of the first time
        block = block - basis @ (basis.T @ block)
        left, lengths, _ = np.linalg.svd(block, full_matrices=False)
        block = left[:, lengths > _NEGLIGIBLE_LENGTH * size]
        size = 1.0
    return block


def papers_bound(n: int, beta: float, trace: float, squares: float, floor: float = 0.0) -> float:
    """``ub(beta, mu1, mu2)`` of gp-hik-ijcv2016, eq. 18 to 20, after Bai and Golub (1997).

    It holds for every beta >= the largest eigenvalue and every ``squares`` <= the squared Frobenius norm (theorem 2).
    In this form nothing cancels, and the node t can be raised to ``floor``, a lower bound of the eigenvalues, against
    rounding: the bound rises with t.
    """
    gap = n - trace / beta
    if gap <= 0:  # all eigenvalues equal beta, up to rounding
        return n * np.log(beta)
    t = np.clip((trace - squares / beta) / gap, max(floor, np.finfo(float).tiny), beta)
    tau = t / beta
    slope = 1.0 if tau == 1 else np.log(tau) / (tau - 1)
    return n * np.log(beta) - gap * slope


def fischer_bound(n: int, ritz_values: Array, trace: float) -> float:
    """``det A <= det(V^T A V) det(W^T A W)`` for an orthonormal basis [V, W], the second by its trace."""
    rest = n - len(ritz_values)
    remainder = trace - ritz_values.sum()
    return float(np.log(ritz_values).sum() + (rest * np.log(remainder / rest) if rest else 0.0))


@dataclass(frozen=True, eq=False)
class DeterminantBounds:
    """Bounds for each matrix, all (M,) or (1,); "tightest" is the smaller one."""

    papers: Array
    fischer: Array

    @property
    def tightest(self) -> Array:
        return np.minimum(self.papers, self.fischer)


def determinant_bounds(operator: KernelOperator, noise: Noise, subspace: Subspace) -> DeterminantBounds:
    """Bounds from any subspace, the tighter the nearer it is to the leading eigenvectors; two more products.

    The squared Frobenius norm is bounded from below by that of the two diagonal blocks in the basis [V, W].
    """
    n, dimension = subspace.basis.shape
    diagonals = noise.diagonals()
    kernel_trace = operator.diagonal().sum()
    ritz_values = np.empty((diagonals.shape[1], dimension))
    leading = np.empty((n, diagonals.shape[1]))
    for output, diagonal in enumerate(diagonals.T):
        image = subspace.image + diagonal[:, None] * subspace.basis
        projected = subspace.basis.T @ image
        ritz_values[output], vectors = np.linalg.eigh((projected + projected.T) / 2)
        leading[:, output] = np.abs(subspace.basis @ vectors[:, -1])
    betas = _largest_eigenvalue_bounds(operator, diagonals, leading)
    papers, fischer = [], []
    for diagonal, values, beta in zip(diagonals.T, ritz_values, betas, strict=True):
        floor = diagonal.min()
        values = np.maximum(values, floor)
        rest = n - dimension
        trace = max(kernel_trace + diagonal.sum(), values.sum() + rest * floor)
        squares = (values**2).sum() + ((trace - values.sum()) ** 2 / rest if rest else 0.0)
        papers.append(papers_bound(n, beta, trace, squares, floor))
        fischer.append(fischer_bound(n, values, trace))
    return DeterminantBounds(np.array(papers), np.array(fischer))


def largest_eigenvalue_bound(operator: KernelOperator, noise: Array, rng: np.random.Generator) -> float:
    """A bound of the eigenvalues of ``K + diag(noise)``, noise (N,), close to the largest one; three products."""
    subspace = leading_subspace(operator, 2 * operator.block_width, rng)
    image = subspace.image + noise[:, None] * subspace.basis
    projected = subspace.basis.T @ image
    _, vectors = np.linalg.eigh((projected + projected.T) / 2)
    leading = np.abs(subspace.basis @ vectors[:, -1:])
    return float(_largest_eigenvalue_bounds(operator, noise[:, None], leading)[0])


def _largest_eigenvalue_bounds(operator: KernelOperator, diagonals: Array, leading: Array) -> Array:
    """Collatz-Wielandt: ``max_i (A v)_i / v_i`` for a positive vector v bounds the eigenvalues of a non-negative A.

    v is near the leading eigenvector; the vector of ones, that is the largest row sum, is tried as well.
    """
    smooth = operator.matmat(leading) + diagonals * leading
    smooth += 1e-6 * smooth.max(axis=0)
    vectors = np.hstack([smooth, np.ones((len(smooth), 1))])
    images = operator.matmat(vectors)
    by_vector = ((images[:, :-1] + diagonals * smooth) / smooth).max(axis=0)
    by_rows = (images[:, -1:] + diagonals).max(axis=0)
    return np.minimum(by_vector, by_rows)
