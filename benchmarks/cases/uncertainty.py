"""Variances, probabilities, detection of the unknown, posterior samples: how right and how fast."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
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

from benchmarks.data import fashion_mnist
from benchmarks.measure import scaled, seconds, timed
from benchmarks.registry import case
from benchmarks.scores import calibration_error
from histogp import HistogramGPClassifier, HistogramGPOneClass, HistogramGPRegressor
from histogp.datasets import make_bags_of_words
from histogp.kernels import HistogramIntersection

N_TEST = 10_000
SAMPLED_SIZES = (5_000, 10_090, 20_000, 50_050)
CALIBRATED_SIZES = (5_000, 10_090, 50_050)
FASHION_SIZE = 20_000
FAR = ("classes", "permuted", "doubled")
NOISY = ("function", "observation")


@case(
    "variance_chain",
    group="uncertainty",
    data="fashion-mnist",
    bar={
        "fashion_violation": "<= 1e-8",
        "fashion_smallest": ">= 0",
        "bags_violation": "<= 1e-8",
        "bags_smallest": ">= 0",
    },
    smoke={"scale": 0.1},
)
def variance_chain(scale: float = 1) -> dict[str, float]:
    """Every bound of the variance lies above the next better one, and the precise variance below all of them."""
    X, y, X_test, _ = fashion_mnist()
    n, n_test = scaled(4_000, scale), scaled(1_000, scale)
    bags, labels, bags_test = _bags(scaled(10_090, scale), scaled(200, scale))
    results: dict[str, float] = {}
    for name, X_train, y_train, test in (
        ("fashion", X[:n], y[:n], X_test[:n_test].astype(np.float64)),
        ("bags", bags, labels, bags_test),
    ):
        clf = HistogramGPClassifier("hik", noise=0.1, random_state=0).fit(X_train, y_train)
        prior = np.asarray(test.sum(axis=1))[:, None]
        fine = _latent(clf, test, "fine", n_eigenvectors=[8, 2, 0])
        others = [_latent(clf, test, method)[:, None] for method in ("coarse", "coarse-quantized")]
        chain = np.hstack([_latent(clf, test, "precise", tol=1e-8)[:, None], fine, *others]) / prior
        results[f"{name}_violation"] = float(np.max(chain[:, :-1] - chain[:, 1:]))
        results[f"{name}_smallest"] = float(chain.min())
        for what, share in zip(("precise", "fine_8", "fine_2", "fine_0", "coarse", "quantized"), chain.T, strict=True):
            results[f"{name}_{what}"] = float(share.mean())
    return results


@case("variance_dense", group="uncertainty", data="fashion-mnist", bar={"tight": "<= 1e-6"}, smoke={"n": 300})
def variance_dense(n: int = 3_000) -> dict[str, float]:
    """Precise variance by the iterative solver against a dense factorization, Fashion-MNIST 3,000."""
    X, y, X_test, _ = fashion_mnist()
    X, y, X_test = X[:n].astype(np.float64), y[:n], X_test[:1_000].astype(np.float64)
    kernel = HistogramIntersection()
    system, cross = kernel(X), kernel(X, X_test)
    system[np.diag_indices_from(system)] += 0.1
    explained = np.einsum("ij,ij->j", cross, cho_solve(cho_factor(system, lower=True), cross))
    dense = X_test.sum(axis=1) - explained
    clf = HistogramGPClassifier("hik", noise=0.1, solver="cg", random_state=0).fit(X, y)
    results = {"smallest_share": float(np.min(dense / X_test.sum(axis=1)))}
    for name, tol in (("tight", 1e-8), ("default", 1e-4)):
        ratio = _latent(clf, X_test, "precise", tol=tol) / dense
        results[name] = float(np.abs(ratio - 1).max())
    return results


@case(
    "variance_times",
    group="uncertainty",
    bar={"precise_us": "<= 20000", "fine_us": "<= 300", "coarse_us": "<= 10", "coarse_quantized_us": "<= 0.5"},
    smoke={"scale": 0.05},
)
def variance_times(scale: float = 1) -> dict[str, float]:
    """Time of each kind of variance, 10,090 x 1,000 sparse, each with a model of its own."""
    X, y, test = _bags(scaled(10_090, scale), scaled(N_TEST, scale))
    _load_variances(X, y)
    some = scaled(1_000, scale)
    results: dict[str, float] = {}
    # A model of its own, as one method prepares what another can use.
    for method, n_rows, repeats in (
        ("fine", some, 5),
        ("coarse", test.shape[0], 15),
        ("coarse-quantized", test.shape[0], 15),
    ):
        clf, rows = HistogramGPClassifier("hik", noise=0.1, random_state=0).fit(X, y), test[:n_rows]
        name = method.replace("-", "_")
        results[f"{name}_preparation"] = _preparation(clf, test[:1], method)
        duration = seconds(lambda clf=clf, rows=rows, method=method: clf.predict_variance(rows, method), repeats)
        results[f"{name}_us"] = 1e6 * duration / n_rows
    # The more rows are asked for, the better the preconditioner.
    clf, rows = HistogramGPClassifier("hik", noise=0.1, random_state=0).fit(X, y), test[:some]
    first, second = (timed(lambda: clf.predict_variance(rows))[1] for _ in range(2))
    return {**results, "precise_preparation": first - second, "precise_us": 1e6 * second / some}


@case("sampled_times", group="uncertainty", bar={"slowest_us": "<= 20"}, smoke={"scale": 0.02})
def sampled_times(scale: float = 1) -> dict[str, float]:
    """Time of the sampled variance, 256 draws, 1,000 sparse features, by the number of training samples."""
    results: dict[str, float] = {}
    for n in SAMPLED_SIZES:
        X, y, test = _bags(scaled(n, scale), scaled(N_TEST, scale))
        if n == SAMPLED_SIZES[0]:
            _load_variances(X, y)
        clf = HistogramGPClassifier("hik", noise=0.1, random_state=0).fit(X, y)
        results[f"preparation_{n}"] = _preparation(clf, test[:1], "sampled")
        duration = seconds(lambda clf=clf, test=test: clf.predict_variance(test, "sampled"), repeats=15)
        results[f"us_{n}"] = 1e6 * duration / test.shape[0]
    times = [results[f"us_{n}"] for n in SAMPLED_SIZES]
    return {**results, "fastest_us": min(times), "slowest_us": max(times)}


SAMPLED_BARS = {"bias_beyond_chance": "<= 0.01", "rms": "<= 0.1"}


@case("sampled_bias", group="uncertainty", bar=SAMPLED_BARS, smoke={"n": 300, "n_seeds": 2})
def sampled_bias(n: int = 5_000, n_seeds: int = 8) -> dict[str, float]:
    """Sampled variance against the precise one, 5,000 x 1,000 sparse."""
    return _bias(*_bags(n, 500), n_seeds)


@case(
    "sampled_bias_fashion",
    group="uncertainty",
    data="fashion-mnist",
    bar=SAMPLED_BARS,
    smoke={"n": 300, "n_seeds": 2},
)
def sampled_bias_fashion(n: int = 4_000, n_seeds: int = 4) -> dict[str, float]:
    """Sampled variance against the precise one, Fashion-MNIST 4,000."""
    X, y, X_test, _ = fashion_mnist()
    return _bias(X[:n], y[:n], X_test[:500], n_seeds)


@case(
    "calibrated_times",
    group="uncertainty",
    bar={f"{name}_{n}": bar for n in CALIBRATED_SIZES for name, bar in (("us", "<= 20"), ("in_fits", "<= 1"))},
    smoke={"scale": 0.05, "n_seeds": 1},
)
def calibrated_times(scale: float = 1, n_seeds: int = 3) -> dict[str, float]:
    """Time of the calibrated variance and its preparation, 1,000 sparse features, binary."""
    results: dict[str, float] = {}
    for n in CALIBRATED_SIZES:
        X, y, test = _bags(scaled(n, scale), scaled(N_TEST, scale))
        results |= {f"{name}_{n}": value for name, value in _calibrated_times(X, y, test, n_seeds).items()}
    return results


@case(
    "calibrated_times_fashion",
    group="uncertainty",
    data="fashion-mnist",
    bar={"us": "<= 20", "in_fits": "<= 1"},
    smoke={"n": 600, "n_seeds": 1},
)
def calibrated_times_fashion(n: int = FASHION_SIZE, n_seeds: int = 3) -> dict[str, float]:
    """Time of the calibrated variance and its preparation, Fashion-MNIST 20,000, 10 classes."""
    X, y, X_test, _ = fashion_mnist()
    return _calibrated_times(X[:n], y[:n], X_test, n_seeds)


CALIBRATED_BARS = {"worst_rms": "<= 0.04", "worst_rank": ">= 0.98"}


@case("calibrated_error", group="uncertainty", bar=CALIBRATED_BARS, smoke={"n": 600, "n_seeds": 1})
def calibrated_error(n: int = 10_090, n_seeds: int = 3) -> dict[str, float]:
    """Calibrated variance against the precise one, 10,090 x 1,000 sparse."""
    return _calibrated_error(*_bags(n, 1_000), n_seeds)


@case(
    "calibrated_error_fashion",
    group="uncertainty",
    data="fashion-mnist",
    bar=CALIBRATED_BARS,
    smoke={"n": 600, "n_seeds": 1},
)
def calibrated_error_fashion(n: int = FASHION_SIZE, n_seeds: int = 3) -> dict[str, float]:
    """Calibrated variance against the precise one, Fashion-MNIST 20,000."""
    X, y, X_test, _ = fashion_mnist()
    return _calibrated_error(X[:n], y[:n], X_test[:1_000], n_seeds)


@case("calibrated_far", group="uncertainty", data="fashion-mnist", smoke={"n": 600})
def calibrated_far(n: int = FASHION_SIZE) -> dict[str, float]:
    """Calibrated variance of images unlike those of training: unseen classes, permuted bins, doubled counts."""
    X, y, X_test, y_test = fashion_mnist()
    rng = np.random.default_rng(0)
    near, test = np.flatnonzero(y < 5)[:n], X_test[:1_000]
    of_five, of_all = (
        HistogramGPClassifier("hik", noise=0.1, random_state=0).fit(X[train], y[train]) for train in (near, slice(n))
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
    return {**results, "lowest_rank": min(results[f"{name}_rank"] for name in FAR)}


@case(
    "probability_fashion",
    group="uncertainty",
    data="fashion-mnist",
    bar={"ours_error": "<= 0.02", "loss_above_held": "<= 0"},
    smoke={"n": 600},
)
def probability_fashion(n: int = FASHION_SIZE) -> dict[str, float]:
    """Calibration and log loss of probabilities, Fashion-MNIST 20,000."""
    X, y, X_test, y_test = fashion_mnist()
    X, y = X[:n], y[:n]
    return _of_probabilities(_probabilities(X, y, X_test, noise=0.1), y_test)


@case(
    "probability_digits",
    group="uncertainty",
    bar={"ours_error": "<= 0.03", "loss_above_held": "<= 0"},
    smoke={"n": 500},
)
def probability_digits(n: int | None = None) -> dict[str, float]:
    """Calibration and log loss of probabilities, digits, the predictions of five folds judged together."""
    X, y = (part[:n] for part in load_digits(return_X_y=True))
    pooled: dict[str, np.ndarray] = {}
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
        for name, found in _probabilities(X[train], y[train], X[test], noise=100).items():
            pooled.setdefault(name, np.empty((len(y), 10)))[test] = found
    return _of_probabilities(pooled, y)


@case(
    "one_class",
    group="uncertainty",
    data="fashion-mnist",
    bar={"gain": ">= 0"},
    smoke={"n_train": 30, "n_repeats": 1, "n_test": 200},
)
def one_class(n_train: int = 100, n_repeats: int = 10, n_test: int = 2_000) -> dict[str, float]:
    """Each class of Fashion-MNIST against the rest, learned from a hundred samples: mean area under the ROC curve."""
    X, y, X_test, y_test = fashion_mnist()
    some = np.random.default_rng(0).choice(len(y_test), n_test, replace=False)
    X_test, y_test = X_test[some], y_test[some]
    roots, roots_test = np.sqrt(X), np.sqrt(X_test)
    scores: dict[str, list[float]] = {}
    for repeat in range(n_repeats):
        rng = np.random.default_rng(repeat)
        for label in range(10):
            train = rng.choice(np.flatnonzero(y == label), n_train, replace=False)
            for name, model in _detectors():
                own, test = (roots, roots_test) if name.endswith("roots") else (X, X_test)
                area = roc_auc_score(y_test == label, model.fit(own[train]).score_samples(test))
                scores.setdefault(name, []).append(float(area))
    results = {name: float(np.mean(areas)) for name, areas in scores.items()}
    best = max(area for name, area in results.items() if not name.startswith("ours"))
    return {**results, "best_other": best, "gain": results["ours"] - best}


@case("sample_y", group="uncertainty", bar={"worst_covariance": "<= 4.5"}, smoke={"n_draws": 500})
def sample_y(n_draws: int = 10_000) -> dict[str, float]:
    """Means and covariances of posterior draws at 12 rows against dense ones, in standard errors."""
    rng = np.random.default_rng(0)
    X, test = rng.random((300, 10)), rng.random((12, 10))
    y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(300)
    system, cross, own = (
        np.minimum(left[:, None], right).sum(axis=2) for left, right in ((X, X), (X, test), (test, test))
    )
    solved = np.linalg.solve(system + 0.1 * np.eye(300), np.column_stack([cross, (y - y.mean()) / y.std()]))
    latent = y.var() * (own - cross.T @ solved[:, :-1])
    mean = y.mean() + y.std() * cross.T @ solved[:, -1]
    reg = HistogramGPRegressor("hik", noise=0.1, normalize_y=True).fit(X, y)
    results: dict[str, float] = {}
    for name, noise in zip(NOISY, (0.0, 0.1 * y.var()), strict=True):
        wanted = latent + noise * np.eye(12)
        drawn = reg.sample_y(test, n_draws, include_noise=noise > 0)
        spread = np.diag(wanted)
        error = np.sqrt((np.outer(spread, spread) + wanted**2) / n_draws)
        results[f"{name}_covariance"] = float(np.max(np.abs(np.cov(drawn) - wanted) / error))
        results[f"{name}_mean"] = float(np.max(np.abs(drawn.mean(axis=1) - mean) / np.sqrt(spread / n_draws)))
    worst = {f"worst_{what}": max(results[f"{name}_{what}"] for name in NOISY) for what in ("covariance", "mean")}
    return {**results, **worst}


def _bags(n_train: int, n_test: int) -> tuple[Any, np.ndarray, Any]:
    """Binary bags of words to train with, and others from the same distributions."""
    X, y = make_bags_of_words(n_train + n_test, random_state=0)
    return X[:n_train], y[:n_train], X[n_train:]


def _latent(clf: Any, X: Any, method: str, **options: Any) -> np.ndarray:
    return clf.predict_variance(X, method, include_noise=False, **options)


def _load_variances(X: Any, y: np.ndarray) -> None:
    """Load the compiled code of all methods."""
    clf = HistogramGPClassifier("hik", noise=0.1, random_state=0).fit(X[:2_500], y[:2_500])
    for method in ("precise", "fine", "coarse", "coarse-quantized", "sampled", "calibrated"):
        clf.predict_variance(X[:10], method)


def _preparation(clf: Any, row: Any, method: str) -> float:
    """What a first call for one row takes more than a second one."""
    first, second = (timed(lambda: clf.predict_variance(row, method))[1] for _ in range(2))
    return first - second


def _errors(found: np.ndarray, exact: np.ndarray) -> dict[str, float]:
    rms = np.sqrt(np.mean((found / exact - 1) ** 2))
    return {"rms": float(rms), "rank": float(spearmanr(found, exact).statistic)}


def _bias(X: Any, y: np.ndarray, test: Any, n_seeds: int) -> dict[str, float]:
    """Draws of all seeds against the precise variance."""
    exact = _latent(HistogramGPClassifier("hik", noise=0.1, random_state=0).fit(X, y), test, "precise")
    ratios = np.array(
        [
            _latent(HistogramGPClassifier("hik", noise=0.1, random_state=seed).fit(X, y), test, "sampled") / exact
            for seed in range(n_seeds)
        ]
    )
    means = ratios.mean(axis=1)
    error = float(means.std(ddof=1) / np.sqrt(n_seeds))
    return {
        "bias": float(means.mean() - 1),
        "standard_error": error,
        "bias_beyond_chance": float(abs(means.mean() - 1)) - 3 * error,
        "rms": float(np.sqrt(np.mean((ratios - 1) ** 2, axis=1)).mean()),
    }


def _calibrated_times(X: Any, y: np.ndarray, test: Any, n_seeds: int) -> dict[str, float]:
    _load_variances(X, y)
    fits, preparations = [], []
    for seed in range(n_seeds):
        clf, duration = timed(lambda seed=seed: HistogramGPClassifier("hik", noise=0.1, random_state=seed).fit(X, y))
        fits.append(duration)
        preparations.append(_preparation(clf, test[:1], "calibrated"))
    return {
        "us": 1e6 * seconds(lambda: clf.predict_variance(test, "calibrated"), repeats=15) / test.shape[0],
        "fit": float(np.median(fits)),
        "preparation": float(np.median(preparations)),
        "in_fits": float(np.median(preparations) / np.median(fits)),
    }


def _calibrated_error(X: Any, y: np.ndarray, test: Any, n_seeds: int) -> dict[str, float]:
    exact = None
    rows = []
    for seed in range(n_seeds):
        clf = HistogramGPClassifier("hik", noise=0.1, random_state=seed).fit(X, y)
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
    clf = HistogramGPClassifier("hik", noise=noise, random_state=0).fit(X, y)
    ours, scores = clf.predict_proba(test), clf.decision_function(test)
    X_part, X_held, y_part, y_held = train_test_split(X, y, test_size=0.2, random_state=0, stratify=y)
    part = HistogramGPClassifier("hik", noise=noise, random_state=0).fit(X_part, y_part)
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
    return {**results, "loss_above_held": results["ours_loss"] - results["held_loss"]}


def _detectors() -> Iterator[tuple[str, Any]]:
    """Ours, and those of others on raw and on square-rooted features."""
    yield "ours", HistogramGPOneClass("hik", noise=0.1, contamination=0.1, random_state=0)
    for criterion in ("mean", "ratio"):
        yield (
            f"ours {criterion}",
            HistogramGPOneClass("hik", noise=0.1, contamination=0.1, criterion=criterion, random_state=0),
        )
    for method in ("fine", "coarse", "coarse-quantized", "sampled", "calibrated"):
        yield f"ours {method}", HistogramGPOneClass("hik", noise=0.1, contamination=0.1, method=method, random_state=0)
    for features in ("raw", "roots"):
        yield f"OneClassSVM {features}", OneClassSVM()
        yield f"IsolationForest {features}", IsolationForest(random_state=0)
        yield f"LocalOutlierFactor {features}", LocalOutlierFactor(novelty=True)
