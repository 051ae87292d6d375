"""The variance that the nearest training samples leave: what others would explain beside them counts as unknown."""

from __future__ import annotations

from typing import Any

import numpy as np

from histogp._core.data import Array, Rows
from histogp._core.operators.contract import Features, KernelOperator, cross_blocks, updates_of
from histogp._core.solvers.factors import Factor
from histogp._core.threads import suited_blas
from histogp._core.variance import Variance, VarianceMethod, VarianceOptions

# Training samples that count. Of 8,000 images 64, 256, 512 and 1,024 give variances, with noise, that are 11, 6, 3 and
# 1% too large in the median, and 18, 10, 6 and 3% for one in twenty.
NEIGHBORS = 512


class Nearest(VarianceMethod):
    """Exact for those training samples that explain most of a test sample each: never too small for all of them."""

    name = "nearest"
    kind = "bound"

    def instead(self, operator: KernelOperator) -> str | None:
        return None if operator.offer(Features) is None else "precise"

    def variance(self, posterior: Any, rows: Rows, options: VarianceOptions) -> Variance:
        return Variance(nearest_variance(posterior.operator, posterior.largest_noise[:, None], rows)[:, 0])


NEAREST = Nearest()


def nearest_variance(operator: KernelOperator, noise: Array, rows: Rows, left_out: Array | None = None) -> Array:
    """``K(x, x) - k^T (K + diag(noise))^-1 k`` over the nearest training samples, (n, n_matrices).

    noise : of the training samples, (N, n_matrices)
    left_out : numbers of training samples that the test rows are, each of which knows nothing of itself, (n,)
    """
    training, own = updates_of(operator).training_rows(), operator.diagonal()
    prior = operator.diagonal(rows)
    most = min(NEIGHBORS, operator.n_samples - (left_out is not None))
    out = np.repeat(prior[:, None], noise.shape[1], axis=1)
    if most < 1:
        return out
    root = np.sqrt(own + noise.min(axis=1))
    with suited_blas(0.0):
        for some, kernel in cross_blocks(operator, rows):
            explained = np.abs(kernel) / root
            if left_out is not None:
                explained[np.arange(len(kernel)), left_out[some]] = -1.0
            nearest = np.argpartition(-explained, most - 1, axis=1)[:, :most]
            for place, index in enumerate(nearest, start=some.start):
                known = training.take(index)
                matrix, k = operator.cross(known, known), kernel[place - some.start, index]
                for output, diagonal in enumerate(noise[index].T):
                    out[place, output] -= k @ Factor.of(matrix.copy(), diagonal).solve(k)
    return np.clip(out, 0.0, prior[:, None])
