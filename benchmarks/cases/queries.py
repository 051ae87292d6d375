"""What to label next: strategies compared, and how long a query takes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import numpy as np
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from threadpoolctl import threadpool_limits

from benchmarks.data import fashion_mnist, quick_draw
from benchmarks.measure import PLOTS, timed
from benchmarks.registry import case
from histogp import HistogramGPClassifier
from histogp.active import ActiveLearner, query
from histogp.datasets import make_checkerboard
from histogp.plotting import ActiveLearningDisplay

STRATEGIES = ("random", "mean", "variance", "uncertainty", "uncertainty+", "expected-change")
Curve = dict[str, np.ndarray]
BOARD_POINTS = (0, 10, 20, 50, 100)
TASK_BUDGET = 50
IN_POOL, TESTED = 50, 50
DRAWN, WORN = (4, 9, 19), (4, 9)  # negative classes; Fashion-MNIST has no more
SIMPLE = ("mean", "variance", "uncertainty")
BATCHES = ("batch-variance", "batch-uncertainty")


@case(
    "query_times",
    group="query",
    data="fashion-mnist",
    bar={"slowest_simple": "<= 2", "slowest_batch": "<= 10"},
    smoke={"n_pool": 1_000, "n_labeled": 200},
)
def query_times(n_pool: int = 50_000, n_labeled: int = 2_000) -> dict[str, float]:
    """Query of 10 out of a pool of 50,000 x 441, for a model of 2,000 that has nothing prepared."""
    X, y, _, _ = fashion_mnist()
    X = X.astype(np.float64)
    pool, labeled = slice(n_pool), slice(n_pool, n_pool + n_labeled)
    results = {}
    for strategy in (*SIMPLE, "uncertainty+", "expected-change", *BATCHES):
        for _ in range(2):  # the first one compiles
            clf = HistogramGPClassifier("hik", noise=0.1, random_state=0).fit(X[labeled], y[labeled])
            _, duration = timed(
                lambda clf=clf, strategy=strategy: query(clf, X[pool], strategy, batch_size=10, random_state=0)
            )
        results[strategy] = duration
    for name, strategies in (("simple", SIMPLE), ("batch", BATCHES)):
        durations = [results[strategy] for strategy in strategies]
        results |= {f"fastest_{name}": min(durations), f"slowest_{name}": max(durations)}
    return results


@case("checkerboard", group="query", smoke={"n_runs": 2})
def checkerboard(n_runs: int = 100) -> dict[str, float]:
    """Figure 3 of gp-hik-uncertainty-accv2012: accuracy on a checkerboard by strategy and number of labels."""
    curves = _compare(_board, n_runs)
    _plot(curves, "checkerboard", "mean accuracy of the classes")
    scores = {name: np.array([curve["score"] for curve in runs]) for name, runs in curves.items()}
    results = {}
    for name, values in scores.items():
        results |= {f"{name}_{n}": float(values[:, n].mean()) for n in BOARD_POINTS}
        results |= _area(name, values, scores["random"])
    return results


@case(
    "one_vs_few_drawings",
    group="query",
    data="quickdraw",
    bar={f"{n}_share": "<= 0.6" for n in DRAWN},
    smoke={"n_tasks": 2},
)
def one_vs_few_drawings(n_tasks: int = 100) -> dict[str, float]:
    """Figure 4 of gp-hik-uncertainty-accv2012 on QuickDraw: one class against 4, 9 and 19 others, by strategy."""
    return {key: value for n in DRAWN for key, value in _one_vs_few("drawings", n, n_tasks).items()}


@case(
    "one_vs_few_fashion",
    group="query",
    data="fashion-mnist",
    bar={f"{n}_share": "<= 0.6" for n in WORN},
    smoke={"n_tasks": 2},
)
def one_vs_few_fashion(n_tasks: int = 100) -> dict[str, float]:
    """Figure 4 of gp-hik-uncertainty-accv2012 on Fashion-MNIST: one class against 4 and 9 others, by strategy."""
    return {key: value for n in WORN for key, value in _one_vs_few("fashion", n, n_tasks).items()}


def _one_vs_few(data: str, n_negative: int, n_tasks: int) -> dict[str, float]:
    curves = _compare(partial(_task, data, n_negative), n_tasks)
    _plot(curves, f"one-vs-{n_negative}-{data}", "area under the ROC curve")
    scores = {name: np.array([curve["score"] for curve in runs]) for name, runs in curves.items()}
    random = scores["random"].mean(axis=0)
    results = {}
    for name, values in scores.items():
        # Labels until the score that random labels reach at the end.
        reached = np.flatnonzero(values.mean(axis=0) >= random[-1])
        results[f"{n_negative}_{name}_labels"] = float(reached[0]) if len(reached) else TASK_BUDGET + 1.0
        results |= _area(f"{n_negative}_{name}", values, scores["random"])
    fewest = min(results[f"{n_negative}_{name}_labels"] for name in STRATEGIES)
    return {**results, f"{n_negative}_share": fewest / TASK_BUDGET}


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
    clf = HistogramGPClassifier("hik", noise=0.1, n_jobs=1).fit(X[start], y[start])
    learner = ActiveLearner(clf, X[rest], strategy, random_state=seed)
    return learner.run(
        y[rest], max(BOARD_POINTS), scoring=lambda model: balanced_accuracy_score(y_test, model.predict(X_test))
    )


def _task(data: str, n_negative: int, seed: int, strategy: str) -> Curve:
    """One class against a few others: two labels of each to start with."""
    X, y = _images(data)
    rng = np.random.default_rng(seed)
    classes = rng.choice(y.max() + 1, n_negative + 1, replace=False)
    rows = np.stack([rng.permutation(np.flatnonzero(y == k))[: IN_POOL + TESTED] for k in classes])
    start, pool, test = rows[:, :2].ravel(), rows[:, 2:IN_POOL].ravel(), rows[:, IN_POOL:].ravel()
    is_positive = y == classes[0]
    clf = HistogramGPClassifier("hik", noise=0.1, n_jobs=1).fit(X[start], is_positive[start])
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
