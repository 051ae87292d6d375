"""What the benchmarks share: clocks, memory, data, lines of the table. Each case runs in a process of its own."""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from histogp import HistogramGPClassifier
from histogp.datasets import load_fashion_mnist, orientation_histograms

Results = dict[str, dict[str, float]]
Line = tuple[str, str, str, str]
PLOTS = Path(__file__).with_name("plots")
FEATURES = Path(tempfile.gettempdir()) / "histogp-fashion-mnist.npz"


def durations(work: Callable[[], object], repeats: int) -> list[float]:
    """Durations in seconds, after one call that compiles and warms the caches."""
    work()
    measured = []
    for _ in range(repeats):
        start = perf_counter()
        work()
        measured.append(perf_counter() - start)
    return measured


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """The median, for what users wait for."""
    return float(np.median(durations(work, repeats)))


def best_seconds(work: Callable[[], object], repeats: int = 20) -> float:
    """The best, as usual for bandwidths: the machine's own limit, not that of its neighbours."""
    return min(durations(work, repeats))


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def fashion_mnist() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Orientation histograms, computed once a run (in another process, which does not count here)."""
    with np.load(FEATURES) as arrays:
        return tuple(arrays[name] for name in ("X_train", "y_train", "X_test", "y_test"))  # type: ignore[return-value]


def prepare() -> dict[str, float]:
    X_train, y_train, X_test, y_test = load_fashion_mnist()
    start = perf_counter()
    X_train, X_test = orientation_histograms(X_train), orientation_histograms(X_test)
    duration = perf_counter() - start
    np.savez(FEATURES, X_train=X_train, y_train=y_train, X_test=X_test, y_test=y_test)
    return {"seconds": duration, "density": float(np.mean(X_train > 0))}


def warm_up(X: object, y: np.ndarray) -> None:
    """Load the compiled code of both solvers and of prediction."""
    for size in (500, 2_500):
        HistogramGPClassifier().fit(X[:size], y[:size]).predict(X[:10])  # type: ignore[index]


def line(what: str, measured: str, bar: str, met: Callable[[], bool]) -> Line:
    """A line of the first table."""
    return what, measured, bar, "met" if met() else "MISSED"


def kernel_operator(X: Any, kernel: Any, n_threads: int) -> Any:
    """The kernel matrix of X as an estimator has it."""
    adapted = kernel._adapt(X)
    return adapted.kernel._operator(adapted.value, X, n_threads)
