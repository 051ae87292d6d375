"""Variances, probabilities, detection of the unknown, posterior samples: how right and how fast."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import numpy as np
from measure import fashion_mnist, seconds
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from scipy.stats import spearmanr
from sklearn.datasets import load_digits
from sklearn.ensemble import IsolationForest
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.neighbors import LocalOutlierFactor
from sklearn.svm import OneClassSVM

from histogp import HistogramGPClassifier, HistogramGPOneClass, HistogramGPRegressor
from histogp.datasets import make_bags_of_words
from histogp.kernels import HistogramIntersection

N_TEST = 10_000
SAMPLED_SIZES = (5_000, 10_090, 20_000, 50_050)
CALIBRATED_SIZES = (5_000, 10_090, 50_050)
FASHION_SIZE = 20_000
SEEDS = 3
SAMPLED_SEEDS = 8
SAMPLED_SEEDS_FASHION = 4
FAR = ("classes", "permuted", "doubled")
ONE_CLASS_SIZE = 100
ONE_CLASS_REPEATS = 10
ONE_CLASS_TESTED = 2_000
N_DRAWS = 10_000


def variance_chain() -> dict[str, float]:
    """Every bound lies above the next better one; the precise variance is below all of them."""
    X, y, X_test, _ = fashion_mnist()
    bags, labels, bags_test = _bags(10_090, 200)
    results: dict[str, float] = {}
    for name, X_train, y_train, test in (
        ("fashion", X[:4_000], y[:4_000], X_test[:1_000].astype(np.float64)),
        ("bags", bags, labels, bags_test),
    ):
        clf = HistogramGPClassifier(random_state=0).fit(X_train, y_train)
        prior = np.asarray(test.sum(axis=1))[:, None]
        fine = _latent(clf, test, "fine", n_eigenvectors=[8, 2, 0])
        others = [_latent(clf, test, method)[:, None] for method in ("coarse", "coarse-quantized")]
        chain = np.hstack([_latent(clf, test, "precise", tol=1e-8)[:, None], fine, *others]) / prior
        results[f"{name}_violation"] = float(np.max(chain[:, :-1] - chain[:, 1:]))
        results[f"{name}_smallest"] = float(chain.min())
        for what, share in zip(("precise", "fine_8", "fine_2", "fine_0", "coarse", "quantized"), chain.T, strict=True):
            results[f"{name}_{what}"] = float(share.mean())
    return results


def variance_dense() -> dict[str, float]:
    """The iterative solver against a dense factorisation."""
    X, y, X_test, _ = fashion_mnist()
    X, y, X_test = X[:3_000].astype(np.float64), y[:3_000], X_test[:1_000].astype(np.float64)
    kernel = HistogramIntersection()
    system, cross = kernel(X), kernel(X, X_test)
    system[np.diag_indices_from(system)] += 0.1
    explained = np.einsum("ij,ij->j", cross, cho_solve(cho_factor(system, lower=True), cross))
    dense = X_test.sum(axis=1) - explained
    clf = HistogramGPClassifier(solver="cg", random_state=0).fit(X, y)
    results = {"smallest_share": float(np.min(dense / X_test.sum(axis=1)))}
    for name, tol in (("tight", 1e-8), ("default", 1e-4)):
        ratio = _latent(clf, X_test, "precise", tol=tol) / dense
        results[name] = float(np.abs(ratio - 1).max())
    return results


def variance_times() -> dict[str, float]:
    """Each method with a model of its own, as one prepares what another can use."""
    X, y, test = _bags(10_090, N_TEST)
    _load_variances(X, y)
    results: dict[str, float] = {}
    for method, n_rows, repeats in (
        ("fine", 1_000, 5),
        ("coarse", N_TEST, 15),
        ("coarse-quantized", N_TEST, 15),
    ):
        clf, rows = HistogramGPClassifier(random_state=0).fit(X, y), test[:n_rows]
        results[f"{method}_preparation"] = _preparation(clf, test[:1], method)
        duration = seconds(lambda clf=clf, rows=rows, method=method: clf.predict_variance(rows, method), repeats)
        results[f"{method}_us"] = 1e6 * duration / n_rows
    # The more rows are asked for, the better the preconditioner.
    clf, rows = HistogramGPClassifier(random_state=0).fit(X, y), test[:1_000]
    first, second = (_timed(lambda: clf.predict_variance(rows))[1] for _ in range(2))
    return {**results, "precise_preparation": first - second, "precise_us": 1e6 * second / 1_000}


def sampled_times() -> dict[str, float]:
    results: dict[str, float] = {}
    for n in SAMPLED_SIZES:
        X, y, test = _bags(n, N_TEST)
        if n == SAMPLED_SIZES[0]:
            _load_variances(X, y)
        clf = HistogramGPClassifier(random_state=0).fit(X, y)
        results[f"preparation_{n}"] = _preparation(clf, test[:1], "sampled")
        duration = seconds(lambda clf=clf, test=test: clf.predict_variance(test, "sampled"), repeats=15)
        results[f"us_{n}"] = 1e6 * duration / N_TEST
    return results


def sampled_bias() -> dict[str, float]:
    return _bias(*_bags(5_000, 500), SAMPLED_SEEDS)


def sampled_bias_fashion() -> dict[str, float]:
    X, y, X_test, _ = fashion_mnist()
    return _bias(X[:4_000], y[:4_000], X_test[:500], SAMPLED_SEEDS_FASHION)


def calibrated_times() -> dict[str, float]:
    results: dict[str, float] = {}
    for n in CALIBRATED_SIZES:
        X, y, test = _bags(n, N_TEST)
        results |= {f"{name}_{n}": value for name, value in _calibrated_times(X, y, test).items()}
    return results


def calibrated_times_fashion() -> dict[str, float]:
    X, y, X_test, _ = fashion_mnist()
    return _calibrated_times(X[:FASHION_SIZE], y[:FASHION_SIZE], X_test)


def calibrated_error() -> dict[str, float]:
    return _calibrated_error(*_bags(10_090, 1_000))


def calibrated_error_fashion() -> dict[str, float]:
    X, y, X_test, _ = fashion_mnist()
    return _calibrated_error(X[:FASHION_SIZE], y[:FASHION_SIZE], X_test[:1_000])


def calibrated_far() -> dict[str, float]:
    """Rows unlike those for which the weights were found."""
    X, y, X_test, y_test = fashion_mnist()
    rng = np.random.default_rng(0)
    near, test = np.flatnonzero(y < 5)[:FASHION_SIZE], X_test[:1_000]
    of_five, of_all = (
        HistogramGPClassifier(random_state=0).fit(X[train], y[train]) for train in (near, slice(FASHION_SIZE))
    )
    results: dict[str, float] = {}
    for name, clf, rows in zip(
        FAR,
        (of_five, of_all, of_all),
        (X_test[y_test >= 5][:1_000], rng.permuted(test, axis=1), 2 * test),
        strict=True,
    ):
        exact, found = (_latent(clf, rows, method) for method in ("precise", "calibrated"))
        results |= {f"{name}_{what}": value for what, value in _errors(found, exact).items()}
        results[f"{name}_ratio"] = float(np.mean(found / exact))
        results[f"{name}_estimate"] = clf.variance_error_
    return results


def probability_fashion() -> dict[str, float]:
    X, y, X_test, y_test = fashion_mnist()
    X, y = X[:FASHION_SIZE], y[:FASHION_SIZE]
    return _of_probabilities(_probabilities(X, y, X_test, noise=0.1), y_test)


def probability_digits() -> dict[str, float]:
    """The predictions of all five folds, judged together."""
    X, y = load_digits(return_X_y=True)
    pooled: dict[str, np.ndarray] = {}
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
        for name, found in _probabilities(X[train], y[train], X[test], noise=100).items():
            pooled.setdefault(name, np.empty((len(y), 10)))[test] = found
    return _of_probabilities(pooled, y)


def one_class() -> dict[str, float]:
    """Each class against the rest, a hundred examples; the mean area under the curve, on some test rows."""
    X, y, X_test, y_test = fashion_mnist()
    some = np.random.default_rng(0).choice(len(y_test), ONE_CLASS_TESTED, replace=False)
    X_test, y_test = X_test[some], y_test[some]
    roots, roots_test = np.sqrt(X), np.sqrt(X_test)
    scores: dict[str, list[float]] = {}
    for repeat in range(ONE_CLASS_REPEATS):
        rng = np.random.default_rng(repeat)
        for label in range(10):
            train = rng.choice(np.flatnonzero(y == label), ONE_CLASS_SIZE, replace=False)
            for name, model in _detectors():
                own, test = (roots, roots_test) if name.endswith("roots") else (X, X_test)
                area = roc_auc_score(y_test == label, model.fit(own[train]).score_samples(test))
                scores.setdefault(name, []).append(float(area))
    return {name: float(np.mean(areas)) for name, areas in scores.items()}


def sample_y() -> dict[str, float]:
    """Means and covariances of posterior draws against dense ones, in standard errors."""
    rng = np.random.default_rng(0)
    X, test = rng.random((300, 10)), rng.random((12, 10))
    y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(300)
    system, cross, own = (
        np.minimum(left[:, None], right).sum(axis=2) for left, right in ((X, X), (X, test), (test, test))
    )
    solved = np.linalg.solve(system + 0.1 * np.eye(300), np.column_stack([cross, (y - y.mean()) / y.std()]))
    latent = y.var() * (own - cross.T @ solved[:, :-1])
    mean = y.mean() + y.std() * cross.T @ solved[:, -1]
    reg = HistogramGPRegressor(noise=0.1, normalize_y=True).fit(X, y)
    results: dict[str, float] = {}
    for name, noise in (("function", 0.0), ("observation", 0.1 * y.var())):
        wanted = latent + noise * np.eye(12)
        drawn = reg.sample_y(test, N_DRAWS, include_noise=noise > 0)
        spread = np.diag(wanted)
        error = np.sqrt((np.outer(spread, spread) + wanted**2) / N_DRAWS)
        results[f"{name}_covariance"] = float(np.max(np.abs(np.cov(drawn) - wanted) / error))
        results[f"{name}_mean"] = float(np.max(np.abs(drawn.mean(axis=1) - mean) / np.sqrt(spread / N_DRAWS)))
    return results


def _bags(n_train: int, n_test: int) -> tuple[Any, np.ndarray, Any]:
    """Binary bags of words to train with, and others from the same distributions."""
    X, y = make_bags_of_words(n_train + n_test, random_state=0)
    return X[:n_train], y[:n_train], X[n_train:]


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = perf_counter()
    return work(), perf_counter() - start


def _latent(clf: Any, X: Any, method: str, **options: Any) -> np.ndarray:
    return clf.predict_variance(X, method, include_noise=False, **options)


def _load_variances(X: Any, y: np.ndarray) -> None:
    """Load the compiled code of all methods."""
    clf = HistogramGPClassifier(random_state=0).fit(X[:2_500], y[:2_500])
    for method in ("precise", "fine", "coarse", "coarse-quantized", "sampled", "calibrated"):
        clf.predict_variance(X[:10], method)


def _preparation(clf: Any, row: Any, method: str) -> float:
    """What a first call for one row takes more than a second one."""
    first, second = (_timed(lambda: clf.predict_variance(row, method))[1] for _ in range(2))
    return first - second


def _errors(found: np.ndarray, exact: np.ndarray) -> dict[str, float]:
    rms = np.sqrt(np.mean((found / exact - 1) ** 2))
    return {"rms": float(rms), "rank": float(spearmanr(found, exact).statistic)}


def _bias(X: Any, y: np.ndarray, test: Any, n_seeds: int) -> dict[str, float]:
    """Draws of all seeds against the precise variance."""
    exact = _latent(HistogramGPClassifier(random_state=0).fit(X, y), test, "precise")
    ratios = np.array(
        [
            _latent(HistogramGPClassifier(random_state=seed).fit(X, y), test, "sampled") / exact
            for seed in range(n_seeds)
        ]
    )
    means = ratios.mean(axis=1)
    return {
        "bias": float(means.mean() - 1),
        "standard_error": float(means.std(ddof=1) / np.sqrt(n_seeds)),
        "rms": float(np.sqrt(np.mean((ratios - 1) ** 2, axis=1)).mean()),
    }


def _calibrated_times(X: Any, y: np.ndarray, test: Any) -> dict[str, float]:
    _load_variances(X, y)
    fits, preparations = [], []
    for seed in range(SEEDS):
        clf, duration = _timed(lambda seed=seed: HistogramGPClassifier(random_state=seed).fit(X, y))
        fits.append(duration)
        preparations.append(_preparation(clf, test[:1], "calibrated"))
    return {
        "us": 1e6 * seconds(lambda: clf.predict_variance(test, "calibrated"), repeats=15) / test.shape[0],
        "fit": float(np.median(fits)),
        "preparation": float(np.median(preparations)),
    }


def _calibrated_error(X: Any, y: np.ndarray, test: Any) -> dict[str, float]:
    exact = None
    rows = []
    for seed in range(SEEDS):
        clf = HistogramGPClassifier(random_state=seed).fit(X, y)
        if exact is None:
            exact = _latent(clf, test, "precise")
        rows.append({**_errors(_latent(clf, test, "calibrated"), exact), "estimate": clf.variance_error_})
    found = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return {
        "worst_rms": float(found["rms"].max()),
        "mean_rms": float(found["rms"].mean()),
        "worst_rank": float(found["rank"].min()),
        "mean_rank": float(found["rank"].mean()),
        "lowest_estimate": float(found["estimate"].min()),
        "highest_estimate": float(found["estimate"].max()),
    }


def _probabilities(X: np.ndarray, y: np.ndarray, test: np.ndarray, noise: float) -> dict[str, np.ndarray]:
    """Ours, a temperature from a held-out fifth, and the Dirichlet regression."""
    clf = HistogramGPClassifier(noise=noise, random_state=0).fit(X, y)
    ours, scores = clf.predict_proba(test), clf.decision_function(test)
    X_part, X_held, y_part, y_held = train_test_split(X, y, test_size=0.2, random_state=0, stratify=y)
    part = HistogramGPClassifier(noise=noise, random_state=0).fit(X_part, y_part)
    held = part.decision_function(X_held)
    cost = lambda factor: log_loss(y_held, softmax(np.exp(factor) * held, axis=1))  # noqa: E731
    factor = np.exp(minimize_scalar(cost, bounds=(-3, 6), method="bounded").x)
    dirichlet = clf.set_params(probability="dirichlet").predict_proba(test)
    return {"ours": ours, "held": softmax(factor * scores, axis=1), "dirichlet": dirichlet}


def _of_probabilities(found: dict[str, np.ndarray], y: np.ndarray) -> dict[str, float]:
    results: dict[str, float] = {}
    for name, one in found.items():
        results[f"{name}_error"] = calibration_error(one, y)
        results[f"{name}_loss"] = float(log_loss(y, one))
        results[f"{name}_accuracy"] = float(np.mean(one.argmax(axis=1) == y))
    return results


def calibration_error(found: np.ndarray, y: np.ndarray, n_bins: int = 15) -> float:
    """The distance between confidence and accuracy, averaged over the examples; labels are 0, 1 and so on."""
    confidence, right = found.max(axis=1), found.argmax(axis=1) == y
    bins = np.minimum((n_bins * confidence).astype(int), n_bins - 1)
    return float(np.abs(np.bincount(bins, right - confidence)).sum() / len(y))


def _detectors() -> Iterator[tuple[str, Any]]:
    """Ours, and those of others on raw and on square-rooted features."""
    yield "ours", HistogramGPOneClass(random_state=0)
    for criterion in ("mean", "ratio"):
        yield f"ours {criterion}", HistogramGPOneClass(criterion=criterion, random_state=0)
    for method in ("fine", "coarse", "coarse-quantized", "sampled", "calibrated"):
        yield f"ours {method}", HistogramGPOneClass(method=method, random_state=0)
    for features in ("raw", "roots"):
        yield f"OneClassSVM {features}", OneClassSVM()
        yield f"IsolationForest {features}", IsolationForest(random_state=0)
        yield f"LocalOutlierFactor {features}", LocalOutlierFactor(novelty=True)
