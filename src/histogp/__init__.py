"""Gaussian processes on histogram-like data: exact, fast, scikit-learn compatible."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from histogp.exceptions import (
        ApproximationWarning,
        DataError,
        ModelFileError,
        NotConvergedWarning,
        PrecisionWarning,
        VarianceWarning,
    )
    from histogp.gp.classifier import HistogramGPClassifier
    from histogp.gp.one_class import HistogramGPOneClass
    from histogp.gp.optimizer import Optimizer
    from histogp.gp.regressor import HistogramGPRegressor
    from histogp.io.schema import describe, load

__all__ = [
    "ApproximationWarning",
    "DataError",
    "HistogramGPClassifier",
    "HistogramGPOneClass",
    "HistogramGPRegressor",
    "ModelFileError",
    "NotConvergedWarning",
    "Optimizer",
    "PrecisionWarning",
    "VarianceWarning",
    "describe",
    "load",
]
__version__ = "0.1.0.dev0"

# Where the names are; a module is imported when one of its names is first asked for.
_MODULES = {
    "HistogramGPClassifier": "histogp.gp",
    "HistogramGPOneClass": "histogp.gp",
    "HistogramGPRegressor": "histogp.gp",
    "Optimizer": "histogp.gp",
    "describe": "histogp.io.schema",
    "load": "histogp.io.schema",
}


# Packages that are attributes as well.
_PACKAGES = ("active", "datasets", "exceptions", "feature_maps", "gp", "kernels", "plotting", "streaming")


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES.get(name, "histogp.exceptions")), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
