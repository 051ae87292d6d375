"""The data sets of the contest and their seeded splits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from benchmarks import data
from benchmarks.data.tables import BALANCED, IMBALANCED
from benchmarks.data.values import ROWS as VALUE_ROWS

TRAINED = 0.7
SMALL, LARGE, TEXTS, IMBALANCE, VALUES = "small", "large", "texts", "imbalanced", "regression"


@dataclass(frozen=True)
class Split:
    """What is learned from and what is tested; labels of classes are 0, 1 and so on."""

    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray


@dataclass(frozen=True)
class DataSet:
    """A data set of the contest.

    kind : "small", "large", "texts", "imbalanced" (two classes, 1 is the rare one) or "regression"
    n_rows : samples of training and test together
    data : its name in `benchmarks.data.LOADERS`, None if it comes with scikit-learn
    n_splits : how many splits there are
    split : makes the split of a number
    """

    name: str
    kind: str
    n_rows: int
    data: str | None
    n_splits: int
    split: Callable[[int], Split]


def usual_splits(n_rows: int) -> int:
    """Five splits, three above 5,000 rows."""
    return 5 if n_rows <= 5_000 else 3


def _drawn(X: Any, y: np.ndarray, seed: int, labels: np.ndarray | None) -> Split:
    """A split with 70% of the samples to learn from, stratified by labels."""
    train, test = train_test_split(np.arange(len(y)), train_size=TRAINED, stratify=labels, random_state=seed)
    return Split(X[train], y[train], X[test], y[test])


def _codes(labels: np.ndarray) -> np.ndarray:
    return np.unique(labels, return_inverse=True)[1]


def _balanced(name: str) -> Callable[[int], Split]:
    def split(seed: int) -> Split:
        X, labels = data.tables()[name]
        return _drawn(X, _codes(labels), seed, labels)

    return split


def _imbalanced(name: str) -> Callable[[int], Split]:
    def split(seed: int) -> Split:
        X, labels = data.imbalanced_tables()[name]
        classes, counts = np.unique(labels, return_counts=True)
        y = (labels == classes[counts.argmin()]).astype(int)
        return _drawn(X, y, seed, y)

    return split


def _values(name: str) -> Callable[[int], Split]:
    def split(seed: int) -> Split:
        return _drawn(*data.value_tables()[name], seed, None)

    return split


def _given(read: Callable[[], tuple[Any, ...]]) -> Callable[[int], Split]:
    """The only split of data that come in two parts."""

    def split(seed: int) -> Split:
        X, labels, X_test, labels_test = read()
        codes = _codes(np.concatenate([labels, labels_test]))
        return Split(X, codes[: len(labels)], X_test, codes[len(labels) :])

    return split


def _digits(seed: int) -> Split:
    X, y = load_digits(return_X_y=True)
    return _drawn(X, y, seed, y)


def _some_fashion(n: int) -> Callable[[int], Split]:
    """Splits of n training images, always those that come first in one random order."""

    def split(seed: int) -> Split:
        X, y = data.fashion_mnist()[:2]
        chosen = np.random.default_rng(0).permutation(len(y))[:n]
        return _drawn(X[chosen], y[chosen], seed, y[chosen])

    return split


def _drawings(seed: int) -> Split:
    X, y, _ = data.quick_draw()
    return _drawn(X, y, seed, y)


def _sets() -> Iterable[DataSet]:
    yield DataSet("digits", SMALL, 1_797, None, 5, _digits)
    for name, n in BALANCED.items():
        yield DataSet(name, SMALL, n, "tables", usual_splits(n), _balanced(name))
    for n in (2_000, 10_000):
        yield DataSet(f"fashion_{n}", LARGE, n, "fashion-mnist", usual_splits(n), _some_fashion(n))
    yield DataSet("fashion_60000", LARGE, 70_000, "fashion-mnist", 1, _given(data.fashion_mnist))
    yield DataSet("mnist", LARGE, 70_000, "mnist", 1, _given(data.mnist))
    yield DataSet("quickdraw", LARGE, 34_500, "quickdraw", 1, _drawings)
    yield DataSet("newsgroups", TEXTS, 18_821, "newsgroups", 1, _given(data.newsgroups))
    yield DataSet("r52", TEXTS, 9_100, "reuters", 1, _given(data.reuters))
    yield DataSet("r8", TEXTS, 7_674, "reuters-8", 1, _given(data.reuters_8))
    for name, n in IMBALANCED.items():
        yield DataSet(name, IMBALANCE, n, "imbalanced-tables", usual_splits(n), _imbalanced(name))
    for name, n in VALUE_ROWS.items():
        yield DataSet(name, VALUES, n, "value-tables", usual_splits(n), _values(name))


SETS = {one.name: one for one in sorted(_sets(), key=lambda one: one.n_rows)}
"""All sets by name, those with the fewest rows first."""


def of_kind(*kinds: str) -> list[DataSet]:
    """The sets of some kinds; of all without kinds."""
    return [one for one in SETS.values() if not kinds or one.kind in kinds]


def set_named(name: str) -> DataSet:
    """The set of a name."""
    if name not in SETS:
        raise ValueError(f"There is no data set {name!r} in the contest; there are {', '.join(SETS)}.")
    return SETS[name]
