"""What to label next: strategies compared, and how long a question takes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from time import perf_counter

import numpy as np
from drawings import quick_draw
from measure import PLOTS, fashion_mnist
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from threadpoolctl import threadpool_limits

from histogp import HistogramGPClassifier
from histogp.active import ActiveLearner, query
from histogp.datasets import make_checkerboard
from histogp.plotting import ActiveLearningDisplay

STRATEGIES = ("random", "mean", "variance", "uncertainty", "uncertainty+", "expected-change")
Curve = dict[str, np.ndarray]
BOARDS, BOARD_BUDGET = 100, 100
BOARD_POINTS = (0, 10, 20, 50, 100)
TASKS, TASK_BUDGET = 100, 50
IN_POOL, TESTED = 50, 50
DRAWN, WORN = (4, 9, 19), (4, 9)  # negative classes; Fashion-MNIST has no more
POOL, LABELLED = 50_000, 2_000


def query_times() -> dict[str, float]:
    """A pool of 50,000 orientation histograms, for a model of 2,000 that has nothing prepared."""
    X, y, _, _ = fashion_mnist()
    X = X.astype(np.float64)
    results = {}
    for strategy, size in (
        ("mean", 10),
        ("variance", 10),
        ("uncertainty", 10),
        ("uncertainty+", 10),
        ("expected-change", 10),
        ("batch-variance", 10),
        ("batch-uncertainty", 10),
    ):
        durations = []
        for _ in range(2):  # the first one compiles
            clf = HistogramGPClassifier(random_state=0).fit(X[POOL : POOL + LABELLED], y[POOL : POOL + LABELLED])
            start = perf_counter()
            query(clf, X[:POOL], strategy, size, random_state=0)
            durations.append(perf_counter() - start)
        results[strategy] = durations[-1]
    return results


def checkerboard() -> dict[str, float]:
    """Figure 3 of gp-hik-uncertainty-accv2012."""
    curves = _compare(_board, BOARDS)
    _plot(curves, "checkerboard", "mean accuracy of the classes")
    scores = {name: np.array([curve["score"] for curve in runs]) for name, runs in curves.items()}
    results = {}
    for name, values in scores.items():
        results |= {f"{name}_{n}": float(values[:, n].mean()) for n in BOARD_POINTS}
        results |= _area(name, values, scores["random"])
    return results


def one_vs_few_drawings() -> dict[str, float]:
    """Figure 4 of gp-hik-uncertainty-accv2012, on QuickDraw."""
    return {key: value for n in DRAWN for key, value in _one_vs_few("drawings", n).items()}


def one_vs_few_fashion() -> dict[str, float]:
    """The same on Fashion-MNIST."""
    return {key: value for n in WORN for key, value in _one_vs_few("fashion", n).items()}


def _one_vs_few(data: str, n_negative: int) -> dict[str, float]:
    curves = _compare(partial(_task, data, n_negative), TASKS)
    _plot(curves, f"one-vs-{n_negative}-{data}", "area under the ROC curve")
    scores = {name: np.array([curve["score"] for curve in runs]) for name, runs in curves.items()}
    random = scores["random"].mean(axis=0)
    results = {}
    for name, values in scores.items():
        mean = values.mean(axis=0)
        # Labels until the score that random labels reach at the end.
        reached = np.flatnonzero(mean >= random[-1])
        results[f"{n_negative}_{name}_labels"] = float(reached[0]) if len(reached) else TASK_BUDGET + 1.0
        results |= _area(f"{n_negative}_{name}", values, scores["random"])
    return results


def _area(name: str, values: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    """The mean of a curve over all its points, and how far above that of random labels it lies, with a 95% margin."""
    areas, gain = values.mean(axis=1), (values - reference).mean(axis=1)
    margin = 1.96 * float(gain.std(ddof=1)) / np.sqrt(len(gain))
    return {f"{name}_area": float(areas.mean()), f"{name}_gain": float(gain.mean()), f"{name}_margin": margin}


def _compare(run: Callable[[int, str], Curve], n_runs: int) -> dict[str, list[Curve]]:
    """The curves of all strategies, on two cores; the runs of one number have the same data and start."""
    with ProcessPoolExecutor(2, get_context("spawn"), initializer=threadpool_limits, initargs=(1,)) as processes:
        jobs = {name: processes.map(partial(run, strategy=name), range(n_runs), chunksize=5) for name in STRATEGIES}
        return {name: list(found) for name, found in jobs.items()}


def _board(seed: int, strategy: str) -> Curve:
    X, y = make_checkerboard(200, random_state=seed)
    X_test, y_test = make_checkerboard(750, random_state=10**6 + seed)
    rng = np.random.default_rng(seed)
    start = np.concatenate([rng.choice(np.flatnonzero(y == k), 8, replace=False) for k in (0, 1)])
    rest = np.setdiff1d(np.arange(len(y)), start)
    clf = HistogramGPClassifier(n_jobs=1).fit(X[start], y[start])
    learner = ActiveLearner(clf, X[rest], strategy, random_state=seed)
    return learner.run(
        y[rest], BOARD_BUDGET, scoring=lambda model: balanced_accuracy_score(y_test, model.predict(X_test))
    )


def _task(data: str, n_negative: int, seed: int, strategy: str) -> Curve:
    """One class against a few others: two labels of each to start with."""
    X, y = _images(data)
    rng = np.random.default_rng(seed)
    classes = rng.choice(y.max() + 1, n_negative + 1, replace=False)
    rows = np.stack([rng.permutation(np.flatnonzero(y == k))[: IN_POOL + TESTED] for k in classes])
    start, pool, test = rows[:, :2].ravel(), rows[:, 2:IN_POOL].ravel(), rows[:, IN_POOL:].ravel()
    is_positive = y == classes[0]
    clf = HistogramGPClassifier(n_jobs=1).fit(X[start], is_positive[start])
    learner = ActiveLearner(clf, X[pool], strategy, random_state=seed)
    scoring = lambda model: roc_auc_score(is_positive[test], model.decision_function(X[test]))  # noqa: E731
    return learner.run(is_positive[pool], TASK_BUDGET, scoring=scoring)


_loaded: dict[str, tuple[np.ndarray, np.ndarray]] = {}


def _images(data: str) -> tuple[np.ndarray, np.ndarray]:
    if data not in _loaded:
        _loaded[data] = quick_draw()[:2] if data == "drawings" else fashion_mnist()[:2]
    return _loaded[data]


def _plot(curves: dict[str, list[Curve]], name: str, score: str) -> None:
    display = ActiveLearningDisplay.from_curves(curves)
    display.ax_.set_ylabel(score)
    PLOTS.mkdir(exist_ok=True)
    display.figure_.savefig(PLOTS / f"{name}.png", dpi=120)
