"""The names of histogp that are not public and that cases need all the same: all of them are here."""

from __future__ import annotations

import sys
from typing import Any

from histogp.kernels import resolve
from histogp.operators.build import build_operator

N_THREADS = 2
# The command `histogp` of the package that Python imports, which need not be the installed one.
COMMAND = (sys.executable, "-m", "histogp.cli.main")


def intersection_operator(X: Any, kernel: Any) -> Any:
    """The kernel matrix of all rows of X as an operator, with `matmat`, `gradient` and `product_cost`."""
    return build_operator(X, resolve(kernel, X.shape[1]), N_THREADS)


def random_features(kernel: Any, n_features: int) -> tuple[float, Any]:
    """The factor of a fitted ExpChi2 kernel, and its feature map."""
    resolved = resolve(kernel, n_features)
    return resolved.diagonal(), resolved.feature_map
