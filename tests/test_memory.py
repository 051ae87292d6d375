"""Memory stays linear in the non-zeros, and large problems are never factorized densely."""

import tracemalloc

import numpy as np
import scipy.linalg
from oracles import histograms

from histogp import HistogramGPClassifier
from histogp._core.solvers import factors, preconditioner, problem

N, D = 6000, 30
X = histograms(N, D)
Y = np.argmax(X[:, 1:5], axis=1)


def test_nothing_of_size_n_squared_is_allocated_above_the_small_n_limit():
    HistogramGPClassifier("hik", noise=0.1).fit(X[:2500], Y[:2500])
    tracemalloc.start()
    clf = HistogramGPClassifier("hik", noise=0.1, preconditioner_rank=64).fit(X, Y)
    clf.predict(X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < N * N * 8 / 8


def test_peak_memory_grows_linearly_with_the_rows():
    peaks = []
    for n in (3000, 6000):
        tracemalloc.start()
        HistogramGPClassifier("hik", noise=0.1, preconditioner_rank=32).fit(X[:n], Y[:n])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 2.2 * peaks[0]


def test_dense_factorizations_are_called_for_small_n_only(monkeypatch):
    sizes = []
    for module, name in (
        (factors, "cho_factor"),
        (preconditioner, "cho_factor"),
        (scipy.linalg, "eigh"),
        (np.linalg, "cholesky"),
        (np.linalg, "inv"),
        (np.linalg, "solve"),
        (np.linalg, "eigh"),
        (np.linalg, "svd"),
        (np.linalg, "qr"),
    ):
        original = getattr(module, name)

        def spy(matrix, *args, original=original, **kwargs):
            sizes.append(min(np.shape(matrix)[-2:]))
            return original(matrix, *args, **kwargs)

        monkeypatch.setattr(module, name, spy)
    clf = HistogramGPClassifier("hik", noise=0.1).fit(X[: problem.MOST_DENSE_SAMPLES], Y[: problem.MOST_DENSE_SAMPLES])
    assert sizes == [problem.MOST_DENSE_SAMPLES]
    sizes.clear()
    n = problem.MOST_DENSE_SAMPLES + 1
    clf = HistogramGPClassifier("hik", noise=0.1, tol=1e-3).fit(X[:n], Y[:n])
    assert clf.n_iter_ > 1
    assert max(sizes, default=0) <= max(clf.preconditioner_rank_, preconditioner.BLOCK_COLUMNS)
