"""The names of histogp that are not public and that cases need all the same: all of them are here."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from histogp._core.data import Rows
from histogp._core.operators.pair_measures import AllPairs, Points
from histogp._core.predictors import codes_of
from histogp._core.probability import Link, wanted_probabilities
from histogp._core.search import leave_one_out
from histogp._core.search.space import Data, Space
from histogp._core.solvers.problem import Noise

__all__ = [
    "COMMAND",
    "N_THREADS",
    "Link",
    "intersection_operator",
    "leave_one_out_search",
    "link_data",
    "pairs_of",
    "random_features",
]

N_THREADS = 2
# The command `histogp` of the package that Python imports, which need not be the installed one.
COMMAND = (sys.executable, "-m", "histogp.cli.main")


def intersection_operator(X: Any, kernel: Any) -> Any:
    """The kernel matrix of all rows of X as an operator, with `matmat`, `gradient` and `cost`."""
    adapted = kernel._adapt(X)
    return adapted.kernel._operator(adapted.value, X, N_THREADS)


def random_features(model: Any) -> tuple[float, Any]:
    """The factor of the ExpChi2 kernel of a fitted model, and its random waves."""
    value = model._posterior.kernel
    return value.parts[0].scale, value.map.waves


def pairs_of(X: Any, dtype: str) -> Any:
    """Measures of all pairs of rows, one thread: ``measure(name)`` computes one."""
    return AllPairs(Points.of(Rows.from_array(X), np.dtype(dtype)))


def leave_one_out_search(kernel: Any, X: Any, codes: Any) -> Callable[[float], Any]:
    """A function that evaluates the leave-one-out loss and all derivatives, a step away from the start."""
    adapted = kernel._adapt(X)
    operator = adapted.kernel._operator(adapted.value, X, N_THREADS).in_single()
    targets = np.where(codes[:, None] == np.unique(codes), 1.0, -1.0)
    data = Data(operator, Noise(np.full(len(X), 0.1)), targets)
    search = leave_one_out._Search(data, Space.of(adapted.value, operator.rows, 0.1, 1.0, None), True, None)
    return lambda step: search.evaluate(search.start + step)


def link_data(model: Any) -> tuple[Any, Any]:
    """The leave-one-out scores of the training samples of a classifier, and the probabilities wanted for them."""
    posterior = model._posterior
    left_out = posterior.leave_one_out(model._variance_options())
    codes = codes_of(posterior.given.targets)[left_out.index]
    return left_out.means, wanted_probabilities(codes, len(model.classes_))
