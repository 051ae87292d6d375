"""Where the large eigenvalues of the kernel matrix are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from histogp.operators.base import KernelOperator
from histogp.storage import Array

# A direction that is left over with less than this share of its length is rounding.
_NEGLIGIBLE = 1e-8


@dataclass(frozen=True, eq=False)
class Subspace:
    """An orthonormal basis V and its image K V, both (N, m)."""

    basis: Array
    image: Array


def leading_subspace(operator: KernelOperator, dimension: int, rng: np.random.Generator) -> Subspace:
    """A block Krylov space of at least ``dimension``, or of the rank of K, from the image of random vectors.

    It always contains the vector of ones, so that it is never empty.
    """
    n = operator.n_rows
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
        block = left[:, lengths > _NEGLIGIBLE * size]
        size = 1.0
    return block
