"""More features than samples, and hundreds of classes: what a direct solution in the smaller space is good for."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.measure import peak_megabytes, seconds, timed
from benchmarks.registry import case
from histogp import HistogramGPClassifier

N_TEST = 1_000
CLASS_SHARE = 0.3


def texts(n: int, n_words: int, length: int, n_classes: int) -> tuple[Any, np.ndarray]:
    """Bags of words of about ``length`` words, drawn by Zipf's law and, for a part, from 100 words of the class.

    Counts are in proportion to the length of the text, so that they are not whole numbers.
    """
    rng = np.random.default_rng(0)
    frequencies = np.cumsum(1 / (np.arange(n_words) + 10))
    topics = rng.integers(n_words, size=(n_classes, 100))
    y = rng.integers(n_classes, size=n)
    lengths = rng.poisson(length, n) + 1
    text_of = np.repeat(np.arange(n), lengths)
    words = np.searchsorted(frequencies, frequencies[-1] * rng.random(len(text_of)))
    own = rng.random(len(text_of)) < CLASS_SHARE
    words[own] = topics[y[text_of[own]], rng.integers(100, size=own.sum())]
    X = sparse.csr_array((length / lengths[text_of], (text_of, words)), shape=(n, n_words))
    X.sum_duplicates()
    return X, y


def dense_histograms(n: int, n_bins: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Histograms without empty bins, those of a class around one of its own."""
    rng = np.random.default_rng(0)
    y = rng.integers(n_classes, size=n)
    X = rng.gamma(0.5, size=(n, n_bins)) + 0.2 * rng.gamma(0.5, size=(n_classes, n_bins))[y]
    return X / X.sum(axis=1, keepdims=True), y


def _searched(X: Any, y: np.ndarray, n: int) -> dict[str, float]:
    """A fit of the chi-squared kernel with a search, and predictions of the samples that it has not seen."""
    _chi2_classifier().fit(X[:100], y[:100])  # compiles
    clf, duration = timed(lambda: _chi2_classifier().fit(X[:n], y[:n]))
    memory = peak_megabytes()
    _, first = timed(lambda: clf.predict_proba(X[n:]))
    return {
        "seconds": duration,
        "megabytes": memory,
        "evaluations": len(clf.optimization_path_["noise"]),
        "likelihood_error": clf.log_marginal_likelihood_error_,
        "accuracy": clf.score(X[n:], y[n:]),
        "first_probabilities_seconds": first,
        "prediction_us": 1e6 * seconds(lambda: clf.predict(X[n:]), 3) / X[n:].shape[0],
    }


def _chi2_classifier() -> HistogramGPClassifier:
    return HistogramGPClassifier("chi2", optimize="gradient", random_state=0)


@case("chi2_wide_sparse", group="wide", bar={"seconds": "<= 15"}, smoke={"n": 200, "n_words": 1_000})
def chi2_wide_sparse(n: int = 4_000, n_words: int = 20_000) -> dict[str, float]:
    """Search and fit of the chi-squared kernel, 4,000 texts of 20,000 words, 20 classes."""
    X, y = texts(n + N_TEST, n_words, 130, 20)
    return {"nonzeros_a_row": X.nnz / X.shape[0], **_searched(X, y, n)}


@case("chi2_wide_dense", group="wide", bar={"seconds": "<= 15"}, smoke={"n": 200, "n_bins": 100})
def chi2_wide_dense(n: int = 2_000, n_bins: int = 1_280) -> dict[str, float]:
    """Search and fit of the chi-squared kernel, 2,000 dense histograms of 1,280 bins, 10 classes."""
    return _searched(*dense_histograms(n + N_TEST, n_bins, 10), n)


@case(
    "many_classes",
    group="wide",
    bar={"seconds": "<= 20", "prediction_ms": "<= 2", "single_ms": "<= 2"},
    smoke={"n": 2_500, "n_classes": 30},
)
def many_classes(n: int = 8_000, n_words: int = 2_000, n_classes: int = 500) -> dict[str, float]:
    """Fit of the intersection kernel, 8,000 texts of 2,000 words, 500 classes."""
    X, y = texts(n + N_TEST, n_words, 100, n_classes)
    HistogramGPClassifier("hik", noise=0.1).fit(X[:2_100], y[:2_100] % 3).predict_proba(X[n:])  # compiles
    clf, duration = timed(lambda: HistogramGPClassifier("hik", noise=0.1, random_state=0).fit(X[:n], y[:n]))
    memory = peak_megabytes()
    _, first = timed(lambda: clf.predict(X[n:]))
    _, first_probabilities = timed(lambda: clf.predict_proba(X[n:]))
    one = X[n : n + 1]
    return {
        "nonzeros_a_row": X.nnz / X.shape[0],
        "seconds": duration,
        "megabytes": memory,
        "iterations": clf.n_iter_,
        "accuracy": clf.score(X[n:], y[n:]),
        "first_prediction_seconds": first,
        "first_probabilities_seconds": first_probabilities,
        "prediction_ms": 1e3 * seconds(lambda: clf.predict(X[n:]), 3) / N_TEST,
        "probabilities_ms": 1e3 * seconds(lambda: clf.predict_proba(X[n:]), 3) / N_TEST,
        "single_ms": 1e3 * seconds(lambda: clf.predict(one), 50),
    }
