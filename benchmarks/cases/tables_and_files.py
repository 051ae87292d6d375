"""Quantised prediction, model files and the command line."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
from measure import fashion_mnist, seconds, warm_up

import histogp
from histogp import HistogramGPClassifier

N_ROWS = 1_000_000
BOUNDS = ("worst-case", "linear", "assumption-free")
MODEL = Path(tempfile.gettempdir()) / "histogp-fashion-mnist-table.histogp"


def quantized_fashion() -> dict[str, float]:
    """Fit once, compare predictions with the exact ones, save and load."""
    X_train, y_train, X_test, y_test = fashion_mnist()
    warm_up(X_train, y_train)
    clf = HistogramGPClassifier(random_state=0).fit(X_train, y_train)
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
    results["worst_case"] = float(clf.quantization_error_bound("worst-case").max())
    results["bins"] = float(np.diff(clf._posterior.quantized(clf._grid()).table.starts).mean() - 1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.histogp"
        clf.save(path)
        results["file_mb"] = path.stat().st_size / 1e6
        results["load_seconds"] = seconds(lambda: histogp.load(path))
    clf.save(MODEL, include_training=False)
    results["table_mb"] = MODEL.stat().st_size / 1e6
    results["table_load_seconds"] = seconds(lambda: histogp.load(MODEL))
    return results


def predict_command() -> dict[str, float]:
    """``histogp predict`` on a million rows, in one row group as pyarrow writes them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as folder:
        data, out = Path(folder) / "rows.parquet", Path(folder) / "out.csv"
        writing = os.fork()  # so that its memory does not count
        if writing == 0:
            X_test = fashion_mnist()[2]
            scale = np.random.default_rng(0).uniform(0.8, 1.2, (N_ROWS, 1)).astype(np.float32)
            rows = np.tile(X_test, (N_ROWS // len(X_test), 1)) * scale
            pq.write_table(pa.table({f"h{k}": column for k, column in enumerate(rows.T)}), data)
            os._exit(0)
        assert os.waitpid(writing, 0)[1] == 0
        command = [sys.executable, "-m", "histogp.cli.main", "predict", MODEL, data, "-o", out]
        start = perf_counter()
        process = subprocess.Popen(command)
        _, status, usage = os.wait4(process.pid, 0)
        duration = perf_counter() - start
        assert status == 0
        with out.open() as lines:
            assert sum(1 for _ in lines) == N_ROWS + 1
        return {"seconds": duration, "megabytes": usage.ru_maxrss / 1024, "file_mb": data.stat().st_size / 1e6}


def demo() -> dict[str, float]:
    """A fresh clone, a new environment, ``make demo``."""
    root = Path(__file__).resolve().parents[1]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "clone", "--quiet", root, f"{folder}/clone"], check=True)
        start = perf_counter()
        environment = {**os.environ, "NUMBA_CACHE_DIR": f"{folder}/cache"}
        subprocess.run(["make", "-C", f"{folder}/clone", "demo"], check=True, stdout=sys.stderr, env=environment)
        return {
            "seconds": perf_counter() - start,
            "megabytes": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
        }
