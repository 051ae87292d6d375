"""The exponential chi-squared kernel: accuracy and time, many classes, texts, probabilities, several kernels."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
from scipy import stats
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics import log_loss, top_k_accuracy_score
from sklearn.metrics.pairwise import chi2_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import ComplementNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from benchmarks.data import bags_of_patches, fashion_mnist, newsgroups, quick_draw, reuters
from benchmarks.internals import random_features
from benchmarks.measure import best_seconds, scaled, seconds, timed
from benchmarks.registry import case
from benchmarks.scores import calibration_error
from histogp import HistogramGPClassifier
from histogp.feature_maps import AdditiveChi2Map, ExpChi2Sampler
from histogp.kernels import Chi2, ExpChi2
from histogp.streaming import StreamingRidgeClassifier

SIZES = (4_000, 6_000, 12_000)
N_DRAWN = 70  # of the 100 drawings of each class to learn from
PENALTIES = [1.0, 10.0, 100.0, 1000.0]
FEW_CLASSES = 30
COMPARED = ("hik", "hik-exp", "chi2", "exp-chi2")
RIVAL_SIZES = (500, 1_000, 2_000)


@case(
    "exp_chi2_fashion",
    group="exp-chi2",
    data="fashion-mnist",
    bar={
        "seconds_4000": "< 30",
        "accuracy_4000": ">= 0.905",
        "seconds_6000": "< 60",
        "accuracy_6000": ">= 0.915",
        "prediction_us_6000": "<= 150",
        "accuracy_12000": ">= 0.922",
    },
    smoke={"n": 1_000, "scale": 0.02},
)
def exp_chi2_fashion(n: int = 60_000, scale: float = 1) -> dict[str, float]:
    """Ridge regression on exponential chi-squared features, Fashion-MNIST 60,000 x 441, by their number."""
    X, y, X_test, y_test = fashion_mnist()
    X, y = X[:n], y[:n]
    _ridge(100, 0).fit(X[:500], y[:500]).predict(X_test[:10])  # compiles
    results = {}
    for size in SIZES:
        start = perf_counter()
        model = _ridge(scaled(size, scale), 0).fit(X, y)
        results |= {f"seconds_{size}": perf_counter() - start, f"alpha_{size}": model.alpha_}
        results[f"accuracy_{size}"] = model.score(X_test, y_test)
        results[f"prediction_us_{size}"] = 1e6 * seconds(lambda model=model: model.predict(X_test), 3) / len(X_test)
    return results


def _ridge(n_components: int, seed: int, **options: Any) -> StreamingRidgeClassifier:
    return StreamingRidgeClassifier(_sampler(n_components, seed), alpha="loo-log", random_state=seed, **options)


def _sampler(n_components: int, seed: int) -> ExpChi2Sampler:
    return ExpChi2Sampler(n_components, additive=AdditiveChi2Map(n_terms=3), random_state=seed)


@case(
    "exp_chi2_drawings",
    group="exp-chi2",
    data="quickdraw",
    bar={"top_1_gain": "> 0", "top_5_gain": "> 0", "times_the_time": "<= 0.2"},
    smoke={"n_features": 100, "n_classes": FEW_CLASSES},
)
def exp_chi2_drawings(n_features: int = 4_000, n_classes: int = 345) -> dict[str, float]:
    """QuickDraw's 345 classes, beside LinearSVC on the same histograms, its penalty chosen on some of the classes."""
    X, y, _ = quick_draw()
    X, y = X[y < n_classes], y[y < n_classes]
    is_train = np.tile(np.arange(100) < N_DRAWN, len(X) // 100)
    X_test, y_test, X, y = X[~is_train], y[~is_train], X[is_train], y[is_train]
    few = y < FEW_CLASSES
    chosen = GridSearchCV(LinearSVC(random_state=0), {"C": PENALTIES}, cv=3).fit(X[few], y[few]).best_params_
    models = {"ours": _ridge(n_features, 0), "linear_svc": LinearSVC(**chosen, random_state=0)}
    results = {"penalty": chosen["C"]}
    for name, model in models.items():
        scores, results[f"{name}_seconds"] = timed(lambda model=model: model.fit(X, y).decision_function(X_test))
        for k in (1, 5):
            results[f"{name}_top_{k}"] = top_k_accuracy_score(y_test, scores, k=k)
    gains = {f"top_{k}_gain": results[f"ours_top_{k}"] - results[f"linear_svc_top_{k}"] for k in (1, 5)}
    return {**results, **gains, "times_the_time": results["ours_seconds"] / results["linear_svc_seconds"]}


@case("exp_chi2_newsgroups", group="exp-chi2", data="newsgroups", smoke={"n": 500, "n_components": 60})
def exp_chi2_newsgroups(n: int | None = None, n_components: int = 2_000) -> dict[str, float]:
    """Kernels and other classifiers on word counts of 20 Newsgroups."""
    X, y, X_test, y_test = newsgroups()
    return _of_texts(X[:n], y[:n], X_test, y_test, n_components)


@case("exp_chi2_reuters", group="exp-chi2", data="reuters", smoke={"n": 500, "n_components": 60})
def exp_chi2_reuters(n: int | None = None, n_components: int = 2_000) -> dict[str, float]:
    """Kernels and other classifiers on word counts of Reuters R52."""
    X, y, X_test, y_test = reuters()
    return _of_texts(X[:n], y[:n], X_test, y_test, n_components)


def _of_texts(X: Any, y: np.ndarray, X_test: Any, y_test: np.ndarray, n_components: int) -> dict[str, float]:
    """Kernels on shares of words, with the default noise; others on what suits them."""
    waves = ExpChi2(n_components, approximation="fourier")
    kernels = {"hik": "hik", "chi2": Chi2(), "exp-chi2": ExpChi2(), "exp-chi2, waves": waves}
    models: dict[str, Any] = {
        name: HistogramGPClassifier(kernel, noise=0.1, random_state=0) for name, kernel in kernels.items()
    }
    models["LinearSVC"] = LinearSVC(random_state=0)
    models["LinearSVC, tf-idf"] = make_pipeline(TfidfTransformer(sublinear_tf=True), LinearSVC(random_state=0))
    models["ComplementNB"] = ComplementNB()
    results = {}
    for name, model in models.items():
        on_shares = name in kernels
        rows, test = (
            normalize(A, "l1") if on_shares else normalize(A) if name == "LinearSVC" else A for A in (X, X_test)
        )
        _, results[f"{name}/seconds"] = timed(lambda model=model, rows=rows: model.fit(rows, y))
        results[f"{name}/accuracy"] = model.score(test, y_test)
    return results


@case(
    "exp_chi2_gp",
    group="exp-chi2",
    data="fashion-mnist",
    bar={"ece": "<= 0.02", "variance_error": "< 1e-6"},
    smoke={"n": 1_000, "n_components": 100},
)
def exp_chi2_gp(n: int = 60_000, n_components: int = 4_000) -> dict[str, float]:
    """Process on 60,000 images: probabilities, and the variance against the dense formula of the features."""
    X, y, X_test, y_test = fashion_mnist()
    X, y = X[:n], y[:n]
    kernel = ExpChi2(n_components, approximation="fourier")
    model = HistogramGPClassifier(kernel, optimize="gradient", random_state=0)
    _, duration = timed(lambda: model.fit(X, y))
    results = {"seconds": duration, "accuracy": model.score(X_test, y_test)}
    probabilities = model.predict_proba(X_test)
    results["ece"] = calibration_error(probabilities, y_test)
    results["log_loss"] = log_loss(y_test, probabilities)
    results["variance_us"] = 1e6 * seconds(lambda: model.predict_variance(X_test[:2_000]), 3) / 2_000
    some = X_test[:20]
    found = model.predict_variance(some, include_noise=False)
    scale, waves = random_features(model)
    gram = sum(Z.T @ Z for Z in (waves.transform(part.astype(float)) for part in np.array_split(X, 30)))
    Z = waves.transform(some.astype(float))
    inner = np.linalg.solve(np.eye(len(gram)) + scale / model.noise_ * gram, Z.T)
    expected = scale * np.einsum("nm,mn->n", Z, inner)
    return results | {"variance_error": float(np.max(np.abs(found - expected) / expected))}


@case(
    "two_blocks",
    group="exp-chi2",
    data=("fashion-mnist", "fashion-mnist-patches"),
    bar={"best_certain_gain": "> 0"},
    smoke={"n": 300, "n_components": 50, "n_seeds": 2},
)
def two_blocks(n: int = 5_100, n_components: int = 2_000, n_seeds: int = 10) -> dict[str, float]:
    """Orientation histograms and bags of patches, alone and together, for random training sets and features."""
    (hog, y, hog_test, y_test), (bags, _, bags_test, _) = fashion_mnist(), bags_of_patches()
    X, X_test = np.hstack([hog, bags]), np.hstack([hog_test, bags_test])
    width = hog.shape[1]
    columns = {"hog": slice(0, width), "patches": slice(width, None)}
    accuracies: dict[str, list[float]] = {name: [] for name in (*columns, "both", "weighted")}
    shares = []
    for seed in range(n_seeds):
        rows = np.random.default_rng(seed).choice(len(X), n, replace=False)
        blocks = [(name, _sampler(n_components, seed), own) for name, own in columns.items()]
        options: dict[str, Any] = dict(alpha="loo-log", random_state=seed)
        for name, model in {
            **{block[0]: StreamingRidgeClassifier(blocks=[block], **options) for block in blocks},
            "both": StreamingRidgeClassifier(blocks=blocks, **options),
            "weighted": StreamingRidgeClassifier(blocks=blocks, block_weights="evidence", **options),
        }.items():
            accuracies[name].append(model.fit(X[rows], y[rows]).score(X_test, y_test))
        shares.append(model.block_weights_)
    means = {name: float(np.mean(found)) for name, found in accuracies.items()}
    best = max(columns, key=lambda name: means[name])
    results: dict[str, float] = dict(means)
    for name in ("both", "weighted"):
        gains = np.subtract(accuracies[name], accuracies[best])
        results[f"{name}_gain"] = float(gains.mean())
        results[f"{name}_half_width"] = float(stats.t.ppf(0.975, len(gains) - 1) * stats.sem(gains))
    certain = [results[f"{name}_gain"] - results[f"{name}_half_width"] for name in ("both", "weighted")]
    results["best_certain_gain"] = max(certain)
    return results | {
        f"weight_{name}": float(share) for name, share in zip(columns, np.mean(shares, axis=0), strict=True)
    }


@case("kernel_table", group="exp-chi2", data="fashion-mnist", smoke={"n": 600})
def kernel_table(n: int = 15_000) -> dict[str, float]:
    """Kernels side by side, scale and noise by the marginal likelihood, Fashion-MNIST 15,000 x 441."""
    X, y, X_test, y_test = fashion_mnist()
    some = X_test[:5_000]
    results = {}
    for kernel in COMPARED:
        model = HistogramGPClassifier(kernel, optimize="gradient", random_state=0)
        _, results[f"{kernel}/seconds"] = timed(lambda model=model: model.fit(X[:n], y[:n]))
        results[f"{kernel}/score"] = model.score(X_test, y_test)
        results[f"{kernel}/loss"] = log_loss(y_test, model.predict_proba(X_test))
        results[f"{kernel}/microseconds"] = 1e6 * best_seconds(lambda model=model: model.predict(some), 3) / len(some)
    return results


@case("exp_chi2_rivals", group="exp-chi2", data="fashion-mnist", smoke={"n": 300, "scale": 0.1})
def exp_chi2_rivals(n: int = 5_100, scale: float = 1) -> dict[str, float]:
    """Random features and Nystroem's, one learner for both, and the exact kernel as the ceiling, 5,100 images."""
    X, y, X_test, y_test = fashion_mnist()
    rows = np.random.default_rng(0).choice(len(X), n, replace=False)
    X, y = X[rows].astype(np.float64), y[rows]
    beta = ExpChi2Sampler(2, random_state=0).fit(X).beta_
    results = {"exact": _exact_accuracy(X, y, X_test, y_test, beta)}
    for size in RIVAL_SIZES:
        n_components = scaled(size, scale)
        nystroem = Nystroem(kernel="chi2", gamma=beta / 2, n_components=n_components, random_state=0)
        for name, model in (
            ("ours", _ridge(n_components, 0)),
            ("pca", _ridge(3 * n_components, 0, pca_components=n_components)),
            ("nystroem", StreamingRidgeClassifier(nystroem, alpha="loo-log", random_state=0)),
        ):
            accuracy, duration = timed(lambda model=model: model.fit(X, y).score(X_test, y_test))
            results |= {f"{name}_{size}": accuracy, f"{name}_{size}_seconds": duration}
    return results


def _exact_accuracy(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray, beta: float) -> float:
    """Of kernel ridge regression with the penalty of the smallest leave-one-out error, by dense formulas."""
    targets = 2.0 * (y[:, None] == np.unique(y)) - 1
    values, vectors = np.linalg.eigh(chi2_kernel(X, gamma=beta / 2))
    along = vectors.T @ targets

    def solution(alpha: float) -> tuple[float, np.ndarray]:
        inverse = 1 / (values + alpha)
        dual = vectors @ (inverse[:, None] * along)
        return float(np.sum((dual / (vectors**2 @ inverse)[:, None]) ** 2)), dual

    _, dual = min((solution(alpha) for alpha in np.logspace(-4, 1, 26)), key=lambda found: found[0])
    return float(np.mean((chi2_kernel(X_test, X, gamma=beta / 2) @ dual).argmax(axis=1) == y_test))
