"""Chi-squared kernels: maps, learning from statistics, the Gaussian process on the same features."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from time import perf_counter, sleep

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.linear_model import RidgeClassifier

import histogp
from benchmarks.data import fashion_mnist
from benchmarks.internals import COMMAND
from benchmarks.measure import PLOTS, alone, peak_megabytes, seconds, timed
from benchmarks.registry import case
from histogp import HistogramGPClassifier
from histogp.feature_maps import AdditiveChi2Map
from histogp.streaming import StreamingRidgeClassifier, read_chunks

TERMS = list(range(3, 22, 2))
N_FILES = 10
DRAWS = 1_000  # of the multinomial noise


@case(
    "chi2_error",
    group="chi2",
    data="fashion-mnist",
    bar={"direct_5": "<= 5e-4", "times_less": ">= 20"},
    smoke={"n_pairs": 20},
)
def chi2_error(n_pairs: int = 4_600) -> dict[str, float]:
    """Figure 1 of chi2-linear-approximation: errors over 2,000,000 pairs of HOG values, by the number of terms."""
    X = fashion_mnist()[0].astype(np.float64)
    left, right = X[np.random.default_rng(0).integers(len(X), size=(2, n_pairs))]
    kernel = np.divide(2 * left * right, left + right, where=left + right > 0, out=np.zeros_like(left))
    results = {}
    for n_terms in TERMS:
        for name, options in {
            "direct": {},
            "greedy": {"points": "greedy"},
            "sklearn": {"method": "vz"},
            "vz": {"method": "vz", "sample_interval": best_interval(X[::10], n_terms)},
            "chebyshev": {"method": "chebyshev"},
        }.items():
            if name == "sklearn" and n_terms > 5:
                continue
            additive = AdditiveChi2Map(n_terms=n_terms, **options).fit(X[::10])
            approximation = np.zeros_like(left)
            for Z_left, Z_right in zip(_terms(additive, left), _terms(additive, right), strict=True):
                approximation += Z_left * Z_right
            results[f"{name}_{n_terms}"] = float(np.abs(kernel - approximation).sum() / kernel.sum())
    _plot_errors(results)
    return {**results, "times_less": min(results["vz_5"], results["chebyshev_5"]) / results["direct_5"]}


def _terms(additive: AdditiveChi2Map, X: np.ndarray) -> list[np.ndarray]:
    """The features by terms, each of the shape of X."""
    return np.split(additive.transform(X), additive.n_terms_, axis=1)


def best_interval(X: np.ndarray, n_terms: int, n_values: int = 500) -> float:
    """The sampling interval of a spectrum with the smallest error over pairs of some of the non-zero values of X."""
    values = np.random.default_rng(0).choice(X[X > 0], n_values)[:, None].astype(np.float64)

    def error(interval: float) -> float:
        additive = AdditiveChi2Map("vz", n_terms=n_terms, sample_interval=interval).fit(values)
        return float(np.abs(additive.approximation_error(values)).sum())

    return float(minimize_scalar(error, bounds=(0.02, 2.0), method="bounded").x)


def _plot_errors(results: dict[str, float]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for name, title in (
        ("direct", "Direct"),
        ("greedy", "Direct, algorithm 1"),
        ("vz", "VZ, best interval"),
        ("chebyshev", "Chebyshev, scaled"),
    ):
        axes.semilogy(TERMS, [results[f"{name}_{n}"] for n in TERMS], "o-", label=title)
    axes.set(xlabel="Terms a feature", ylabel="Sum of errors / sum of kernel values", xticks=TERMS)
    axes.set_title("Additive chi-squared kernel on HOG features")
    axes.grid(alpha=0.3)
    axes.legend()
    PLOTS.mkdir(exist_ok=True)
    figure.savefig(PLOTS / "chi2_error.png", dpi=120)


@case("chi2_map_times", group="chi2", data="fashion-mnist", bar={"largest_ratio": "<= 1"}, smoke={"n": 600})
def chi2_map_times(n: int = 60_000) -> dict[str, float]:
    """Chi-squared features of 60,000 x 441, beside scikit-learn's sampler with as many columns."""
    X = fashion_mnist()[0][:n]
    results = {}
    for dtype in (np.float32, np.float64):
        rows = X.astype(dtype)
        for n_terms in (3, 5):
            name = f"{np.dtype(dtype).name}_{n_terms}"
            ours, theirs = AdditiveChi2Map(n_terms=n_terms), AdditiveChi2Sampler(sample_steps=(n_terms + 1) // 2)
            assert ours.fit_transform(rows[:9]).shape == theirs.fit_transform(rows[:9]).shape
            results[f"ours_{name}"] = seconds(lambda ours=ours, rows=rows: ours.fit_transform(rows), 3)
            results[f"sklearn_{name}"] = seconds(lambda theirs=theirs, rows=rows: theirs.fit_transform(rows), 3)
            results[f"ratio_{name}"] = results[f"ours_{name}"] / results[f"sklearn_{name}"]
    return {**results, "largest_ratio": max(ratio for name, ratio in results.items() if name.startswith("ratio"))}


@case(
    "streaming_ridge",
    group="chi2",
    data="fashion-mnist",
    bar={"seconds": "< 8", "accuracy": ">= 0.888"},
    smoke={"n": 2_000},
)
def streaming_ridge(n: int = 60_000) -> dict[str, float]:
    """Streaming ridge classifier, 60,000 x 441, 3 terms, 10 classes, beside scikit-learn's sampler and ridge."""
    X, y, X_test, y_test = fashion_mnist()
    X, y = X[:n], y[:n]
    StreamingRidgeClassifier(AdditiveChi2Map(n_terms=3)).fit(X[:100], y[:100]).predict(X[:9])
    start = perf_counter()
    clf = StreamingRidgeClassifier(AdditiveChi2Map(n_terms=3), random_state=0)
    for X_chunk, y_chunk in read_chunks((X, y)):
        clf.partial_fit(X_chunk, y_chunk)
    alpha = clf.alpha_  # solves
    ours = perf_counter() - start
    accuracy, prediction = timed(lambda: clf.score(X_test, y_test))
    start = perf_counter()
    sampler = AdditiveChi2Sampler(sample_steps=2)
    peer = RidgeClassifier().fit(sampler.fit_transform(X.astype(np.float64)), y)
    theirs = perf_counter() - start
    return {
        "seconds": ours,
        "alpha": alpha,
        "accuracy": float(accuracy),
        "prediction_us": 1e6 * prediction / len(y_test),
        "sklearn_seconds": theirs,
        "sklearn_accuracy": float(peer.score(sampler.transform(X_test.astype(np.float64)), y_test)),
    }


@case(
    "streaming_parquet",
    group="chi2",
    data="fashion-mnist",
    needs="pyarrow",
    bar={"seconds": "< 240", "megabytes": "< 1500", "difference": "<= 1e-6"},
    smoke={"n_rows": 10_000},
)
def streaming_parquet(n_rows: int = 1_000_000) -> dict[str, float]:
    """``histogp fit --stream`` on a million rows of Parquet files, and 60,000 of them against a solution in memory."""
    with tempfile.TemporaryDirectory() as folder:
        alone(write_parquet, Path(folder), n_rows, N_FILES)
        size = sum(path.stat().st_size for path in Path(folder).glob("*.parquet"))
        command = [*COMMAND, "fit", "--kernel", "chi2", "--stream"]
        command += [f"{folder}/rows*.parquet", "--label", "y", "-o", f"{folder}/model.histogp"]
        start = perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        duration = perf_counter() - start
        assert status == 0
        X_test, y_test = fashion_mnist()[2:]
        model = histogp.load(f"{folder}/model.histogp")
        del model.feature_names_in_
        return {
            "seconds": duration,
            "megabytes": usage.ru_maxrss / 1024,
            "file_mb": size / 1e6,
            "accuracy": float(model.score(X_test, y_test)),
            "difference": _difference(Path(folder), min(60_000, n_rows // N_FILES), X_test),
        }


def write_parquet(folder: Path, n_rows: int, n_files: int) -> None:
    """Real rows, drawn with replacement, each with multinomial noise."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    X, y = fashion_mnist()[:2]
    for file in range(n_files):
        rng = np.random.default_rng(file)
        chosen = rng.integers(len(X), size=n_rows // n_files)
        p = X[chosen].astype(np.float64)
        p[:, 0] += np.maximum(1 - p.sum(axis=1), 0)  # rounding, and images without a gradient
        counts = rng.multinomial(DRAWS, p / p.sum(axis=1, keepdims=True))
        rows = (counts / DRAWS).astype(np.float32)
        table = {**{f"h{k}": column for k, column in enumerate(rows.T)}, "y": y[chosen]}
        pq.write_table(pa.table(table), folder / f"rows{file:02}.parquet", row_group_size=20_000)


def _difference(folder: Path, n: int, X_test: np.ndarray) -> float:
    """The largest difference of a score, for n rows of the first file, from least squares in memory by NumPy."""
    additive = AdditiveChi2Map(n_terms=3)
    clf = StreamingRidgeClassifier(FrozenEstimator(additive), alpha=1.0)
    parts, labels = [], []
    for X_chunk, y_chunk in read_chunks(folder / "rows00.parquet", label="y"):
        left = n - sum(map(len, labels))
        if left <= 0:
            break
        if not parts:
            additive.fit(X_chunk[:left])
        clf.partial_fit(X_chunk[:left], y_chunk[:left])
        parts.append(X_chunk[:left])
        labels.append(y_chunk[:left])
    X, y = np.concatenate(parts).astype(np.float64), np.concatenate(labels)
    Z, Z_test = (additive.transform(rows.astype(np.float64)) for rows in (X, X_test))
    T = np.where(y[:, None] == clf.classes_, 1.0, -1.0)
    mean, target_mean = Z.mean(axis=0), T.mean(axis=0)
    Z -= mean
    weights = np.linalg.solve(Z.T @ Z + np.eye(Z.shape[1]), Z.T @ (T - target_mean))
    scores = (Z_test - mean) @ weights + target_mean
    return float(np.abs(clf.decision_function(X_test.astype(np.float64)) - scores).max())


@case(
    "chi2_gp",
    group="chi2",
    data="fashion-mnist",
    bar={"seconds": "< 12", "accuracy": ">= 0.888", "variance_us": "<= 50"},
    smoke={"n": 2_500},
)
def chi2_gp(n: int = 60_000) -> dict[str, float]:
    """Gaussian process with the additive chi-squared kernel, 3 terms, on Fashion-MNIST 60,000 x 441."""
    X, y, X_test, y_test = fashion_mnist()
    X, y = X[:n], y[:n]
    HistogramGPClassifier("chi2", noise=0.1).fit(X[:2000], y[:2000]).predict_variance(X[:9])
    clf, fit = timed(lambda: HistogramGPClassifier("chi2", noise=0.1, random_state=0).fit(X, y))
    accuracy = clf.score(X_test, y_test)
    megabytes = peak_megabytes()
    variance = seconds(lambda: clf.predict_variance(X_test), 3)
    _, evidence = timed(lambda: clf.log_marginal_likelihood())
    return {
        "seconds": fit,
        "accuracy": float(accuracy),
        "variance_us": 1e6 * variance / len(X_test),
        "evidence_seconds": evidence,
        "megabytes": megabytes,
    }


@case(
    "chi2_resume", group="chi2", data="fashion-mnist", needs="pyarrow", bar={"different": "== 0"}, smoke={"n_kills": 1}
)
def chi2_resume(n_kills: int = 20) -> dict[str, float]:
    """``histogp fit --stream``, killed at random moments and resumed until it is done: is the model the same?"""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        write_parquet(Path(folder), 30_000, 3)
        command = [*COMMAND, "fit", "--kernel", "chi2", "--stream"]
        command += [f"{folder}/rows*.parquet", "--label", "y", "--checkpoint-seconds", "0", "-o"]
        whole_command = [*command, f"{folder}/whole.histogp"]
        # The first one compiles.
        _, duration = [
            timed(lambda: subprocess.run(whole_command, check=True, stdout=subprocess.DEVNULL))[1] for _ in range(2)
        ]
        whole = Path(folder, "whole.histogp").read_bytes()
        identical = runs = killed = resumed = 0
        while killed < n_kills:
            output = Path(folder, "model.histogp")
            while not output.exists():
                resumed += output.with_name("model.histogp.part").exists()
                process = subprocess.Popen([*command, str(output), "--resume"], stdout=subprocess.DEVNULL)
                sleep(duration * rng.uniform(0.3, 1.1))
                killed += process.poll() is None
                process.kill()
                process.wait()
            identical += output.read_bytes() == whole
            output.unlink()
            runs += 1
    return {"killed": killed, "resumed": resumed, "runs": runs, "identical": identical, "different": runs - identical}
