"""Updates against fits from scratch, kills and readers meanwhile."""

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

import histogp
from benchmarks.data import quick_draw
from benchmarks.internals import COMMAND
from benchmarks.measure import PLOTS, seconds, timed, warm_up
from benchmarks.registry import case
from histogp import HistogramGPClassifier, Optimizer
from histogp.datasets import make_bags_of_words
from histogp.kernels import HistogramIntersection, Power

N_CLASSES = 15
FIRST, TESTED = 10, 40  # drawings of a class
READERS = 4


@case("update_one", group="update", bar={"milliseconds": "<= 25"}, smoke={"n": 2_500, "n_updates": 3})
def update_one(n: int = 10_090, n_updates: int = 50) -> dict[str, float]:
    """One sample after the other, added to 10,090 x 1,000 sparse, binary."""
    X, y = make_bags_of_words(n + n_updates + 1, random_state=0)
    warm_up(X, y)
    clf = HistogramGPClassifier("hik", noise=0.1, random_state=0)
    fit = seconds(lambda: clf.fit(X[:n], y[:n]))
    cold = clf.n_iter_
    durations, iterations = [], []
    for k in range(n, n + n_updates + 1):
        durations.append(timed(lambda k=k: clf.partial_fit(X[k : k + 1], y[k : k + 1]))[1])
        iterations.append(clf.n_iter_)
    return {
        "milliseconds": 1e3 * float(np.median(durations[1:])),
        "slowest_milliseconds": 1e3 * max(durations[1:]),
        "warm_iterations": float(np.median(iterations[1:])),
        "cold_iterations": cold,
        "fit_milliseconds": 1e3 * fit,
    }


@case("update_15", group="update", bar={"in_fits": "<= 0.3333"}, smoke={"n": 300})
def update_15(n: int = 1_500) -> dict[str, float]:
    """One sample of each of 15 classes, added to 1,500."""
    X, y = make_bags_of_words(n + 200, n_classes=15, random_state=0)
    new = np.array([n + np.flatnonzero(y[n:] == k)[0] for k in range(15)])
    rows = np.concatenate([np.arange(n), new])
    warm_up(X, y)
    durations = []
    for _ in range(9):
        clf = HistogramGPClassifier("hik", noise=0.1, random_state=0).fit(X[:n], y[:n])
        durations.append(timed(lambda clf=clf: clf.partial_fit(X[new], y[new]))[1])
    fit = seconds(lambda: HistogramGPClassifier("hik", noise=0.1, random_state=0).fit(X[rows], y[rows]), 9)
    update = float(np.median(durations[1:]))
    return {"milliseconds": 1e3 * update, "fit_milliseconds": 1e3 * fit, "in_fits": update / fit}


@case("stream", group="update", bar={"in_fits_2": "<= 20"}, smoke={"n": 300})
def stream(n: int = 5_000, batch: int = 50) -> dict[str, float]:
    """5,000 samples in batches of 50 into an empty model, and a prediction after each; 2 and 15 classes."""
    results = {}
    for n_classes in (2, 15):
        X, y = make_bags_of_words(n, n_classes=n_classes, random_state=0)
        warm_up(X, y)
        fit = seconds(lambda X=X, y=y: HistogramGPClassifier("hik", noise=0.1, random_state=0).fit(X, y))
        durations = []
        for _ in range(2):  # the first one compiles
            clf = HistogramGPClassifier("hik", noise=0.1, random_state=0)
            start = perf_counter()
            for begin in range(0, n, batch):
                some = slice(begin, begin + batch)
                clf.partial_fit(X[some], y[some])
                clf.predict(X[:1])
            durations.append(perf_counter() - start)
        results |= {
            f"fit_{n_classes}": fit,
            f"stream_{n_classes}": durations[-1],
            f"in_fits_{n_classes}": durations[-1] / fit,
        }
    return results


@case(
    "incremental",
    group="update",
    data="quickdraw",
    bar={"largest_difference": "<= 0.01", "speedup_last": "> 1", "speedup_growth": "> 0"},
    smoke={"n_runs": 1, "n_steps": 2},
)
def incremental(n_runs: int = 3, n_steps: int = 50) -> dict[str, float]:
    """Figure 11 of gp-hik-ijcv2016 on 15 classes of drawings: hyperparameters are optimized at every step."""
    X, y, _ = quick_draw()
    kernel = HistogramIntersection(Power(0.5))
    accuracies, times = np.zeros((2, n_runs, n_steps + 1, 2))
    for run in range(-1, n_runs):  # the first one compiles
        rng = np.random.default_rng(max(run, 0))
        rows = np.stack([rng.permutation(np.flatnonzero(y == k)) for k in rng.choice(345, N_CLASSES, replace=False)])
        test = rows[:, FIRST + n_steps : FIRST + n_steps + TESTED].ravel()
        known = rows[:, :FIRST].ravel()
        options: dict[str, Any] = dict(kernel=kernel, optimize=Optimizer(reoptimize_every=1), random_state=0)
        growing = HistogramGPClassifier(**options).fit(X[known], y[known])
        for step in range(n_steps + 1 if run >= 0 else min(3, n_steps + 1)):
            new = rows[:, FIRST + step - 1] if step else rows[:, :0].ravel()
            known = np.concatenate([known, new])
            scratch = HistogramGPClassifier(**options)
            _, fitting = timed(lambda scratch=scratch, known=known: scratch.fit(X[known], y[known]))
            updating = timed(lambda growing=growing, new=new: growing.partial_fit(X[new], y[new]))[1] if step else 0.0
            if run >= 0:
                times[run, step] = updating, fitting
                accuracies[run, step] = [model.score(X[test], y[test]) for model in (growing, scratch)]
    _plot_incremental(accuracies, times)
    gains = times[:, 1:, 1].sum(axis=0) / times[:, 1:, 0].sum(axis=0)
    first, last = float(np.median(gains[:10])), float(np.median(gains[-10:]))
    return {
        "largest_difference": float(np.abs(np.diff(accuracies.mean(axis=0))).max()),
        "mean_difference": float(np.diff(accuracies.mean(axis=(0, 1)))[0]),
        "first_accuracy": float(accuracies[:, 0].mean()),
        "last_accuracy": float(accuracies[:, -1].mean()),
        "speedup_first": first,
        "speedup_last": last,
        "speedup_growth": last - first,
        "update_seconds_last": float(times[:, -10:, 0].mean()),
        "fit_seconds_last": float(times[:, -10:, 1].mean()),
    }


def _plot_incremental(accuracies: np.ndarray, times: np.ndarray) -> None:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    n_samples = N_CLASSES * (FIRST + np.arange(accuracies.shape[1]))
    for axis, values, label in zip(axes, (accuracies, times), ("accuracy", "seconds a step"), strict=True):
        for kind, name, style in ((0, "incremental", "-"), (1, "from scratch", "--")):
            begin = 0 if label == "accuracy" else 1
            axis.plot(n_samples[begin:], values[:, begin:, kind].mean(axis=0), style, label=name)
        axis.set_xlabel("training samples")
        axis.set_ylabel(label)
        axis.legend(frameon=False)
    PLOTS.mkdir(exist_ok=True)
    figure.savefig(PLOTS / "incremental.png", dpi=120)


@case("kills", group="update", bar={"neither": "== 0"}, smoke={"n_kills": 2})
def kills(n_kills: int = 200) -> dict[str, float]:
    """``histogp update``, killed at random moments: the file is the old one or the new one."""
    X, y = make_bags_of_words(5_000, random_state=0)
    more, labels = make_bags_of_words(200, random_state=1)
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        model, data, truth = (Path(folder) / name for name in ("model.histogp", "more.npy", "labels.npy"))
        HistogramGPClassifier("hik", noise=0.1, random_state=0).fit(X, y).save(model)
        np.save(data, more.toarray())
        np.save(truth, labels)
        first = model.read_bytes()
        command = [*COMMAND, "update", str(model), str(data), "--labels", str(truth)]
        durations = []
        for _ in range(2):  # the first one compiles
            model.write_bytes(first)
            durations.append(timed(lambda: subprocess.run(command, check=True, capture_output=True))[1])
        second = model.read_bytes()
        found = {"old": 0, "new": 0, "neither": 0}
        for _ in range(n_kills):
            model.write_bytes(first)
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            sleep(durations[-1] * rng.uniform(0.6, 1.05))
            process.kill()
            process.wait()
            content = model.read_bytes()
            found["old" if content == first else "new" if content == second else "neither"] += 1
            histogp.load(model)
    return {"kills": n_kills, **{name: float(count) for name, count in found.items()}}


@case("readers", group="update", bar={"mixtures": "== 0"}, smoke={"duration": 2})
def readers(duration: float = 120) -> dict[str, float]:
    """Four threads that predict while another one updates: all scores are those of one state, up to rounding."""
    X, y = make_bags_of_words(3_000, n_classes=30, random_state=0)
    test, _ = make_bags_of_words(40, n_classes=30, random_state=1)
    model = HistogramGPClassifier("hik", noise=0.1, random_state=0).fit(X[:500], y[:500])
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
    end = perf_counter() + duration
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
    kind = rng.integers(3) if model.n_samples_ < 1_200 else 1
    if kind == 0:
        rows = rng.choice(len(y), 20, replace=False)
        labels = np.where(rng.random(20) < 0.2, 30 + rng.integers(20), y[rows])
        return lambda one: one.partial_fit(X[rows], labels)
    ids = rng.choice(model.ids_, 20, replace=False)
    if kind == 1:
        return lambda one: one.forget(ids)
    return lambda one: one.relabel(ids, 30 + ids % 20)
