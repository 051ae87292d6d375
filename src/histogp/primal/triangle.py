"""Triangular factors of ``I + gram``."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky, lapack

from histogp.blas import suited_blas
from histogp.storage import Array


def factor_of(gram: Array) -> Array:
    """The lower factor of ``I + gram``."""
    matrix = np.array(gram, order="F")
    matrix[np.diag_indices(len(matrix))] += 1.0
    with suited_blas(float(len(matrix)) ** 3):
        return cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)


def inverse_of(factor: Array) -> Array:
    """``C^-1``, symmetric."""
    lower = np.tril(lapack.dpotri(factor, lower=1)[0])
    return lower + np.tril(lower, -1).T
