"""Exact and quantized prediction, model files and ``histogp predict``."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

import histogp
from benchmarks.data import fashion_mnist
from benchmarks.internals import COMMAND
from benchmarks.measure import alone, scaled, seconds, warm_up
from benchmarks.registry import case
from histogp import HistogramGPClassifier
from histogp.datasets import make_bags_of_words

PREDICTION_SIZES = (2_500, 10_090, 50_050)
N_TEST = 10_000
BOUNDS = ("worst-case", "linear", "assumption-free")


@case("prediction", group="prediction", bar={"exact_10090": "<= 8", "quantized_10090": "<= 0.5"}, smoke={"scale": 0.05})
def prediction(scale: float = 1) -> dict[str, float]:
    """Microseconds of exact and quantized predictions, 1,000 sparse features, binary."""
    n_test = scaled(N_TEST, scale)
    X, y = make_bags_of_words(scaled(PREDICTION_SIZES[-1], scale) + n_test, random_state=0)
    test = X[-n_test:]
    microseconds = {}
    for n in PREDICTION_SIZES:
        clf = HistogramGPClassifier("hik", noise=0.1, random_state=0).fit(X[: scaled(n, scale)], y[: scaled(n, scale)])
        for kind in ("exact", "quantized"):
            clf.set_params(prediction=kind)
            duration = seconds(lambda clf=clf: clf.decision_function(test), repeats=15)
            microseconds[f"{kind}_{n}"] = 1e6 * duration / n_test
    return microseconds


@case(
    "quantized_fashion",
    group="prediction",
    data="fashion-mnist",
    bar={
        "linear_us": "<= 10",
        "linear_agreement": ">= 0.999",
        "nearest_in_linear_errors": ">= 5",
        "linear_bounds_hold": "== 1",
        "nearest_bounds_hold": "== 1",
        "load_seconds": "<= 1",
        "table_mb": "<= 30",
    },
    smoke={"n": 2_500},
)
def quantized_fashion(n: int = 60_000) -> dict[str, float]:
    """Quantized against exact predictions of Fashion-MNIST, 10 classes, and model files."""
    X_train, y_train, X_test, y_test = fashion_mnist()
    warm_up(X_train, y_train)
    clf = HistogramGPClassifier("hik", noise=0.1, random_state=0).fit(X_train[:n], y_train[:n])
    exact = clf.decision_function(X_test.astype(np.float64))
    results = {}
    for kind in ("nearest", "linear"):
        clf.set_params(prediction="quantized", interpolation=kind)
        scores = clf.decision_function(X_test.astype(np.float64))
        error = np.abs(scores - exact)
        results[f"{kind}_error"] = float(error.max())
        results[f"{kind}_mean_error"] = float(error.mean())
        results[f"{kind}_agreement"] = float(np.mean(scores.argmax(axis=1) == exact.argmax(axis=1)))
        results[f"{kind}_accuracy"] = clf.score(X_test, y_test)
        results[f"{kind}_us"] = 1e6 * seconds(lambda: clf.decision_function(X_test)) / len(X_test)
        kinds = BOUNDS if kind == "linear" else BOUNDS[2:]
        results[f"{kind}_bounds_hold"] = float(
            all(np.all(error <= clf.quantization_error_bound(bound) + 1e-9) for bound in kinds)
        )
    results["nearest_in_linear_errors"] = results["nearest_error"] / results["linear_error"]
    results["worst_case"] = float(clf.quantization_error_bound("worst-case").max())
    with tempfile.TemporaryDirectory() as folder:
        for name, options in (("file", {}), ("table", {"include_training": False})):
            path = Path(folder) / f"{name}.histogp"
            clf.save(path, **options)
            results[f"{name}_mb"] = path.stat().st_size / 1e6
            results["load_seconds" if name == "file" else "table_load_seconds"] = seconds(
                lambda path=path: histogp.load(path)
            )
    # A table has eight bytes for each bin, feature and class, and a file of it little else.
    results["bins"] = 1e6 * results["table_mb"] / (8 * X_train.shape[1] * len(clf.classes_))
    return results


@case(
    "predict_command",
    group="prediction",
    data="fashion-mnist",
    needs="pyarrow",
    bar={"seconds": "< 60", "megabytes": "< 1000"},
    smoke={"n_rows": 10_000, "n_train": 2_500},
)
def predict_command(n_rows: int = 1_000_000, n_train: int = 60_000) -> dict[str, float]:
    """``histogp predict`` of a million rows of 441 features in one Parquet file, 10 classes, quantized."""
    with tempfile.TemporaryDirectory() as folder:
        model, data, out = (Path(folder) / name for name in ("model.histogp", "rows.parquet", "out.csv"))
        alone(_write_model, model, n_train)
        alone(_write_rows, data, n_rows)
        command = [*COMMAND, "predict", model, data, "-o", out]
        start = perf_counter()
        process = subprocess.Popen(command)
        _, status, usage = os.wait4(process.pid, 0)
        duration = perf_counter() - start
        assert status == 0
        with out.open() as lines:
            assert sum(1 for _ in lines) == n_rows + 1
        return {"seconds": duration, "megabytes": usage.ru_maxrss / 1024, "file_mb": data.stat().st_size / 1e6}


def _write_model(path: Path, n_train: int) -> None:
    """A model that only predicts, from a table."""
    X_train, y_train, _, _ = fashion_mnist()
    clf = HistogramGPClassifier("hik", noise=0.1, random_state=0, prediction="quantized").fit(
        X_train[:n_train], y_train[:n_train]
    )
    clf.save(path, include_training=False)


def _write_rows(path: Path, n_rows: int) -> None:
    """Test images with other weights, again and again, in one row group as pyarrow writes them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    X_test = fashion_mnist()[2]
    scale = np.random.default_rng(0).uniform(0.8, 1.2, (n_rows, 1)).astype(np.float32)
    rows = np.tile(X_test, (n_rows // len(X_test), 1)) * scale
    pq.write_table(pa.table({f"h{k}": column for k, column in enumerate(rows.T)}), path)
