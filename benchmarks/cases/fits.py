"""The engine: fitting, products, exact prediction, start-up. Each case returns numbers by name."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from time import perf_counter

import numpy as np
from measure import best_seconds, fashion_mnist, peak_megabytes, seconds, warm_up
from scipy.linalg import cho_factor, cho_solve
from sklearn.metrics.pairwise import manhattan_distances
from sklearn.svm import SVC

from histogp import HistogramGPClassifier
from histogp.datasets import make_bags_of_words
from histogp.kernels import HistogramIntersection, resolve
from histogp.operators.build import build_operator

GROWTH_SIZES = (7_500, 15_000, 30_000, 60_000)
PREDICTION_SIZES = (2_500, 10_090, 50_050)


def fit_fashion() -> dict[str, float]:
    X_train, y_train, X_test, y_test = fashion_mnist()
    warm_up(X_train, y_train)
    start = perf_counter()
    clf = HistogramGPClassifier(random_state=0).fit(X_train, y_train)
    duration = perf_counter() - start
    memory = peak_megabytes()
    start = perf_counter()
    accuracy = clf.score(X_test, y_test)
    return {
        "seconds": duration,
        "megabytes": memory,
        "accuracy": accuracy,
        "iterations": clf.n_iter_,
        "rank": clf.preconditioner_rank_,
        "prediction_us": 1e6 * (perf_counter() - start) / len(y_test),
    }


def growth() -> dict[str, float]:
    X_train, y_train, _, _ = fashion_mnist()
    warm_up(X_train, y_train)
    times = []
    for size in GROWTH_SIZES:
        X, y = X_train[:size], y_train[:size]
        clf = HistogramGPClassifier(random_state=0)
        times.append(seconds(lambda clf=clf, X=X, y=y: clf.fit(X, y), repeats=3 if size < 30_000 else 1))
    exponent = np.polyfit(np.log(GROWTH_SIZES), np.log(times), 1)[0]
    return {"exponent": float(exponent), **{f"n_{n}": t for n, t in zip(GROWTH_SIZES, times, strict=True)}}


def fit_bags(n: int, n_classes: int = 2, tol: float = 1e-2) -> dict[str, float]:
    X, y = make_bags_of_words(n, n_classes=n_classes, random_state=0)
    warm_up(X, y)
    clf = HistogramGPClassifier(random_state=0, tol=tol)
    duration = seconds(lambda: clf.fit(X, y))
    return {
        "seconds": duration,
        "iterations": clf.n_iter_,
        "rank": clf.preconditioner_rank_,
        "nonzeros": X.nnz,
    }


def fit_50050() -> dict[str, float]:
    return fit_bags(50_050)


def fit_10090() -> dict[str, float]:
    return fit_bags(10_090)


def fit_10090_tight() -> dict[str, float]:
    return fit_bags(10_090, tol=1e-7)


def fit_1500() -> dict[str, float]:
    return fit_bags(1_500, n_classes=15)


def memory_10090() -> dict[str, float]:
    X, y = make_bags_of_words(10_090, random_state=0)
    warm_up(X, y)
    before = peak_megabytes()
    HistogramGPClassifier(random_state=0).fit(X, y)
    return {"megabytes": max(1.0, peak_megabytes() - before)}


def cholesky() -> dict[str, float]:
    X, y = make_bags_of_words(10_090, random_state=0)
    targets = np.where(y == 1, 1.0, -1.0)
    before = peak_megabytes()
    system = build_operator(X, resolve(HistogramIntersection(), X.shape[1]), 2).matrix()
    system[np.diag_indices_from(system)] += 0.1
    start = perf_counter()
    cho_solve(cho_factor(system, lower=True), targets)
    default, memory = perf_counter() - start, peak_megabytes() - before
    # The best case: a matrix in Fortran order that may be overwritten.
    start = perf_counter()
    cho_solve(cho_factor(system.T, lower=True, overwrite_a=True, check_finite=False), targets, check_finite=False)
    return {"seconds": default, "megabytes": memory, "best_case_seconds": perf_counter() - start}


def svc() -> dict[str, float]:
    X, y = make_bags_of_words(10_090, random_state=0)
    HistogramIntersection()(X[:100])
    start = perf_counter()
    matrix = HistogramIntersection()(X)
    built = perf_counter()
    SVC(kernel="precomputed").fit(matrix, y)
    fitted = perf_counter()
    # The same matrix with what scikit-learn has: min(a, b) = (a + b - |a - b|) / 2.
    sums = X.sum(axis=1)
    theirs = (sums[:, None] + sums - manhattan_distances(X.toarray())) / 2
    by_sklearn = perf_counter() - fitted
    np.testing.assert_allclose(theirs, matrix, atol=1e-9)
    return {"fit_seconds": fitted - built, "matrix_seconds": by_sklearn, "our_matrix_seconds": built - start}


def product() -> dict[str, float]:
    X = fashion_mnist()[0]
    operator = build_operator(X, resolve(HistogramIntersection(), X.shape[1]), 2)
    vectors = np.random.default_rng(0).standard_normal((len(X), 16))
    source = np.ones(operator.product_cost)  # eight bytes a non-zero: index and value
    target = np.empty_like(source)

    def copy() -> None:
        halves = [slice(0, len(source) // 2), slice(len(source) // 2, None)]
        workers = [threading.Thread(target=np.copyto, args=(target[half], source[half])) for half in halves]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    copying = min(best_seconds(copy), best_seconds(lambda: np.copyto(target, source)))
    # A copy moves every byte twice, so reading alone takes half as long at the same bandwidth.
    reading = copying / 2
    block = best_seconds(lambda: operator.matmat(vectors, "single"))
    vector = best_seconds(lambda: operator.matmat(vectors[:, :1], "single"))
    return {
        "bandwidth_gb": 16e-9 * operator.product_cost / copying,
        "block_seconds": block,
        "vector_seconds": vector,
        "block_ratio": block / 16 / reading,
        "vector_ratio": vector / reading,
    }


def prediction() -> dict[str, float]:
    X, y = make_bags_of_words(60_050, random_state=0)
    test = X[-10_000:]
    microseconds = {}
    for n in PREDICTION_SIZES:
        clf = HistogramGPClassifier(random_state=0).fit(X[:n], y[:n])
        for kind in ("exact", "quantized"):
            clf.set_params(prediction=kind)
            duration = seconds(lambda clf=clf: clf.decision_function(test), repeats=15)
            microseconds[f"{kind}_{n}"] = 1e6 * duration / 10_000
    return microseconds


def startup() -> dict[str, float]:
    timed_import = (
        "from time import perf_counter as t; a = t(); import sklearn; b = t(); import histogp; print(t() - b)"
    )
    fit = """
from time import perf_counter
from sklearn.datasets import load_digits
from histogp import HistogramGPClassifier
X, y = load_digits(return_X_y=True)
start = perf_counter()
HistogramGPClassifier(noise=100).fit(X, y)
print(perf_counter() - start)
"""
    # Cold: the iterative solver, which compiles most.
    fit_cold = fit.replace("noise=100", "noise=100, solver='cg'")
    # What scikit-learn itself costs when its estimators are used, for comparison.
    peer = timed_import.replace("import histogp", "import sklearn.gaussian_process, sklearn.callback")

    def run(code: str, **environment: str) -> tuple[float, str]:
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=True
        )
        return float(done.stdout), done.stderr

    imports, peers = (float(np.median([run(code)[0] for _ in range(5)])) for code in (timed_import, peer))
    with tempfile.TemporaryDirectory() as cache:
        cold, said = run(fit_cold, NUMBA_CACHE_DIR=cache)
        run(fit, NUMBA_CACHE_DIR=cache)
        warm, _ = run(fit, NUMBA_CACHE_DIR=cache)
    return {
        "import_seconds": imports,
        "import_sklearn_seconds": peers,
        "import_added_seconds": imports - peers,
        "cold_fit_seconds": cold,
        "warm_fit_seconds": warm,
        "announced": float("compiles" in said),
    }
