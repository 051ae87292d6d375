"""Clocks and memory. Each case runs in a process of its own."""

from __future__ import annotations

import resource
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from histogp import HistogramGPClassifier

PLOTS = Path(__file__).with_name("plots")


def durations(work: Callable[[], object], repeats: int) -> list[float]:
    """Durations in seconds, after one call that compiles and warms the caches."""
    work()
    return [timed(work)[1] for _ in range(repeats)]


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """The median duration, for what users wait for."""
    return float(np.median(durations(work, repeats)))


def best_seconds(work: Callable[[], object], repeats: int = 20) -> float:
    """The shortest duration, as usual for bandwidths: the machine's own limit, not that of its neighbors."""
    return min(durations(work, repeats))


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What one call returns, and its duration in seconds."""
    start = perf_counter()
    found = work()
    return found, perf_counter() - start


def peak_megabytes() -> float:
    """The largest memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def alone(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """What a function returns in a new process: neither its memory nor what it warms counts here."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(function, *arguments, **options).result()


def scaled(n: int, scale: float) -> int:
    """A number of samples or repeats, times a scale that is 1 except for a smoke run; at least 60."""
    return n if scale == 1 else min(n, max(60, round(n * scale)))


def warm_up(X: Any, y: np.ndarray) -> None:
    """Load the compiled code of both solvers and of prediction."""
    for size in (500, 2_500):
        HistogramGPClassifier().fit(X[:size], y[:size]).predict(X[:10])
