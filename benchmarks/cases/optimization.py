"""The optimization of hyperparameters: bounds, quadrature, relevance, speed, and whether it helps."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
from scipy.stats import ttest_rel
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from benchmarks.data import fashion_mnist, newsgroups
from benchmarks.internals import intersection_operator
from benchmarks.measure import alone, peak_megabytes, scaled, seconds, timed, warm_up
from benchmarks.registry import case
from benchmarks.running import ROOT
from histogp import HistogramGPClassifier, HistogramGPRegressor, Optimizer
from histogp.datasets import make_bags_of_words, make_planted_words, make_relevance_test
from histogp.kernels import HistogramIntersection, Power

RELEVANCE_SIZES = (5, 10, 20, 40)
N_PLANTED = 20
KERNELS = ("hik", "hik-poly", "hik-exp")


@case(
    "bounds",
    group="optimization",
    data="fashion-mnist",
    bar={"random_hold": "== 1", "largest_violation": "< 1e-6"},
    smoke={"n_random": 20, "n": 200},
)
def bounds(n_random: int = 10_000, n: int = 2_000) -> dict[str, float]:
    """Bounds of the log-determinant: 10,000 random small matrices, by the test of that purpose, and 12 real ones."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "tests/core/solvers/test_determinant_bounds.py",
            "-k",
            "no_bound_is_below",
        ],
        env={**os.environ, "HISTOGP_CASES": str(n_random)},
        capture_output=True,
        cwd=ROOT,
    )
    if done.returncode > 1:
        raise RuntimeError(f"pytest ran no test: {done.stdout.decode()}")
    results = {"random_cases": n_random, "random_hold": float(done.returncode == 0)}
    violation = -np.inf
    for name, X in (("digits", load_digits().data[:n] / 16), ("fashion", fashion_mnist()[0][:n])):
        for eta in (0.5, 1.0):
            for noise in (0.02, 0.1, 1.0):
                found = _log_determinants(X, HistogramIntersection(Power(eta)), noise)
                violation = max(violation, found["exact"] - min(found["papers"], found["fischer"]))
                if (eta, noise) == (1.0, 0.1):
                    results |= {f"{name}_{kind}": value for kind, value in found.items()}
    return {**results, "largest_violation": violation}


def _log_determinants(X: np.ndarray, kernel: Any, noise: float) -> dict[str, float]:
    """The log-determinant of the covariance and its two upper bounds."""
    reg = _without_targets(X, kernel, noise)
    return {
        "exact": _log_determinant(reg.log_marginal_likelihood(method="exact"), len(X)),
        **{
            bound: _log_determinant(reg.log_marginal_likelihood(method="bound", bound=bound), len(X))
            for bound in ("papers", "fischer")
        },
    }


def _without_targets(X: np.ndarray, kernel: Any, noise: float) -> HistogramGPRegressor:
    """A process whose targets are zero, so that its likelihood depends on the determinant alone."""
    return HistogramGPRegressor(kernel, normalize_y=False, noise=noise, random_state=0).fit(X, np.zeros(len(X)))


def _log_determinant(likelihood: float, n: int) -> float:
    """From the likelihood of n targets that are zero."""
    return -2 * likelihood - n * np.log(2 * np.pi)


@case(
    "quadrature",
    group="optimization",
    data="fashion-mnist",
    bar={"largest_error": "<= 0.01", "largest_in_standard_errors": "<= 3"},
    smoke={"n": 500},
)
def quadrature(n: int = 2_000) -> dict[str, float]:
    """Log-determinant by quadrature with 16 probes, 2,000 images, the worst of ten seeds."""
    X = fashion_mnist()[0][:n]
    reg = _without_targets(X, HistogramIntersection(), 0.1)
    exact = _log_determinant(reg.log_marginal_likelihood(method="exact"), n)
    found = [
        reg.set_params(random_state=seed).log_marginal_likelihood(method="quadrature", n_probes=16, return_error=True)
        for seed in range(10)
    ]
    errors = np.array([_log_determinant(value, n) - exact for value, _ in found])
    standard = np.array([2 * error for _, error in found])
    return {
        "exact": exact,
        "largest_error": float(np.abs(errors / exact).max()),
        "largest_in_standard_errors": float(np.abs(errors / standard).max()),
        "standard_error": float(np.mean(standard / abs(exact))),
    }


@case(
    "relevance",
    group="optimization",
    bar={"first_20": ">= 0.9", **{f"p_{size}": "< 1e-7" for size in RELEVANCE_SIZES}},
    smoke={"n_runs": 3},
)
def relevance(n_runs: int = 500) -> dict[str, float]:
    """Eight features of which two matter (gp-hik-eccv2012, section 6.5): are their weights the largest?"""
    results: dict[str, float] = {}
    kernel = HistogramIntersection(weights="ard")
    for size in RELEVANCE_SIZES:
        scores, first, shares = [], 0, []
        for run in range(n_runs):
            X, y = make_relevance_test(size, random_state=run)
            X_test, y_test = make_relevance_test(250, random_state=1_000_000 + run)
            weighted = HistogramGPClassifier(kernel, optimize="gradient", random_state=0).fit(X, y)
            plain = HistogramGPClassifier("hik", noise=0.1, random_state=0).fit(X, y)
            scores.append((weighted.score(X_test, y_test), plain.score(X_test, y_test)))
            weights = weighted.kernel_.weights
            first += set(np.argsort(-weights)[:2]) == {0, 1}
            shares.append(weights[:2].sum() / weights.sum())
        ours, theirs = np.array(scores).T
        results |= {
            f"first_{size}": first / n_runs,
            f"share_{size}": float(np.mean(shares)),
            f"accuracy_{size}": float(ours.mean()),
            f"plain_{size}": float(theirs.mean()),
            f"p_{size}": float(ttest_rel(ours, theirs, alternative="greater").pvalue),
        }
    return results


@case(
    "ard",
    group="optimization",
    bar={"slowest_seconds": "< 30", "lowest_precision": ">= 0.9", "gradient_in_products": "<= 3"},
    smoke={"n": 600, "n_seeds": 1},
)
def ard(n: int = 10_090, n_seeds: int = 5) -> dict[str, float]:
    """A thousand weights, twenty of which matter, 10,090 samples."""
    times, precisions, steps, products = [], [], [], []
    kernel = HistogramIntersection(weights="ard")
    for seed in range(n_seeds):
        X, y, relevant = make_planted_words(n, random_state=seed)
        if seed == 0:
            warm_up(X, y)
            HistogramGPClassifier(kernel, optimize=Optimizer(max_steps=2), random_state=0).fit(X[:600], y[:600])
        model = HistogramGPClassifier(kernel, optimize="gradient", random_state=0)
        clf, duration = timed(lambda model=model, X=X, y=y: model.fit(X, y))
        times.append(duration)
        precisions.append(len(set(np.argsort(-clf.kernel_.weights)[:N_PLANTED]) & set(relevant)) / N_PLANTED)
        path = clf.optimization_path_
        warm = np.isnan(path["standard_error"])
        steps.append(len(warm))
        products.append(path["n_products"][warm].mean() / 16 if warm.any() else 0.0)
    operator = intersection_operator(X, HistogramIntersection(weights=1.0))
    vectors = np.random.default_rng(0).standard_normal((X.shape[0], 16))
    gradient, product = (
        seconds(work, repeats=25)
        for work in (lambda: operator.gradient(vectors, vectors), lambda: operator.matmat(vectors, "single"))
    )
    return {
        "slowest_seconds": max(times),
        "median_seconds": float(np.median(times)),
        "lowest_precision": min(precisions),
        "evaluations": float(np.mean(steps)),
        "gradient_in_products": gradient / product,
        "iterations_a_step": float(np.mean(products)),
    }


@case(
    "search_10090",
    group="optimization",
    bar={"likelihood_gain": ">= 0", "bound_in_gradient_times": ">= 2", "gradient_seconds": "< 8"},
    smoke={"n": 2_500},
)
def search_10090(n: int = 10_090) -> dict[str, float]:
    """eta and noise by the gradient and by the papers' bound, 10,090 x 1,000; likelihoods with the same probes."""
    X, y = make_bags_of_words(n, random_state=0)
    warm_up(X, y)
    results: dict[str, float] = {}
    for method in ("gradient", "bound"):
        _optimized(method, X[:600], y[:600])
        runs = [timed(lambda method=method: _optimized(method, X, y)) for _ in range(3)]
        clf = runs[-1][0]
        value, error = clf.log_marginal_likelihood(method="quadrature", max_error=3.0, return_error=True)
        results |= {
            f"{method}_seconds": float(np.median([duration for _, duration in runs])),
            f"{method}_likelihood": value,
            f"{method}_error": error,
            f"{method}_evaluations": len(clf.optimization_path_["noise"]),
            f"{method}_noise": clf.noise_,
            f"{method}_eta": clf.kernel_.transform.eta,
        }
    results["likelihood_gain"] = results["gradient_likelihood"] - results["bound_likelihood"]
    results["bound_in_gradient_times"] = results["bound_seconds"] / results["gradient_seconds"]
    return results


@case("search_memory", group="optimization", smoke={"n": 2_500})
def search_memory(n: int = 10_090) -> dict[str, float]:
    """Memory of the search for eta and noise, 10,090 x 1,000, above that of the data and the imports."""
    X, y = make_bags_of_words(n, random_state=0)
    warm_up(X, y)
    before = peak_megabytes()
    _optimized("gradient", X, y)
    used = peak_megabytes() - before
    return {"megabytes": used, "bytes_a_nonzero": 1e6 * used / X.nnz}


@case("search_50050", group="optimization", bar={"seconds": "< 30", "memory_growth": "< 1.5"}, smoke={"scale": 0.06})
def search_50050(scale: float = 1) -> dict[str, float]:
    """Search for eta and noise, 50,050 x 1,000; memory for each non-zero against that of a fifth of the samples."""
    fifth = alone(search_memory, scaled(10_090, scale))["bytes_a_nonzero"]
    X, y = make_bags_of_words(scaled(50_050, scale), random_state=0)
    warm_up(X, y)
    _optimized("gradient", X[:2_500], y[:2_500])
    before = peak_megabytes()
    clf, duration = timed(lambda: _optimized("gradient", X, y))
    used = peak_megabytes() - before
    return {
        "seconds": duration,
        "megabytes": used,
        "bytes_a_nonzero": 1e6 * used / X.nnz,
        "memory_growth": 1e6 * used / X.nnz / max(fifth, 1e-9),
        "evaluations": len(clf.optimization_path_["noise"]),
        "noise": clf.noise_,
        "eta": clf.kernel_.transform.eta,
    }


def _optimized(method: str, X: Any, y: np.ndarray) -> HistogramGPClassifier:
    optimizer = Optimizer(method, parameters=["noise", "transform__eta"])
    return HistogramGPClassifier("hik-poly", optimize=optimizer, random_state=0).fit(X, y)


@case("helps_fashion", group="optimization", data="fashion-mnist", smoke={"n": 600})
def helps_fashion(n: int = 15_000) -> dict[str, float]:
    """Accuracy with parameters as given and optimized: Fashion-MNIST, 15,000 images."""
    X, y, X_test, y_test = fashion_mnist()
    return _accuracies(X[:n], y[:n], X_test, y_test)


@case("helps_newsgroups", group="optimization", data="newsgroups", smoke={"n": 600})
def helps_newsgroups(n: int | None = None) -> dict[str, float]:
    """Accuracy with parameters as given and optimized: 20 Newsgroups, L1-normalized word counts."""
    X, y, X_test, y_test = newsgroups()
    return _accuracies(normalize(X[:n], "l1"), y[:n], normalize(X_test, "l1"), y_test)


def _accuracies(X: Any, y: np.ndarray, X_test: Any, y_test: np.ndarray) -> dict[str, float]:
    """Test accuracy with the parameters as given and after the search, and half the width of a 95% interval."""
    results: dict[str, float] = {"samples": X.shape[0]}
    for kernel in KERNELS:
        for name, optimize in ((f"{kernel} fixed", None), (f"{kernel} optimized", "gradient")):
            model = HistogramGPClassifier(kernel, optimize=optimize, random_state=0)
            clf, results[f"{name} seconds"] = timed(lambda model=model: model.fit(X, y))
            accuracy = clf.set_params(prediction="quantized").score(X_test, y_test)
            results[f"{name} accuracy"] = accuracy
            results[f"{name} margin"] = 1.96 * np.sqrt(accuracy * (1 - accuracy) / len(y_test))
            results[f"{name} noise"] = clf.noise_
    return results
