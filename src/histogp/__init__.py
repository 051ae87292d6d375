"""Gaussian processes on histogram-like data: exact, fast, scikit-learn compatible."""

from histogp._load import describe, load
from histogp.exceptions import DataError, ModelFileError, NotConvergedWarning, PrecisionWarning, VarianceWarning
from histogp.gp.classifier import HistogramGPClassifier
from histogp.gp.one_class import HistogramGPOneClass
from histogp.gp.optimizer import Optimizer
from histogp.gp.regressor import HistogramGPRegressor

__all__ = [
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
