"""Four times that must not grow when the code is rebuilt: fit, quantized prediction, update, query.

``python -m benchmarks compare OLD NEW`` runs them against two checkouts. They use public names only, those that both
checkouts have.
"""

from __future__ import annotations

import numpy as np

from benchmarks.data import fashion_mnist
from benchmarks.measure import timed
from benchmarks.registry import case
from histogp import HistogramGPClassifier
from histogp.active import query

N_WARM = 2_500


@case("house_fit", group="house", data="fashion-mnist", smoke={"n": 3_000})
def house_fit(n: int = 60_000) -> dict[str, float]:
    """Fit of 60,000 x 441, 10 classes."""
    X, y, _, _ = fashion_mnist()
    HistogramGPClassifier("hik", noise=0.1, random_state=0).fit(X[:N_WARM], y[:N_WARM])
    return {"seconds": timed(lambda: HistogramGPClassifier("hik", noise=0.1, random_state=0).fit(X[:n], y[:n]))[1]}


@case("house_prediction", group="house", data="fashion-mnist", smoke={"n": 3_000, "repeats": 2})
def house_prediction(n: int = 60_000, repeats: int = 25) -> dict[str, float]:
    """Quantized predictions of 10,000 images from 60,000, the table made before."""
    X, y, X_test, _ = fashion_mnist()
    clf = HistogramGPClassifier("hik", noise=0.1, random_state=0, prediction="quantized").fit(X[:n], y[:n])
    clf.decision_function(X_test)
    return {"seconds": float(np.median([timed(lambda: clf.decision_function(X_test))[1] for _ in range(repeats)]))}


@case("house_update", group="house", data="fashion-mnist", smoke={"n": 3_000, "n_updates": 2})
def house_update(n: int = 60_000, n_updates: int = 3, n_added: int = 10) -> dict[str, float]:
    """Ten samples added to 60,000 by partial_fit; the median of three updates after one that warms up."""
    X, y, X_new, y_new = fashion_mnist()
    clf = HistogramGPClassifier("hik", noise=0.1, random_state=0).fit(X[:n], y[:n])
    durations = []
    for k in range(n_updates + 1):
        some = slice(k * n_added, (k + 1) * n_added)
        durations.append(timed(lambda some=some: clf.partial_fit(X_new[some], y_new[some]))[1])
    return {"seconds": float(np.median(durations[1:]))}


@case("house_query", group="house", data="fashion-mnist", smoke={"n_pool": 1_000, "n_labeled": 200})
def house_query(n_pool: int = 50_000, n_labeled: int = 2_000) -> dict[str, float]:
    """Query of 10 out of a pool of 50,000 by uncertainty, for a model of 2,000 that has nothing prepared."""
    X, y, _, _ = fashion_mnist()
    X = X.astype(np.float64)
    pool, labeled = X[:n_pool], slice(n_pool, n_pool + n_labeled)
    for _ in range(2):  # the first one compiles
        clf = HistogramGPClassifier("hik", noise=0.1, random_state=0).fit(X[labeled], y[labeled])
        _, duration = timed(lambda clf=clf: query(clf, pool, "uncertainty", batch_size=10, random_state=0))
    return {"seconds": duration}
