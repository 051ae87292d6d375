"""Gaussian processes on histogram-like data: exact, fast, scikit-learn compatible."""

from histogp.container import ModelFileError
from histogp.estimators.classifier import HistogramGPClassifier
from histogp.estimators.load import load
from histogp.estimators.one_class import HistogramGPOneClass
from histogp.estimators.optimizer import Optimizer
from histogp.estimators.regressor import HistogramGPRegressor

__all__ = [
    "HistogramGPClassifier",
    "HistogramGPOneClass",
    "HistogramGPRegressor",
    "ModelFileError",
    "Optimizer",
    "load",
]
__version__ = "0.1.0.dev0"
