"""The names of histogp that are not public and that cases need all the same: all of them are here."""

from __future__ import annotations

import sys
from typing import Any

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
