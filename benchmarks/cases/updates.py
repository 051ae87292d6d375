"""Learning that goes on: updates against fits from scratch, kills and readers."""

from __future__ import annotations

import copy
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np
from drawings import quick_draw
from measure import PLOTS, seconds, warm_up

import histogp
from histogp import HistogramGPClassifier, Optimizer
from histogp.datasets import make_bags_of_words
from histogp.kernels import HistogramIntersection, Power

N_UPDATES = 50
STREAM = 5_000
BATCH = 50
RUNS = 3
N_CLASSES = 15
FIRST, STEPS, TESTED = 10, 50, 40
KILLS = 200
READERS, READING_SECONDS = 4, 120


def update_one() -> dict[str, float]:
    """One example after the other, added to 10,090."""
    n = 10_090
    X, y = make_bags_of_words(n + N_UPDATES + 1, random_state=0)
    warm_up(X, y)
    clf = HistogramGPClassifier(random_state=0)
    fit = seconds(lambda: clf.fit(X[:n], y[:n]))
    cold = clf.n_iter_
    durations, iterations = [], []
    for k in range(n, n + N_UPDATES + 1):
        start = perf_counter()
        clf.partial_fit(X[k : k + 1], y[k : k + 1])
        durations.append(perf_counter() - start)
        iterations.append(clf.n_iter_)
    return {
        "milliseconds": 1e3 * float(np.median(durations[1:])),
        "slowest_milliseconds": 1e3 * max(durations[1:]),
        "warm_iterations": float(np.median(iterations[1:])),
        "cold_iterations": cold,
        "fit_milliseconds": 1e3 * fit,
    }


def update_15() -> dict[str, float]:
    """One example of each of 15 classes, added to 1,500."""
    X, y = make_bags_of_words(1_700, n_classes=15, random_state=0)
    new = np.array([1_500 + np.flatnonzero(y[1_500:] == k)[0] for k in range(15)])
    rows = np.concatenate([np.arange(1_500), new])
    warm_up(X, y)
    durations = []
    for _ in range(9):
        clf = HistogramGPClassifier(random_state=0).fit(X[:1_500], y[:1_500])
        start = perf_counter()
        clf.partial_fit(X[new], y[new])
        durations.append(perf_counter() - start)
    fit = seconds(lambda: HistogramGPClassifier(random_state=0).fit(X[rows], y[rows]), 9)
    return {"update_seconds": float(np.median(durations[1:])), "fit_seconds": fit}


def stream() -> dict[str, float]:
    """Batches into an empty model, and a prediction after each."""
    results = {}
    for n_classes in (2, 15):
        X, y = make_bags_of_words(STREAM, n_classes=n_classes, random_state=0)
        warm_up(X, y)
        results[f"fit_{n_classes}"] = seconds(lambda X=X, y=y: HistogramGPClassifier(random_state=0).fit(X, y))
        durations = []
        for _ in range(2):  # the first one compiles
            clf = HistogramGPClassifier(random_state=0)
            start = perf_counter()
            for begin in range(0, STREAM, BATCH):
                some = slice(begin, begin + BATCH)
                clf.partial_fit(X[some], y[some])
                clf.predict(X[:1])
            durations.append(perf_counter() - start)
        results[f"stream_{n_classes}"] = durations[-1]
    return results


def incremental() -> dict[str, float]:
    """Figure 11 of gp-hik-ijcv2016 on 15 classes of drawings: hyperparameters are searched for at every step."""
    X, y, _ = quick_draw()
    kernel = HistogramIntersection(Power(0.5))
    accuracies, times = np.zeros((2, RUNS, STEPS + 1, 2))
    for run in range(-1, RUNS):  # the first one compiles
        rng = np.random.default_rng(max(run, 0))
        rows = np.stack([rng.permutation(np.flatnonzero(y == k)) for k in rng.choice(345, N_CLASSES, replace=False)])
        test = rows[:, FIRST + STEPS : FIRST + STEPS + TESTED].ravel()
        known = rows[:, :FIRST].ravel()
        options: dict[str, Any] = dict(kernel=kernel, optimize=Optimizer(reoptimize_every=1), random_state=0)
        growing = HistogramGPClassifier(**options).fit(X[known], y[known])
        for step in range(STEPS + 1 if run >= 0 else 3):
            new = rows[:, FIRST + step - 1] if step else rows[:, :0].ravel()
            known = np.concatenate([known, new])
            scratch = HistogramGPClassifier(**options)
            start = perf_counter()
            scratch.fit(X[known], y[known])
            middle = perf_counter()
            if step:
                growing.partial_fit(X[new], y[new])
            if run >= 0:
                times[run, step] = perf_counter() - middle, middle - start
                accuracies[run, step] = [model.score(X[test], y[test]) for model in (growing, scratch)]
    _plot_incremental(accuracies, times)
    gains = times[:, 1:, 1].sum(axis=0) / times[:, 1:, 0].sum(axis=0)
    return {
        "largest_difference": float(np.abs(np.diff(accuracies.mean(axis=0))).max()),
        "mean_difference": float(np.diff(accuracies.mean(axis=(0, 1)))[0]),
        "first_accuracy": float(accuracies[:, 0].mean()),
        "last_accuracy": float(accuracies[:, -1].mean()),
        "speedup_first": float(np.median(gains[:10])),
        "speedup_last": float(np.median(gains[-10:])),
        "update_seconds_last": float(times[:, -10:, 0].mean()),
        "fit_seconds_last": float(times[:, -10:, 1].mean()),
    }


def _plot_incremental(accuracies: np.ndarray, times: np.ndarray) -> None:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    n_examples = N_CLASSES * (FIRST + np.arange(STEPS + 1))
    for axis, values, label in zip(axes, (accuracies, times), ("accuracy", "seconds a step"), strict=True):
        for kind, name, style in ((0, "incremental", "-"), (1, "from scratch", "--")):
            begin = 0 if label == "accuracy" else 1
            axis.plot(n_examples[begin:], values[:, begin:, kind].mean(axis=0), style, label=name)
        axis.set_xlabel("training examples")
        axis.set_ylabel(label)
        axis.legend(frameon=False)
    PLOTS.mkdir(exist_ok=True)
    figure.savefig(PLOTS / "incremental.png", dpi=120)


def kills() -> dict[str, float]:
    """``histogp update``, killed at random moments: the file is the old one or the new one."""
    X, y = make_bags_of_words(5_000, random_state=0)
    more, labels = make_bags_of_words(200, random_state=1)
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        model, data, truth = (Path(folder) / name for name in ("model.histogp", "more.npy", "labels.npy"))
        HistogramGPClassifier(random_state=0).fit(X, y).save(model)
        np.save(data, more.toarray())
        np.save(truth, labels)
        first = model.read_bytes()
        command = [sys.executable, "-m", "histogp.cli.main", "update", str(model), str(data), "--labels", str(truth)]
        durations = []
        for _ in range(2):  # the first one compiles
            model.write_bytes(first)
            start = perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            durations.append(perf_counter() - start)
        second = model.read_bytes()
        found = {"old": 0, "new": 0, "neither": 0}
        for _ in range(KILLS):
            model.write_bytes(first)
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            sleep(durations[-1] * rng.uniform(0.6, 1.05))
            process.kill()
            process.wait()
            content = model.read_bytes()
            found["old" if content == first else "new" if content == second else "neither"] += 1
            histogp.load(model)
    return {"kills": KILLS, **{name: float(count) for name, count in found.items()}}


def readers() -> dict[str, float]:
    """Threads that predict while another one updates: all scores are those of one state, up to rounding by BLAS."""
    X, y = make_bags_of_words(3_000, n_classes=30, random_state=0)
    test, _ = make_bags_of_words(40, n_classes=30, random_state=1)
    model = HistogramGPClassifier(random_state=0).fit(X[:500], y[:500])
    states = [model.decision_function(test)]
    mixtures: list[str] = []
    n_reads = [0] * READERS
    stop = threading.Event()

    def read(number: int) -> None:
        while not stop.is_set():
            try:
                scores = model.decision_function(test)
                # The last ones first.
                if not any(scores.shape == one.shape and np.allclose(scores, one, 0, 1e-9) for one in states[::-1]):
                    mixtures.append("scores of no state")
                model.predict(test)
                model.predict_proba(test[:2])
            except Exception as error:
                mixtures.append(repr(error))
            n_reads[number] += 1

    threads = [threading.Thread(target=read, args=(number,)) for number in range(READERS)]
    for thread in threads:
        thread.start()
    end = perf_counter() + READING_SECONDS
    rng = np.random.default_rng(0)
    n_updates = 0
    while perf_counter() < end:
        twin = copy.copy(model)  # shares its state: the same update gives the same bits
        change = _change(model, X, y, rng)
        states.append(change(twin).decision_function(test))
        change(model)
        n_updates += 1
    stop.set()
    for thread in threads:
        thread.join()
    for kind in set(mixtures):
        print(kind, file=sys.stderr)
    return {"updates": n_updates, "reads": sum(n_reads), "mixtures": len(mixtures)}


def _change(model: Any, X: Any, y: np.ndarray, rng: np.random.Generator) -> Any:
    """An update that adds, forgets or relabels, with classes that come and go."""
    kind = rng.integers(3) if model.n_examples_ < 1_200 else 1
    if kind == 0:
        rows = rng.choice(len(y), 20, replace=False)
        labels = np.where(rng.random(20) < 0.2, 30 + rng.integers(20), y[rows])
        return lambda one: one.partial_fit(X[rows], labels)
    ids = rng.choice(model.ids_, 20, replace=False)
    if kind == 1:
        return lambda one: one.forget(ids)
    return lambda one: one.relabel(ids, 30 + ids % 20)
