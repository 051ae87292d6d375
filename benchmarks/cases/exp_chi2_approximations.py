"""Approximations of the exponential chi-squared kernel: tables 1 and 2 and figure 2 of chi2-linear-approximation.

Within a seed, all additive maps and all numbers of features share the frequencies. All kernels share the learner.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from scipy.linalg import eigh
from sklearn.metrics.pairwise import additive_chi2_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.svm import SVC

from benchmarks.cases.chi2 import best_interval
from benchmarks.data import bags_of_patches, fashion_mnist
from benchmarks.data.packages import cache_folder
from benchmarks.measure import PLOTS
from benchmarks.registry import case
from histogp.feature_maps import AdditiveChi2Map, SkewedChi2Map

DATA = {"hog": fashion_mnist, "patches": bags_of_patches}
SIZES = (3_000, 5_000, 7_000)
SAMPLED = 3  # times as many features before the PCA
METHODS = {"Chebyshev": "chebyshev", "VZ": "vz", "Direct": "direct"}
N_TERMS = 5
TERMS = [1, 3, 5, 7, 9]
PENALTIES = [1, 5, 50]
SKEWS = [1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1]

Task = tuple[Callable[..., dict[str, float]], tuple]


@dataclass(frozen=True)
class Extent:
    """How much is done: numbers of training and test samples and of seeds, and a factor for numbers of features."""

    n_train: int = 5_100
    n_test: int = 2_000
    n_seeds: int = 10
    scale: float = 1

    @property
    def sizes(self) -> dict[int, int]:
        """Numbers of random features, even: as they are called, and as they are."""
        return {size: 2 * round(size * self.scale / 2) for size in SIZES}

    def resumed(self, name: str) -> Path:
        """The file in which a case keeps what it has done so far."""
        return cache_folder() / f"{name}-{self.n_train}-{self.n_test}-{self.n_seeds}-{self.scale:g}.json"


SMOKE = {"n_train": 120, "n_test": 60, "n_seeds": 2, "scale": 0.01}


@dataclass(frozen=True, eq=False)
class Problem:
    """Samples for training and testing."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    @classmethod
    def of(cls, data: str, extent: Extent) -> Problem:
        X, y, X_test, y_test = DATA[data]()
        rng = np.random.default_rng(0)
        train, test = (
            rng.choice(len(rows), n, replace=False) for rows, n in ((X, extent.n_train), (X_test, extent.n_test))
        )
        return cls(X[train], y[train], X_test[test], y_test[test])

    def accuracy(self, K: np.ndarray, K_test: np.ndarray, penalty: float) -> float:
        """Of LIBSVM on the test samples."""
        return float(_svm(penalty).fit(K, self.y).score(K_test, self.y_test))


def _svm(penalty: float = 1.0) -> SVC:
    return SVC(kernel="precomputed", C=penalty, cache_size=1000)


@case(
    "exp_chi2_tables",
    group="exp-chi2",
    data=("fashion-mnist", "fashion-mnist-patches"),
    bar={f"{data}/largest_loss": "<= 0.015" for data in DATA},
    smoke=SMOKE,
)
def exp_chi2_tables(**options: float) -> dict[str, float]:
    """Tables 1 and 2 of chi2-linear-approximation: test accuracies by approximation and number of features."""
    extent = Extent(**options)
    path = extent.resumed("exp-chi2-tables")
    found = _resumed(path, {data: (_exact, (data, extent)) for data in DATA})
    trials = {
        f"{data}/{seed}": (_trial, (data, extent, seed, found[data])) for seed in range(extent.n_seeds) for data in DATA
    }
    found |= _resumed(path, trials)
    results = {f"{data}/{name}": value for data in DATA for name, value in found[data].items()}
    for data in DATA:
        results |= _statistics(data, [found[f"{data}/{seed}"] for seed in range(extent.n_seeds)])
        means = [results[f"{data}/PCA-Direct/{size}/mean"] for size in SIZES]
        results[f"{data}/largest_loss"] = results[f"{data}/exact"] - min(means)
    path.unlink()
    return results


@case("exp_chi2_terms", group="exp-chi2", data="fashion-mnist", smoke=SMOKE)
def exp_chi2_terms(**options: float) -> dict[str, float]:
    """Figure 2 of chi2-linear-approximation: test accuracies on HOG features, by terms of the additive map."""
    extent = Extent(**options)
    path = extent.resumed("exp-chi2-terms")
    exact = _resumed(path, {"hog": (_exact, ("hog", extent))})["hog"]
    found = _resumed(path, {f"{seed}": (_terms_trial, (extent, seed, exact)) for seed in range(extent.n_seeds)})
    results = _statistics("hog", [found[f"{seed}"] for seed in range(extent.n_seeds)]) | {"hog/exact": exact["exact"]}
    _plot_terms(results)
    path.unlink()
    return results


def _resumed(path: Path, tasks: dict[str, Task]) -> dict[str, dict[str, float]]:
    """What the tasks return, run side by side; what an interrupted run has done is taken from its file."""
    done = json.loads(path.read_text()) if path.exists() else {}
    missing = [delayed(_named)(name, *task) for name, task in tasks.items() if name not in done]
    for name, result in Parallel(os.cpu_count(), return_as="generator_unordered")(missing):
        done[name] = result
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(done, indent=2))
        os.replace(temporary, path)
    return done


def _named(name: str, work: Callable[..., dict[str, float]], arguments: tuple) -> tuple[str, dict[str, float]]:
    return name, work(*arguments)


def _statistics(data: str, trials: list[dict[str, float]]) -> dict[str, float]:
    """Means and standard deviations."""
    results = {}
    for name in trials[0]:
        values = [trial[name] for trial in trials]
        results[f"{data}/{name}/mean"] = float(np.mean(values))
        results[f"{data}/{name}/std"] = float(np.std(values, ddof=1))
    return results


def _exact(data: str, extent: Extent) -> dict[str, float]:
    """The parameters of a data set, by cross-validation, and the accuracies of the exact kernels."""
    problem = Problem.of(data, extent)
    distances, test = (-additive_chi2_kernel(rows, problem.X) / 2 for rows in (problem.X, problem.X_test))
    beta = float(1 / np.median(distances[np.triu_indices(len(problem.X), 1)]))
    penalty, exact = _best_accuracy(problem, np.exp(-beta * distances), np.exp(-beta * test))
    sums, test_sums = problem.X.sum(axis=1), problem.X_test.sum(axis=1)
    kernels = (sums[:, None] + sums) / 2 - distances, (test_sums[:, None] + sums) / 2 - test
    additive_penalty, additive = _best_accuracy(problem, *kernels)
    return {
        "beta": beta,
        "C": penalty,
        "exact": exact,
        "Chi2": additive,
        "Chi2 C": additive_penalty,
        "skewedness": _best_skewedness(problem, extent, penalty),
    }


def _best_accuracy(problem: Problem, K: np.ndarray, K_test: np.ndarray) -> tuple[float, float]:
    """The C that cross-validation chooses, and the test accuracy with it."""
    search = GridSearchCV(_svm(), {"C": PENALTIES}).fit(K, problem.y)
    return search.best_params_["C"], float(search.score(K_test, problem.y_test))


def _best_skewedness(problem: Problem, extent: Extent, penalty: float) -> float:
    def score(skewedness: float) -> float:
        # A seed that no trial has.
        skewed = SkewedChi2Map(max(extent.sizes.values()), skewedness=skewedness, random_state=extent.n_seeds)
        Z = skewed.fit_transform(problem.X)
        return cross_val_score(_svm(penalty), Z @ Z.T, problem.y).mean()

    return max(SKEWS, key=score)


def _trial(data: str, extent: Extent, seed: int, exact: dict[str, float]) -> dict[str, float]:
    """The accuracies of all random approximations with one seed."""
    problem = Problem.of(data, extent)
    penalty = exact["C"]
    results = {}
    for name, size in extent.sizes.items():
        skewed = SkewedChi2Map(size, skewedness=exact["skewedness"], random_state=seed).fit(problem.X)
        Z, Z_test = skewed.transform(problem.X), skewed.transform(problem.X_test)
        results[f"Chi2-Skewed/{name}"] = problem.accuracy(Z @ Z.T, Z_test @ Z.T, penalty)
    names = {size: name for name, size in extent.sizes.items()}
    sampled = {SAMPLED * size: name for size, name in names.items()}
    frequencies = _frequencies(seed, problem.X.shape[1], N_TERMS, max(sampled) // 2)
    for row, method in METHODS.items():
        for size, K, K_test in _kernels(problem, method, N_TERMS, exact["beta"], frequencies, [*names, *sampled]):
            if size in names:
                results[f"{row}/{names[size]}"] = problem.accuracy(K, K_test, penalty)
            if size in sampled:
                kernels = _principal(K, K_test, size // SAMPLED)
                results[f"PCA-{row}/{sampled[size]}"] = problem.accuracy(*kernels, penalty)
    return results


def _terms_trial(extent: Extent, seed: int, exact: dict[str, float]) -> dict[str, float]:
    """The accuracies on HOG features of all maps with all numbers of terms, with one seed."""
    problem, size = Problem.of("hog", extent), max(extent.sizes.values())
    frequencies = _frequencies(seed, problem.X.shape[1], max(TERMS), size // 2)
    results = {}
    for n_terms, (name, method) in product(TERMS, METHODS.items()):
        for _, K, K_test in _kernels(problem, method, n_terms, exact["beta"], frequencies, [size]):
            results[f"{name}/{n_terms}"] = problem.accuracy(K, K_test, exact["C"])
    return results


def _frequencies(seed: int, n_features: int, n_terms: int, n_frequencies: int) -> np.ndarray:
    """Standard normal; a draw with fewer terms or frequencies is the beginning of one with more."""
    draws = [
        np.random.default_rng([seed, term]).standard_normal((n_frequencies, n_features), np.float32)
        for term in range(n_terms)
    ]
    return np.hstack(draws)


def _kernels(
    problem: Problem, method: str, n_terms: int, beta: float, frequencies: np.ndarray, sizes: list[int]
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Each number of random features, in rising order, with the kernel matrices of the training and the test rows.

    Features are pairs of a cosine and a sine.
    """
    Z, Z_test = _expanded(problem, method, n_terms)
    frequencies = np.float32(np.sqrt(beta)) * frequencies[:, : Z.shape[1]]
    K, K_test = np.zeros((len(Z), len(Z)), np.float32), np.zeros((len(Z_test), len(Z)), np.float32)
    for begin, end in pairwise([0, *sorted(set(sizes))]):
        some = frequencies[begin // 2 : end // 2]
        waves, test_waves = _waves(Z @ some.T), _waves(Z_test @ some.T)
        K += waves @ waves.T
        K_test += test_waves @ waves.T
        factor = np.float32(2 / end)
        yield end, factor * K, factor * K_test


def _expanded(problem: Problem, method: str, n_terms: int) -> tuple[np.ndarray, np.ndarray]:
    """Training and test rows under an additive map."""
    options = {"sample_interval": best_interval(problem.X, n_terms)} if method == "vz" else {}
    additive = AdditiveChi2Map(method=method, n_terms=n_terms, n_jobs=1, **options).fit(problem.X)
    return additive.transform(problem.X), additive.transform(problem.X_test)


def _waves(angles: np.ndarray) -> np.ndarray:
    return np.hstack([np.cos(angles), np.sin(angles)])


def _principal(K: np.ndarray, K_test: np.ndarray, n_components: int) -> tuple[np.ndarray, np.ndarray]:
    """The kernel matrices of the first principal components of the features.

    With as many as there are rows only the centre would change, to which a support vector machine is indifferent.
    """
    n_dropped = len(K) - n_components
    if n_dropped <= 0:
        return K, K_test
    means = K.mean(axis=0)
    K = K - means - means[:, None] + means.mean()
    K_test = K_test - means - K_test.mean(axis=1, keepdims=True) + means.mean()
    # Some eigenvectors are faster to find alone, many are not.
    some = {"subset_by_index": (0, n_dropped - 1)} if n_dropped < len(K) / 10 else {"driver": "evd"}
    eigenvalues, vectors = eigh(K, check_finite=False, **some)
    dropped = vectors[:, :n_dropped]
    return K - (dropped * eigenvalues[:n_dropped]) @ dropped.T, K_test - K_test @ dropped @ dropped.T


def _plot_terms(results: dict[str, float]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    axes.axhline(100 * results["hog/exact"], color="black", linestyle="--", label="Exact kernel")
    for shift, name in zip((-0.15, 0, 0.15), METHODS, strict=True):
        means, deviations = (
            np.array([100 * results[f"hog/{name}/{n}/{kind}"] for n in TERMS]) for kind in ("mean", "std")
        )
        axes.errorbar(np.array(TERMS) + shift, means, deviations, fmt="o-", capsize=3, label=name)
    axes.set(xlabel="Terms a feature", ylabel="Test accuracy, %", xticks=TERMS)
    axes.set_title(f"exp-chi2 kernel on HOG, {max(SIZES):,} random features")
    axes.grid(alpha=0.3)
    axes.legend()
    PLOTS.mkdir(exist_ok=True)
    figure.savefig(PLOTS / "exp_chi2_terms.png", dpi=120)
