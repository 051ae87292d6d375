"""Rows that could be labelled, read in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.validation import _num_samples, check_is_fitted

from histogp._core.data import Array, Rows
from histogp._core.posterior import FEW_ROWS
from histogp._core.variance.methods import METHODS, VarianceMethod
from histogp._estimator import snapshot
from histogp.gp._model import HistogramGP

BLOCK = 8192
# Candidates whose means are read from the table of quantised prediction, which is then made in no time.
MANY = 10_000
# Training rows, squared, times rows of the pool up to which precise variances take a second or two.
PRECISE_WORK = 5e9


class Pool:
    """Candidates among the rows of X, and what one state of an estimator says of them.

    candidates : (n,), their numbers in X
    """

    def __init__(self, estimator: Any, X: Any, candidates: Any, variance: str, random_state: Any):
        if not isinstance(estimator, HistogramGP):
            raise ValueError(f"A {type(estimator).__name__} cannot be asked; it takes an estimator of histogp.")
        check_is_fitted(estimator)
        if variance not in ("auto", *METHODS):
            raise ValueError(f"Unknown variance {variance!r}; known are {', '.join(map(repr, ('auto', *METHODS)))}.")
        self._X = X.tocsr() if sparse.issparse(X) else X
        self.candidates = numbers_of(X, candidates)
        self.estimator = snapshot(estimator)
        has_tables = not self.estimator.kernel_._has_features
        if has_tables and len(self.candidates) > MANY and self.estimator.n_examples_ > FEW_ROWS:
            self.estimator.prediction = "quantized"
        self.random = check_random_state(random_state)
        self._variance = variance

    @property
    def noise(self) -> float:
        return self.estimator.noise_

    def blocks(self) -> Iterator[tuple[slice, Rows]]:
        for begin in range(0, len(self.candidates), BLOCK):
            some = slice(begin, min(begin + BLOCK, len(self.candidates)))
            yield some, self.take(np.arange(some.start, some.stop))

    def take(self, index: Array) -> Rows:
        """The candidates with these numbers, counted among the candidates."""
        return self.estimator._test_rows(_safe_indexing(self._X, self.candidates[index]))

    def means(self, rows: Rows) -> Array:
        """(n, M)."""
        return self.estimator._mean_of(rows)

    def variances(self, rows: Rows) -> Array:
        """Without noise, for targets in the unit of learning, (n,)."""
        method = self.method
        return self.estimator._latent_variance(rows, method, self.estimator._variance_options(method))

    @property
    def method(self) -> VarianceMethod:
        if self._variance != "auto":
            return self._variance  # type: ignore[return-value]
        quick = self.estimator._quick_method()
        work = float(self.estimator.n_examples_) ** 2 * len(self.candidates)
        return "calibrated" if quick == "precise" and work > PRECISE_WORK else quick

    def system(self, n_sides: int) -> Any:
        posterior = self.estimator._posterior_with_training()
        return posterior.variances.system(n_sides, self.estimator._solver_options())

    @property
    def tol(self) -> float:
        return self.estimator._variance_options().tol


def numbers_of(X: Any, candidates: Any) -> Array:
    """Numbers of rows of X; None is all of them."""
    n_rows = _num_samples(X)
    if candidates is None:
        return np.arange(n_rows)
    numbers = np.asarray(candidates)
    if numbers.dtype == bool and numbers.shape == (n_rows,):
        return np.flatnonzero(numbers)
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
        raise ValueError("candidates must be numbers of rows of the pool, or a mask of them.")
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < n_rows:
        raise ValueError(f"candidates must be numbers of rows of the pool, which has {n_rows}.")
    if len(np.unique(numbers)) < len(numbers):
        raise ValueError("A row of the pool occurs twice among these.")
    return numbers.astype(int)
