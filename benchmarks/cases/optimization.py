"""The search for hyperparameters: bounds, quadrature, relevance, speed, and whether it helps."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from measure import fashion_mnist, peak_megabytes, seconds, warm_up
from scipy.stats import ttest_rel
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize
from texts import newsgroups

from histogp import HistogramGPClassifier, Optimizer
from histogp.datasets import make_bags_of_words, make_planted_words, make_relevance_test
from histogp.kernels import HistogramIntersection, Power, resolve
from histogp.operators.build import build_operator
from histogp.posterior.likelihood import exact_likelihood
from histogp.posterior.objectives import Data, quadrature_of
from histogp.solvers.bounds import determinant_bounds
from histogp.solvers.noise import Noise
from histogp.solvers.options import SolverOptions
from histogp.solvers.subspace import leading_subspace

CASES = 10_000
RELEVANCE_SIZES = (5, 10, 20, 40)
RELEVANCE_RUNS = 500
HELP_TRAIN = 15_000
KERNELS = ("hik", "hik-poly", "hik-exp")


def bounds() -> dict[str, float]:
    """Random small matrices by the test of the same purpose; how far the bounds are on real ones."""
    test = Path(__file__).parents[1] / "tests/solvers/test_bounds.py"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", str(test), "-k", "no_bound_is_below"],
        env={**os.environ, "HISTOGP_CASES": str(CASES)},
        capture_output=True,
        text=True,
        cwd=test.parents[2],
    )
    results = {"random_cases": CASES, "random_hold": float(done.returncode == 0)}
    violation = -np.inf
    for name, X in (("digits", load_digits().data / 16), ("fashion", fashion_mnist()[0][:2_000])):
        for eta in (0.5, 1.0):
            for noise in (0.02, 0.1, 1.0):
                operator = build_operator(X, resolve(HistogramIntersection(Power(eta)), X.shape[1]), 2)
                exact = _log_determinant(operator, noise)
                space = leading_subspace(operator, 48, np.random.default_rng(0))
                found = determinant_bounds(operator, Noise(np.full(len(X), noise)), space)
                violation = max(violation, exact - min(found.papers[0], found.fischer[0]))
                if (eta, noise) == (1.0, 0.1):
                    results |= {f"{name}_exact": exact, f"{name}_fischer": found.fischer[0]}
                    results[f"{name}_papers"] = found.papers[0]
    return {**results, "largest_violation": violation}


def quadrature() -> dict[str, float]:
    """The log-determinant with 16 probes, ten times."""
    X = fashion_mnist()[0][:2_000]
    operator = build_operator(X, resolve(HistogramIntersection(), X.shape[1]), 2)
    exact = _log_determinant(operator, 0.1)
    data = Data(operator, Noise(np.full(len(X), 0.1)), np.zeros((len(X), 1)))
    found = [quadrature_of(data, 16, SolverOptions(n_threads=2), seed, None) for seed in range(10)]
    errors = np.array([_determinant(one.value, len(X)) - exact for one in found])
    standard = np.array([2 * one.error for one in found])
    return {
        "exact": exact,
        "largest_error": float(np.abs(errors / exact).max()),
        "largest_in_standard_errors": float(np.abs(errors / standard).max()),
        "standard_error": float(np.mean(standard / abs(exact))),
    }


def relevance() -> dict[str, float]:
    """Eight features of which two matter (gp-hik-eccv2012, section 6.5)."""
    results: dict[str, float] = {}
    kernel = HistogramIntersection(weights="ard")
    for size in RELEVANCE_SIZES:
        scores, first, shares = [], 0, []
        for run in range(RELEVANCE_RUNS):
            X, y = make_relevance_test(size, random_state=run)
            X_test, y_test = make_relevance_test(250, random_state=1_000_000 + run)
            weighted = HistogramGPClassifier(kernel, optimize="gradient", random_state=0).fit(X, y)
            plain = HistogramGPClassifier(random_state=0).fit(X, y)
            scores.append((weighted.score(X_test, y_test), plain.score(X_test, y_test)))
            weights = weighted.kernel_.weights
            first += set(np.argsort(-weights)[:2]) == {0, 1}
            shares.append(weights[:2].sum() / weights.sum())
        ours, theirs = np.array(scores).T
        results |= {
            f"first_{size}": first / RELEVANCE_RUNS,
            f"share_{size}": float(np.mean(shares)),
            f"accuracy_{size}": float(ours.mean()),
            f"plain_{size}": float(theirs.mean()),
            f"p_{size}": float(ttest_rel(ours, theirs, alternative="greater").pvalue),
        }
    return results


def ard() -> dict[str, float]:
    """A thousand weights, twenty of which matter."""
    times, precisions, steps, products = [], [], [], []
    kernel = HistogramIntersection(weights="ard")
    for seed in range(5):
        X, y, relevant = make_planted_words(10_090, random_state=seed)
        if seed == 0:
            warm_up(X, y)
            HistogramGPClassifier(kernel, optimize=Optimizer(max_steps=2), random_state=0).fit(X[:600], y[:600])
        start = perf_counter()
        clf = HistogramGPClassifier(kernel, optimize="gradient", random_state=0).fit(X, y)
        times.append(perf_counter() - start)
        precisions.append(len(set(np.argsort(-clf.kernel_.weights)[:20]) & set(relevant)) / 20)
        path = clf.optimization_path_
        warm = np.isnan(path["standard_error"])
        steps.append(len(warm))
        products.append(path["n_products"][warm].mean() / 16)
    operator = build_operator(X, resolve(HistogramIntersection(weights=1.0), X.shape[1]), 2)
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


def search_10090() -> dict[str, float]:
    """eta and noise by the gradient and by the bound; the likelihoods of both with the same probes."""
    X, y = make_bags_of_words(10_090, random_state=0)
    warm_up(X, y)
    results: dict[str, float] = {}
    for method in ("gradient", "bound"):
        clf = _search(method, X[:600], y[:600])
        times = []
        for _ in range(3):
            start = perf_counter()
            clf = _search(method, X, y)
            times.append(perf_counter() - start)
        value, error = clf.log_marginal_likelihood(method="quadrature", max_error=3.0, return_error=True)
        results |= {
            f"{method}_seconds": float(np.median(times)),
            f"{method}_likelihood": value,
            f"{method}_error": error,
            f"{method}_evaluations": len(clf.optimization_path_["noise"]),
            f"{method}_noise": clf.noise_,
            f"{method}_eta": clf.kernel_.transform.eta,
        }
    return results


def search_50050() -> dict[str, float]:
    X, y = make_bags_of_words(50_050, random_state=0)
    warm_up(X, y)
    _search("gradient", X[:2_500], y[:2_500])
    before = peak_megabytes()
    start = perf_counter()
    clf = _search("gradient", X, y)
    return {
        "seconds": perf_counter() - start,
        "megabytes": peak_megabytes() - before,
        "bytes_a_nonzero": 1e6 * (peak_megabytes() - before) / X.nnz,
        "evaluations": len(clf.optimization_path_["noise"]),
        "noise": clf.noise_,
        "eta": clf.kernel_.transform.eta,
    }


def search_memory() -> dict[str, float]:
    """The same at a fifth of the size, for the growth of memory."""
    X, y = make_bags_of_words(10_090, random_state=0)
    warm_up(X, y)
    before = peak_megabytes()
    _search("gradient", X, y)
    used = peak_megabytes() - before
    return {"megabytes": used, "bytes_a_nonzero": 1e6 * used / X.nnz}


def helps_fashion() -> dict[str, float]:
    X, y, X_test, y_test = fashion_mnist()
    return _helps(X[:HELP_TRAIN], y[:HELP_TRAIN], X_test, y_test)


def helps_newsgroups() -> dict[str, float]:
    X, y, X_test, y_test = newsgroups()
    return _helps(normalize(X, "l1"), y, normalize(X_test, "l1"), y_test)


def _helps(X: Any, y: np.ndarray, X_test: Any, y_test: np.ndarray) -> dict[str, float]:
    """Test accuracy with the parameters as given and after the search, and half the width of a 95% interval."""
    results: dict[str, float] = {"examples": X.shape[0]}
    for kernel in KERNELS:
        for optimize in (None, "gradient"):
            start = perf_counter()
            clf = HistogramGPClassifier(kernel, optimize=optimize, random_state=0).fit(X, y)
            name = f"{kernel} {'fixed' if optimize is None else 'optimised'}"
            results[f"{name} seconds"] = perf_counter() - start
            accuracy = clf.set_params(prediction="quantized").score(X_test, y_test)
            results[f"{name} accuracy"] = accuracy
            results[f"{name} margin"] = 1.96 * np.sqrt(accuracy * (1 - accuracy) / len(y_test))
            results[f"{name} noise"] = clf.noise_
    return results


def _search(method: str, X: Any, y: np.ndarray) -> HistogramGPClassifier:
    optimizer = Optimizer(method, parameters=["noise", "transform__eta"])
    return HistogramGPClassifier("hik-poly", optimize=optimizer, random_state=0).fit(X, y)


def _log_determinant(operator: Any, noise: float) -> float:
    n = operator.n_rows
    return _determinant(exact_likelihood(operator, Noise(np.full(n, noise)), np.zeros((n, 1))).value, n)


def _determinant(likelihood: float, n: int) -> float:
    """From the likelihood of targets that are zero."""
    return -2 * likelihood - n * np.log(2 * np.pi)
