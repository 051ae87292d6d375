"""Approximations of the exponential chi-squared kernel: tables 1 and 2 and figure 2 of chi2-linear-approximation.

Within a seed, all additive maps and all numbers of features share the frequencies. All kernels share the learner.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from time import perf_counter

import numpy as np
from joblib import Parallel, delayed
from measure import PLOTS, fashion_mnist
from patches import bags_of_patches
from scipy.linalg import eigh
from sklearn.metrics.pairwise import additive_chi2_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.svm import SVC

from histogp.atomic import replacing
from histogp.feature_maps import AdditiveChi2Map, SkewedChi2Map
from histogp.maps.points import best_interval
from histogp.storage import Rows

DATA = {"hog": fashion_mnist, "patches": bags_of_patches}
TITLES = {"hog": "HOG, 441 features", "patches": "Bag of patches, 301 words"}
N_TRAIN, N_TEST = 5_100, 2_000
SEEDS = range(10)
SIZES = [3_000, 5_000, 7_000]
SAMPLED = 3  # times as many features before the PCA
METHODS = {"Chebyshev": "chebyshev", "VZ": "vz", "Direct": "direct"}
ROWS = ["Chi2-Skewed", *METHODS, *(f"PCA-{name}" for name in METHODS)]
N_TERMS = 5
TERMS = [1, 3, 5, 7, 9]
PENALTIES = [1, 5, 50]
SKEWS = [1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1]
PARTIAL = Path(tempfile.gettempdir())

Task = tuple[Callable[..., dict[str, float]], tuple]


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows for training and testing."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    @classmethod
    def of(cls, data: str) -> Problem:
        X, y, X_test, y_test = DATA[data]()
        rng = np.random.default_rng(0)
        train, test = (rng.choice(len(rows), n, replace=False) for rows, n in ((X, N_TRAIN), (X_test, N_TEST)))
        return cls(X[train], y[train], X_test[test], y_test[test])

    def accuracy(self, K: np.ndarray, K_test: np.ndarray, penalty: float) -> float:
        """Of LIBSVM on the test rows."""
        return float(_svm(penalty).fit(K, self.y).score(K_test, self.y_test))


def _svm(penalty: float = 1.0) -> SVC:
    return SVC(kernel="precomputed", C=penalty, cache_size=1000)


def exp_chi2_tables() -> dict[str, float]:
    """Tables 1 and 2: test accuracies by the approximation and the number of features, over seeds."""
    path = PARTIAL / "histogp-exp-chi2-tables.json"
    found = _resumed(path, {data: (_exact, (data,)) for data in DATA})
    trials = {f"{data}/{seed}": (_trial, (data, seed, found[data])) for seed, data in product(SEEDS, DATA)}
    found |= _resumed(path, trials)
    results = {f"{data}/{name}": value for data in DATA for name, value in found[data].items()}
    for data in DATA:
        results |= _statistics(data, [found[f"{data}/{seed}"] for seed in SEEDS])
    path.unlink()
    return results


def exp_chi2_terms() -> dict[str, float]:
    """Figure 2: test accuracies on HOG features, by the number of terms of the additive map, over seeds."""
    path = PARTIAL / "histogp-exp-chi2-terms.json"
    exact = _resumed(path, {"hog": (_exact, ("hog",))})["hog"]
    found = _resumed(path, {f"{seed}": (_terms_trial, (seed, exact)) for seed in SEEDS})
    results = _statistics("hog", [found[f"{seed}"] for seed in SEEDS]) | {"hog/exact": exact["exact"]}
    _plot_terms(results)
    path.unlink()
    return results


def _resumed(path: Path, tasks: dict[str, Task]) -> dict[str, dict[str, float]]:
    """What the tasks return, run side by side; what an interrupted run has done is taken from its file."""
    done = json.loads(path.read_text()) if path.exists() else {}
    missing = [delayed(_named)(name, *task) for name, task in tasks.items() if name not in done]
    for name, result in Parallel(os.cpu_count(), return_as="generator_unordered")(missing):
        done[name] = result
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(done, indent=2))
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


def _exact(data: str) -> dict[str, float]:
    """The parameters of a data set, by cross-validation, and the accuracies of the exact kernels."""
    problem = Problem.of(data)
    distances, test = (-additive_chi2_kernel(rows, problem.X) / 2 for rows in (problem.X, problem.X_test))
    beta = float(1 / np.median(distances[np.triu_indices(N_TRAIN, 1)]))
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
        "skewedness": _best_skewedness(problem, penalty),
    }


def _best_accuracy(problem: Problem, K: np.ndarray, K_test: np.ndarray) -> tuple[float, float]:
    """The C that cross-validation chooses, and the test accuracy with it."""
    search = GridSearchCV(_svm(), {"C": PENALTIES}).fit(K, problem.y)
    return search.best_params_["C"], float(search.score(K_test, problem.y_test))


def _best_skewedness(problem: Problem, penalty: float) -> float:
    def score(skewedness: float) -> float:
        Z = SkewedChi2Map(max(SIZES), skewedness=skewedness, random_state=len(SEEDS)).fit_transform(problem.X)
        return cross_val_score(_svm(penalty), Z @ Z.T, problem.y).mean()

    return max(SKEWS, key=score)


def _trial(data: str, seed: int, exact: dict[str, float]) -> dict[str, float]:
    """The accuracies of all random approximations with one seed."""
    problem = Problem.of(data)
    penalty = exact["C"]
    results = {}
    for size in SIZES:
        skewed = SkewedChi2Map(size, skewedness=exact["skewedness"], random_state=seed).fit(problem.X)
        Z, Z_test = skewed.transform(problem.X), skewed.transform(problem.X_test)
        results[f"Chi2-Skewed/{size}"] = problem.accuracy(Z @ Z.T, Z_test @ Z.T, penalty)
    sampled = [SAMPLED * size for size in SIZES]
    frequencies = _frequencies(seed, problem.X.shape[1], N_TERMS, max(sampled) // 2)
    for name, method in METHODS.items():
        for size, K, K_test in _kernels(problem, method, N_TERMS, exact["beta"], frequencies, [*SIZES, *sampled]):
            if size in SIZES:
                results[f"{name}/{size}"] = problem.accuracy(K, K_test, penalty)
            if size in sampled:
                kernels = _principal(K, K_test, size // SAMPLED)
                results[f"PCA-{name}/{size // SAMPLED}"] = problem.accuracy(*kernels, penalty)
    return results


def _terms_trial(seed: int, exact: dict[str, float]) -> dict[str, float]:
    """The accuracies on HOG features of all maps with all numbers of terms, with one seed."""
    problem, size = Problem.of("hog"), max(SIZES)
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
    options = {"sample_interval": best_interval(Rows.from_array(problem.X), "chi2", n_terms)} if method == "vz" else {}
    additive = AdditiveChi2Map(method=method, n_components=n_terms, n_jobs=1, **options).fit(problem.X)
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


def show_tables(results: dict[str, float]) -> None:
    """Print both tables as in the paper."""
    for data, title in TITLES.items():
        print(f"{title}: beta {results[f'{data}/beta']:.3g}, C {results[f'{data}/C']:g}")
        print(f"{'Features':<14}" + "".join(f"{size:>18,}" for size in SIZES))
        print(f"{'Chi2':<14}{results[f'{data}/Chi2']:>18.2%}")
        for row in ROWS:
            cells = [[results[f"{data}/{row}/{size}/{kind}"] for kind in ("mean", "std")] for size in SIZES]
            print(f"{row:<14}" + "".join(f"{f'{mean:.2%} ± {std:.2%}':>18}" for mean, std in cells))
        print(f"{'Exact exp-chi2':<14}{results[f'{data}/exact']:>18.2%}\n")


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
    axes.set_title(f"exp-chi2 kernel on HOG, {max(SIZES):,} random features, {len(SEEDS)} seeds")
    axes.grid(alpha=0.3)
    axes.legend()
    PLOTS.mkdir(exist_ok=True)
    figure.savefig(PLOTS / "exp_chi2_terms.png", dpi=120)


if __name__ == "__main__":
    start = perf_counter()
    measured = {"exp_chi2_tables": exp_chi2_tables, "exp_chi2_terms": exp_chi2_terms}[sys.argv[1]]()
    print(json.dumps(measured, indent=2))
    if sys.argv[1] == "exp_chi2_tables":
        show_tables(measured)
    print(f"{perf_counter() - start:.0f} s")
