"""Additive maps on whole matrices, and the additive chi-squared kernel itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from histogp._numba import chi2
from histogp.blas import over_rows
from histogp.maps.additive import AdditiveMap
from histogp.storage import Array, plain

# Values that are expanded between two looks for an interrupt, and stay in a cache meanwhile.
BLOCK = 2**15
# Pairs of values in a call of the leaf for the kernel.
PAIRS = 2**24


def expand(additive: AdditiveMap, X: Any, n_threads: int = 1) -> Any:
    """The features of the rows of X (N, D), dense or CSR: column ``t D + d`` is term t of dimension d."""
    if sparse.issparse(X):
        return _expand_sparse(additive, X, n_threads)
    X = plain(X)
    n_rows, width = X.shape
    out = np.empty((n_rows, additive.n_terms, width), X.dtype)
    over_rows(lambda some: additive.fill(X[some], out[some]), n_rows, n_threads, max(1, BLOCK // width))
    return out.reshape(n_rows, additive.n_terms * width)


def _expand_sparse(additive: AdditiveMap, X: Any, n_threads: int) -> Any:
    X = X.tocsr()
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    data = plain(X.data)
    terms = np.empty((additive.n_terms, len(data)), data.dtype)

    def work(some: slice) -> None:
        block = np.empty((1, additive.n_terms, some.stop - some.start), data.dtype)
        additive.at(X.indices[some]).fill(data[None, some], block)
        terms[:, some] = block[0]

    over_rows(work, len(data), n_threads, BLOCK)
    return sparse.hstack([_like(X, values) for values in terms], format="csr")


def _like(X: Any, data: Array) -> Any:
    return type(X)((data, X.indices, X.indptr), shape=X.shape)


def chi2_matrix(
    left: Array,
    right: Array,
    *,
    factors: tuple[Array, Array] | None = None,
    weights: Array | None = None,
    n_threads: int = 1,
) -> Array:
    """``sum_d w_d 2 x_d y_d / (x_d + y_d)`` for all pairs of dense rows, (n, m); each summand times both factors."""
    left, right = plain(left, np.float64), plain(right, np.float64)
    if factors is None:
        factors = np.broadcast_to(1.0, left.shape), np.broadcast_to(1.0, right.shape)
    given = [plain(factor, np.float64) for factor in factors]
    weights = np.ones(left.shape[1]) if weights is None else plain(weights, np.float64)
    out = np.empty((len(left), len(right)))
    over_rows(
        lambda some: chi2.chi2_sums(left, right, *given, weights, some.start, some.stop, out),
        len(left),
        n_threads,
        max(1, PAIRS // max(1, right.size)),
    )
    return out
