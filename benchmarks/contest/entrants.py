"""The models of the contest, all as they come: peers of scikit-learn, the plain line, and our kernels by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import ComplementNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC

from benchmarks.contest.sets import IMBALANCE, TEXTS, VALUES
from histogp import HistogramGPClassifier, HistogramGPRegressor

OURS = "histogp"
BALANCED = "/balanced"  # ending of the name of an entrant with class_weight="balanced"
KERNELS = ("hik", "hik-poly", "chi2", "exp-chi2")
N_TREES = 300

Factory = Callable[[], Any]


class NonNegative(TransformerMixin, BaseEstimator):
    """Shifts features that are negative somewhere in training, by their minimum; what lies below later is zero."""

    def fit(self, X: Any, y: Any = None) -> NonNegative:
        """Find the minima."""
        self.shift_ = np.zeros(X.shape[1]) if sparse.issparse(X) else np.minimum(X.min(axis=0), 0)
        return self

    def transform(self, X: Any) -> Any:
        """The features, shifted; sparse ones as they are."""
        return X if sparse.issparse(X) else np.maximum(X - self.shift_, 0)


# Which of the classifiers can be told to weigh the classes.
_WEIGHTABLE: dict[str, Callable[..., Any]] = {
    "svc_rbf_1": partial(SVC, C=1.0),
    "svc_rbf_10": partial(SVC, C=10.0),
    "linear_svc": partial(LinearSVC, random_state=0),
    "logistic": partial(LogisticRegression, max_iter=1_000),
    "boosting": partial(HistGradientBoostingClassifier, random_state=0),
    "random_forest": partial(RandomForestClassifier, N_TREES, random_state=0),
    "extra_trees": partial(ExtraTreesClassifier, N_TREES, random_state=0),
}
_CLASSIFIERS: dict[str, Callable[..., Any]] = {
    **_WEIGHTABLE,
    "neighbors": partial(KNeighborsClassifier, 5),
    "complement_nb": ComplementNB,
}
_ON_RAW_FEATURES = {"boosting", "random_forest", "extra_trees"}
_REGRESSORS: dict[str, Factory] = {
    "ridge": lambda: make_pipeline(StandardScaler(), Ridge()),
    # Its C and epsilon are in units of the targets.
    "svr": lambda: TransformedTargetRegressor(make_pipeline(StandardScaler(), SVR()), transformer=StandardScaler()),
    "boosting": partial(HistGradientBoostingRegressor, random_state=0),
    "random_forest": partial(RandomForestRegressor, N_TREES, random_state=0),
    "extra_trees": partial(ExtraTreesRegressor, N_TREES, random_state=0),
}


def _classifier(name: str, kind: str, **options: Any) -> Any:
    """A classifier behind the preparation of features that it is used to."""
    model = _CLASSIFIERS[name](**options)
    if name == "boosting" and kind == TEXTS:
        return make_pipeline(FunctionTransformer(sparse.csr_array.toarray, accept_sparse=True), model)
    if name in _ON_RAW_FEATURES:
        return model
    return make_pipeline(TfidfTransformer() if kind == TEXTS else StandardScaler(), model)


def _kernel(name: str, kind: str) -> Any:
    """Our model with a kernel by name, on features that are made non-negative."""
    if kind == VALUES:
        model: Any = HistogramGPRegressor(name, optimize="gradient", normalize_y=True, random_state=0)
    else:
        model = HistogramGPClassifier(name, optimize="gradient", random_state=0)
    return make_pipeline(NonNegative(), model)


def peers(kind: str) -> dict[str, Factory]:
    """The peers for a kind of data sets, by name, without weights of classes."""
    if kind == VALUES:
        return dict(_REGRESSORS)
    names = [name for name in _CLASSIFIERS if name != "complement_nb" or kind == TEXTS]
    return {name: partial(_classifier, name, kind) for name in names}


def weighted_peers(kind: str) -> dict[str, Factory]:
    """The peers with class_weight="balanced", which only imbalanced sets ask for."""
    names = _WEIGHTABLE if kind == IMBALANCE else ()
    return {name + BALANCED: partial(_classifier, name, kind, class_weight="balanced") for name in names}


def named(kind: str) -> dict[str, Factory]:
    """Our kernels by name, with hyperparameters of the largest evidence."""
    return {name: partial(_kernel, name, kind) for name in KERNELS}


def ours(kind: str) -> dict[str, Factory]:
    """The plain line; for imbalanced sets also with class_weight="balanced"."""
    if kind == VALUES:
        return {OURS: HistogramGPRegressor}
    found: dict[str, Factory] = {OURS: HistogramGPClassifier}
    if kind == IMBALANCE:
        found[OURS + BALANCED] = partial(HistogramGPClassifier, class_weight="balanced")
    return found


def entrant(name: str, kind: str) -> Any:
    """A new model of a name for a kind of data sets."""
    every = {**peers(kind), **weighted_peers(kind), **named(kind), **ours(kind)}
    if name not in every:
        raise ValueError(f"There is no entrant {name!r} for {kind} sets; there are {', '.join(every)}.")
    return every[name]()
