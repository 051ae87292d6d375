"""Chi-squared kernels: maps, learning from statistics, the Gaussian process on the same features."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, sleep

import numpy as np
from measure import PLOTS, fashion_mnist, peak_megabytes, seconds
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.linear_model import RidgeClassifier

import histogp
from histogp import HistogramGPClassifier
from histogp.feature_maps import AdditiveChi2Map
from histogp.maps.points import best_interval
from histogp.storage import Rows
from histogp.streaming import StreamingRidgeClassifier, read_chunks

TERMS = list(range(3, 22, 2))
PAIRS = 2_000_000
N_ROWS, N_FILES = 1_000_000, 10
DRAWS = 1_000  # of the multinomial noise
KILLS = 20


def chi2_error() -> dict[str, float]:
    """The paper's figure 1: the error over pairs of values of the same feature, by the number of terms."""
    X = fashion_mnist()[0].astype(np.float64)
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(len(X), size=(2, PAIRS)), rng.integers(X.shape[1], size=PAIRS)
    x, y = X[rows[0], columns], X[rows[1], columns]
    kernel = np.divide(2 * x * y, x + y, where=x + y > 0, out=np.zeros(PAIRS))
    results = {}
    for n_terms in TERMS:
        for name, options in {
            "direct": {},
            "greedy": {"points": "greedy"},
            "sklearn": {"method": "vz"},
            "vz": {"method": "vz", "sample_interval": best_interval(Rows.from_array(X[::10]), "chi2", n_terms)},
            "chebyshev": {"method": "chebyshev"},
        }.items():
            if name == "sklearn" and n_terms > 5:
                continue
            fitted = AdditiveChi2Map(n_components=n_terms, **options).fit(X[::10])
            results[f"{name}_{n_terms}"] = float(np.abs(kernel - _products(fitted, x, y, columns)).sum() / kernel.sum())
    _plot_errors(results)
    return results


def _products(fitted: AdditiveChi2Map, x: np.ndarray, y: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Of the features of two values of the same feature."""
    additive = fitted._map.at(columns)
    left, right = np.empty((2, 1, additive.n_terms, len(x)))
    additive.fill(x[None], left)
    additive.fill(y[None], right)
    return np.einsum("tn,tn->n", left[0], right[0])


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


def chi2_map_times() -> dict[str, float]:
    """``fit_transform`` of 60,000 x 441, beside scikit-learn's sampler with as many columns."""
    X = fashion_mnist()[0]
    results = {}
    for dtype in (np.float32, np.float64):
        rows = X.astype(dtype)
        for n_terms in (3, 5):
            name = f"{np.dtype(dtype).name}_{n_terms}"
            ours, theirs = AdditiveChi2Map(n_components=n_terms), AdditiveChi2Sampler(sample_steps=(n_terms + 1) // 2)
            assert ours.fit_transform(rows[:9]).shape == theirs.fit_transform(rows[:9]).shape
            results[f"ours_{name}"] = seconds(lambda ours=ours, rows=rows: ours.fit_transform(rows), 3)
            results[f"sklearn_{name}"] = seconds(lambda theirs=theirs, rows=rows: theirs.fit_transform(rows), 3)
    return results


def streaming_ridge() -> dict[str, float]:
    """60,000 x 441, 3 terms, 10 classes; and scikit-learn's sampler and ridge classifier."""
    X, y, X_test, y_test = fashion_mnist()
    StreamingRidgeClassifier(AdditiveChi2Map(n_components=3)).fit(X[:100], y[:100]).predict(X[:9])
    start = perf_counter()
    clf = StreamingRidgeClassifier(AdditiveChi2Map(n_components=3), random_state=0)
    for X_chunk, y_chunk in read_chunks((X, y)):
        clf.partial_fit(X_chunk, y_chunk)
    alpha = clf.alpha_  # solves
    ours = perf_counter() - start
    start = perf_counter()
    accuracy = clf.score(X_test, y_test)
    prediction = perf_counter() - start
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


def streaming_parquet() -> dict[str, float]:
    """``histogp fit --stream`` on a million rows, and 60,000 of them against a solution in memory."""
    with tempfile.TemporaryDirectory() as folder:
        writing = os.fork()  # so that its memory does not count
        if writing == 0:
            write_parquet(Path(folder), N_ROWS, N_FILES)
            os._exit(0)
        assert os.waitpid(writing, 0)[1] == 0
        size = sum(path.stat().st_size for path in Path(folder).glob("*.parquet"))
        command = [sys.executable, "-m", "histogp.cli.main", "fit", "--kernel", "chi2", "--stream"]
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
            "difference": _difference(Path(folder), X_test),
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


def _difference(folder: Path, X_test: np.ndarray) -> float:
    """The largest difference of a score, for 60,000 rows, from least squares in memory by NumPy."""
    n = min(60_000, N_ROWS // N_FILES)
    clf = StreamingRidgeClassifier(AdditiveChi2Map(n_components=3), alpha=1.0)
    parts, labels = [], []
    for X_chunk, y_chunk in read_chunks(folder / "rows00.parquet", label="y"):
        left = n - sum(map(len, labels))
        if left <= 0:
            break
        clf.partial_fit(X_chunk[:left], y_chunk[:left])
        parts.append(X_chunk[:left])
        labels.append(y_chunk[:left])
    X, y = np.concatenate(parts).astype(np.float64), np.concatenate(labels)
    Z, Z_test = (clf._learned.feature_map.transform(rows.astype(np.float64)) for rows in (X, X_test))
    T = np.where(y[:, None] == clf.classes_, 1.0, -1.0)
    mean, target_mean = Z.mean(axis=0), T.mean(axis=0)
    Z -= mean
    weights = np.linalg.solve(Z.T @ Z + np.eye(Z.shape[1]), Z.T @ (T - target_mean))
    scores = (Z_test - mean) @ weights + target_mean
    return float(np.abs(clf.decision_function(X_test.astype(np.float64)) - scores).max())


def chi2_gp() -> dict[str, float]:
    """The Gaussian process with the additive chi-squared kernel, 3 terms, on 60,000 x 441."""
    X, y, X_test, y_test = fashion_mnist()
    HistogramGPClassifier("chi2").fit(X[:2000], y[:2000]).predict_variance(X[:9])
    start = perf_counter()
    clf = HistogramGPClassifier("chi2", random_state=0).fit(X, y)
    fit = perf_counter() - start
    accuracy = clf.score(X_test, y_test)
    megabytes = peak_megabytes()
    variance = seconds(lambda: clf.predict_variance(X_test), 3)
    start = perf_counter()
    clf.log_marginal_likelihood()
    evidence = perf_counter() - start
    return {
        "seconds": fit,
        "accuracy": float(accuracy),
        "variance_us": 1e6 * variance / len(X_test),
        "evidence_seconds": evidence,
        "megabytes": megabytes,
    }


def chi2_resume() -> dict[str, float]:
    """``histogp fit --stream``, killed at random moments and resumed until it is done."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        write_parquet(Path(folder), 30_000, 3)
        command = [sys.executable, "-m", "histogp.cli.main", "fit", "--kernel", "chi2", "--stream"]
        command += [f"{folder}/rows*.parquet", "--label", "y", "--checkpoint-seconds", "0", "-o"]
        durations = []
        for _ in range(2):  # the first one compiles
            start = perf_counter()
            subprocess.run([*command, f"{folder}/whole.histogp"], check=True, stdout=subprocess.DEVNULL)
            durations.append(perf_counter() - start)
        whole = Path(folder, "whole.histogp").read_bytes()
        identical = runs = killed = resumed = 0
        while killed < KILLS:
            output = Path(folder, "model.histogp")
            while not output.exists():
                resumed += output.with_name("model.histogp.part").exists()
                process = subprocess.Popen([*command, str(output), "--resume"], stdout=subprocess.DEVNULL)
                sleep(durations[-1] * rng.uniform(0.3, 1.1))
                killed += process.poll() is None
                process.kill()
                process.wait()
            identical += output.read_bytes() == whole
            output.unlink()
            runs += 1
    return {"killed": killed, "resumed": resumed, "runs": runs, "identical": identical}
