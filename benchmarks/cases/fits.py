"""Fitting: time, memory, growth, dense rivals, and the product that it consists of."""

from __future__ import annotations

import threading
from time import perf_counter

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.metrics.pairwise import manhattan_distances
from sklearn.svm import SVC

from benchmarks.data import fashion_mnist
from benchmarks.data.fashion import fashion_mnist_images
from benchmarks.internals import intersection_operator
from benchmarks.measure import alone, best_seconds, peak_megabytes, scaled, seconds, timed, warm_up
from benchmarks.registry import case
from histogp import HistogramGPClassifier
from histogp.datasets import make_bags_of_words, orientation_histograms
from histogp.kernels import HistogramIntersection

GROWTH_SIZES = (7_500, 15_000, 30_000, 60_000)


@case("orientation_histograms", group="fit", data="fashion-mnist", smoke={"n": 100})
def orientation_histograms_of_fashion(n: int | None = None) -> dict[str, float]:
    """Orientation histograms of the 70,000 images of Fashion-MNIST."""
    X_train, _, X_test, _ = fashion_mnist_images()
    histograms, duration = timed(lambda: [orientation_histograms(images[:n]) for images in (X_train, X_test)])
    return {"seconds": duration, "density": float(np.mean(histograms[0] > 0))}


@case(
    "fit_fashion",
    group="fit",
    data="fashion-mnist",
    bar={"seconds": "< 15", "megabytes": "< 2048", "accuracy": ">= 0.89"},
    smoke={"n": 2_500},
)
def fit_fashion(n: int = 60_000) -> dict[str, float]:
    """Fit of Fashion-MNIST, 60,000 x 441, 10 classes."""
    X_train, y_train, X_test, y_test = fashion_mnist()
    warm_up(X_train, y_train)
    clf, duration = timed(lambda: HistogramGPClassifier("hik", noise=0.1, random_state=0).fit(X_train[:n], y_train[:n]))
    memory = peak_megabytes()
    accuracy, predicting = timed(lambda: clf.score(X_test, y_test))
    return {
        "seconds": duration,
        "megabytes": memory,
        "accuracy": accuracy,
        "iterations": clf.n_iter_,
        "rank": clf.preconditioner_rank_,
        "prediction_us": 1e6 * predicting / len(y_test),
    }


@case("growth", group="fit", data="fashion-mnist", bar={"exponent": "<= 1.45"}, smoke={"scale": 0.05})
def growth(scale: float = 1) -> dict[str, float]:
    """Growth of the time of a fit of Fashion-MNIST, from 7,500 to 60,000 samples."""
    X_train, y_train, _, _ = fashion_mnist()
    warm_up(X_train, y_train)
    times = []
    for size in GROWTH_SIZES:
        X, y = X_train[: scaled(size, scale)], y_train[: scaled(size, scale)]
        clf = HistogramGPClassifier("hik", noise=0.1, random_state=0)
        times.append(seconds(lambda clf=clf, X=X, y=y: clf.fit(X, y), repeats=3 if size < 30_000 else 1))
    exponent = np.polyfit(np.log(GROWTH_SIZES), np.log(times), 1)[0]
    return {"exponent": float(exponent), **{f"seconds_{n}": t for n, t in zip(GROWTH_SIZES, times, strict=True)}}


@case("fit_50050", group="fit", bar={"seconds": "< 2"}, smoke={"n": 3_000})
def fit_50050(n: int = 50_050) -> dict[str, float]:
    """Fit of 50,050 x 1,000 sparse bags of words, binary."""
    return _fit_bags(n)


@case("fit_10090", group="fit", bar={"seconds": "< 0.35"}, smoke={"n": 3_000})
def fit_10090(n: int = 10_090) -> dict[str, float]:
    """Fit of 10,090 x 1,000 sparse bags of words, binary."""
    return _fit_bags(n)


@case("fit_10090_tight", group="fit", bar={"seconds": "< 0.8"}, smoke={"n": 3_000})
def fit_10090_tight(n: int = 10_090) -> dict[str, float]:
    """Fit of 10,090 x 1,000 sparse bags of words, binary, with tol=1e-7."""
    return _fit_bags(n, tol=1e-7)


@case("fit_1500", group="fit", bar={"seconds": "< 0.15"}, smoke={"n": 600})
def fit_1500(n: int = 1_500) -> dict[str, float]:
    """Fit of 1,500 x 1,000 sparse bags of words, 15 classes."""
    return _fit_bags(n, n_classes=15)


def _fit_bags(n: int, n_classes: int = 2, tol: float = 1e-2) -> dict[str, float]:
    X, y = make_bags_of_words(n, n_classes=n_classes, random_state=0)
    warm_up(X, y)
    clf = HistogramGPClassifier("hik", noise=0.1, random_state=0, tol=tol)
    duration = seconds(lambda: clf.fit(X, y))
    return {"seconds": duration, "iterations": clf.n_iter_, "rank": clf.preconditioner_rank_, "nonzeros": X.nnz}


@case("memory_10090", group="fit", smoke={"n": 3_000})
def memory_10090(n: int = 10_090) -> dict[str, float]:
    """Memory of a fit of 10,090 x 1,000 sparse bags of words, above that of the data and the imports."""
    X, y = make_bags_of_words(n, random_state=0)
    warm_up(X, y)
    before = peak_megabytes()
    HistogramGPClassifier("hik", noise=0.1, random_state=0).fit(X, y)
    return {"megabytes": max(1.0, peak_megabytes() - before)}


@case("cholesky", group="fit", bar={"times_the_time": ">= 25", "times_the_memory": ">= 8"}, smoke={"n": 1_000})
def cholesky(n: int = 10_090) -> dict[str, float]:
    """Dense Cholesky factor of a given matrix of 10,090 rows, against our fit."""
    fit_seconds, fit_megabytes = alone(_fit_bags, n)["seconds"], alone(memory_10090, n)["megabytes"]
    X, y = make_bags_of_words(n, random_state=0)
    targets = np.where(y == 1, 1.0, -1.0)
    before = peak_megabytes()
    system = HistogramIntersection()(X)
    system[np.diag_indices_from(system)] += 0.1
    _, default = timed(lambda: cho_solve(cho_factor(system, lower=True), targets))
    megabytes = peak_megabytes() - before
    # The best case: a matrix in Fortran order that may be overwritten.
    start = perf_counter()
    cho_solve(cho_factor(system.T, lower=True, overwrite_a=True, check_finite=False), targets, check_finite=False)
    return {
        "best_case_seconds": perf_counter() - start,
        "seconds": default,
        "megabytes": megabytes,
        "fit_seconds": fit_seconds,
        "fit_megabytes": fit_megabytes,
        "times_the_time": default / fit_seconds,
        "times_the_memory": megabytes / fit_megabytes,
    }


@case("svc", group="fit", bar={"times_the_time": ">= 20"}, smoke={"n": 1_000})
def svc(n: int = 10_090) -> dict[str, float]:
    """SVC with a precomputed matrix of 10,090 rows, against our fit."""
    fit_seconds = alone(_fit_bags, n)["seconds"]
    X, y = make_bags_of_words(n, random_state=0)
    HistogramIntersection()(X[:100])
    matrix, ours = timed(lambda: HistogramIntersection()(X))
    _, fitting = timed(lambda: SVC(kernel="precomputed").fit(matrix, y))
    # The matrix with what scikit-learn has: min(a, b) = (a + b - |a - b|) / 2.
    start = perf_counter()
    sums = X.sum(axis=1)
    expected = (sums[:, None] + sums - manhattan_distances(X.toarray())) / 2
    theirs = perf_counter() - start
    np.testing.assert_allclose(expected, matrix, atol=1e-9)
    return {
        "seconds": fitting,
        "matrix_seconds": theirs,
        "our_matrix_seconds": ours,
        "fit_seconds": fit_seconds,
        "times_the_time": (fitting + theirs) / fit_seconds,
        "times_the_time_with_our_matrix": (fitting + ours) / fit_seconds,
    }


@case(
    "product",
    group="fit",
    data="fashion-mnist",
    bar={"block_ratio": "<= 1.6", "vector_ratio": "<= 5"},
    smoke={"n": 2_000},
)
def product(n: int = 60_000) -> dict[str, float]:
    """Product with the 60,000 x 60,000 matrix of Fashion-MNIST, in times of reading the data once."""
    X = fashion_mnist()[0][:n]
    operator = intersection_operator(X, HistogramIntersection())
    vectors = np.random.default_rng(0).standard_normal((len(X), 16))
    source = np.ones(operator.cost)  # eight bytes a non-zero: index and value
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
        "bandwidth_gb": 16e-9 * operator.cost / copying,
        "block_seconds": block,
        "vector_seconds": vector,
        "block_ratio": block / 16 / reading,
        "vector_ratio": vector / reading,
    }
