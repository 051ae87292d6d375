"""Gaussian processes on histogram-like data: exact, fast, scikit-learn compatible."""

from histogp.estimators.classifier import HistogramGPClassifier
from histogp.estimators.load import load
from histogp.estimators.one_class import HistogramGPOneClass
from histogp.estimators.optimizer import Optimizer
from histogp.estimators.regressor import HistogramGPRegressor
from histogp.exceptions import DataError, ModelFileError, NotConvergedWarning, PrecisionWarning, VarianceWarning

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
    "load",
]
__version__ = "0.1.0.dev0"
