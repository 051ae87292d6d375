"""The exponential chi-squared kernel: accuracy and time, many classes, texts, probabilities, several kernels."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
from drawings import quick_draw
from measure import fashion_mnist, seconds
from patches import bags_of_patches
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
from texts import newsgroups, reuters
from uncertainty import calibration_error

from histogp import HistogramGPClassifier
from histogp.feature_maps import AdditiveChi2Map, ExpChi2Sampler
from histogp.kernels import Chi2, ExpChi2, resolve
from histogp.maps.exp_chi2 import inverse_median
from histogp.reports.comparison import compare
from histogp.streaming import StreamingRidgeClassifier

SIZES = (4_000, 6_000, 12_000)
N_DRAWN, DRAWN_FEATURES = 70, 4_000  # of the 100 drawings of each class to learn from
PENALTIES = [1.0, 10.0, 100.0, 1000.0]
FEW_CLASSES = 30
KERNELS = {"hik": "hik", "chi2": Chi2(), "exp-chi2": ExpChi2(2_000)}
N_COMPARED = 15_000
RIVAL_SIZES = (500, 1_000, 2_000)
N_BLOCK_ROWS, BLOCK_FEATURES, SEEDS = 5_100, 2_000, range(10)


def exp_chi2_fashion() -> dict[str, float]:
    """All 60,000 images with more and more features."""
    X, y, X_test, y_test = fashion_mnist()
    _ridge(100, 0).fit(X[:500], y[:500]).predict(X_test[:10])  # compiles
    results = {}
    for n in SIZES:
        start = perf_counter()
        model = _ridge(n, 0).fit(X, y)
        alpha = model.alpha_
        results |= {f"seconds_{n}": perf_counter() - start, f"alpha_{n}": alpha}
        results |= {f"accuracy_{n}": model.score(X_test, y_test)}
        results[f"prediction_us_{n}"] = 1e6 * seconds(lambda model=model: model.predict(X_test), 3) / len(X_test)
    return results


def _ridge(n_components: int, seed: int, **options: Any) -> StreamingRidgeClassifier:
    return StreamingRidgeClassifier(_sampler(n_components, seed), alpha="loo-log", random_state=seed, **options)


def _sampler(n_components: int, seed: int) -> ExpChi2Sampler:
    return ExpChi2Sampler(n_components, additive=AdditiveChi2Map(n_components=3), random_state=seed)


def exp_chi2_drawings() -> dict[str, float]:
    """QuickDraw's 345 classes, beside LinearSVC on the same histograms, its penalty chosen on some of the classes."""
    X, y, _ = quick_draw()
    is_train = np.tile(np.arange(100) < N_DRAWN, len(X) // 100)
    X_test, y_test, X, y = X[~is_train], y[~is_train], X[is_train], y[is_train]
    few = y < FEW_CLASSES
    chosen = GridSearchCV(LinearSVC(random_state=0), {"C": PENALTIES}, cv=3).fit(X[few], y[few]).best_params_
    models = {"ours": _ridge(DRAWN_FEATURES, 0), "linear_svc": LinearSVC(**chosen, random_state=0)}
    results = {"penalty": chosen["C"]}
    for name, model in models.items():
        start = perf_counter()
        scores = model.fit(X, y).decision_function(X_test)
        results[f"{name}_seconds"] = perf_counter() - start
        for k in (1, 5):
            results[f"{name}_top_{k}"] = top_k_accuracy_score(y_test, scores, k=k)
    return results


def exp_chi2_newsgroups() -> dict[str, float]:
    return _of_texts(*newsgroups())


def exp_chi2_reuters() -> dict[str, float]:
    return _of_texts(*reuters())


def _of_texts(X: Any, y: np.ndarray, X_test: Any, y_test: np.ndarray) -> dict[str, float]:
    """Kernels on shares of words, with the default noise; others on what suits them."""
    models: dict[str, Any] = {name: HistogramGPClassifier(kernel, random_state=0) for name, kernel in KERNELS.items()}
    models["LinearSVC"] = LinearSVC(random_state=0)
    models["LinearSVC, tf-idf"] = make_pipeline(TfidfTransformer(sublinear_tf=True), LinearSVC(random_state=0))
    models["ComplementNB"] = ComplementNB()
    results = {}
    for name, model in models.items():
        on_shares = name in KERNELS
        rows, test = (
            normalize(A, "l1") if on_shares else normalize(A) if name == "LinearSVC" else A for A in (X, X_test)
        )
        start = perf_counter()
        model.fit(rows, y)
        results |= {f"{name}/seconds": perf_counter() - start, f"{name}/accuracy": model.score(test, y_test)}
    return results


def exp_chi2_gp() -> dict[str, float]:
    """The process on all 60,000 images: probabilities, and the variance against the dense formula of the features."""
    X, y, X_test, y_test = fashion_mnist()
    start = perf_counter()
    model = HistogramGPClassifier(ExpChi2(SIZES[0]), optimize="gradient", random_state=0).fit(X, y)
    results = {"seconds": perf_counter() - start, "accuracy": model.score(X_test, y_test)}
    probabilities = model.predict_proba(X_test)
    results["ece"] = calibration_error(probabilities, y_test)
    results["log_loss"] = log_loss(y_test, probabilities)
    results["variance_us"] = 1e6 * seconds(lambda: model.predict_variance(X_test[:2000]), 3) / 2000
    some = X_test[:20]
    found = model.predict_variance(some, include_noise=False)
    kernel = resolve(model.kernel_, X.shape[1])
    scale, waves = kernel.diagonal(), kernel.feature_map
    gram = sum(Z.T @ Z for Z in (waves.transform(part.astype(float)) for part in np.array_split(X, 30)))
    Z = waves.transform(some.astype(float))
    inner = np.linalg.solve(np.eye(len(gram)) + scale / model.noise_ * gram, Z.T)
    expected = scale * np.einsum("nm,mn->n", Z, inner)
    return results | {"variance_error": float(np.max(np.abs(found - expected) / expected))}


def two_blocks() -> dict[str, float]:
    """Orientation histograms and bags of patches, alone and together, for random training sets and features."""
    (hog, y, hog_test, y_test), (bags, _, bags_test, _) = fashion_mnist(), bags_of_patches()
    X, X_test = np.hstack([hog, bags]), np.hstack([hog_test, bags_test])
    width = hog.shape[1]
    columns = {"hog": slice(0, width), "patches": slice(width, None)}
    accuracies: dict[str, list[float]] = {name: [] for name in (*columns, "both", "weighted")}
    shares = []
    for seed in SEEDS:
        rows = np.random.default_rng(seed).choice(len(X), N_BLOCK_ROWS, replace=False)
        blocks = [(name, _sampler(BLOCK_FEATURES, seed), own) for name, own in columns.items()]
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
    return results | {
        f"weight_{name}": float(share) for name, share in zip(columns, np.mean(shares, axis=0), strict=True)
    }


def kernel_table() -> dict[str, float]:
    """The README's table of kernels: the comparison of `histogp compare` on images."""
    X, y, X_test, y_test = fashion_mnist()
    found = compare(X[:N_COMPARED], y[:N_COMPARED], X_test, y_test)
    return {
        f"{one.kernel}/{name}": float(getattr(one, name))
        for one in found
        for name in ("score", "loss", "seconds", "microseconds")
    }


def exp_chi2_rivals() -> dict[str, float]:
    """Random features and Nystroem's, the same learner on both, and the exact kernel as the ceiling: 5,100 images."""
    X, y, X_test, y_test = fashion_mnist()
    rows = np.random.default_rng(0).choice(len(X), N_BLOCK_ROWS, replace=False)
    X, y = X[rows].astype(np.float64), y[rows]
    beta = inverse_median(X)
    results = {"exact": _exact_accuracy(X, y, X_test, y_test, beta)}
    for n in RIVAL_SIZES:
        nystroem = Nystroem(kernel="chi2", gamma=beta / 2, n_components=n, random_state=0)
        for name, model in (
            ("ours", _ridge(n, 0)),
            ("pca", _ridge(3 * n, 0, pca_components=n)),
            ("nystroem", StreamingRidgeClassifier(nystroem, alpha="loo-log", random_state=0)),
        ):
            start = perf_counter()
            results[f"{name}_{n}"] = model.fit(X, y).score(X_test, y_test)
            results[f"{name}_{n}_seconds"] = perf_counter() - start
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
